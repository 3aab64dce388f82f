"""How much JSON a text holds is known without building it: the same count and depth as of what a parser builds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest
from smg_core.wire import json_bounds
from smg_core.wire.json_bounds import NestedJson, ObjectEnd, nests_deeper, over_values
from smg_core.wire.settings import LimitsConfig

LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a,[{}]":\\ué\n', max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(alphabet='a,"\\[', max_size=3), inner)
)


def values_in(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(values_in, value.values()))
    return 1 + sum(map(values_in, value)) if isinstance(value, list) else 1


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def most_counted(data: bytes) -> int:
    """The bound at which `data` is no longer over it, by trying."""
    return next(most for most in range(len(data) + 2) if not over_values(data, most))


@given(VALUES, st.booleans(), st.integers(1, 40))
def test_values_are_counted_as_a_parser_would_and_a_little_room_is_given_for_empty_ones(
    value: Any, ascii_only: bool, piece: int
) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    size, json_bounds._PIECE = json_bounds._PIECE, piece
    try:
        counted = most_counted(data)
    finally:
        json_bounds._PIECE = size

    empty = data.count(b"[]") + data.count(b"{}")
    assert counted <= values_in(value) + empty
    assert counted >= min(values_in(value), len(data) // 2)


@pytest.mark.full
@given(VALUES, st.integers(1, 40))
def test_nesting_is_that_of_the_parsed_value(value: Any, piece: int) -> None:
    data = json.dumps(value).encode()
    size, json_bounds._PIECE = json_bounds._PIECE, piece
    try:
        assert not nests_deeper(data, depth_of(value))
        if depth_of(value):
            assert nests_deeper(data, depth_of(value) - 1)
    finally:
        json_bounds._PIECE = size


@pytest.mark.full
@given(st.dictionaries(st.text(alphabet='a,"\\[}'), VALUES), st.binary(max_size=20), st.integers(1, 40), st.booleans())
def test_an_object_ends_where_a_parser_ends_whatever_stands_behind_and_however_it_is_cut(
    value: Any, behind: bytes, step: int, ascii_only: bool
) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    scan, text, at = ObjectEnd(10**6), data + behind, 0
    while (end := scan.find(text[at : at + step])) < 0:
        assert at < len(data)
        at += step
    assert at + end == len(data)
    assert not scan.over


@pytest.mark.full
@given(st.dictionaries(st.text(alphabet='a,"\\[}'), VALUES), st.integers(1, 40))
def test_an_object_within_the_bound_is_never_over_it_before_it_ends(value: Any, step: int) -> None:
    data = json.dumps(value).encode()
    scan = ObjectEnd(most_counted(data) + data.count(b"[]") + data.count(b"{}") + 1)
    assert not any(scan.over for at in range(0, len(data), step) if scan.find(data[at : at + step]) < 0)


def test_commas_and_brackets_inside_of_strings_are_no_values() -> None:
    assert not over_values(json.dumps({"code": "f(a, [b], {c}), " * 50_000}).encode(), 1000)
    assert not over_values(json.dumps('"\\,' * 100_000).encode(), 1000)


@pytest.mark.parametrize("filler", [b"1,", b"[],", b'"a":1,', b'"a,b",', b'"\\"",'])
def test_values_outside_of_strings_are_all_seen(filler: bytes) -> None:
    assert over_values(b"[" + filler * 3000 + b"1]", 2999)


def test_texts_inside_of_strings_are_bounded_together() -> None:
    nested = NestedJson(LimitsConfig(json_values=1000))
    for order in range(3):
        nested.check(json.dumps([1] * 300), f"a[{order}]")
    with pytest.raises(InvalidRequest, match="1000") as refused:
        nested.check(json.dumps([1] * 300), "a[3]")

    assert refused.value.param == "a[3]"


def test_a_text_inside_of_a_string_is_nested_no_deeper_than_a_body() -> None:
    nested = NestedJson(LimitsConfig(json_depth=64))
    nested.check('{"a":' * 64 + "1" + "}" * 64, "a")
    with pytest.raises(InvalidRequest, match="64 levels"):
        nested.check('{"a":' * 65 + "1" + "}" * 65, "a")
