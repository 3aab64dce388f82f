"""Decides which request of a batch is sent next, and when (edge).

Requests of batches come after everything else: none begins while clients have `yield_to` requests under way, or while the process
drains. Of those that wait, the longest waiting one whose tenant has room is next. Above: the queue of batches and its runs.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable

import attrs

__all__ = ["Turns"]


@attrs.frozen(eq=False)
class _Waiter:
    tenant: str
    owner: object
    granted: "asyncio.Future[bool]"


class Turns:
    """At most `most` at once, `most_tenant` of one tenant. `live` says how many requests of clients are under way; None that
    nothing may begin."""

    def __init__(self, most: int, most_tenant: int, yield_to: int, live: Callable[[int], int | None]) -> None:
        self._most, self._most_tenant, self._yield_to, self._live = most, most_tenant, yield_to, live
        self._running: Counter[str] = Counter()
        self._waiting: deque[_Waiter] = deque()

    @property
    def running(self) -> int:
        """How many have their turn now."""
        return self._running.total()

    async def enter(self, tenant: str, owner: object) -> bool:
        """Wait for a turn; False where `owner` was dismissed. Who has got one gives it back by `leave`."""
        waiter = _Waiter(tenant, owner, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self.grant()
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.result():
                self.leave(tenant)
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def leave(self, tenant: str) -> None:
        """Give a turn back."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self.grant()

    def dismiss(self, owner: object) -> None:
        """None of this owner's that wait get a turn."""
        for waiter in self._waiting:
            if waiter.owner is owner and not waiter.granted.done():
                waiter.granted.set_result(False)

    def grant(self) -> None:
        """Give turns to those that may have one now. Called whenever that may have changed, and at intervals."""
        for waiter in list(self._waiting):
            live = self._live(self.running)
            if self.running >= self._most or live is None or live >= self._yield_to:
                return
            if waiter.granted.done() or self._running[waiter.tenant] >= self._most_tenant:
                continue
            self._waiting.remove(waiter)
            self._running[waiter.tenant] += 1
            waiter.granted.set_result(True)
