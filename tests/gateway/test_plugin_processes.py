"""A plugin that is put or removed at the admin door is so in every process, and in one that is started in another's place."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest
from tests.gateway.test_plugins import GUESTS, component
from tests.gateway.test_roster_processes import answered, processes
from tests.gateway.test_serve import QUICK, serving
from tests.shared import PATIENCE

pytestmark = pytest.mark.anyio


async def both_ready(door: httpx.AsyncClient) -> list[int]:
    found: list[tuple[int, str]] = []
    while [status for _, status in found] != ["ready", "ready"]:
        await asyncio.sleep(0.05)
        found = await processes(door)
    return [pid for pid, _ in found]


@pytest.mark.full
async def test_every_process_has_the_same_plugins_whenever_it_was_started(tmp_path: Path) -> None:
    place = str(tmp_path / "admin.sock")
    entry = component(GUESTS / "attacks.wasm", "refuse")
    async with (
        serving(QUICK, "--processes", "2", "--admin-socket", place) as served,
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=place), base_url="http://localhost", timeout=PATIENCE
        ) as door,
        asyncio.timeout(PATIENCE),
    ):
        await both_ready(door)
        free = await answered(served)
        put = await door.put("/admin/plugins/guard", json={"entry": entry})
        while (guarded := await answered(served)) != {403}:  # the other process is told over the channel
            await asyncio.sleep(0.05)
        pids = await both_ready(door)
        os.kill(pids[1], signal.SIGKILL)
        while pids[1] in (now := [pid for pid, _ in await processes(door)]) or 0 in now:
            await asyncio.sleep(0.05)
        await both_ready(door)
        guarded_afterwards = await answered(served)
        removed = await door.delete("/admin/plugins/guard")
        while (free_again := await answered(served)) != {200}:
            await asyncio.sleep(0.05)

    assert (put.status_code, removed.status_code) == (200, 200), put.text
    assert (free, guarded, guarded_afterwards, free_again) == ({200}, {403}, {403}, {200})


@pytest.mark.full
async def test_a_process_starts_without_the_file_of_a_plugin_that_was_put_and_refuses_what_that_was_to_see(
    tmp_path: Path,
) -> None:
    place, guest = str(tmp_path / "admin.sock"), tmp_path / "guard.wasm"
    guest.write_bytes((GUESTS / "attacks.wasm").read_bytes())
    async with (
        serving(QUICK, "--processes", "2", "--admin-socket", place) as served,
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=place), base_url="http://localhost", timeout=PATIENCE
        ) as door,
        asyncio.timeout(PATIENCE),
    ):
        pids = await both_ready(door)
        put = await door.put("/admin/plugins/guard", json={"entry": component(guest, on_failure="closed")})
        seen = await answered(served)
        guest.unlink()
        os.kill(pids[1], signal.SIGKILL)
        while pids[1] in (now := [pid for pid, _ in await processes(door)]) or 0 in now:
            await asyncio.sleep(0.05)
        await both_ready(door)
        while len(without := await answered(served)) < 2:
            await asyncio.sleep(0.05)

    assert (put.status_code, seen) == (200, {200}), put.text
    assert without == {200, 500}
    assert served.told("guard.wasm")
