"""The observer that writes the numbers of metrics.

Decides which metrics a moment belongs to, what its labels are, and which series are given up: those of workers that are gone. It
never raises and never waits. Where there is no room for a series, the recording is dropped and counted. What a request costs here
is a few additions: where these go is kept for each shape of a moment (`shapes`). Above: server.metrics. Below: the tables,
`series`.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs

from smg_core.hooks import Moment, ProcessSampled
from smg_core.observability.metrics.metric import OTHER, WORKER, Amount, Labels, Metric, one
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.shapes import SHAPES

__all__ = ["MetricsRecorder", "with_tenant"]

_TENANT = "tenant"


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
    """One recording of the moments of a shape. `first` is the first cell of the series, -1 before there is one; `total` is where
    a histogram's sum is behind it."""

    row: _Row
    part: Labels
    amount: Amount
    bounds: tuple[float, ...]
    total: int
    exemplars: bool
    first: int = -1


@attrs.define(eq=False)
class _Plan:
    """What is recorded of a moment of one shape. Once settled, `ones` are the cells that each moment adds one to."""

    steps: list[_Step]
    ones: list[int] = attrs.field(factory=list)
    settled: bool = False

    def settle(self) -> None:
        """Called after the first moment, when the series are known."""
        self.ones = [step.first for step in self.steps if step.amount is one and step.first >= 0]
        self.steps = [step for step in self.steps if step.amount is not one or step.first < 0]
        self.settled = True


@attrs.define(eq=False)
class _Kind:
    """A class of moments: the metrics recorded from it and, where moments have a shape, what is done for each shape. `by_tenant`:
    the tenant's label is a part of the shape."""

    shape: Callable[[Any], Hashable] | None
    rows: list[_Row] = attrs.field(factory=list)
    by_tenant: bool = False
    plans: dict[Hashable, _Plan] = attrs.field(factory=dict)


class MetricsRecorder:
    """Writes to `table`. `tenants` is how many tenants get series of their own (0: none, the label is not there); `now` is the
    time, in seconds since the epoch, for exemplars."""

    __slots__ = ("_away", "_kinds", "_most_tenants", "_now", "_of_workers", "_rows", "_table", "_tenants", "hears")

    def __init__(self, table: SeriesTable, now: Callable[[], float], tenants: int = 0) -> None:
        self._table, self._now = table, now
        self._most_tenants = tenants
        self._tenants: set[str] = set()
        self._away: frozenset[str] = frozenset()
        self._of_workers: dict[str, set[tuple[int, Labels]]] = {}
        self._rows = [_Row(number, each) for number, each in enumerate(table.metrics)]
        self._kinds: dict[type, _Kind] = {}
        for row in self._rows:
            kind = self._kinds.setdefault(row.metric.moment, _Kind(SHAPES.get(row.metric.moment)))
            kind.rows.append(row)
            kind.by_tenant = kind.by_tenant or (tenants > 0 and row.metric.by_tenant)
        self.hears = frozenset(self._kinds)
        for number, labels in table.known():
            self._cell(self._rows[number], labels)

    def report(self, moment: Moment) -> None:
        kind = self._kinds.get(type(moment))
        if kind is None:
            return
        if kind.shape is None:
            self._record_rare(kind, moment)
            return
        shape = kind.shape(moment)
        if kind.by_tenant:
            shape = shape, self._tenant(getattr(moment, _TENANT))
        plan = kind.plans.get(shape)
        if plan is None:
            plan = self._planned(kind, shape)
        values = self._table.values
        for first in plan.ones:
            values[first] += 1
        for step in plan.steps:
            value = step.amount(moment)
            if value is None:
                continue
            first = step.first
            if first < 0 and (first := self._found(step, moment)) < 0:
                continue
            if not step.bounds:
                values[first] += value
                continue
            bucket = bisect_left(step.bounds, value)
            values[first + bucket] += 1
            values[first + step.total] += value
            if step.exemplars:
                self._keep_exemplar(step.row, first, bucket, value, moment)
        if not plan.settled:
            plan.settle()

    def _planned(self, kind: _Kind, shape: Hashable) -> _Plan:
        """What is done for moments of a shape. Of shapes there are about as many as series, and no more are kept."""
        steps = [
            _Step(row, part, amount, row.metric.bounds, len(row.metric.bounds) + 1, row.metric.exemplars)
            for row in kind.rows
            for part, amount in row.metric.counted
        ]
        plan = _Plan(steps)
        if len(kind.plans) >= self._table.most:
            kind.plans.clear()
        kind.plans[shape] = plan
        return plan

    def _found(self, step: _Step, moment: Moment) -> int:
        """The first cell of a step's series; -1 where there is no room for it."""
        row = step.row
        step.first = self._cell(row, self._labels(row.metric, (*row.metric.labels_of(moment), *step.part), moment))
        return step.first

    def _record_rare(self, kind: _Kind, moment: Moment) -> None:
        """Record a moment that has no shape."""
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
                    self._observe(row, first, value, moment)
        if isinstance(moment, ProcessSampled):
            self._forget_workers(frozenset([each.name for each in moment.workers]))

    def _observe(self, row: _Row, first: int, value: float, moment: Moment) -> None:
        """Count a value in its bucket."""
        values, bounds = self._table.values, row.metric.bounds
        bucket = bisect_left(bounds, value)
        values[first + bucket] += 1
        values[first + len(bounds) + 1] += value
        if row.metric.exemplars:
            self._keep_exemplar(row, first, bucket, value, moment)

    def _keep_exemplar(self, row: _Row, first: int, bucket: int, value: float, moment: Any) -> None:
        """Keep the trace of a moment, where it has one that may be recorded."""
        if moment.trace_id and moment.sampled:
            self._table.keep_exemplar(row.number, first, bucket, moment.trace_id, value, self._now())

    def _labels(self, metric: Metric, labels: Labels, moment: Any) -> Labels:
        """The values of all labels of a series, the tenant's too."""
        return (*labels, self._tenant(moment.tenant)) if self._most_tenants and metric.by_tenant else labels

    def _cell(self, row: _Row, labels: Labels) -> int:
        """The first cell of a series; -1 where there is no room for it."""
        first = row.cells.get(labels, -1)
        if first >= 0:
            return first
        first = self._table.cell(row.number, labels)
        if first >= 0:
            row.cells[labels] = first
            if row.metric.of_worker:
                name = labels[row.metric.labels.index(WORKER)]
                self._of_workers.setdefault(name, set()).add((row.number, labels))
        return first

    def _tenant(self, name: str) -> str:
        """The label of a tenant: the first ones have their own names, the others share one."""
        if name not in self._tenants:
            if len(self._tenants) >= self._most_tenants:
                return OTHER
            self._tenants.add(name)
        return name

    def _forget_workers(self, there: frozenset[str]) -> None:
        """Give up the series of workers that two samples in a row did not have: what was under way there has ended."""
        away = frozenset([name for name in self._of_workers if name not in there])
        for name in away & self._away:
            for number, labels in self._of_workers.pop(name):
                self._rows[number].cells.pop(labels, None)
                self._table.forget(number, labels)
            for kind in self._kinds.values():
                kind.plans.clear()  # they have cells that are now free
        self._away = away
