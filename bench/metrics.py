"""What metrics and the access log cost by themselves: the moments of one request, a sample for gauges, a scrape of a large fleet.

    python bench/metrics.py [--workers 64] [--models 10]

Recording is measured, in CPU time, on the moments of streamed chat requests, 64 of which are counted together; "told" is what
they cost with all observers that a gateway then has, and without any but the log of failures. A sample is of one worker, once a
second. A scrape is the text of all series of a gateway with so many workers and models, with the longest piece that is made
without letting other threads run: that is what an event loop may have to wait for. The best of many rounds counts.
"""

import argparse
import logging
import time
from collections.abc import Callable

from smg_core.clock import SystemClock
from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    ExchangeEnded,
    FirstToken,
    Moment,
    Observer,
    ProcessSampled,
    Rendered,
    RequestFinished,
    RequestStarted,
    WorkerPicked,
    fan_out,
)
from smg_core.observability.failures import FailureLog
from smg_core.observability.logs import AccessLog
from smg_core.observability.metrics.exposition import OPENMETRICS, PROMETHEUS, Exposition
from smg_core.observability.metrics.recording import MetricsRecorder
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.table import METRICS
from smg_core.pool_sample import WorkerSampled

SERIES = 16384
ROUNDS = 60
REQUESTS = 200
GATHERED = 64  # requests that are counted together, of which a round has some
APIS = ("chat", "messages", "responses")
ROUTES = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


def moments(worker: str, model: str, api: str) -> list[Moment]:
    """Those of one streamed request, as a gateway reports them."""
    done = RequestFinished(
        "r",
        api,
        model,
        "ok",
        200,
        100,
        50,
        20,
        1.5,
        worker,
        1,
        0.2,
        ("stop",),
        served=model,
        transport="grpc",
        stream=True,
    )
    return [
        RequestStarted("r", api, model, True, 0.0),
        Rendered("r", 0.0),
        EncodeDone("r", 400, 100, 100, 0.001, 0.0),
        WorkerPicked("r", worker, "round_robin", 1, 0.0, "regular", None, model, "grpc"),
        FirstToken("r", worker, 0.2, 0.0),
        AttemptEnded("r", worker, 1, "ok", 50, ("stop",), 0.2, 1.4, 0.0, model=model, transport="grpc"),
        done,
        ExchangeEnded("p", "POST", ROUTES[api], 200, 5000, 1.5, "ok", finished=done, route=ROUTES[api]),
    ]


def fleet(workers: int, models: int) -> tuple[MetricsRecorder, Exposition, SeriesTable]:
    """The metrics of a gateway where every worker has answered for every model, in every API."""
    table = SeriesTable(METRICS, memoryview(bytearray(SeriesTable.size(SERIES, 1))), series=SERIES)
    recorder = MetricsRecorder(table, time.time, batch=GATHERED)
    names = [f"grpc://gpu-{number}:50051" for number in range(workers)]
    for worker in names:
        for model in range(models):
            for api in APIS:
                for moment in moments(worker, f"model-{model}", api):
                    recorder.report(moment)
    recorder.report(ProcessSampled(1, 1, 0, models, tuple([WorkerSampled(name, "ready", 1, 0) for name in names])))
    return recorder, Exposition(table), table


def scrape(exposition: Exposition, content_type: str) -> tuple[float, int]:
    """Seconds of CPU time for one text, and its bytes."""
    began = time.thread_time()
    size = sum(map(len, exposition.pieces(content_type)))
    return time.thread_time() - began, size


def longest_piece(exposition: Exposition, content_type: str) -> float:
    """Seconds of the piece that took longest."""
    last, longest = time.perf_counter(), 0.0
    for _ in exposition.pieces(content_type):
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


class Taken:
    """Takes lines in place of a writer."""

    def write(self, line: bytes) -> None:
        pass


def told(observer: Observer, moments: list[Moment]) -> Callable[[], None]:
    """Tells an observer of these moments."""

    def tell() -> None:
        for moment in moments:
            observer.report(moment)

    return tell


def cheapest(call: Callable[[], None]) -> float:
    """Seconds of CPU time of one call, in the best of many rounds."""
    costs = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(REQUESTS):
            call()
        costs.append((time.thread_time() - began) / REQUESTS)
    return min(costs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--models", type=int, default=10)
    args = parser.parse_args()
    recorder, exposition, table = fleet(args.workers, args.models)
    one = moments("grpc://gpu-0:50051", "model-0", "chat")
    logging.getLogger().setLevel(logging.INFO)
    failures = FailureLog(SystemClock())
    text = AccessLog(Taken())  # type: ignore[arg-type]  # in place of a thread
    lines = AccessLog(Taken(), "json")  # type: ignore[arg-type]
    sample = ProcessSampled(1, 1, 0, 1, (WorkerSampled("grpc://gpu-0:50051", "ready", 1, 0),))
    for name, call in {
        "recording": told(recorder, one),
        "told, text": told(fan_out(failures, fan_out(text, recorder)), one),
        "told, JSON": told(fan_out(failures, fan_out(lines, recorder)), one),
        "told, none": told(failures, one),
        "a sample": told(fleet(1, 1)[0], [sample]),
    }.items():
        print(f"{name}: {cheapest(call) * 1e6:.1f} us")
    print(f"{args.workers} workers, {args.models} models: {table.used} series")
    for name, content_type in (("prometheus", PROMETHEUS), ("openmetrics", OPENMETRICS)):
        whole, size = min(scrape(exposition, content_type) for _ in range(ROUNDS))
        longest = min(longest_piece(exposition, content_type) for _ in range(ROUNDS))
        print(f"scrape, {name}: {whole * 1e3:.2f} ms, its longest piece {longest * 1e3:.2f} ms, {size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
