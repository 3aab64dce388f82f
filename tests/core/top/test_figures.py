"""What `top` makes of two readings of the metrics, and of what the admin door refuses."""

import io
from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from smg_core.hooks import (
    AttemptEnded,
    ExchangeEnded,
    Moment,
    ProcessSampled,
    RequestFinished,
)
from smg_core.observability.metrics.exposition import OPENMETRICS, PROMETHEUS, Exposition
from smg_core.observability.metrics.recording import MetricsRecorder
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.table import METRICS
from smg_core.pool_sample import WorkerSampled
from smg_core.top.figures import figures_between, read_metrics
from smg_core.top.screen import top_frame

WORKER, ODD = "grpc://gpu-0:50051", 'grpc://odd"\\\n\u2028\x85\x1cname:1'


def texts(*rounds: list[Moment], content_type: str = PROMETHEUS) -> list[str]:
    """The text of the metrics after each round."""
    table = SeriesTable(METRICS, memoryview(bytearray(SeriesTable.size(512, 1))), series=512)
    recorder, told = MetricsRecorder(table, lambda: 0.0), []
    for moments in rounds:
        for moment in moments:
            recorder.report(moment)
        recorder.flush()
        told.append(b"".join(Exposition(table).pieces(content_type)).decode())
    return told


def request(outcome: str = "ok", first: float = 0.2, worker: str = WORKER) -> list[Moment]:
    done = RequestFinished(
        *("r", "chat", "m", outcome, 200, 100, 50, 0, 1.0, worker, 1, first), served="m", transport="grpc"
    )
    return [
        AttemptEnded("r", worker, 1, outcome, 50, ("stop",), first, 1.0, 0.0, model="m", transport="grpc"),
        done,
        ExchangeEnded("p", "POST", "/v1/chat/completions", 200, 10, 1.0, outcome, finished=done, route="/x"),
    ]


def sampled(*names: str, in_flight: int = 3) -> Moment:
    workers = tuple([WorkerSampled(name, "ready" if name == WORKER else "unreachable", 2, 1) for name in names])
    return ProcessSampled(7, in_flight, 0, 1, workers, lag=0.02)


def shown(frame: Any) -> str:
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(frame)
    return console.export_text()


@pytest.mark.parametrize("content_type", [PROMETHEUS, OPENMETRICS])
def test_rates_are_of_what_happened_between_two_readings(content_type: str) -> None:
    before, after = texts(
        [*request("EngineFailed"), sampled(WORKER, ODD)],
        [*request() * 3, *request("EngineFailed"), sampled(WORKER, ODD)],
        content_type=content_type,
    )
    figures = figures_between(read_metrics(before, 10.0), read_metrics(after, 12.0))

    odd, worker = sorted(figures.workers, key=lambda each: each.ready)
    (model,) = figures.models
    assert (odd.name, odd.ready, odd.calls, odd.first_token) == (ODD, False, 0.0, None)
    assert (worker.in_flight, worker.waiting, worker.calls, worker.output_tokens) == (2, 1, 2.0, 100.0)
    assert (worker.first_token, worker.errors) == (pytest.approx(0.2), 0.25)
    assert (model.requests, model.input_tokens, model.output_tokens, model.errors) == (2.0, 200.0, 100.0, 0.25)
    assert model.median is not None
    assert 0.1 <= model.median <= 0.25
    assert (figures.in_flight, figures.connections, figures.lag) == (3, 7, 0.02)


def test_a_gateway_that_has_started_anew_counts_from_nothing() -> None:
    (before,), (after,) = texts(request() * 5 + [sampled(WORKER)]), texts([*request(), sampled(WORKER)])
    figures = figures_between(read_metrics(before, 0.0), read_metrics(after, 1.0))

    assert figures.models[0].requests == 1.0


@given(st.lists(st.floats(0.001, 800), min_size=1, max_size=40), st.sampled_from([0.5, 0.95]))
def test_a_quantile_is_in_the_bucket_of_the_value_that_it_stands_for(values: list[float], share: float) -> None:
    before, after = texts([sampled()], [moment for value in values for moment in request(first=value)])
    (model,) = figures_between(read_metrics(before, 0.0), read_metrics(after, 1.0)).models
    bounds = next(each.bounds for each in METRICS if each.name == "smg_inference_time_to_first_token_seconds")
    at = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    bucket = bisect_left(bounds, at)

    told = model.median if share == 0.5 else model.high
    assert told is not None
    assert (bounds[bucket - 1] if bucket else 0.0) - 1e-9 <= told <= bounds[bucket] + 1e-9


def test_a_frame_shows_the_busiest_and_says_how_many_are_left() -> None:
    names = [f"grpc://gpu-{number}:1" for number in range(9)]
    before, after = texts([sampled(WORKER, *names)], [*request(), sampled(WORKER, *names)])
    figures = figures_between(read_metrics(before, 0.0), read_metrics(after, 1.0))
    health: dict[str, Any] = {"status": "ok", "version": "9.9", "processes": [{}, {}]}

    text = shown(top_frame(figures, health, 3, "the door is closed"))
    assert "smg-gateway 9.9  ok   processes 2   in flight 3   connections 7" in text
    assert text.count("not ready") == 3
    assert "and 7 more" in text
    assert "the door is closed" in text
    assert "in flight 0" in shown(top_frame(figures_between(read_metrics("", 0), read_metrics("", 0)), {}, 3))


def test_what_is_no_text_of_metrics_is_refused() -> None:
    with pytest.raises(ValueError, match="no line of metrics"):
        read_metrics("<html>\n", 0.0)
