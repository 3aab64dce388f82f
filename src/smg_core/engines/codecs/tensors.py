"""Frames protobuf messages with tensors so that each tensor is copied only once.

Above: the media modules of the dialects. Below: `wire`. Knows no dialect.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO

import attrs

from smg_core.engines.codecs.protobuf import varint

__all__ = ["BytesLike", "MediaMessage", "concatenated", "head", "map_field", "with_data"]

BytesLike = bytes | memoryview

_LENGTH_DELIMITED = 2
_KEY, _VALUE = 1, 2  # the fields of an entry of a map
_COPIED_AT_ONCE = 1024 * 1024
"""Bytes that are copied without letting another thread run."""


def concatenated(pieces: Sequence[BytesLike]) -> bytes:
    """The pieces in one. Many bytes are copied some at a time: who joins tensors does so in a thread, and the interpreter's lock
    is free for the event loop in between."""
    if sum(map(len, pieces)) <= _COPIED_AT_ONCE:
        return b"".join(pieces)
    made = BytesIO()
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), _COPIED_AT_ONCE):
            made.write(view[start : start + _COPIED_AT_ONCE])
    return made.getvalue()  # the very bytes that were written to, and no copy


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
        return concatenated(self.pieces)


def head(field: int, size: int) -> bytes:
    """The tag and length before a length-delimited field of `size` bytes."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(size)


def map_field(field: int, entries: Mapping[str, MediaMessage]) -> list[BytesLike]:
    """The pieces of a `map<string, message>` in another message, in order."""
    pieces: list[BytesLike] = []
    for name, value in entries.items():
        key = name.encode()
        pieces += MediaMessage.of([head(_KEY, len(key)), key, *value.tagged(_VALUE)]).tagged(field)
    return pieces


def with_data(message: bytes, field: int, data: memoryview) -> MediaMessage:
    """The message `message`, a serialized one, with `data` as its bytes field `field`."""
    data = data.cast("B") if data.format != "B" else data
    return MediaMessage.of([message, head(field, data.nbytes), data])
