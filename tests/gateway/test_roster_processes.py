"""What is changed at the admin door is changed in every process, and known to one that is started in another's place."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.test_serve import QUICK, Served, serving
from tests.shared import PATIENCE

from smg_core.simulator.server import SimulatedEngine

pytestmark = pytest.mark.anyio


async def answered(served: Served, times: int = 24) -> set[int]:
    """The statuses of requests that each come over a connection of their own, so that every process gets some."""

    async def one() -> int:
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
            return (await http.post(CHAT, json=body(max_tokens=2))).status_code

    return set(await asyncio.gather(*[one() for _ in range(times)]))


async def state(door: httpx.AsyncClient, name: str) -> str:
    rows = (await door.get("/admin/workers")).json()["workers"]
    return next((str(row["state"]) for row in rows if row["name"] == name), "none")


async def processes(door: httpx.AsyncClient) -> list[tuple[int, str]]:
    """Process id and status of those that have said something."""
    told = (await door.get("/admin/health")).json()["processes"]
    return [(each["pid"], each["status"]) for each in told]


async def test_a_change_is_made_in_every_process_and_in_those_that_are_started_later(tmp_path: Path) -> None:
    place = str(tmp_path / "admin.sock")
    async with (
        SimulatedEngine(QUICK) as other,
        serving(QUICK, "--processes", "2", "--admin-socket", place) as served,
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=place), base_url="http://localhost", timeout=PATIENCE
        ) as door,
        asyncio.timeout(PATIENCE),
    ):
        while [status for _, status in await processes(door)] != ["ready", "ready"]:
            await asyncio.sleep(0.05)
        first = (await door.get("/admin/workers")).json()["workers"][0]["name"]
        added = await door.post("/admin/workers", json={"url": other.target, "name": "other", "labels": {"zone": "b"}})
        while await state(door, "other") != "ready":
            await asyncio.sleep(0.05)
        drained = await door.post(f"/admin/workers/{first.replace('/', '%2F')}/drain", json={"wait_s": 30})
        before = served.engine.counters["requests"]
        seen: set[int] = set()
        while 503 in (statuses := await answered(served)):
            seen |= statuses  # the door tells how the worker is to one process; another may still be joining it
        to_the_drained = served.engine.counters["requests"] - before
        pids = [pid for pid, _ in await processes(door)]
        os.kill(pids[1], signal.SIGKILL)
        while pids[1] in (now := [pid for pid, _ in await processes(door)]) or 0 in now:
            await asyncio.sleep(0.05)
        while [status for _, status in await processes(door)] != ["ready", "ready"]:
            await asyncio.sleep(0.05)
        afterwards = await answered(served)
        to_the_drained_afterwards = served.engine.counters["requests"] - before

    assert (added.status_code, drained.json()["left"]) == (201, 0)
    assert seen <= {200, 503}
    assert statuses == {200}
    assert afterwards == {200}
    assert (to_the_drained, to_the_drained_afterwards) == (0, 0)
