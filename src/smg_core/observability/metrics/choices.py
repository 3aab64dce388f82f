"""The rows of the table of metrics that tell how workers are chosen. Pure. Above: `table`. Below: `metric`, hooks."""

from smg_core.hooks import PolicyFailed, WorkerPicked
from smg_core.observability.metrics.metric import Metric, label

__all__ = ["CHOICES"]

CHOICES = (
    Metric(
        "smg_router_selections",
        "counter",
        "Choices of a worker.",
        "router",
        WorkerPicked,
        ("model", "policy", "role"),
        labels_of=lambda picked: (label(picked.model), picked.policy, picked.role),
    ),
    Metric(
        "smg_router_prefix_basis",
        "counter",
        "Choices by a policy that looks at caches: whether what the engines tell decided (exact) or what was sent (approximate).",
        "router",
        WorkerPicked,
        ("model", "basis"),
        labels_of=lambda picked: (label(picked.model), picked.cached[1]),
        when=lambda picked: picked.cached is not None,
    ),
    Metric(
        "smg_router_policy_failures",
        "counter",
        "Calls of a routing policy that raised; what it was to choose was chosen by the fewest requests.",
        "router",
        PolicyFailed,
        ("policy", "call", "error"),
        labels_of=lambda failed: (failed.policy, failed.call, failed.error),
    ),
)
"""Choices of the routing policies, and their failures."""
