"""The place of the next call of each function of a component: on the event loop, or in a thread.

A call on the event loop runs in short steps, but one instruction may be long (`memory.fill` over all of a memory), and so may be
an answer of many small parts, which is read in one go. No step ends these. What has kept the event loop once begins in threads
from then on, for twice as many calls each time. Pure. Above: `plugin`. Below: nothing.
"""

__all__ = ["CallPlaces"]

_AFTER_LONG = 32  # calls that begin in a thread after one that was not over in its steps
_AFTER_KEEPING = 1024  # the same after one that kept the event loop; twice as many each time
_DOUBLED = 20  # times at most
_KEEPING_S = 0.001  # seconds of the processor that a step on the event loop may not take


class CallPlaces:
    """Of one component."""

    def __init__(self) -> None:
        self._in_threads: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def begins_here(self, name: str) -> bool:
        """Whether the next call of a function begins on the event loop."""
        left = self._in_threads.get(name, 0)
        if left:
            self._in_threads[name] = left - 1
        return not left

    def in_threads(self, name: str) -> int:
        """Calls of a function that begin in a thread next."""
        return self._in_threads.get(name, 0)

    def was_long(self, name: str) -> None:
        """A call of this function was not over in its steps."""
        self._in_threads[name] = max(self.in_threads(name), _AFTER_LONG)

    def took(self, name: str, seconds: float) -> None:
        """A step of a call on the event loop took so many seconds of the processor."""
        if seconds > _KEEPING_S:
            times = self._kept.get(name, 0)
            self._kept[name] = min(times + 1, _DOUBLED)
            self._in_threads[name] = _AFTER_KEEPING << times
