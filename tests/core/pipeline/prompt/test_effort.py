"""Effort, level and budget on every family that reasons, through every API: what each becomes, and what holds it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.core.pipeline.prompt.test_prepare import asking, model, prompted
from tests.origins import ORIGINS

from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.gemini.decode import decode_generate
from smg_core.apis.interactions.decode import interaction_decoder
from smg_core.apis.messages.decode import decode_messages
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.engines.base import EngineFacts
from smg_core.pipeline.fit.fit import FitForIds, fit
from smg_core.pipeline.output.budget import Budget
from smg_core.pipeline.prompt.effort import with_effective_effort
from smg_core.pipeline.prompt.reasoning_state import pairs_of
from smg_core.request import EFFORT_TOKENS, ReasoningSettings, Sampling
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.efforts import LEVELS
from smg_core.wire.base import Incoming
from smg_parsers.families.models import family, names

TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
REASONING = [name for name in names() if family(name).thinking.closes]
HELLO = {"role": "user", "content": "Hello"}


def generate(level: str) -> Any:
    config = {"thinkingConfig": {"thinkingLevel": level.upper()}}
    body = {"contents": [{"parts": [{"text": "Hello"}]}], "generationConfig": config}
    return decode_generate(Incoming(json.dumps(body).encode(), "r", {"model": "m"}))


def body_of(**fields: Any) -> Incoming:
    return Incoming(json.dumps({"model": "m", **fields}).encode(), "r")


APIS: Mapping[str, Any] = {
    "chat": lambda level: decode_chat(body_of(messages=[HELLO], reasoning_effort=level)),
    "responses": lambda level: decode_responses(body_of(input="Hello", reasoning={"effort": level})),
    "messages": lambda level: decode_messages(
        body_of(messages=[HELLO], max_tokens=100_000, output_config={"effort": level})
    ),
    "generate_content": generate,
    "interactions": lambda level: interaction_decoder("steps")(
        body_of(input="Hello", generation_config={"thinking_level": level})
    ),
}
WORDS = {
    "chat": LEVELS,
    "responses": LEVELS,
    "messages": ("low", "medium", "high", "xhigh", "max"),
    "generate_content": ("minimal", "low", "medium", "high", "xhigh"),
    "interactions": ("minimal", "low", "medium", "high", "xhigh"),
}


def made(
    name: str, settings: ReasoningSettings, template: str, api: str = "chat", **sampling: Any
) -> tuple[str, str, Budget | None]:
    """The level in effect on a family with that template, its prompt and its budget."""
    served = model(parser=family(name), template=ChatTemplate(template), context_length=0)
    request = asking(origin=ORIGINS[api], reasoning=settings, sampling=Sampling(**sampling))
    request = with_effective_effort(request, served)
    found = fit(prompted(request, served), EngineFacts("vllm"))
    assert isinstance(found, FitForIds)
    return request.reasoning.effort or "", prompted(request, served).text, found.budget


@pytest.mark.sampled(keep=30)
@pytest.mark.parametrize("name", REASONING)
@pytest.mark.parametrize("api", APIS)
def test_a_level_does_something_on_every_family_that_reasons(name: str, api: str) -> None:
    for word in WORDS[api]:
        settings = APIS[api](word).generation.reasoning
        assert settings.effort == word

        level, _, budget = made(name, settings, TURNS, api)
        expected = 0 if word == "none" else EFFORT_TOKENS.get(word)
        assert level == word
        assert (None if budget is None else budget.tokens) == expected

        level, text, budget = made(name, settings, TURNS + "{{ enable_thinking }}", api)
        off = word in ("none", "minimal")
        assert (level, text.rpartition("\n")[2]) == ("none" if off else word, str(not off))
        assert (None if budget is None else budget.tokens) == (None if off else expected)

        level, text, budget = made(name, settings, TURNS + "{{ reasoning_effort }}", api)
        told = {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}.get(word, word)
        assert (level, text.rpartition("\n")[2], budget) == (told, told, None)


@pytest.mark.sampled(keep=53)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", [each for each in names() if not pairs_of(family(each)) and not family(each).headed])
def test_a_level_does_nothing_on_a_family_that_does_not_reason(name: str, api: str) -> None:
    for word in WORDS[api]:
        plain = made(name, ReasoningSettings(), TURNS, api)
        level, text, budget = made(name, APIS[api](word).generation.reasoning, TURNS, api)
        assert (level, text, budget) == ("none", plain[1], None)


@pytest.mark.parametrize(
    ("template", "becomes"),
    [
        # each word becomes the nearest lower one of those that the template knows, where it refuses the others
        (
            "{% if reasoning_effort not in ['none', 'high'] %}{{ raise_exception('no') }}{% endif %}{{ reasoning_effort }}",
            {"none": "none", "minimal": "none", "medium": "none", "high": "high", "max": "high"},
        ),
        # where it goes on without them, a word below all that it knows stays, and is a budget
        (
            "{% if reasoning_effort == 'max' %}Think as long as you can.{% endif %}",
            {"none": "none", "low": "low", "high": "high", "max": "max"},
        ),
        (
            "{% if thinking %}{% if reasoning_effort == 'low' %}a{% elif reasoning_effort == 'high' %}b{% endif %}{% endif %}",
            {"none": "none", "minimal": "none", "low": "low", "medium": "low", "xhigh": "high"},
        ),
    ],
)
def test_a_level_that_a_template_lacks_becomes_the_nearest_lower_one(template: str, becomes: dict[str, str]) -> None:
    found = {word: made("qwen3", ReasoningSettings(effort=word), TURNS + template)[0] for word in becomes}
    assert found == becomes


def test_a_level_takes_at_most_half_of_the_tokens_of_the_answer() -> None:
    for most, tokens in ((100, 50), (100_000, 4096)):
        budget = made("qwen3", ReasoningSettings(effort="medium"), TURNS, max_tokens=most)[2]
        assert budget is not None
        assert budget.tokens == tokens


def test_a_template_is_told_the_tokens_that_a_level_stands_for() -> None:
    told = made("qwen3", ReasoningSettings(effort="low"), TURNS + "{{ thinking_budget }}")[1]
    assert told.endswith("\n1024")


def test_nothing_is_refused_for_a_level_where_several_choices_are_asked_for() -> None:
    assert made("qwen3", ReasoningSettings(effort="low"), TURNS, n=2)[2] is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (ReasoningSettings(budget_tokens=100), "low"),
        (ReasoningSettings(budget_tokens=5000, enabled=True), "medium"),
        (ReasoningSettings(budget_tokens=50_000), "high"),
        (ReasoningSettings(enabled=False), "low"),
        (ReasoningSettings(enabled=False, effort="high"), "none"),
    ],
)
def test_a_budget_or_a_switch_becomes_a_level_where_the_family_knows_only_these(
    settings: ReasoningSettings, told: str
) -> None:
    assert made("harmony", settings, TURNS + "{{ reasoning_effort }}", "messages")[0] == told
