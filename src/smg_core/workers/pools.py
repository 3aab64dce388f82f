"""The load of the workers of each model and role together: what an autoscaler goes by.

Pure: the time is an argument, and whoever asks does so every few seconds. Above: the admin door's /admin/signals, the samples of
metrics. Below: worker, hooks.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from smg_core.pool_sample import PoolSampled
from smg_core.workers.worker import Worker

__all__ = ["PoolHistory"]

EVERY_S = 5.0
KEPT = 24
"""Looks at how many calls had ended that are kept, at most one in `EVERY_S` seconds: two minutes, over which the rate goes."""


class PoolHistory:
    """Looks at all workers, and knows how many calls of each had ended when it looked before. `processes`: how many share the
    requests, of which this one sees its own end."""

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes
        self._looks: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=KEPT)

    def sampled(self, workers: Iterable[Worker], now: float) -> tuple[PoolSampled, ...]:
        """The pool of each model and role, sorted. `now` is in monotonic seconds."""
        pools: dict[tuple[str, str], list[Worker]] = {}
        for worker in workers:
            if worker.models:
                pools.setdefault((worker.models[0], worker.role), []).append(worker)
        since, before = self._looks[0] if self._looks else (now, {})
        found = tuple([self._pool(*key, pools[key], now - since, before) for key in sorted(pools)])
        if not self._looks or now - self._looks[-1][0] >= EVERY_S:
            self._looks.append((now, {each.name: each.ended for all_of_it in pools.values() for each in all_of_it}))
        return found

    def _pool(
        self, model: str, role: str, workers: list[Worker], seconds: float, before: Mapping[str, int]
    ) -> PoolSampled:
        waiting = sum(each.queued for each in workers)
        ended = sum(max(0, each.ended - before.get(each.name, 0)) for each in workers) * self._processes
        rate = ended / seconds if seconds >= EVERY_S else None
        return PoolSampled(
            model=model,
            role=role,
            workers=len(workers),
            ready=sum(each.state == "ready" and not each.asleep for each in workers),
            in_flight=sum(each.in_flight for each in workers),
            waiting=waiting,
            running=sum(each.running for each in workers),
            waiting_tokens=sum(each.prefill_tokens for each in workers),
            kv_usage=sum(each.kv_usage for each in workers) / len(workers),
            ended_a_second=rate,
            wait_s=_wait(waiting, rate),
        )


def _wait(waiting: int, rate: float | None) -> float | None:
    """Seconds until a request that comes now is begun: as long as those before it take to be begun, at the rate at which others
    end. None where nothing is known of that."""
    if not waiting:
        return 0.0
    return waiting / rate if rate else None
