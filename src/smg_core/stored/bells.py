"""Bells that ring in this process when something of a response is kept (edge).

Who follows a response takes its bell before looking, so that nothing that comes meanwhile is missed; what other processes do is
found by looking again after a while. Above: `background`, its runs and followers. Below: asyncio.
"""

import asyncio
import contextlib
from weakref import WeakValueDictionary

__all__ = ["Key", "News", "rung"]

Key = tuple[str, str]
"""A response: tenant and id."""


class News:
    """The bells of one process; one is there as long as somebody has it."""

    def __init__(self) -> None:
        self._bells: WeakValueDictionary[Key, asyncio.Event] = WeakValueDictionary()

    def bell(self, key: Key) -> asyncio.Event:
        """The bell that rings with the next news of `key`."""
        found = self._bells.get(key)
        if found is None:
            found = self._bells[key] = asyncio.Event()
        return found

    def ring(self, key: Key) -> None:
        """There is news of `key`."""
        bell = self._bells.pop(key, None)
        if bell is not None:
            bell.set()


async def rung(bell: asyncio.Event, seconds: float) -> None:
    """Wait until the bell rings, for `seconds` at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
