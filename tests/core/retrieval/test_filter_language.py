"""Filters in the language of Google's APIs are read as those of OpenAI's, or refused by their place."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.errors import InvalidRequest
from smg_core.retrieval.filter_language import read_filter_text
from smg_core.retrieval.filters import read_filter

AT = "tools[0].fileSearch.metadataFilter"


def compared(key: str, type: str, value: Any) -> dict[str, Any]:
    return {"type": type, "key": key, "value": value}


A, B, C = (compared(each, "eq", 1) for each in "abc")


def all_of(*filters: Any) -> dict[str, Any]:
    return {"type": "and", "filters": [*filters]}


def any_of(*filters: Any) -> dict[str, Any]:
    return {"type": "or", "filters": [*filters]}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('author = "Robert Graves"', compared("author", "eq", "Robert Graves")),
        ("author='I, \"Claudius\"'", compared("author", "eq", 'I, "Claudius"')),
        (r'a = "say \"x\" \\ y"', compared("a", "eq", r'say "x" \ y')),
        ("year>=1934", compared("year", "gte", 1934)),
        ("year < -1.5e3", compared("year", "lt", -1500.0)),
        ("year : 7", compared("year", "eq", 7)),
        ("draft != true", compared("draft", "ne", True)),
        ("kind = notes", compared("kind", "eq", "notes")),
        ('"odd key" = 1', compared("odd key", "eq", 1)),
        ("a = 2024-05", compared("a", "eq", "2024-05")),
        ('when > "2024-05-01"', compared("when", "gt", "2024-05-01")),
        ("a=1 AND b=1", all_of(A, B)),
        ("a=1 b=1", all_of(A, B)),
        ("a=1 AND b=1 AND c=1", all_of(A, B, C)),
        ("a=1 AND b=1 OR c=1", all_of(A, any_of(B, C))),  # OR binds more closely
        ("(a=1 AND b=1) OR c=1", any_of(all_of(A, B), C)),
        ("NOT a=1", compared("a", "ne", 1)),
        ("-a=1", compared("a", "ne", 1)),
        ("NOT NOT a=1", A),
        ("NOT (a=1 OR b > 2)", all_of(compared("a", "ne", 1), compared("b", "lte", 2))),
        ("((a=1))", A),
        ("a=1\n\tOR b=1 ", any_of(A, B)),
        ("é = ü", compared("é", "eq", "ü")),
        ("", None),
        ("  \n", None),
    ],
)
def test_what_the_language_says_is_the_same_filter(text: str, read: Any) -> None:
    assert read_filter_text(text, AT) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "a comparison is expected"),
        ('"prose of no field"', "a comparison is expected"),
        ("a =", "something is missing"),
        ("a = AND b = 1", "a value is expected"),
        ("= 1", "name of an attribute"),
        ("a = 1 AND", "something is missing"),
        ("OR a = 1", "name of an attribute"),
        ("(a = 1", "not closed, at character 1"),
        ("a = 1)", "not expected, at character 6"),
        ("a == 1", "a value is expected"),
        ('a = "open', "cannot be read, at character 4"),
        ("a = regex(b)", "functions are not supported"),
        ('a = "*.txt"', "wildcards are not supported"),
        ("a:*", "wildcards are not supported"),
        ("a > true", "neither less nor greater"),
        ("a = (1, 2)", "a value is expected"),
        ("a ! b", "cannot be read"),
        ("(" * 9 + "a=1" + ")" * 9, "at most 8 deep"),
        ("(" * 4000, "at most 8 deep"),
        ("x" * 65 + " = 1", "1 to 64 characters"),
        (f'a = "{"x" * 513}"', "at most 512 characters"),
        ("a=1 " * 3000, "at most 8,192 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(text: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=r"tools\[0\]") as refused:
        read_filter_text(text, AT)
    assert why in refused.value.message
    assert refused.value.param == AT


PIECES = st.sampled_from(
    [
        "a",
        "b",
        "=",
        "!=",
        "<",
        ">=",
        ":",
        "AND",
        "OR",
        "NOT",
        "-",
        "(",
        ")",
        '"x"',
        "'",
        '"',
        "1",
        "-2.5",
        " ",
        "*",
        ",",
        "\\",
    ]
)


@pytest.mark.full
@settings(max_examples=examples(300))
@given(
    st.one_of(
        st.text(max_size=60), st.lists(PIECES, max_size=30).map(" ".join), st.lists(PIECES, max_size=30).map("".join)
    )
)
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        found = read_filter_text(text, AT)
    except InvalidRequest as error:
        found = None if error.param == AT else pytest.fail(str(error))
        return
    if found is None:
        assert not text.strip(" \t\r\n")
    else:
        read_filter(found).holds({"a": 1, "b": "x"})


KEYS, VALUES = st.sampled_from(["a", "b"]), st.one_of(st.integers(-3, 3), st.sampled_from(["x", "y z", 'q"\\']))
LEAVES = st.builds(compared, KEYS, st.sampled_from(["eq", "ne", "lt", "lte", "gt", "gte"]), VALUES)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda kind, parts: {"type": kind, "filters": parts},
        st.sampled_from(["and", "or"]),
        st.lists(inner, min_size=2, max_size=3),
    ),
    max_leaves=6,
)
SIGNS = {"eq": "=", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def written(tree: Any) -> str:
    if "filters" in tree:
        return "(" + f" {tree['type'].upper()} ".join(map(written, tree["filters"])) + ")"
    value = tree["value"]
    if isinstance(value, str):
        value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{tree['key']} {SIGNS[tree['type']]} {value}"


@pytest.mark.full
@settings(max_examples=examples(200))
@given(TREES, st.dictionaries(KEYS, VALUES))
def test_a_filter_that_is_written_in_the_language_holds_for_the_same_files(tree: Any, file: dict[str, Any]) -> None:
    text = written(tree)
    found = read_filter_text(text, AT)
    assert found is not None
    assert read_filter(found).holds(file) is read_filter(tree).holds(file)
    denied = read_filter_text(f"NOT {text}", AT)
    assert denied is not None
    if set(file) == {"a", "b"} and all(_comparable(each, file) for each in _leaves(tree)):
        assert read_filter(denied).holds(file) is not read_filter(tree).holds(file)


def _leaves(tree: Any) -> list[Any]:
    return [leaf for each in tree.get("filters", ()) for leaf in _leaves(each)] or [tree]


def _comparable(leaf: Any, file: dict[str, Any]) -> bool:
    return leaf["type"] in ("eq", "ne") or isinstance(leaf["value"], str) is isinstance(file[leaf["key"]], str)
