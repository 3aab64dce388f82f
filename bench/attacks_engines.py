"""Attacks by engines: failures with words that are nobody's business, streams that stop, processes that freeze."""

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator

from attacked import CHAT, Answer, Served, Stage, chat, hold, post
from attacks_wire import Scene

from smg_simulator import Fault
from smg_simulator.testing import ScriptedEngine, in_thread

__all__ = ["ENGINES"]

SECRET = "secret grpc://10.1.2.3 /opt/engine/x.py"
KNOWN = "CUDA out of memory"
SAID = f"{KNOWN}: {SECRET}"
STATUSES = (
    *(
        "",
        "RESOURCE_EXHAUSTED",
        "INVALID_ARGUMENT",
        "UNAUTHENTICATED",
        "UNIMPLEMENTED",
        "DEADLINE_EXCEEDED",
        "CANCELLED",
    ),
    *("INTERNAL", "NOT_FOUND", "PERMISSION_DENIED", "DATA_LOSS", "UNKNOWN"),
)
FAULTS = (
    *(Fault("refuse", status=status, message=SAID) for status in STATUSES),
    *(Fault(kind, after=after, message=SAID) for kind in ("error", "cut", "silence", "garbage") for after in (0, 3)),
)
RATE, SECONDS, FROZEN_AFTER = 25, 12, 3  # requests a second, for how long, and when one engine freezes
PATIENCE = 2.0  # seconds that a request may take longer than its first token may


def failures(stage: Stage) -> str:
    """Every failure that the embedded engine knows, whole and streamed, over both transports."""
    asked = 0
    for transport in ("h2", "grpcio"):
        with in_thread(ScriptedEngine([], "127.0.0.1:0")) as engine:
            port = int(engine.target.rpartition(":")[2])
            served = stage.gateway("--workers-transport", transport, "--routing-retries", "0", engines=(port,))
            for fault in FAULTS:
                for stream in (False, True):
                    asked += _fails(served, engine, fault, stream)
    told = f"{asked} of {asked} failures in the log with worker and detail"
    return f"{told}, none of their words in an answer, and known ones alone in the log"


def _fails(served: Served, engine: ScriptedEngine, fault: Fault, stream: bool) -> int:
    before = len(served.logged())
    engine.inject(fault)
    answer = post(served.port, chat(stream=stream, max_tokens=6, ignore_eos=True), f"x-request-id: {fault.kind}-x")
    hold(answer.status in (200, 400, 500, 502, 503, 504), f"{fault}: {answer.status}")
    hold(b'"error"' in answer.body, f"{fault}: no error in {answer.body[-200:]!r}")
    hold(not re.search(rb"secret|10\.1\.2|127\.0\.0|/opt/", answer.body), f"{fault}: {answer.body!r}")
    logged = served.wait_until_logged("path=/v1/chat/completions", before)
    outcome = re.search(r"outcome=(\w+)", logged.rpartition("path=/v1/chat/completions")[2])
    hold(outcome and outcome[1] != "ok", f"{fault}: outcome {outcome and outcome[1]}")
    hold(not re.search(r"secret|10\.1\.2|/opt/", logged), f"{fault}: the log has what the engine repeated")
    return 1


def told_once(stage: Stage) -> str:
    """The same failure fifty times."""
    with in_thread(ScriptedEngine([], "127.0.0.1:0")) as engine:
        port = int(engine.target.rpartition(":")[2])
        served = stage.gateway("--routing-retries", "0", "--workers-probe-failures", "3", engines=(port,))
        for _ in range(50):
            engine.inject(Fault("error", message=SAID))
            hold(post(served.port, chat()).status == 500, "the failure was not answered as one")
        lines = [line for line in served.logged().splitlines() if "smg.failures" in line]
    hold(0 < len(lines) <= 2, f"{len(lines)} lines for one failure")
    hold(KNOWN in lines[0] and "worker=" in lines[0] and "request_id=" in lines[0], f"the line says {lines[0]}")
    return f"{len(lines)} line with the engine's known words, worker and request; the others are counted"


@contextlib.contextmanager
def _under_load(served: Served, answers: list[Answer]) -> Iterator[None]:
    """Requests at an even pace until the block ends and all have been answered."""
    over = threading.Event()
    asking: list[threading.Thread] = []

    def ask() -> None:
        answers.append(post(served.port, chat(max_tokens=5, ignore_eos=True), path=CHAT))

    def pace() -> None:
        while not over.wait(1 / RATE):
            asking.append(threading.Thread(target=ask))
            asking[-1].start()

    pacing = threading.Thread(target=pace)
    pacing.start()
    try:
        yield
    finally:
        over.set()
        pacing.join()
        for each in asking:
            each.join()


def frozen(stage: Stage) -> str:
    """One of three engines is stopped under load, and wakes up again."""
    engines = [stage.simulate() for _ in range(3)]
    flags = ("--timeouts-first-token-s", "2", "--policy", "least_requests")
    served = stage.gateway(*flags, engines=[port for port, _ in engines])
    answers: list[Answer] = []
    with _under_load(served, answers):
        time.sleep(FROZEN_AFTER)
        os.kill(engines[0][1].pid, signal.SIGSTOP)
        time.sleep(SECONDS - FROZEN_AFTER)
    os.kill(engines[0][1].pid, signal.SIGCONT)
    lost = [answer for answer in answers if answer.status != 200]
    longest = max(answer.seconds for answer in answers)
    hold(not lost, f"{len(lost)} of {len(answers)} were lost: {[each.status for each in lost][:10]}")
    hold(longest <= 2 + PATIENCE, f"one waited {longest:.1f} s")
    return f"{len(answers)} of {len(answers)} answered, the longest after {longest:.1f} s with a bound of 2 s"


def burst(stage: Stage) -> str:
    """Answers that an engine sends in one message each, 128 of them, as fast as it can."""
    counted, timed = stage.gateway(watch="callbacks"), stage.gateway()
    asked = chat(n=128, max_tokens=2000, ignore_eos=True)
    callback, late = [], []
    for _ in range(3):
        counted.reset()
        timed.reset()
        for served in (counted, timed):
            answer = post(served.port, asked)
            hold(len(json.loads(answer.body)["choices"]) == 128, f"{answer.status}")
        time.sleep(0.3)
        callback.append(counted.callback)
        late.append(timed.late)
    hold(min(callback) <= 0.05, f"a callback of {min(callback) * 1000:.0f} ms")
    hold(min(late) <= 0.1, f"the timer was {min(late) * 1000:.0f} ms late")
    return f"no callback over {min(callback) * 1000:.0f} ms, the timer at most {max(min(late), 0) * 1000:.0f} ms late"


ENGINES = (
    Scene(
        "H5",
        "one of three engines frozen (SIGSTOP) at 25 requests/s",
        "`timeouts.first_token_s`, `workers.probe_timeout_s`",
        frozen,
    ),
    Scene(
        "H6, M12",
        "engines that fail in every way, over both transports",
        "an engine's words are for the log, known ones alone",
        failures,
    ),
    Scene("H6", "an engine that fails fifty times in the same way", "said once a minute and counted", told_once),
    Scene("H2", "256,000 tokens in 128 messages, sent at once", "512 tokens at a time", burst),
)
