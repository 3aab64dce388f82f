"""`smg-gateway up`: real engines of the simulator and a real gateway, as processes: started, watched, and ended."""

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.core.up.running_up import QUESTION, ROOT, free_port, is_alive, pid_in, script, simulator, up
from tests.shared import PATIENCE

from smg_core.up import supervisor
from smg_core.up.plan import up_plan_of


@pytest.mark.full
def test_engines_start_in_order_the_gateway_behind_them_and_all_end_in_the_reverse(tmp_path: Path) -> None:
    with up(tmp_path, simulator("second", after=["first"]), simulator("first")) as running:
        pids = [pid_in(running.until("up .* first starts"))]
        running.until("up .* first is ready after")
        pids.append(pid_in(running.until("up .* second starts")))
        running.until("up .* second is ready after")
        running.until("up .* gateway is ready after")
        answer = httpx.post(f"http://127.0.0.1:{running.port}/v1/chat/completions", json=QUESTION, timeout=PATIENCE)
        running.process.send_signal(signal.SIGINT)
        assert running.leaves() == 0

    assert answer.status_code == 200
    ends = [line.split("| ")[1] for line in running.lines if line.startswith("up") and line.endswith("has ended")]
    assert ends == ["gateway has ended", "second has ended", "first has ended"]
    assert not any(map(is_alive, pids))
    assert any(line.startswith("gateway | ") for line in running.lines)


@pytest.mark.full
def test_an_engine_that_will_not_start_ends_all_and_its_last_words_are_said(tmp_path: Path) -> None:
    broken = script("broken", "import sys; print('CUDA out of memory'); sys.exit(3)")
    with up(tmp_path, simulator("fine"), broken) as running:
        assert running.leaves() == 1

    said = "\n".join(running.lines)
    assert "broken has ended with 3 before it was ready" in said
    assert "up      | CUDA out of memory" in said
    assert "gateway is ready" not in said


@pytest.mark.full
@pytest.mark.parametrize("command", [["/no/such/program"], "no-such-program-here --x"])
def test_a_program_that_is_not_there_is_said(tmp_path: Path, command: Any) -> None:
    with up(tmp_path, {"name": "lost", "command": command}) as running:
        assert running.leaves() == 1

    assert any("lost cannot be started: No such file or directory" in line for line in running.lines)


@pytest.mark.full
def test_an_engine_that_never_answers_is_given_up_after_its_time(tmp_path: Path) -> None:
    with up(tmp_path, script("silent", "import time; time.sleep(3600)", start_s=1)) as running:
        assert running.leaves() == 1

    assert any("silent has not come up within 1 s" in line for line in running.lines)


@pytest.mark.full  # two starts of an engine, one of a gateway
@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGKILL, "has served, and ended with -9"), (signal.SIGSTOP, "has not answered for 1 s")],
    ids=["dies", "hangs"],
)
def test_an_engine_that_dies_or_hangs_is_started_again(tmp_path: Path, number: signal.Signals, words: str) -> None:
    with up(tmp_path, simulator("engine", hang_s=1)) as running:
        pid = pid_in(running.until("up .* engine starts"))
        running.until("up .* gateway is ready after")
        os.kill(pid, number)
        running.until(f"up .* engine .*{words}; started again in")
        assert pid_in(running.until("up .* engine starts")) != pid
        running.until("up .* engine is ready after")
        running.process.send_signal(signal.SIGTERM)
        assert running.leaves() == 0

    assert not is_alive(pid)


@pytest.mark.full
def test_a_second_interrupt_ends_all_at_once(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(3600)"
    with up(tmp_path, script("deaf", deaf, stop_s=3600)) as running:
        pid = pid_in(running.until("up .* deaf starts"))
        running.until("deaf .* deaf")
        running.process.send_signal(signal.SIGINT)
        running.until("up .* leaving")
        running.process.send_signal(signal.SIGINT)
        assert running.leaves() == 130

    assert not is_alive(pid)


@pytest.mark.full
def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as too:
        port, other = taken.getsockname()[1], too.getsockname()[1]
        with up(tmp_path, simulator("engine", port=other), port=port) as running:
            assert running.leaves() == 1

    assert running.lines == [
        f"smg-gateway: gateway: cannot listen on 127.0.0.1:{port}: Address already in use",
        f"smg-gateway: engine: cannot listen on 127.0.0.1:{other}: Address already in use",
    ]


@pytest.mark.full  # eight processes
def test_the_fleet_of_the_example_runs_from_its_file_with_simulated_engines(tmp_path: Path) -> None:
    written = yaml.safe_load((ROOT / "examples" / "fleet" / "fleet.yaml").read_text())
    engines = [{**each, "port": 0} for each in written["engines"]]
    sections = {name: body for name, body in written["gateway"].items() if name not in ("history", "metrics")}
    headers = {"authorization": "Bearer sk-fleet-0123456789abcdef"}
    with up(tmp_path, *engines, **sections) as running:
        running.until("up .* gateway is ready after")
        base = f"http://127.0.0.1:{running.port}/v1"
        with httpx.Client(base_url=base, headers=headers, timeout=PATIENCE) as client:
            answers = [
                client.post("/chat/completions", json={**QUESTION, "model": model})
                for model in ("gpt-4o", "qwen3-32b", "qwen2.5-vl-72b")
            ]
            stranger = client.post("/chat/completions", json=QUESTION, headers={"authorization": "Bearer sk-nobody"})
        running.process.send_signal(signal.SIGINT)
        assert running.leaves() == 0

    assert [each.status_code for each in answers] == [200, 200, 200], [each.text for each in answers]
    assert stranger.status_code == 401


@pytest.mark.full
def test_an_engine_that_dies_is_seen_and_left_although_a_process_of_another_session_holds_its_output(
    tmp_path: Path,
) -> None:
    words = "setsid sleep 600 & echo left $!; exec {python} -m smg_core simulate --listen 127.0.0.1:{port} --model sim"
    with up(tmp_path, {"name": "engine", "command": ["sh", "-c", words], "model": "sim"}) as running:
        first = pid_in(running.until("up .* engine starts"))
        left = [int(running.until("engine .* left").split()[-1])]
        running.until("up .* gateway is ready after")
        os.kill(first, signal.SIGKILL)
        running.until("up .* engine has served, and ended with -9; started again")
        left.append(int(running.until("engine .* left").split()[-1]))
        running.until("up .* engine is ready after")
        running.process.send_signal(signal.SIGTERM)
        assert running.leaves() == 0

    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not any("was killed" in line or "Traceback" in line for line in running.lines)


@pytest.mark.full
@pytest.mark.parametrize("lost", ["reader", "terminal"])
def test_where_nobody_reads_any_more_or_the_terminal_is_closed_all_end(tmp_path: Path, lost: str) -> None:
    with up(tmp_path, simulator("engine")) as running:
        pid = pid_in(running.until("up .* engine starts"))
        running.until("up .* gateway starts")
        if lost == "terminal":
            running.process.send_signal(signal.SIGHUP)
        else:
            running.stops_reading()
        assert running.process.wait(PATIENCE) == 0

    assert not is_alive(pid)


@pytest.mark.full  # a program
@pytest.mark.anyio
async def test_a_program_that_takes_long_to_come_up_is_told_of_more_seldom_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "SLOW_S", (0.1, 0.2, 0.4))
    silent = script("silent", "import time; time.sleep(3600)", start_s=2.5)
    written = {"engines": [silent], "gateway": {"server": {"port": free_port()}}}
    plan = up_plan_of(written, free_port=free_port, python=sys.executable)
    lines: list[str] = []

    status = await supervisor.Supervised(plan, [sys.executable, "-c", ""], lambda _, line: lines.append(line)).run()

    told = [line for line in lines if "is not ready yet after" in line]
    assert status == 1
    assert "silent has not come up within 2.5 s" in lines
    assert 1 <= len(told) <= 7
    assert told[0].endswith(" s of at most 2.5")
