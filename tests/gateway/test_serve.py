"""`serve` as an operator runs it: a process of its own, signals, several processes, its log, and what it says of mistakes.

Each process loads the whole gateway, which takes about a second of a core: what starts several takes that much longer.
"""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.shared import PATIENCE, PATIENT_ENVIRONMENT

from smg_core.testing import FakeClock
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

LONG = "A rather long answer that takes its time, word by word, until all of it is said. " * 2
PACED = SimulatorConfig(rules=(Rule((), Reply(LONG)),), timing=Timing(decode_rate=60))
HOLD_S = 60.0
HELD = SimulatorConfig(rules=(Rule((), Reply(LONG)),), faults=(Fault("stall", after=3, seconds=HOLD_S),) * 8)
"""An engine that says three tokens to each of eight requests, and the rest when its clock was moved on by `HOLD_S`."""
GUEST = Path(__file__).parent.parent / "guests" / "attacks.wasm"
QUICK = SimulatorConfig(rules=(Rule((), Reply("Yes.")),))
ENVIRONMENT = PATIENT_ENVIRONMENT | {name: value for name, value in os.environ.items() if not name.startswith("SMG_")}


@attrs.define
class Served:
    """A gateway's process, an engine, and a client."""

    process: asyncio.subprocess.Process
    engine: SimulatedEngine
    http: httpx.AsyncClient
    log: list[str]
    port: int

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    def told(self, word: str) -> list[str]:
        return [line for line in self.log if word in line]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.bounded", "serve", *arguments]


async def start(
    *arguments: str, env: dict[str, str] | None = None, session: bool = False
) -> asyncio.subprocess.Process:
    """A gateway's process, in a `session` of its own as one that a terminal has started."""
    return await asyncio.create_subprocess_exec(
        *command(*arguments),
        stderr=asyncio.subprocess.PIPE,
        env={**ENVIRONMENT, **(env or {})},
        start_new_session=session,
    )


@asynccontextmanager
async def serving(
    config: SimulatorConfig,
    *arguments: str,
    env: dict[str, str] | None = None,
    timer: FakeClock | None = None,
    session: bool = False,
) -> AsyncIterator[Served]:
    """A gateway on a free port, ready. The engine goes by `timer`, if there is one."""
    async with SimulatedEngine(config, timer=timer) as engine:
        given = ("--worker", engine.target, "--port", "0", *arguments)
        async with begun(engine, *given, env=env, session=session) as served:
            yield served


@asynccontextmanager
async def begun(
    engine: SimulatedEngine, *arguments: str, env: dict[str, str] | None = None, session: bool = False
) -> AsyncIterator[Served]:
    """A gateway with these arguments, which name this engine somehow, when it is ready."""
    process = await start(*arguments, env=env, session=session)
    log: list[str] = []
    reading = asyncio.create_task(read(process, log))
    try:
        url = await ready_at(process, log)
        many = httpx.Limits(max_connections=None)  # streams that are not read keep theirs
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, limits=many) as http:
            yield Served(process, engine, http, log, int(url.rpartition(":")[2]))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


async def read(process: asyncio.subprocess.Process, log: list[str]) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        log.append(line.decode().rstrip())


async def ready_at(process: asyncio.subprocess.Process, log: list[str]) -> str:
    """The URL of a process that writes `log`, once it has a worker."""
    await eventually(lambda: any("listening on" in line for line in log) or process.returncode, PATIENCE)
    url = next(line for line in log if "listening on" in line).split("listening on ")[1].split()[0]
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as http:
        await ready(http)
    return url


async def ready(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await http.get("/readiness")).status_code != 200:
            await asyncio.sleep(0.02)


async def text_of(answer: httpx.Response) -> tuple[str, list[dict[str, Any]]]:
    """What a stream said, and the errors in it."""
    events = [part.removeprefix("data: ") for part in (await answer.aread()).decode().split("\n\n")]
    told = [json.loads(event) for event in events if event.startswith("{")]
    text = "".join(each["choices"][0]["delta"].get("content") or "" for each in told if each.get("choices"))
    errors = [each["error"] for each in told if "error" in each]
    assert ("[DONE]" in events) != bool(errors)
    return text, errors


async def begin(served: Served, count: int) -> list[httpx.Response]:
    """Streams under way: each has said something."""
    requests = [served.http.build_request("POST", CHAT, json=body(f"{number}", stream=True)) for number in range(count)]
    return list(await asyncio.gather(*(served.http.send(request, stream=True) for request in requests)))


# ----------------------------------------------------------------------------------------------------- what it tells at first


@pytest.mark.full
async def test_it_says_when_the_first_worker_is_ready_and_what_to_try() -> None:
    async with serving(QUICK) as served:
        await eventually(lambda: served.told("ready, with sim; try: "))
        words = shlex.split(served.told("ready, with sim; try: ")[0].partition("try: ")[2])
        asked = await served.http.post(
            words[1].removeprefix(f"http://127.0.0.1:{served.port}"),
            content=words[-1],
            headers=dict([words[words.index("-H") + 1].split(": ")]),
        )

    assert len(served.told("no sealing.keys: ")) == 1
    assert words[0] == "curl"
    assert asked.json()["choices"][0]["message"]["content"] == "Yes."


@pytest.mark.full
async def test_it_reminds_of_workers_that_have_not_joined() -> None:
    process = await start("--worker", "grpc://127.0.0.1:1", "--port", "0", "--server-reminder-s", "0.05")
    log: list[str] = []
    reading = asyncio.create_task(read(process, log))
    await eventually(lambda: sum("still no worker" in line for line in log) >= 2)
    process.terminate()
    await process.wait()
    await reading

    assert any("grpc://127.0.0.1:1 (" in line for line in log if "still no worker" in line)


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
async def test_without_a_worker_in_the_time_it_was_given_the_start_fails_and_names_what_is_missing(
    processes: str,
) -> None:
    process = await start(
        *("--worker", "grpc://127.0.0.1:1", "--port", "0", "--wait-for-workers", "0.2", "--processes", processes)
    )
    _, told = await process.communicate()

    assert process.returncode == 1
    assert "no worker has joined within 0.2 s: grpc://127.0.0.1:1 (" in told.decode()
    assert "Traceback" not in told.decode()


@pytest.mark.full
async def test_it_waits_for_a_worker_that_comes_in_time_and_answers_nobody_before() -> None:
    engine = SimulatedEngine(QUICK)
    async with engine:
        port = engine.target.rpartition(":")[2]
    process = await start(
        *("--worker", f"grpc://127.0.0.1:{port}", "--port", "0", "--wait-for-workers", "60"),
        *("--server-reminder-s", "0.05"),
    )
    log: list[str] = []
    reading = asyncio.create_task(read(process, log))
    await eventually(lambda: any("still no worker" in line for line in log))
    url = next(line for line in log if "listening on" in line).split("listening on ")[1].split()[0]
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as http:
        asked = asyncio.create_task(http.post(CHAT, json=body()))
        async with SimulatedEngine(QUICK, listen=f"127.0.0.1:{port}"):
            answer = await asked
    process.terminate()
    await process.wait()
    await reading

    assert answer.status_code == 200


# ---------------------------------------------------------------------------------------------------------------- leaving


async def test_on_sigterm_streams_finish_new_requests_are_turned_away_and_the_process_ends_well() -> None:
    clock = FakeClock()
    async with serving(HELD, timer=clock) as served:
        streams = await begin(served, 8)
        served.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            while (await served.http.get("/readiness")).status_code != 503:
                pass
        turned_away = await served.http.post(CHAT, json=body())
        alive = await served.http.get("/liveness")
        clock.advance(HOLD_S)
        texts = [await text_of(stream) for stream in streams]
        status = await served.ended()

    assert texts == [(LONG, [])] * 8
    assert turned_away.status_code == 503
    assert turned_away.headers["connection"] == "close"
    assert int(turned_away.headers["retry-after"]) >= 1
    assert turned_away.json()["error"]["type"] == "server_error"
    assert alive.status_code == 200
    assert status == 0
    assert not served.told("Traceback")


@pytest.mark.full
async def test_with_nothing_under_way_sigterm_and_sigint_end_it_at_once() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        async with serving(QUICK) as served:
            assert (await served.http.post(CHAT, json=body())).status_code == 200
            served.process.send_signal(number)
            assert await served.ended() == 0
            assert not served.told("Traceback")


@pytest.mark.full
async def test_what_has_not_finished_when_the_drain_is_over_is_told_so_in_band() -> None:
    keys = ("--sealing-keys", "k" * 32)
    stalled = attrs.evolve(PACED, faults=(Fault("stall", after=3),))
    async with serving(stalled, "--server-drain-s", "0.1", *keys) as served:
        (stream,) = await begin(served, 1)
        served.process.send_signal(signal.SIGTERM)
        text, errors = await text_of(stream)
        status = await served.ended()
        await eventually(lambda: not served.engine.active)

    assert LONG.startswith(text)
    assert [error["message"] for error in errors] == ["The gateway is shutting down."]
    assert status == 0
    assert not served.told("Traceback")
    assert not served.told("ERROR"), served.log
    assert served.told("WARNING") == served.told("have not finished in 0.1 s and are ended")


@pytest.mark.full
async def test_a_second_signal_ends_it_without_waiting() -> None:
    async with serving(attrs.evolve(PACED, faults=(Fault("stall", after=3),)), "--server-drain-s", "3600") as served:
        (stream,) = await begin(served, 1)
        served.process.send_signal(signal.SIGTERM)
        await eventually(lambda: served.told("leaving"))
        served.process.send_signal(signal.SIGTERM)
        await served.ended()
        await eventually(lambda: not served.engine.active)
        await stream.aclose()

    assert not served.told("Traceback")


@pytest.mark.full
async def test_a_drain_waits_for_a_request_in_a_plugin_and_a_second_signal_does_not_wait_for_its_guest(
    tmp_path: Path,
) -> None:
    """The guest spins, and has five minutes for it: longer than the process may take to end here."""
    entry = {"source": str(GUEST), "config": {"do": "spin"}, "deadline_ms": 300_000}
    file = tmp_path / "plugins.json"
    file.write_text(json.dumps([entry]))
    async with serving(QUICK, "--middleware-file", str(file), "--server-drain-s", "3600") as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        sent = json.dumps(body()).encode()
        head = "POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write((head % (CHAT, len(sent))).encode() + sent)
        await writer.drain()
        for _ in range(5):  # what came before these has been read, and is with the plugin
            assert (await served.http.get("/liveness")).status_code == 200
        served.process.send_signal(signal.SIGTERM)
        await eventually(lambda: served.told("leaving: 1 request(s) in flight"))
        served.process.send_signal(signal.SIGTERM)
        await served.ended()
        assert b" 200 " not in await reader.read()
        writer.close()

    assert not served.told("Traceback")


@pytest.mark.full
async def test_a_request_whose_body_is_still_coming_when_the_drain_begins_is_turned_away_not_cut() -> None:
    async with serving(HELD, timer=FakeClock()) as served:
        await begin(served, 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        sent = json.dumps(body()).encode()
        writer.write(
            b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            % (CHAT.encode(), len(sent))
        )
        writer.write(sent[:5])
        await writer.drain()
        served.process.send_signal(signal.SIGTERM)
        await eventually(lambda: served.told("leaving"))
        writer.write(sent[5:])
        said = await reader.read()
        writer.close()

    assert said.startswith(b"HTTP/1.1 503 ")
    assert b"connection: close" in said


# -------------------------------------------------------------------------------------------------------- several processes


def children(process: asyncio.subprocess.Process) -> list[int]:
    """The processes that serve: children that run the gateway, without multiprocessing's own tracker."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [pid for pid in map(int, found) if b"spawn_main" in command_line(pid)]


def command_line(pid: int) -> bytes:
    """Nothing for a process that has ended, even while nobody has asked for its status."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.mark.full
async def test_two_processes_serve_and_one_that_is_killed_loses_its_own_requests_only_and_is_replaced() -> None:
    async with serving(PACED, "--processes", "2") as served:
        both = children(served.process)
        # Connections are spread by the kernel: enough of them reach both. All are kept, since any may be the other's only one.
        streams: list[httpx.Response] = []
        async with asyncio.timeout(PATIENCE):
            while len(busy(both, served.port)) < 2:
                streams += await begin(served, 16)
        os.kill(both[0], signal.SIGKILL)
        ends = await asyncio.gather(*map(text_of, streams), return_exceptions=True)
        await eventually(
            lambda: len(children(served.process)) == 2 and both[0] not in children(served.process), PATIENCE
        )
        await ready(served.http)
        after = await asyncio.gather(*(served.http.post(CHAT, json=body(f"{n}", max_tokens=1)) for n in range(20)))
        await eventually(lambda: not served.engine.active)
        served.process.send_signal(signal.SIGTERM)
        status = await served.ended()

    finished: list[Any] = [end for end in ends if end == (LONG, [])]
    cut = [end for end in ends if isinstance(end, httpx.RemoteProtocolError | httpx.ReadError)]
    assert finished
    assert len(finished) + len(cut) == len(ends)
    assert {answer.status_code for answer in after} == {200}
    assert served.told("starting another")
    assert status == 0


async def both_serve(served: Served) -> None:
    """Return once both of two processes take requests: connections are spread by the kernel, so enough of them reach both."""
    async with asyncio.timeout(PATIENCE):
        while len(busy(children(served.process), served.port)) < 2:
            assert {each.status_code for each in await begin(served, 8)} == {200}


async def kill_one(served: Served) -> int:
    """Kill the second process, whose number this is, and return once it is gone."""
    pid = children(served.process)[-1]
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: pid not in children(served.process), PATIENCE)
    return pid


async def statuses(served: Served, times: int = 8) -> set[int]:
    """What requests get that each come over a connection of their own."""
    found = set()
    for number in range(times):
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
            found.add((await http.post(CHAT, json=body(f"{number}", max_tokens=1))).status_code)
    return found


@asynccontextmanager
async def two_by_a_file(folder: Path) -> AsyncIterator[tuple[Served, Path, str]]:
    """A gateway of two processes, ready, whose settings (gateway.yaml) name a file of workers; that file, and what it says."""
    async with SimulatedEngine(QUICK) as engine:
        file, listed = folder / "workers.json", json.dumps([{"url": engine.target}])
        file.write_text(listed)
        settings = folder / "gateway.yaml"
        settings.write_text(f"workers:\n  file: {file}\n")
        given = ("--config", str(settings), "--processes", "2", "--server-restart-s", "0.05", "--port", "0")
        async with begun(engine, *given) as served:
            yield served, file, listed


@pytest.mark.full
async def test_a_process_whose_successor_cannot_start_takes_no_other_with_it_and_is_replaced_once_one_can(
    tmp_path: Path,
) -> None:
    async with two_by_a_file(tmp_path) as (served, file, listed):
        await both_serve(served)
        file.write_text("[{")
        killed = await kill_one(served)
        await eventually(lambda: len(served.told(" ended with 3; starting another")) >= 2, PATIENCE)
        meanwhile = await statuses(served)
        alone = served.process.returncode
        file.write_text(listed)
        await both_serve(served)
        now = children(served.process)
        served.process.send_signal(signal.SIGTERM)
        status = await served.ended()

    assert (len(now), killed in now) == (2, False)
    assert (meanwhile, alone, status) == ({200}, None, 0)
    assert not served.told("Traceback")


@pytest.mark.full
async def test_settings_that_let_a_slot_start_again_are_taken_on_sighup(tmp_path: Path) -> None:
    """The first slot is the one that stands empty: nothing else would be replaced before it."""
    async with two_by_a_file(tmp_path) as (served, file, listed):
        await both_serve(served)
        file.write_text("[{")
        os.kill(children(served.process)[0], signal.SIGKILL)
        await eventually(lambda: served.told(" ended with 3; starting another"), PATIENCE)
        (tmp_path / "other.json").write_text(listed)
        (tmp_path / "gateway.yaml").write_text(f"workers:\n  file: {tmp_path / 'other.json'}\n")
        served.process.send_signal(signal.SIGHUP)
        await eventually(lambda: served.told("another process takes over"), PATIENCE)
        await both_serve(served)
        served.process.send_signal(signal.SIGTERM)
        status = await served.ended()

    assert status == 0
    assert not served.told("Traceback")


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_first_start_with_a_file_of_workers_that_is_none_is_a_failure(tmp_path: Path, processes: str) -> None:
    file = tmp_path / "workers.json"
    file.write_text("[{")
    status, said = await failed("--workers-file", str(file), "--port", "0", "--processes", processes)

    assert status == 1
    assert [line for line in said if "the gateway cannot start" in line]
    assert not [line for line in said if "starting another" in line or "Traceback" in line]


def busy(pids: list[int], port: int) -> set[int]:
    """Those of `pids` that hold a connection on `port`."""
    wanted = f"0100007F:{port:04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if row[1] == wanted and row[3] == "01"}
    return {pid for pid in pids if inodes & links(Path(f"/proc/{pid}/fd"))}


def links(folder: Path) -> set[str]:
    """What a process has open; less what it closes meanwhile, and nothing where it has ended."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for each in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add(str(each.readlink()))
    return found


@pytest.mark.full
async def test_two_processes_let_streams_finish_on_sigterm() -> None:
    async with serving(PACED, "--processes", "2") as served:
        streams = await begin(served, 8)
        served.process.send_signal(signal.SIGTERM)
        texts = [await text_of(stream) for stream in streams]
        status = await served.ended()

    assert texts == [(LONG, [])] * 8
    assert status == 0


@pytest.mark.full
async def test_two_processes_let_streams_finish_on_ctrl_c_which_a_terminal_sends_to_all_of_them() -> None:
    async with serving(PACED, "--processes", "2", session=True) as served:
        streams = await begin(served, 8)
        os.killpg(served.process.pid, signal.SIGINT)
        texts = [await text_of(stream) for stream in streams]
        status = await served.ended()

    assert texts == [(LONG, [])] * 8
    assert status == 0
    assert not served.told("Traceback")


@pytest.mark.full
async def test_ctrl_c_while_the_processes_start_ends_them_well() -> None:
    process = await start("--worker", "grpc://127.0.0.1:1", "--port", "0", "--processes", "2", session=True)
    log: list[str] = []
    reading = asyncio.create_task(read(process, log))
    await eventually(lambda: len(children(process)) == 2, PATIENCE)
    os.killpg(process.pid, signal.SIGINT)
    async with asyncio.timeout(PATIENCE):
        status = await process.wait()
    await reading

    assert status == 0
    assert not [line for line in log if "Traceback" in line]


def running(pid: int) -> bool:
    return bool(command_line(pid))


@pytest.mark.full
async def test_processes_whose_supervisor_is_killed_finish_their_streams_and_go() -> None:
    async with serving(PACED, "--processes", "2") as served:
        both = children(served.process)
        streams = await begin(served, 8)
        served.process.kill()
        texts = [await text_of(stream) for stream in streams]
        await eventually(lambda: not any(map(running, both)), PATIENCE)

    assert texts == [(LONG, [])] * 8


# ------------------------------------------------------------------------------------------------------ settings and the log


@pytest.mark.full
async def test_every_request_is_a_line_of_the_access_log_that_holds_no_prompt() -> None:
    async with serving(QUICK, "--access-log") as served:
        await served.http.post(CHAT, json=body("a secret word"))
        await served.http.post(CHAT, json=body("a secret word", stream=True))
        await served.http.post(CHAT, json=body("a secret word", temperature=-1))
        await eventually(lambda: len(served.told(f"path={CHAT}")) == 3)

    assert [line.split("outcome=")[1].split()[0] for line in served.told(f"path={CHAT}")] == [
        "ok",
        "ok",
        "InvalidRequest",
    ]
    assert not served.told("secret")


@pytest.mark.full
async def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("model:\n  name: from-file\n  served_names: [alias]\nlimits:\n  n: 7\n  body_bytes: 2000\n")
    arguments = ("--config", str(file), "--limits-body-bytes", "3000")
    env = {"SMG_MODEL_NAME": "from-env", "SMG_LIMITS_BODY_BYTES": "1000"}
    async with serving(QUICK, *arguments, env=env) as served:
        models = [model["id"] for model in (await served.http.get("/v1/models")).json()["data"]]
        n = (await served.http.post(CHAT, json=body(model="alias", n=8))).json()["error"]["message"]
        large = (await served.http.post(CHAT, json=body("a" * 4000, model="alias"))).json()["error"]["message"]

    assert models == ["alias", "from-env"]
    assert "7" in n
    assert "3000" in large


async def failed(*arguments: str) -> tuple[int, list[str]]:
    process = await start(*arguments)
    async with asyncio.timeout(PATIENCE):
        _, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode().splitlines()


def complaint(lines: list[str], word: str) -> None:
    """It says what is wrong in one line, and shows nothing of the program."""
    assert len([line for line in lines if word in line]) == 1, lines
    assert not [line for line in lines if "Traceback" in line or 'File "' in line], lines
    assert len(lines) <= 3, lines


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_port_in_use_is_one_clear_line_and_a_failure(processes: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, said = await failed("--worker", "grpc://127.0.0.1:1", "--port", port, "--processes", processes)

    assert status == 1
    complaint(said, port)


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_folder_without_a_tokenizer_is_one_clear_line_and_a_failure(tmp_path: Path, processes: str) -> None:
    arguments = ("--worker", "grpc://127.0.0.1:1", "--port", "0", "--tokenizer", str(tmp_path))
    status, said = await failed(*arguments, "--processes", processes)

    assert status == 1
    news = ("listening on", "the history is in")
    for line in {line.partition("smg.server")[2] for line in said if not any(each in line for each in news)}:
        complaint([line], str(tmp_path))


@pytest.mark.full
@pytest.mark.parametrize("url", ["http//gpu:50051", "gpu-0:50051", "grpc://", "ftp://gpu:1", "grpc://user:word@gpu:1"])
async def test_a_url_that_is_none_is_one_clear_line_and_a_failure(url: str) -> None:
    status, said = await failed("--worker", url, "--port", "0")

    assert status != 0
    complaint([line for line in said if "listening on" not in line], "worker URL")
    assert not [line for line in said if "user:word" in line]


@pytest.mark.full
def test_a_missing_worker_an_unknown_flag_and_a_wrong_value_are_each_one_line() -> None:
    for arguments, word in (
        ((), "--worker"),
        (("--worker", "grpc://a:1", "--prot", "1"), "--port"),
        (("--worker", "grpc://a:1", "--port", "many"), "port"),
        (("--worker", "grpc://a:1", "--policy", "best"), "best"),
        (("--worker", "grpc://a:1", "--tokenizer", "/nowhere/at/all"), "/nowhere/at/all"),
    ):
        done = subprocess.run(command(*arguments), capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert word in done.stderr


NOISY = """
import logging

from smg_core.middleware.base import CONTINUE
from smg_core.middleware.python import PythonPlugin


class Noisy(PythonPlugin):
    async def on_request_head(self, head):
        logging.getLogger("noisy").warning("x" * 4000)
        return CONTINUE
"""


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_log_that_nobody_reads_any_more_holds_no_request_up(tmp_path: Path, processes: str) -> None:
    """Whatever writes there: the access log, and more than its pipe and our end of it take from everybody else."""
    (tmp_path / "noisy.py").write_text(NOISY)
    plugin = ("--middleware-plugins", "noisy:Noisy", "--observability-access-bytes", "65536")
    async with SimulatedEngine(QUICK) as engine:
        given = ("--worker", engine.target, "--port", "0", "--processes", processes, *plugin)
        process = await start(*given, env={"PYTHONPATH": str(tmp_path)})
        log: list[str] = []
        reading = asyncio.create_task(read(process, log))
        url = await ready_at(process, log)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as http:
            answers = [await http.post(CHAT, json=body("Hi")) for _ in range(150)]
        reading = asyncio.create_task(read(process, log))
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            status = await process.wait()
        await reading

    assert {each.status_code for each in answers} == {200}
    assert status == 0
    assert any("lines of the log were dropped" in line for line in log)
