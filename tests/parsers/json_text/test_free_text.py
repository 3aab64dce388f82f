"""Free text within a function's arguments: taken out of them again, however they are written and cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_parsers.json_text.free_text import FreeTextReader, parameters, wrapped

JSONISH = st.text(alphabet='{}[]",:\\ninputu0dc8 \n\té', max_size=40)


def read(arguments: str, *edges: int) -> str:
    reader = FreeTextReader()
    places = [0, *sorted(edge % (len(arguments) + 1) for edge in edges), len(arguments)]
    pieces = [reader.feed(arguments[start:end]) for start, end in pairwise(places)]
    return "".join(pieces) + reader.finish()


@given(st.text(), st.booleans(), st.sampled_from([None, 0, 3]), st.lists(st.integers(0, 10_000), max_size=8))
def test_a_text_comes_back_from_any_spelling_and_through_any_split(
    text: str, ascii_only: bool, indent: int | None, edges: list[int]
) -> None:
    for value in ({"input": text}, {"input": text, "more": [1]}, text):
        assert read(json.dumps(value, ensure_ascii=ascii_only, indent=indent), *edges) == text
    assert read(wrapped(text), *edges) == text


@given(JSONISH, st.booleans())
def test_whatever_comes_is_read_the_same_whole_and_by_the_character(text: str, headed: bool) -> None:
    arguments = '{"input": "' + text if headed else text
    assert read(arguments, *range(len(arguments))) == read(arguments)
    read(arguments).encode()


@given(st.text(max_size=20), st.integers(0, 30))
def test_what_came_before_a_cut_is_a_beginning_of_the_text(text: str, cut: int) -> None:
    whole = json.dumps({"input": text})
    assert text.startswith(read(whole[: 1 + cut % len(whole)]).removesuffix("\ufffd"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": {"a": [1, "}"]}, "b": 2}', '{"a": [1, "}"]}'),
        ('{"input": 12}', "12"),
        ('{"input":null }', "null"),
        ("{}", ""),
        ("", ""),
        ('{"command": "ls"}', '{"command": "ls"}'),
        ('{"inputs": "ls"}', '{"inputs": "ls"}'),
        ("[1]", "[1]"),
        ("ls -l", "ls -l"),
        ('{"inp', ""),
        (r'{"input": "\ud83d\ude00"}', "\N{GRINNING FACE}"),
        (r'{"input": "\ud83d"}', "\ufffd"),
        (r'{"input": "\ud83dx\ude00"}', "\ufffdx\ufffd"),
        (r'{"input": "\ud83d\ud83d\ude00"}', "\ufffd\N{GRINNING FACE}"),
        (r'{"input": "\x \u12g4"}', r"\x \u12g4"),
        ('{"input": "two\nlines"}', "two\nlines"),
        ('{"input": "cut \\', "cut "),
        ('{"input": "cut \\ud83d', "cut \ufffd"),
    ],
)
def test_unusual_arguments_lose_nothing_that_was_meant(arguments: str, text: str) -> None:
    assert read(arguments) == text


def test_a_long_text_costs_a_look_at_each_character() -> None:
    """Pieces that are passed on are never looked at again, and so nothing of them is kept."""
    reader = FreeTextReader()
    reader.feed('{"input": "')
    assert sum(len(reader.feed("ab" * 500)) for _ in range(200)) == 200_000
    assert reader.finish() == ""


def test_a_model_is_told_of_one_string_that_is_required() -> None:
    told = parameters("A line of shell.")
    assert told["required"] == ["input"]
    assert told["properties"] == {"input": {"type": "string", "description": "A line of shell."}}
    assert "description" not in parameters()["properties"]["input"]
