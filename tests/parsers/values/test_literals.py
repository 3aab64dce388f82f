"""Python literals turned into JSON, against the standard library's reading of them."""

from __future__ import annotations

import ast
import json
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smg_parsers.values.literals import GROUP_LIMIT, PYTHON, LiteralReader, LiteralSyntax, literal_to_json, number

GEMMA = LiteralSyntax(marks=('<|"|>',), python=False, loose=True)
# Quotes are left out: one that is followed by what could follow a string's end is taken for that end.
WORDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="'\""), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=10,
)


def in_parts(text: str, places: list[int], dialect: LiteralSyntax = PYTHON) -> str:
    reader = LiteralReader(dialect)
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    held, out = "", ""
    for start, stop in pairwise(edges):
        buf, pos = held + text[start:stop], 0
        while not reader.done:
            assert not reader.bad
            reached = reader.step(buf, pos, stop == len(text))
            if reached < 0:
                pos = ~reached
                break
            pos = reached
        held = buf[pos:]
        out += reader.tail()
    return out


@given(VALUES, st.lists(st.integers(0, 300), max_size=5))
def test_a_python_literal_becomes_the_same_value_in_json(value: Any, places: list[int]) -> None:
    written = literal_to_json(repr(value))
    assert written is not None
    assert json.loads(written) == value
    assert in_parts(repr(value), places) == written


@pytest.mark.parametrize(
    "text",
    ["(1, 2)", "'''a\nb'''", '"""x"""', r"'\x41\u00e9\U0001F600\t'", "-3", "{'a': (True, None)}", "[1, 2,]", "''"],
)
def test_other_spellings_mean_what_python_says(text: str) -> None:
    written = literal_to_json(text)
    value = ast.literal_eval(text)
    assert written is not None
    assert json.loads(written) == json.loads(json.dumps(value))


@pytest.mark.parametrize("pieces", [["'ab\\"], ["'ab", "\\"], ["'", "ab\\", ""]])
def test_a_backslash_that_the_output_ends_with_is_kept(pieces: list[str]) -> None:
    reader, held, out = LiteralReader(PYTHON), "", ""
    for place, piece in enumerate(pieces, 1):
        held, reached = held + piece, 0
        while reached >= 0 and not (place == len(pieces) and reached == len(held)):
            at = reached
            reached = reader.step(held, at, place == len(pieces))
        held = held[~reached if reached < 0 else reached :]
        out += reader.tail()
    assert out == '"ab\\\\'


STRINGS = (
    r"r'\d+\.\d'",
    r"""R"\"x\"" """.strip(),
    "u'a'",
    'U"it\'s"',
    "f'plain'",
    "f'{{x}} {{'",
    r"rf'\d{{2}}'",
    r"fR'\d'",
    "'a' 'b'",
    "'a'\n    'b' \"c\"",
    r"""'a'  r'\d'  u'''x
y'''""",
    '"""say "hi" to \'them\'"""',
    r'r"""C:\dir"""',
    "('a')",
    "('a' 'b')",
    "('a',)",
    "(('a'))",
    "((1), (2, 3), (), ((4),))",
    "{'k' 'ey': ('x'\n 'y'), 'z': ()}",
    "('''a''' 'b', [1, (2)])",
    "''  'a'",
)
"""Strings and brackets as Python's grammar allows them."""


@pytest.mark.parametrize("text", STRINGS)
def test_strings_and_brackets_mean_what_python_says_however_they_are_cut(text: str) -> None:
    value = json.loads(json.dumps(eval(f"({text})")))  # the texts above; ast.literal_eval takes no formatted strings
    written = literal_to_json(text)
    assert written is not None
    assert json.loads(written) == value
    for at in range(len(text)):
        assert in_parts(text, [at]) == written
    assert in_parts(text, list(range(len(text)))) == written


@given(
    st.lists(st.tuples(st.sampled_from(["", "r", "u", "R"]), st.text("ab n.d", max_size=6)), min_size=1, max_size=4),
    st.sampled_from(["'", '"', "'''", '"""']),
    st.sampled_from([" ", "\n", "  \n  "]),
    st.lists(st.integers(0, 100), max_size=4),
)
def test_strings_that_follow_one_another_are_one(
    parts: list[tuple[str, str]], mark: str, between: str, places: list[int]
) -> None:
    text = f"({between.join(letter + mark + word.replace(' ', chr(92) * 2) + mark for letter, word in parts)})"
    written = literal_to_json(text)
    assert written is not None
    assert json.loads(written) == ast.literal_eval(text)
    assert in_parts(text, places) == written


def test_a_string_with_forgotten_escapes_is_one_string() -> None:
    assert literal_to_json('"say "hi" "there" now"') == r'"say \"hi\" \"there\" now"'


@pytest.mark.parametrize("text", ["b'x'", "rb'x'", "Rb'x'", "f'{x}'", "f'a{{{x}}}'", "f'}'", "x'a'", "ur'a'"])
def test_what_json_cannot_hold_is_refused(text: str) -> None:
    assert literal_to_json(text) is None


def test_what_brackets_hold_back_is_bounded() -> None:
    reader = LiteralReader(PYTHON)
    for part in ["('", *["x" * 4096] * (GROUP_LIMIT // 4096 + 2)]:
        pos = 0
        while 0 <= pos < len(part) and not reader.bad:
            pos = reader.step(part, pos, False)
    assert reader.bad
    assert len(reader.rest()) < GROUP_LIMIT + 8192


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1F", 31),
        ("1_000", 1000),
        ("007", "007"),
        (".5", 0.5),
        ("5.", 5.0),
        ("Color.RED", "Color.RED"),
        ("true", True),
    ],
)
def test_numbers_and_words_that_json_does_not_know_are_rewritten(text: str, value: Any) -> None:
    written = literal_to_json(text)
    assert written is not None
    assert json.loads(written) == value


@pytest.mark.parametrize("text", ["f(1)", "1 + 2", "[1", "{1, 2}", "'a", "", "]", "{'a' 1}"])
def test_what_is_no_literal_is_refused(text: str) -> None:
    assert literal_to_json(text) is None


def test_gemmas_strings_hold_anything_but_their_mark() -> None:
    text = '{a:<|"|>x, \'y\' \\n {z}<|"|>,b:[1,true,two words],<|"|>c d<|"|>:null}'
    assert json.loads(in_parts(text, list(range(len(text))), GEMMA)) == {
        "a": "x, 'y' \\n {z}",
        "b": [1, True, "two words"],
        "c d": None,
    }


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    assert literal_to_json(r"'\ud83d\ude00'") == r'"\ud83d\ude00"'


@given(st.text("0123456789.eE+-_ ", max_size=10))
@example("0-5")
@example("+-5")
@example("0-5.5")
@example("-0-5")
@example("0-2e3")
@example("0 _")
@example("_ 0")
def test_a_number_means_what_its_text_means_or_is_none(text: str) -> None:
    written = number(text)
    digits = text.replace("_", "")
    try:
        # `Decimal` takes white space around a number, also where an underscore has stood beside it.
        meant = Decimal(digits) if digits.strip() == digits else None
    except InvalidOperation:
        meant = None
    if written is None:
        assert meant is None
    else:
        assert meant is not None
        assert isinstance(json.loads(written), int | float)
        assert Decimal(written) == meant


@pytest.mark.parametrize("text", ["[0-9]", "[+-5]", "(0-5)", "[1, 0-2e3]"])
def test_a_range_in_brackets_is_no_literal(text: str) -> None:
    assert literal_to_json(text) is None
