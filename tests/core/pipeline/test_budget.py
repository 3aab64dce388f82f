"""Reasoning within a budget: which requests have one, and what is read of a turn that it cuts short."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from tests.core.pipeline.test_output import ids_of, plan, scored, tokenizer
from tests.core.pipeline.test_prepare import asking, model

from smg_core.engines.base import EngineOutput
from smg_core.errors import UnsupportedParameter
from smg_core.events import Event, ReasoningDelta, TextDelta
from smg_core.pipeline.budget import Budget, BudgetedProcessor, budget_of
from smg_core.request import Origin, ReasoningSettings, Sampling
from smg_parsers import Parser
from smg_parsers.models import family

THOUGHT = "one two three four five six"


def budget(api: str, name: str = "qwen3", n: int = 1, **changes: Any) -> Budget | None:
    request = asking(origin=Origin(api), reasoning=ReasoningSettings(budget_tokens=3), sampling=Sampling(n=n))
    return budget_of(request, model(parser=family(name), **changes), tokenizer())


@pytest.mark.parametrize("api", ["messages", "generate_content", "chat"])
def test_the_budget_of_an_api_that_promises_one_is_kept(api: str) -> None:
    made = budget(api)
    assert made is not None
    assert (made.tokens, made.marker, list(made.ids)) == (3, "</think>", ids_of("</think>"))


def test_what_has_no_budget_to_keep_is_left_alone() -> None:
    assert budget("chat", tells_budget=True) is None  # its budget is told to the template
    assert budget("chat", "qwen25", refuses_budget=True) is None  # that is a setting of Messages
    assert budget("generate_content", "qwen25") is None
    assert budget("generate_content", "qwen25", n=2) is None


def test_a_budget_for_several_choices_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        budget("generate_content", n=2)
    assert caught.value.param == "reasoning.budget_tokens"


def read(ids: Sequence[int], size: int, *, logprobs: bool) -> tuple[BudgetedProcessor, list[Event]]:
    """What is read of a turn whose output begins inside reasoning, up to the budget, and then of the answer to it."""
    served = family("qwen3")
    made = plan(logprobs=logprobs, parser=lambda: Parser(served, tools=[], in_reasoning=True))
    reader = BudgetedProcessor(attrs.evolve(made, skip_special_tokens=False), 0, Budget(3, "</think>", (7,)))
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
