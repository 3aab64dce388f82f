"""The observer that writes the numbers of metrics.

Decides which metrics a moment belongs to, what its labels are, and which series are given up: those of workers that are gone. It
never raises and never waits. Where there is no room for a series, the recording is dropped and counted. Above: server.metrics.
Below: the tables, `series`.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from smg_core.hooks import Moment, ProcessSampled
from smg_core.observability.metrics.metric import OTHER, WORKER, Labels, Metric, Readings
from smg_core.observability.metrics.series import SeriesTable

__all__ = ["MetricsRecorder", "with_tenant"]

_TENANT = "tenant"


def with_tenant(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics with the label `tenant`, where they may have it."""
    return tuple([attrs.evolve(each, labels=(*each.labels, _TENANT)) if each.by_tenant else each for each in metrics])


@attrs.define(eq=False)
class _Row:
    """A metric with what its recording needs: its number in the table, where a histogram's sum is behind its first cell, and the
    first cells of its series by labels."""

    number: int
    metric: Metric
    read: Callable[[Any], Readings]
    kind: str
    bounds: tuple[float, ...]
    total: int
    cells: dict[Labels, int] = attrs.field(factory=dict)


class MetricsRecorder:
    """Writes to `table`. `tenants` is how many tenants get series of their own (0: none, the label is not there); `now` is the
    time, in seconds since the epoch, for exemplars."""

    __slots__ = ("_away", "_most_tenants", "_now", "_of_workers", "_rows", "_table", "_tenants", "_values")

    def __init__(self, table: SeriesTable, now: Callable[[], float], tenants: int = 0) -> None:
        self._table, self._now, self._values = table, now, table.values
        self._most_tenants = tenants
        self._tenants: set[str] = set()
        self._away: frozenset[str] = frozenset()
        self._of_workers: dict[str, set[tuple[int, Labels]]] = {}
        rows = [
            _Row(number, each, each.read, each.kind, each.bounds, len(each.bounds) + 1)
            for number, each in enumerate(table.metrics)
        ]
        self._rows: dict[type, list[_Row]] = {}
        for row in rows:
            self._rows.setdefault(row.metric.moment, []).append(row)
        for number, labels in table.known():
            self._cell(rows[number], labels)

    def report(self, moment: Moment) -> None:
        values = self._values
        for row in self._rows.get(type(moment), ()):
            for labels, value in row.read(moment):
                if self._most_tenants and row.metric.by_tenant:
                    labels = (*labels, self._tenant(getattr(moment, _TENANT, "")))
                first = row.cells.get(labels, -1)
                if first < 0 and (first := self._cell(row, labels)) < 0:
                    continue
                if row.kind == "counter":
                    values[first] += value
                elif row.kind == "gauge":
                    values[first] = value
                else:
                    self._observe(row, first, value, moment)
        if isinstance(moment, ProcessSampled):
            self._forget_workers(frozenset([each.name for each in moment.workers]))

    def _observe(self, row: _Row, first: int, value: float, moment: Moment) -> None:
        """Count a value in its bucket."""
        values, bucket = self._values, bisect_left(row.bounds, value)
        values[first + bucket] += 1
        values[first + row.total] += value
        if row.metric.exemplars and (trace_id := getattr(moment, "trace_id", "")) and getattr(moment, "sampled", True):
            self._table.keep_exemplar(row.number, first, bucket, trace_id, value, self._now())

    def _cell(self, row: _Row, labels: Labels) -> int:
        """The first cell of a series that was not recorded here before; -1 where there is no room for it."""
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
                self._row(number).cells.pop(labels, None)
                self._table.forget(number, labels)
        self._away = away

    def _row(self, number: int) -> _Row:
        rows = self._rows[self._table.metrics[number].moment]
        return next(row for row in rows if row.number == number)
