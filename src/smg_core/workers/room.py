"""Which workers have room for one more request, and how much room several have together.

A worker that has as many requests, or as many prompt tokens that nothing has answered yet, as the settings let it have is no
candidate, so that a crowd waits at no engine where it would only make everybody slower. Both numbers are counted here, over all
processes; an engine may have work of others too. Pure. Above: registry. Below: settings.
"""

from math import inf
from typing import Protocol, TypeVar

from smg_core.errors import Overloaded
from smg_core.workers.settings import WorkersConfig

__all__ = ["WorkersFull", "room", "with_room"]


class Loaded(Protocol):
    """A worker, as far as it is counted here."""

    @property
    def in_flight(self) -> int: ...

    @property
    def prefill_tokens(self) -> int: ...


W = TypeVar("W", bound=Loaded)


class WorkersFull(Overloaded):
    """Every worker that could take the request has as many as it takes."""

    @property
    def outcome(self) -> str:
        return Overloaded.__name__


def with_room(workers: tuple[W, ...], settings: WorkersConfig, retry_after: float) -> tuple[W, ...]:
    """Those of `workers` that have room. Raises WorkersFull where none has; `retry_after` is in seconds."""
    requests, tokens = settings.most_in_flight, settings.most_waiting_tokens
    if not requests and not tokens:
        return workers
    found = tuple(
        each
        for each in workers
        if (not requests or each.in_flight < requests) and (not tokens or each.prefill_tokens < tokens)
    )
    if workers and not found:
        raise WorkersFull("Every worker for the model has as many requests as it takes.", retry_after=retry_after)
    return found


def room(workers: tuple[W, ...], settings: WorkersConfig) -> tuple[float, float]:
    """The room that `workers` have together: for so many requests, while fewer than so many further tokens of prompts wait.
    Infinite where nothing is bounded, none without workers."""
    requests, tokens = settings.most_in_flight, settings.most_waiting_tokens
    free = inf if workers else 0.0
    return (
        sum(max(0, requests - each.in_flight) for each in workers) if requests else free,
        sum(max(0, tokens - each.prefill_tokens) for each in workers) if tokens else free,
    )
