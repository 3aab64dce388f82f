"""Time, randomness and ids, as things that are handed in.

Decides nothing. Rooms take a `Clock` and an `IdSource` in their constructors, so a test can stand still in time and name
every id. Above it: everything. It knows the standard library only.
"""

import os
import secrets
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["CallLater", "Clock", "Handle", "IdSource", "SystemClock", "random_ids"]


class Clock(Protocol):
    """What a room may know of time."""

    def monotonic(self) -> float:
        """Seconds that never go back; for measuring and for deadlines."""
        ...

    def time(self) -> float:
        """Seconds since the Unix epoch; for stamps that people read."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()


class Handle(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Take it back; harmless once it has been made."""
        ...


CallLater = Callable[[float, Callable[[], None]], Handle]
"""`call_later(seconds, callback)`: call `callback` when so many seconds have passed. The event loop's own, outside of tests."""


IdSource = Callable[[str], str]
"""Takes a prefix ("chatcmpl-"), returns it with something unique behind it."""


def random_ids() -> IdSource:
    """Ids unique across processes and machines: 64 random bits of this source, then a counter.

    One draw of randomness a source and none an id: a process that mints a million ids a second asks the kernel once.
    The source notices a fork and draws again, so two children never share a prefix.
    """
    pid, stem, count = 0, "", 0

    def mint(prefix: str) -> str:
        nonlocal pid, stem, count
        if pid != os.getpid():
            pid, stem, count = os.getpid(), secrets.token_hex(8), 0
        count += 1
        return f"{prefix}{stem}{count:08x}"

    return mint
