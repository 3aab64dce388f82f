"""A Grafana dashboard, alert rules and a page of documentation, made of the table of metrics.

Pure: tools/metrics_pages.py writes them to files, and CI compares. Below: `table`, `smg_names`,
`smg_absent`, `metric`.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import attrs

from smg_core import errors
from smg_core.json_types import Json
from smg_core.observability.metrics.exposition import OWN_METRICS
from smg_core.observability.metrics.metric import Metric
from smg_core.observability.metrics.smg_absent import SMG_ABSENT
from smg_core.observability.metrics.smg_names import SMG_METRICS
from smg_core.observability.metrics.table import METRICS

__all__ = ["ALERTS", "Alert", "alert_rules", "dashboard", "metrics_table", "smg_names_table"]

_WIDTH, _HEIGHT, _ACROSS = 12, 8, 2
_QUANTILES = (0.5, 0.95, 0.99)


_FAILED = "|".join(
    [
        "error",
        *sorted(
            name
            for name, kind in vars(errors).items()
            if isinstance(kind, type)
            and issubclass(kind, errors.SmgError)
            and kind.status >= 500
            and name != "SmgError"
        ),
    ]
)
"""The outcomes that are no fault of the client's: the classes of errors with a status of 5xx, and what nobody has foreseen."""


@attrs.frozen
class Alert:
    """One rule: it fires where `expression` has a result for `minutes`. `metrics` are those that it reads, by their names in the
    table."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    metrics: tuple[str, ...]


ALERTS = (
    Alert(
        "SmgNoWorkerReady",
        # told where there is no worker at all, too
        'sum(smg_discovery_workers{state="ready"}) == 0',
        1,
        "critical",
        "No worker is ready: every request gets 503.",
        ("smg_discovery_workers",),
    ),
    Alert(
        "SmgWorkerNotReady",
        "smg_worker_ready == 0",
        5,
        "warning",
        "Worker {{ $labels.worker }} has not been ready for five minutes.",
        ("smg_worker_ready",),
    ),
    Alert(
        "SmgServerErrors",
        # by how requests to models ended: a stream that fails has begun with 200, and probes are no requests
        f'sum(rate(smg_router_requests_total{{outcome=~"{_FAILED}"}}[5m])) / sum(rate(smg_router_requests_total[5m])) > 0.05',
        5,
        "critical",
        "More than 5 % of the requests to models end with an error of the server.",
        ("smg_router_requests",),
    ),
    Alert(
        "SmgSlowFirstToken",
        "histogram_quantile(0.95, sum by (le, model) (rate(smg_inference_time_to_first_token_seconds_bucket[5m]))) > 10",
        10,
        "warning",
        "The first token of {{ $labels.model }} takes over ten seconds for one in twenty requests.",
        ("smg_inference_time_to_first_token_seconds",),
    ),
    Alert(
        "SmgRefusals",
        "sum by (reason) (rate(smg_limits_refusals_total[5m])) > 1",
        10,
        "warning",
        "Bounds refuse more than a request a second: {{ $labels.reason }}.",
        ("smg_limits_refusals",),
    ),
    Alert(
        "SmgHistoryFails",
        'sum by (outcome) (rate(smg_storage_calls_total{outcome="StoreFailed"}[5m])) > 0',
        5,
        "critical",
        "Calls of the history fail.",
        ("smg_storage_calls",),
    ),
    Alert(
        "SmgWorkersCannotJoin",
        'increase(smg_discovery_joins_total{outcome!="ok"}[10m]) > 3',
        10,
        "warning",
        "Workers try to join and fail: {{ $labels.outcome }}.",
        ("smg_discovery_joins",),
    ),
    Alert(
        "SmgMetricsDropped",
        "increase(smg_metrics_dropped_total[10m]) > 0",
        0,
        "warning",
        "There are more series than metrics.series allows: some recordings are lost.",
        (),
    ),
)
"""The alert rules, in the order in which they are written out."""


def alert_rules() -> str:
    """The rules as a file for Prometheus."""
    lines = ["groups:", "- name: smg-gateway", "  rules:"]
    for alert in ALERTS:
        lines += [
            f"  - alert: {alert.name}",
            f"    expr: {json.dumps(alert.expression)}",
            f"    for: {alert.minutes}m",
            f"    labels: {{severity: {alert.severity}}}",
            f"    annotations: {{summary: {json.dumps(alert.summary)}}}",
        ]
    return "\n".join(lines) + "\n"


def dashboard() -> str:
    """A dashboard for Grafana: a row for each layer, a panel for each metric."""
    panels: list[Json] = []
    top = 0
    for layer, metrics in groupby(METRICS, key=attrgetter("layer")):
        panels.append({"type": "row", "title": layer, "id": len(panels) + 1, "gridPos": _place(0, top, 24, 1)})
        top += 1
        listed = list(metrics)
        for at, metric in enumerate(listed):
            place = _place(at % _ACROSS * _WIDTH, top + at // _ACROSS * _HEIGHT, _WIDTH, _HEIGHT)
            panels.append(_panel(metric, len(panels) + 1, place))
        top += -(-len(listed) // _ACROSS) * _HEIGHT
    source: Json = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    made: Json = {
        "title": "SMG gateway",
        "uid": "smg-gateway",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }
    return json.dumps(made, indent=1) + "\n"


def _place(x: int, y: int, width: int, height: int) -> Json:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(metric: Metric, number: int, place: Json) -> Json:
    targets: list[Json] = [
        {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend}
        for at, (query, legend) in enumerate(_queries(metric))
    ]
    unit = {"seconds": "s", "bytes": "Bps"}.get(metric.unit, "short")
    return {
        "type": "timeseries",
        "id": number,
        "title": metric.name,
        "description": metric.help,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "gridPos": place,
        "targets": targets,
    }


def _queries(metric: Metric) -> Iterator[tuple[str, str]]:
    """The queries of a panel, each with the text of its legend."""
    by = f" by ({', '.join(metric.labels)})" if metric.labels else ""
    legend = " ".join(f"{{{{{each}}}}}" for each in metric.labels) or metric.name
    if metric.kind == "gauge":
        yield metric.sample, legend
    elif metric.kind == "counter":
        yield f"sum{by} (rate({metric.sample}[$__rate_interval]))", legend
    else:
        within = ", ".join(["le", *metric.labels])
        for quantile in _QUANTILES:
            rate = f"rate({metric.name}_bucket[$__rate_interval])"
            yield f"histogram_quantile({quantile}, sum by ({within}) ({rate}))", f"p{quantile * 100:g} {legend}"


def metrics_table(metrics: Sequence[Metric] = METRICS) -> str:
    """The metrics as tables in Markdown, one for each layer."""
    parts = []
    for layer, rows in groupby(metrics, key=attrgetter("layer")):
        parts.append(f"\n### {layer}\n\n| metric | kind | labels | what |\n|---|---|---|---|\n")
        for metric in rows:
            labels = ", ".join(f"`{each}`" for each in metric.labels)
            tenant = f"{', ' if labels else ''}with `metrics.tenants` `tenant`" if metric.by_tenant else ""
            parts.append(f"| `{metric.sample}` | {metric.kind} | {labels}{tenant} | {metric.help} |\n")
    for name, kind, text in OWN_METRICS:
        parts.append(f"| `{name}{'_total' if kind == 'counter' else ''}` | {kind} |  | {text} |\n")
    return "".join(parts)


def smg_names_table() -> str:
    """SMG's names as tables in Markdown: those that `metrics.names: smg` offers, and those that it does not."""
    labels = {each.sample: ", ".join([f"`{name}`" for name in each.labels]) for each in SMG_METRICS}
    offered = "".join([f"| `{name}` | {those} |\n" for name, those in labels.items()])
    reasons: dict[str, list[str]] = {}
    for name, reason in SMG_ABSENT:
        reasons.setdefault(reason, []).append(f"`{name}`")
    absent = "".join([f"| {', '.join(names)} | {reason} |\n" for reason, names in reasons.items()])
    return f"| name | labels |\n|---|---|\n{offered}\nThese have no row:\n\n| name | |\n|---|---|\n{absent}"
