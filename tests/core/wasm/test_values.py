"""Values that were written into memory are read from it as they were: both sides have wasmtime's layout."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.wasm.values import (
    BOOL,
    BYTES,
    CELL,
    F64,
    STRING,
    U16,
    U32,
    U64,
    Arena,
    Enum,
    List,
    Malformed,
    Option,
    Record,
    Result,
    Type,
    Variant,
    read_cell,
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

    read = [type_.lift(read_cell(at + CELL * number)) for number, (type_, _) in enumerate(samples)]
    assert read == values


def test_an_arena_grows_to_what_a_call_needs_and_shrinks_again() -> None:
    arena = Arena()
    for text in ("x" * 3_000_000, "y"):
        at = arena.lower((STRING, List(HEADER)), (text, ((text, "v"),) * 3))
        assert STRING.lift(read_cell(at)) == text
        assert List(HEADER).lift(read_cell(at + CELL)) == ((text, "v"),) * 3
        arena.shrink()
        assert len(arena.memory) == 4096


@pytest.mark.parametrize(
    "type_", [type_ for type_, _ in PLAIN] + [Option(U16), Variant({"a": None}), Result(None, None)]
)
def test_a_cell_of_another_kind_is_refused(type_: Type) -> None:
    with pytest.raises(Malformed):
        type_.lift(bytes([99]) + bytes(31))
