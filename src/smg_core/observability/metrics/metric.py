"""The record of a metric: a name with its kind, unit, help, labels and layer, and how it is read from one kind of moment.

Pure. Above: the tables of metrics, what records them and what writes them out. Below: hooks.
"""

from collections.abc import Callable
from typing import Any, Literal

import attrs

from smg_core.hooks import Moment

__all__ = [
    "DURATIONS",
    "METHODS",
    "OTHER",
    "WORKER",
    "Amount",
    "FromFields",
    "Labels",
    "Metric",
    "MetricReading",
    "Readings",
    "from_fields",
    "label",
    "method_label",
    "one",
]

Labels = tuple[str, ...]
MetricReading = tuple[Labels, float]
"""The values of the labels, and what is added (counter), set (gauge) or observed (histogram)."""
Readings = tuple[MetricReading, ...]

Kind = Literal["counter", "gauge", "histogram"]
Layer = Literal[
    "http", "router", "worker", "inference", "discovery", "storage", "limits", "mcp", "mesh", "plugin", "process"
]
Merge = Literal["sum", "max", "min"]

OTHER = "other"
"""The value of a label in place of a text that others than the operator choose, so that the values stay few."""
WORKER = "worker"
"""The label that has the name of a worker: its series end with it."""

DURATIONS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
"""Upper bounds of the buckets for durations, in seconds."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET"})

Labelling = Callable[[Any], Labels]
Amount = Callable[[Any], float | None]


def _unlabelled(moment: Any) -> Labels:
    return ()


def one(moment: Any) -> float:
    """The amount of a counter of moments."""
    return 1


@attrs.frozen
class FromFields:
    """An amount that fields of a moment say: one field is the amount itself, of several `function` makes it. Where many moments
    are recorded together, the recorder reads their fields at once, in place of calling this for each."""

    fields: tuple[str, ...]
    function: Callable[..., float | None] | None = None

    def __call__(self, moment: Any) -> float | None:
        values = [getattr(moment, field) for field in self.fields]
        found: float | None = values[0] if self.function is None else self.function(*values)
        return found


def from_fields(*fields: str, function: Callable[..., float | None] | None = None) -> FromFields:
    """The amount that these fields of a moment say."""
    return FromFields(fields, function)


@attrs.frozen
class Metric:
    """One metric. `name` ends with the unit, if there is one, and has no `_total`: that is added to a counter's samples.

    It is recorded from each moment of the class `moment`: `labels_of` gives the values of its labels and `amount` what is
    recorded, None for nothing. With `parts`, each of which is the value of the last label and its amount, there is a series for
    each part. Where the number of readings differs from moment to moment, `any_number` gives them all. With `when`, only moments
    of which that is true are recorded; it looks at nothing that labels do not depend on too (`shapes`). With `skips_zero` an
    amount of 0 is not recorded, so that it makes no series.

    `bounds` are the upper bounds of a histogram's buckets, without the last one, which is infinite. `merge` says how a gauge's
    values of several processes become one; counters and histograms are added up. `exemplars`: a bucket keeps the trace of the
    last request that fell into it. `by_tenant`: where the operator wants that, `tenant` is one more label."""

    name: str
    kind: Kind
    help: str
    layer: Layer
    moment: type[Moment]
    labels: tuple[str, ...] = ()
    unit: str = ""
    bounds: tuple[float, ...] = ()
    merge: Merge = "sum"
    exemplars: bool = False
    by_tenant: bool = False
    skips_zero: bool = False
    when: Callable[[Any], bool] | None = attrs.field(default=None, eq=False)
    labels_of: Labelling = attrs.field(default=_unlabelled, eq=False)
    amount: Amount = attrs.field(default=one, eq=False)
    parts: tuple[tuple[str, Amount], ...] = attrs.field(default=(), eq=False)
    any_number: Callable[[Any], Readings] | None = attrs.field(default=None, eq=False)

    def readings(self, moment: Any) -> Readings:
        """What one moment of its class says of the metric."""
        if self.when is not None and not self.when(moment):
            return ()
        if self.any_number is not None:
            return self.any_number(moment)
        found = [(part, amount(moment)) for part, amount in self.counted]
        return tuple(
            [
                ((*self.labels_of(moment), *part), value)
                for part, value in found
                if value is not None and (value != 0 or not self.skips_zero)
            ]
        )

    @property
    def counted(self) -> "tuple[tuple[Labels, Amount], ...]":
        """The parts, each as what it adds to the labels, and its amount; without parts, the one amount."""
        return tuple([((name,), amount) for name, amount in self.parts]) or (((), self.amount),)

    @property
    def of_worker(self) -> bool:
        """Whether its series are each about one worker."""
        return WORKER in self.labels

    @property
    def sample(self) -> str:
        """The name of its sample, for a query: of a counter with `_total`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def label(text: str) -> str:
    """A label's value that may be unknown."""
    return text or OTHER


def method_label(method: str) -> str:
    """A label's value for the method of a request, which the client names."""
    return method if method in METHODS else OTHER
