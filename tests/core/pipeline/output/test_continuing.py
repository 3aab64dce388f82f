"""Turns that go on behind the tokens that were received: what the other engine is asked, and that nobody can tell."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.pipeline.output.test_processor import ids_of, plan, split, tokenizer
from tests.tiers import examples

from smg_core.engines.base import EngineFacts, EngineLogprob, EngineOutput, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.events import Event, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from smg_core.pipeline.output.continuing import Rest, inexact, rest_of, within_vocabulary
from smg_core.pipeline.output.plan import OutputPlan
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_parsers import Parser

FACTS = EngineFacts("vllm")
PROMPT = TokenIds([3, 1, 4, 1, 5, 9, 2])
EOS = next(iter(tokenizer().eos_token_ids))
ENDS = tokenizer().eos_token_ids


def request(**sampling: Any) -> EngineRequest:
    return EngineRequest("r", PROMPT, Sampling(**sampling))


def reader(plan: OutputPlan, *received: Sequence[int]) -> OutputProcessor:
    processor = OutputProcessor(plan, keep_ids=True)
    processor.feed([EngineOutput(index, list(ids)) for index, ids in enumerate(received) if ids])
    return processor


# ------------------------------------------------------------------------------------------- nobody can tell that it went on


@attrs.frozen
class Script:
    """What an engine says in one choice, whoever says it: ids, logprobs of each, and the end."""

    ids: list[int]
    finish: Any
    logprobs: bool

    def outputs(self, index: int, start: int, end: int, cuts: Sequence[int]) -> list[EngineOutput]:
        """The tokens from `start` to `end` in messages that are cut at random, the end if they reach it."""
        found = []
        for piece in split(self.ids[start:end], cuts):
            scores = [EngineLogprob(token, -token / 7, ((token, -token / 7),)) for token in piece]
            found.append(EngineOutput(index, piece, logprobs=scores if self.logprobs else (), prompt_tokens=7))
        if end == len(self.ids):
            found.append(EngineOutput(index, (), self.finish, prompt_tokens=7))
        return found


def told(events: Sequence[Event]) -> dict[Any, list[Any]]:
    """What the events say of each choice, with deltas that follow one another joined. Ids of calls are drawn, so they are left
    out."""
    found: dict[Any, list[Any]] = {}
    for event in events:
        said = found.setdefault(getattr(event, "index", None), [])
        last = said[-1] if said else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            said[-1] = replace(last, text=last.text + event.text, logprobs=(*last.logprobs, *event.logprobs))
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            said[-1] = replace(last, text=last.text + event.text)
        elif isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
            said[-1] = replace(last, arguments=last.arguments + event.arguments)
        else:
            said.append(replace(event, id="") if isinstance(event, ToolCallStart) else event)
    return found


TOOLS = [{"name": name, "parameters": {}} for name in ("f", "g")]


def answering() -> Parser:
    return Parser.for_family("qwen3", tools=TOOLS, in_reasoning=False)


def reasoning() -> Parser:
    return Parser.for_family("qwen3", tools=TOOLS, in_reasoning=True)


TEXTS = st.sampled_from(
    [
        "one two three four five six",
        "žluťoučký 🎉🇨🇿 kůň, 你好 and so on",
        "so END and more",
        '<tool_call>\n{"name": "f", "arguments": {"x": [1, 2, {"y": "é"}]}}\n</tool_call>',
        (
            'Well. <tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {"a": 1}}\n'
            "</tool_call>"
        ),
        "<think>\nLet me see, END or not.\n</think>\n\nThe answer is 4.",
        "   ",
        "",
    ]
) | st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace").decode())
CUTS = st.lists(st.integers(0, 200), max_size=4)


@settings(max_examples=examples(150))
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=3),
    finish=st.sampled_from(["stop", "length"]),
    places=st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=3),
    cuts=CUTS,
    stop=st.sampled_from([(), ("END",), (" four five",)]),
    parser=st.sampled_from([None, answering, reasoning]),
    logprobs=st.booleans(),
)
def test_a_turn_that_goes_on_anywhere_tells_what_one_engine_would_have_told(
    texts: list[str],
    finish: str,
    places: list[list[int]],
    cuts: list[int],
    stop: tuple[str, ...],
    parser: Any,
    logprobs: bool,
) -> None:
    reading = plan(stop=stop, choices=len(texts), parser=parser, logprobs=logprobs)
    scripts = [Script(ids_of(text), finish, logprobs) for text in texts]
    asked = request(n=len(texts), stop=stop, max_tokens=500, min_tokens=2)
    alone = OutputProcessor(reading)
    undisturbed = [
        event
        for index, script in enumerate(scripts)
        for output in script.outputs(index, 0, len(script.ids), cuts)
        for event in alone.feed([output])
    ]

    processor, events = OutputProcessor(reading, keep_ids=True), list[Event]()
    pending, begun = dict.fromkeys(range(len(scripts)), asked), False
    for lost in [*places, None]:
        if begun:
            processor.resume()
            rest = rest_of(asked, FACTS, processor, ENDS)
            events += processor.feed(rest.ended)
            pending = dict.fromkeys(pending, rest.requests[0]) if rest.requests.get(0) is asked else rest.requests
        for index, each in pending.items():
            script, done = scripts[index], len(processor.received(index))
            assert list(each.input_ids) == [*PROMPT, *script.ids[:done]]
            assert each.sampling.max_tokens == 500 - done
            assert (each.sampling.min_tokens or 0) == max(0, 2 - done)
            end = len(script.ids) if lost is None else min(done + lost[index], max(len(script.ids) - 1, 0))
            for output in script.outputs(index, done, end, cuts) if end >= done else ():
                events += processor.feed([output])
        begun = True

    assert told(events) == told(undisturbed)
    assert processor.done
    if not any(each.matched for each in alone.finishes):  # of a message with a stop string, all tokens are counted
        assert processor.usage() == alone.usage()


# --------------------------------------------------------------------------------------------------- what is still to do


def test_a_turn_of_which_nothing_came_is_asked_for_as_it_was() -> None:
    asked = request(n=2, seed=4)

    assert rest_of(asked, FACTS, reader(plan(choices=2)), ENDS) == Rest((), {0: asked})


@pytest.mark.parametrize(
    ("ids", "size", "trusted"), [((1, 7), 8, True), ((1, 8), 8, False), ((1, 8), 0, True), ((), 8, True)]
)
def test_ids_beyond_the_vocabulary_are_not_to_be_sent_to_another_engine(
    ids: Sequence[int], size: int, trusted: bool
) -> None:
    assert within_vocabulary(reader(OutputPlan(tokenizer(), len(PROMPT)), ids), size) is trusted


def test_choices_go_on_in_requests_of_their_own_with_ids_and_seeds_of_their_own() -> None:
    rest = rest_of(request(n=3, seed=4), FACTS, reader(plan(choices=3), [7], [8, 9]), ENDS)

    assert [each.id for each in rest.requests.values()] == ["r", "r-1", "r-2"]
    assert [each.sampling.seed for each in rest.requests.values()] == [4, 5, 6]
    assert [list(each.input_ids[7:]) for each in rest.requests.values()] == [[7], [8, 9], []]
    assert {each.sampling.n for each in rest.requests.values()} == {1}


@pytest.mark.parametrize(
    ("sampling", "received", "end"),
    [
        ({}, [7, EOS], EngineOutput(finish="stop")),
        ({"ignore_eos": True}, [7, EOS], None),
        ({"min_tokens": 2}, [7, EOS], None),
        ({"min_tokens": 1}, [7, EOS], EngineOutput(finish="stop")),
        ({"stop_token_ids": (9,)}, [7, 9], EngineOutput(finish="stop", matched=9)),
        ({"stop_token_ids": (9,), "ignore_eos": True}, [7, 9], EngineOutput(finish="stop", matched=9)),
        ({"max_tokens": 2}, [7, 8], EngineOutput(finish="length")),
        ({"max_tokens": 2}, [7, EOS], EngineOutput(finish="stop")),
        ({"max_tokens": 3}, [7, 8], None),
    ],
)
def test_an_end_that_an_engine_did_not_live_to_say_is_known_from_its_last_token(
    sampling: dict[str, Any], received: list[int], end: EngineOutput | None
) -> None:
    rest = rest_of(request(**sampling), FACTS, reader(plan(), received), ENDS)

    assert rest.ended == (() if end is None else (end,))
    assert bool(rest.requests) == (end is None)


# ------------------------------------------------------------------------------------------------------ what could differ


@pytest.mark.parametrize(
    ("sampling", "facts", "constraint", "reasons"),
    [
        ({}, FACTS, None, ()),
        ({"seed": 1}, FACTS, None, ("seed",)),
        ({"seed": 1, "temperature": 0.0}, FACTS, None, ()),
        ({"frequency_penalty": 0.5}, FACTS, None, ()),
        ({"frequency_penalty": 0.5, "repetition_penalty": 1.0}, FACTS, None, ()),
        ({"frequency_penalty": 0.5, "repetition_penalty": 1.2}, FACTS, None, ("penalties",)),
        ({"frequency_penalty": 0.5}, EngineFacts("trtllm", logit_bias=False), None, ("penalties",)),
        ({"repetition_penalty": 1.2}, FACTS, None, ()),
        ({"presence_penalty": -0.5}, FACTS, None, ("penalties",)),
        ({}, FACTS, Constraint("json_object", binding=False), ()),
        ({"seed": 1, "presence_penalty": 1.0}, FACTS, Constraint("regex", "a*"), ("constraint", "seed", "penalties")),
    ],
)
def test_what_another_engine_cannot_do_as_the_first_would_have_is_named(
    sampling: dict[str, Any], facts: EngineFacts, constraint: Constraint | None, reasons: tuple[str, ...]
) -> None:
    asked = replace(request(**sampling), constraint=constraint)

    assert inexact(asked, facts, reader(plan(), [7, 8, 9])) == reasons
    assert inexact(asked, facts, reader(plan())) == ()


def test_the_penalty_for_what_was_said_is_told_as_a_bias() -> None:
    asked = request(frequency_penalty=0.5, presence_penalty=0.25, logit_bias={8: 1.0, 11: 2.0})
    (rest,) = rest_of(asked, FACTS, reader(plan(), [8, 9, 8]), ENDS).requests.values()

    assert rest.sampling.logit_bias == {8: 1.0 - 1.25, 9: -0.75, 11: 2.0}


def test_the_rest_is_asked_for_without_a_constraint_that_would_begin_anew() -> None:
    asked = replace(request(), constraint=Constraint("regex", "a*"))
    begun = reader(plan(), [8])

    waiting = replace(asked, after_reasoning=True)
    for each in (asked, waiting):
        rest = rest_of(each, FACTS, begun, ENDS).requests[0]
        assert (rest.constraint, rest.after_reasoning) == (None, False)


def test_logprobs_of_the_prompt_are_not_asked_for_again() -> None:
    asked = request(prompt_logprobs=2, echo=True)

    assert rest_of(asked, FACTS, reader(plan(), [8]), ENDS).requests[0].sampling.prompt_logprobs is None
