"""Stamps by which all members agree on the later of two changes (a hybrid logical clock).

A stamp is 48 bits of milliseconds and 16 bits that count within one. A stamp from far in the future is not followed: a member
whose clock is wrong cannot push those of all others away. Pure: the time is an argument.
"""

__all__ = ["HybridClock", "millis_of"]

_COUNT_BITS = 16
_MOST = (1 << 64) - 1


def millis_of(stamp: int) -> int:
    """The milliseconds of a stamp."""
    return stamp >> _COUNT_BITS


class HybridClock:
    """One member's clock of stamps. A stamp that is more than `most_ahead_ms` ahead of the time is counted and not followed."""

    def __init__(self, most_ahead_ms: int = 5000) -> None:
        self._last = 0
        self._most_ahead_ms = most_ahead_ms
        self.skewed = 0

    def stamp(self, now_ms: int) -> int:
        """A stamp that is higher than all that were given or seen here."""
        self._last = min(max(self._last + 1, now_ms << _COUNT_BITS), _MOST)
        return self._last

    def seen(self, stamp: int, now_ms: int) -> int:
        """A stamp of another member was seen; what it counts as here."""
        ahead = (now_ms + self._most_ahead_ms) << _COUNT_BITS
        if stamp > ahead:
            self.skewed += 1
            stamp = ahead
        self._last = max(self._last, stamp)
        return stamp
