"""`smg-gateway serve` with somebody inside who looks at the clock: what `security.py` starts.

    python bench/watched.py FILE late|callbacks serve --worker ...

`late` leaves the process as it is and adds a timer of 5 ms to its event loop. `callbacks` has it run on asyncio's own loop, whose
handles are Python and can be timed: the thread's CPU of each callback. Both write the worst so far into FILE, which is mapped,
and which whoever reads it may set to zero.
"""

import asyncio
import mmap
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvloop

from smg_core.cli import main as gateway

__all__ = ["FIGURES", "TICK"]

FIGURES = struct.Struct("<3d")
"""Seconds: a tick's worst lateness, the same less what the thread waited for a core, a callback's most CPU time."""
TICK = 0.005


class Watch:
    """The worst of each figure, kept in `cells`."""

    def __init__(self, cells: mmap.mmap) -> None:
        self._cells = memoryview(cells).cast("d")
        self._due = self._waited = 0.0

    def note(self, which: int, seconds: float) -> None:
        if seconds > self._cells[which]:
            self._cells[which] = seconds

    def tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """One tick of the timer: how late it is, and how much of that was the machine's doing."""
        now, waited = time.monotonic(), _waited_for_a_core()
        if self._due:
            self.note(0, now - self._due)
            self.note(1, now - self._due - (waited - self._waited))
        self._waited = waited
        self._due = time.monotonic() + TICK
        loop.call_later(TICK, self.tick, loop)

    def time_handles(self) -> None:
        """Have every callback of asyncio's loops timed."""
        run: Any = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.note(2, time.thread_time() - began)

        setattr(asyncio.Handle, "_run", timed)  # noqa: B010  # a private method, which types know and let nobody replace


def _waited_for_a_core() -> float:
    """Seconds that this thread was ready to run and others ran instead."""
    text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
    return int(text.split()[1]) / 1e9


def main() -> int:
    place, kind, *arguments = sys.argv[1:]
    with Path(place).open("r+b") as file:
        watch = Watch(mmap.mmap(file.fileno(), FIGURES.size))
    made = uvloop.new_event_loop if kind == "late" else asyncio.new_event_loop
    if kind == "callbacks":
        watch.time_handles()

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = made()
        if kind == "late":
            loop.call_soon(watch.tick, loop)
        return loop

    setattr(uvloop, "new_event_loop", new_loop)  # noqa: B010
    return gateway(arguments)


if __name__ == "__main__":
    sys.exit(main())
