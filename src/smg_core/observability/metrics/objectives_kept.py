"""The metrics of requests' objectives and of how well times are predicted: a part of the table.

Pure. Above: `table`. Below: `metric`, the moments.
"""

from smg_core.limit_moments import ObjectiveKept, TimePredicted
from smg_core.observability.metrics.metric import DURATIONS, Metric, from_fields

__all__ = ["OBJECTIVES_KEPT"]


def _off(expected: float, seconds: float) -> float:
    return abs(seconds - expected)


OBJECTIVES_KEPT = (
    Metric(
        "smg_router_objectives",
        "counter",
        "Objectives of requests (kind: first token, each further token) by outcome: met, missed.",
        "router",
        ObjectiveKept,
        ("model", "kind", "outcome"),
        labels_of=lambda kept: (kept.model, kept.kind, kept.outcome),
    ),
    Metric(
        "smg_router_prediction_error_seconds",
        "histogram",
        "How far off the predicted time was, to the first token and from each to the next.",
        "router",
        TimePredicted,
        ("model", "kind"),
        "seconds",
        DURATIONS,
        labels_of=lambda record: (record.model, record.kind),
        amount=from_fields("expected", "seconds", function=_off),
    ),
)
