"""The series of metrics: what was added is what is read, over any number of processes, also after one was replaced."""

from collections import defaultdict
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.hooks import ExchangeEnded
from smg_core.observability.metrics.metric import Metric
from smg_core.observability.metrics.series import SeriesTable, label_forms

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
        st.tuples(st.just("settle"), st.integers(0, 2), st.none(), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_what_is_read_is_what_every_process_has_added_whichever_were_replaced(steps: Any) -> None:
    shared = memory(3)
    tables = [column(shared, 3, own) for own in range(3)]
    counts: list[dict[Any, float]] = [defaultdict(float) for _ in tables]
    gauges: list[dict[Any, float]] = [{} for _ in tables]
    given_up: list[set[Any]] = [set() for _ in tables]
    for kind, own, labels, value in steps:
        if kind == "replace":
            tables[own] = column(shared, 3, own)
            gauges[own].clear()
        elif kind == "forget":
            tables[own].forget(0, labels)
            given_up[own] |= {labels} & counts[own].keys()
        elif kind == "settle":
            tables[own].settle()
            held = {each for other in range(3) if other != own for each in counts[other].keys() - given_up[other]}
            for each in given_up[own] - held:
                del counts[own][each]
            given_up[own] &= held
        else:
            number = 0 if kind == "add" else 1
            cell = tables[own].cell(number, labels)
            if kind == "add":
                tables[own].values[cell] += value
                counts[own][labels] += value
                given_up[own].discard(labels)
            else:
                tables[own].values[cell] = value
                gauges[own][labels] = value
    expected: dict[Any, float] = defaultdict(float)
    for number, each in ((0, counts), (1, gauges)):
        for mine in each:
            for labels, value in mine.items():
                expected[number, labels] += value
    for labels in set().union(*given_up):
        del expected[0, labels]

    assert numbers(tables[0]) == {key: (value,) for key, value in expected.items()}


def test_what_finds_no_room_is_dropped_and_counted_and_everything_else_is_counted_on() -> None:
    table = column(memory(series=4), series=4)
    cells = [table.cell(0, (str(number), "")) for number in range(6)]

    assert cells[4:] == [-1, -1]
    assert table.dropped == 2
    assert table.used == 4
    assert table.cell(0, ("0", "")) == cells[0]


@pytest.mark.parametrize("letter", ["x", "\u00e4", "\U0001f600"])
def test_values_that_are_too_long_together_are_shortened_and_stay_apart_and_are_found_again(letter: str) -> None:
    shared = memory(2)
    long = [(letter * 1000 + end, "short") for end in ("a", "b")]
    for own in (0, 1):
        table = column(shared, 2, own)
        for labels in long:
            table.values[table.cell(0, labels)] += 1
    again = column(shared, 2, 0)
    for labels in long:
        again.values[again.cell(0, labels)] += 1
    found = numbers(again)

    assert list(found.values()) == [(3.0,), (3.0,)]
    assert again.dropped == 0
    for (_, shown), labels in zip(found, long, strict=True):
        assert shown[1] == "short"
        assert len(shown[0].encode()) < 240
        assert shown[0] in label_forms(labels[0], 2)
    for table in (again, column(shared, 2, 1)):
        for labels in long:
            table.forget(0, labels)
    again.settle()
    assert numbers(again) == {}


@given(st.lists(st.text(max_size=300), min_size=1, max_size=8))
def test_whatever_the_values_are_a_series_of_them_has_room(labels: list[str]) -> None:
    metric = attrs.evolve(COUNTER, labels=tuple(map(str, range(len(labels)))))
    table = SeriesTable((metric,), memory(), series=ROOM)

    assert table.cell(0, tuple(labels)) >= 0


def test_a_series_that_one_process_has_given_up_is_not_read_and_comes_back_with_what_it_had() -> None:
    shared = memory(2)
    one, other = column(shared, 2, 0), column(shared, 2, 1)
    for table, count in ((one, 5), (other, 3)):
        table.values[table.cell(0, ("w", ""))] += count
    seen = [numbers(one)]
    one.forget(0, ("w", ""))
    one.settle()
    seen.append(numbers(one))
    one.values[one.cell(0, ("w", ""))] += 1
    seen.append(numbers(one))
    for table in (one, other):
        table.forget(0, ("w", ""))
    for table in (one, other):
        table.settle()
    other.values[other.cell(0, ("w", ""))] += 1
    seen.append(numbers(one))

    assert [each.get((0, ("w", ""))) for each in seen] == [(8.0,), None, (9.0,), (1.0,)]


def test_the_room_of_a_series_that_was_given_up_is_used_again_from_zero() -> None:
    table = column(memory(series=1), series=1)
    table.values[table.cell(0, ("old", ""))] += 7
    table.forget(0, ("old", ""))
    table.settle()
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
