"""An immutable sequence of token ids, which can keep its packed varints once they were made.

A prompt seen before is not encoded again: the tokenizer cache keeps `TokenIds`, and `engines.codecs.protobuf.varints_of` keeps
in it the packed varints that every protobuf dialect sends. Decides nothing; knows the standard library only. Level 0: the
tokenizer makes these, the engines send them, and neither room knows the other.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

__all__ = ["MOST_TOKENS_REPORTED", "TokenIds", "reported_count"]

MOST_TOKENS_REPORTED = (1 << 31) - 1
"""Largest number of tokens that an engine is believed: of more no answer consists, and a few such would fill a counter."""


def reported_count(value: int | None) -> int:
    """A number of tokens as an engine told it; 0 for None and for what can be no such number (some servers say -1)."""
    return value if value is not None and 0 <= value <= MOST_TOKENS_REPORTED else 0


class TokenIds(Sequence[int]):
    """Immutable token ids, 4 bytes each.

    `size` is their number. `packed_varints` is the payload of a protobuf field `repeated uint32` that holds them, None until
    it is made. Read it with `engines.codecs.protobuf.varints_of`, which makes it.
    """

    __slots__ = ("_ids", "packed_varints", "size")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._ids = ids if isinstance(ids, array) and ids.typecode == "I" else array("I", ids)
        self.size = len(self._ids)
        self.packed_varints: bytes | None = None

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "TokenIds": ...
    def __getitem__(self, index: int | slice) -> "int | TokenIds":
        return TokenIds(self._ids[index]) if isinstance(index, slice) else self._ids[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenIds):
            return self._ids == other._ids
        if isinstance(other, list | tuple):
            return len(other) == len(self._ids) and all(a == b for a, b in zip(self._ids, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._ids.tobytes())

    def __add__(self, other: "TokenIds") -> "TokenIds":
        return TokenIds(self._ids + other._ids)

    def __repr__(self) -> str:
        first = ", ".join(map(str, self._ids[:8]))
        return f"TokenIds([{first}{', ...' if len(self) > 8 else ''}], n={len(self)})"

    def __buffer__(self, flags: int, /) -> memoryview:
        return memoryview(self._ids)

    @property
    def buffer(self) -> memoryview:
        """The ids as native-endian unsigned 32-bit integers, without a copy."""
        return memoryview(self._ids).toreadonly()

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the ids and of the varints, if these were made."""
        return len(self._ids) * self._ids.itemsize + len(self.packed_varints or b"")

    def tolist(self) -> list[int]:
        """The ids as a new list."""
        return self._ids.tolist()
