"""The series of metrics: what was added is what is read, over any number of processes, also after one was replaced."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.hooks import ExchangeEnded
from smg_core.observability.metrics.metric import Metric
from smg_core.observability.metrics.series import SeriesTable

COUNTER = Metric("a", "counter", "A.", "http", ExchangeEnded, ("x", "y"))
GAUGE = Metric("b", "gauge", "B.", "http", ExchangeEnded, ("x",))
LEAST = Metric("c", "gauge", "C.", "http", ExchangeEnded, merge="min")
SPREAD = Metric("d", "histogram", "D.", "http", ExchangeEnded, ("x",), bounds=(1.0, 2.0), exemplars=True)
METRICS = (COUNTER, GAUGE, LEAST, SPREAD)
ROOM = 64


def memory(processes: int = 1, series: int = ROOM) -> memoryview:
    return memoryview(bytearray(SeriesTable.size(series, processes)))


def column(shared: memoryview, processes: int = 1, own: int = 0, series: int = ROOM) -> SeriesTable:
    return SeriesTable(METRICS, shared, series=series, columns=processes, own=own)


def numbers(table: SeriesTable) -> dict[tuple[int, tuple[str, ...]], tuple[float, ...]]:
    return {(number, series.labels): series.numbers for number, series in table.read()}


LABELS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x1f"), max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.tuples(LABELS, LABELS), st.integers(1, 5)),
        st.tuples(st.just("set"), st.integers(0, 2), st.tuples(LABELS), st.integers(-5, 5)),
        st.tuples(st.just("replace"), st.integers(0, 2), st.none(), st.none()),
        st.tuples(st.just("forget"), st.integers(0, 2), st.tuples(LABELS, LABELS), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_what_is_read_is_what_every_process_has_added_whichever_were_replaced(steps: Any) -> None:
    shared = memory(3)
    tables = [column(shared, 3, own) for own in range(3)]
    counts: list[dict[Any, float]] = [defaultdict(float) for _ in tables]
    gauges: list[dict[Any, float]] = [{} for _ in tables]
    for kind, own, labels, value in steps:
        if kind == "replace":
            tables[own] = column(shared, 3, own)
            gauges[own].clear()
        elif kind == "forget":
            tables[own].forget(0, labels)
            counts[own].pop(labels, None)
        else:
            number = 0 if kind == "add" else 1
            cell = tables[own].cell(number, labels)
            if kind == "add":
                tables[own].values[cell] += value
                counts[own][labels] += value
            else:
                tables[own].values[cell] = value
                gauges[own][labels] = value
    expected: dict[Any, float] = defaultdict(float)
    for number, each in ((0, counts), (1, gauges)):
        for mine in each:
            for labels, value in mine.items():
                expected[number, labels] += value

    assert numbers(tables[0]) == {key: (value,) for key, value in expected.items()}


def test_what_finds_no_room_is_dropped_and_counted_and_everything_else_is_counted_on() -> None:
    table = column(memory(series=4), series=4)
    cells = [table.cell(0, (str(number), "")) for number in range(6)]

    assert cells[4:] == [-1, -1]
    assert table.dropped == 2
    assert table.used == 4
    assert table.cell(0, ("0", "")) == cells[0]


def test_a_label_that_is_too_long_is_dropped_and_counted() -> None:
    table = column(memory())

    assert table.cell(0, ("x" * 1000, "")) == -1
    assert table.dropped == 1


def test_the_room_of_a_series_that_was_given_up_is_used_again_from_zero() -> None:
    table = column(memory(series=1), series=1)
    table.values[table.cell(0, ("old", ""))] += 7
    table.forget(0, ("old", ""))
    table.values[table.cell(0, ("new", ""))] += 1

    assert numbers(table) == {(0, ("new", "")): (1.0,)}


def test_a_gauge_of_several_processes_is_the_one_that_its_row_says() -> None:
    shared = memory(2)
    for own, value in enumerate((3.0, 1.0)):
        table = column(shared, 2, own)
        table.values[table.cell(2, ())] = value

    assert numbers(table) == {(2, ()): (1.0,)}


def test_a_bucket_shows_the_newest_exemplar_of_all_processes() -> None:
    shared = memory(2)
    for own, at in enumerate((200.0, 100.0)):
        table = column(shared, 2, own)
        first = table.cell(3, ("r",))
        table.values[first + 1] += 1
        table.keep_exemplar(3, first, 1, f"{own + 1:032x}", 1.5, at)

    ((_, series),) = table.read()
    assert [None if each is None else (each.trace_id, each.value, each.at) for each in series.exemplars] == [
        None,
        (f"{1:032x}", 1.5, 200.0),
        None,
    ]
    assert series.numbers == (0.0, 2.0, 0.0, 0.0)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.kind + metric.merge)
def test_a_table_reads_what_an_empty_one_has(metric: Metric) -> None:
    assert numbers(column(memory())) == {}
