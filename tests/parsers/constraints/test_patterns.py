"""Expressions for spelled text, held to Python's own matching of the text and of its spelling."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_parsers.constraints.patterns import JSON, PYTHON, RAW, PatternError, spelled

PATTERNS = [
    "abc",
    r"^\d{4}-\d{2}-\d{2}$",
    r"[a-z]+@[a-z]+\.(com|org)",
    r'"[^"]*"',
    r"'?[\w ]+'?",
    r"C:\\[A-Z]+",
    ".*",
    r"(?P<a>x|y)+(?:z)?",
    r"[^a-z]{2,4}",
    r"[\\\"'\n]+",
    r"\S+\s\S+",
    r"[]a]+",
    r"[a-]+",
    r"a|b\||",
    r"\x41\u00e9\u{1F600}?",
    r"SELECT .+ FROM \w+;\$",
    r"[\d\-.]+?",
    "é+",
    r"(a{0,3}b)*",
    r"[\D]",
    r"x\\$",
]
LETTERS = st.characters(min_codepoint=0x20, codec="utf-8", include_characters="\n\t")
TEXTS = st.text(alphabet="abxyzé09-.:@\"'\\\n\t SELECTFROM;|$]A\N{GRINNING FACE}", max_size=12)


def as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def as_python(text: str) -> str:
    return "".join(PYTHON.escapes.get(char, char) for char in text)


def meant(pattern: str) -> re.Pattern[str]:
    """As Python reads it, where a class means ASCII."""
    inner = pattern.removeprefix("^")
    inner = inner[:-1] if inner.endswith("$") and not inner.endswith("\\$") else inner
    if inner.endswith(r"\\$"):
        inner = inner[:-1]
    return re.compile(inner.replace(r"\u{1F600}", "\N{GRINNING FACE}"), re.ASCII)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_a_spelling_matches_where_the_text_does(pattern: str, data: st.DataObject) -> None:
    expression = meant(pattern)
    text = data.draw(TEXTS | st.from_regex(expression, fullmatch=True, alphabet=LETTERS))
    matches = expression.fullmatch(text) is not None
    assert (re.fullmatch(spelled(pattern, RAW), text) is not None) == matches
    assert (re.fullmatch(spelled(pattern, JSON), as_json(text)) is not None) == matches
    assert (re.fullmatch(spelled(pattern, PYTHON), as_python(text)) is not None) == matches


@pytest.mark.parametrize("pattern", [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", r"[\s\d]", r"[^\s\w]"])
def test_a_class_has_the_characters_that_python_has_in_it(pattern: str) -> None:
    expression, translated = re.compile(pattern, re.ASCII), re.compile(spelled(pattern, RAW))
    characters = [chr(code) for code in range(0x100)]
    assert [each for each in characters if translated.fullmatch(each)] == [
        each for each in characters if expression.fullmatch(each)
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?i)a", "(?P=a)"),
        *(r"(a)\1", r"\bword", r"\p{L}", "a^b", "a$b", "[[:alpha:]]"),
        *("(", ")", "a)", "[a", "*", "a**", "|+", "(*)", "{", "a{", "a{x}", "a{2,1}", "a{1001}", "a{0,1001}"),
        *("[z-a]", r"\x4", r"\u{110000}", r"\ud800", "\\", "(" * 33 + ")" * 33, "[^\\w\\W]", r"\q"),
    ],
)
def test_what_cannot_be_translated_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        spelled(pattern)


def test_a_character_that_a_spelling_has_no_place_for_is_refused_and_left_out_of_classes() -> None:
    with pytest.raises(PatternError):
        spelled(r"\x00", JSON)
    assert re.fullmatch(spelled(r"[\x00a]", JSON), "a")
    assert re.fullmatch(spelled(r"\x00"), "\0")


@given(st.text(alphabet="ab()[]{}^$.*+?|\\-dwWsPx0,1:<>=!iu\n\"'é", max_size=30))
def test_any_expression_is_translated_or_refused(pattern: str) -> None:
    try:
        made = [spelled(pattern, spelling) for spelling in (RAW, JSON, PYTHON)]
    except PatternError:
        return
    for each in made:
        re.compile(each)
