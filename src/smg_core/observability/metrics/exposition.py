"""Metrics as text: the format of Prometheus (0.0.4) and OpenMetrics (1.0.0).

Written by hand and not by the package prometheus-client, because a scrape of many series is a matter of milliseconds in which the
event loop wants to run: what does not change of a line is made once, and the text comes in pieces, between which others get their
turn. Pure. Above: server.metrics. Below: `series`, `metric`.
"""

from collections.abc import Iterator
from itertools import accumulate
from math import isfinite, isnan

from smg_core.observability.metrics.metric import Labels, Metric
from smg_core.observability.metrics.series import Exemplar, Sampled, SeriesTable

__all__ = ["OPENMETRICS", "OWN_METRICS", "PROMETHEUS", "Exposition", "wanted_format"]

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

OWN_METRICS = (
    ("smg_metrics_series", "gauge", "Series that the fullest process has room in use for."),
    ("smg_metrics_dropped", "counter", "Recordings that found no room for a series."),
)
"""What is said of the metrics themselves: name, kind and help."""
_PIECE = 32  # series that are written in one go
_ESCAPES = str.maketrans({"%": "%%", "\\": "\\\\", '"': '\\"', "\n": "\\n"})


def wanted_format(accept: str) -> str:
    """The content type that a scraper with this Accept header wants: OpenMetrics where it names that, unless by a weight of 0."""
    for each in accept.lower().split(","):
        name, *parameters = [part.strip() for part in each.split(";")]
        if name == "application/openmetrics-text":
            weights = [value.strip() for key, _, value in map(_parted, parameters) if key.strip() == "q"]
            return PROMETHEUS if any(_is_zero(each) for each in weights) else OPENMETRICS
    return PROMETHEUS


def _parted(parameter: str) -> tuple[str, str, str]:
    return parameter.partition("=")


def _is_zero(weight: str) -> bool:
    """Whether a weight of an Accept header is 0, 0., 0.0 ..."""
    return weight[:1] == "0" and not weight.strip("0.")


class Exposition:
    """Writes out one table of series. Use it for one text at a time."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table
        self._begun: dict[tuple[int, Labels], str] = {}

    def pieces(self, content_type: str) -> Iterator[bytes]:
        """The text of all series, in pieces."""
        openmetrics = content_type == OPENMETRICS
        begun: dict[tuple[int, Labels], str] = {}  # of the series that are still there
        lines: list[str] = []
        last = -1
        for written, (number, series) in enumerate(self._table.read(exemplars=openmetrics), 1):
            metric = self._table.metrics[number]
            if number != last:
                lines += _head(metric, openmetrics)
                last = number
            key = number, series.labels
            begun[key] = shape = self._begun.get(key) or _lines(metric, series.labels)
            lines.append(_samples(metric, shape, series))
            if written % _PIECE == 0:
                yield "".join(lines).encode()
                lines = []
        self._begun = begun
        lines += self._own(openmetrics)
        yield "".join(lines).encode()

    def _own(self, openmetrics: bool) -> Iterator[str]:
        """What is said of the metrics themselves."""
        for (name, kind, text), value in zip(OWN_METRICS, (self._table.used, self._table.dropped), strict=True):
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


def _lines(metric: Metric, labels: Labels) -> str:
    """The lines of a series, with a place for each number."""
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(metric.labels, labels, strict=True)]
    whole = f"{{{','.join(pairs)}}}" if pairs else ""
    if metric.kind != "histogram":
        return f"{metric.sample}{whole} %s\n"
    bounds = [*map(_bound, metric.bounds), "+Inf"]
    before = "".join([f"{pair}," for pair in pairs])
    buckets = "".join([f'{metric.name}_bucket{{{before}le="{bound}"}} %d%s\n' for bound in bounds])
    return f"{buckets}{metric.name}_count{whole} %d\n{metric.name}_sum{whole} %s\n"


def _samples(metric: Metric, lines: str, series: Sampled) -> str:
    """The lines of a series with its numbers."""
    if metric.kind != "histogram":
        return lines % _number(series.numbers[0])
    counts = list(accumulate(series.numbers[:-1]))
    exemplars = [_exemplar(each) for each in series.exemplars] if series.exemplars else [""] * len(counts)
    pairs = [part for pair in zip(counts, exemplars, strict=True) for part in pair]
    return lines % (*pairs, counts[-1], _number(series.numbers[-1]))


def _exemplar(exemplar: Exemplar | None) -> str:
    if exemplar is None:
        return ""
    return f' # {{trace_id="{exemplar.trace_id}"}} {_number(exemplar.value)} {exemplar.at:.3f}'


def _bound(value: float) -> str:
    return repr(float(value))


def _number(value: float) -> str:
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
