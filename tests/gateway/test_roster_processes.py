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

from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio


async def answered(served: Served, times: int = 24) -> set[int]:
    """The statuses of requests that each come over a connection of their own, so that every process gets some."""

    async def one() -> int:
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
            return (await http.post(CHAT, json=body(max_tokens=2))).status_code

    return set(await asyncio.gather(*[one() for _ in range(times)]))


async def states(door: httpx.AsyncClient, name: str) -> dict[str, int]:
    """How many processes have a worker in which state."""
    rows = (await door.get("/admin/workers")).json()["workers"]
    return next((row["processes"] for row in rows if row["name"] == name), {})


async def processes(door: httpx.AsyncClient) -> list[tuple[int, str]]:
    """Process id and status of those that have said something."""
    told = (await door.get("/admin/health")).json()["processes"]
    return [(each["pid"], each["status"]) for each in told]


@pytest.mark.full
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
        while await states(door, "other") != {"ready": 2}:
            await asyncio.sleep(0.05)
        drained = await door.post(f"/admin/workers/{first.replace('/', '%2F')}/drain", json={"wait_s": 30})
        before = served.engine.counters["requests"]
        statuses = await answered(served)
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
    assert statuses == {200}
    assert afterwards == {200}
    assert (to_the_drained, to_the_drained_afterwards) == (0, 0)


@pytest.mark.full
async def test_a_drain_that_a_process_is_late_with_is_not_said_to_be_done(tmp_path: Path) -> None:
    place = str(tmp_path / "admin.sock")
    late = "--channel-publish-s", "1"
    async with (
        serving(QUICK, "--processes", "2", "--admin-socket", place, *late) as served,
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=place), base_url="http://localhost", timeout=PATIENCE
        ) as door,
        asyncio.timeout(PATIENCE),
    ):
        while [status for _, status in await processes(door)] != ["ready", "ready"]:
            await asyncio.sleep(0.05)
        name = (await door.get("/admin/workers")).json()["workers"][0]["name"].replace("/", "%2F")
        before = served.engine.counters["requests"]
        second = (await processes(door))[1][0]
        os.kill(second, signal.SIGSTOP)
        try:
            refused = await door.post(f"/admin/workers/{name}/drain", json={})
        finally:
            os.kill(second, signal.SIGCONT)
        while (drained := await door.post(f"/admin/workers/{name}/drain", json={"wait_s": 60})).status_code == 503:
            pass
        statuses = await answered(served)
        to_the_drained = served.engine.counters["requests"] - before

    assert refused.status_code == 503
    assert "It is not known whether" in refused.json()["error"]["message"]
    assert (drained.status_code, drained.json()["left"], drained.json()["worker"]["processes"]) == (
        200,
        0,
        {"draining": 2},
    )
    assert (statuses, to_the_drained) == ({503}, 0)
