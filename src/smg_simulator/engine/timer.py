"""The clock of an embedded engine, which can also call back (edge). Above: server.grpc_server."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from smg_core.clock import Clock, SystemClock

__all__ = ["SystemTimer", "Timer", "Wakeup"]


class Wakeup(Protocol):
    """A pending call of a `Timer`."""

    def cancel(self) -> None: ...


class Timer(Clock, Protocol):
    """A clock that can also call back. `testing.FakeClock` is one whose time moves only when a test moves it."""

    def call_at(self, moment: float, callback: Callable[[], None]) -> Wakeup:
        """Call `callback` at `moment`, in monotonic seconds; at once when that is past."""
        ...


class SystemTimer(SystemClock):
    """The running event loop's timer."""

    def call_at(self, moment: float, callback: Callable[[], None]) -> Wakeup:
        return asyncio.get_running_loop().call_later(max(0.0, moment - self.monotonic()), callback)
