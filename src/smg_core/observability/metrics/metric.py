"""What a metric is: a name with its kind, unit, help, labels and layer, and how it is read from one kind of moment.

Pure. Above: the tables of metrics, what records them and what writes them out. Below: hooks.
"""

from collections.abc import Callable
from typing import Any, Literal

import attrs

from smg_core.hooks import Moment

__all__ = ["AMOUNTS", "DURATIONS", "OTHER", "WORKER", "Labels", "Metric", "MetricReading", "Readings", "label"]

Labels = tuple[str, ...]
MetricReading = tuple[Labels, float]
"""The values of the labels, and what is added (counter), set (gauge) or observed (histogram)."""
Readings = tuple[MetricReading, ...]

Kind = Literal["counter", "gauge", "histogram"]
Layer = Literal["http", "router", "worker", "inference", "discovery", "storage", "limits", "mcp", "process"]
Merge = Literal["sum", "max", "min"]

OTHER = "other"
"""The value of a label in place of a text that others than the operator choose, so that the values stay few."""
WORKER = "worker"
"""The label that has the name of a worker: its series end with it."""

DURATIONS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
"""Upper bounds of the buckets for durations, in seconds."""
AMOUNTS = (16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0)
"""Upper bounds of the buckets for numbers of tokens."""


def _none(moment: Any) -> Readings:
    return ()


@attrs.frozen
class Metric:
    """One metric. `name` ends with the unit, if there is one, and has no `_total`: that is added to a counter's samples.

    `read` gives what one moment of the class `moment` says of it, any number of readings. `bounds` are the upper bounds of a
    histogram's buckets, without the last one, which is infinite. `merge` says how a gauge's values of several processes become
    one; counters and histograms are added up. `exemplars`: a bucket keeps the trace of the last request that fell into it.
    `by_tenant`: where the operator wants that, `tenant` is one more label."""

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
    read: Callable[[Any], Readings] = attrs.field(default=_none, eq=False)

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
