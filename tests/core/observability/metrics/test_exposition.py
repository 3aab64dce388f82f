"""Metrics as text: the parsers of prometheus-client read back what was counted, in both formats."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from smg_core.hooks import ExchangeEnded
from smg_core.observability.metrics.exposition import OPENMETRICS, PROMETHEUS, Exposition, wanted_format
from smg_core.observability.metrics.metric import Metric, from_fields
from smg_core.observability.metrics.recording import MetricsRecorder
from smg_core.observability.metrics.series import SeriesTable

PARSERS: dict[str, Callable[[str], Iterable[Any]]] = {PROMETHEUS: prometheus, OPENMETRICS: openmetrics}
COUNTER = Metric(
    "smg_a",
    "counter",
    "A.",
    "http",
    ExchangeEnded,
    ("x",),
    labels_of=lambda ended: (ended.route,),
    amount=from_fields("sent"),
)
SPREAD = Metric(
    "smg_b_seconds",
    "histogram",
    "B.",
    "http",
    ExchangeEnded,
    ("x",),
    "seconds",
    (0.5, 2.0),
    exemplars=True,
    labels_of=lambda ended: (ended.route,),
    amount=from_fields("seconds"),
)
TEXTS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x1f\r"), max_size=12)


def exchange(route: str, sent: int, seconds: float, trace: str = "") -> ExchangeEnded:
    return ExchangeEnded("", "GET", "/", 200, sent, seconds, "ok", route=route, trace_id=trace)


def recorded(*moments: ExchangeEnded) -> Exposition:
    table = SeriesTable((COUNTER, SPREAD), memoryview(bytearray(SeriesTable.size(256, 1))), series=256)
    recorder = MetricsRecorder(table, lambda: 1000.5)
    for moment in moments:
        recorder.report(moment)
    recorder.flush()
    return Exposition(table)


def written(exposition: Exposition, content_type: str) -> str:
    return b"".join(exposition.pieces(content_type)).decode()


@pytest.mark.parametrize(
    ("content_type", "odd"),
    # the parser of OpenMetrics takes no sum that is less than nothing, or no number
    [
        (OPENMETRICS, math.inf),
        (OPENMETRICS, 1e308),
        *[(PROMETHEUS, odd) for odd in (math.inf, -math.inf, math.nan, 1e308)],
    ],
)
def test_a_number_that_is_not_finite_is_written_as_the_format_has_it(content_type: str, odd: float) -> None:
    exposition = recorded(exchange("a", 1, odd))
    families = {each.name: each for each in PARSERS[content_type](written(exposition, content_type))}
    (total,) = [each.value for each in families["smg_b_seconds"].samples if each.name == "smg_b_seconds_sum"]
    assert total == odd or (math.isnan(total) and math.isnan(odd))


@pytest.mark.parametrize("content_type", PARSERS)
@given(st.lists(st.tuples(TEXTS, st.integers(0, 100), st.floats(0, 5)), max_size=10))
def test_a_parser_reads_back_what_was_counted(content_type: str, seen: list[tuple[str, int, float]]) -> None:
    text = written(recorded(*[exchange(*each) for each in seen]), content_type)
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in PARSERS[content_type](text)
        for sample in family.samples
    }

    for path in {path for path, _, _ in seen}:
        mine = [(sent, seconds) for each, sent, seconds in seen if each == path]
        assert samples["smg_a_total", (("x", path),)] == sum(sent for sent, _ in mine)
        assert samples["smg_b_seconds_count", (("x", path),)] == len(mine)
        assert samples["smg_b_seconds_sum", (("x", path),)] == pytest.approx(sum(seconds for _, seconds in mine))
        below = sum(seconds <= 0.5 for _, seconds in mine)
        assert samples["smg_b_seconds_bucket", (("le", "0.5"), ("x", path))] == below


def test_a_bucket_has_the_trace_of_a_request_in_openmetrics_alone() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    exposition = recorded(exchange("/", 1, 1.0, trace))
    (family,) = [each for each in openmetrics(written(exposition, OPENMETRICS)) if each.name == "smg_b_seconds"]
    (exemplar,) = [sample.exemplar for sample in family.samples if sample.exemplar]

    assert (exemplar.labels, exemplar.value, float(exemplar.timestamp)) == ({"trace_id": trace}, 1.0, 1000.5)
    assert "trace_id" not in written(exposition, PROMETHEUS)


def test_the_text_comes_in_pieces_and_is_the_same_the_second_time() -> None:
    exposition = recorded(*[exchange(f"/{number}", 1, 1.0) for number in range(100)])
    pieces = list(exposition.pieces(PROMETHEUS))

    assert len(pieces) > 2
    assert b"".join(pieces) == b"".join(exposition.pieces(PROMETHEUS))


def test_a_scraper_gets_the_format_that_it_asks_for() -> None:
    newest = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    assert wanted_format(newest) == OPENMETRICS
    assert wanted_format("text/plain") == wanted_format("") == PROMETHEUS
    for weight in ("0", "0.0", "0.000", "0."):
        assert wanted_format(f"application/openmetrics-text; q={weight}, text/plain") == PROMETHEUS
    for weight in ("0.001", "1", "0.5"):
        assert wanted_format(f"Application/OpenMetrics-Text ;q={weight}") == OPENMETRICS
    assert wanted_format("text/x-application/openmetrics-text") == PROMETHEUS
