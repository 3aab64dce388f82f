"""The observer that writes the numbers of metrics.

Decides which metrics a moment belongs to, what its labels are, and which series are given up: those of workers that are gone. It
never raises and never waits. Where there is no room for a series, the recording is dropped and counted.

Of the moments that every request has, some are gathered and recorded together, since a number of them costs little more than one:
those with the same labels are a few additions. They are recorded when there are many, and when `flush` is called: at an interval,
before a text is made of the numbers, and when the process ends. Above: server.metrics. Below: the tables, `series`, `shapes`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import attrs
from msgspec.structs import astuple

from smg_core.hooks import Moment, ProcessSampled, Reporter
from smg_core.observability.metrics.metric import OTHER, WORKER, Amount, FromFields, Labels, Metric, one
from smg_core.observability.metrics.series import SeriesTable, label_forms
from smg_core.observability.metrics.shapes import SHAPES

__all__ = ["MetricsRecorder", "with_tenant"]

_FEW = 8  # amounts that are counted one by one, since ordering them takes longer
_TENANT, _TRACE_ID, _SAMPLED = "tenant", "trace_id", "sampled"


def with_tenant(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics with the label `tenant`, where they may have it."""
    return tuple([attrs.evolve(each, labels=(*each.labels, _TENANT)) if each.by_tenant else each for each in metrics])


@attrs.define(eq=False)
class _Row:
    """A metric with its number in the table, and the first cells of its series by labels."""

    number: int
    metric: Metric
    cells: dict[Labels, int] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _Step:
    """One recording of the moments of a shape. `columns` are the places of the fields that say the amount, none for a counter of
    moments. `first` is the first cell of the series, -1 before there is one; `total` is where a histogram's sum is behind it."""

    row: _Row
    part: Labels
    columns: tuple[int, ...]
    function: Callable[..., float | None] | None
    bounds: tuple[float, ...]
    total: int
    exemplars: bool
    first: int = -1

    def amounts(self, columns: "_Columns") -> Sequence[float | None]:
        """What moments with these values say."""
        if self.function is None:
            return columns[self.columns[0]]
        return list(map(self.function, *[columns[each] for each in self.columns]))


_Columns = Sequence[tuple[Any, ...]]
"""The values of each field of some moments of one class."""


@attrs.define(eq=False)
class _Plan:
    """What is recorded of moments of one shape. Of counters whose series are there, `ones` are the cells that the number of
    moments is added to, and `sums` those that the values of a field are, with the field's place."""

    steps: list[_Step]
    ones: list[int] = attrs.field(factory=list)
    sums: list[tuple[int, int]] = attrs.field(factory=list)

    def settle(self) -> None:
        """Called after a recording, when more of the series may be there."""
        left: list[_Step] = []
        for step in self.steps:
            if step.first < 0 or step.bounds or step.function is not None:
                left.append(step)
            elif step.columns:
                self.sums.append((step.columns[0], step.first))
            else:
                self.ones.append(step.first)
        self.steps = left


class _Kind:
    """A class of moments: the metrics recorded from it and, where moments have a shape, what is done for each shape and the
    moments that wait to be recorded. `tenant`: where the tenant is a part of the shape, its place among the fields."""

    def __init__(self, moments: type[Moment]) -> None:
        names: tuple[str, ...] = moments.__struct_fields__
        shape = SHAPES.get(moments)
        self.gathers = shape is not None
        self.names = names
        self.rows: list[_Row] = []
        self.plans: dict[Hashable, _Plan] = {}
        self.waiting: list[Moment] = []
        self.tenant = -1
        self.trace_id, self.sampled = (names.index(each) if each in names else -1 for each in (_TRACE_ID, _SAMPLED))
        self._fields = [(names.index(each), shape.parts.get(each)) for each in shape.fields] if shape else []

    def columns(self, moments: Sequence[Moment]) -> _Columns:
        """The values of each field of some moments of this class."""
        return list(zip(*map(astuple, moments), strict=True))

    def shapes(self, columns: _Columns) -> list[Hashable]:
        """The shapes of moments with these values."""
        found = [columns[each] if part is None else map(part, columns[each]) for each, part in self._fields]
        return list(zip(*found, strict=True)) if found else [()] * len(columns[0])

    def step(self, row: _Row, part: Labels, amount: Amount) -> _Step:
        """How an amount of a metric is recorded."""
        metric = row.metric
        columns: tuple[int, ...] = ()
        function = None
        if isinstance(amount, FromFields):
            columns, function = tuple(map(self.names.index, amount.fields)), amount.function
        elif amount is not one:
            raise TypeError(f"{metric.name}: the amount of a moment with a shape is `one` or made by `from_fields`")
        return _Step(row, part, columns, function, metric.bounds, len(metric.bounds) + 1, metric.exemplars)


class MetricsRecorder:
    """Writes to `table`. `tenants` is how many tenants get series of their own (0: none, the label is not there); `now` is the
    time, in seconds since the epoch, for exemplars. `batch` is how many moments of one class are gathered at most."""

    __slots__ = (
        "_away",
        "_batch",
        "_cut_tenants",
        "_gathered",
        "_kinds",
        "_most_labels",
        "_most_tenants",
        "_now",
        "_of_workers",
        "_rows",
        "_table",
        "_tenants",
        "hears",
    )

    def __init__(self, table: SeriesTable, now: Callable[[], float], tenants: int = 0, batch: int = 256) -> None:
        self._table, self._now, self._batch = table, now, batch
        self._most_tenants = tenants
        self._tenants: set[str] = set()
        # Long names that stand cut in the series of another process: each form is one name's, so they are no more than tenants.
        self._cut_tenants: set[str] = set()
        self._away: frozenset[str] = frozenset()
        self._of_workers: dict[str, set[tuple[int, Labels]]] = {}
        self._rows = [_Row(number, each) for number, each in enumerate(table.metrics)]
        self._kinds: dict[type, _Kind] = {}
        for row in self._rows:
            kind = self._kinds.setdefault(row.metric.moment, _Kind(row.metric.moment))
            kind.rows.append(row)
            if tenants and row.metric.by_tenant:
                kind.tenant = kind.names.index(_TENANT)
        self._gathered = [kind for kind in self._kinds.values() if kind.gathers]
        self.hears = frozenset(self._kinds)
        self._most_labels = max([1, *(len(each.labels) for each in table.metrics)])
        for number, labels in table.known():
            self._cell(self._rows[number], labels)
        self._learn_tenants()

    def report(self, moment: Moment) -> None:
        """Record a moment, or gather it with others."""
        kind = self._kinds.get(type(moment))
        if kind is None:
            return
        if not kind.gathers:
            self._record_rare(kind, moment)
            return
        kind.waiting.append(moment)
        if len(kind.waiting) >= self._batch:
            self.flush()

    def reporter_of(self, moments: type) -> Reporter:
        """What takes the moments of one class, as `report` does: of those that every request has, it only gathers them."""
        kind = self._kinds[moments]
        if not kind.gathers:
            return self.report
        gather, waiting, most, flush = kind.waiting.append, kind.waiting, self._batch, self.flush

        def gathered(moment: Moment) -> None:
            gather(moment)
            if len(waiting) >= most:
                flush()

        return gathered

    def flush(self) -> None:
        """Record the moments that were gathered."""
        for kind in self._gathered:
            if kind.waiting:
                moments = kind.waiting[:]
                kind.waiting.clear()
                self._record(kind, moments)

    def _record(self, kind: _Kind, moments: list[Moment]) -> None:
        """Record moments of one class, those of the same shape together."""
        columns = kind.columns(moments)
        shapes = kind.shapes(columns)
        if kind.tenant >= 0:
            shapes = list(zip(shapes, map(self._tenant, columns[kind.tenant]), strict=True))
        if shapes.count(shapes[0]) == len(shapes):
            self._record_alike(kind, shapes[0], moments[0], columns)
            return
        alike: dict[Hashable, list[Moment]] = {}
        for shape, moment in zip(shapes, moments, strict=True):
            others = alike.get(shape)
            if others is None:
                alike[shape] = [moment]
            else:
                others.append(moment)
        for shape, others in alike.items():
            self._record_alike(kind, shape, others[0], kind.columns(others))

    def _record_alike(self, kind: _Kind, shape: Hashable, moment: Moment, columns: _Columns) -> None:
        """Record moments of one shape, of which `moment` is one."""
        values, count = self._table.values, len(columns[0])
        plan = kind.plans.get(shape)
        if plan is None:
            plan = self._planned(kind, shape, moment)
        for first in plan.ones:
            values[first] += count
        for column, first in plan.sums:
            total = sum(columns[column])
            if total:
                values[first] += total
        settles = False
        for step in plan.steps:
            if step.bounds:
                self._observe(kind, step, moment, columns)
            else:
                self._add(step, moment, columns)
                settles = settles or (step.first >= 0 and step.function is None)
        if settles:
            plan.settle()

    def _add(self, step: _Step, moment: Moment, columns: _Columns) -> None:
        """Add to a counter whose series was not there before, or whose amounts are made of several fields."""
        count = len(columns[0])
        amounts = [each for each in step.amounts(columns) if each is not None] if step.columns else [1] * count
        total = sum(amounts)
        if not amounts or (not total and step.row.metric.skips_zero):
            return
        first = step.first if step.first >= 0 else self._found(step, moment, len(amounts))
        if first >= 0:
            self._table.values[first] += total

    def _observe(self, kind: _Kind, step: _Step, moment: Moment, columns: _Columns) -> None:
        """Count amounts in the buckets of a histogram."""
        found = step.amounts(columns)
        amounts: Sequence[float] = [each for each in found if each is not None] if None in found else found  # type: ignore[assignment]
        if not amounts:
            return
        first = step.first if step.first >= 0 else self._found(step, moment, len(amounts))
        if first < 0:
            return
        values, bounds = self._table.values, step.bounds
        if len(amounts) < _FEW:
            for amount in amounts:
                values[first + bisect_left(bounds, amount)] += 1
        else:
            for bucket, begin, end in _buckets(bounds, sorted(amounts)):
                values[first + bucket] += end - begin
        values[first + step.total] += sum(amounts)
        if step.exemplars and any(columns[kind.trace_id]):
            self._keep_exemplars(kind, step, found, columns)

    def _keep_exemplars(self, kind: _Kind, step: _Step, amounts: Sequence[float | None], columns: _Columns) -> None:
        """Keep a trace for each bucket, of the moments that have one that may be recorded: the one with the highest amount."""
        found = zip(amounts, columns[kind.trace_id], columns[kind.sampled], strict=True)
        traced = {amount: trace for amount, trace, sampled in found if trace and sampled and amount is not None}
        ordered, now = sorted(traced), self._now()
        for bucket, _, end in _buckets(step.bounds, ordered):
            highest = ordered[end - 1]
            self._table.keep_exemplar(step.row.number, step.first, bucket, traced[highest], highest, now)

    def _planned(self, kind: _Kind, shape: Hashable, moment: Moment) -> _Plan:
        """What is done for moments of a shape, of which this is one. Of shapes there are about as many as series, and no more are
        kept."""
        steps = [
            kind.step(row, part, amount)
            for row in kind.rows
            if row.metric.when is None or row.metric.when(moment)
            for part, amount in row.metric.counted
        ]
        if len(kind.plans) >= self._table.most:
            kind.plans.clear()
        plan = kind.plans[shape] = _Plan(steps)
        return plan

    def _found(self, step: _Step, moment: Moment, recordings: int) -> int:
        """The first cell of a step's series; -1 where there is no room for it, and so many recordings are dropped."""
        row = step.row
        labels = self._labels(row.metric, (*row.metric.labels_of(moment), *step.part), moment)
        step.first = self._cell(row, labels, recordings)
        return step.first

    def _record_rare(self, kind: _Kind, moment: Moment) -> None:
        """Record a moment that has no shape."""
        if isinstance(moment, ProcessSampled):
            self.flush()
        values = self._table.values
        for row in kind.rows:
            for labels, value in row.metric.readings(moment):
                first = self._cell(row, self._labels(row.metric, labels, moment))
                if first < 0:
                    continue
                if row.metric.kind == "gauge":
                    values[first] = value
                elif row.metric.kind == "counter":
                    values[first] += value
                else:
                    bounds = row.metric.bounds
                    values[first + bisect_left(bounds, value)] += 1
                    values[first + len(bounds) + 1] += value
        if isinstance(moment, ProcessSampled):
            self._forget_workers(frozenset([each.name for each in moment.workers]))

    def _labels(self, metric: Metric, labels: Labels, moment: Any) -> Labels:
        """The values of all labels of a series, the tenant's too."""
        return (*labels, self._tenant(moment.tenant)) if self._most_tenants and metric.by_tenant else labels

    def _cell(self, row: _Row, labels: Labels, recordings: int = 1) -> int:
        """The first cell of a series; -1 where there is no room for it, and so many recordings are dropped."""
        first = row.cells.get(labels, -1)
        if first >= 0:
            return first
        first = self._table.cell(row.number, labels, recordings)
        if first >= 0:
            row.cells[labels] = first
            if row.metric.of_worker:
                name = labels[row.metric.labels.index(WORKER)]
                self._of_workers.setdefault(name, set()).add((row.number, labels))
        return first

    def _tenant(self, name: str) -> str:
        """The label of a tenant: the first ones of all processes have their own names, the others share one."""
        if name in self._tenants or name in self._cut_tenants:
            return name
        if len(self._tenants) < self._most_tenants:
            self._learn_tenants()
        if not self._tenants.isdisjoint(label_forms(name, self._most_labels)):
            self._cut_tenants.add(name)
            return name
        if len(self._tenants) >= self._most_tenants:
            return OTHER
        self._tenants.add(name)
        return name

    def _learn_tenants(self) -> None:
        """Learn which tenants have series of their own: those of all processes, also of those before this one."""
        if not self._most_tenants:
            return
        for number, labels in self._table.everywhere():
            if self._rows[number].metric.by_tenant and labels[-1] != OTHER:
                self._tenants.add(labels[-1])

    def _forget_workers(self, there: frozenset[str]) -> None:
        """Give up the series of workers that two samples in a row did not have: what was under way there has ended."""
        there = frozenset[str]().union(*(label_forms(name, self._most_labels) for name in there))
        away = frozenset([name for name in self._of_workers if name not in there])
        for name in away & self._away:
            for number, labels in self._of_workers.pop(name):
                self._rows[number].cells.pop(labels, None)
                self._table.forget(number, labels)
            for kind in self._kinds.values():
                kind.plans.clear()  # they have cells that are now free
        self._away = away
        self._table.settle()


def _buckets(bounds: Sequence[float], ordered: Sequence[float]) -> Iterator[tuple[int, int, int]]:
    """The buckets that amounts in ascending order fall into: each bucket's number, and from which to which amount."""
    begin = 0
    while begin < len(ordered):
        bucket = bisect_left(bounds, ordered[begin])
        end = bisect_right(ordered, bounds[bucket], begin) if bucket < len(bounds) else len(ordered)
        yield bucket, begin, end
        begin = end
