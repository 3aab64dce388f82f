"""What a token costs: how many functions of Python one feed calls, in every family. No clock is read."""

import ast
import sys
from pathlib import Path
from types import FrameType

import pytest

import smg_parsers
from parsers.examples import EXAMPLES, WEATHER
from smg_parsers import FAMILIES, Parser

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
        made += event == "call"

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
