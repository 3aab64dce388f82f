"""Five members of a gossip mesh in network namespaces: a crash, a stop and a split are known, and so is their end."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "bench"))

from mesh_split import STATED, can_split, times_of_a_split

pytestmark = [pytest.mark.services, pytest.mark.anyio, pytest.mark.timeout(300)]


async def test_crashes_stops_and_splits_are_known_in_time_and_so_is_their_end() -> None:
    assert can_split(), "this needs root, and ip, which tools/services.sh installs"
    seconds = await times_of_a_split()

    # How long it takes on a quiet machine is what bench/mesh_split.py measures; on a busy one each has four times that.
    assert {name: took for name, took in seconds.items() if name in STATED and took > 4 * STATED[name][1]} == {}
    assert seconds["lost while slow"] == 0
