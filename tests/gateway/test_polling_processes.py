"""Engines are asked for their health by one process of a gateway, and by another one when that is killed; with real processes."""

import asyncio
import os
import signal
from collections import deque
from pathlib import Path

import httpx
import pytest
from tests.gateway.test_roster_processes import processes
from tests.gateway.test_serve import QUICK, serving
from tests.shared import PATIENCE

from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def probing(engine: SimulatedEngine, count: int = 6) -> str:
    """The connection over which so many probes in a row come."""
    seen: deque[str] = deque(maxlen=count)
    engine.probed_by.clear()
    while len(seen) < count or len(set(seen)) > 1:
        if engine.probed_by:
            seen.append(engine.probed_by.popleft())
        else:
            await asyncio.sleep(0.01)
    return seen[0]


async def test_one_process_probes_an_engine_and_another_takes_over_when_it_is_killed(tmp_path: Path) -> None:
    place = str(tmp_path / "admin.sock")
    often = ("--workers-health-interval-s", "0.2", "--workers-probe-timeout-s", "0.5")
    async with (
        serving(QUICK, "--processes", "2", "--admin-socket", place, *often) as served,
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=place), base_url="http://localhost", timeout=PATIENCE
        ) as door,
        asyncio.timeout(PATIENCE),
    ):
        while [status for _, status in await processes(door)] != ["ready", "ready"]:
            await asyncio.sleep(0.05)
        before = now = await probing(served.engine)
        for pid in [pid for pid, _ in await processes(door)]:
            if now == before:
                os.kill(pid, signal.SIGKILL)
                now = await probing(served.engine)

    assert now != before
