"""Metrics as text: the format of Prometheus (0.0.4) and OpenMetrics (1.0.0).

Written by hand and not by the package prometheus-client, because a scrape of many series is a matter of milliseconds in which the
event loop wants to run: what does not change of a line is made once, and the text comes in pieces, between which others get their
turn. Pure. Above: server.metrics. Below: `series`, `metric`.
"""

from collections.abc import Iterator

from smg_core.observability.metrics.metric import Labels, Metric
from smg_core.observability.metrics.series import Exemplar, Sampled, SeriesTable

__all__ = ["OPENMETRICS", "PROMETHEUS", "Exposition", "wanted_format"]

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_PIECE = 64  # series that are written in one go
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_Lines = tuple[str, ...]


def wanted_format(accept: str) -> str:
    """The content type that a scraper with this Accept header wants."""
    return OPENMETRICS if "application/openmetrics-text" in accept else PROMETHEUS


class Exposition:
    """Writes out one table of series. Use it for one text at a time."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table
        self._begun: dict[tuple[int, Labels], _Lines] = {}

    def pieces(self, content_type: str) -> Iterator[bytes]:
        """The text of all series, in pieces."""
        openmetrics = content_type == OPENMETRICS
        begun: dict[tuple[int, Labels], _Lines] = {}  # of the series that are still there
        lines: list[str] = []
        last = -1
        for written, (number, series) in enumerate(self._table.read(), 1):
            metric = self._table.metrics[number]
            if number != last:
                lines += _head(metric, openmetrics)
                last = number
            key = number, series.labels
            begun[key] = starts = self._begun.get(key) or _starts(metric, series.labels)
            lines += _samples(metric, starts, series, openmetrics)
            if written % _PIECE == 0:
                yield "".join(lines).encode()
                lines = []
        self._begun = begun
        lines += self._own(openmetrics)
        yield "".join(lines).encode()

    def _own(self, openmetrics: bool) -> Iterator[str]:
        """What is said of the metrics themselves."""
        used = "smg_metrics_series", "gauge", "Series of the process that has most of them.", self._table.used
        lost = "smg_metrics_dropped", "counter", "Recordings that found no room for a series.", self._table.dropped
        for name, kind, text, value in (used, lost):
            sample = f"{name}_total" if kind == "counter" else name
            family = name if openmetrics else sample
            yield f"# HELP {family} {text}\n# TYPE {family} {kind}\n{sample} {value}\n"
        if openmetrics:
            yield "# EOF\n"


def _head(metric: Metric, openmetrics: bool) -> Iterator[str]:
    name = metric.name if openmetrics else metric.sample
    yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
    if openmetrics and metric.unit:
        yield f"# UNIT {name} {metric.unit}\n"


def _starts(metric: Metric, labels: Labels) -> _Lines:
    """The beginning of each line of a series, up to its number."""
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(metric.labels, labels, strict=True)]
    whole = f"{{{','.join(pairs)}}}" if pairs else ""
    if metric.kind != "histogram":
        return (f"{metric.sample}{whole} ",)
    bounds = [*map(_bound, metric.bounds), "+Inf"]
    before = "".join([f"{pair}," for pair in pairs])
    buckets = [f'{metric.name}_bucket{{{before}le="{bound}"}} ' for bound in bounds]
    return (*buckets, f"{metric.name}_count{whole} ", f"{metric.name}_sum{whole} ")


def _samples(metric: Metric, starts: _Lines, series: Sampled, openmetrics: bool) -> Iterator[str]:
    if metric.kind != "histogram":
        yield f"{starts[0]}{_number(series.numbers[0])}\n"
        return
    count = 0
    *buckets, total = series.numbers
    exemplars = series.exemplars if openmetrics else ()
    for place, each in enumerate(buckets):
        count += int(each)
        shown = _exemplar(exemplars[place]) if exemplars else ""
        yield f"{starts[place]}{count}{shown}\n"
    yield f"{starts[-2]}{count}\n"
    yield f"{starts[-1]}{_number(total)}\n"


def _exemplar(exemplar: Exemplar | None) -> str:
    if exemplar is None:
        return ""
    return f' # {{trace_id="{exemplar.trace_id}"}} {_number(exemplar.value)} {exemplar.at:.3f}'


def _bound(value: float) -> str:
    return repr(float(value))


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
