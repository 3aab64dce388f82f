"""What comes again and again is told once a while, with how often.

Pure: the time is an argument. Above: whoever logs failures.
"""

from collections import OrderedDict
from collections.abc import Hashable

__all__ = ["Repeats"]


class Repeats:
    """Remembers what was told within the last `window` seconds, of at most `most` things; the oldest are forgotten first."""

    def __init__(self, window: float, most: int) -> None:
        self._window = window
        self._most = most
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def note(self, what: Hashable, now: float) -> int | None:
        """None when `what` was told a short while ago and only counts; else how often that was so since it was told."""
        told, again = self._seen.get(what, (now - self._window, 0))
        if now - told < self._window:
            self._seen[what] = told, again + 1
            return None
        self._seen[what] = now, 0
        self._seen.move_to_end(what)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return again
