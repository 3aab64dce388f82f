"""JSON in parts, against the standard library's parser of whole texts."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_parsers.json_text.partial_json import JsonScanner, is_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def valid(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse, parse_int=str, strict=False)
    except ValueError:
        return False
    return True


@given(VALUES, st.booleans(), st.integers(0, 3), st.lists(st.integers(0, 500), max_size=5))
def test_a_value_is_followed_to_its_end_through_any_split(
    value: object, ascii_only: bool, indent: int, places: list[int]
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent or None)
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    scanner = JsonScanner()
    taken = ""
    for start, stop in pairwise(edges):
        part, end = scanner.take(text[start:stop], 0)
        taken += part
        assert end == stop - start
    scanner.close()
    assert scanner.done
    assert taken == text


@given(st.text(alphabet='{}[]",:\\ntrue0123.eE+-u \n', max_size=25))
def test_what_is_json_is_what_the_standard_library_says(text: str) -> None:
    assert is_json(text) == valid(text)


@pytest.mark.parametrize(
    "text", ['{"a":1,}', "[1,]", "01", "+1", "1.", ".5", "'a'", "nul", '"\\x"', '"\\u12g4"', "{1:2}", ""]
)
def test_what_is_nearly_json_is_not(text: str) -> None:
    assert not is_json(text)


def test_the_end_is_found_where_other_text_follows() -> None:
    scanner = JsonScanner()
    assert scanner.take('{"a": "}"} and more', 0) == ('{"a": "}"}', 10)
    assert scanner.done


def test_nesting_is_bounded() -> None:
    scanner = JsonScanner(max_depth=3)
    assert scanner.scan("[[[[", 0) == 3
    assert scanner.bad
