"""The times at which each worker is asked: the times of an interval at which health checks and looks at loads begin.

A fleet's checks are spread over the interval, and those of several workers begin together, so that the event loop wakes a few
times for many of them: a wake costs about as much as a check. A worker's time follows from its name alone, so it is the same
after a restart and in every process. Pure. Above: monitor.
"""

from zlib import crc32

__all__ = ["until_next_probe"]

_PARTS = 10
"""The parts of an interval; a probe is at the beginning of one."""


def until_next_probe(now: float, interval: float, name: str) -> float:
    """The seconds from `now` (monotonic seconds) until the worker of this name is asked next, where it is asked once in an
    `interval`: more than none, and at most the interval and a half of one of its `_PARTS` parts."""
    part = interval / _PARTS
    left = interval - (now - crc32(name.encode()) % _PARTS * part) % interval
    return left if left > part / 2 else left + interval  # a timer may have come a moment early
