"""The metrics of the queues before the models: a part of the table.

Pure. Above: `table`. Below: `metric`, the moments.
"""

from smg_core.limit_moments import QueueLeft
from smg_core.observability.metrics.metric import DURATIONS, Metric, from_fields

__all__ = ["QUEUED"]

QUEUED = (
    Metric(
        "smg_limits_queue_waiting",
        "gauge",
        "Requests that wait before a model.",
        "limits",
        QueueLeft,
        ("model", "band"),
        labels_of=lambda left: (left.model, left.band),
        amount=from_fields("waiting"),
    ),
    Metric(
        "smg_limits_queue_left",
        "counter",
        "Requests that wait no longer before a model, or were not let in to wait; outcome: went, left, stopped, or why refused.",
        "limits",
        QueueLeft,
        ("model", "band", "outcome"),
        labels_of=lambda left: (left.model, left.band, left.outcome),
        when=lambda left: bool(left.outcome),
    ),
    Metric(
        "smg_limits_queue_wait_seconds",
        "histogram",
        "Time that requests waited before a model until it was their turn.",
        "limits",
        QueueLeft,
        ("band",),
        "seconds",
        DURATIONS,
        labels_of=lambda left: (left.band,),
        when=lambda left: left.outcome == "went",
        amount=from_fields("seconds"),
    ),
)
