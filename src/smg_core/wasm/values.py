"""Values of the component model in the memory that wasmtime's C interface reads and writes.

The package wasmtime converts a value by one foreign call and several objects for each of its parts, which costs 30 ms for a
`list<u8>` of 48 KB. Here the parts of all arguments of a call are written into one block of memory, whose layout is wasmtime's
(`wasmtime/component/val.h`), and results are read from theirs. Decides layout only: it calls nothing. Above: `worlds`, `running`.
Below: ctypes.
"""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = [
    "BOOL",
    "BYTES",
    "CELL",
    "F64",
    "STRING",
    "U16",
    "U32",
    "U64",
    "Arena",
    "Enum",
    "List",
    "Malformed",
    "Number",
    "Option",
    "Record",
    "Result",
    "Type",
    "Variant",
    "read_cell",
]

CELL = 32
"""Bytes of `wasmtime_component_val_t`."""
_FIELD = 48  # bytes of an entry of a record: its name, and a cell
_FIRST = 4096  # bytes of an arena at first
_KEPT = 1 << 20  # bytes that an arena keeps from one call to the next
_PAIR, _CELL_PAIR, _CELL_TRIPLE = struct.Struct("<QQ"), struct.Struct("<B7xQQ"), struct.Struct("<B7xQQQ")
_STRING, _LIST, _RECORD, _VARIANT, _ENUM, _OPTION, _RESULT = 12, 13, 14, 16, 17, 18, 19
_U8_CELL = bytes([2]) + bytes(31)


class Malformed(Exception):
    """A result is not of the type that was agreed on."""


class _Full(Exception):
    """The arena has no room for this call."""


class Arena:
    """The memory of a call's arguments. It grows to what a call needs; nothing moves while a call runs."""

    def __init__(self) -> None:
        self._make(_FIRST)

    def _make(self, size: int) -> None:
        self.memory = bytearray(size)
        self._view = (ctypes.c_char * size).from_buffer(self.memory)
        self.base = ctypes.addressof(self._view)
        self._size, self._at = size, 0

    def lower(self, types: Sequence["Type"], values: Sequence[object]) -> int:
        """Write the arguments of a call; returns the address of their cells, which is good until the next call of this."""
        while True:
            self._at = 0
            try:
                first = self.reserve(CELL * len(types))
                for number, (type_, value) in enumerate(zip(types, values, strict=True)):
                    type_.lower(self, first + CELL * number, value)
            except _Full:
                self._make(self._size * 4)
            else:
                return self.base + first

    def shrink(self) -> None:
        """After a call: give back what is more than is worth keeping."""
        if self._size > _KEPT:
            self._make(_FIRST)

    def reserve(self, size: int) -> int:
        """Where `size` bytes begin that are zero, as an offset from `base`."""
        at = (self._at + 7) & ~7
        self._at = at + size
        if self._at > self._size:
            raise _Full
        self.memory[at : self._at] = bytes(size)
        return at

    def put(self, data: bytes | bytearray) -> int:
        """Copy bytes; returns their address."""
        at = self._at
        self._at = at + len(data)
        if self._at > self._size:
            raise _Full
        self.memory[at : self._at] = data
        return self.base + at


class Type(Protocol):
    """A type of the component model: how it is written in WIT, and how its values lie in memory."""

    @property
    def wit(self) -> str: ...

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        """Write the cell of a value at an offset."""
        ...

    def lift(self, cell: bytes) -> Any:
        """The value of a cell. Raises Malformed."""
        ...


def read_cell(address: int) -> bytes:
    """The cell at an address."""
    return ctypes.string_at(address, CELL)


def _text(size: int, address: int) -> str:
    try:
        return str(ctypes.string_at(address, size), "utf-8") if size else ""
    except UnicodeDecodeError:
        raise Malformed("a string that is no UTF-8") from None


def _check(cell: bytes, kind: int, what: str) -> None:
    if cell[0] != kind:
        raise Malformed(f"a value of kind {cell[0]} in place of {what}")


class Number:
    """A number or a boolean: `code` as `struct` calls it."""

    def __init__(self, wit: str, kind: int, code: str) -> None:
        self.wit, self._kind = wit, kind
        self._struct = struct.Struct("<B7x" + code)

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        self._struct.pack_into(arena.memory, at, self._kind, value)

    def lift(self, cell: bytes) -> Any:
        _check(cell, self._kind, self.wit)
        return self._struct.unpack_from(cell)[1]


class _String:
    wit = "string"

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        data = value.encode()
        _CELL_PAIR.pack_into(arena.memory, at, _STRING, len(data), arena.put(data))

    def lift(self, cell: bytes) -> Any:
        _check(cell, _STRING, "a string")
        return _text(*_PAIR.unpack_from(cell, 8))


class _Bytes:
    """`list<u8>`, as bytes: each byte is a cell of its own."""

    wit = "list<u8>"

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        cells = bytearray(_U8_CELL) * len(value)
        cells[8::CELL] = value
        start = arena.reserve(0)
        _CELL_PAIR.pack_into(arena.memory, at, _LIST, len(value), arena.base + start)
        arena.put(cells)

    def lift(self, cell: bytes) -> Any:
        _check(cell, _LIST, "a list")
        size, address = _PAIR.unpack_from(cell, 8)
        cells = ctypes.string_at(address, CELL * size) if size else b""
        if cells[::CELL].count(2) != size:
            raise Malformed("a list of other things than u8")
        return cells[8::CELL]


BOOL = Number("bool", 0, "?")
U16, U32, U64 = Number("u16", 4, "H"), Number("u32", 6, "I"), Number("u64", 8, "Q")
F64 = Number("f64", 10, "d")
STRING, BYTES = _String(), _Bytes()


class List:
    """A list; its values are tuples or lists."""

    def __init__(self, element: Type) -> None:
        self.wit, self._element = f"list<{element.wit}>", element
        self._texts = element.texts if isinstance(element, Record) else None

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        start = arena.reserve(CELL * len(value))
        _CELL_PAIR.pack_into(arena.memory, at, _LIST, len(value), arena.base + start)
        if self._texts is not None:
            self._texts.lower_all(arena, start, value)
            return
        for each in value:
            self._element.lower(arena, start, each)
            start += CELL

    def lift(self, cell: bytes) -> Any:
        _check(cell, _LIST, "a list")
        size, address = _PAIR.unpack_from(cell, 8)
        if not size:
            return ()
        cells = ctypes.string_at(address, CELL * size)
        return tuple(self._element.lift(cells[at : at + CELL]) for at in range(0, len(cells), CELL))


class _Names:
    """Names in memory that stays, with their addresses."""

    def __init__(self, names: Sequence[str]) -> None:
        self._kept = [ctypes.create_string_buffer(name.encode()) for name in names]
        self.pairs = [
            (len(name.encode()), ctypes.addressof(buffer)) for name, buffer in zip(names, self._kept, strict=True)
        ]


class _TextRecord:
    """The fields of a record that has strings alone, such as a header. What is the same in each record is written once for a
    whole list, and the texts are put into memory together."""

    def __init__(self, names: Sequence[tuple[int, int]]) -> None:
        self.size = _FIELD * len(names)
        self._template = b"".join(_PAIR.pack(*pair) + bytes([_STRING]) + bytes(31) for pair in names)

    def lower(self, arena: Arena, at: int, values: Sequence[Sequence[str]]) -> None:
        """Write the fields of records one behind the other from an offset, and their texts behind what is written."""
        end = at + self.size * len(values)
        arena.memory[at:end] = self._template * len(values)
        texts = [text for value in values for text in value]
        joined = "".join(texts)
        data = joined.encode()
        sizes = [len(text) for text in texts] if len(data) == len(joined) else [len(text.encode()) for text in texts]
        address, memory, pack = arena.put(data), arena.memory, _PAIR.pack_into
        for place, size in zip(range(at + 24, end, _FIELD), sizes, strict=True):
            pack(memory, place, size, address)
            address += size

    def lower_all(self, arena: Arena, at: int, values: Sequence[Sequence[str]]) -> None:
        """Write the cells of a list of records at an offset, and the records behind what is written."""
        start, count = arena.reserve(self.size * len(values)), self.size // _FIELD
        for number in range(len(values)):
            address = arena.base + start + self.size * number
            _CELL_PAIR.pack_into(arena.memory, at + CELL * number, _RECORD, count, address)
        self.lower(arena, start, values)


class Record:
    """A record; its values are tuples in the order of the fields. `texts` writes the fields of one that has strings alone."""

    def __init__(self, fields: Mapping[str, Type]) -> None:
        self.wit = "record{" + ", ".join(f"{name}: {each.wit}" for name, each in fields.items()) + "}"
        self._types = tuple(fields.values())
        self._names = _Names(tuple(fields))
        self.texts = _TextRecord(self._names.pairs) if all(each is STRING for each in self._types) else None

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        if self.texts is not None:
            start = arena.reserve(self.texts.size)
            _CELL_PAIR.pack_into(arena.memory, at, _RECORD, len(self._types), arena.base + start)
            self.texts.lower(arena, start, (value,))
            return
        start = arena.reserve(_FIELD * len(self._types))
        _CELL_PAIR.pack_into(arena.memory, at, _RECORD, len(self._types), arena.base + start)
        for type_, pair, each in zip(self._types, self._names.pairs, value, strict=True):
            _PAIR.pack_into(arena.memory, start, *pair)
            type_.lower(arena, start + 16, each)
            start += _FIELD

    def lift(self, cell: bytes) -> Any:
        _check(cell, _RECORD, "a record")
        size, address = _PAIR.unpack_from(cell, 8)
        if size != len(self._types):
            raise Malformed(f"a record of {size} fields, not {len(self._types)}")
        data = ctypes.string_at(address, _FIELD * size)
        return tuple(
            type_.lift(data[at : at + CELL])
            for type_, at in zip(self._types, range(16, 16 + _FIELD * size, _FIELD), strict=True)
        )


class Enum:
    """An enum; its values are the names of the cases."""

    def __init__(self, *cases: str) -> None:
        self.wit = "enum{" + ", ".join(cases) + "}"
        self._names = _Names(cases)
        self._pairs = dict(zip(cases, self._names.pairs, strict=True))

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        _CELL_PAIR.pack_into(arena.memory, at, _ENUM, *self._pairs[value])

    def lift(self, cell: bytes) -> Any:
        _check(cell, _ENUM, "an enum")
        name = _text(*_PAIR.unpack_from(cell, 8))
        if name not in self._pairs:
            raise Malformed("a case that the enum does not have")
        return name


class Option:
    """An option; None is the absent value."""

    def __init__(self, inner: Type) -> None:
        self.wit, self._inner = f"option<{inner.wit}>", inner

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        start = 0
        if value is not None:
            start = arena.reserve(CELL)
            self._inner.lower(arena, start, value)
        _CELL_PAIR.pack_into(arena.memory, at, _OPTION, 0 if value is None else arena.base + start, 0)

    def lift(self, cell: bytes) -> Any:
        _check(cell, _OPTION, "an option")
        (address,) = struct.unpack_from("<Q", cell, 8)
        return self._inner.lift(read_cell(address)) if address else None


class Variant:
    """A variant; its values are pairs of the case's name and the payload, None for a case without one."""

    def __init__(self, cases: Mapping[str, Type | None]) -> None:
        said = [name if each is None else f"{name}({each.wit})" for name, each in cases.items()]
        self.wit = "variant{" + ", ".join(said) + "}"
        self._cases = dict(cases)
        self._names = _Names(tuple(cases))
        self._pairs = dict(zip(cases, self._names.pairs, strict=True))

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        name, payload = value
        inner, start = self._cases[name], 0
        if inner is not None:
            start = arena.reserve(CELL)
            inner.lower(arena, start, payload)
        _CELL_TRIPLE.pack_into(
            arena.memory, at, _VARIANT, *self._pairs[name], 0 if inner is None else arena.base + start
        )

    def lift(self, cell: bytes) -> Any:
        _check(cell, _VARIANT, "a variant")
        size, data, payload = struct.unpack_from("<QQQ", cell, 8)
        name = _text(size, data)
        if name not in self._cases:
            raise Malformed("a case that the variant does not have")
        inner = self._cases[name]
        return name, None if inner is None else inner.lift(read_cell(payload))


class Result:
    """A result; its values are pairs of whether it is good, and the payload."""

    def __init__(self, good: Type | None, bad: Type | None) -> None:
        self.wit = f"result<{good.wit if good else '_'}, {bad.wit if bad else '_'}>"
        self._payloads = {True: good, False: bad}

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        is_good, payload = value
        inner, start = self._payloads[is_good], 0
        if inner is not None:
            start = arena.reserve(CELL)
            inner.lower(arena, start, payload)
        _CELL_PAIR.pack_into(arena.memory, at, _RESULT, is_good, 0 if inner is None else arena.base + start)

    def lift(self, cell: bytes) -> Any:
        _check(cell, _RESULT, "a result")
        is_good = cell[8] != 0
        (payload,) = struct.unpack_from("<Q", cell, 16)
        inner = self._payloads[is_good]
        return is_good, None if inner is None else inner.lift(read_cell(payload))
