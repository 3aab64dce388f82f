"""No text breaks the law: the same for every split, nothing lost, no exception, linear work."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.parsers.examples import EXAMPLES, WEATHER

from smg_parsers import FAMILIES, CallEnd, CallStart, Parser, Piece, Text, merge
from smg_parsers.lab import laws as law

pytestmark = pytest.mark.sampled(keep=12)

RELAXED = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def maker(name: str, tools: list[dict[str, Any]] | None, inside: bool) -> law.Make:
    return lambda: Parser.for_family(name, tools=tools, in_reasoning=inside, call_id=lambda: "call")


@st.composite
def soups(draw: st.DrawFn, name: str) -> str:
    """Markers, parts of markers, parts of a call, and anything else, in any order."""
    family = FAMILIES[name]
    example = EXAMPLES.get(name, (("", ""), ""))[1]
    markers = sorted(
        {*family.tables.roles, *family.tables.calls, "<", "{", "[", '"', "\\", "\n", " ", ",", "]", "}", ")"}
    )
    part = st.one_of(
        st.sampled_from(markers),
        st.tuples(st.sampled_from(markers), st.integers(1, 8)).map(lambda pair: pair[0][: -pair[1]] or pair[0]),
        st.tuples(st.integers(0, len(example)), st.integers(0, len(example))).map(
            lambda pair: example[min(pair) : max(pair)]
        ),
        st.just(example),
        st.text(max_size=5),
    )
    return "".join(draw(st.lists(part, max_size=7)))


@pytest.mark.parametrize("name", FAMILIES)
@RELAXED
@given(data=st.data())
def test_any_soup_of_markers_is_read_alike_however_it_is_cut_and_nothing_is_lost(
    name: str, data: st.DataObject
) -> None:
    text = data.draw(soups(name))
    tools = data.draw(st.sampled_from([None, [WEATHER], []]))
    make = maker(name, tools, data.draw(st.booleans()))
    breaches = [
        *law.split_invariance(make, text, random_cuts=3),
        *law.order(make, text),
        *law.conservation(make, text, FAMILIES[name]),
    ]
    assert not breaches, "\n".join(map(str, breaches))


@pytest.mark.parametrize("name", FAMILIES)
@RELAXED
@given(data=st.data())
def test_a_call_that_ended_is_valid_json(name: str, data: st.DataObject) -> None:
    arguments: dict[int, str] = {}
    ended = set()
    for piece in maker(name, None, False)().parse(data.draw(soups(name))):  # type: ignore[attr-defined]
        if isinstance(piece, CallStart):
            arguments[piece.index] = ""
        elif isinstance(piece, CallEnd):
            ended.add(piece.index)
        elif hasattr(piece, "delta"):
            arguments[piece.index] += piece.delta
    for index in ended:
        json.loads(arguments[index])


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=20, deadline=None)
@given(raw=st.binary(max_size=80))
def test_arbitrary_bytes_raise_nothing_and_lose_nothing(name: str, raw: bytes) -> None:
    text = raw.decode("utf-8", errors="surrogateescape")
    make = maker(name, None, False)
    assert not law.split_invariance(make, text, random_cuts=2)
    assert not law.conservation(make, text, FAMILIES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_broken_calls_are_read_alike_however_they_are_cut_and_lose_nothing(name: str) -> None:
    (opens, closes), call = EXAMPLES[name]
    make = maker(name, [WEATHER], False)
    breaches = []
    for text in law.breakage(f"{opens}why{closes}{call}\n{call} Done.", 48):
        breaches += [*law.order(make, text), *law.conservation(make, text, FAMILIES[name])]
        whole = law.read(make, [text])
        assert law.read(make, list(text)) == whole, text
        assert law.read(make, [text[at : at + 3] for at in range(0, len(text), 3)]) == whole, text
    assert not breaches, "\n".join(map(str, breaches))


NAMED_FIRST = re.compile(
    r'\{(?P<name>"name": "get_weather"), (?P<arguments>"(?:arguments|parameters|args)": \{[^}]*\})\}'
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_calls_broken_between_their_arguments_and_their_name_raise_nothing_and_are_read_alike(name: str) -> None:
    call = NAMED_FIRST.sub(r"{\g<arguments>, \g<name>}", EXAMPLES[name][1])
    for number, broken in enumerate(law.breakage(call, 12)):
        text = f"{broken}\n{call[len(call) * number // 12 :]}{broken}"
        make = maker(name, (None, [WEATHER])[number % 2], False)
        assert law.read(make, list(text)) == law.read(make, [text]), text


def test_a_line_that_failed_between_its_arguments_and_its_name_leaves_nothing_to_the_next_call() -> None:
    text = '<tool_calls>{"args":{""}\n{""'
    assert Parser.for_family("minimax_m1", in_reasoning=False).parse(text) == [Text(text)]
    text = f'<tool_calls>{{"args":{{"q": oops"}}\n{EXAMPLES["minimax_m1"][1].removeprefix("<tool_calls>")}'
    found = Parser.for_family("minimax_m1", in_reasoning=False, call_id=lambda: "call").parse(text)
    assert CallStart(0, "call", "get_weather") in found


EVERY_GRAMMAR = ("qwen35", "kimi_k2", "harmony", "gemma4", "pythonic", "glm45", "xlam", "minimax_m3")


def linear(name: str, inputs: int) -> None:
    """Hold the family to the law on so many nasty inputs, spread over all there are."""
    every = list(law.nasty(FAMILIES[name], EXAMPLES.get(name, (("", ""), ""))[1]))
    breaches = [
        breach
        for prefix, unit in every[:: max(len(every) // inputs, 1)]
        for breach in law.linearity(maker(name, [WEATHER], False), unit, prefix=prefix)
    ]
    assert not breaches, "\n".join(map(str, breaches))


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY_GRAMMAR)
def test_no_stretch_of_text_costs_more_than_the_one_before(name: str) -> None:
    linear(name, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_stretch_of_text_costs_more_than_the_one_before_in_any_family(name: str) -> None:
    linear(name, 1000)


class Quadratic:
    """Looks at everything it was ever given at every feed."""

    def __init__(self) -> None:
        self.seen = ""

    def feed(self, text: str) -> list[Piece]:
        self.seen = self.seen + text
        self.seen.find("<never>")
        return [Text(text)]

    def finish(self) -> list[Piece]:
        return []


class Forgetful(Quadratic):
    """Drops a marker's beginning when a chunk ends inside it, and splits calls differently for every cut."""

    def feed(self, text: str) -> list[Piece]:
        return [Text(text.rstrip("<"))]


def test_the_law_catches_a_parser_that_reads_everything_again() -> None:
    assert law.linearity(Quadratic, "a")
    assert not law.linearity(maker("qwen3", None, False), "a")


def test_the_law_catches_a_parser_whose_result_depends_on_the_cut() -> None:
    assert law.split_invariance(Forgetful, "a<b")


def test_the_law_catches_a_parser_that_loses_text() -> None:
    assert law.conservation(Forgetful, "a<", FAMILIES["plain"])
    assert not law.conservation(maker("plain", None, False), "a<", FAMILIES["plain"])


class Swallows:
    """Begins a call at the first `<tool_call>`, says its name, and drops the next twenty characters for good."""

    def __init__(self) -> None:
        self.seen = ""
        self.begun = self.given = False

    def feed(self, text: str) -> list[Piece]:
        self.seen += text
        if not self.begun and "<tool_call>" in self.seen:
            self.begun, self.seen = True, ""
            return [CallStart(0, "call", "f")]
        if self.begun and not self.given and len(self.seen) > 20:
            self.given, text = True, self.seen[20:]
            return [Text(text)]
        return [Text(text)] if self.given else []

    def finish(self) -> list[Piece]:
        return []


def test_the_law_catches_a_broken_call_that_vanishes() -> None:
    text = "<tool_call>\n<parameter=city>Paris is gone, and the rest is here"
    assert "city" in law.conservation(Swallows, text, FAMILIES["qwen35"])[0].detail


def test_merged_pieces_have_no_neighbours_of_a_kind() -> None:
    assert merge([Text("a"), Text("b"), Text("c")]) == [Text("abc")]


CALL = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>"


@pytest.mark.parametrize(
    "behind", ["x <", "tool_call>\n<", "x\n\n</", " x </tool", "\n<", "</tool_call>\n<", "</tool_call>x <"]
)
def test_what_a_cut_marker_behind_a_call_follows_is_looked_at_as_a_whole_however_it_came(behind: str) -> None:
    assert not law.split_invariance(maker("qwen35", [WEATHER], False), CALL + behind)


def test_the_header_of_a_call_is_no_part_of_the_broken_one_before_it() -> None:
    opens = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
    text = f'{opens}{{"city": "Paris", "days"{opens}{{"city": "Paris", "days": 2}}<|call|>'

    assert law.conservation(maker("harmony", None, False), text, FAMILIES["harmony"]) == []


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.tables.roles])
def test_a_marker_that_is_dropped_behind_a_call_that_breaks_off_is_no_word_of_the_call(name: str) -> None:
    family = FAMILIES[name]
    call = EXAMPLES.get(name, (("", ""), ""))[1]
    for marker in sorted(family.tables.roles):
        for at in (len(call) // 2, len(call) * 2 // 3, len(call) * 3 // 4):
            for text in (f"{call[:at]} ,{marker}{{}}<", f"{call[:at]}{marker}\n"):
                assert law.conservation(maker(name, [WEATHER], False), text, family) == []


def test_a_marker_that_the_first_piece_of_a_call_comes_within_is_dropped_too() -> None:
    opens = "<|im_end|>\n<|im_start|>assistant -> tool/function_call\n"
    text = f'{opens}[{{"name": "get_weather", "arguments":<|endofturn|>\n'
    family = FAMILIES["hyperclovax_think_14b"]
    assert law.conservation(maker(family.name, None, False), text, family) == []


def test_a_backslash_that_escapes_nothing_takes_no_letter_of_a_word_in_a_call_that_breaks_off() -> None:
    text = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "d\\OOL_CALLS]get_weather[ARGS]{"city": "Parisb <<b'
    assert law.conservation(maker("mistral_v11", None, False), text, FAMILIES["mistral_v11"]) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_name_that_is_too_long_is_read_alike_however_it_is_cut(name: str) -> None:
    call = EXAMPLES[name][1]
    for word in ("get_weather", "city", "arguments", "parameters", "name"):
        for length in (254, 255, 256, 257, 300) if word in call else ():
            for letter in ("k", "\\n", "é"):
                text = f"{call.replace(word, letter * length, 1)}\n{call}"
                make = maker(name, [WEATHER], False)
                whole = law.read(make, [text])
                assert law.read(make, list(text)) == whole, text
                assert law.read(make, [text[at : at + 7] for at in range(0, len(text), 7)]) == whole, text


@pytest.mark.parametrize("name", ["kimi_k2", "deepseek_v31"])
def test_an_empty_section_is_nothing_and_breaks_no_law(name: str) -> None:
    family = FAMILIES[name]
    opener = max(family.tables.calls, key=EXAMPLES[name][1].startswith)
    for closer in getattr(family.calls[0], "section_ends", ()):
        text = f"so {opener}\n{closer} it is"
        assert law.conservation(maker(name, [WEATHER], False), text, family) == []
        assert law.conservation(Forgetful, f"{text}<", family)
