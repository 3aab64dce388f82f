"""Whether this process does what one does for all processes of a gateway: asks the sources of workers, sees workers off (edge).

A gateway of one process leads. Of several, the supervisor has one lead (`processes.leader_election`). Above: gateway.assembly
has one, processes.serve changes it. Below: nothing.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

__all__ = ["Leading"]


class Leading:
    """`now`: whether this process leads."""

    def __init__(self) -> None:
        self.now = True
        self._watching: list[Callable[[], None]] = []

    def become(self, leads: bool) -> None:
        """Lead from now on, or no more."""
        if leads != self.now:
            self.now = leads
            for call in list(self._watching):
                call()

    @contextlib.contextmanager
    def watched(self, call: Callable[[], None]) -> Iterator[None]:
        """A context in which `call` is called after each change."""
        self._watching.append(call)
        try:
            yield
        finally:
            self._watching.remove(call)

    async def while_leading(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have `work` done whenever this process leads, and cancelled when it leads no more, until this is cancelled."""
        changed = asyncio.Event()
        with self.watched(changed.set):
            while True:
                changed.clear()
                if self.now:
                    await _until(changed, work)
                await changed.wait()


async def _until(changed: asyncio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` until it is done, or `changed` is set. Raises what it raises."""
    working, waiting = asyncio.ensure_future(work()), asyncio.ensure_future(changed.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not working.done():
            working.cancel()
        waiting.cancel()
        await asyncio.wait({working, waiting})
    if not working.cancelled():
        working.result()
