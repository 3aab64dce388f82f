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
from tests.gateway.test_serve import LONG, PACED, QUICK, Served, begun, both_serve, children, serving, text_of
from tests.shared import PATIENCE

from smg_simulator.engine.clockwork import Timing
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.full,
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
    await eventually(lambda: not set(children(served.process)) & set(before), PATIENCE)
    return children(served.process)


async def hang_up(served: Served, processes: int = 2) -> list[int]:
    """Send SIGHUP and return the processes that were there, once those that serve have a successor."""
    before = children(served.process)
    done = len(served.told("another process takes over"))
    served.process.send_signal(signal.SIGHUP)
    await eventually(lambda: len(served.told("another process takes over")) == done + processes, PATIENCE)
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
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as kept:
            while not ended.is_set():
                number += 1
                if not fresh:
                    statuses.append(await answered(kept, number))
                    continue
                async with httpx.AsyncClient(
                    base_url=served.http.base_url, timeout=PATIENCE, trust_env=False
                ) as client:
                    statuses.append(await answered(client, number))

    async def stream(served: Served) -> None:
        """Stream again and again, each time on a new connection."""
        while not ended.is_set():
            async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as client:
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
            async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as client:
                message: str = (await client.post(CHAT, json=body(n=100))).json()["error"]["message"]
                return message

        before = await bound()
        file.write_text("limits:\n  n: [\n")
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: served.told("the settings stay as they were"), PATIENCE)
        still = await bound()
        file.write_text("limits:\n  n: 5\nserver:\n  host: localhost\n")
        await hang_up(served)
        after = {await bound() for _ in range(8)}

    assert "3" in before
    assert still == before
    assert {"5" in each for each in after} == {True}
    assert len(served.told("server.host")) == 1


async def test_settings_with_which_no_process_can_start_leave_the_processes_as_they_are(tmp_path: Path) -> None:
    file = config_file(tmp_path, 3)
    async with serving(QUICK, "--config", str(file), "--processes", "2") as served:
        before = children(served.process)
        file.write_text("sealing:\n  keys: [short]\n")
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: served.told("the others stay") or served.told("the settings stay"), PATIENCE)
        answer = await served.http.post(CHAT, json=body())
        await eventually(lambda: children(served.process) == before, PATIENCE)
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
            async with asyncio.timeout(PATIENCE):
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


async def test_a_process_without_a_supervisor_reads_its_settings_again_and_tells_the_service_manager(
    tmp_path: Path,
) -> None:
    file = config_file(tmp_path, 3)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        loop = asyncio.get_running_loop()

        async def heard(count: int) -> list[str]:
            async with asyncio.timeout(PATIENCE):
                return [(await loop.sock_recv(manager, 1000)).decode().split("\n")[0] for _ in range(count)]

        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        async with serving(QUICK, "--config", str(file), env=env) as served:
            started = await heard(1)
            file.write_text("limits:\n  n: 5\nserver:\n  host: localhost\n")
            served.process.send_signal(signal.SIGHUP)
            reloaded = await heard(2)
            after = await bound_of(served)
            file.write_text("limits:\n  n: [\n")
            served.process.send_signal(signal.SIGHUP)
            kept = await heard(2)
            still = await bound_of(served)
            served.process.send_signal(signal.SIGTERM)
            ending = await heard(1)
            await served.ended()

    assert (started, reloaded, kept, ending) == (
        ["READY=1"],
        ["RELOADING=1", "READY=1"],
        ["RELOADING=1", "READY=1"],
        ["STOPPING=1"],
    )
    assert "5" in after
    assert still == after
    assert served.told("server.host")
    assert len(served.told("the settings stay as they were")) == 1


async def bound_of(served: Served) -> str:
    """What a process that takes the next connection says of `limits.n`."""
    async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as client:
        message: str = (await client.post(CHAT, json=body(n=100))).json()["error"]["message"]
        return message


def door_at(place: Path) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(place)),
        base_url="http://localhost",
        timeout=PATIENCE,
        trust_env=False,
    )


async def test_workers_are_those_of_the_edited_files_and_what_an_operator_drains_goes_on_draining(
    tmp_path: Path,
) -> None:
    listed, place = tmp_path / "workers.yaml", tmp_path / "admin.sock"
    settings = tmp_path / "gateway.yaml"

    def written(*workers: str) -> None:
        listed.write_text("".join(f"- {{url: 'grpc://127.0.0.1:1', {each}}}\n" for each in workers))

    def urls(*targets: str) -> None:
        named = ", ".join(f"'{each}'" for each in targets)
        settings.write_text(f"workers: {{file: '{listed}', urls: [{named}]}}\n")

    async def rows() -> dict[str, tuple[str, float, str]]:
        """Source, weight and state of each worker by its name, at the door of the process that is there now."""
        async with door_at(place) as door:
            found = (await door.get("/admin/workers")).json()["workers"]
        return {each["name"]: (each["source"], each["weight"], each["state"]) for each in found}

    two, three, four = (f"grpc://127.0.0.1:{port}" for port in (2, 3, 4))
    written("name: heavy, weight: 1", "name: kept", "name: gone")
    async with SimulatedEngine(QUICK) as engine:
        urls(engine.target, two, three)
        arguments = ("--config", str(settings), "--port", "0", "--processes", "2", "--admin-socket", str(place))
        arguments += ("--discovery-file-interval-s", "0")
        async with begun(engine, *arguments) as served:
            async with door_at(place) as door:
                changes = [
                    await door.patch(f"/admin/workers/{name}", json={"weight": 7})
                    for name in ("heavy", "gone", two.replace("/", "%2F"))
                ]
                changes.append(await door.post("/admin/workers/kept/drain", json={}))
                changes.append(await door.post("/admin/workers", json={"url": engine.target, "name": "mine"}))
            written("name: heavy, weight: 2", "name: kept", "name: new")
            urls(engine.target, three, four)
            await hang_up(served)
            async with asyncio.timeout(PATIENCE):
                while not {"new", four} <= (now := await rows()).keys() or {"gone", two} & now.keys():
                    await asyncio.sleep(0.05)

    assert [each.status_code for each in changes] == [200, 200, 200, 200, 201]
    assert now["heavy"][:2] == ("file", 2.0)
    assert now["kept"] == ("file", 1.0, "draining")
    assert now["mine"][0] == "admin"
    assert now[three][:2] == ("settings", 1.0)
    assert not served.told("Traceback")


async def test_a_succession_that_fails_leaves_what_was_changed_live_also_to_processes_that_are_started_later(
    tmp_path: Path,
) -> None:
    file, place = config_file(tmp_path, 3), tmp_path / "admin.sock"
    async with (
        serving(QUICK, "--config", str(file), "--processes", "2", "--admin-socket", str(place)) as served,
        door_at(place) as door,
    ):
        config_file(tmp_path, 5)
        assert (await door.post("/admin/reload", json={})).json()["changed"] == ["limits.n"]
        file.write_text("limits:\n  n: 9\nhistory:\n  url: sqlite:////nowhere/at/all/history.db\n")
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: served.told("the others stay"), PATIENCE)
        before = children(served.process)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        await eventually(
            lambda: len(children(served.process)) == 2 and not {*children(served.process)} & {*before}, PATIENCE
        )
        told = {await bound_of(served) for _ in range(6)}

    assert {"5" in each and "9" not in each for each in told} == {True}


@pytest.mark.parametrize(
    ("edited", "then"), [("warning", "warning"), pytest.param("info", "debug", marks=pytest.mark.full)]
)
async def test_the_log_level_of_an_edited_file_wins_over_one_that_was_set_for_good_before(
    edited: str, then: str, tmp_path: Path
) -> None:
    file, place = tmp_path / "gateway.yaml", tmp_path / "admin.sock"
    file.write_text("observability: {log_level: info}\n")
    arguments = ("--config", str(file), "--server-supervised", "--admin-socket", str(place))
    async with serving(QUICK, *arguments) as served:
        async with door_at(place) as door:
            assert (await door.put("/admin/log-level", json={"level": "debug"})).json()["level"] == "debug"
        file.write_text(f"observability: {{log_level: {edited}}}\n")
        before = children(served.process)
        await served.http.aclose()  # a process whose connections are closed goes as soon as it has a successor
        served.process.send_signal(signal.SIGHUP)
        await replaced(served, before)  # hang_up() waits for a line of the log that the new level may leave out
        async with door_at(place) as door:
            now = (await door.get("/admin/log-level")).json()["level"]

    assert now == then


async def test_a_process_that_dies_while_its_successor_starts_is_followed_by_that_one_alone(tmp_path: Path) -> None:
    file = config_file(tmp_path, 3)
    async with serving(QUICK, "--config", str(file), "--server-supervised") as served:
        (before,) = children(served.process)
        config_file(tmp_path, 5)
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(children(served.process)) == 2, PATIENCE)
        os.kill(before, signal.SIGKILL)
        await eventually(lambda: served.told("before its successor was ready"), PATIENCE)
        after = await bound_of(served)
        now = children(served.process)
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(children(served.process)) == 2, PATIENCE)
        served.process.send_signal(signal.SIGTERM)  # while another succession is under way
        status = await served.ended()

    assert "5" in after
    assert len(now) == 1
    assert before not in now
    assert status == 0
    assert not served.told("Traceback")


async def test_sources_of_workers_are_asked_by_the_process_that_takes_over(tmp_path: Path) -> None:
    listed, place = tmp_path / "workers.yaml", tmp_path / "admin.sock"
    listed.write_text("- {url: 'grpc://127.0.0.1:1', name: first}\n")
    arguments = ("--workers-file", str(listed), "--processes", "2", "--admin-socket", str(place))
    async with serving(QUICK, *arguments, "--discovery-file-interval-s", "0.05") as served:

        async def named(name: str) -> None:
            """Write a file with this worker alone, and wait until it is there and no other of the file is."""
            listed.write_text(f"- {{url: 'grpc://127.0.0.1:1', name: {name}}}\n")
            async with asyncio.timeout(PATIENCE):
                while True:
                    async with door_at(place) as door:
                        rows = (await door.get("/admin/workers")).json()["workers"]
                    if [each["name"] for each in rows if each["source"] == "file"] == [name]:
                        return
                    await asyncio.sleep(0.05)

        await named("second")
        for count in range(2):
            before = await hang_up(served)
            await replaced(served, before)
            await named(f"after{count}")
        first = min(children(served.process))
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: len(children(served.process)) == 2 and first not in children(served.process), PATIENCE)
        await named("last")


async def test_while_the_first_process_cannot_start_another_asks_the_sources_of_workers(tmp_path: Path) -> None:
    listed, history, away = tmp_path / "workers.yaml", tmp_path / "history.db", tmp_path / "away.db"
    listed.write_text("[]")
    arguments = ("--workers-file", str(listed), "--processes", "2", "--discovery-file-interval-s", "0.05")
    arguments += ("--history", f"sqlite:///{history}", "--server-restart-s", "0.05")
    async with SimulatedEngine(attrs.evolve(QUICK, model="other")) as other, serving(QUICK, *arguments) as served:
        await both_serve(served)
        history.rename(away)
        history.mkdir()  # what serves goes on; what starts cannot open it
        os.kill(min(children(served.process)), signal.SIGKILL)
        await eventually(lambda: len(served.told(" ended with 3; starting another")) >= 2, PATIENCE)
        listed.write_text(json.dumps([{"url": other.target}]))
        async with asyncio.timeout(PATIENCE):
            while (await served.http.post(CHAT, json=body("Hello", model="other"))).status_code != 200:
                await asyncio.sleep(0.05)
        history.rmdir()
        away.rename(history)
        await both_serve(served)
        served.process.send_signal(signal.SIGTERM)
        assert await served.ended() == 0


async def test_the_admin_door_and_the_metrics_know_the_new_processes(tmp_path: Path) -> None:
    door = tmp_path / "admin.sock"
    async with serving(PACED, "--processes", "2", "--admin-socket", str(door)) as served:
        before = await hang_up(served)
        transport = httpx.AsyncHTTPTransport(uds=str(door))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE) as client:

            async def processes() -> dict[int, str]:
                async with asyncio.timeout(PATIENCE):
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
