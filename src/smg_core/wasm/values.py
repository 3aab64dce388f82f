"""Values of the component model in the memory that wasmtime's C interface reads and writes.

The layout is wasmtime's (`wasmtime/component/val.h`). Decides layout only: it calls nothing. Above: `worlds`, `running`. Below:
`cells`.
"""

import ctypes
import struct
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate, repeat
from typing import Any, Final, Protocol

from smg_core.wasm.cells import (
    CELL,
    ELEMENT,
    MEMORY,
    PAIR_CELL,
    TRIPLE_CELL,
    WORD_CELL,
    Arena,
    Full,
    Malformed,
    Room,
    check_kind,
    text_at,
)

__all__ = [
    "BOOL",
    "BYTES",
    "F64",
    "STRING",
    "U16",
    "U32",
    "U64",
    "Arguments",
    "Enum",
    "List",
    "Number",
    "Option",
    "Record",
    "Result",
    "Type",
    "Variant",
]

_FIELD = 48  # bytes of an entry of a record: its name, and a cell
_FIELD_WORDS, _CELL_WORDS = _FIELD // 8, CELL // 8
_SPARE = 16  # arenas that wait for the next arguments
_SHARED = 16  # arenas that one head may lie in
_LENGTHS = 32  # lengths of lists of which what never changes is kept
_PAIR = struct.Struct("<QQ")
_FOUND = "16xB7xQQ8x"  # of a field: the kind of its cell, and the first two words of its value
_RESULT_CELL = struct.Struct("<B7x?7xQ")
_STRING, _LIST, _RECORD, _VARIANT, _ENUM, _OPTION, _RESULT = 12, 13, 14, 16, 17, 18, 19
_U8_CELL = bytes([2]) + bytes(31)


_spare: deque[Arena] = deque(maxlen=_SPARE)
"""Arenas that no arguments are in. A block of this size from the allocator of C costs more than what is written into it."""


class _Lent:
    """An arena that arguments are in, which other ones may have next when nobody has these any more."""

    __slots__ = ("arena",)

    def __init__(self) -> None:
        try:
            self.arena = _spare.pop()
        except IndexError:
            self.arena = Arena()

    def __del__(self) -> None:
        if self.arena.is_small:
            _spare.append(self.arena)


class Arguments:
    """The arguments of a call, written once for all who are called with them. They stay where they are as long as this is kept.
    `size` is what they take of memory, at most. Where `before` has the same head with other headers at the end, no more is
    written than these: the rest stays where it was."""

    address: int
    first: int
    size: int

    def __init__(self, types: Sequence["Type"], values: Sequence[Any], before: "Arguments | None" = None) -> None:
        lent = _Lent()
        arena = lent.arena
        head = types[0].head if len(types) == 1 and isinstance(types[0], Record) else None
        self.value: Sequence[Any] = values[0] if head is not None else ()
        if head is not None and before is not None and len(before._lent) < _SHARED:
            written = head.lower_changed(arena, before._lent[-1].arena, before.first, before.value, values[0])
            if written is not None:
                self._lent: tuple[_Lent, ...] = (*before._lent, lent)
                self.address, self.first, self.size = arena.base, 0, before.size + written
                return
        self._lent = (lent,)
        self.address = arena.lower(types, values)
        self.first = (self.address - arena.base) // 8
        self.size = arena.used


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

    def lift(self, at: int, room: "Room") -> Any:
        """The value of the cell at an address. Raises Malformed, and TooLarge before it reads what is too large."""
        ...


class Number:
    """A number or a boolean: `code` as `struct` calls it."""

    def __init__(self, wit: str, kind: int, code: str) -> None:
        self.wit, self.kind = wit, kind
        self._struct = struct.Struct("<B7x" + code)  # a cell is longer, so there is always as much to read

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        self._struct.pack_into(arena.memory, at, self.kind, value)

    def lift(self, at: int, room: Room) -> Any:
        kind, value = self._struct.unpack_from(MEMORY, at)
        check_kind(kind, self.kind, self.wit)
        return value


class _String:
    wit, kind = "string", _STRING

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        data = value.encode()
        PAIR_CELL.pack_into(arena.memory, at, _STRING, len(data), arena.put(data))

    def lift(self, at: int, room: Room) -> Any:
        kind, size, address = PAIR_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _STRING, "a string")
        return text_at(size, address, room)


class _Bytes:
    """`list<u8>`, as bytes: each byte is a cell of its own."""

    wit, kind = "list<u8>", _LIST

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        cells = bytearray(_U8_CELL) * len(value)
        cells[8::CELL] = value
        start = arena.reserve(0)
        PAIR_CELL.pack_into(arena.memory, at, _LIST, len(value), arena.base + start)
        arena.put(cells)

    def lift(self, at: int, room: Room) -> Any:
        kind, size, address = PAIR_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _LIST, "a list")
        room.take(size)
        cells = bytes(MEMORY[address : address + CELL * size]) if size else b""
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
        self.texts = element.texts if isinstance(element, Record) else None

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        start = arena.reserve(CELL * len(value))
        PAIR_CELL.pack_into(arena.memory, at, _LIST, len(value), arena.base + start)
        if self.texts is not None:
            self.texts.lower_all(arena, start, value)
            return
        for each in value:
            self._element.lower(arena, start, each)
            start += CELL

    def lift(self, at: int, room: Room) -> Any:
        kind, size, address = PAIR_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _LIST, "a list")
        if not size:
            return ()
        room.take(ELEMENT * size)
        if self.texts is not None:
            return self.texts.lift_all(address, size, room)
        lift = self._element.lift
        return tuple([lift(at, room) for at in range(address, address + CELL * size, CELL)])


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
        self.size, self.count = _FIELD * len(names), len(names)
        self._words = array("Q", [word for pair in names for word in (*pair, _STRING, 0, 0, 0)])
        self._cell = array("Q", (_RECORD, self.count, 0, 0))
        self._fields = [self._words * count for count in range(_LENGTHS)]
        self._cells = [self._cell * count for count in range(_LENGTHS)]
        self._found = struct.Struct("<" + _FOUND * len(names)).unpack_from
        self._kinds = (_STRING,) * len(names)

    def fields(self, count: int) -> "array[int]":
        """The fields of so many records, without their texts."""
        return self._fields[count] if count < _LENGTHS else self._words * count

    def cells(self, count: int) -> "array[int]":
        """The cells of so many records, without the addresses of their fields."""
        return self._cells[count] if count < _LENGTHS else self._cell * count

    def lift_all(self, address: int, count: int, room: "Room") -> tuple[tuple[str, ...], ...]:
        """The records of so many cells from an address."""
        records = list[tuple[str, ...]]()
        for at in range(address, address + CELL * count, CELL):
            kind, size, where = PAIR_CELL.unpack_from(MEMORY, at)
            if kind != _RECORD or size != self.count:
                raise Malformed("a list of other things than records of strings")
            found = self._found(MEMORY, where)
            if found[::3] != self._kinds:
                raise Malformed("a record of other things than strings")
            records.append(tuple(map(text_at, found[1::3], found[2::3], repeat(room))))
        return tuple(records)

    def append(self, arena: Arena, at: int, value: Sequence[str]) -> int:
        """Write the fields of one record at an offset, and its texts behind what is written. Returns the size of the texts."""
        if len(value) != self.count:
            raise ValueError("a record has another number of fields")
        first, size = at // 8, 0
        arena.words[first : first + len(self._words)] = self._words
        for text in value:
            data = text.encode()
            arena.words[first + 3], arena.words[first + 4] = len(data), arena.put(data)
            first, size = first + _FIELD_WORDS, size + len(data)
        return size

    def lower(self, arena: Arena, at: int, values: Sequence[Sequence[str]]) -> None:
        """Write the fields of records one behind the other from an offset, and their texts behind what is written."""
        texts = [text for value in values for text in value]
        if len(texts) != self.count * len(values):
            raise ValueError("a record has another number of fields")
        if not texts:
            return
        joined = "".join(texts)
        data = joined.encode()
        sizes = [len(text) for text in texts] if len(data) == len(joined) else [len(text.encode()) for text in texts]
        words, first, end = arena.words, at // 8, (at + self.size * len(values)) // 8
        words[first:end] = self.fields(len(values))
        words[first + 3 : end : _FIELD_WORDS] = array("Q", sizes)
        words[first + 4 : end : _FIELD_WORDS] = array("Q", accumulate(sizes[:-1], initial=arena.put(data)))

    def lower_all(self, arena: Arena, at: int, values: Sequence[Sequence[str]]) -> None:
        """Write the cells of a list of records at an offset, and the records behind what is written."""
        size = self.size * len(values)
        start = arena.reserve(size)
        words, first, end = arena.words, at // 8, (at + CELL * len(values)) // 8
        words[first:end] = self.cells(len(values))
        words[first + 2 : end : _CELL_WORDS] = array(
            "Q", range(arena.base + start, arena.base + start + size, self.size)
        )
        self.lower(arena, start, values)


class _Head:
    """A record such as a head: numbers, then strings, and at last a list of records of strings. It is written in one go: what is
    the same in all heads of so many headers is copied, and the texts of all fields are put into memory together."""

    def __init__(self, names: Sequence[tuple[int, int]], types: Sequence["Type"], element: _TextRecord) -> None:
        self._names, self._element = names, element
        self._numbers = [each for each in types if isinstance(each, Number)]
        self._first, self._last = len(self._numbers), len(types) - 1  # of the strings, and of the list
        self._same = [self._made(count) for count in range(_LENGTHS)]

    @staticmethod
    def is_one(types: Sequence["Type"]) -> bool:
        """Whether a record of fields of these types is such a record."""
        plain, last = types[:-1], types[-1] if types else None
        numbers = sum(isinstance(each, Number) for each in plain)
        strings = all(isinstance(each, Number) for each in plain[:numbers]) and all(
            each is STRING for each in plain[numbers:]
        )
        return strings and isinstance(last, List) and last.texts is not None

    def _made(self, count: int) -> "array[int]":
        """The words of a record with a list of so many elements, without its values: its own fields, those of the elements, and
        the cells of the list."""
        kinds = [_STRING] * self._last + [_LIST]
        own = [word for pair, kind in zip(self._names, kinds, strict=True) for word in (*pair, kind, 0, 0, 0)]
        return array("Q", own) + self._element.fields(count) + self._element.cells(count)

    def lower_changed(
        self, arena: Arena, old: Arena, first: int, before: Sequence[Any], value: Sequence[Any]
    ) -> int | None:
        """Write a head of which all but the last headers are written: `before` is what was, and its cell is at word `first` of
        another arena, which has to stay. Returns the bytes of the headers that are new; None where the head has to be written
        whole."""
        last, element = self._last, self._element
        listed = value[last]
        if value[:last] != before[:last]:
            return None
        same = 0
        for one, other in zip(listed, before[last], strict=False):
            if one is not other:
                break
            same += 1
        new = listed[same:]
        cells = CELL + _FIELD * (last + 1)  # behind the cell of the head and its fields
        elements = cells + CELL * len(listed)
        try:
            arena.clear()
            arena.reserve(elements + element.size * len(new))
            words, words_before = arena.words, old.words
            begin = (words_before[first + 2] - old.base) // 8
            known = (words_before[begin + _FIELD_WORDS * last + 4] - old.base) // 8
            PAIR_CELL.pack_into(arena.memory, 0, _RECORD, last + 1, arena.base + CELL)
            words[_CELL_WORDS : cells // 8] = words_before[begin : begin + _FIELD_WORDS * (last + 1)]
            words[_CELL_WORDS + _FIELD_WORDS * last + 3] = len(listed)
            words[_CELL_WORDS + _FIELD_WORDS * last + 4] = arena.base + cells
            at = cells // 8 + _CELL_WORDS * same
            words[cells // 8 : at] = words_before[known : known + _CELL_WORDS * same]
            size = (CELL + element.size) * len(new)
            words[at : elements // 8] = element.cells(len(new))
            for each in new:
                words[at + 2] = arena.base + elements
                size += element.append(arena, elements, each)
                at, elements = at + _CELL_WORDS, elements + element.size
        except Full:
            return None
        return size

    def lower(self, arena: Arena, at: int, value: Sequence[Any]) -> None:
        """Write the cell of the record at an offset, and the rest behind what is written."""
        first, last, listed, element = self._first, self._last, value[self._last], self._element
        count = len(listed)
        texts = [*value[first:last]]
        for each in listed:
            texts += each
        if len(texts) != last - first + element.count * count:
            raise ValueError("a record has another number of fields")
        joined = "".join(texts)
        data = joined.encode()
        sizes = [*map(len, texts)] if len(data) == len(joined) else [len(text.encode()) for text in texts]
        same = self._same[count] if count < _LENGTHS else self._made(count)
        start = arena.reserve(len(same) * 8)
        addresses = [*accumulate(sizes, initial=arena.put(data))]
        del addresses[-1]
        elements = start + _FIELD * (last + 1)  # the fields of the elements
        cells = elements + element.size * count
        sizes.insert(last - first, count)
        addresses.insert(last - first, arena.base + cells)
        PAIR_CELL.pack_into(arena.memory, at, _RECORD, last + 1, arena.base + start)
        words, begin = arena.words, start // 8
        words[begin : begin + len(same)] = same
        words[begin + 3 + _FIELD_WORDS * first : cells // 8 : _FIELD_WORDS] = array("Q", sizes)
        words[begin + 4 + _FIELD_WORDS * first : cells // 8 : _FIELD_WORDS] = array("Q", addresses)
        address = arena.base + elements
        words[cells // 8 + 2 : begin + len(same) : _CELL_WORDS] = array(
            "Q", range(address, address + element.size * count, element.size)
        )
        for number, type_ in enumerate(self._numbers):
            type_.lower(arena, start + 16 + _FIELD * number, value[number])


class Record:
    """A record; its values are tuples in the order of the fields. `texts` writes the fields of one that has strings alone, `head`
    one that is like a head."""

    kind = _RECORD

    def __init__(self, fields: Mapping[str, Type]) -> None:
        self.wit = "record{" + ", ".join(f"{name}: {each.wit}" for name, each in fields.items()) + "}"
        self._types = tuple(fields.values())
        self._names = _Names(tuple(fields))
        self.texts = _TextRecord(self._names.pairs) if fields and all(each is STRING for each in self._types) else None
        last = self._types[-1] if self._types else None
        listed = last.texts if isinstance(last, List) and _Head.is_one(self._types) else None
        self.head = _Head(self._names.pairs, self._types, listed) if listed is not None else None
        self._template = b"".join(_PAIR.pack(*pair) + bytes(CELL) for pair in self._names.pairs)
        self._kinds = tuple([each.kind for each in self._types])
        self._found = struct.Struct("<" + _FOUND * len(self._types)).unpack_from
        self._lifts = [
            (each.lift, 16 + _FIELD * number, type(each) in _NOTHING, _NOTHING.get(type(each)))
            for number, each in enumerate(self._types)
        ]

    def lower(self, arena: Arena, at: int, value: Any) -> None:
        if self.texts is not None:
            start = arena.reserve(self.texts.size)
            PAIR_CELL.pack_into(arena.memory, at, _RECORD, len(self._types), arena.base + start)
            self.texts.lower(arena, start, (value,))
            return
        if self.head is not None:
            self.head.lower(arena, at, value)
            return
        start = arena.put_aligned(self._template)
        PAIR_CELL.pack_into(arena.memory, at, _RECORD, len(self._types), arena.base + start)
        start += 16
        for type_, each in zip(self._types, value, strict=True):
            type_.lower(arena, start, each)
            start += _FIELD

    def lift(self, at: int, room: Room) -> Any:
        kind, size, address = PAIR_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _RECORD, "a record")
        if size != len(self._types):
            raise Malformed(f"a record of {size} fields, not {len(self._types)}")
        fields = self._found(MEMORY, address)
        if fields[::3] != self._kinds:
            return tuple([lift(address + at, room) for lift, at, _, _ in self._lifts])  # which says what is wrong
        if self.texts is not None:
            return tuple(map(text_at, fields[1::3], fields[2::3], repeat(room)))
        return tuple(
            [
                empty if may_be_empty and not word else lift(address + at, room)
                for word, (lift, at, may_be_empty, empty) in zip(fields[1::3], self._lifts, strict=True)
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
        PAIR_CELL.pack_into(arena.memory, at, _ENUM, *self._pairs[value])

    def lift(self, at: int, room: Room) -> Any:
        kind, size, address = PAIR_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _ENUM, "an enum")
        name = text_at(size, address, room)
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
        PAIR_CELL.pack_into(arena.memory, at, _OPTION, 0 if value is None else arena.base + start, 0)

    def lift(self, at: int, room: Room) -> Any:
        kind, address = WORD_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _OPTION, "an option")
        return self._inner.lift(address, room) if address else None


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
        TRIPLE_CELL.pack_into(
            arena.memory, at, _VARIANT, *self._pairs[name], 0 if inner is None else arena.base + start
        )

    def lift(self, at: int, room: Room) -> Any:
        kind, size, address, payload = TRIPLE_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _VARIANT, "a variant")
        name = text_at(size, address, room)
        if name not in self._cases:
            raise Malformed("a case that the variant does not have")
        inner = self._cases[name]
        return name, None if inner is None else inner.lift(payload, room)


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
        PAIR_CELL.pack_into(arena.memory, at, _RESULT, is_good, 0 if inner is None else arena.base + start)

    def lift(self, at: int, room: Room) -> Any:
        kind, is_good, payload = _RESULT_CELL.unpack_from(MEMORY, at)
        check_kind(kind, _RESULT, "a result")
        inner = self._payloads[is_good]
        return is_good, None if inner is None else inner.lift(payload, room)
