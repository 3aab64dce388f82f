"""Response formats: the engine's constraint, and what the finished answer is held to."""

import pytest

from smg_core.engines.constraint import Constraint
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.pipeline.prompt.formats import constraint_of, output_check
from smg_core.request import (
    ChoiceFormat,
    GrammarFormat,
    JsonFormat,
    RegexFormat,
    ResponseFormat,
    SchemaFormat,
    StructuralTagFormat,
    TextFormat,
)

ALL = frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"})
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("asked", "constraint"),
    [
        (TextFormat(), None),
        (JsonFormat(), Constraint("json_object")),
        (SchemaFormat({"type": "object"}), Constraint("json_schema", '{"type":"object"}')),
        (RegexFormat("a+"), Constraint("regex", "a+")),
        (GrammarFormat("root ::= 'a'"), Constraint("grammar", "root ::= 'a'")),
        (ChoiceFormat(("yes", "no")), Constraint("choice", choices=("yes", "no"))),
        (StructuralTagFormat("{}"), Constraint("structural_tag", "{}")),
    ],
)
def test_each_format_has_its_constraint(asked: ResponseFormat, constraint: Constraint | None) -> None:
    assert constraint_of(asked, ALL) == constraint


def test_a_format_the_engine_cannot_hold_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedParameter, match="regex") as caught:
        constraint_of(RegexFormat("a"), frozenset({"json_object"}))

    assert caught.value.param == "response_format"


@pytest.mark.parametrize(
    ("text", "fault"),
    [('{"x": 3}', None), ('{"x": "3"}', "integer"), ('{"x": 3, "y": 1}', "y"), ("{", "not JSON"), ("", "not JSON")],
)
def test_a_finished_answer_is_held_to_its_schema(text: str, fault: str | None) -> None:
    check = output_check(SchemaFormat(POINT))
    assert check is not None
    found = check(text)

    assert (found is None) == (fault is None)
    assert fault is None or (found is not None and fault in found)


@pytest.mark.parametrize(("text", "fine"), [("{}", True), ("[]", False), ("nope", False)])
def test_json_object_means_an_object(text: str, fine: bool) -> None:
    check = output_check(JsonFormat())

    assert check is not None
    assert (check(text) is None) == fine


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"properties": {"a": {"$ref": "#/$defs/nowhere"}}},
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"$ref": "file:///etc/passwd"},
    ],
)
def test_a_schema_that_is_none_is_the_clients_error_and_nothing_is_fetched(schema: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="Invalid schema") as caught:
        output_check(SchemaFormat(schema))

    assert caught.value.param == "response_format.schema"


def test_a_pattern_that_would_backtrack_for_ever_does_not() -> None:
    check = output_check(SchemaFormat({"type": "string", "pattern": "^(a+)+$"}))

    assert check is not None
    assert check('"' + "a" * 5000 + '!"') is not None


@pytest.mark.parametrize("asked", [TextFormat(), RegexFormat("a"), ChoiceFormat(("a",))])
def test_other_formats_are_the_engines_to_keep(asked: ResponseFormat) -> None:
    assert output_check(asked) is None
