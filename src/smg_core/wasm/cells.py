"""Memory that wasmtime's C interface reads and writes: where arguments are written, and where answers are read.

The package wasmtime converts a value by one foreign call and several objects for each of its parts, which costs 30 ms for a
`list<u8>` of 48 KB. Here the parts of all arguments of a call are written into one block of memory, and answers are read where
they are. Above: `values`. Below: ctypes.
"""

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Final, Protocol

__all__ = [
    "CELL",
    "ELEMENT",
    "MEMORY",
    "PAIR_CELL",
    "TRIPLE_CELL",
    "WORD_CELL",
    "Arena",
    "Full",
    "Malformed",
    "Room",
    "TooLarge",
    "Writes",
    "check_kind",
    "text_at",
]

CELL = 32
"""Bytes of `wasmtime_component_val_t`."""
ELEMENT = 4
"""Bytes of an answer that an element of a list counts as, beside its texts."""
_FIRST = 4096  # bytes of an arena at first
_KEPT = 1 << 20  # bytes that an arena keeps from one call to the next
WORD_CELL, PAIR_CELL, TRIPLE_CELL = struct.Struct("<B7xQ"), struct.Struct("<B7xQQ"), struct.Struct("<B7xQQQ")
MEMORY: Final = memoryview((ctypes.c_char * ((1 << 47) - 1)).from_address(0)).cast("B")
"""All memory that a process may have, by its addresses: what `ctypes.string_at` reads, in a quarter of the time. Only addresses
that wasmtime gave may be read."""


class Malformed(Exception):
    """A result is not of the type that was agreed on."""


class TooLarge(Malformed):
    """A result has more than may be read."""


class Full(Exception):
    """The arena has no room for this call."""


class Writes(Protocol):
    """What writes a value."""

    def lower(self, arena: "Arena", at: int, value: Any) -> None:
        """Write the cell of a value at an offset."""
        ...


class Arena:
    """The memory of a call's arguments. It grows to what a call needs; nothing moves while a call runs."""

    def __init__(self) -> None:
        self._make(_FIRST)

    def _make(self, size: int) -> None:
        self.memory = bytearray(size)
        self._view = (ctypes.c_char * size).from_buffer(self.memory)
        self.base = ctypes.addressof(self._view)
        self.words = memoryview(self.memory).cast("Q")
        self._size, self._at = size, 0

    def lower(self, types: Sequence[Writes], values: Sequence[object]) -> int:
        """Write the arguments of a call; returns the address of their cells, which is good until the next call of this."""
        while True:
            self._at = 0
            try:
                first = self.reserve(CELL * len(types))
                for number, (type_, value) in enumerate(zip(types, values, strict=True)):
                    type_.lower(self, first + CELL * number, value)
            except Full:
                self._make(self._size * 4)
            else:
                return self.base + first

    def clear(self) -> None:
        """Forget what was written."""
        self._at = 0

    @property
    def is_small(self) -> bool:
        """Whether it is as it was made."""
        return self._size == _FIRST

    @property
    def used(self) -> int:
        """Bytes that the arguments take which were written last."""
        return self._at

    def shrink(self) -> None:
        """After a call: give back what is more than is worth keeping."""
        if self._size > _KEPT:
            self._make(_FIRST)

    def reserve(self, size: int) -> int:
        """Where `size` bytes begin in which a cell may begin, as an offset from `base`. The caller writes all of them."""
        at = (self._at + 7) & ~7
        self._at = at + size
        if self._at > self._size:
            raise Full
        return at

    def put_aligned(self, data: bytes) -> int:
        """Copy bytes to where a cell may begin; returns their offset from `base`."""
        at = (self._at + 7) & ~7
        end = self._at = at + len(data)
        if end > self._size:
            raise Full
        self.memory[at:end] = data
        return at

    def put(self, data: bytes | bytearray) -> int:
        """Copy bytes; returns their address."""
        at = self._at
        self._at = at + len(data)
        if self._at > self._size:
            raise Full
        self.memory[at : self._at] = data
        return self.base + at


class Room:
    """How much of one answer may be read: so many bytes, of its strings and of its lists, each element of which takes some."""

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def take(self, size: int) -> None:
        """So many bytes are read next. Raises TooLarge."""
        self.left -= size
        if self.left < 0:
            raise TooLarge(f"with more than {self.most} bytes")


def text_at(size: int, address: int, room: Room) -> str:
    """The text of so many bytes at an address. Raises Malformed."""
    if not size:
        return ""
    room.left -= size  # as `take`, in a third of the time
    if room.left < 0:
        room.take(0)
    try:
        return str(MEMORY[address : address + size], "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a string that is no UTF-8") from None


def check_kind(kind: int, wanted: int, what: str) -> None:
    """Raises Malformed where a cell is of another kind than it should be."""
    if kind != wanted:
        raise Malformed(f"a value of kind {kind} in place of {what}")
