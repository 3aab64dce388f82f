"""Limits how often the same thing is logged, and counts the repetitions in between.

Pure: the time is an argument. Above: the failure log. Below: nothing.
"""

from collections import OrderedDict
from collections.abc import Hashable

__all__ = ["Repeats"]


class Repeats:
    """Remembers at most `most` things that were logged within the last `window` seconds; the oldest are dropped first."""

    def __init__(self, window: float, most: int) -> None:
        self._window = window
        self._most = most
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def note(self, what: Hashable, now: float) -> int | None:
        """None when `what` was logged within the window and is only counted. Else it must be logged now: the number of
        repetitions since it was last logged."""
        seen = self._seen.get(what)
        logged_at, again = seen or (now, 0)
        if seen is not None and now - logged_at < self._window:
            self._seen[what] = logged_at, again + 1
            return None
        self._seen[what] = now, 0
        self._seen.move_to_end(what)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return again
