"""The workers with room for one more request, and the room of several together.

A worker that has as many requests, or as many prompt tokens that nothing has answered yet, as the settings let it have is no
candidate, so that a crowd waits at no engine where it would only make everybody slower. Both numbers are counted here, over all
processes; an engine may have work of others too. Nor is one whose entry allows so many requests and tokens a minute, which are
gone (`rates`). Where all are full by what their entries say, the client has to wait (429): the gateway is not what is full. Pure.
Above: registry. Below: settings.
"""

from math import inf
from typing import Protocol, TypeVar

from smg_core.errors import Overloaded, RateLimited
from smg_core.workers.settings import WorkersConfig

__all__ = ["EntriesFull", "WorkersFull", "room", "with_room"]


class Bounded(Protocol):
    """What a worker's own entry says of how much it takes; 0 where the settings say it."""

    @property
    def most_in_flight(self) -> int: ...

    @property
    def most_waiting_tokens(self) -> int: ...


class Loaded(Protocol):
    """A worker, as far as it is counted here."""

    @property
    def in_flight(self) -> int: ...

    @property
    def prefill_tokens(self) -> int: ...

    @property
    def spec(self) -> Bounded: ...


W = TypeVar("W", bound=Loaded)


class WorkersFull(Overloaded):
    """Every worker that could take the request has as many as it takes."""

    @property
    def outcome(self) -> str:
        return Overloaded.__name__

    @property
    def soon(self) -> bool:
        """Whether there may be room at any moment: when a request ends."""
        return True


class EntriesFull(RateLimited, WorkersFull):
    """Every worker that could take the request has as many as its entry lets it have: at once, or, unless `soon`, in a minute."""

    responses_code = None
    anthropic_status = None

    def __init__(self, message: str, *, retry_after: float, soon: bool) -> None:
        super().__init__(message, retry_after=retry_after)
        self._soon = soon

    @property
    def outcome(self) -> str:
        return RateLimited.__name__

    @property
    def soon(self) -> bool:
        return self._soon


def with_room(workers: tuple[W, ...], settings: WorkersConfig, retry_after: float) -> tuple[W, ...]:
    """Those of `workers` that have room. Raises WorkersFull where none has; `retry_after` is in seconds."""
    found = tuple(each for each in workers if min(_left(each, settings)) > 0)
    if workers and not found:
        if all(each.spec.most_in_flight or each.spec.most_waiting_tokens for each in workers):
            raise EntriesFull(
                "As many requests for this model are under way as may be.", retry_after=retry_after, soon=True
            )
        raise WorkersFull("Every worker for the model has as many requests as it takes.", retry_after=retry_after)
    return found


def room(workers: tuple[W, ...], settings: WorkersConfig) -> tuple[float, float]:
    """The room that `workers` have together: for so many requests, while fewer than so many further tokens of prompts wait.
    Infinite where nothing is bounded, none without workers."""
    left = [_left(each, settings) for each in workers]
    return sum(max(0, requests) for requests, _ in left), sum(max(0, tokens) for _, tokens in left)


def _left(worker: Loaded, settings: WorkersConfig) -> tuple[float, float]:
    """How many more requests a worker takes, and how many more tokens of prompts may wait there."""
    own = worker.spec
    requests = own.most_in_flight or settings.most_in_flight
    tokens = own.most_waiting_tokens or settings.most_waiting_tokens
    return (
        requests - worker.in_flight if requests else inf,
        tokens - worker.prefill_tokens if tokens else inf,
    )
