"""Reasoning within a budget: which requests have one, and what is read of a turn that it cuts short."""

import json
from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.pipeline.output.test_processor import ids_of, plan, scored, split, tokenizer
from tests.core.pipeline.prompt.test_prepare import asking, model, prompted
from tests.origins import ORIGINS

from smg_core.engines.base import EngineFacts, EngineOutput, EngineRequest
from smg_core.engines.constraint import Constraint, HoldsFrom
from smg_core.errors import UnsupportedParameter, WorkerGone
from smg_core.events import Event, Finished, ReasoningDelta, ReasoningEnd, TextDelta
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.calls.worker_loss import Move, Moving, Taken
from smg_core.pipeline.fit.fit import FitForIds, fit, reader_for, request_for
from smg_core.pipeline.flow.steps import Chosen, Placement, Stream, TriesLeft
from smg_core.pipeline.flow.tries import Tries
from smg_core.pipeline.output.budget import Budget, BudgetedProcessor, budget_of
from smg_core.pipeline.output.continuing import Inexact, inexact, rest_of
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import FunctionTool, ReasoningSettings, Sampling, SchemaFormat
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.stream import StopMatcher
from smg_core.tokens import TokenIds
from smg_core.workers.settings import WorkersConfig
from smg_parsers import Parser, Reasoning, Text
from smg_parsers.families.models import family

THOUGHT = "one two three four five six"


def budget(api: str, name: str = "qwen3", n: int = 1, **changes: Any) -> Budget | None:
    request = asking(origin=ORIGINS[api], reasoning=ReasoningSettings(budget_tokens=3), sampling=Sampling(n=n))
    return budget_of(request, model(parser=family(name), **changes), tokenizer())


@pytest.mark.parametrize("api", ["messages", "generate_content", "chat"])
def test_the_budget_of_an_api_that_promises_one_is_kept(api: str) -> None:
    made = budget(api)
    assert made is not None
    assert (made.tokens, made.marker, list(made.ids)) == (3, "</think>", ids_of("</think>"))


def test_what_has_no_budget_to_keep_is_left_alone() -> None:
    assert budget("chat", "qwen25", refuses_budget=True) is None  # that is a setting of Messages
    assert budget("generate_content", "qwen25") is None
    assert budget("generate_content", "qwen25", n=2) is None


PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"
TOLD = "{{ thinking_budget }}" + PLAIN


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ({"default": TOLD}, (True, True)),
        ({"default": PLAIN, "tool_use": TOLD}, (False, True)),
        ({"default": TOLD, "tool_use": PLAIN}, (True, False)),
        ({"default": PLAIN, "other": TOLD}, (False, False)),
        ({"default": "{# no thinking_budget #}" + PLAIN}, (False, False)),
    ],
)
def test_the_budget_of_a_chat_request_is_kept_unless_the_template_that_it_gets_tells_it_to_the_model(
    sources: dict[str, str], told: tuple[bool, bool], tools: bool
) -> None:
    template = ChatTemplate(sources)
    settings = ReasoningSettings(budget_tokens=345)
    request = asking(origin=ORIGINS["chat"], reasoning=settings, tools=(FunctionTool("f", "", {}),) if tools else ())
    kept = budget_of(request, model(parser=family("qwen3"), template=template), tokenizer())
    prompt = template.render(request.messages, tools=request.tools, reasoning=settings).text

    assert ("345" in prompt) is told[tools]
    assert (kept is None) is told[tools]


def test_a_budget_for_several_choices_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        budget("generate_content", n=2)
    assert caught.value.param == "reasoning.budget_tokens"


@pytest.mark.parametrize("api", ["messages", "generate_content", "chat"])
@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        (ReasoningSettings(budget_tokens=3), True),
        (ReasoningSettings(budget_tokens=0), False),
        (ReasoningSettings(budget_tokens=3, enabled=False), False),
        (ReasoningSettings(budget_tokens=3, effort="none"), False),
    ],
)
def test_a_budget_for_several_choices_is_no_matter_where_nothing_has_to_be_kept(
    api: str, settings: ReasoningSettings, refused: bool
) -> None:
    request = asking(origin=ORIGINS[api], reasoning=settings, sampling=Sampling(n=2))
    made = prompted(request, model(parser=family("qwen3")))
    if refused:
        with pytest.raises(UnsupportedParameter):
            fit(made, EngineFacts("vllm"))
    else:
        found = fit(made, EngineFacts("vllm"))
        assert isinstance(found, FitForIds)
        assert found.budget is None


def read(ids: Sequence[int], size: int, *, logprobs: bool) -> tuple[BudgetedProcessor, list[Event]]:
    """What is read of a turn whose output begins inside reasoning, up to the budget, and then of the answer to it."""
    served = family("qwen3")
    made = plan(logprobs=logprobs, parser=lambda: Parser(served, tools=[], in_reasoning=True))
    reader = BudgetedProcessor(replace(made, skip_special_tokens=False), 0, Budget(3, "</think>", (7,)))
    events: list[Event] = []
    for output in scored(ids, size) if logprobs else [EngineOutput(ids=ids)]:
        if not reader.cut_short:
            events += reader.feed([output])
    assert reader.cut_short
    reader.resume()
    answer = scored(ids_of("The answer."), 2)
    return reader, [*events, *reader.feed([*answer, EngineOutput(finish="stop")])]


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("logprobs", [False, True])
def test_the_turn_goes_on_behind_the_token_that_uses_up_the_budget(size: int, logprobs: bool) -> None:
    reader, events = read(ids_of(THOUGHT), size, logprobs=logprobs)
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    said = [event for event in events if isinstance(event, TextDelta)]

    assert thought == tokenizer().decode(ids_of(THOUGHT)[:3])
    assert "".join(event.text for event in said) == "The answer."
    assert reader.usage().reasoning_tokens == 3
    if logprobs:
        assert [each.id for event in said for each in event.logprobs] == ids_of("The answer.")


# ------------------------------------------------------------------------------------------- what is held back at the budget

WORDS = st.sampled_from(
    ["word", " word", " END", "\n\n", "\nUser:", "é", "🙂", "🜚", "𓀀", "</thi", "<", " {", '"a"', "think>"]
)
ANSWERED = st.sampled_from(["word", " word", " END", "\n\n", "\nUser:", "é", "🙂", "🜚", " {", '"a"'])
SPOKEN = st.lists(WORDS, min_size=1, max_size=12).map("".join)
STOPS = st.lists(st.lists(WORDS, min_size=1, max_size=3).map("".join), max_size=3, unique=True).map(tuple)


def read_by_parser(text: str) -> tuple[str, str]:
    """The reasoning and the answer in a whole text that begins inside reasoning."""
    parser = Parser(family("qwen3"), tools=[], in_reasoning=True)
    pieces = [*parser.feed(text), *parser.finish()]
    said = ["".join(piece.text for piece in pieces if isinstance(piece, kind)) for kind in (Reasoning, Text)]
    return said[0], said[1]


@given(
    SPOKEN,
    st.lists(ANSWERED, min_size=1, max_size=12).map("".join),
    STOPS,
    st.integers(1, 8),
    st.lists(st.integers(0, 99), max_size=6),
    st.booleans(),
)
def test_what_came_up_to_the_budget_is_reasoning_and_the_answer_is_what_came_behind_it(
    thought: str, answer: str, stops: tuple[str, ...], tokens: int, cuts: list[int], logprobs: bool
) -> None:
    made = plan(stop=stops, logprobs=logprobs, parser=lambda: Parser(family("qwen3"), tools=[], in_reasoning=True))
    marker = ids_of("</think>")
    reader = BudgetedProcessor(replace(made, skip_special_tokens=False), 0, Budget(tokens, "</think>", tuple(marker)))
    events: list[Event] = []
    for piece in split(ids_of(thought), cuts):
        if not reader.cut_short and not reader.done:
            events += reader.feed(scored(piece, 100))
    if not reader.cut_short:
        return  # a stop string ended the turn, or the budget was not used up
    received = list(reader.received())
    reader.resume()
    for piece in split(ids_of(answer), cuts):
        if not reader.done:
            events += reader.feed(scored(piece, 100))
    if not reader.done:
        events += reader.feed([EngineOutput(finish="stop")])

    matcher = StopMatcher(stops)
    kept, matched = matcher.feed(answer)
    kept += "" if matched else matcher.finish()
    closed, _ = read_by_parser(tokenizer().decode(received) + "</think>")
    said = [event for event in events if isinstance(event, TextDelta)]
    assert received == ids_of(thought)[: len(received)]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == closed
    expected = read_by_parser("x</think>" + kept)[1]
    assert "".join(event.text for event in said) == (expected if expected.strip() else "")  # none beside reasoning
    assert [event.matched for event in events if isinstance(event, Finished)] == [matched]
    assert sum(isinstance(event, ReasoningEnd) for event in events) == 1
    if logprobs and stops == ():
        told = [each.id for event in said for each in event.logprobs]
        assert told == ids_of(answer)[len(ids_of(answer)) - len(told) :]


@pytest.mark.parametrize(
    ("thought", "answer", "stops", "tokens"),
    [
        ("first line\n\nsecond", '{"a": 1}', ("\nUser:",), 4),
        ("one two three four", ' four END {"a": 1}', ("three four END",), 3),
        ("🜚𓀀🙂🧬 🜚𓀀🙂🧬", "The answer.", (), 3),
    ],
)
def test_nothing_that_was_held_back_moves_into_the_answer(
    thought: str, answer: str, stops: tuple[str, ...], tokens: int
) -> None:
    made = plan(stop=stops, parser=lambda: Parser(family("qwen3"), tools=[], in_reasoning=True))
    reader = BudgetedProcessor(replace(made, skip_special_tokens=False), 0, Budget(tokens, "</think>", (7,)))
    reader.feed([EngineOutput(ids=ids_of(thought))])
    assert reader.cut_short
    reader.resume()
    events = reader.feed([EngineOutput(ids=ids_of(answer)), EngineOutput(finish="stop")])
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == answer


# ------------------------------------------------------------------------------------- what is left behind the closing marker


def cut_off(marker: Sequence[int]) -> BudgetedProcessor:
    """The reader of a turn that was closed with `marker` behind three tokens."""
    made = plan(parser=lambda: Parser(family("qwen3"), tools=[], in_reasoning=True))
    reader = BudgetedProcessor(replace(made, skip_special_tokens=False), 0, Budget(3, "</think>", tuple(marker)))
    reader.feed([EngineOutput(ids=ids_of(THOUGHT))])
    reader.resume()
    return reader


def test_the_marker_that_the_gateway_writes_takes_nothing_of_what_the_model_may_write() -> None:
    prompt, ends = TokenIds([1, 2]), frozenset({8})
    asked = EngineRequest("r", prompt, Sampling(max_tokens=7, min_tokens=5, stop_token_ids=(7,), frequency_penalty=1.0))
    reader = cut_off((7, 8))
    (rest,) = rest_of(asked, EngineFacts("vllm"), reader, ends).requests.values()

    assert rest.input_ids == prompt + TokenIds([*ids_of(THOUGHT)[:3], 7, 8])
    assert (rest.sampling.max_tokens, rest.sampling.min_tokens) == (4, 2)
    assert not {7, 8} & set(rest.sampling.logit_bias or {})


@pytest.mark.parametrize(("context", "left"), [(0, 4), (100, 4), (9, 2), (7, None)])
def test_the_marker_has_its_place_in_the_context(context: int, left: int | None) -> None:
    asked = EngineRequest("r", TokenIds([1, 2]), Sampling(max_tokens=7))
    rest = rest_of(asked, EngineFacts("vllm"), cut_off((7, 8)), frozenset(), context=context)

    assert [each.sampling.max_tokens for each in rest.requests.values()] == ([] if left is None else [left])
    assert rest.ended == ((EngineOutput(finish="length"),) if left is None else ())


# --------------------------------------------------------------------------------- where the call that follows the marker fails

ASKS_FOR_PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OPENED = ChatTemplate("{{ messages[0].content }}<|im_end|>\n<|im_start|>assistant\n<think>\n")


def closing(facts: EngineFacts, on_violation: Literal["report", "error"], **changes: Any) -> tuple[Prompted, FitForIds]:
    """A request with a budget and the format of a person, and its fit for an engine of these facts."""
    request = asking(
        origin=ORIGINS["chat"],
        reasoning=ReasoningSettings(budget_tokens=3),
        response_format=SchemaFormat(ASKS_FOR_PERSON, strict=changes.pop("strict", True)),
        sampling=Sampling(**changes),
    )
    made = prompted(request, model(parser=family("qwen3"), template=OPENED, on_violation=on_violation))
    found = fit(made, facts)
    assert isinstance(found, FitForIds)
    assert found.budget is not None
    return made, found


def closed(found: FitForIds, *answer: int) -> BudgetedProcessor:
    """The reader of a turn that was closed at its budget, and had these ids of the answer then."""
    reader = reader_for(found, 0, keep_ids=False)
    assert isinstance(reader, BudgetedProcessor)
    reader.feed([EngineOutput(ids=ids_of(THOUGHT))])
    assert reader.cut_short
    reader.resume()
    if answer:
        reader.feed([EngineOutput(ids=answer)])
    return reader


EVERY_FACTS = [
    EngineFacts("x", constraints=frozenset({"json_schema", *tags}), holds_from=holds)
    for tags, holds in product(((), ("structural_tag",)), get_args(HoldsFrom))
]


@pytest.mark.parametrize("on_violation", ["report", "error"])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "facts", EVERY_FACTS, ids=lambda each: f"{each.holds_from}-{'tags' if len(each.constraints) > 1 else 'schema'}"
)
def test_what_follows_closed_reasoning_is_held_at_any_engine_as_long_as_it_has_not_begun(
    facts: EngineFacts, strict: bool, on_violation: Literal["report", "error"]
) -> None:
    waits = facts.holds_from in ("as_told", "after_reasoning") or "structural_tag" in facts.constraints
    if strict and on_violation == "report" and not waits:
        return  # refused: the engine can hold no answer behind reasoning
    _, found = closing(facts, on_violation, strict=strict)
    reader = closed(found)
    for _ in range(3):  # one call after another fails
        asked = request_for(found, reader)
        (rest,) = rest_of(asked, facts, reader, frozenset()).requests.values()
        assert isinstance(rest.constraint, Constraint)
        assert (rest.constraint.kind, json.loads(rest.constraint.value)) == ("json_schema", ASKS_FOR_PERSON)
        assert not rest.after_reasoning
        assert inexact(asked, facts, reader) == ()
        reader.resume()

    begun = closed(found, 7)
    asked = request_for(found, begun)
    (rest,) = rest_of(asked, facts, begun, frozenset()).requests.values()
    assert rest.constraint is None
    assert inexact(asked, facts, begun) == (("constraint",) if strict else ())


def test_a_call_behind_the_marker_is_made_anew_as_it_was_also_with_a_seed_and_penalties() -> None:
    asked: dict[str, Any] = {"seed": 5, "temperature": 1.0, "presence_penalty": 1.0}
    _, found = closing(EVERY_FACTS[-1], "error", **asked)

    for answer, reasons in ((), ()), ((7,), ("constraint", "seed", "penalties")):
        reader = closed(found, *answer)
        assert inexact(request_for(found, reader), EVERY_FACTS[-1], reader) == reasons


def test_a_model_that_writes_the_marker_itself_behind_its_answer_has_spoken_last() -> None:
    _, found = closing(EVERY_FACTS[-1], "error", max_tokens=9)
    marker = ids_of("</think>")
    asked = EngineRequest(
        "r", TokenIds([1, 2]), Sampling(stop_token_ids=(marker[-1],)), constraint=Constraint("regex", "a*")
    )
    reader = closed(found, 7, *marker)
    rest = rest_of(asked, EngineFacts("vllm"), reader, frozenset())

    assert rest.ended == (EngineOutput(finish="stop", matched=marker[-1]),)
    assert inexact(asked, EngineFacts("vllm"), reader) == ("constraint",)


class Roomy:
    """Knows that others have room for everything."""

    def room(self, step: object) -> tuple[float, float]:
        return 9, 999

    def lost_with(self, worker: object, began: float, now: float) -> bool:
        return False


@pytest.mark.parametrize(("answer", "reasons"), [((), ()), ((7,), ("constraint",))])
def test_who_decides_whether_a_turn_goes_on_looks_at_what_holds_behind_the_marker(
    answer: tuple[int, ...], reasons: tuple[Inexact, ...]
) -> None:
    facts = EVERY_FACTS[0]  # holds nothing to the format where reasoning comes first
    made, found = closing(facts, "error")
    assert found.request.constraint is None
    worker: Any = SimpleNamespace(name="a", facts=facts)
    reader, chosen, ends = closed(found, *answer), Chosen(worker), WorkersConfig(migrate_constrained="end")

    tries = Tries(1, ends)
    error = WorkerGone("The engine is gone.")
    failed = Turn((), reader.usage(), error=error, reader=reader, received=reader.tokens_received)
    assert tries.failed_with(failed, error, Placement((chosen,)), committed=True) == "on"
    assert tries.differs(made, Placement((chosen,))) == reasons
    assert tries.may_differ(reasons) is not bool(answer)

    receiver: Any = SimpleNamespace(take=lambda events, over: None)
    answering: Any = SimpleNamespace(committed=True)
    step = Stream(made, chosen, after=TriesLeft(retries=1, migrations=1, settings=ends))
    move = Move(step, Attempt(reader, receiver), answering)
    assert Moving(Roomy()).may(move, worker, Taken()) is not bool(answer)
