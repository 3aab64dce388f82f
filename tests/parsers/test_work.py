"""What a token costs: how many functions of Python one feed calls, in every family. No clock is read."""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import pytest

import smg_parsers
from parsers.examples import EXAMPLES, WEATHER
from smg_parsers import FAMILIES, Parser, Piece
from smg_parsers.lab.laws import Counted

STEP = 4
FEEDS = 100
WORDS = ("The weather in Paris is mild today with a light breeze from the west. " * 20)[: FEEDS * STEP]


def calls(name: str, begin: str, text: str, *, thinks: bool = False) -> int:
    """How many functions are called for a text behind `begin`, a few characters at a time."""
    parser = Parser.for_family(name, tools=[WEATHER], in_reasoning=thinks, call_id=lambda: "call")
    for at in range(0, len(begin), STEP):
        parser.feed(begin[at : at + STEP])
    made = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal made
        made += event == "call" and frame.f_globals.get("__name__", "").startswith("smg_parsers")

    sys.setprofile(profile)
    try:
        for at in range(0, len(text), STEP):
            parser.feed(text[at : at + STEP])
    finally:
        sys.setprofile(None)
    return made


def in_a_value(name: str) -> str:
    """A call of the family's, up to the middle of a value."""
    call = EXAMPLES[name][1]
    return call[: call.index("Paris")] + WORDS[:40]


PLAIN = 3
"""`feed`, what reads the text, and the piece."""
NOTED = ("command_r", "command_a", "granite3", "cohere_north")
"""Families whose answers cite, so that positions in them are counted: one call more."""
IN_A_VALUE = {"JsonCalls": 3, "BlockCalls": 3, "HarmonyCalls": 3, "TypedBlocks": 3, "RoleCalls": 3} | {
    "PythonCalls": 4, "RecordCalls": 4, "NamedChannels": 4, "XmlCalls": 6, "AddressedCalls": 6, "ChannelCalls": 6,
}  # fmt: skip
ODD = {
    "llama3": 3,  # JSON is what these two write
    "longcat": 3,
    "sarashina": 6,  # a Python literal within which JSON is read
    "hyperclovax_think": 12,  # its strings stand in quotes, so that they are held until they are whole
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_token_of_prose_and_of_reasoning_costs_three_calls(name: str) -> None:
    # Where a marker begins with a letter, each of those in a text is looked at.
    prose = WORDS.replace("f", "v") if name in ("phi4", "gigachat3") else WORDS
    wanted = (PLAIN + (name in NOTED)) * FEEDS

    assert calls(name, WORDS[:40], prose) == wanted
    assert calls(name, WORDS[:40], prose, thinks=True) == wanted


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_token_of_a_long_argument_costs_a_few_calls(name: str) -> None:
    if not EXAMPLES[name][1]:
        return
    kind = type(FAMILIES[name].calls[0]).__name__

    assert calls(name, in_a_value(name), WORDS) == ODD.get(name, IN_A_VALUE[kind]) * FEEDS


def test_no_container_is_made_by_calling_a_generic_alias() -> None:
    """`list[Piece]()` takes fifteen times as long as `[]`, and no profile shows it."""
    for path in Path(smg_parsers.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                made = ast.unparse(node)
                assert not made.startswith(("list[", "dict[", "set[", "tuple[", "deque[")), f"{path.name}: {made}"


SIZES = (10_000, 30_000)


def adversarial(name: str) -> Iterator[tuple[str, str]]:
    """What is fed first, and what then comes again and again: openings, half tags and ends, in the answer and in a long value."""
    (opens, _), call = EXAMPLES[name]
    tables = FAMILIES[name].tables
    markers = sorted({*tables.roles, *tables.calls, *tables.closers}, key=lambda marker: (-len(marker), marker))[:3]
    begin = call[: call.index("Paris")] if call else opens
    for unit in (*markers, *(marker[:-1] or marker for marker in markers), "<", '{"', "\n"):
        yield "", unit
        yield begin, unit
    if call:
        yield from (
            ("", call + "\n"),
            ("", call[: len(call) // 3]),
            (begin, call + "\n"),
            (begin, call[: len(call) // 2] + "\n"),
        )
        yield from ((begin, call[len(begin) :] + "\n"), (begin, '\\"'), (begin, '" '))


def work(name: str, begin: str, unit: str, size: int) -> int:
    """The functions that are called, and the characters that are looked at, for a text of this size."""
    parser = Parser.for_family(name, tools=[WEATHER], in_reasoning=False)
    text = begin + (unit * (size // len(unit) + 1))[:size]
    chunks = [Counted(text[at : at + 50]) for at in range(0, len(text), 50)]
    made, Counted.looked = 0, 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal made
        made += event == "call" and frame.f_globals.get("__name__", "").startswith("smg_parsers")

    sys.setprofile(profile)
    try:
        for chunk in chunks:
            parser.feed(chunk)
        parser.finish()
    finally:
        sys.setprofile(None)
    return 20 * made + Counted.looked


def grows(name: str, cases: Sequence[tuple[str, str]]) -> list[str]:
    """What costs more than three and a half times as much where the text is three times as long."""
    return [
        f"{begin!r} {unit!r}: {few} and {many}"
        for begin, unit in cases
        if (many := work(name, begin, unit, SIZES[1])) > 3.5 * (few := work(name, begin, unit, SIZES[0]))
    ]


@pytest.mark.full
@pytest.mark.parametrize("name", ["qwen3", "qwen35", "kimi_k2", "pythonic"])
def test_a_long_text_costs_no_more_for_each_character_than_a_short_one(name: str) -> None:
    assert not grows(name, list(adversarial(name))[::4])


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_long_text_costs_no_more_for_each_character_than_a_short_one_in_any_family(name: str) -> None:
    assert not grows(name, list(adversarial(name)))


class Rereads(Parser):
    """Looks at all it was given at every feed."""

    def feed(self, text: str) -> list[Piece]:
        self.seen = getattr(self, "seen", Counted("")) + text
        self.seen.find("<never>")
        return super().feed(text)


def test_a_parser_that_looks_at_all_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.Parser", Rereads)
    assert grows("qwen3", [("", "a")])
