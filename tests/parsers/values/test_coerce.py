"""What a text becomes under a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_parsers.json_text.partial_json import JsonScanner
from smg_parsers.values.coerce import coerce, coerce_json, partial, property_schema, types_of, unquoted

DEFS = {"$defs": {"Place": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}, "Count": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("4", {"type": "string"}, "4"),
        ("true", {"type": "string"}, "true"),
        ("[60, 30]", {"type": "string"}, "[60, 30]"),
        ('"quoted"', {"type": "string"}, '"quoted"'),
        ("  kept  ", {"type": "string"}, "  kept  "),
        (" 42 ", {"type": "integer"}, 42),
        ("+7", {"type": "integer"}, 7),
        ("007", {"type": "integer"}, 7),
        ("5.0", {"type": "integer"}, 5),
        ("5.5", {"type": "integer"}, "5.5"),
        ("123456789012345678901234567890", {"type": "integer"}, 123456789012345678901234567890),
        ("1.50", {"type": "number"}, 1.5),
        (".5", {"type": "number"}, 0.5),
        ("-1e3", {"type": "number"}, -1000.0),
        ("nan", {"type": "number"}, "nan"),
        ("True", {"type": "boolean"}, True),
        ("FALSE", {"type": "boolean"}, False),
        ("yes", {"type": "boolean"}, "yes"),
        ("null", {"type": ["string", "null"]}, None),
        ("null", {"type": "string"}, "null"),
        ("none at all", {"type": ["string", "null"]}, "none at all"),
        ("None", {"type": "integer", "nullable": True}, None),
        ('{"a": [1, 2]}', {"type": "object"}, {"a": [1, 2]}),
        ("{'a': None, 'b': True}", {"type": "object"}, {"a": None, "b": True}),
        ("[1, 'x']", {"type": "array"}, [1, "x"]),
        ("[1, 2", {"type": "array"}, "[1, 2"),
        ("12", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, 12),
        ("twelve", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "twelve"),
        ("12", {"oneOf": [{"$ref": "#/$defs/Count"}, {"type": "null"}]}, 12),
        ('{"x": 1}', {"$ref": "#/$defs/Place"}, {"x": 1}),
        ("3", {"$ref": "#/$defs/Loop"}, 3),
        ("3", {"enum": ["1", "2", "3"]}, "3"),
        ("3", {"enum": [1, 2, 3]}, 3),
        ("3", {"const": "3"}, "3"),
        ("3", {}, 3),
        ("true", {}, True),
        ("None", {}, None),
        ("word", {}, "word"),
        ('"word"', {}, '"word"'),
        ("[1, 2]", {}, [1, 2]),
        ("[see below]", {}, "[see below]"),
        ("", {"type": "string"}, ""),
        ("", {"type": "integer"}, ""),
    ],
)
def test_a_text_becomes_what_its_schema_asks_for(text: str, schema: dict[str, Any], value: Any) -> None:
    got = json.loads(coerce(text, schema, DEFS))
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("5", {"type": "string"}, "5"),
        ('"5"', {"type": "integer"}, 5),
        ("5.0", {"type": "integer"}, 5),
        ("5", {"type": "number"}, 5),
        ('"x"', {"type": "integer"}, "x"),
        ("true", {"type": "string"}, "true"),
        ("[1]", {"type": "string"}, [1]),
        ("null", {"type": ["string", "null"]}, None),
    ],
)
def test_a_literal_is_changed_only_where_the_schema_admits_another_type(value: str, schema: Any, expected: Any) -> None:
    assert json.loads(coerce_json(value, schema, DEFS)) == expected


def test_properties_are_found_through_references_and_unions() -> None:
    root = {"$ref": "#/$defs/Args", "$defs": {"Args": {"allOf": [{"properties": {"n": {"type": "integer"}}}]}}}
    assert property_schema(root, "n") == {"type": "integer"}
    assert property_schema({"additionalProperties": {"type": "boolean"}}, "other") == {"type": "boolean"}
    assert property_schema({"properties": {"n": True}}, "n") == {}


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert types_of({"$ref": "#/$defs/Loop"}, DEFS) == frozenset()
    assert types_of({"$ref": "#/$defs/Missing"}, DEFS) == frozenset()


UNIONS = (
    {"type": ["string", "integer"]},
    {"type": ["integer", "null", "string"]},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    {"oneOf": [{"$ref": "#/$defs/Count"}, {"type": "string"}]},
    {"enum": ["all", 1]},
)


@pytest.mark.sampled(per=("code",))
@pytest.mark.parametrize("number", ["integer", "number"])
@pytest.mark.parametrize("union", UNIONS)
@pytest.mark.parametrize(
    "code", ["02139", "007", "-01", "+4930", "1_000", "0x10", "12.", ".5", "1e999", "-1e999", "NaN", "1 2", "٣"]
)
def test_a_code_stays_a_text_where_a_text_may_stand(code: str, union: dict[str, Any], number: str) -> None:
    schema = json.loads(json.dumps(union).replace('"integer"', f'"{number}"'))
    assert json.loads(coerce(code, schema, DEFS)) == code


@pytest.mark.parametrize("union", UNIONS)
@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), (" 12 ", 12), ("0", 0), ("-7", -7), ("9" * 400, int("9" * 400)), ("1.0", "1.0")]
)
def test_a_number_as_json_writes_it_is_a_number_though_a_text_may_stand_there(
    text: str, value: Any, union: dict[str, Any]
) -> None:
    assert json.loads(coerce(text, union, DEFS)) == value


def test_a_number_keeps_its_digits_where_a_text_may_stand() -> None:
    assert coerce("1.50", {"type": ["number", "string"]}, {}) == "1.50"
    assert coerce("1e400", {}, {}) == '"1e400"'
    assert coerce("1e400", {"type": "number"}, {}) == "1e400"


@given(st.text("0123456789.eE+-_x ", min_size=1, max_size=12), st.sampled_from(["integer", "number"]))
def test_a_text_that_may_be_a_number_loses_nothing(text: str, number: str) -> None:
    written = coerce(text, {"type": ["string", number]}, {})
    assert written in (text.strip(), json.dumps(text))


@given(
    st.text(max_size=40), st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null", "odd"])
)
def test_every_text_becomes_json_under_every_type(text: str, kind: str) -> None:
    json.loads(coerce(text, {"type": kind}, {}))
    json.loads(coerce(text, {}, {}))


BRACKETED = (
    *("[a-z]", "[0-9]", "[WIP]", "[2024-01-15]", "[x]", "{ color: red }", "{id: int}", "[1,]", "[10.0.0.1]", "[nan]"),
    *("{user: me, // c\n}", "[https://x.y/z\n]", "['a' 'b']", "{'a': None}", "[+1]", "[007]", "{a}", "[True]"),
)


BESIDE_TEXT: list[dict[str, Any]] = [
    {},
    {"description": "anything"},
    {"type": ["string", "array"]},
    {"type": ["string", "object", "array"]},
    {"anyOf": [{"type": "string"}, {"type": "object"}]},
    {"oneOf": [{"type": "array"}, {"$ref": "#/$defs/Words"}]},
]
WORDS = {"$defs": {"Words": {"type": "string"}}}


@pytest.mark.sampled(per=("text",))
@pytest.mark.parametrize("text", BRACKETED)
@pytest.mark.parametrize("schema", BESIDE_TEXT)
def test_where_a_text_may_stand_what_stands_in_brackets_is_a_list_or_an_object_only_as_json_writes_it(
    text: str, schema: dict[str, Any]
) -> None:
    assert json.loads(coerce(text, schema, WORDS)) == text


@given(st.recursive(st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_json_in_brackets_is_what_it_says_beside_a_text_too(value: Any) -> None:
    for schema in ({}, {"type": ["string", "array"]}):
        assert json.loads(coerce(json.dumps([value]), schema, {})) == [value]


@pytest.mark.sampled(per=("text",))
@pytest.mark.parametrize("text", BRACKETED)
@pytest.mark.parametrize("schema", BESIDE_TEXT)
def test_what_is_cut_off_is_the_beginning_of_a_text_as_soon_as_it_is_no_beginning_of_json(
    text: str, schema: dict[str, Any]
) -> None:
    for size in range(1, len(text) + 1):
        cut, scanner = text[:size], JsonScanner()
        scanner.scan(cut, 0)
        written = partial(cut, schema, WORDS)
        assert written == cut.strip() or json.loads(written + '"') == cut
        if scanner.bad:
            assert written.startswith('"')


@given(
    st.recursive(
        st.integers(0, 99) | st.text("a\\ü", max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    ),
    st.integers(1, 60),
)
def test_json_in_brackets_that_is_cut_off_is_the_beginning_of_it_beside_a_text_too(value: Any, size: int) -> None:
    cut = json.dumps([value])[:size]
    for schema in ({}, {"type": ["string", "array"]}, {"type": "array"}):
        assert partial(cut, schema, {}) == cut.strip()


@pytest.mark.parametrize("cut", ["[1", '{"a": 1', "[", "{x"])
def test_what_is_cut_off_in_brackets_is_the_beginning_of_a_text_where_no_list_and_no_object_may_stand(cut: str) -> None:
    for schema in ({"type": "integer"}, {"type": ["string", "integer"]}, {"type": "string"}):
        assert json.loads(partial(cut, schema, {}) + '"') == cut


def test_a_string_that_is_written_as_json_with_raw_line_breaks_is_one() -> None:
    assert unquoted('"one\ntwo\t\\u00e9"') == "one\ntwo\té"
