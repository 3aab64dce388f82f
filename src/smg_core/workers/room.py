"""Which workers have room for one more request.

A worker that has as many requests, or as many prompt tokens that nothing has answered yet, as the settings let it have is no
candidate, so that a crowd waits at no engine where it would only make everybody slower. Both numbers are counted here, over all
processes; an engine may have work of others too. Pure. Above: registry. Below: settings.
"""

from typing import Protocol, TypeVar

from smg_core.errors import Overloaded
from smg_core.workers.settings import WorkersConfig

__all__ = ["with_room"]


class Loaded(Protocol):
    """A worker, as far as it is counted here."""

    @property
    def in_flight(self) -> int: ...

    @property
    def prefill_tokens(self) -> int: ...


W = TypeVar("W", bound=Loaded)


def with_room(workers: tuple[W, ...], settings: WorkersConfig, retry_after: float) -> tuple[W, ...]:
    """Those of `workers` that have room. Raises Overloaded where none has; `retry_after` is in seconds."""
    requests, tokens = settings.most_in_flight, settings.most_waiting_tokens
    if not requests and not tokens:
        return workers
    found = tuple(
        each
        for each in workers
        if (not requests or each.in_flight < requests) and (not tokens or each.prefill_tokens < tokens)
    )
    if workers and not found:
        raise Overloaded("Every worker for the model has as many requests as it takes.", retry_after=retry_after)
    return found
