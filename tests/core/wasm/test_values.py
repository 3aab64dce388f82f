"""Values that were written into memory are read from it as they were: both sides have wasmtime's layout."""

import ctypes
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.wasm.cells import CELL, ELEMENT, Arena, Malformed, Room, TooLarge
from smg_core.wasm.values import (
    BOOL,
    BYTES,
    F64,
    STRING,
    U16,
    U32,
    U64,
    Enum,
    List,
    Option,
    Record,
    Result,
    Type,
    Variant,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
Sample = tuple[Type, st.SearchStrategy[Any]]
HEADER = Record({"name": STRING, "value": STRING})
HEADERS = st.lists(st.tuples(TEXTS, TEXTS), max_size=5).map(tuple)
PLAIN: list[Sample] = [
    (BOOL, st.booleans()),
    (U16, st.integers(0, 2**16 - 1)),
    (U32, st.integers(0, 2**32 - 1)),
    (U64, st.integers(0, 2**64 - 1)),
    (F64, st.floats(allow_nan=False)),
    (STRING, TEXTS),
    (BYTES, st.binary(max_size=40)),
    (Enum("a", "bc"), st.sampled_from(("a", "bc"))),
    (HEADER, st.tuples(TEXTS, TEXTS)),
    (List(HEADER), HEADERS),
]


def joined(first: Sample, second: Sample) -> st.SearchStrategy[Sample]:
    """Types that are made of two."""
    (one, ones), (two, twos) = first, second
    return st.sampled_from(
        [
            (Record({"x": one, "long-name": two}), st.tuples(ones, twos)),
            (List(one), st.lists(ones, max_size=4).map(tuple)),
            (Option(two), st.none() | twos),
            (
                Variant({"none": None, "one": one, "two": two}),
                st.just(("none", None)) | st.tuples(st.just("one"), ones) | st.tuples(st.just("two"), twos),
            ),
            (
                Result(one, two),
                st.tuples(st.just(True), ones) | st.tuples(st.just(False), twos),
            ),
        ]
    )


SAMPLES = st.recursive(
    st.sampled_from(PLAIN), lambda inner: st.tuples(inner, inner).flatmap(lambda pair: joined(*pair)), max_leaves=6
)


@given(st.lists(SAMPLES, min_size=1, max_size=3), st.data())
def test_arguments_are_read_as_they_were_written(samples: list[Sample], data: st.DataObject) -> None:
    arena = Arena()
    values = [data.draw(strategy) for _, strategy in samples]
    at = arena.lower([type_ for type_, _ in samples], values)

    read = [type_.lift(at + CELL * number, Room(1 << 30)) for number, (type_, _) in enumerate(samples)]
    assert read == values


def test_an_arena_grows_to_what_a_call_needs_and_shrinks_again() -> None:
    arena = Arena()
    for text in ("x" * 3_000_000, "y"):
        at = arena.lower((STRING, List(HEADER)), (text, ((text, "v"),) * 3))
        assert STRING.lift(at, Room(len(text))) == text
        assert List(HEADER).lift(at + CELL, Room(1 << 30)) == ((text, "v"),) * 3
        arena.shrink()
        assert len(arena.memory) == 4096


@pytest.mark.parametrize(
    "type_", [type_ for type_, _ in PLAIN] + [Option(U16), Variant({"a": None}), Result(None, None)]
)
def test_a_cell_of_another_kind_is_refused(type_: Type) -> None:
    cell = ctypes.create_string_buffer(bytes([99]) + bytes(31))
    with pytest.raises(Malformed):
        type_.lift(ctypes.addressof(cell), Room(0))


@pytest.mark.parametrize(
    ("type_", "value", "size"),
    [
        (STRING, "four", 4),
        (BYTES, b"four", 4),
        (List(HEADER), (("ab", "c"), ("", "")), 3 + 2 * ELEMENT),
        (List(STRING), ("ab", "c"), 3 + 2 * ELEMENT),
        (Option(STRING), "four", 4),
    ],
)
def test_what_has_more_than_may_be_read_is_refused_before_it_is_read(type_: Type, value: Any, size: int) -> None:
    arena = Arena()
    at = arena.lower((type_,), (value,))
    assert type_.lift(at, Room(size)) == value
    for less in range(size):
        with pytest.raises(TooLarge):
            type_.lift(at, Room(less))


def test_a_list_that_is_too_long_is_refused_before_its_elements_are_read() -> None:
    cells = ctypes.create_string_buffer(struct.pack("<B7xQQQ", List(STRING).kind, 1 << 40, 8, 0))  # where nothing is
    with pytest.raises(TooLarge):
        List(STRING).lift(ctypes.addressof(cells), Room(1 << 30))
