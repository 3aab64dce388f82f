"""Metrics of calls of engines that are made beside those that requests would make alone: hedges and shadows.

Rows of `table`, which is above. Pure. Below: `metric`, hooks.
"""

from smg_core.hooks import Hedged, Shadowed
from smg_core.observability.metrics.metric import DURATIONS, Metric, label

__all__ = ["SECOND_CALLS"]


def _copied(copy: Shadowed) -> tuple[str, str]:
    return label(copy.model), label(copy.shadow)


SECOND_CALLS = (
    Metric(
        "smg_router_hedges",
        "counter",
        "Short requests whose answer was late, by what came of asking a second worker.",
        "router",
        Hedged,
        ("model", "outcome"),
        labels_of=lambda hedged: (label(hedged.model), hedged.outcome),
    ),
    Metric(
        "smg_router_shadows",
        "counter",
        "Copies of requests for a model that another one was sent, by how they ended.",
        "router",
        Shadowed,
        ("model", "shadow", "outcome", "finish"),
        labels_of=lambda copy: (*_copied(copy), copy.outcome, copy.finish[0] if copy.finish else "none"),
    ),
    Metric(
        "smg_router_shadow_time_to_first_token_seconds",
        "histogram",
        "Time from the start of a copy to its first output, where that comes in pieces.",
        "router",
        Shadowed,
        ("model", "shadow"),
        "seconds",
        DURATIONS,
        labels_of=_copied,
        amount=lambda copy: copy.first_seconds,
    ),
    Metric(
        "smg_router_shadow_duration_seconds",
        "histogram",
        "Time from the start of a copy to the end of its answer.",
        "router",
        Shadowed,
        ("model", "shadow"),
        "seconds",
        DURATIONS,
        labels_of=_copied,
        amount=lambda copy: copy.seconds if copy.outcome == "ok" else None,
    ),
    Metric(
        "smg_router_shadow_output_tokens",
        "counter",
        "Tokens of the answers to copies.",
        "router",
        Shadowed,
        ("model", "shadow"),
        labels_of=_copied,
        amount=lambda copy: copy.completion_tokens or None,
    ),
    Metric(
        "smg_router_shadow_agreements",
        "counter",
        "Answers to copies that were compared, by whether they are as long as the client's and ended for the same reasons.",
        "router",
        Shadowed,
        ("model", "shadow", "agrees"),
        labels_of=lambda copy: (*_copied(copy), "yes" if copy.agrees else "no"),
        amount=lambda copy: None if copy.agrees is None else 1,
    ),
)
