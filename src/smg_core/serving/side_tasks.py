"""Runs what works beside the requests of a gateway: one task of each kind while the gateway is started (edge).

Background answers, the queue of batches, the discovery of workers are such kinds. Above: the handlers, which ask for theirs; the
assembly, which starts and ends them. Below: the log of faults.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from smg_core.observability.faults import FaultLog

__all__ = ["SideTask", "SideTasks"]


class SideTask(Protocol):
    """What runs beside the requests while the gateway is started."""

    async def run(self) -> None:
        """Work until it is cancelled."""
        ...


@runtime_checkable
class Drains(Protocol):
    """A side task that has something of its own to end."""

    def drain(self) -> None:
        """The gateway shuts down: begin nothing more."""
        ...


S = TypeVar("S", bound=SideTask)


class SideTasks:
    """The side tasks of one gateway. What a task fails with is told to `faults`."""

    def __init__(self, faults: FaultLog) -> None:
        self._faults = faults
        self._known: dict[type[SideTask], SideTask] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stack: AsyncExitStack | None = None

    def one_of(self, kind: type[S], make: Callable[[], S]) -> S:
        """Return the gateway's single task of `kind`, however many apps ask for it. On first use it is made by `make`, and starts
        with the gateway, or at once where that has started."""
        found = self._known.get(kind)
        if not isinstance(found, kind):
            found = make()
            self._known[kind] = found
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._run, found)
        return found

    def start(self, stack: AsyncExitStack) -> None:
        """Run all of them, until `stack` ends. Called in the event loop that the gateway runs in."""
        self._loop, self._stack = asyncio.get_running_loop(), stack
        stack.callback(self._stopped)
        for task in list(self._known.values()):
            self._run(task)

    def drain(self) -> None:
        """Have those drain that can."""
        for task in self._known.values():
            if isinstance(task, Drains):
                task.drain()

    def note_end(self, work: str, task: "asyncio.Task[None]") -> None:
        """Called when a task has ended whose end nobody waits for: what it failed with is logged."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._faults.note(work, fault)

    def _stopped(self) -> None:
        self._loop = self._stack = None

    def _run(self, side: SideTask) -> None:
        if self._loop is None or self._stack is None:  # it has stopped meanwhile
            return
        name = type(side).__name__
        task = self._loop.create_task(side.run(), name=f"beside {name}")
        task.add_done_callback(partial(self.note_end, f"{name}, which runs beside the requests,"))
        self._stack.push_async_callback(_ended, task)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
