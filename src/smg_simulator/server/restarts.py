"""The restarts of an embedded engine that are under way, so that none outlives it (edge). Above: grpc_server and the parts
of it that a fault can make restart. Below: timer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from smg_simulator.engine.timer import Timer

__all__ = ["Restarts"]


class Restarts:
    """The restarts of one engine."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._away: set[asyncio.Future[bool]] = set()
        self._stopping = False

    def begin(self, restart: Coroutine[Any, Any, None]) -> None:
        """Have the engine restart beside the call whose fault that is."""
        task = asyncio.create_task(restart, name="restart the embedded engine")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def away(self, timer: Timer, seconds: float) -> bool:
        """Wait for so many seconds of `timer`, in which the engine is not there. Returns False if it is to stay away."""
        if self._stopping:
            return False
        back: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        alarm = timer.call_at(timer.monotonic() + seconds, lambda: None if back.done() else back.set_result(True))
        self._away.add(back)
        try:
            return await back
        finally:
            alarm.cancel()
            self._away.discard(back)

    async def over(self) -> None:
        """Called when the engine stops. An engine that is away stays so; a restart in any other step is waited for, since what it
        has begun to open or to close would be left half so."""
        self._stopping = True
        for back in self._away:
            if not back.done():
                back.set_result(False)
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
                await asyncio.sleep(0)  # what is done takes itself off the list
        finally:
            self._stopping = False
