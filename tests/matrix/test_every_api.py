"""Every API on every engine: the plain request of its row in `apis.ALL`, streamed and whole, judged as `conform` judges it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.matrix.conftest import ENGINES
from tests.matrix.every_api import cell_of, outcome, rows_of

from smg_core import Gateway
from smg_core.apis import ALL
from smg_simulator.conform.probes import Probe

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "probe.api"))]
PLAIN = [probe for _, probe in rows_of(ALL, "sim")]


@pytest.mark.parametrize("probe", PLAIN, ids=lambda probe: f"{probe.api}-{'stream' if probe.streamed else 'whole'}")
@pytest.mark.parametrize("engine", ENGINES)
async def test_an_api_answers_with_text(
    engine: str,
    probe: Probe,
    served: Callable[[str, str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    gateway, _ = await served(engine, "text")

    record_property("cell", cell_of(probe, engine))
    record_property("result", await outcome(called_by(gateway), probe, engine))
