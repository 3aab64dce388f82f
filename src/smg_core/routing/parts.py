"""What a policy keeps for each part of a fleet: not all requests for a model may go to the same workers.

Rules of placement leave a request a part of the workers, and so does an adapter that some of them hold. Whose turn it is, and who
is ahead of the others, says nothing of another part: with two tenants in turn, each on two workers, one turn for both would send
all requests of a tenant to one worker. Pure. Above: the policies. Below: base.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from smg_core.routing.base import RoutingContext

__all__ = ["Parts"]

KEPT = 64
"""Parts of which something is kept. A client may choose what a rule looks at, and there may be many adapters."""
UNUSED_S = 60.0
"""Seconds after which a part that no request had is forgotten for another one, where there are `KEPT`."""

T = TypeVar("T")


class Parts(Generic[T]):
    """Keeps what `make` makes for each part, for at most `KEPT` of them and for the `whole` fleet: further ones go by that."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.whole = make()
        self._parts: dict[tuple[str, str | None], T] = {}
        self._used: dict[tuple[str, str | None], float] = {}  # when, the longest ago first

    def of(self, context: RoutingContext) -> T:
        """What is kept for the workers that such requests may go to."""
        if not (context.part or context.lora):
            return self.whole
        key = context.part, context.lora
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= KEPT and not self._forget_one(context.now):
                return self.whole
            found = self._parts[key] = self._make()
        self._used.pop(key, None)
        self._used[key] = context.now
        return found

    def all(self) -> tuple[T, ...]:
        """What is kept for the whole fleet, and for each part."""
        return self.whole, *self._parts.values()

    def _forget_one(self, now: float) -> bool:
        """Forget the part that had its last request the longest ago, where that is long ago."""
        key = next(iter(self._used))
        if now - self._used[key] < UNUSED_S:
            return False
        del self._used[key], self._parts[key]
        return True
