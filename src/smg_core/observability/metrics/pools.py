"""The gauges of the workers of each model and role together, for autoscalers. Pure. Above: the table. Below: metric, hooks."""

from collections.abc import Callable

from smg_core.hooks import ProcessSampled
from smg_core.observability.metrics.metric import Metric, Readings, label
from smg_core.pool_sample import PoolSampled

__all__ = ["POOLS"]


def _pool(name: str, text: str, number: Callable[[PoolSampled], float]) -> Metric:
    """A gauge that every process sees alike."""

    def numbers(sampled: ProcessSampled) -> Readings:
        return tuple([((label(each.model), each.role), number(each)) for each in sampled.pools])

    named = ("model", "role")
    return Metric(
        f"smg_worker_pool_{name}", "gauge", text, "worker", ProcessSampled, named, merge="max", any_number=numbers
    )


POOLS: tuple[Metric, ...] = (
    _pool("workers_ready", "Workers of a model and role that are ready.", lambda each: each.ready),
    _pool("requests_in_flight", "Requests in flight to the workers of a model and role.", lambda each: each.in_flight),
    _pool("requests_waiting", "Requests that wait at the engines of a model and role.", lambda each: each.waiting),
    _pool(
        "tokens_waiting",
        "Prompt tokens that the engines of a model and role have to read.",
        lambda each: each.waiting_tokens,
    ),
    _pool(
        "wait_seconds",
        "How long a request waits to be begun by the engines of a model and role; -1 where that is not known.",
        lambda each: -1.0 if each.wait_s is None else each.wait_s,
    ),
)
