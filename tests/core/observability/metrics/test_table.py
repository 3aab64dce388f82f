"""The table of metrics: names, units and labels as Prometheus asks, few values of labels, and nothing twice."""

import re
from collections import Counter
from typing import get_args

import pytest

from smg_core.hooks import (
    AttemptEnded,
    ExchangeEnded,
    FirstToken,
    Moment,
    ProcessSampled,
    Rendered,
    RequestFinished,
    RunEnded,
    ToolCalled,
)
from smg_core.observability.metrics.metric import Metric
from smg_core.observability.metrics.recording import MetricsRecorder, with_tenant
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.smg_names import SMG_METRICS
from smg_core.observability.metrics.table import METRICS
from smg_core.pool_sample import WorkerSampled

TABLES = {"own": METRICS, "smg": SMG_METRICS}
EVERY = [(name, metric) for name, table in TABLES.items() for metric in table]
UNITS = ("seconds", "bytes")
RESERVED = ("_total", "_count", "_sum", "_bucket", "_created", "_info")


def table_of(metrics: tuple[Metric, ...] = METRICS) -> SeriesTable:
    return SeriesTable(metrics, memoryview(bytearray(SeriesTable.size(512, 1))), series=512)


def labels_of(table: SeriesTable, name: str) -> list[dict[str, str]]:
    return [
        dict(zip(table.metrics[number].labels, series.labels, strict=True))
        for number, series in table.read()
        if table.metrics[number].name == name
    ]


def finished(model: str = "m", served: str = "", tenant: str = "") -> RequestFinished:
    return RequestFinished("r", "chat", model, "ok", 200, 1, 1, 0, 1.0, served=served, tenant=tenant)


@pytest.mark.parametrize(("names", "metric"), EVERY, ids=[f"{names}-{metric.name}" for names, metric in EVERY])
def test_a_metric_is_named_as_prometheus_asks(names: str, metric: Metric) -> None:
    assert re.fullmatch(r"smg_[a-z0-9_]+", metric.name)
    assert not metric.name.endswith(RESERVED)
    assert len(metric.help) > 3
    assert metric.help.endswith(".")
    assert not metric.unit or (metric.unit in UNITS and metric.name.endswith(f"_{metric.unit}"))
    assert all(re.fullmatch(r"[a-z_]+", each) and each not in ("le", "quantile") for each in metric.labels)
    assert len(set(metric.labels)) == len(metric.labels)
    assert bool(metric.bounds) == (metric.kind == "histogram")
    assert list(metric.bounds) == sorted(set(metric.bounds))
    assert not metric.exemplars or "trace_id" in metric.moment.__struct_fields__
    assert not metric.by_tenant or "tenant" in metric.moment.__struct_fields__


@pytest.mark.parametrize("names", TABLES)
def test_no_name_is_declared_twice(names: str) -> None:
    assert [name for name, count in Counter(metric.sample for metric in TABLES[names]).items() if count > 1] == []


NOT_RECORDED = {
    Rendered: "smg_router_encode_duration_seconds begins there, and a template takes less than what follows",
    FirstToken: "smg_inference_time_to_first_token_seconds is recorded when the request has ended, which has the number",
    RunEnded: "a line of the access log; what it is of is counted when it is asked for, by its RequestFinished",
}


def test_every_kind_of_moment_is_recorded_or_stands_here_with_the_reason() -> None:
    recorded = {metric.moment for metric in METRICS}

    assert set(get_args(Moment)) - recorded == set(NOT_RECORDED)


def test_our_names_say_their_layer() -> None:
    assert [metric.name for metric in METRICS if not metric.name.startswith(f"smg_{metric.layer}_")] == []


def test_a_model_that_only_a_stranger_names_is_no_label() -> None:
    table = table_of()
    recorder = MetricsRecorder(table, lambda: 0.0)
    for number in range(100):
        recorder.report(finished(model=f"stranger-{number}"))
    recorder.report(finished(model="alias", served="llama"))
    recorder.flush()

    assert sorted(each["model"] for each in labels_of(table, "smg_router_requests")) == ["llama", "other"]


def test_a_method_a_path_and_a_tool_server_that_only_a_stranger_names_are_no_labels() -> None:
    table = table_of()
    recorder = MetricsRecorder(table, lambda: 0.0)
    for number in range(100):
        recorder.report(ExchangeEnded("p", f"M{number}", f"/{number}", 404, 0, 0.0, "NotFound"))
        recorder.report(ToolCalled("r", f"server-{number}", f"tool-{number}", "ok", 0.1, 0.0))
    recorder.flush()

    assert labels_of(table, "smg_http_requests") == [{"method": "other", "route": "other", "status": "404"}]
    assert labels_of(table, "smg_mcp_calls") == [{"server": "other", "outcome": "ok"}]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("ok", "200"),
        ("EngineRejected", "400"),
        ("WorkerBusy", "429"),
        ("abandoned", "499"),
        ("EngineFailed", "500"),
        ("EngineGarbled", "502"),
        ("WorkerGone", "503"),
        ("EngineStalled", "504"),
        ("something new", "500"),
    ],
)
def test_by_the_other_names_a_call_has_the_status_that_the_engine_meant(outcome: str, status: str) -> None:
    table = table_of(SMG_METRICS)
    recorder = MetricsRecorder(table, lambda: 0.0)
    recorder.report(AttemptEnded("r", "w", 1, outcome, 0, (), None, 0.1, 0.0, transport="grpc"))
    recorder.flush()

    (found,) = labels_of(table, "smg_router_upstream_responses")
    assert found["status_code"] == status


def test_tenants_are_labels_only_where_that_is_wanted_and_no_more_of_them() -> None:
    without, with_two = table_of(), table_of(with_tenant(METRICS))
    recorders = MetricsRecorder(without, lambda: 0.0), MetricsRecorder(with_two, lambda: 0.0, tenants=2)
    for recorder in recorders:
        for tenant in ("a", "b", "c", "d", "a"):
            recorder.report(finished(tenant=tenant))
        recorder.flush()

    assert all("tenant" not in each for each in labels_of(without, "smg_router_requests"))
    assert sorted(each["tenant"] for each in labels_of(with_two, "smg_router_requests")) == ["a", "b", "other"]


def test_the_series_of_a_worker_end_when_it_is_gone_and_not_while_it_is_only_away_once() -> None:
    table = table_of()
    recorder = MetricsRecorder(table, lambda: 0.0)
    here = ProcessSampled(0, 0, 0, 1, (WorkerSampled("w", "ready", 0, 0),))
    gone = ProcessSampled(0, 0, 0, 1, ())
    recorder.report(AttemptEnded("r", "w", 1, "ok", 1, (), 0.1, 0.2, 0.0))

    recorder.report(here)
    recorder.report(gone)
    recorder.report(here)
    recorder.report(gone)
    assert labels_of(table, "smg_worker_calls")
    recorder.report(gone)
    assert labels_of(table, "smg_worker_calls") == []
    assert labels_of(table, "smg_worker_ready") == []
