"""Counts of limits over all members: what each has charged and given back in one window, added up by whoever reads.

A window is numbered by the wall clock. Of a rate, what counts now is this window and the part of the last one that still lies
within its width; that banks no time in which nobody asked. Pure.
"""

import msgspec

__all__ = [
    "CountedWindow",
    "MemberCount",
    "counter_window",
    "estimate",
    "read_count",
    "read_counter_key",
    "written_count",
    "written_counter_key",
]

_MOST = 1 << 62


class MemberCount(msgspec.Struct, frozen=True, array_like=True):
    """What one member has charged in a window, and what of it was given back. Both only rise."""

    charged: int = 0
    refunded: int = 0

    @property
    def used(self) -> int:
        return max(0, self.charged - self.refunded)

    def joined(self, other: "MemberCount") -> "MemberCount":
        """The later of two counts of one writer."""
        return MemberCount(max(self.charged, other.charged), max(self.refunded, other.refunded))


class CountedWindow(msgspec.Struct, frozen=True, array_like=True):
    """Which counter of which window: a hash of its scope, and the window's number."""

    scope: bytes
    number: int


_count = msgspec.msgpack.Decoder(MemberCount).decode
_window = msgspec.msgpack.Decoder(CountedWindow).decode


def written_count(count: MemberCount) -> bytes:
    """The bytes of a count."""
    return msgspec.msgpack.encode(count)


def read_count(data: bytes) -> MemberCount:
    """A count from its bytes; absurd numbers count as the highest that is none. Raises msgspec.DecodeError."""
    found = _count(data)
    if not (0 <= found.charged < _MOST and 0 <= found.refunded < _MOST):
        return MemberCount()
    return found


def written_counter_key(window: CountedWindow) -> bytes:
    """The key of a counter."""
    return msgspec.msgpack.encode(window)


def read_counter_key(data: bytes) -> CountedWindow:
    """The counter of a key. Raises msgspec.DecodeError."""
    return _window(data)


def counter_window(wall_us: int, width_us: int) -> tuple[int, int]:
    """The number of the window of a rate at that time, and the microseconds of it that are over."""
    return divmod(wall_us, width_us)


def estimate(now_used: int, last_used: int, over_us: int, width_us: int) -> int:
    """What of a rate counts as used: this window, and the part of the last one that is less than one width ago."""
    return now_used + last_used * (width_us - over_us) // width_us
