"""The metrics of guardrails: a part of the table.

Pure. Above: `table`. Below: `metric`, hooks.
"""

from smg_core.hooks import GuardrailAsked
from smg_core.observability.metrics.metric import DURATIONS, Metric, from_fields

__all__ = ["GUARDED"]

GUARDED = (
    Metric(
        "smg_limits_guardrail_asked",
        "counter",
        "Texts that a guardrail was asked about; place: input, output, arguments; outcome: passed, masked, blocked, failed.",
        "limits",
        GuardrailAsked,
        ("guardrail", "place", "outcome"),
        labels_of=lambda asked: (asked.guardrail, asked.place, asked.outcome),
    ),
    Metric(
        "smg_limits_guardrail_seconds",
        "histogram",
        "Time that a guardrail took for a text, the wait for a place among it.",
        "limits",
        GuardrailAsked,
        ("guardrail",),
        "seconds",
        DURATIONS,
        labels_of=lambda asked: (asked.guardrail,),
        amount=from_fields("seconds"),
    ),
)
