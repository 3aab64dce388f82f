"""Values of the component model in the memory that wasmtime's C interface reads and writes.

The package wasmtime converts a value by one foreign call and several objects for each of its parts, which costs 30 ms for a
`list<u8>` of 48 KB. Here the parts of all arguments of a call are written into one block of memory, whose layout is wasmtime's
(`wasmtime/component/val.h`), and results are read from theirs. Decides layout only: it calls nothing. Above: `worlds`, `running`.
Below: ctypes.
"""

import ctypes
import struct
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol

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
    "Arguments",
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
_FIELD_WORDS, _CELL_WORDS = _FIELD // 8, CELL // 8
_FIRST = 4096  # bytes of an arena at first
_KEPT = 1 << 20  # bytes that an arena keeps from one call to the next
_SPARE = 16  # arenas that wait for the next arguments
_LENGTHS = 32  # lengths of lists of which what never changes is kept
_WORD, _PAIR, _TRIPLE = struct.Struct("<Q"), struct.Struct("<QQ"), struct.Struct("<QQQ")
_CELL_PAIR, _CELL_TRIPLE = struct.Struct("<B7xQQ"), struct.Struct("<B7xQQQ")
_STRING, _LIST, _RECORD, _VARIANT, _ENUM, _OPTION, _RESULT = 12, 13, 14, 16, 17, 18, 19
_TEXT_FIELD = struct.Struct("<24xQQ8x")
_U8_CELL = bytes([2]) + bytes(31)
_bytes_at: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
"""A copy of so many bytes at an address; what `ctypes.string_at` does, in a third of the time."""


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
        self.words = memoryview(self.memory).cast("Q")
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
            raise _Full
        return at

    def put_aligned(self, data: bytes) -> int:
        """Copy bytes to where a cell may begin; returns their offset from `base`."""
        at = (self._at + 7) & ~7
        end = self._at = at + len(data)
        if end > self._size:
            raise _Full
        self.memory[at:end] = data
        return at

    def put(self, data: bytes | bytearray) -> int:
        """Copy bytes; returns their address."""
        at = self._at
        self._at = at + len(data)
        if self._at > self._size:
            raise _Full
        self.memory[at : self._at] = data
        return self.base + at


_spare: deque[Arena] = deque(maxlen=_SPARE)
"""Arenas that no arguments are in. A block of this size from the allocator of C costs more than what is written into it."""


class Arguments:
    """The arguments of a call, written once for all who are called with them. They stay where they are as long as this is kept.
    `size` is what they take of memory."""

    def __init__(self, types: Sequence["Type"], values: Sequence[object]) -> None:
        try:
            self._arena = _spare.pop()
        except IndexError:
            self._arena = Arena()
        self.address = self._arena.lower(types, values)
        self.size = self._arena.used

    def __del__(self) -> None:
        if self._arena.is_small:
            _spare.append(self._arena)


class Type(Protocol):
    """A type of the component model: how it is written in WIT, and how its values lie in memory."""

    @property
    def wit(self) -> str: ...

    @property
    def kind(self) -> int:
        """The byte with which its cells begin."""
        ...

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        """Write the cell of a value at an offset."""
        ...

    def lift(self, data: bytes, at: int = 0) -> Any:
        """The value of a cell, which begins at an offset in `data`. Raises Malformed."""
        ...


def read_cell(address: int) -> bytes:
    """The cell at an address."""
    return _bytes_at(address, CELL)  # type: ignore[no-any-return]


def _text(size: int, address: int) -> str:
    try:
        return str(_bytes_at(address, size), "utf-8") if size else ""
    except UnicodeDecodeError:
        raise Malformed("a string that is no UTF-8") from None


def _check(data: bytes, at: int, kind: int, what: str) -> None:
    if data[at] != kind:
        raise Malformed(f"a value of kind {data[at]} in place of {what}")


class Number:
    """A number or a boolean: `code` as `struct` calls it."""

    def __init__(self, wit: str, kind: int, code: str) -> None:
        self.wit, self.kind = wit, kind
        self._struct = struct.Struct("<B7x" + code)

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        self._struct.pack_into(arena.memory, at, self.kind, value)

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, self.kind, self.wit)
        return self._struct.unpack_from(data, at)[1]


class _String:
    wit, kind = "string", _STRING

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        data = value.encode()
        _CELL_PAIR.pack_into(arena.memory, at, _STRING, len(data), arena.put(data))

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _STRING, "a string")
        return _text(*_PAIR.unpack_from(data, at + 8))


class _Bytes:
    """`list<u8>`, as bytes: each byte is a cell of its own."""

    wit, kind = "list<u8>", _LIST

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        cells = bytearray(_U8_CELL) * len(value)
        cells[8::CELL] = value
        start = arena.reserve(0)
        _CELL_PAIR.pack_into(arena.memory, at, _LIST, len(value), arena.base + start)
        arena.put(cells)

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _LIST, "a list")
        size, address = _PAIR.unpack_from(data, at + 8)
        cells = _bytes_at(address, CELL * size) if size else b""
        if cells[::CELL].count(2) != size:
            raise Malformed("a list of other things than u8")
        return cells[8::CELL]


BOOL = Number("bool", 0, "?")
U16, U32, U64 = Number("u16", 4, "H"), Number("u32", 6, "I"), Number("u64", 8, "Q")
F64 = Number("f64", 10, "d")
STRING, BYTES = _String(), _Bytes()


class List:
    """A list; its values are tuples or lists."""

    kind = _LIST

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

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _LIST, "a list")
        size, address = _PAIR.unpack_from(data, at + 8)
        if not size:
            return ()
        cells, lift = _bytes_at(address, CELL * size), self._element.lift
        return tuple([lift(cells, at) for at in range(0, CELL * size, CELL)])


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
        self.size, self._count = _FIELD * len(names), len(names)
        words = array("Q", [word for pair in names for word in (*pair, _STRING, 0, 0, 0)])
        cell = array("Q", (_RECORD, self._count, 0, 0))
        self._fields = [words * count for count in range(_LENGTHS)]
        self._cells = [cell * count for count in range(_LENGTHS)]

    def lower(self, arena: Arena, at: int, values: Sequence[Sequence[str]]) -> None:
        """Write the fields of records one behind the other from an offset, and their texts behind what is written."""
        texts = [text for value in values for text in value]
        if len(texts) != self._count * len(values):
            raise ValueError("a record has another number of fields")
        if not texts:
            return
        joined = "".join(texts)
        data = joined.encode()
        sizes = [len(text) for text in texts] if len(data) == len(joined) else [len(text.encode()) for text in texts]
        words, first, end = arena.words, at // 8, (at + self.size * len(values)) // 8
        count = len(values)
        words[first:end] = self._fields[count] if count < _LENGTHS else self._fields[1] * count
        words[first + 3 : end : _FIELD_WORDS] = array("Q", sizes)
        words[first + 4 : end : _FIELD_WORDS] = array("Q", accumulate(sizes[:-1], initial=arena.put(data)))

    def lower_all(self, arena: Arena, at: int, values: Sequence[Sequence[str]]) -> None:
        """Write the cells of a list of records at an offset, and the records behind what is written."""
        size = self.size * len(values)
        start = arena.reserve(size)
        words, first, end = arena.words, at // 8, (at + CELL * len(values)) // 8
        count = len(values)
        words[first:end] = self._cells[count] if count < _LENGTHS else self._cells[1] * count
        words[first + 2 : end : _CELL_WORDS] = array(
            "Q", range(arena.base + start, arena.base + start + size, self.size)
        )
        self.lower(arena, start, values)


class Record:
    """A record; its values are tuples in the order of the fields. `texts` writes the fields of one that has strings alone."""

    kind = _RECORD

    def __init__(self, fields: Mapping[str, Type]) -> None:
        self.wit = "record{" + ", ".join(f"{name}: {each.wit}" for name, each in fields.items()) + "}"
        self._types = tuple(fields.values())
        self._names = _Names(tuple(fields))
        self.texts = _TextRecord(self._names.pairs) if fields and all(each is STRING for each in self._types) else None
        self._template = b"".join(_PAIR.pack(*pair) + bytes(CELL) for pair in self._names.pairs)
        self._kinds = bytes([each.kind for each in self._types])
        self._words = struct.Struct("<" + "24xQ16x" * len(self._types)).unpack
        self._lifts = [
            (each.lift, 16 + _FIELD * number, type(each) in _NOTHING, _NOTHING.get(type(each)))
            for number, each in enumerate(self._types)
        ]

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        if self.texts is not None:
            start = arena.reserve(self.texts.size)
            _CELL_PAIR.pack_into(arena.memory, at, _RECORD, len(self._types), arena.base + start)
            self.texts.lower(arena, start, (value,))
            return
        start = arena.put_aligned(self._template)
        _CELL_PAIR.pack_into(arena.memory, at, _RECORD, len(self._types), arena.base + start)
        start += 16
        for type_, each in zip(self._types, value, strict=True):
            type_.lower(arena, start, each)
            start += _FIELD

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _RECORD, "a record")
        size, address = _PAIR.unpack_from(data, at + 8)
        if size != len(self._types):
            raise Malformed(f"a record of {size} fields, not {len(self._types)}")
        fields = _bytes_at(address, _FIELD * size)
        if fields[16::_FIELD] != self._kinds:
            return tuple([lift(fields, at) for lift, at, _, _ in self._lifts])
        if self.texts is not None:
            return tuple([_text(*pair) for pair in _TEXT_FIELD.iter_unpack(fields)])
        words = self._words(fields)
        return tuple(
            [
                empty if may_be_empty and not word else lift(fields, at)
                for word, (lift, at, may_be_empty, empty) in zip(words, self._lifts, strict=True)
            ]
        )


class Enum:
    """An enum; its values are the names of the cases."""

    kind = _ENUM

    def __init__(self, *cases: str) -> None:
        self.wit = "enum{" + ", ".join(cases) + "}"
        self._names = _Names(cases)
        self._pairs = dict(zip(cases, self._names.pairs, strict=True))

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        _CELL_PAIR.pack_into(arena.memory, at, _ENUM, *self._pairs[value])

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _ENUM, "an enum")
        name = _text(*_PAIR.unpack_from(data, at + 8))
        if name not in self._pairs:
            raise Malformed("a case that the enum does not have")
        return name


class Option:
    """An option; None is the absent value."""

    kind = _OPTION

    def __init__(self, inner: Type) -> None:
        self.wit, self._inner = f"option<{inner.wit}>", inner

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        start = 0
        if value is not None:
            start = arena.reserve(CELL)
            self._inner.lower(arena, start, value)
        _CELL_PAIR.pack_into(arena.memory, at, _OPTION, 0 if value is None else arena.base + start, 0)

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _OPTION, "an option")
        (address,) = _WORD.unpack_from(data, at + 8)
        return self._inner.lift(read_cell(address)) if address else None


_NOTHING: Final[dict[type, object]] = {List: (), Option: None}
"""Types whose cells have no address where there is nothing in them, and their values then."""


class Variant:
    """A variant; its values are pairs of the case's name and the payload, None for a case without one."""

    kind = _VARIANT

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

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _VARIANT, "a variant")
        size, address, payload = _TRIPLE.unpack_from(data, at + 8)
        name = _text(size, address)
        if name not in self._cases:
            raise Malformed("a case that the variant does not have")
        inner = self._cases[name]
        return name, None if inner is None else inner.lift(read_cell(payload))


class Result:
    """A result; its values are pairs of whether it is good, and the payload."""

    kind = _RESULT

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

    def lift(self, data: bytes, at: int = 0) -> Any:
        _check(data, at, _RESULT, "a result")
        is_good = data[at + 8] != 0
        (payload,) = _WORD.unpack_from(data, at + 16)
        inner = self._payloads[is_good]
        return is_good, None if inner is None else inner.lift(read_cell(payload))
