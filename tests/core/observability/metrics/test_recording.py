"""What is recorded by a moment's shape is what the table says of each moment by itself, whatever comes and goes in between."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    ExchangeEnded,
    Moment,
    Observers,
    ProcessSampled,
    RequestFinished,
    RequestStarted,
    ToolCalled,
    WorkerPicked,
)
from smg_core.observability.metrics.metric import OTHER, Labels, Metric
from smg_core.observability.metrics.recording import MetricsRecorder, with_tenant
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.shapes import SHAPES
from smg_core.observability.metrics.smg_names import SMG_METRICS
from smg_core.observability.metrics.table import METRICS
from smg_core.pool_sample import WorkerSampled

TABLES = {"own": METRICS, "smg": SMG_METRICS, "own by tenant": with_tenant(METRICS)}
NAMES = st.sampled_from(["", "a", "b", "ok", "other"])
SECONDS = st.floats(0, 1000)
FIRST = st.none() | SECONDS
COUNTS = st.integers(0, 3)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "outcome": st.sampled_from(["ok", "client_gone", "abandoned", "NoWorker", "EngineFailed"]),
    "status": st.sampled_from([200, 400, 404, 408, 429, 500, 503, 504]),
    "method": st.sampled_from(["GET", "POST", "BREW"]),
    "role": st.sampled_from(["regular", "prefill"]),
    "tenant": st.sampled_from(["", "a", "b", "c"]),
    "transport": st.sampled_from(["", "grpc", "http"]),
    "cached": st.sampled_from([None, (3, "exact"), (0, "approximate")]),
    "trace_id": st.sampled_from(["", "0af7651916cd43dd8448eb211c80319c"]),
    "stream": st.booleans(),
    "configured": st.booleans(),
    "sampled": st.booleans(),
    "first_seconds": FIRST,
    "finished": st.none(),
    "finish": st.just(()),
    "rank": st.none(),
}
"""Values for fields of moments; others are names, and by their type numbers."""
OF_TYPE = {int: COUNTS, float: SECONDS, bool: st.booleans()}


def moments_of(kind: type[Moment]) -> st.SearchStrategy[Moment]:
    """Any moment of one class."""
    fields = {each.name: FIELDS.get(each.name, OF_TYPE.get(each.type, NAMES)) for each in structs.fields(kind)}
    return st.builds(kind, **fields)


KINDS = (RequestStarted, EncodeDone, WorkerPicked, AttemptEnded, RequestFinished, ExchangeEnded, ToolCalled)
MOMENTS = st.lists(st.one_of([moments_of(kind) for kind in KINDS]), max_size=30)
TENANTS = 2


def table_of(metrics: tuple[Metric, ...], series: int = 4096) -> SeriesTable:
    return SeriesTable(metrics, memoryview(bytearray(SeriesTable.size(series, 1))), series=series)


def recorded(
    metrics: tuple[Metric, ...], moments: list[Moment], series: int = 4096
) -> tuple[SeriesTable, MetricsRecorder]:
    table = table_of(metrics, series)
    tenants = TENANTS if "tenant" in {label for each in metrics for label in each.labels} else 0
    recorder = MetricsRecorder(table, lambda: 0.0, tenants)
    for moment in moments:
        recorder.report(moment)
        recorder.flush()
    return table, recorder


def gathered(
    metrics: tuple[Metric, ...], moments: list[Moment], batch: int, flushes: set[int]
) -> tuple[SeriesTable, MetricsRecorder]:
    """As `recorded`, by what a gateway tells of each class of moments; it is flushed after some of them."""
    table = table_of(metrics)
    tenants = TENANTS if "tenant" in {label for each in metrics for label in each.labels} else 0
    recorder = MetricsRecorder(table, lambda: 0.0, tenants, batch)
    observers = Observers(recorder)
    for number, moment in enumerate(moments):
        observers.report(moment)
        if number in flushes:
            recorder.flush()
    recorder.flush()
    return table, recorder


def expected(metrics: tuple[Metric, ...], moments: list[Moment]) -> dict[tuple[str, Labels], tuple[int, float]]:
    """How often each series is recorded, and the sum of the amounts, as the table says of each moment."""
    counts: Counter[tuple[str, Labels]] = Counter()
    sums: Counter[tuple[str, Labels]] = Counter()
    tenants: list[str] = []
    for moment in moments:
        for metric in metrics:
            if metric.moment is not type(moment):
                continue
            for labels, value in metric.readings(moment):
                if "tenant" in metric.labels:
                    name = moment.tenant  # type: ignore[union-attr]
                    if name not in tenants and len(tenants) < TENANTS:
                        tenants.append(name)
                    labels = (*labels, name if name in tenants else OTHER)
                counts[metric.name, labels] += 1
                sums[metric.name, labels] += value  # type: ignore[assignment]
    return {key: (counts[key], sums[key]) for key in counts}


@pytest.mark.full
@pytest.mark.parametrize("names", TABLES)
@given(MOMENTS)
def test_what_is_recorded_is_what_the_table_says_of_each_moment(names: str, moments: list[Moment]) -> None:
    metrics = TABLES[names]
    table, _ = recorded(metrics, moments)
    found = {(metrics[number].name, series.labels): series.numbers for number, series in table.read()}
    wanted = expected(metrics, moments)

    assert set(found) == set(wanted)
    for key, (count, total) in wanted.items():
        numbers = found[key]
        assert numbers[-1] == pytest.approx(total)
        assert len(numbers) == 1 or sum(numbers[:-1]) == count


@pytest.mark.full
@pytest.mark.parametrize("names", TABLES)
@given(MOMENTS, st.integers(1, 12), st.sets(st.integers(0, 30)))
def test_what_is_gathered_and_recorded_together_is_what_is_recorded_one_by_one(
    names: str, moments: list[Moment], batch: int, flushes: set[int]
) -> None:
    metrics = TABLES[names]
    together, alone = gathered(metrics, moments, batch, flushes)[0], recorded(metrics, moments)[0]
    found, wanted = (
        {(number, series.labels): series for number, series in table.read()} for table in (together, alone)
    )

    assert set(found) == set(wanted)
    for key, series in wanted.items():
        assert found[key].numbers[:-1] == series.numbers[:-1]
        assert found[key].numbers[-1] == pytest.approx(series.numbers[-1])
        kept = zip(found[key].exemplars, series.exemplars, strict=True)
        assert all((one is None) == (other is None) for one, other in kept)


def test_no_more_moments_of_a_class_wait_than_may_be_gathered_and_other_moments_have_them_recorded() -> None:
    table = table_of(METRICS)
    recorder = MetricsRecorder(table, lambda: 0.0, batch=4)
    observers = Observers(recorder)

    def calls() -> float:
        return sum(series.numbers[0] for number, series in table.read() if METRICS[number].name == "smg_worker_calls")

    counts = []
    for _ in range(9):
        observers.report(ended("a"))
        counts.append(calls())
    observers.report(sampled("a"))

    assert counts == [0, 0, 0, 4, 4, 4, 4, 8, 8]
    assert calls() == 9


def test_of_what_falls_into_a_bucket_together_the_slowest_is_its_exemplar() -> None:
    table = table_of(METRICS)
    recorder = MetricsRecorder(table, lambda: 7.0)
    for number, seconds in enumerate((0.3, 0.4, 0.35, 2.0, 0.45)):
        done = ExchangeEnded("p", "GET", "/", 200, 0, seconds, "ok", trace_id=f"{number + 1:032x}", sampled=number != 4)
        recorder.reporter_of(ExchangeEnded)(done)
    recorder.flush()
    (kept,) = [
        series.exemplars
        for number, series in table.read()
        if METRICS[number].name == "smg_http_request_duration_seconds"
    ]

    assert [(each.trace_id, each.value, each.at) for each in kept if each] == [
        (f"{2:032x}", 0.4, 7.0),
        (f"{4:032x}", 2.0, 7.0),
    ]


class Looked:
    """A moment that notes which of its fields are looked at."""

    def __init__(self, moment: Moment) -> None:
        self.moment, self.fields = moment, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.fields.add(name)
        return getattr(self.moment, name)


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("names", TABLES)
@pytest.mark.parametrize("kind", SHAPES)
@given(st.data())
def test_no_label_looks_at_a_field_that_the_shape_of_its_moment_leaves_out(
    names: str, kind: type[Moment], data: st.DataObject
) -> None:
    moment = data.draw(moments_of(kind))
    shape = Looked(moment)
    SHAPES[kind](shape)
    for metric in TABLES[names]:
        if metric.moment is kind and metric.readings(moment):
            labels = Looked(moment)
            metric.labels_of(labels)
            assert labels.fields <= shape.fields | ({"tenant"} if metric.by_tenant else set())
        if metric.moment is kind and metric.when is not None:
            whether = Looked(moment)
            metric.when(whether)
            assert whether.fields <= shape.fields


def test_metrics_of_a_moment_with_a_shape_are_counters_and_histograms_of_one_number_each() -> None:
    odd = [
        each.name for metrics in TABLES.values() for each in metrics if each.moment in SHAPES and each.kind == "gauge"
    ]
    many = [each.name for metrics in TABLES.values() for each in metrics if each.moment in SHAPES and each.any_number]
    exemplars = [
        each.name for metrics in TABLES.values() for each in metrics if each.exemplars and each.moment not in SHAPES
    ]

    assert (odd, many, exemplars) == ([], [], [])


def ended(worker: str) -> AttemptEnded:
    return AttemptEnded("r", worker, 1, "ok", 1, (), 0.1, 0.2, 0.0)


def sampled(*workers: str) -> ProcessSampled:
    return ProcessSampled(0, 0, 0, 1, tuple([WorkerSampled(each, "ready", 0, 0) for each in workers]))


def test_a_worker_that_comes_back_gets_series_of_its_own_and_none_that_another_has_meanwhile() -> None:
    table, recorder = recorded(METRICS, [ended("a"), sampled("a"), sampled(), sampled()])
    for _ in range(3):
        recorder.report(ended("b"))
    recorder.report(sampled("a", "b"))
    for _ in range(2):
        recorder.report(ended("a"))
    recorder.flush()
    calls = {
        series.labels[0]: series.numbers[0]
        for number, series in table.read()
        if METRICS[number].name == "smg_worker_calls"
    }

    assert calls == {"a": 2, "b": 3}


def test_strangers_make_no_shapes_up_and_no_more_of_them_are_kept_than_there_may_be_series() -> None:
    strangers: list[Moment] = []
    for number in range(1000):
        strangers.append(ExchangeEnded("p", f"M{number}", f"/{number}", 404, 0, 0.0, "NotFound", f"{number}"))
        done = RequestFinished("r", "chat", f"model-{number}", "ModelNotFound", 404, 0, 0, 0, 0.0, tenant=f"{number}")
        strangers.append(done)
    _, recorder = recorded(TABLES["own by tenant"], strangers)
    _, full = recorded(METRICS, [ended(f"worker-{number}") for number in range(1000)], 256)

    assert sorted(len(kind.plans) for kind in recorder._kinds.values() if kind.plans) == [1, TENANTS + 1]
    assert max(len(kind.plans) for kind in full._kinds.values()) <= 256


def test_each_recording_without_room_is_counted_as_dropped() -> None:
    metrics = tuple([each for each in METRICS if each.name == "smg_worker_calls"])
    table, recorder = recorded(metrics, [ended(f"w{number}") for number in range(256)], 256)
    before = table.dropped
    for _ in range(5):
        recorder.report(ended("one more"))
    recorder.flush()

    assert (before, table.dropped) == (0, 5)


def shared_columns(processes: int) -> memoryview:
    return memoryview(bytearray(SeriesTable.size(512, processes)))


def recorder_of(shared: memoryview, processes: int, own: int, tenants: int = 0) -> tuple[SeriesTable, MetricsRecorder]:
    metrics = with_tenant(METRICS) if tenants else METRICS
    table = SeriesTable(metrics, shared, series=512, columns=processes, own=own)
    return table, MetricsRecorder(table, lambda: 0.0, tenants=tenants)


def answered(tenant: str) -> RequestFinished:
    return RequestFinished("r", "chat", "m", "ok", 200, 1, 1, 0, 1.0, served="m", tenant=tenant)


def named(table: SeriesTable) -> set[str]:
    """The tenants that have series of their own."""
    return {labels[-1] for number, labels in table.everywhere() if table.metrics[number].by_tenant} - {OTHER}


LONG_TENANTS = [f"spiffe://somewhere/{'x' * 200}/{number}" for number in range(4)]


@pytest.mark.parametrize("tenants", [["a", "b", "c", "d"], LONG_TENANTS], ids=["short", "long"])
def test_so_many_tenants_have_series_over_all_processes_and_those_that_replace_them(tenants: list[str]) -> None:
    shared = shared_columns(2)
    for turn in range(3):
        for own in (0, 1):
            table, recorder = recorder_of(shared, 2, own, tenants=2)
            for at in range(4):
                recorder.report(answered(tenants[(at + turn + own) % 4]))
            recorder.flush()
    requests = sum(
        series.numbers[0] for number, series in table.read() if table.metrics[number].name == "smg_router_requests"
    )

    assert len(named(table)) == 2
    assert requests == 3 * 2 * 4, "each is counted, for itself or among the others"


@pytest.mark.parametrize("tenant", ["a", LONG_TENANTS[0]], ids=["short", "long"])
def test_a_tenant_that_another_process_has_met_is_looked_for_once(tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = shared_columns(2)
    (_, first), (table, second) = (recorder_of(shared, 2, own, tenants=9) for own in (0, 1))
    first.report(answered(tenant))
    first.flush()
    walks, walk = [], SeriesTable.everywhere

    def counted(table: SeriesTable) -> Any:
        walks.append(table)
        return walk(table)

    monkeypatch.setattr(SeriesTable, "everywhere", counted)
    for _ in range(20):
        second.report(answered(tenant))
        second.flush()
    assert len(walks) == 1
    assert len(named(table)) == 1


def test_a_tenant_keeps_its_series_in_a_process_that_replaces_another() -> None:
    shared = shared_columns(1)
    for _ in range(2):
        table, recorder = recorder_of(shared, 1, 0, tenants=1)
        recorder.report(answered("a"))
        recorder.flush()

    assert named(table) == {"a"}
    assert OTHER not in {labels[-1] for _, labels in table.everywhere() if labels}


@pytest.mark.parametrize("name", ["w", "grpc://a-worker-" + "x" * 400])
def test_no_counter_goes_down_while_processes_learn_one_after_the_other_that_a_worker_is_gone(name: str) -> None:
    shared, seen = shared_columns(2), dict[Any, float]()
    both = [recorder_of(shared, 2, own) for own in (0, 1)]

    def look() -> bool:
        """Whether there is a series of the worker; none has gone down."""
        there = False
        for number, series in both[0][0].read():
            metric = METRICS[number]
            if metric.kind == "gauge":
                continue
            for at, value in enumerate(series.numbers):
                key = number, series.labels, at
                assert value >= seen.get(key, 0.0), (metric.name, series.labels)
                seen[key] = value
            there = there or metric.of_worker
        return there

    for _, recorder in both:
        recorder.report(ended(name))
        recorder.report(sampled(name))
    assert look()
    for own in (0, 0, 1, 0, 1, 0, 1):
        both[own][1].report(sampled())
        last = look()
    assert not last, "it is given up in the end"
    assert not [labels for number, labels in both[0][0].everywhere() if METRICS[number].of_worker]


def test_a_worker_with_a_long_name_keeps_its_series_in_a_process_that_replaces_another() -> None:
    shared, name = shared_columns(1), "grpc://a-worker-" + "x" * 400
    for _ in range(2):
        table, recorder = recorder_of(shared, 1, 0)
        for _ in range(3):
            recorder.report(sampled(name))
            recorder.report(ended(name))
        recorder.flush()
    calls = [s.numbers[0] for number, s in table.read() if METRICS[number].name == "smg_worker_calls"]

    assert calls == [6.0]
