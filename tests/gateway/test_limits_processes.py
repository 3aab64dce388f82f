"""A limit holds over all processes of a gateway, and what a killed one has reserved is free again."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.test_roster_processes import processes
from tests.gateway.test_serve import QUICK, Served, serving
from tests.shared import PATIENCE

from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SLOW = SimulatorConfig(seed=1, reply_tokens=20_000, timing=Timing(decode_rate=50))


async def statuses(served: Served, times: int) -> Counter[int]:
    """The statuses of requests that each come over a connection of their own, so that every process gets some."""

    async def one() -> int:
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
            return (await http.post(CHAT, json=body(max_tokens=2))).status_code

    return Counter(await asyncio.gather(*[one() for _ in range(times)]))


@pytest.mark.full
async def test_several_processes_admit_the_limit_and_not_one_more() -> None:
    async with serving(QUICK, "--processes", "2", "--limits-rules", "15 requests/hour") as served:
        found = await statuses(served, 60)

    assert found == {200: 15, 429: 45}


@pytest.mark.full
async def test_the_places_of_a_killed_process_are_free_again(tmp_path: Path) -> None:
    place = str(tmp_path / "admin.sock")
    flags = ("--processes", "2", "--admin-socket", place, "--limits-rules", "1 at-once")
    async with (
        serving(SLOW, *flags) as served,
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=place), base_url="http://localhost", timeout=PATIENCE
        ) as door,
        asyncio.timeout(PATIENCE),
    ):
        while [status for _, status in await processes(door)] != ["ready", "ready"]:
            await asyncio.sleep(0.05)
        asking = asyncio.create_task(served.http.post(CHAT, json=body(stream=True)))
        while not served.engine.active:
            await asyncio.sleep(0.01)
        refused = await statuses(served, 4)
        busy: list[int] = []
        while not busy:  # each process says how many requests it has every now and then
            told = (await door.get("/admin/health")).json()["processes"]
            busy = [each["pid"] for each in told if each["in_flight"]]
            await asyncio.sleep(0.02)
        os.kill(busy[0], signal.SIGKILL)
        await asyncio.gather(asking, return_exceptions=True)
        while 200 not in await statuses(served, 1):
            await asyncio.sleep(0.05)

    assert refused == {429: 4}
