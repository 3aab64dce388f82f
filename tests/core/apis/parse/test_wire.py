"""`/parse/reasoning` and then `/parse/function_call` find what an answer's own parser finds, also where reasoning has no end."""

import json
from typing import Any

import pytest
from tests.parsers.examples import EXAMPLES, WEATHER

from smg_core.apis.parse.wire import parse_function_call, parse_reasoning
from smg_core.wire.settings import LimitsConfig
from smg_parsers import FAMILIES, CallArguments, CallStart, Parser, Piece, Reasoning

THINKING = [name for name, (opens, _) in EXAMPLES.items() if FAMILIES[name].thinking.opens]


def asked(family: str, text: str, **more: Any) -> bytes:
    return json.dumps({"parser": family, "text": text, "tools": [WEATHER], **more}).encode()


def in_two_steps(family: str, text: str, **more: Any) -> tuple[str, list[tuple[str, str]]]:
    """The reasoning, and the calls that are left in the text."""
    limits = LimitsConfig()
    first = json.loads(parse_reasoning(asked(family, text, **more), limits, lambda name: None))
    second = json.loads(parse_function_call(asked(family, first["normal_text"]), limits, lambda name: None))
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in second["tool_calls"]]
    return first["reasoning_text"] + second["reasoning_text"], calls


def at_once(family: str, text: str, in_reasoning: bool | None) -> tuple[str, list[tuple[str, str]]]:
    pieces: list[Piece] = Parser.for_family(family, tools=[WEATHER], in_reasoning=in_reasoning).parse(text)
    names = [piece.name for piece in pieces if isinstance(piece, CallStart)]
    arguments = [piece.delta for piece in pieces if isinstance(piece, CallArguments)]
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, Reasoning))
    return reasoning, list(zip(names, arguments, strict=True))


@pytest.mark.sampled(per=("family",))
@pytest.mark.parametrize("family", THINKING)
@pytest.mark.parametrize("ends", [True, False])
def test_two_steps_find_what_one_parser_finds(family: str, ends: bool) -> None:
    (opens, closes), call = EXAMPLES[family]
    opened = "" if FAMILIES[family].thinking.opens_in_prompt else opens
    text = f"{opened}Let me see.{closes if ends else chr(10)}{call}"
    reasoning, calls = at_once(family, text, None)

    assert len(calls) == 1
    assert in_two_steps(family, text) == (reasoning, calls)


@pytest.mark.parametrize("family", EXAMPLES)
def test_two_steps_find_the_calls_of_an_answer_without_reasoning(family: str) -> None:
    call = EXAMPLES[family][1]
    assert in_two_steps(family, call, in_reasoning=False) == at_once(family, call, False)


def test_calls_are_found_in_a_text_from_which_nobody_has_taken_the_reasoning() -> None:
    call = EXAMPLES["deepseek_r1"][1]
    told = json.loads(
        parse_function_call(asked("deepseek_r1", f"why</think>Hi. {call}"), LimitsConfig(), lambda _: None)
    )
    assert (told["reasoning_text"], told["remaining_text"], len(told["tool_calls"])) == ("why", "Hi. ", 1)
    told = json.loads(parse_function_call(asked("deepseek_r1", f"Hi. {call}"), LimitsConfig(), lambda _: None))
    assert (told["reasoning_text"], told["remaining_text"], len(told["tool_calls"])) == ("", "Hi. ", 1)
