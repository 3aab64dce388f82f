"""A call that the output's end cuts off before its arguments begin shows no markup, in any family, wherever it is cut."""

from __future__ import annotations

import pytest
from tests.parsers.examples import EXAMPLES, WEATHER
from tests.parsers.splits import fixed_ids, outline, run
from tests.parsers.writers import WRITERS, Call
from tests.parsers.writers.model import calls

from smg_parsers import FAMILIES, CallEnd, CallStart, Parser, Piece, Reasoning, Text, merge

CALLS = {name: call for name, (_, call) in EXAMPLES.items()}
BARE = ("gemma3", "pythonic", "xlam", "json")
"""Families without a marker: only a tool's name says that a call begins."""


def read(family: str, chunks: list[str], *, cut_off: bool = True, keep_calls: bool = False) -> list[Piece]:
    parser = Parser.for_family(
        family, tools=[WEATHER], in_reasoning=False, call_id=lambda: "call", keep_calls=keep_calls
    )
    pieces = [piece for chunk in chunks for piece in parser.feed(chunk)]
    return merge([*pieces, *parser.finish(cut_off=cut_off)])


def spoken(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text | Reasoning))


def first(family: str) -> int:
    """From how many characters on it is certain that a call begins."""
    call = CALLS[family]
    if family in BARE:
        return call.index("get_weather") + 3
    # What ends the message before a call is no part of it. Two characters of a marker may be anything, and so may a word.
    openers = [marker for marker in FAMILIES[family].tables.calls if marker in call]
    begins, opener = min((call.index(marker), marker) for marker in openers)
    return begins + (len(opener) if opener[0].isalpha() else 3)


@pytest.mark.sampled(keep=24)
@pytest.mark.parametrize("family", CALLS)
def test_a_call_that_is_cut_off_anywhere_shows_no_markup_however_it_came(family: str) -> None:
    call = CALLS[family]
    for at in range(first(family), len(call)):
        pieces = read(family, [call[:at]])
        assert spoken(pieces).strip() == "", call[:at]
        assert read(family, list(call[:at])) == pieces, call[:at]


@pytest.mark.parametrize("family", CALLS)
def test_nor_does_a_second_one_and_the_first_is_whole(family: str) -> None:
    call = CALLS[family]
    between = "" if family in ("harmony", "beam", "muse_glimmer", "muse_spark", "hyperclovax_think_14b") else "\n"
    for at in range(first(family), len(call), 3):
        pieces = read(family, [call, between + call[:at]])
        assert spoken(pieces).strip() == "", call[:at]
        assert [piece.index for piece in pieces if isinstance(piece, CallEnd)][:1] == [0]


@pytest.mark.parametrize("family", CALLS)
def test_a_header_that_the_model_itself_ends_behind_is_text_to_the_letter(family: str) -> None:
    call = CALLS[family]
    header = call[: call.index("get_weather") + 3]
    headers = any(spec.headers for spec in FAMILIES[family].calls)
    for keep_calls in (False, True):
        pieces = read(family, [header], cut_off=False, keep_calls=keep_calls)
        assert headers or pieces == [Text(header)]
        assert not any(isinstance(piece, CallStart) for piece in pieces)


@pytest.mark.parametrize("family", ["json", "pythonic", "llama3", "qwen3", "seed_oss", "phi4", "command_a", "gemma3"])
@pytest.mark.parametrize(
    "text", ["See [", "x <", 'As {"answer": 4', "In [2", "`<function", "Use functools", "a [see", "<co"]
)
def test_prose_that_is_cut_off_loses_nothing(family: str, text: str) -> None:
    assert read(family, [text]) == [Text(text)]
    assert read(family, list(text)) == [Text(text)]


@pytest.mark.parametrize("cut_off", [False, True])
def test_what_closes_a_call_is_no_text_where_the_next_header_is_cut_off_or_breaks_off(cut_off: bool) -> None:
    call = CALLS["plamo3"]
    begins = call.index("<|plamo:begin_tool_request:plamo|>")
    request = call[begins : call.index("<|plamo:end_tool_requests:plamo|>")]
    for at in range(len("<|plamo:begin_tool_request:plamo|>"), request.index("get_weather")):
        pieces = read("plamo3", [call[:begins] + request + request[:at]], cut_off=cut_off)
        assert "end_tool" not in spoken(pieces)
        assert cut_off <= (spoken(pieces) == "")
    broken = read("plamo3", [call[:begins] + request + request[:60] + "oops"], cut_off=cut_off)
    assert spoken(broken).startswith("<|plamo:begin_tool_name:ploops")


@pytest.mark.parametrize("family", CALLS)
def test_no_closing_marker_of_a_whole_call_is_text_behind_it_where_the_next_call_breaks_off(family: str) -> None:
    call = CALLS[family]
    at = call.index("get_weather")
    closers = FAMILIES[family].tables.closers
    said = spoken(read(family, [f"{call}{call[:at]}!! and so on"], cut_off=False))
    assert not said.strip().startswith(closers), said


@pytest.mark.parametrize("family", WRITERS)
def test_a_call_that_the_output_is_cut_in_ends_only_with_all_of_its_arguments(family: str) -> None:
    arguments = {"path": "a", "content": "b"}
    properties = {name: {"type": "string"} for name in arguments}
    tools = [{"name": "write_file", "parameters": {"type": "object", "properties": properties}}]
    text = WRITERS[family].render([calls(Call("write_file", arguments))])
    for end in range(1, len(text) + 1):
        parser = Parser.for_family(family, tools=tools, in_reasoning=False, call_id=fixed_ids())
        made = [entry["call"] for entry in outline(run(parser, [text[:end]], cut_off=True)) if "call" in entry]
        assert all(call.get("arguments", arguments) == arguments for call in made), text[:end]
    assert [call["arguments"] for call in made] == [arguments]
