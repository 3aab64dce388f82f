"""An argument that a model writes twice is read once: the first value is kept, where arguments are written one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.parsers.splits import cuts, fixed_ids, outline, run

from smg_parsers import CallArguments, CallEnd, MalformedCall, Parser, Piece
from smg_parsers.constraints.shapes import SHAPES
from smg_parsers.lab import transcripts

pytestmark = pytest.mark.sampled(keep=24)

ONE_BY_ONE = sorted(name for name, shape in SHAPES.items() if shape.body.open is not None and name != "sarashina")
"""Sarashina writes its arguments as one literal, which is read like JSON."""
TOOL = {
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "where": {"type": "object"}},
    },
}


def call(family: str, *arguments: tuple[str, str | int]) -> str:
    """A call as the family writes it, with these arguments in this order."""
    shape = SHAPES[family]
    inner = shape.body.between.join(transcripts.calls_argument(shape.body, key, value) for key, value in arguments)
    begin = shape.begin.replace("{name}", "get_weather").replace("{n}", "0")
    return f"{shape.outer[0]}{begin}{inner}{shape.end}{shape.outer[1]}"


def parse(family: str, text: str, tools: Any = (TOOL,), **options: Any) -> list[Piece]:
    """The pieces of a text, found the same at every split."""
    results = [
        run(Parser.for_family(family, tools=tools, in_reasoning=False, call_id=fixed_ids(), **options), chunks)
        for chunks in cuts(text, random_cuts=5)
    ]
    assert all(result == results[0] for result in results)
    return results[0]


def members(pieces: list[Piece]) -> list[tuple[str, Any]]:
    """Names and values of the arguments as they are written, repeated ones too."""
    written = "".join(piece.delta for piece in pieces if isinstance(piece, CallArguments))
    return json.loads(written, object_pairs_hook=list)


BY_KNOWN_NAMES = ("gemma3", "llama4", "pythonic")
"""Families in which only a known tool's name begins a call."""


def test_many_formats_write_arguments_one_by_one() -> None:
    assert len(ONE_BY_ONE) > 25


@pytest.mark.parametrize(
    ("family", "tools"),
    [(family, (TOOL,)) for family in ONE_BY_ONE]
    + [(family, None) for family in ONE_BY_ONE if family not in BY_KNOWN_NAMES],
)
def test_the_first_value_is_kept_and_the_call_is_marked(family: str, tools: Any) -> None:
    text = call(family, ("city", "Paris"), ("days", 2), ("city", "Oslo"), ("days", 3), ("city", "Rome"))
    found = parse(family, text, tools)
    assert members(found) == [("city", "Paris"), ("days", 2)]
    assert [piece.repaired for piece in found if isinstance(piece, CallEnd)] == [True]
    assert len(outline(found)) == 1


@pytest.mark.parametrize("family", ONE_BY_ONE)
def test_arguments_behind_a_repeated_one_are_read(family: str) -> None:
    found = parse(family, call(family, ("city", "Paris"), ("city", "Oslo"), ("days", 3)))
    assert members(found) == [("city", "Paris"), ("days", 3)]


@pytest.mark.parametrize("family", ONE_BY_ONE)
def test_another_call_may_have_the_same_arguments(family: str) -> None:
    one = call(family, ("city", "Paris"))
    ends = [piece for piece in parse(family, one) if isinstance(piece, CallEnd)]
    assert ends == [CallEnd(0)]


@pytest.mark.parametrize("family", ONE_BY_ONE)
def test_the_policy_for_malformed_calls_decides(family: str) -> None:
    text = call(family, ("city", "Paris"), ("days", 2), ("city", "Oslo"))
    found = parse(family, text, malformed_calls="text")
    assert not any(isinstance(piece, CallEnd) for piece in found)
    assert "Oslo" in "".join(getattr(piece, "text", "") for piece in found)
    for chunks in cuts(text, random_cuts=2):
        parser = Parser.for_family(family, tools=[TOOL], in_reasoning=False, malformed_calls="error")
        with pytest.raises(MalformedCall, match="'get_weather'"):
            run(parser, chunks)


@pytest.mark.parametrize("family", ONE_BY_ONE)
def test_output_that_ends_within_a_repeated_value_leaves_valid_beginnings(family: str) -> None:
    text = call(family, ("city", "Paris"), ("city", "Oslo"))
    for size in range(text.rindex("Oslo"), text.rindex("Oslo") + 4):
        found = parse(family, text[:size])
        written = "".join(piece.delta for piece in found if isinstance(piece, CallArguments))
        assert written == '{"city":"Paris"'
