"""The locks of conversations and other things that one request of this process works on (edge).

A lock is a lease of the history: it ends by itself when the process dies, and is renewed while the response is made. It is lost
where it could not be renewed in time and somebody else has taken the conversation since; what is then written under it is
refused. Above: `remembering`, `idempotency`. Below: the history.
"""

import asyncio
import contextlib
from collections.abc import Callable

import attrs

from smg_core.clock import CallLater, Handle
from smg_core.errors import SmgError
from smg_core.history.store.base import Lease, LeaseLost, Store

__all__ = ["LOCKED", "ConversationLocks"]

LOCKED = "conversation_locked"
"""The code of the error that a request gets while another has its conversation."""

_RENEWED = 3
"""A lock is renewed this often in the time that it lasts, so that one failure of the store does not lose it."""


@attrs.define(eq=False)
class _Held:
    """A lock of one request. `due` is its next renewal, `renewing` the one under way."""

    tenant: str
    lease: Lease
    seconds: float
    due: Handle | None = None
    renewing: "asyncio.Task[None] | None" = None
    lost: bool = False


class ConversationLocks:
    """The locks by the request that holds each, of things of one `kind`. `history` is asked for at each use, since a gateway
    opens it when it starts."""

    def __init__(self, history: Callable[[], Store], call_later: CallLater, kind: str = "conversation") -> None:
        self._history, self._call_later, self._kind = history, call_later, kind
        self._held: dict[str, _Held] = {}
        self._unwanted: set[asyncio.Task[None]] = set()  # an event loop itself keeps no task alive

    async def take(self, request: str, tenant: str, conversation: str, seconds: float) -> bool:
        """Lock the conversation, or whatever has this id, for this request; False while another has it. One that is
        cancelled meanwhile gives back what it gets."""
        taking = asyncio.ensure_future(self._history().acquire(tenant, self._kind, conversation, request, seconds))
        try:
            lease = await asyncio.shield(taking)
        except asyncio.CancelledError:  # the store may have given it all the same
            task = asyncio.get_running_loop().create_task(self._give_back(taking, tenant))
            self._unwanted.add(task)
            task.add_done_callback(self._unwanted.discard)
            raise
        if lease is None:
            return False
        held = self._held[request] = _Held(tenant, lease, seconds)
        self._schedule(request, held)
        return True

    def lease(self, request: str) -> Lease | None:
        """What is written under the request's lock is written under; None without a lock."""
        held = self._held.get(request)
        return None if held is None else held.lease

    def has_lost(self, request: str) -> bool:
        """Whether the request had a lock that is somebody else's now, or may be."""
        held = self._held.get(request)
        return held is not None and held.lost

    async def release(self, request: str) -> None:
        """Give the lock back, if the request has one. Raises StoreFailed, and what a hook of the history raises."""
        held = self._held.pop(request, None)
        if held is None:
            return
        if held.due is not None:
            held.due.cancel()
        if held.renewing is not None:
            await asyncio.gather(held.renewing, return_exceptions=True)
        await self._history().release(held.tenant, held.lease)

    async def _give_back(self, taking: "asyncio.Future[Lease | None]", tenant: str) -> None:
        """Give a lock back, once there is one, of a request that was given up while it took it."""
        with contextlib.suppress(SmgError):  # then it ends by itself
            if (lease := await taking) is not None:
                await self._history().release(tenant, lease)

    def _schedule(self, request: str, held: _Held) -> None:
        held.due = self._call_later(held.seconds / _RENEWED, lambda: self._begin(request, held))

    def _begin(self, request: str, held: _Held) -> None:
        if self._held.get(request) is held:
            held.renewing = asyncio.get_running_loop().create_task(self._renew(request, held))

    async def _renew(self, request: str, held: _Held) -> None:
        try:
            held.lease = await self._history().renew(held.tenant, held.lease, held.seconds)
        except LeaseLost:
            held.lost = True
            return
        except SmgError:  # the store fails, or a hook refuses
            pass  # until the lease ends there are further tries
        if self._held.get(request) is held:
            self._schedule(request, held)
