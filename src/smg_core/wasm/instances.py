"""Who gets which instance of a component.

An instance serves one exchange at a time, from its first hook to its end. Afterwards it may serve another of the same key (the
tenant, or all), or goes. Decides only, and calls nothing: making, freeing and waiting are the caller's. Above: `plugin`. Below:
nothing.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

__all__ = ["Instances", "Waiting"]

T = TypeVar("T")
W = TypeVar("W")


class Waiting(Exception):
    """No instance is free, and there may be no more."""


class Instances(Generic[T, W]):
    """At most `most` instances, idle and lent ones together. `W` is whatever the caller wakes who waits by."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: OrderedDict[T, str] = OrderedDict()
        self._lent = 0
        self._waiting: deque[W] = deque()

    @property
    def lent(self) -> int:
        """Instances that exchanges have."""
        return self._lent

    @property
    def idle(self) -> int:
        """Instances that wait for an exchange."""
        return len(self._idle)

    def take(self, key: str | None) -> tuple[T | None, T | None]:
        """Lend one: an idle instance of this key, or None for "make one", and beside it one that has to go for that. The key
        None is nobody's: such an instance is new. Raises Waiting."""
        if key is not None:
            for each, of in reversed(self._idle.items()):
                if of == key:
                    del self._idle[each]
                    self._lent += 1
                    return each, None
        if self._lent + len(self._idle) < self._most:
            self._lent += 1
            return None, None
        if self._idle:
            gone, _ = self._idle.popitem(last=False)
            self._lent += 1
            return None, gone
        raise Waiting

    def give(self, instance: T, key: str | None) -> T | None:
        """Take one back; returns it if it has to go. An instance of the key None always goes."""
        self._lent -= 1
        if key is None:
            return instance
        self._idle[instance] = key
        return None

    def lost(self) -> None:
        """One that was lent is of no use any more."""
        self._lent -= 1

    def wait(self, who: W) -> None:
        """Queue who waits."""
        self._waiting.append(who)

    def leave(self, who: W) -> None:
        """Who waits gives up."""
        if who in self._waiting:
            self._waiting.remove(who)

    def next(self) -> W | None:
        """Who may take one now, if any."""
        return self._waiting.popleft() if self._waiting and self._lent < self._most else None

    def clear(self) -> list[T]:
        """All that are idle, which have to go."""
        gone, self._idle = list(self._idle), OrderedDict()
        return gone
