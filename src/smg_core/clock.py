"""Time, randomness and ids as constructor arguments.

Decides nothing. Classes take a `Clock` and an `IdSource`, so that a test can stop time and foresee every id. Above:
everything. Below: the standard library.
"""

import os
import secrets
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["CallLater", "Clock", "Handle", "IdSource", "SystemClock", "random_ids"]


class Clock(Protocol):
    """The two clocks of a machine."""

    def monotonic(self) -> float:
        """Seconds that never go back; for measuring and for deadlines."""
        ...

    def time(self) -> float:
        """Seconds since the Unix epoch; for time stamps."""
        ...


class SystemClock:
    """The machine's clocks: the standard library's own functions, so that a reading is no call of Python code."""

    __slots__ = ()

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)


class Handle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call. Does nothing once the call was made."""
        ...


CallLater = Callable[[float, Callable[[], None]], Handle]
"""`call_later(seconds, callback)` calls `callback` after that time. Outside of tests it is the event loop's."""


IdSource = Callable[[str], str]
"""Takes a prefix ("chatcmpl-") and returns it with a unique suffix."""


def random_ids() -> IdSource:
    """Ids unique across processes and machines: 64 random bits of this source, then a counter.

    The kernel is asked for randomness once for each source, not for each id. After a fork the child draws new bits, so two
    processes never share them.
    """
    pid, stem, count = 0, "", 0

    def mint(prefix: str) -> str:
        nonlocal pid, stem, count
        if pid != os.getpid():
            pid, stem, count = os.getpid(), secrets.token_hex(8), 0
        count += 1
        return f"{prefix}{stem}{count:08x}"

    return mint
