"""Nearly-JSON arguments: what has one meaning becomes the JSON that was meant, and the rest stays text, however it is cut."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.parsers.examples import EXAMPLES, JSON_ARGUMENTS, NAMED, WEATHER
from tests.parsers.splits import cuts, fixed_ids, outline, run
from tests.tiers import examples

from smg_parsers import CallArguments, CallEnd, CallStart, MalformedCall, MalformedCalls, Parser, Piece
from smg_parsers.pieces.base import LOOKAHEAD, NAME_LIMIT
from smg_parsers.values.lenient_json import LenientJsonReader, mended_json

WITH_JSON = sorted(name for name, (_, call) in EXAMPLES.items() if JSON_ARGUMENTS in call)

MENDED = {
    r'{"city": "\d+\.\d", "days": 2}': r'{"city": "\\d+\\.\\d", "days": 2}',
    r'{"city": "\$HOME \alpha", "days": 2}': r'{"city": "\\$HOME \\alpha", "days": 2}',
    r'{"city": "it\'s", "days": 2}': r'{"city": "it' + r"""'s", "days": 2}""",
    r'{"city": "\u12G4 \u00e9 \u", "days": 2}': r'{"city": "\\u12G4 \u00e9 \\u", "days": 2}',
    '{"city": "a \\\nb", "days": 2}': '{"city": "a \\\\\\nb", "days": 2}',
    '{"city": "Paris", "days": 2,}': '{"city": "Paris", "days": 2}',
    '{"city": "Paris", "days": 2 ,\n }': '{"city": "Paris", "days": 2 \n }',
    '{"city": "Paris",, "days": [1, 2,],}': '{"city": "Paris" ,"days": [1, 2]}',
    '{"city": "Paris", // where\n "days": /* how\nlong */ 2}': '{"city": "Paris"  ,"days":  2}',
    """{'city': 'it's "Paris"', 'days': 2}""": r"""{"city": "it's \"Paris\"", "days": 2}""",
    r"""{'city': 'it\'s "Paris\d"', 'days': 2}""": r"""{"city": "it's \"Paris\\d\"", "days": 2}""",
    '{city: Paris, days: 2}': '{"city": "Paris", "days": 2}',
    '{"city": 2024-01-31T10:00, "days": 2}': '{"city": "2024-01-31T10:00", "days": 2}',
    '{"city": True, "days": None}': '{"city": true, "days": null}',
    '{"city": Paris // where\n, "days": [b /* , */, 1/* how */, true// c\n, nan// d\n], when /* o */: now\n// e\n}':
        '{"city": "Paris" , "days": ["b" , 1, true, null], "when" : "now"\n}',
    '{"city": False, "days": [NaN, Infinity, -Infinity, undefined]}': '{"city": false, "days": [null, null, null, null]}',
    '{"city": 02139, "days": [.5, +1, -.5, 1., 1_000, 0x10, 007.50]}':
        '{"city": "02139", "days": [0.5, 1, -0.5, 1.0, 1000, 16, "007.50"]}',
    '{"days": {"a": [1, [2]}}': '{"days": {"a": [1, [2]]}}',
}  # fmt: skip
"""Nearly-JSON arguments, and the JSON they stand for, character by character."""

RAW_CONTROLS = '{"city": "a\n\tb\x01", "days": 2}'

UNREADABLE = (
    '{"city": = 1, "days": 2}',
    '{"city": "a" "b", "days": 2}',
    '{"city": New York, "days": 2}',
    '{"city": , "days": 2}',
    '{"city" "Paris"}',
    '{"days": [1, 2}, "city": "Paris"}',
    '{"days": 1]}',
    "{[]: 1}",
    '{"city": https://example.com/a\n}',
    '{"city": https://example.com/a\n, "days": 2}',
    '{"city": http://10.0.0.1/rm?id=7,\n}',
    '{"city": src/*.py, "days": 2, "x": "*/"}',
    '{"city": a//b\n}',
    '{"days": [a/*, b, */]}',
    '{src/*.py: 1, "x*/": 2}',
    '{city//b\n: "Paris"}',
    '{"days": 7//2\n}',
    '{"days": [1, 5//h/p, 2]\n}',
    '{"city": 2024/*.py, "days": 2, "x": "*/"}',
    '{"city": 2024/**/*.py\n}',
    '{"city": true//y\n, "days": None//z\n}',
    '{"city": nan/*x*/, "days": 0x10//y\n}',
    f'{{"days": 1{"0" * NAME_LIMIT}//2\n}}',
)


def _closing_marker(family: str) -> str:
    """What closes a call of the family behind its arguments, "" where nothing does."""
    return EXAMPLES[family][1].split(JSON_ARGUMENTS)[1].lstrip("}]\n `")


def parse(family: str, text: str, everywhere: bool = False, **options: Any) -> list[Piece]:
    """The pieces of a text, found the same in parts of some sizes, or at every split."""
    parts = [[text[at : at + size] for at in range(0, len(text), size)] for size in (len(text), 1, 2, 3, 5)]
    results = [
        run(Parser.for_family(family, tools=(WEATHER,), call_id=fixed_ids(), **options), chunks)
        for chunks in (cuts(text, random_cuts=5) if everywhere else parts)
    ]
    assert all(result == results[0] for result in results)
    return results[0]


def written(pieces: list[Piece]) -> str:
    return "".join(piece.delta for piece in pieces if isinstance(piece, CallArguments))


def take(text: str, cut: list[str] | None = None, **options: Any) -> tuple[str, LenientJsonReader]:
    """What a reader makes of a text that comes in parts, and the reader."""
    reader = LenientJsonReader(**options)
    out, held = "", ""
    for part in [text] if cut is None else cut:
        held += part
        delta, end = reader.take(held, 0)
        out, held = out + delta, held[end:]
        if reader.done or reader.bad:
            break
    return out, reader


class TestEveryFamilyWithJsonArguments:
    def test_they_are_many(self) -> None:
        assert len(WITH_JSON) > 30

    @pytest.mark.sampled(keep=8)
    @pytest.mark.parametrize("family", WITH_JSON)
    def test_what_is_nearly_json_arrives_as_the_json_that_was_meant(self, family: str) -> None:
        call = EXAMPLES[family][1]
        right = outline(parse(family, call))
        for nearly, meant in MENDED.items():
            found = parse(family, call.replace(JSON_ARGUMENTS, nearly), everywhere=True)
            assert written(found) == meant
            assert [piece.repaired for piece in found if isinstance(piece, CallEnd)] == [True]
            assert len(outline(found)) == len(right), "no markup comes out as text"

    @pytest.mark.parametrize("family", WITH_JSON)
    def test_raw_control_characters_are_escaped_and_no_fault(self, family: str) -> None:
        found = parse(family, EXAMPLES[family][1].replace(JSON_ARGUMENTS, RAW_CONTROLS), malformed_calls="error")
        assert written(found) == r'{"city": "a\n\tb\u0001", "days": 2}'
        assert [piece.repaired for piece in found if isinstance(piece, CallEnd)] == [False]

    @pytest.mark.parametrize("family", WITH_JSON)
    def test_what_cannot_be_read_ends_no_call(self, family: str) -> None:
        for nearly in UNREADABLE:
            found = parse(family, EXAMPLES[family][1].replace(JSON_ARGUMENTS, nearly))
            assert not any(isinstance(piece, CallEnd) for piece in found), nearly

    @pytest.mark.sampled(per=("family",))
    @pytest.mark.parametrize("family", WITH_JSON)
    @pytest.mark.parametrize("policy", ["text", "error"])
    def test_the_policy_for_malformed_calls_decides(self, family: str, policy: MalformedCalls) -> None:
        for nearly in MENDED:
            text = EXAMPLES[family][1].replace(JSON_ARGUMENTS, nearly)
            if policy == "text":
                assert not any(isinstance(piece, CallEnd) for piece in parse(family, text, malformed_calls="text"))
                continue
            for chunks in ([text], list(text)):
                parser = Parser.for_family(family, tools=[WEATHER], malformed_calls="error")
                with pytest.raises(MalformedCall, match="'get_weather'"):
                    run(parser, chunks)

    @pytest.mark.parametrize("family", [each for each in WITH_JSON if _closing_marker(each)])
    def test_brackets_that_are_missing_before_the_closing_marker_are_closed(self, family: str) -> None:
        call = EXAMPLES[family][1]
        head, marker = call.split(JSON_ARGUMENTS)[0], _closing_marker(family)
        for nearly, meant in {
            '{"city": "Paris", "days": [2': '{"city": "Paris", "days": [2]}',
            '{"city": "Paris", "days": {"a": 2},': '{"city": "Paris", "days": {"a": 2}}',
            '{"city": "Paris", "days": [2] // two <| days}': '{"city": "Paris", "days": [2] }',
            '{"city": "Paris", // </': '{"city": "Paris" }',
        }.items():
            found = parse(family, head + nearly + marker)
            assert written(found) == meant
            assert [piece.repaired for piece in found if isinstance(piece, CallEnd)] == [True]
            assert len(outline(found)) == 1

    @pytest.mark.parametrize("family", WITH_JSON)
    def test_output_that_ends_within_arguments_ends_no_call(self, family: str) -> None:
        head, _ = EXAMPLES[family][1].split(JSON_ARGUMENTS)
        for cut in (
            '{"city": "Paris", "days": [2',
            '{"city": "Paris",',
            '{"city": "a\\',
            '{"city": "\\u12',
            '{"city": tr',
        ):
            found = parse(family, head + cut)
            assert written(found) == cut
            assert not any(isinstance(piece, CallEnd) for piece in found)


class TestArgumentsInAnEnvelope:
    def test_arguments_before_the_name_are_mended_and_marked(self) -> None:
        text = r'<tool_call>{"arguments": {"city": "\d",}, "name": "get_weather"}</tool_call>'
        assert outline(parse("qwen3", text)) == [
            {"call": {"name": "get_weather", "id": "call_0", "arguments": {"city": r"\d"}, "repaired": True}}
        ]

    def test_arguments_before_the_name_are_text_if_the_policy_says_so(self) -> None:
        text = r'<tool_call>{"arguments": {"city": "\d",}, "name": "get_weather"}</tool_call>'
        found = outline(parse("qwen3", text, malformed_calls="text"))
        assert "".join(entry["text"] for entry in found) == text
        with pytest.raises(MalformedCall, match="'get_weather'"):
            Parser.for_family("qwen3", tools=[WEATHER], malformed_calls="error").feed(text)

    @pytest.mark.parametrize("inner", [r'{"city": "\d"}', '{"city": "Paris",}'])
    def test_an_object_in_a_string_is_mended_too(self, inner: str) -> None:
        text = f'<tool_call>{{"name": "get_weather", "arguments": {json.dumps(inner)}}}</tool_call>'
        (call,) = outline(parse("qwen3", text))
        assert call["call"]["arguments"] in ({"city": r"\d"}, {"city": "Paris"})
        assert call["call"]["repaired"]

    def test_a_string_with_wrong_escapes_is_mended(self) -> None:
        text = r'<tool_call>{"name": "get_weather", "arguments": "{\"city\": \'Paris\'}"}</tool_call>'
        (call,) = outline(parse("qwen3", text))
        assert call["call"]["arguments"] == {"city": "Paris"}
        assert call["call"]["repaired"]

    @pytest.mark.parametrize(
        ("quoted", "city"),
        [('{"city": "Paris"}', "Paris"), ('{"city": "it\\\'s"}', "it's"), ("{city: Paris}", "Paris")],
    )
    def test_an_envelope_in_single_quotes_is_read_and_marked(self, quoted: str, city: str) -> None:
        text = f"""[TOOL_CALLS] [{{'name': 'get_weather', 'arguments': '{quoted}', 'id': '123456789'}},]"""
        (call,) = outline(parse("mistral", text))
        assert call["call"]["repaired"]
        assert call["call"]["arguments"] == {"city": city}

    def test_a_string_in_an_envelope_that_holds_no_object_leaves_the_call_without_an_end(self) -> None:
        text = """[TOOL_CALLS] [{'name': 'get_weather', 'arguments': '{city: it\\'s}', 'id': '123456789'},]"""
        (call,) = outline(parse("mistral", text))
        assert call["call"]["arguments_text"] == """"{city: it's}\""""

    def test_a_comma_behind_the_last_call_of_a_list_is_no_text(self) -> None:
        text = f"[TOOL_CALLS] [{NAMED}, {NAMED},]"
        assert [list(entry) for entry in outline(parse("mistral", text))] == [["call"], ["call"]]

    @pytest.mark.parametrize(("empty", "repaired"), [("null", False), ("None", True)])
    def test_no_arguments_are_an_empty_object(self, empty: str, repaired: bool) -> None:
        found = parse("qwen3", f'<tool_call>{{"name": "get_weather", "arguments": {empty}}}</tool_call>')
        assert written(found) == "{}"
        assert found[-1] == CallEnd(0, repaired)

    def test_members_beside_the_arguments_may_be_nearly_json_too(self) -> None:
        text = r"""<tool_call>{"why": 'it\'s \d', "name": "get_weather", "arguments": {}, "type": None,}</tool_call>"""
        assert parse("qwen3", text) == [CallStart(0, "call_0", "get_weather"), CallArguments(0, "{}"), CallEnd(0)]


# Values, and the ways in which they are written carelessly.

TEXT = st.text(alphabet="ab\\'\"/$d u1,:{}[]\n\té", max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
_BARE = re.compile(r"[A-Za-z_]\w*")


class Careless:
    """Writes values with faults that leave no doubt about what was meant."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def gap(self) -> str:
        return self.chance.choice(["", "", "", " ", "\n", "/* c, */", "// c\n"])

    def text(self, word: str) -> str:
        mark = self.chance.choice('""\'')
        return mark + "".join(self.char(char, word[at + 1 : at + 2], mark) for at, char in enumerate(word)) + mark

    def char(self, char: str, following: str, mark: str) -> str:
        if char == "\\":
            lone = following and following in "$d 1,:{}[]" and self.chance.random() < 0.5
            return "\\" if lone else "\\\\"
        if char in (mark, "'"):
            return "\\" + char if char == mark else self.chance.choice(["'", "\\'"])
        return char if char in "\n\t" or self.chance.random() < 0.9 else json.dumps(char)[1:-1]

    def key(self, word: str) -> str:
        """A name and what stands behind it: what is joined to a bare word is a part of it, and begins no comment."""
        if _BARE.fullmatch(word) and self.chance.random() < 0.5:
            return word + self.chance.choice(["", " " + self.gap()])
        return self.text(word) + self.gap()

    def value(self, value: Any) -> str:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self.items(
                "{",
                [f"{self.key(name)}:{self.gap()}{self.value(each)}" for name, each in value.items()],
                "}",
            )
        if isinstance(value, list):
            return self.items("[", [self.value(each) for each in value], "]")
        if value is None or isinstance(value, bool):
            return self.chance.choice([repr(value), json.dumps(value)])
        return ("+" if value > 0 and self.chance.random() < 0.3 else "") + repr(value)

    def items(self, begin: str, items: list[str], end: str) -> str:
        inner = ",".join(f"{self.gap()}{item}{self.gap()}" for item in items)
        return begin + inner + (self.chance.choice(["", ",", " ,"]) if items else "") + self.gap() + end


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chance=st.randoms(use_true_random=False), value=VALUES, places=st.lists(st.integers(0, 500), max_size=6))
def test_a_value_written_carelessly_is_read_as_it_was_meant_through_any_split(
    chance: Random, value: Any, places: list[int]
) -> None:
    text = Careless(chance).value([value])
    whole, reader = take(text, lenient=True)
    assert reader.done
    assert json.loads(whole) == [value]
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    for cut in ([text[a:b] for a, b in pairwise(edges)], list(text)):
        assert take(text, cut, lenient=True)[0] == whole


@settings(max_examples=examples(400), deadline=None)
@given(text=st.text(alphabet="{}[]\"':,\\/*ntu01.+-TN \n</c>", max_size=24))
def test_any_text_is_read_alike_however_it_is_cut_and_what_is_complete_is_json(text: str) -> None:
    for options in ({}, {"lenient": True}, {"lenient": True, "closes": ("</c>",)}):
        whole, reader = take("{" + text, **options)
        state = (reader.done, reader.bad, reader.fault, reader.mended)
        for at in range(len(text)):
            part, other = take("", ["{" + text[:at], text[at:]], **options)
            assert (part, (other.done, other.bad, other.fault, other.mended)) == (whole, state)
        part, other = take("", ["{", *text], **options)
        assert (part, (other.done, other.bad, other.fault, other.mended)) == (whole, state)
        if reader.done:
            json.loads(whole)


@given(VALUES, st.booleans(), st.integers(0, 3))
def test_json_is_passed_on_verbatim_and_is_no_repair(value: Any, ascii_only: bool, indent: int) -> None:
    text = json.dumps({"a": value}, ensure_ascii=ascii_only, indent=indent or None)
    for cut in ([text], list(text)):
        out, reader = take("", cut)
        assert (out, reader.done, reader.mended) == (text, True, False)


class TestWhatIsHeldBack:
    @pytest.mark.parametrize(
        ("text", "held"),
        [
            ('{"a": "x', ""),
            ('{"a": "x\\', "\\"),
            ('{"a": "x\\u12', "\\u12"),
            ('{"a": 12', "12"),
            ('{"a": tru', "tru"),
            ('{"a": 1,', ","),
            ('{"a": 1, \n', ", \n"),
            ('{"a": {}, "b', ""),
        ],
    )
    def test_no_more_than_is_undecided(self, text: str, held: str) -> None:
        out, _ = take(text)
        assert out + held == text

    def test_long_white_space_behind_a_comma_is_not_held(self) -> None:
        text = '{"a": 1,' + " " * (LOOKAHEAD + 1)
        assert take(text)[0] == '{"a": 1' + " " * (LOOKAHEAD + 1)
        for close, whole in (('"b": 2}', ',"b": 2}'), ("}", "}")):
            for cut in ([text + close], list(text + close)):
                assert json.loads(take("", cut, lenient=True)[0]) == json.loads('{"a": 1' + whole)

    @pytest.mark.parametrize("digits", [NAME_LIMIT - 1, NAME_LIMIT, NAME_LIMIT + 1, 5000])
    def test_a_number_of_any_length_is_passed_on(self, digits: int) -> None:
        text = f'{{"a": -{"7" * digits}.5}}'
        for cut in ([text], list(text)):
            assert take("", cut)[0] == text

    def test_a_long_word_is_no_value(self) -> None:
        for cut in (['{"a": ' + "x" * 300 + "}"], list('{"a": ' + "x" * 300 + "}")):
            out, reader = take("", cut, lenient=True)
            assert (out, reader.bad) == ('{"a": ', True)

    def test_nesting_is_bounded(self) -> None:
        assert take("[" * 300)[1].bad


@pytest.mark.parametrize(
    ("text", "meant"),
    [("{}", "{}"), (" [1,]", " [1]"), ("{'a': (1, 2)}", None), ("{} {}", None), ("nothing", None), ("", None)],
)
def test_a_whole_text_is_mended_or_is_none(text: str, meant: str | None) -> None:
    assert mended_json(text) == meant
