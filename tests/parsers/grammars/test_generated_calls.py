"""Calls that hypothesis invents, written the way each family writes them and read back by the parser, whole and in pieces."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.parsers.writers import WRITERS, Call

from smg_parsers import CallArguments, CallEnd, CallStart, Parser, Reasoning, Text

pytestmark = pytest.mark.sampled(keep=12)

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,12}", fullmatch=True)
KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda key: key not in {"None", "True", "False", "item"}
)
PROSE = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="<[{`|]}>◁"), max_size=20)
MARKS = [
    "<tool_call>", "</tool_call>", "<think>", "</think>", "[TOOL_CALLS]", "[/THINK]", "</parameter>", "<|call|>", '"}', "'",
    '"', "\\", "\n", "```", "}]", ")]", "</function>", "\\u00e9", "&amp;", "<|", "{", "[f(x=1)]", "]<]minimax[>", "</arg_value",
    "<escape",
]  # fmt: skip


def words(form: Any) -> st.SearchStrategy[str]:
    """Strings with quotes, newlines and markers in them; a raw value cannot hold what ends it or its call."""
    mixed = st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=6)), max_size=4).map("".join)
    clean = mixed.filter(lambda word: not any(0xD800 <= ord(char) <= 0xDFFF for char in word))
    if form.value_end is None:
        return clean
    return clean.filter(
        lambda word: form.value_end not in word and "</function></tool_call>" not in "".join(word.split())
    )


def values(form: Any) -> st.SearchStrategy[Any]:
    """JSON values as deep as the family can write them without losing a type."""
    numbers = st.one_of(st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False, width=64))
    scalars = st.one_of(words(form), numbers, st.booleans(), st.none())
    if form.value_kind == "nested":
        leaves = st.one_of(words(form), numbers, st.booleans())
        lists = st.one_of(
            st.lists(words(form), min_size=1, max_size=3), st.lists(st.integers(), min_size=1, max_size=3)
        )
        return st.one_of(leaves, lists, st.dictionaries(KEYS, st.one_of(leaves, lists), min_size=1, max_size=3))
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
        max_leaves=6,
    )


def schema_of(value: Any) -> dict[str, Any]:
    """The schema that gives a bare value back its type."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(part) for key, part in value.items()}}
    if isinstance(value, list):
        kinds = [schema_of(part) for part in value]
        return {"type": "array"} | ({"items": kinds[0]} if kinds and all(kind == kinds[0] for kind in kinds) else {})
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    return {"type": names.get(type(value), "null")}


def _before_a_call(said: str) -> bool:
    """Whether a call without a wrapper can follow on the same line: behind these it is one that prose speaks of."""
    return not said.endswith((*"`'\"“‘«([{=", *" \t\r\f\v"))


@st.composite
def turns(draw: st.DrawFn, form: Any) -> tuple[list[Any], list[dict[str, Any]], str | None, str]:
    """Calls with their tools, a thought where the family has one, and an answer."""
    wanted = draw(
        st.lists(
            st.tuples(NAMES, st.dictionaries(KEYS, values(form), max_size=4)),
            min_size=1,
            max_size=3,
            unique_by=lambda call: call[0],
        )
    )
    wanted = wanted if form.parallel else wanted[:1]
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {key: schema_of(value) for key, value in arguments.items()},
                },
            },
        }
        for name, arguments in wanted
    ]
    thought = draw(PROSE) if form.think is not None and draw(st.booleans()) else None
    answer = "" if form.alone else draw(PROSE.filter(_before_a_call) if form.family == "minicpm5" else PROSE)
    return [Call(name, arguments) for name, arguments in wanted], tools, thought, answer


def read(
    form: Any, tools: list[dict[str, Any]], thought: str | None, chunks: list[str]
) -> tuple[str, str, list[tuple[str, str]]]:
    """Reasoning, text and calls (name, arguments as JSON text) that the parser finds in the chunks."""
    parser = Parser.for_family(form.family, tools=tools, in_reasoning=form.opened and thought is not None)
    reasoning, text = "", ""
    calls: list[list[str]] = []
    for piece in [*(piece for chunk in chunks for piece in parser.feed(chunk)), *parser.finish()]:
        match piece:
            case Reasoning():
                reasoning += piece.text
            case Text():
                text += piece.text
            case CallStart():
                assert piece.index == len(calls), "indices run from 0 without a gap"
                calls.append([piece.name, ""])
            case CallArguments():
                calls[piece.index][1] += piece.delta
            case CallEnd():
                json.loads(calls[piece.index][1])
    return reasoning, text, [(name, arguments) for name, arguments in calls]


def cut(whole: str, places: list[int]) -> list[str]:
    """``whole`` cut at the places that lie inside it."""
    edges = [0, *sorted({place % (len(whole) + 1) for place in places}), len(whole)]
    return [whole[start:stop] for start, stop in pairwise(edges)]


@pytest.mark.parametrize("family", sorted(WRITERS))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_calls_written_by_a_family_are_read_back_the_same_however_they_are_cut(
    family: str, data: st.DataObject
) -> None:
    form = WRITERS[family]
    made, tools, thought, answer = data.draw(turns(form))
    whole = form(made, thought, answer)
    places = data.draw(st.lists(st.integers(0, 10_000), max_size=8))

    reasoning, text, calls = read(form, tools, thought, [whole])

    assert [(name, json.loads(arguments)) for name, arguments in calls] == [
        (call.name, call.arguments) for call in made
    ]
    assert reasoning.strip() == (thought or "").strip()
    assert text.strip() == answer.strip()
    assert read(form, tools, thought, cut(whole, places)) == (reasoning, text, calls)


@pytest.mark.parametrize("family", sorted(name for name, form in WRITERS.items() if not form.sorted_keys))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_arguments_keep_the_order_in_which_the_model_wrote_them(family: str, data: st.DataObject) -> None:
    form = WRITERS[family]
    keys = data.draw(st.permutations(["zeta", "alpha", "mid"]))
    call = Call("order", {key: f"v{number}" for number, key in enumerate(keys)})
    tools = [
        {
            "type": "function",
            "function": {
                "name": "order",
                "parameters": {"type": "object", "properties": {key: {"type": "string"} for key in keys}},
            },
        }
    ]

    _, _, calls = read(form, tools, None, [form([call], None, "")])

    assert [list(json.loads(arguments)) for _, arguments in calls] == [list(keys)]


@pytest.mark.parametrize("family", sorted(WRITERS))
def test_a_member_may_have_a_name_that_begins_with_the_arguments(family: str) -> None:
    form = WRITERS[family]
    arguments = {"a": {"a0": "x", "b": {"b1": "y"}, "a1": {"a11": "z"}}}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "object"}}}}
    whole = form([Call("f", arguments)], None, "")

    for chunks in ([whole], list(whole)):
        _, _, ((name, written),) = read(form, [{"type": "function", "function": tool}], None, chunks)
        assert (name, json.loads(written)) == ("f", arguments), whole
