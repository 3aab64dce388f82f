"""The next owner of an instance of a component, and the next call with a thread.

An instance serves one exchange at a time, from its first hook to its end. Afterwards it may serve another of the same key (the
tenant, or all), or goes. No tenant alone can hold all instances or all threads: however many of its requests a guest keeps, the
requests of other tenants go on. Decides only, and calls nothing: making, freeing, running and waiting are the caller's. Above:
`plugin`. Below: nothing.
"""

from collections import Counter, OrderedDict, deque
from typing import Generic, TypeVar

__all__ = ["Instances", "Queues", "Threads", "Waiting"]

T = TypeVar("T")
W = TypeVar("W")
_KEPT_FOR_OTHERS = 8
"""One of so many instances, but one at least, is lent only to other tenants than the one that has all the rest."""


class Waiting(Exception):
    """No instance is free, and there may be no more."""


class Queues(Generic[W]):
    """Those who wait, by tenant. The tenants have turns; within one, who came first is first."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[W]] = OrderedDict()

    @property
    def tenants(self) -> list[str]:
        """The tenants for whom somebody waits, in the order of their turns."""
        return list(self._of)

    def put(self, tenant: str, who: W) -> None:
        """Somebody waits."""
        self._of.setdefault(tenant, deque()).append(who)

    def leave(self, tenant: str, who: W) -> None:
        """Who waits gives up."""
        queue = self._of.get(tenant)
        if queue is not None and who in queue:
            queue.remove(who)
            if not queue:
                del self._of[tenant]

    def pop(self, tenant: str) -> W:
        """The first of a tenant for whom somebody waits; its next turn comes after those of the others."""
        queue = self._of.pop(tenant)
        first = queue.popleft()
        if queue:
            self._of[tenant] = queue
        return first


class Instances(Generic[T, W]):
    """At most `most` instances, idle and lent ones together. `W` is whatever the caller wakes who waits by."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: OrderedDict[T, str] = OrderedDict()
        self._of_key: dict[str, deque[T]] = {}
        self._lent: dict[str, int] = {}
        self._all_lent = 0
        self._kept_for_others = max(1, most // _KEPT_FOR_OTHERS) if most > 1 else 0
        self._waiting: Queues[W] = Queues()

    @property
    def lent(self) -> int:
        """Instances that exchanges have."""
        return self._all_lent

    @property
    def idle(self) -> int:
        """Instances that wait for an exchange."""
        return len(self._idle)

    def _may(self, tenant: str) -> bool:
        """Whether a tenant may have one more. Where no tenant is known, nobody is parted from anybody."""
        if self._all_lent >= self._most:
            return False
        return not tenant or self._lent.get(tenant, 0) < self._most - self._kept_for_others

    def _lend(self, tenant: str) -> None:
        self._lent[tenant] = self._lent.get(tenant, 0) + 1
        self._all_lent += 1

    def take_idle(self, key: str | None, tenant: str) -> T | None:
        """Lend an idle instance of this key, None where there is none. The key None is nobody's."""
        found = self._of_key.get(key) if key is not None else None
        if not found or not self._may(tenant):
            return None
        instance = found.pop()
        if not found and key is not None:
            del self._of_key[key]
        del self._idle[instance]
        self._lend(tenant)
        return instance

    def take(self, key: str | None, tenant: str) -> tuple[T | None, T | None]:
        """Lend one: an idle instance of this key, or None for "make one", and beside it one that has to go for that. Raises
        Waiting."""
        found = self.take_idle(key, tenant)
        if found is not None:
            return found, None
        if not self._may(tenant):
            raise Waiting
        gone = self._oldest() if self._all_lent + len(self._idle) >= self._most else None
        self._lend(tenant)
        return None, gone

    def _oldest(self) -> T:
        """The instance that is idle for the longest, which goes."""
        gone, key = self._idle.popitem(last=False)
        of_key = self._of_key[key]
        of_key.popleft()
        if not of_key:
            del self._of_key[key]
        return gone

    def give(self, instance: T, key: str | None, tenant: str) -> T | None:
        """Take one back; returns it if it has to go. An instance of the key None always goes."""
        self.lost(tenant)
        if key is None:
            return instance
        self._idle[instance] = key
        self._of_key.setdefault(key, deque()).append(instance)
        return None

    def lost(self, tenant: str) -> None:
        """One that was lent is of no use any more."""
        left = self._lent[tenant] - 1
        self._all_lent -= 1
        if left:
            self._lent[tenant] = left
        else:
            del self._lent[tenant]

    def wait(self, tenant: str, who: W) -> None:
        """Queue who waits."""
        self._waiting.put(tenant, who)

    def leave(self, tenant: str, who: W) -> None:
        """Who waits gives up."""
        self._waiting.leave(tenant, who)

    def next(self) -> W | None:
        """Who may take one now, if any."""
        tenant = next((each for each in self._waiting.tenants if self._may(each)), None)
        return None if tenant is None else self._waiting.pop(tenant)

    def clear(self) -> list[T]:
        """All that are idle, which have to go."""
        gone, self._idle = list(self._idle), OrderedDict()
        self._of_key = {}
        return gone


class Threads(Generic[W]):
    """Calls that run in threads: `shared` of whomever, and beyond these one of each tenant that has none running, `most`
    together. So a tenant waits for its own calls alone, unless there are more than `most` tenants at once."""

    def __init__(self, shared: int, most: int) -> None:
        self._shared, self._most = shared, max(shared, most)
        self._running: Counter[str] = Counter()
        self._waiting: Queues[W] = Queues()

    @property
    def running(self) -> int:
        """Calls that run."""
        return self._running.total()

    def begins(self, tenant: str) -> bool:
        """Whether a call of a tenant may begin now; it has its thread then."""
        running = self._running.total()
        if running >= self._shared and (self._running[tenant] or running >= self._most):
            return False
        self._running[tenant] += 1
        return True

    def wait(self, tenant: str, who: W) -> None:
        """Queue a call."""
        self._waiting.put(tenant, who)

    def leave(self, tenant: str, who: W) -> None:
        """A call that waits is given up."""
        self._waiting.leave(tenant, who)

    def ended(self, tenant: str) -> list[W]:
        """A call is over; returns those that begin now."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        return [self._waiting.pop(each) for each in self._waiting.tenants if self.begins(each)]
