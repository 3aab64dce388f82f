"""Instructions that the account of one request costs, part by part, counted by callgrind in a process that does nothing else.

    python bench/account.py

What `instructions.py` counts of whole gateways differs by several percent from run to run, since it depends on what a busy
machine brings at once. Here the moments of one streamed chat request are told again and again, as a gateway tells them: kept in
its `Trace`, and told to those who hear them. "Nothing on" is what every gateway has, which the other rows have in them too. With
`--gathered` so many requests are counted together. Takes about two minutes; needs valgrind.
"""

import argparse
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import instructions
import metrics

from smg_core.clock import SystemClock
from smg_core.hooks import AttemptEnded, Observer, Observers, RequestFinished, SilentObserver, fan_out
from smg_core.http.exchange import Exchange
from smg_core.http.scope import AsgiMessage, Scope
from smg_core.observability.failures import FailureLog
from smg_core.observability.line_writer import LineWriter
from smg_core.observability.logs import AccessLog
from smg_core.observability.metrics.recording import MetricsRecorder
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.table import METRICS
from smg_core.observability.settings import TracesConfig
from smg_core.observability.trace_context import passed_on
from smg_core.observability.tracing.encoding import encoded_request, encoded_span
from smg_core.observability.tracing.exporting import EncodedExporter, exporter_of
from smg_core.observability.tracing.requests import SpanQueue, Tracer
from smg_core.observability.tracing.sampling import Sampler
from smg_core.observability.tracing.spans import spans_of
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import Sampling

TIMES = 512  # each part
TOGETHER = 64  # requests whose spans are sent together: about `traces.batch` spans
OUT, COLLECTOR = "SMG_BENCH_CALLGRIND", "SMG_BENCH_COLLECTOR"
HEADERS = [
    (b"host", b"localhost:8000"),
    (b"content-type", b"application/json"),
    (b"authorization", b"Bearer sk-bench"),
    (b"content-length", b"600"),
]
SCOPE: Scope = {
    "type": "http",
    "method": "POST",
    "path": "/v1/chat/completions",
    "raw_path": b"/v1/chat/completions",
    "headers": HEADERS,
    "client": ("127.0.0.1", 40832),
    "http_version": "1.1",
}


async def _receive() -> AsgiMessage:
    return {}


async def _send(message: AsgiMessage) -> None:
    pass


class Account:
    """The account of the same request, made again and again. `traced` is the share of traces that are recorded, None for none;
    their spans go to `collector`."""

    def __init__(self, observer: Observer, traced: float | None = None, collector: str = "") -> None:
        self._clock = SystemClock()
        self._told = Observers(FailureLog(self._clock), observer)
        self._watched = traced is not None or not isinstance(observer, SilentObserver)
        self._observer = observer
        moments = metrics.moments("grpc://gpu-0:50051", "model-0", "chat")
        self._moments = moments[:-2]
        self._done = next(each for each in moments if isinstance(each, RequestFinished))
        self._exchange = Exchange(SCOPE, _receive, _send)
        self._exchange.request_id = "chatcmpl-0123456789abcdef00000001"
        self._exchange.route, self._exchange.status = "/v1/chat/completions", 200
        self._bits = random.Random(0).getrandbits
        self._queue = SpanQueue(TOGETHER, TOGETHER)
        self._exporter = exporter_of(TracesConfig(endpoint=collector), {}) if traced else None
        self._tracer: Tracer | None = None
        if traced is not None:
            sampler, clock = Sampler(traced), self._clock
            silent = SilentObserver()
            self._tracer = Tracer(
                sampler, self._queue, clock=clock, bits=self._bits, observer=silent, keep=0, calls=256
            )

    def __call__(self) -> None:
        """What is done for one request, beside answering it."""
        exchange, tracer = self._exchange, self._tracer
        traced = None
        if self._watched:
            started = self._clock.monotonic()
            exchange.count_direct()
            if tracer is not None:
                traced = exchange.traced = tracer.begin(exchange.headers, started)
        trace = Trace(0.0, self._told, "", passed_on(exchange.headers) if traced is None else traced)
        if traced is not None:
            traced.moments, traced.sampling = trace.moments, Sampling(max_tokens=100)
        for moment in self._moments:
            if type(moment) is AttemptEnded:
                trace.outgoing()
            trace.report(moment)
        exchange.finished = self._done
        trace.report(self._done)
        if not self._watched:
            return
        ended = exchange.ended("ok", self._clock.monotonic() - 1.0)
        self._observer.report(ended)
        if tracer is not None and traced is not None:
            tracer.end(traced, ended)
            if self._exporter is not None and len(self._queue.waiting) == TOGETHER:
                self._send(self._exporter)

    def _send(self, exporter: EncodedExporter) -> None:
        """What the thread does that sends spans."""
        spans: list[bytes] = []
        while self._queue.waiting:
            request = self._queue.waiting.popleft()
            spans += [encoded_span(each) for each in spans_of(request, self._bits, 256, {})]
        assert exporter.send(encoded_request({"service.name": "smg-gateway"}, "smg-sdk", spans))


def parts(gathered: int, collector: str) -> dict[str, Callable[[], None]]:
    """What is counted, by name."""

    def recorder() -> MetricsRecorder:
        table = SeriesTable(METRICS, memoryview(bytearray(SeriesTable.size(1024, 1))), series=1024)
        return MetricsRecorder(table, time.time, batch=gathered)

    def log(form: Literal["text", "json"]) -> AccessLog:
        return AccessLog(LineWriter(os.open(os.devnull, os.O_WRONLY), 1.0, 1 << 24, str.encode), form)

    silent = SilentObserver()
    return {
        "nothing on": Account(silent),
        f"metrics, {gathered} gathered": Account(recorder()),
        "access log, text": Account(log("text")),
        "access log, JSON": Account(log("json")),
        "both, text": Account(fan_out(log("text"), recorder())),
        "both, JSON": Account(fan_out(log("json"), recorder())),
        "traces, none recorded": Account(silent, 0.0),
        "traces, all recorded": Account(silent, 1.0, collector),
    }


def count(gathered: int, out: Path, collector: str) -> None:
    """Print how many instructions each part takes. Runs under callgrind, which writes to `out`."""
    logging.getLogger().setLevel(logging.INFO)
    first = 0.0
    for name, part in parts(gathered, collector).items():
        for _ in range(2 * gathered):
            part()
        instructions.control_process(os.getpid(), "--instr=on")
        part()
        instructions.control_process(os.getpid(), "--zero")
        for _ in range(TIMES):
            part()
        instructions.control_process(os.getpid(), "--dump")
        instructions.control_process(os.getpid(), "--instr=off")
        each = instructions.dumped(out) / TIMES
        first = first or each
        print(f"{name:24} {each / 1000:7.1f} thousand instructions a request  +{(each - first) / 1000:.1f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gathered", type=int, default=64, help="requests that are counted together; default 64")
    args = parser.parse_args()
    if OUT in os.environ:
        count(args.gathered, Path(os.environ[OUT]), os.environ[COLLECTOR])
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind is needed: apt-get install -y valgrind", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/callgrind"
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        command = [*valgrind, sys.executable, *sys.argv]
        own = {OUT: out, COLLECTOR: instructions.collecting(), "PYTHONHASHSEED": "0"}
        return subprocess.run(command, env={**os.environ, **own}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
