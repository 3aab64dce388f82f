"""The link to the network namespace of one of three engines is broken under streams: all come to their end, right."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "bench"))

from chaos import APART, played
from chaos_namespace import can_have_namespaces

pytestmark = [pytest.mark.services, pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", sorted(APART))
async def test_no_stream_is_lost_or_wrong_when_the_link_to_one_engine_is_broken(name: str) -> None:
    assert can_have_namespaces(), "this needs root, and ip and tc, which tools/services.sh installs"
    outcome = await played(name, 9, 60, 40.0)

    assert (outcome.right, outcome.errors, outcome.ended) == (outcome.streams, (), True)
