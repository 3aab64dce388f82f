"""SIGHUP replaces the processes of a gateway one by one: no connection is refused, no stream is cut, and the settings are new."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.gateway.test_serve import LONG, PACED, QUICK, Served, children, serving, text_of

from smg_core.simulator.clockwork import Timing

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),  # each process that is started loads the whole gateway
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and signals that other systems lack"),
]


SLOW = attrs.evolve(PACED, timing=Timing(decode_rate=20))


def config_file(folder: Path, n: int) -> Path:
    file = folder / "gateway.yaml"
    file.write_text(f"limits:\n  n: {n}\n")
    return file


async def replaced(served: Served, before: list[int]) -> list[int]:
    """The processes once all of `before` have been replaced and are gone."""
    await eventually(lambda: not set(children(served.process)) & set(before), 200)
    return children(served.process)


async def hang_up(served: Served, processes: int = 2) -> list[int]:
    """Send SIGHUP and return the processes that were there, once those that serve have a successor."""
    before = children(served.process)
    done = len(served.told("another process takes over"))
    served.process.send_signal(signal.SIGHUP)
    await eventually(lambda: len(served.told("another process takes over")) == done + processes, 200)
    return before


async def answered(client: httpx.AsyncClient, number: int) -> int:
    return (await client.post(CHAT, json=body(f"{number}", max_tokens=2))).status_code


@pytest.mark.parametrize(("processes", "hangups", "arguments"), [(2, 2, ()), (1, 3, ("--server-supervised",))])
async def test_under_load_no_connection_is_refused_and_no_stream_is_cut(
    processes: int, hangups: int, arguments: tuple[str, ...]
) -> None:
    ended = asyncio.Event()
    statuses: list[int] = []
    texts: list[object] = []

    async def ask(served: Served, fresh: bool) -> None:
        """Ask again and again, on one connection that is kept, or each time on a new one."""
        number = 0
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=60, trust_env=False) as kept:
            while not ended.is_set():
                number += 1
                if not fresh:
                    statuses.append(await answered(kept, number))
                    continue
                async with httpx.AsyncClient(base_url=served.http.base_url, timeout=60, trust_env=False) as client:
                    statuses.append(await answered(client, number))

    async def stream(served: Served) -> None:
        """Stream again and again, each time on a new connection."""
        while not ended.is_set():
            async with httpx.AsyncClient(base_url=served.http.base_url, timeout=120, trust_env=False) as client:
                request = client.build_request("POST", CHAT, json=body(stream=True))
                texts.append(await text_of(await client.send(request, stream=True)))

    async with serving(SLOW, "--processes", f"{processes}", *arguments) as served:
        asking = [asyncio.create_task(ask(served, fresh=bool(at % 2))) for at in range(2)]
        asking += [asyncio.create_task(stream(served)) for _ in range(3)]
        await eventually(lambda: served.engine.active >= 3)
        for _ in range(hangups):
            before = await hang_up(served, processes)
        ended.set()
        await asyncio.gather(*asking)
        await served.http.aclose()
        now = await replaced(served, before)
        served.process.send_signal(signal.SIGTERM)
        status = await served.ended()

    assert len(served.told("takes over: ")) == processes * hangups
    assert set(map(str, texts)) == {str((LONG, []))}
    assert set(statuses) == {200}
    assert len(now) == processes
    assert status == 0
    assert not served.told("Traceback")


async def test_new_processes_have_the_settings_of_the_file_as_it_is_then(tmp_path: Path) -> None:
    file = config_file(tmp_path, 3)
    async with serving(QUICK, "--config", str(file), "--processes", "2") as served:

        async def bound() -> str:
            async with httpx.AsyncClient(base_url=served.http.base_url, timeout=60, trust_env=False) as client:
                message: str = (await client.post(CHAT, json=body(n=100))).json()["error"]["message"]
                return message

        before = await bound()
        file.write_text("limits:\n  n: [\n")
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: served.told("the settings stay as they were"), 100)
        still = await bound()
        file.write_text("limits:\n  n: 5\nserver:\n  backlog: 77\n")
        await hang_up(served)
        after = {await bound() for _ in range(8)}

    assert "3" in before
    assert still == before
    assert {"5" in each for each in after} == {True}
    assert len(served.told("server.backlog")) == 1


async def test_settings_with_which_no_process_can_start_leave_the_processes_as_they_are(tmp_path: Path) -> None:
    file = config_file(tmp_path, 3)
    async with serving(QUICK, "--config", str(file), "--processes", "2") as served:
        before = children(served.process)
        file.write_text("sealing:\n  keys: [short]\n")
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: served.told("the others stay") or served.told("the settings stay"), 100)
        answer = await served.http.post(CHAT, json=body())
        await eventually(lambda: children(served.process) == before, 100)
        file.write_text("limits:\n  n: 5\n")
        await hang_up(served)

    assert answer.status_code == 200


async def test_the_service_manager_is_told_when_processes_were_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        loop = asyncio.get_running_loop()
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"}
        told: list[str] = []

        async def hear(word: str) -> None:
            async with asyncio.timeout(200):
                while word not in told:
                    told.append((await loop.sock_recv(manager, 1000)).decode().split("\n")[0])

        async with serving(QUICK, "--processes", "2", env=env) as served:
            await hear("READY=1")
            told.clear()
            served.process.send_signal(signal.SIGHUP)
            await hear("RELOADING=1")
            await hear("READY=1")
            await hear("WATCHDOG=1")
            served.process.send_signal(signal.SIGTERM)
            await hear("STOPPING=1")
            await served.ended()


async def test_a_process_without_a_supervisor_goes_on_after_sighup() -> None:
    async with serving(QUICK) as served:
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: served.told("--server-supervised"))
        answer = await served.http.post(CHAT, json=body())

    assert answer.status_code == 200


async def test_the_admin_door_and_the_metrics_know_the_new_processes(tmp_path: Path) -> None:
    door = tmp_path / "admin.sock"
    async with serving(PACED, "--processes", "2", "--admin-socket", str(door)) as served:
        before = await hang_up(served)
        transport = httpx.AsyncHTTPTransport(uds=str(door))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:

            async def processes() -> dict[int, str]:
                async with asyncio.timeout(100):
                    while True:
                        shown = json.loads((await client.get("/admin/health")).content)["processes"]
                        if not {each["pid"] for each in shown} & set(before):
                            return {each["pid"]: each["status"] for each in shown}
                        await asyncio.sleep(0.02)

            await replaced(served, before)
            shown = await processes()

    assert set(shown.values()) == {"ready"}
    assert len(shown) == 2
    assert os.getpid() not in shown
