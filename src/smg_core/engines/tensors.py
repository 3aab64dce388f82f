"""Frames protobuf messages with tensors so that each tensor is copied only once.

Above: the media modules of the dialects. Below: `wire`. Knows no dialect.
"""

from collections.abc import Sequence

import attrs

from smg_core.engines.wire import varint

__all__ = ["BytesLike", "MediaMessage", "head"]

BytesLike = bytes | memoryview

_LENGTH_DELIMITED = 2


@attrs.frozen(eq=False)
class MediaMessage:
    """A serialized message in pieces, in order. The pieces of tensors are views of their memory; it is copied when the
    pieces of the whole request are joined."""

    pieces: tuple[BytesLike, ...] = attrs.field(repr=False)
    size: int

    @classmethod
    def of(cls, pieces: Sequence[BytesLike]) -> "MediaMessage":
        """The message made of `pieces`."""
        return cls(tuple(pieces), sum(map(len, pieces)))

    def tagged(self, field: int) -> list[BytesLike]:
        """The pieces as a length-delimited field of another message."""
        return [head(field, self.size), *self.pieces]

    def join(self) -> bytes:
        """The message in one piece."""
        return b"".join(self.pieces)


def head(field: int, size: int) -> bytes:
    """The tag and length before a length-delimited field of `size` bytes."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(size)
