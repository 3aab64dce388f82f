"""The capacity of a model's workers, and their reported load.

An engine that says how many requests it runs at once and how many tokens its cache holds is taken at its word; of another one the
settings may say it, else the limit follows how long first tokens take (`AdaptiveLimit`). Pure. Above: `model_queue`,
`waiting`. Below: nothing.
"""

from collections.abc import Iterable
from typing import Protocol

import attrs

__all__ = ["AdaptiveLimit", "Capacity", "capacity_of"]

_KV_SHARE = 0.9
"""The part of an engine's cache that is given out; beyond it, engines set requests back."""
_QUEUED = 5.0
"""Requests that wait inside an engine that is full."""


class _Rank(Protocol):
    @property
    def max_running(self) -> int: ...


class Measured(Protocol):
    """A worker, as far as it is measured here."""

    @property
    def in_flight(self) -> int: ...

    @property
    def others(self) -> int: ...

    @property
    def queued(self) -> int: ...

    @property
    def kv_usage(self) -> float: ...

    @property
    def kv_tokens(self) -> int: ...

    @property
    def prefill_tokens(self) -> int: ...

    @property
    def ranks(self) -> "Iterable[_Rank]": ...


_STEP = 4.0
"""How many requests more an engine is tried with that does not say what it takes."""


@attrs.frozen
class Capacity:
    """What a model's workers take: `slots` requests (0: no worker is ready) and `tokens` in their caches (0: nobody says).
    `strain` is how full they say they are, of 1, or the process is; `others` the requests there that are in nobody's queue
    here."""

    slots: float = 0.0
    tokens: float = 0.0
    strain: float = 0.0
    others: int = 0


def capacity_of(
    workers: Iterable[Measured],
    own: int,
    *,
    most_in_flight: int = 0,
    most_waiting_tokens: int = 0,
    limit: float = 0.0,
    strain: float = 0.0,
) -> Capacity:
    """The capacity of ready `workers`, of whose requests `own` are known here. `most_in_flight` and `most_waiting_tokens` are the
    bounds of one worker by the settings, `limit` the one of an engine that says none; `strain` is that of the process."""
    slots, tokens, every_token, count, full, calls = 0.0, 0.0, True, 0, 0.0, 0
    for worker in workers:
        running = [rank.max_running for rank in worker.ranks]
        reported = sum(running) if running and all(running) else 0
        takes = min(reported, most_in_flight) if reported and most_in_flight else reported or most_in_flight or limit
        slots += takes
        tokens += worker.kv_tokens * _KV_SHARE
        every_token = every_token and worker.kv_tokens > 0
        waiting = worker.prefill_tokens / most_waiting_tokens if most_waiting_tokens else 0.0
        full += max(worker.queued / _QUEUED, worker.kv_usage / _KV_SHARE if worker.kv_tokens else 0.0, waiting)
        calls += worker.in_flight + worker.others
        count += 1
    if not count:
        return Capacity()
    return Capacity(slots, tokens if every_token else 0.0, max(full / count, strain), max(0, calls - own))


class AdaptiveLimit:
    """How many requests an engine takes that does not say: more while first tokens take as long as they usually do, fewer when
    they take longer (Gradient2: the gradient of a long and a short time of the first token)."""

    def __init__(self, start: float = 20.0, least: float = 20.0, most: float = 200.0) -> None:
        self.limit = start
        self._least, self._most = least, most
        self._long = self._short = 0.0
        self._count = 0

    def note(self, seconds: float, in_flight: float) -> None:
        """A first token took so long, while so many requests were at each engine."""
        if not seconds > 0:
            return
        self._count += 1
        self._long += (seconds - self._long) / min(self._count, 600)
        self._short += (seconds - self._short) / min(self._count, 10)
        if self._long > 2 * self._short:
            self._long *= 0.95  # what was slow for long is no measure once it is over
        if in_flight < self.limit / 2:
            return  # who is not near the limit learns nothing of it
        gradient = min(1.0, max(0.5, 1.5 * self._long / self._short))
        aimed = self.limit * gradient + _STEP
        self.limit = min(self._most, max(self._least, self.limit * 0.8 + aimed * 0.2))
