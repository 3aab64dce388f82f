"""Steps of holding a value to a schema are counted without doing them."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.pipeline.prompt.formats import output_check
from smg_core.pipeline.prompt.schema_work import over_steps
from smg_core.request import SchemaFormat

VALUES = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
)
TREE = {
    "type": "object",
    "properties": {"a": {"$ref": "#"}, "b": {"items": {"$ref": "#/$defs/leaf"}}},
    "$defs": {"leaf": {}},
}


def doubling(levels: int) -> dict[str, Any]:
    """A schema with two to the power of `levels` ways to its last part."""
    steps = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(levels)}
    return {"$defs": {**steps, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(("levels", "over"), [(3, False), (30, True)])
def test_ways_through_alternatives_are_counted(levels: int, over: bool) -> None:
    assert over_steps(doubling(levels), 1, 1000) is over


@pytest.mark.full
def test_a_schema_that_refers_to_itself_without_going_deeper_is_over_every_bound() -> None:
    assert over_steps({"$ref": "#"}, 1, 100_000)
    assert over_steps({"allOf": [{"$ref": "#"}]}, {}, 100_000)


def test_ways_that_double_with_each_level_of_the_value_are_counted() -> None:
    schema = {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}
    value: Any = 1
    for _ in range(40):
        value = {"a": value}

    assert over_steps(schema, value, 20_000)
    assert not over_steps(schema, {"a": {"a": 1}}, 100)


@given(VALUES)
def test_an_ordinary_value_takes_steps_by_its_size(value: Any) -> None:
    def size(one: Any) -> int:
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        return 1 + sum(map(size, inner))

    assert jsonschema_rs.is_valid({"type": "object"}, {})
    assert not over_steps(TREE, value, 10 * size(value) + 10)


def test_an_answer_whose_check_would_not_end_is_not_checked_and_others_are() -> None:
    endless, ordinary = output_check(SchemaFormat(doubling(40))), output_check(SchemaFormat(doubling(3)))
    assert endless is not None
    assert ordinary is not None

    assert endless("1") is None
    assert ordinary("1") is not None
    assert ordinary('"x"') is None


def test_an_answer_that_is_nested_too_deeply_to_be_read_is_no_json_of_the_format() -> None:
    check = output_check(SchemaFormat({"type": "array"}))
    assert check is not None

    assert check("[" * 100_000 + "]" * 100_000) is not None
