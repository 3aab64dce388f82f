"""What is written of requests and failures, and what never is."""

import fcntl
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.hooks import AttemptEnded, ExchangeEnded, RequestFinished
from smg_core.observability import access_lines
from smg_core.observability.failures import FailureLog
from smg_core.observability.line_writer import LineWriter
from smg_core.observability.logs import AccessLog, as_logged, configure, written_by
from smg_core.observability.repeats import Repeats
from smg_core.testing import FakeClock

FORGED = "x\r\n2026-11-22 ERROR smg.server: forged\x1b[31m\x00\x9b\u2028\u202e"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def ended(**changes: object) -> ExchangeEnded:
    known: dict[str, object] = {
        "peer": "127.0.0.1:5",
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "sent": 1234,
        "seconds": 0.25,
        "outcome": "ok",
        "request_id": "chatcmpl-1",
        "client_id": "mine",
    }
    return ExchangeEnded(**(known | changes))  # type: ignore[arg-type]


def finished(model: str = "sim") -> RequestFinished:
    return RequestFinished("chatcmpl-1", "chat", model, "ok", 200, 3, 4, 1, 0.2, worker="gpu-0", attempts=1)


def failed(detail: str, worker: str = "grpc://10.0.0.5:1", outcome: str = "EngineFailed") -> AttemptEnded:
    return AttemptEnded("chatcmpl-1", worker, 1, outcome, 0, (), None, 0.1, 5.0, detail=detail, client_id="mine")


def test_a_line_says_who_asked_what_and_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "text")
    AccessLog().report(ended(finished=finished()))
    (line,) = capsys.readouterr().err.splitlines()

    for word in (
        *("peer=127.0.0.1:5", "method=POST", "path=/v1/chat/completions", "status=200", "bytes=1234", "seconds=0.25"),
        *("outcome=ok", "request_id=chatcmpl-1", "client_request_id=mine", "model=sim", "worker=gpu-0"),
        *("prompt_tokens=3", "completion_tokens=4", "cached_tokens=1"),
    ):
        assert word in line.split()


def test_json_lines_have_a_member_for_each_of_these(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    AccessLog().report(ended(finished=finished()))
    AccessLog().report(ended(path="/health", client_id=""))
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())

    assert (first["status"], first["worker"], first["completion_tokens"]) == (200, "gpu-0", 4)
    assert first["logger"] == "smg.access"
    assert "message" not in first
    assert second["path"] == "/health"
    assert "model" not in second


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_client_sends_makes_no_line_and_no_control_character(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    configure("info", form)  # type: ignore[arg-type]
    AccessLog().report(ended(method=FORGED, path="/" + FORGED, client_id=FORGED, finished=finished(FORGED)))
    FailureLog(FakeClock()).report(failed(FORGED))
    logging.getLogger("smg.server").error("%s failed", FORGED)
    said = capsys.readouterr().err

    assert len(said.splitlines()) == 3
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", said)


@given(st.text(), st.text())
def test_no_text_of_a_client_can_pass_for_a_word_of_the_line(path: str, model: str) -> None:
    known = access_lines.access_fields(ended(path=path, finished=finished(model)))
    line = access_lines.fields_in_words(known)

    assert len(line.splitlines()) == 1
    assert re.sub(r'"(?:[^"\\]|\\.)*"', "-", line).count("status=") <= 2 + path.count("status=") + model.count(
        "status="
    )
    assert [part.partition("=")[0] for part in re.sub(r'"(?:[^"\\]|\\.)*"', "-", line).split(" ")] == list(known)


@given(st.text(), st.text(), st.text(), st.floats(0, 4e9, width=32), st.sampled_from(["", "a" * 32]))
def test_the_line_that_is_written_without_logging_is_the_one_that_logging_makes(
    path: str, model: str, tenant: str, now: float, trace_id: str
) -> None:
    for done in (None, finished(model)):
        moment = ended(path=path, finished=done, tenant=tenant, trace_id=trace_id)
        for form in ("text", "json"):
            written: list[bytes] = []
            by_logging = io.StringIO()
            configure("info", form)  # type: ignore[arg-type]
            AccessLog(Kept(written), form, lambda: now).report(moment)  # type: ignore[arg-type]
            stream = logging.getLogger().handlers[0]
            stream.setStream(by_logging)  # type: ignore[attr-defined]
            stream.addFilter(lambda record: _at(record, now))
            AccessLog().report(moment)
            assert written == [by_logging.getvalue().encode()]


class Kept:
    """Takes lines in place of a writer."""

    def __init__(self, lines: list[bytes]) -> None:
        self.write = lines.append


def _at(record: logging.LogRecord, now: float) -> bool:
    """Have a record been made `now`."""
    record.created, record.msecs = now, float(int(now * 1000) % 1000)
    return True


def test_lines_are_written_by_a_thread_and_none_is_lost_when_it_ends() -> None:
    out, into = os.pipe()
    writer = LineWriter(into, 0.0, 1 << 20, str.encode)
    sent = [b"%d %s\n" % (number, b"x" * (number % 3000)) for number in range(2000)]
    with ThreadPoolExecutor(1) as reading:
        received = reading.submit(lambda: b"".join(iter(lambda: os.read(out, 1 << 16), b"")))
        for line in sent:
            while writer._given - writer._taken > 1 << 19:
                os.sched_yield()
            writer.write(line)
        writer.close()
        os.close(into)

    assert received.result().splitlines(keepends=True) == sent
    os.close(out)


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_that_nobody_takes_are_bounded_dropped_and_counted(form: Any) -> None:
    configure("info", form)
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    writer = LineWriter(into, 0.0, 65536, partial(as_logged, "smg.access"))
    line = b"x" * 1023 + b"\n"
    for _ in range(1000):
        writer.write(line)
    waiting = writer._given - writer._taken
    with ThreadPoolExecutor(1) as reading:
        received = reading.submit(lambda: b"".join(iter(lambda: os.read(out, 1 << 16), b"")))
        writer.close()
        os.close(into)
    lines = received.result().splitlines(keepends=True)
    os.close(out)

    assert waiting <= 65536
    dropped = re.search(rb"(\d+) lines of the log were dropped: nobody took them", lines[-1])
    assert dropped is not None
    assert len(lines) - 1 + int(dropped[1]) == 1000
    assert lines[-1].startswith(b"{" if form == "json" else b"20")


def test_whoever_logs_waits_for_nobody_and_finds_room_that_the_access_log_cannot_take() -> None:
    configure("info", "text")
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    writer = LineWriter(into, 0.0, 65536, partial(as_logged, "smg.access"))
    with ThreadPoolExecutor(1) as reading:
        with written_by(writer):
            for _ in range(1000):
                writer.write(b"x" * 1023 + b"\n")
            for number in range(5):
                logging.getLogger("smg.server").warning("an error, number %d", number)
            received = reading.submit(lambda: b"".join(iter(lambda: os.read(out, 1 << 16), b"")))
        os.close(into)
    lines = received.result().decode().splitlines()
    os.close(out)

    assert [each[-9:] for each in lines if "an error" in each] == [f" number {number}"[-9:] for number in range(5)]
    dropped = re.search(r"(\d+) lines of the log were dropped", lines[-1])
    assert dropped is not None
    assert len(lines) - 6 + int(dropped[1]) == 1000


def test_a_line_of_the_log_is_not_gathered_and_takes_those_before_it_along() -> None:
    configure("info", "text")
    out, into = os.pipe()
    writer = LineWriter(into, 3600.0, 65536, partial(as_logged, "smg.access"))
    with written_by(writer):
        writer.write(b"of the access log\n")
        logging.getLogger("smg.server").warning("an error")
        received = b""
        while received.count(b"\n") < 2:  # it would take an hour otherwise
            received += os.read(out, 4096)
    assert sys.stderr in [
        each.stream for each in logging.getLogger().handlers if isinstance(each, logging.StreamHandler)
    ]
    os.close(into)
    os.close(out)

    assert received.splitlines()[0] == b"of the access log"
    assert received.splitlines()[1].endswith(b"smg.server: an error")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.booleans()), max_size=60))
def test_lines_of_several_threads_are_all_written_and_counted(plan: list[tuple[int, int, bool]]) -> None:
    out, into = os.pipe()
    writer = LineWriter(into, 0.0, 1 << 20, str.encode)

    def send(thread: int) -> None:
        for number, (whose, length, urgent) in enumerate(plan):
            if whose == thread:
                writer.write(b"%d %d %s\n" % (thread, number, b"x" * length), urgent=urgent)

    with ThreadPoolExecutor(4) as sending:
        list(sending.map(send, range(4)))
    writer.close()
    os.close(into)
    lines = b"".join(iter(lambda: os.read(out, 1 << 16), b"")).splitlines()
    os.close(out)

    assert writer._given == writer._taken == sum(len(each) + 1 for each in lines)
    for thread in range(4):
        told = [int(each.split()[1]) for each in lines if each.startswith(b"%d " % thread)]
        assert told == [number for number, row in enumerate(plan) if row[0] == thread]


def test_a_log_that_is_closed_stops_nothing() -> None:
    out, into = os.pipe()
    os.close(out)
    writer = LineWriter(into, 0.0, 65536, partial(as_logged, "smg.access"))
    writer.write(b"x\n")
    writer.close()
    os.close(into)


def test_a_failed_engine_call_is_written_with_its_worker_ids_and_words(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog(FakeClock()).report(failed("INTERNAL: CUDA out of memory"))

    for word in ("EngineFailed", "grpc://10.0.0.5:1", "chatcmpl-1", "mine", "CUDA out of memory"):
        assert word in caplog.text


def test_the_same_failure_is_written_once_a_minute_with_how_often_it_came(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    failures = FailureLog(clock)
    for _ in range(7):
        failures.report(failed("a"))
    failures.report(failed("b"))
    failures.report(failed("a", worker="another"))
    clock.advance(61.0)
    failures.report(failed("a"))

    assert [re.search(r"repeated=(\d+)", record.getMessage())[1] for record in caplog.records] == ["0", "0", "0", "6"]  # type: ignore[index]


@pytest.mark.parametrize("outcome", ["ok", "abandoned"])
def test_a_call_that_ended_well_or_was_given_up_is_no_failure(outcome: str, caplog: pytest.LogCaptureFixture) -> None:
    FailureLog(FakeClock()).report(failed("", outcome=outcome))

    assert not caplog.records


def test_of_many_things_the_oldest_are_forgotten_first() -> None:
    repeats = Repeats(window=60.0, most=2)

    assert [repeats.note(what, 1.0) for what in "abcab"] == [0, 0, 0, 0, 0]
    assert [repeats.note(what, 2.0) for what in "ab"] == [None, None]
    assert [repeats.note(what, 61.0) for what in "ab"] == [1, 1]


@given(window=st.floats(0, 1e6), now=st.floats(0, 1e9))
def test_what_comes_for_the_first_time_is_never_taken_for_a_repetition(window: float, now: float) -> None:
    repeats = Repeats(window, most=2)

    assert repeats.note("it", now) == 0
    assert repeats.note("it", now) == (None if window else 0)
    assert repeats.note("it", now + 2 * window + 1) == (1 if window else 0)


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_libraries_write_for_their_own_search_for_faults_is_not_written(
    form: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("debug", form)
    for name in ("aiosqlite", "somebody.else"):
        logging.getLogger(name).debug("INSERT %s", "canary")
        logging.getLogger(name).warning("of %s", name)
    logging.getLogger("smg.server").debug("our own")

    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "canary" in line] == []
    assert len(told) == 3
