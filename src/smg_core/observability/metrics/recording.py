"""The observer that writes the numbers of metrics.

Decides which metrics a moment belongs to, what its labels are, and which series are given up: those of workers that are gone. It
never raises and never waits. Where there is no room for a series, the recording is dropped and counted. Above: server.metrics.
Below: the tables, `series`.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import attrs

from smg_core.hooks import Moment, ProcessSampled
from smg_core.observability.metrics.metric import OTHER, WORKER, Labels, Metric
from smg_core.observability.metrics.series import SeriesTable

__all__ = ["MetricsRecorder", "with_tenant"]

_TENANT = "tenant"


def with_tenant(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics with the label `tenant`, where they may have it."""
    return tuple([attrs.evolve(each, labels=(*each.labels, _TENANT)) if each.by_tenant else each for each in metrics])


class MetricsRecorder:
    """Writes to `table`. `tenants` is how many tenants get series of their own (0: none, the label is not there); `now` is the
    time, in seconds since the epoch, for exemplars."""

    __slots__ = ("_away", "_most_tenants", "_now", "_of_workers", "_rows", "_table", "_tenants")

    def __init__(self, table: SeriesTable, now: Callable[[], float], tenants: int = 0) -> None:
        self._table, self._now = table, now
        self._most_tenants = tenants
        self._tenants: set[str] = set()
        self._away: frozenset[str] = frozenset()
        self._of_workers: dict[str, set[tuple[int, Labels]]] = {}
        self._rows: dict[type, list[tuple[int, Metric]]] = {}
        for number, metric in enumerate(table.metrics):
            self._rows.setdefault(metric.moment, []).append((number, metric))
        for number, labels in table.known():
            self._note_worker(number, table.metrics[number], labels)

    def report(self, moment: Moment) -> None:
        for number, metric in self._rows.get(type(moment), ()):
            for labels, value in metric.read(moment):
                if self._most_tenants and metric.by_tenant:
                    labels = (*labels, self._tenant(getattr(moment, _TENANT, "")))
                self._record(number, metric, labels, value, moment)
        if isinstance(moment, ProcessSampled):
            self._forget_workers(frozenset([each.name for each in moment.workers]))

    def _record(self, number: int, metric: Metric, labels: Labels, value: float, moment: Moment) -> None:
        first = self._table.cell(number, labels)
        if first < 0:
            return
        if metric.of_worker:
            self._note_worker(number, metric, labels)
        values = self._table.values
        if metric.kind == "counter":
            values[first] += value
        elif metric.kind == "gauge":
            values[first] = value
        else:
            bucket = bisect_left(metric.bounds, value)
            values[first + bucket] += 1
            values[first + len(metric.bounds) + 1] += value
            if metric.exemplars and (trace_id := getattr(moment, "trace_id", "")):
                self._table.keep_exemplar(number, first, bucket, trace_id, value, self._now())

    def _tenant(self, name: str) -> str:
        """The label of a tenant: the first ones have their own names, the others share one."""
        if name not in self._tenants:
            if len(self._tenants) >= self._most_tenants:
                return OTHER
            self._tenants.add(name)
        return name

    def _note_worker(self, number: int, metric: Metric, labels: Labels) -> None:
        """Remember that a series is about a worker."""
        if metric.of_worker:
            self._of_workers.setdefault(labels[metric.labels.index(WORKER)], set()).add((number, labels))

    def _forget_workers(self, there: frozenset[str]) -> None:
        """Give up the series of workers that two samples in a row did not have: what was under way there has ended."""
        away = frozenset([name for name in self._of_workers if name not in there])
        for name in away & self._away:
            for number, labels in self._of_workers.pop(name):
                self._table.forget(number, labels)
        self._away = away
