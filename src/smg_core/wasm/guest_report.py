"""A guest's messages beside its answers: lines of a log, and counters.

Pure. Above: `running`, `plugin`, `server`. Below: nothing.
"""

import attrs

__all__ = ["GuestReport"]

_LINE = 1000  # characters of a line that a guest logs
_LINES_OF_CALL = 64  # lines that are kept of one call
_NAME = 64  # characters of a counter's name
_COUNTERS = 32  # names of counters that a plugin may have
_MOST_COUNTED = 2.0**53  # what a counter may come to: numbers beyond it are not exact, and far beyond not finite


@attrs.define
class GuestReport:
    """A guest's messages in one call: lines of its log by level, how many more it said, and what it counted. `size`: characters
    of all of it."""

    lines: list[tuple[str, str]] = attrs.field(factory=list)
    dropped: int = 0
    counts: dict[str, float] = attrs.field(factory=dict)
    size: int = 0

    def log(self, level: str, message: str) -> None:
        """Keep a line, without what would break it in two."""
        self.size += len(message)
        if len(self.lines) >= _LINES_OF_CALL:
            self.dropped += 1
            return
        line = message[:_LINE]
        self.lines.append((level, "".join(each if each.isprintable() else " " for each in line)))

    def count(self, name: str, by: float) -> None:
        """Add to a counter. More names than a plugin may have, and what is no number or too large, are left out."""
        self.size += len(name)
        known = len(name) <= _NAME and (name in self.counts or len(self.counts) < _COUNTERS)
        total = self.counts.get(name, 0.0) + by
        if known and by >= 0 and total <= _MOST_COUNTED and name.isidentifier():  # neither holds for what is no number
            self.counts[name] = total
        else:
            self.dropped += 1
