"""Waiting for a while, by the clock that the gateway was given (edge).

Above: the sources and `running`. Below: the standard library.
"""

import asyncio
from collections.abc import Awaitable, Callable

from smg_core.clock import CallLater

__all__ = ["Pause", "pauses"]

Pause = Callable[[float], Awaitable[None]]
"""Returns after that many seconds."""


def pauses(call_later: CallLater) -> Pause:
    """A `Pause` that is timed by `call_later`."""

    async def pause(seconds: float) -> None:
        over = asyncio.Event()
        timer = call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    return pause
