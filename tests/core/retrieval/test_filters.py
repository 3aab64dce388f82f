"""Conditions on attributes: read by name, and asked of files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest
from smg_core.retrieval.filters import Comparison, Compound, FileFilter, read_filter

FILE = {"year": 2024, "kind": "manual", "draft": False}
VALUES = st.one_of(st.text(max_size=3), st.integers(-3, 3), st.floats(-3, 3), st.booleans())
ATTRIBUTES = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@pytest.mark.parametrize(
    ("type", "key", "value", "holds"),
    [
        ("eq", "year", 2024, True),
        ("eq", "year", "2024", False),
        ("eq", "draft", False, True),
        ("eq", "draft", 0, False),
        ("eq", "gone", 1, False),
        ("ne", "gone", 1, True),
        ("ne", "year", 2024, False),
        ("gt", "year", 2023.5, True),
        ("gte", "year", 2024, True),
        ("lt", "kind", "n", True),
        ("lte", "kind", "a", False),
        ("gt", "kind", 1, False),
        ("lt", "gone", 1, False),
        ("in", "kind", ["book", "manual"], True),
        ("in", "gone", ["book"], False),
        ("nin", "kind", ["book"], True),
        ("nin", "gone", ["book"], True),
    ],
)
def test_a_comparison_holds_as_the_api_says(type: str, key: str, value: Any, holds: bool) -> None:
    assert read_filter({"type": type, "key": key, "value": value}).holds(FILE) is holds


def test_compounds_are_of_all_or_of_any() -> None:
    one, other = {"type": "eq", "key": "year", "value": 2024}, {"type": "eq", "key": "kind", "value": "book"}
    assert not read_filter({"type": "and", "filters": [one, other]}).holds(FILE)
    assert read_filter({"type": "or", "filters": [other, {"type": "and", "filters": [one]}]}).holds(FILE)


DEEP: Any = {"type": "eq", "key": "a", "value": 1}
for _ in range(20):
    DEEP = {"type": "and", "filters": [DEEP]}


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ("eq", "filters"),
        ({}, "filters.type"),
        ({"type": "eq", "value": 1}, "filters.key"),
        ({"type": "eq", "key": "a"}, "filters.value"),
        ({"type": "eq", "key": "a", "value": [1]}, "filters.value"),
        ({"type": "gt", "key": "a", "value": True}, "filters.value"),
        ({"type": "in", "key": "a", "value": 1}, "filters.value"),
        ({"type": "in", "key": "a", "value": [{}]}, "filters.value[0]"),
        ({"type": "eq", "key": "a", "value": 1, "more": 1}, "filters.more"),
        ({"type": "or", "filters": [{"type": "eq", "key": "", "value": 1}]}, "filters.filters[0].key"),
        ({"type": "and", "filters": [{"type": "eq", "key": "a", "value": 1}] * 200}, "filters.filters"),
        (DEEP, "filters" + ".filters[0]" * 9),
    ],
)
def test_what_is_no_filter_is_refused_by_name(wrong: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_filter(wrong)
    assert refused.value.param == param


def filters() -> st.SearchStrategy[FileFilter]:
    ordered = st.one_of(st.text(max_size=3), st.integers(-3, 3))
    leaf = st.one_of(
        st.builds(Comparison, st.sampled_from(["eq", "ne"]), st.sampled_from("abc"), VALUES),
        st.builds(Comparison, st.sampled_from(["gt", "gte", "lt", "lte"]), st.sampled_from("abc"), ordered),
        st.builds(
            Comparison,
            st.sampled_from(["in", "nin"]),
            st.sampled_from("abc"),
            st.lists(VALUES, min_size=1, max_size=3).map(tuple),
        ),
    )
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            Compound, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=2).map(tuple)
        ),
        max_leaves=4,
    )


@given(filters(), ATTRIBUTES)
def test_every_filter_can_be_asked_of_every_file(asked: FileFilter, attributes: dict[str, Any]) -> None:
    assert asked.holds(attributes) in (True, False)


@given(st.sampled_from("abc"), VALUES, ATTRIBUTES)
def test_a_file_fulfils_a_comparison_or_its_opposite(key: str, value: Any, attributes: dict[str, Any]) -> None:
    assert Comparison("eq", key, value).holds(attributes) is not Comparison("ne", key, value).holds(attributes)
    assert Comparison("in", key, (value,)).holds(attributes) is not Comparison("nin", key, (value,)).holds(attributes)
