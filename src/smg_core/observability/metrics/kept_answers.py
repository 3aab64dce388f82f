"""The metrics of the cache of answers: a part of the table.

Pure. Above: `table`. Below: `metric`, the moments.
"""

from smg_core.limit_moments import AnswerLookedUp
from smg_core.observability.metrics.metric import Metric, from_fields

__all__ = ["KEPT_ANSWERS"]

KEPT_ANSWERS = (
    Metric(
        "smg_inference_response_cache_requests",
        "counter",
        "Requests that were looked up in the cache of answers; outcome: hit, shared, miss, unshared.",
        "inference",
        AnswerLookedUp,
        ("model", "outcome"),
        labels_of=lambda found: (found.model, found.outcome),
    ),
    Metric(
        "smg_inference_response_cache_bytes",
        "gauge",
        "Answers that a process keeps in its memory, in bytes.",
        "inference",
        AnswerLookedUp,
        (),
        "bytes",
        amount=from_fields("bytes"),
    ),
)
