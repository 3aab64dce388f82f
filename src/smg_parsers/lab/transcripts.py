"""Makes transcripts for a family from its row; the lab uses them when the user gives none.

Decides: what a plausible output of a family looks like: reasoning where there is some, a sentence, calls as the family writes
them, and its markers in the wrong places.
Above: the command line. Below: `family`, `shapes`.
Does not know: real model output; the tests' corpus does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from smg_parsers.constraints.shapes import SHAPES, Body, Shape
from smg_parsers.families.family import Family

TOOLS: Final[tuple[Mapping[str, object], ...]] = (
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    },
)
"""The tools that the transcripts call; a parser that reads them has to be told of these."""
CALLS: Final[tuple[tuple[str, Mapping[str, str | int]], ...]] = (
    ("get_weather", {"city": "Paris", "days": 2}),
    ("get_weather", {"city": "Oslo, the capital", "days": 10}),
)
"""The calls in them, in order: name and arguments."""


def of(family: Family) -> list[str]:
    """Texts that touch every marker of the family: whole, cut off, in the wrong place, and next to one another."""
    thinking = family.thinking
    markers = sorted({*family.tables.roles, *family.tables.calls})
    texts = ["Just a sentence, with <angle> brackets, [square] ones, {curly} ones and a\nline break."]
    if thinking.opens and thinking.closes:
        texts.append(f"{thinking.opens[0]}Let me think.{thinking.closes[0]}\n\nDone.")
        texts.append(f"Before {thinking.opens[0]}in the middle{thinking.closes[0]} after {thinking.closes[0]}")
    called = with_calls(family)
    if called:
        texts += [called, f"I will look that up.\n{calls(family)}", called[: len(called) * 3 // 4]]
    texts += [f"one {marker} two {marker[:-1]} three {marker}{marker}" for marker in markers]
    texts.append(" ".join(markers)[:300])
    return texts


def with_calls(family: Family) -> str:
    """Reasoning, where the family has some, and two calls; empty for a family without calls."""
    written = calls(family)
    shape = SHAPES.get(family.name)
    if not written or shape is None or shape.think is None:
        return written
    return f"{shape.think[0]}The user asks for two places.{shape.think[1]}{written}"


def sample_transcript(family: Family) -> str:
    """The one transcript that the lab's page steps through: with calls, if the family has any."""
    return with_calls(family) or of(family)[1 if family.thinking.opens else 0]


def calls(family: Family) -> str:
    """Two calls as the family writes them: by its shape, or, for a row that has none, as JSON between its own markers."""
    shape = SHAPES.get(family.name)
    if shape is not None:
        kept = CALLS[:1] if shape.single else CALLS
        return (
            shape.outer[0]
            + shape.between.join(_call(shape, number, *call) for number, call in enumerate(kept))
            + shape.outer[1]
        )
    for spec in family.calls:
        close = next(iter(getattr(spec, "closes", ())), "")
        return "\n".join(f"{spec.opens[0]}{_json(name, arguments)}{close}" for name, arguments in CALLS)
    return ""


def _json(name: str, arguments: Mapping[str, str | int]) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def _call(shape: Shape, number: int, name: str, arguments: Mapping[str, str | int]) -> str:
    begin = shape.begin.replace("{name}", name).replace("{n}", str(number))
    return begin + _arguments(shape.body, arguments) + shape.end


def _arguments(body: Body, arguments: Mapping[str, str | int]) -> str:
    if body.open is None:
        return json.dumps(arguments)
    return body.between.join(calls_argument(body, key, value) for key, value in arguments.items())


def calls_argument(body: Body, key: str, value: str | int) -> str:
    is_string = isinstance(value, str)
    opened = (body.open or "").replace("{key}", key).replace("{type}", "string" if is_string else "number")
    opened = opened.replace("{is_string}", "true" if is_string else "false")
    quoted = {"raw": str(value), "python": repr(value)}.get(body.string, f"{body.string}{value}{body.string}")
    return opened + (quoted if is_string else str(value)) + body.close.replace("{key}", key)
