"""Protobuf messages that hold tensors, framed so that the tensors are copied once.

Above: the modules that put media into one dialect each. Below: `wire`. Knows no dialect.
"""

from collections.abc import Sequence

import attrs

from smg_core.engines.wire import varint

__all__ = ["MediaMessage", "Piece", "head"]

Piece = bytes | memoryview

_LENGTH_DELIMITED = 2


@attrs.frozen(eq=False)
class MediaMessage:
    """A serialized message in pieces; joined they are it. Tensors' pieces borrow the tensors' memory, so the only copy is the
    one that joins the whole request."""

    pieces: tuple[Piece, ...] = attrs.field(repr=False)
    size: int

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> "MediaMessage":
        return cls(tuple(pieces), sum(map(len, pieces)))

    def tagged(self, field: int) -> list[Piece]:
        """The pieces as a length-delimited field of another message."""
        return [head(field, self.size), *self.pieces]

    def join(self) -> bytes:
        """The message in one piece."""
        return b"".join(self.pieces)


def head(field: int, size: int) -> bytes:
    """What stands before `size` bytes of a length-delimited field."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(size)
