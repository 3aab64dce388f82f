"""A tag of a call that stands in prose, in code, or of a tool that nobody offered, is text, to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from tests.parsers.examples import EXAMPLES, WEATHER
from tests.parsers.splits import cuts, fixed_ids, outline, run

from smg_parsers import FAMILIES, Parser, Piece, Reasoning, Text

UNWRAPPED = {name: next(iter(row.tables.unwrapped)) for name, row in FAMILIES.items() if row.tables.unwrapped}
WRAPPED = [name for name, row in FAMILIES.items() if any(row.tables.unwrapped.values())]


def call(family: str, name: str = "get_weather") -> str:
    """A call without its wrapper."""
    if "｜" in UNWRAPPED[family]:
        lines = EXAMPLES[family][1].replace("get_weather", name).splitlines()
        return "\n".join(line for line in lines[1:-1] if "days" not in line)
    if family == "minicpm5":
        return f'<function name="{name}"><param name="city">Paris</param></function>'
    return f"<function={name}>\n<parameter=city>\nParis\n</parameter>\n</function>"


def parse(family: str, text: str, tools: Any = (WEATHER,), **options: Any) -> list[Piece]:
    """The pieces of a text, found the same at every split."""
    results = [
        run(Parser.for_family(family, tools=tools, in_reasoning=False, call_id=fixed_ids(), **options), chunks)
        for chunks in cuts(text, random_cuts=5)
    ]
    assert all(result == results[0] for result in results)
    return results[0]


def names(pieces: list[Piece]) -> list[str]:
    return [entry["call"]["name"] for entry in outline(pieces) if "call" in entry]


def test_these_families_have_a_tag_that_prose_may_hold() -> None:
    assert set(UNWRAPPED) == {
        "qwen3_coder", "qwen35", "nemotron_v3", "step35", "mimo", "seed_oss", "iquest", "minicpm5",
        "deepseek_v32", "deepseek_v4", "deepseek_v41", "gigachat35", "step5", "trinity_thinking",
    }  # fmt: skip
    assert set(WRAPPED) == set(UNWRAPPED) - {"minicpm5"}


@pytest.mark.parametrize("family", UNWRAPPED)
@pytest.mark.parametrize(
    "text",
    [
        "A call begins with {tag}NAME> and ends.",
        "Write `{tag}get_weather>` first.",
        "Match r'{tag}([^>]+)>' then.",
        "{tag}get_weather> is how it begins.",
        "{tag}get_weather>\n\nIs that clear?",
        "{tag}",
        "Look:\n```xml\n{call}\n```\nSo.",
        "`{call}`",
        "Look:\n{call_of_another}",
    ],
)
def test_a_tag_in_prose_or_in_code_is_text_to_the_letter(family: str, text: str) -> None:
    if family == "minicpm5" and "another" in text:
        return  # a family without a wrapper: `unknown_tools` decides
    tag = UNWRAPPED[family]
    other = call(family, "no_such_tool")
    text = text.replace("{tag}", tag).replace("{call}", call(family)).replace("{call_of_another}", other)
    assert parse(family, text) == [Text(text)]
    thought = Parser.for_family(family, tools=[WEATHER], in_reasoning=True).parse(text)
    assert thought == [Reasoning(text) if FAMILIES[family].thinking.opens else thought[0]]


@pytest.mark.parametrize("family", UNWRAPPED)
@pytest.mark.parametrize("before", ["", "I look it up.\n", "I look it up:\n\n  ", "```py\nx\n```\n"])
def test_a_call_without_its_wrapper_at_the_beginning_of_a_line_is_made(family: str, before: str) -> None:
    found = parse(family, before + call(family))
    assert names(found) == ["get_weather"]
    assert "".join(piece.text for piece in found if isinstance(piece, Text)) == before


@pytest.mark.parametrize("family", UNWRAPPED)
@pytest.mark.parametrize("text", ["Then {} follows.", 'He says "{}".', "({})", "- {}", "> {}", "See: {}", "1. {}"])
def test_within_a_line_it_is_not(family: str, text: str) -> None:
    text = text.replace("{}", call(family))
    assert parse(family, text) == [Text(text)]


def test_without_a_wrapper_a_call_may_stand_directly_behind_a_text() -> None:
    found = parse("minicpm5", f"Let me see.{call('minicpm5')}")
    assert (names(found), found[0]) == (["get_weather"], Text("Let me see."))


@pytest.mark.parametrize("family", UNWRAPPED)
def test_behind_another_call_and_behind_reasoning_it_is_made(family: str) -> None:
    assert names(parse(family, f"{EXAMPLES[family][1]}\n{call(family)}")) == ["get_weather"] * 2
    opens, closes = EXAMPLES[family][0]
    if opens:
        assert names(parse(family, f"{opens}why{closes}{call(family)}")) == ["get_weather"]


@pytest.mark.parametrize("family", UNWRAPPED)
def test_where_the_tools_are_not_known_an_argument_says_whether_it_is_made(family: str) -> None:
    text = f"So:\n{call(family)}"
    assert names(parse(family, text, tools=None)) == ["get_weather"]
    assert parse(family, text, tools=None, strict=True) == [Text(text)]
    prose = f"A call begins with {UNWRAPPED[family]}NAME> and ends."
    assert parse(family, prose, tools=None) == [Text(prose)]


@pytest.mark.parametrize("family", UNWRAPPED)
def test_what_may_be_a_call_is_held_back_for_some_hundred_characters_at_most(family: str) -> None:
    parser = Parser.for_family(family, tools=[WEATHER], in_reasoning=False)
    most = 0
    for char in call(family)[: call(family).index(">") + 1] + " " * 500 + "x":
        parser.feed(char)
        most = max(most, parser.waiting)
    assert 64 < most < 400
    assert parser.waiting == 0
