"""Structured output of the embedded engine: what it makes is valid, what it cannot follow it refuses."""

import json
import re
from math import isfinite
from random import Random

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.constraint import Constraint
from smg_simulator.answers.expressions import Unfollowable
from smg_simulator.answers.shapes import Shapes

SHAPES = Shapes()

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
    {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "minItems": 4},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3, "maxItems": 3},
    {"type": ["null", "string"], "minLength": 40, "maxLength": 42},
    {"type": "integer", "multipleOf": 7, "minimum": 50, "maximum": 60},
    {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"const": 5}}, "required": ["a"]}]},
    {"allOf": [{"properties": {"a": {"type": "boolean"}}}, {"required": ["a"]}], "type": "object"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "pattern": "^[A-Z]{3}-\\d{2,4}$"},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
    {
        "$defs": {"step": {"type": "object", "properties": {"explanation": {"type": "string"}}, "required": ["explanation"]}},
        "type": "object",
        "properties": {"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}}, "answer": {"type": "string"}},
        "required": ["steps", "answer"],
        "additionalProperties": False,
    },
    {
        "$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                           "required": ["next"]}},
        "$ref": "#/$defs/node",
    },
    {},
    {"type": "number", "maximum": -3},
]  # fmt: skip


@pytest.mark.sampled(per=("schema",), keep=2)
@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("seed", range(5))
def test_an_example_is_valid_for_its_schema(schema: dict, seed: int) -> None:
    text = SHAPES.text(Constraint("json_schema", json.dumps(schema)), Random(seed))

    jsonschema_rs.validate(schema, json.loads(text))


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"type": "object", "additionalProperties": True, "title": "any"}]
)
def test_json_mode_is_more_than_an_empty_object_where_any_object_will_do(schema: dict) -> None:
    for kind, value in (("json_schema", json.dumps(schema)), ("json_object", "")):
        made = json.loads(SHAPES.text(Constraint(kind, value), Random(1)) or "")
        assert made
        assert isinstance(made, dict)


@given(st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 3}, {"type": "boolean"}, {"enum": ["a", 1, None]}]),
    lambda inner: st.builds(lambda items: {"type": "array", "items": items, "minItems": 1}, inner)
    | st.dictionaries(st.text(min_size=1, max_size=4), inner, max_size=3).map(
        lambda properties: {"type": "object", "properties": properties, "required": list(properties)}
    ),
    max_leaves=8,
), st.integers())  # fmt: skip
def test_an_example_of_any_plain_schema_is_valid(schema: dict, seed: int) -> None:
    jsonschema_rs.validate(schema, SHAPES.example(schema, Random(seed)))


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "nonsense"}',
        "{not json",
        "false",
        '{"$ref": "#/nowhere"}',
        '{"$ref": "http://example.com/schema"}',
        '{"$ref": "#"}',
        '{"enum": []}',
        '{"type": "integer", "minimum": 5, "maximum": 4}',
        '{"type": "string", "minLength": 100000}',
        '{"type": "array", "minItems": 100000}',
        '{"anyOf": []}',
        "[]",
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused(schema: str) -> None:
    with pytest.raises(Unfollowable):
        SHAPES.text(Constraint("json_schema", schema), Random(1))


NUMBERS = st.sampled_from([0, 1, -1, 0.5, 41, 5e-324, 1e-300, -1e-300, 1e308, -1e308, 10**400, -(10**400)]) | st.floats(
    allow_nan=False, allow_infinity=False
)


@given(
    st.dictionaries(
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]), NUMBERS
    ),
    st.sampled_from(["number", "integer"]),
    st.integers(0, 3),
)
def test_any_bounds_of_a_number_give_one_or_a_refusal(bounds: dict[str, float], type: str, seed: int) -> None:
    try:
        text = SHAPES.text(Constraint("json_schema", json.dumps({"type": type, **bounds})), Random(seed))
    except Unfollowable:
        return
    assert isfinite(json.loads(text))


PATTERNS = [
    r"\d{3}-\d{4}",
    r"(foo|bar)+baz?",
    r"[^a-z0-9]{2,}",
    r"(?:a|b(?P<name>c|d))*",
    r"\w+@\w+\.(com|org)",
    r"^[A-Z][a-z]*$",
    r"[\]\-x]{5}",
    r"[]a]+",
    r"\x41\u0042\t.*?",
    r"a{,3}b{2}c{1,}",
    r"\{literal\}",
    r"x{y}",
    "",
]


@pytest.mark.sampled(per=("pattern",), keep=2)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(5))
def test_an_example_of_an_expression_matches_it(pattern: str, seed: int) -> None:
    text = SHAPES.text(Constraint("regex", pattern), Random(seed))

    assert re.fullmatch(pattern, text), text


@pytest.mark.parametrize(
    "pattern",
    [
        "([unclosed",
        "(a",
        "a)",
        "*a",
        "[z-a]",
        "a{3,1}",
        r"(?=a)",
        r"(a)\1",
        r"\p{L}",
        "a{99999}",
        "(" * 500,
        "((){9999}){9999}",
    ],
)
def test_an_expression_that_cannot_be_followed_is_refused(pattern: str) -> None:
    outcome = None
    try:
        outcome = SHAPES.text(Constraint("regex", pattern), Random(1))
    except Unfollowable:
        return
    pytest.fail(f"made {outcome!r}")


@given(st.text(alphabet="ab()[]{}*+?|\\^$.-,19dw ", max_size=20), st.integers(0, 3))
def test_any_expression_gives_a_match_or_a_refusal(pattern: str, seed: int) -> None:
    try:
        text = SHAPES.text(Constraint("regex", pattern), Random(seed))
    except Unfollowable:
        return
    assert len(text) <= 4096


def test_a_grammar_is_followed() -> None:
    grammar = """
        root ::= greeting " " name ("!" | "?")+
        greeting ::= "Hello" | "Good " [a-c]{2} | /x{2}/
        name ::= "Ada" | "Bo" "b"
    """
    for seed in range(20):
        text = SHAPES.text(Constraint("grammar", grammar), Random(seed))
        assert re.fullmatch(r"(Hello|Good [abc]{2}|xx) (Ada|Bob)[!?]+", text), text


def test_a_lark_grammar_begins_at_start() -> None:
    assert SHAPES.text(Constraint("grammar", 'word: "no"\nstart: "yes"'), Random(1)) == "yes"


@pytest.mark.parametrize("grammar", ["root ::= ", "", "root ::= missing", 'root ::= "a" root', 'root ::= "open'])
def test_a_grammar_that_cannot_be_followed_is_refused(grammar: str) -> None:
    with pytest.raises(Unfollowable, match="Grammar error"):
        SHAPES.text(Constraint("grammar", grammar), Random(1))


def test_a_choice_is_one_of_its_options() -> None:
    options = ("red", "green")

    said = {SHAPES.text(Constraint("choice", choices=options), Random(seed)) for seed in range(20)}

    assert said == set(options)
    with pytest.raises(Unfollowable):
        SHAPES.text(Constraint("choice"), Random(1))


def test_any_object_is_an_object() -> None:
    assert isinstance(json.loads(SHAPES.text(Constraint("json_object"), Random(1))), dict)
    with pytest.raises(Unfollowable):
        SHAPES.text(Constraint("haiku"), Random(1))


def tag(layout: dict, seed: int = 1) -> str | None:
    return SHAPES.text(
        Constraint("structural_tag", json.dumps({"type": "structural_tag", "format": layout})), Random(seed)
    )


CALL = {
    "type": "tag",
    "begin": '<tool_call>\n{"name": "f", "arguments": ',
    "content": {"type": "json_schema", "json_schema": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    "end": ["}\n</tool_call>"],
}


@pytest.mark.parametrize("kind", ["tags_with_separator", "triggered_tags"])
def test_a_forced_call_is_made(kind: str) -> None:
    layout = {
        "type": "sequence",
        "elements": [
            {
                "type": "optional",
                "content": {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "x"},
            },
            {"type": "regex", "pattern": "\\n{0,3}"},
            {"type": kind, "tags": [CALL], "separator": "\n", "at_least_one": True},
        ],
    }

    text = tag(layout).strip().removeprefix("<tool_call>").removesuffix("</tool_call>")

    call = json.loads(text)
    assert call["name"] == "f"
    assert isinstance(call["arguments"]["x"], int)


@pytest.mark.parametrize(
    ("layout", "pattern"),
    [
        ({"type": "const_string", "value": "yes"}, "yes"),
        ({"type": "or", "elements": [{"type": "const_string", "value": each} for each in "ab"]}, "[ab]"),
        (
            {
                "type": "sequence",
                "elements": [
                    {"type": "star", "content": {"type": "const_string", "value": "a"}},
                    {"type": "tags_with_separator", "tags": [CALL], "separator": ","},
                    {"type": "const_string", "value": "."},
                    {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": [CALL]},
                ],
            },
            r"\.[a-z ]+",
        ),
        ({"type": "plus", "content": {"type": "const_string", "value": "a"}}, "a+"),
        ({"type": "repeat", "min": 2, "max": 3, "content": {"type": "const_string", "value": "a"}}, "a{2,3}"),
        ({"type": "grammar", "grammar": 'root ::= "x" | "y"'}, "[xy]"),
        ({"type": "any_text"}, ".+"),
    ],
)
def test_a_tag_of_any_format_is_kept(layout: dict, pattern: str) -> None:
    assert re.fullmatch(pattern, tag(layout))


def test_a_tag_that_waits_for_a_trigger_leaves_the_text_free() -> None:
    assert SHAPES.text(Constraint("structural_tag", '{"structures": [], "triggers": ["<f"]}'), Random(1)) is None
    assert tag({"type": "star", "content": {"type": "const_string", "value": "a"}}) is None
    waits = {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": [CALL]}
    assert tag(waits) is None
    thought = {"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "</think>"}
    assert tag({"type": "sequence", "elements": [thought, waits]}) is None


@pytest.mark.parametrize(
    "value",
    ["[]", '{"x": 1}', '{"format": 5}', '{"format": {"type": "sonnet"}}', '{"format": {"type": "sequence"}}', "{"],
)
def test_what_is_no_tag_is_refused(value: str) -> None:
    with pytest.raises(Unfollowable, match="Invalid"):
        SHAPES.text(Constraint("structural_tag", value), Random(1))


def test_a_small_schema_of_nested_unions_is_given_up() -> None:
    schema: dict[str, object] = {"type": "string", "minLength": 5, "maxLength": 1}
    for _ in range(30):
        schema = {"anyOf": [schema, schema]}

    with pytest.raises(Unfollowable):
        Shapes().example(schema, Random(1))
