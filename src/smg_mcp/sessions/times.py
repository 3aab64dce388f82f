"""The clock and chance of sessions, so that tests bring their own.

Above: `session`, `tools`. Below: nothing.
"""

from collections.abc import Awaitable, Callable
from random import Random

import attrs

__all__ = ["SessionTimes"]


@attrs.frozen
class SessionTimes:
    """Where time and chance come from: a clock in seconds, a sleep, and what jitters the pauses between tries."""

    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Random
