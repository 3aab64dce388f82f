"""Passes the events of one client on in their order, also while one of them waits for its turn (edge).

The client is read meanwhile, so that one that leaves is noticed at once; what it sends behind is held, within a bound. Above: the
session that is passed through. Below: the events.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

from smg_core.apis.realtime.wire.relayed import SentEvent
from smg_core.errors import SmgError

__all__ = ["EventsInOrder"]

_LATER = 256
"""Events of a client that are held while one before them waits."""


class EventsInOrder:
    """The events of one client. `pass_on` does what one asks for, and returns what has to be set before the next, if anything;
    `refuse` tells the client of an error, `begin` runs work beside the reading. Over `most` bytes that are held the client is
    not read."""

    def __init__(
        self,
        pass_on: Callable[[SentEvent], Awaitable[asyncio.Event | None]],
        refuse: Callable[[SmgError, SentEvent], Awaitable[None]],
        begin: Callable[[Coroutine[object, object, None], SentEvent], object],
        most: int,
    ) -> None:
        self._pass, self._refuse, self._begin, self._most = pass_on, refuse, begin, most
        self._later: deque[SentEvent] = deque()
        self._bytes = 0
        self._waits = False
        self._room = asyncio.Event()

    async def take(self, event: SentEvent) -> None:
        """Pass an event on, now or when it is its turn. Raises SmgError for one that is refused now."""
        if not self._waits:
            before_next = await self._pass(event)
            if before_next is not None and not before_next.is_set():
                self._waits = True
                self._begin(self._pass_later(before_next), event)
            return
        self._later.append(event)
        self._bytes += len(event.data)
        while self._waits and (self._bytes > self._most or len(self._later) > _LATER):
            self._room.clear()
            await self._room.wait()

    def left(self) -> None:
        """The client has left: what it has sent means nothing more."""
        self._later.clear()

    async def _pass_later(self, before_next: asyncio.Event | None) -> None:
        try:
            while True:
                if before_next is not None:
                    await before_next.wait()
                if not self._later:
                    return
                event = self._later.popleft()
                self._bytes -= len(event.data)
                self._room.set()
                before_next = await self._passed(event)
        finally:
            self._waits = False
            self._room.set()

    async def _passed(self, event: SentEvent) -> asyncio.Event | None:
        try:
            return await self._pass(event)
        except SmgError as error:
            await self._refuse(error, event)
            return None
