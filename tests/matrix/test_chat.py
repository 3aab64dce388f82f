"""Chat Completions: every feature on every engine, streamed and whole, by the official SDK.

What comes of a cell is one of three: it works, as the feature's check says; it is refused with a 400 that names what this engine
cannot do; or the engine never says the number that is checked. Anything else fails. docs/matrix.md is made of the results.
"""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from tests.gateway.vision_models import audio_part, clip, image_part, picture, sound, text_part, video_part
from tests.matrix.conftest import ENGINES
from tests.matrix.features import FEATURES, Answered, Choice, Feature, checked

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]


def _messages(feature: Feature) -> list[Any]:
    media: dict[str, Callable[[], dict[str, Any]]] = {
        "picture": lambda: image_part(picture(56, 56)),
        "clip": lambda: video_part(clip(56, 56, 4)),
        "recording": lambda: audio_part(sound(0.5)),
    }
    if feature.model not in media:
        return list(feature.messages)
    return [{"role": "user", "content": [media[feature.model](), text_part("Say the shapes.")]}]


async def _whole(client: openai.AsyncOpenAI, asked: dict[str, Any]) -> Answered:
    answer = await client.chat.completions.create(**asked)
    found = Answered([])
    for choice in answer.choices:
        message = choice.message
        calls = [_call(each) for each in message.tool_calls or ()]
        if message.function_call is not None:
            calls.append((message.function_call.name, message.function_call.arguments))
        tokens = (choice.logprobs.content if choice.logprobs is not None else None) or []
        found.choices.append(
            Choice(
                message.content or "",
                getattr(message, "reasoning_content", None) or "",
                calls,
                [each.token for each in tokens],
                min((len(each.top_logprobs) for each in tokens), default=0),
                choice.finish_reason,
            )
        )
    _count(found, answer.usage)
    return found


def _call(call: Any) -> tuple[str, str]:
    return (
        (call.function.name, call.function.arguments)
        if call.type == "function"
        else (call.custom.name, call.custom.input)
    )


def _count(found: Answered, usage: Any) -> None:
    found.prompt_tokens, found.completion_tokens = usage.prompt_tokens, usage.completion_tokens
    if usage.prompt_tokens_details is not None:
        found.cached_tokens = usage.prompt_tokens_details.cached_tokens or 0
    if usage.completion_tokens_details is not None:
        found.reasoning_tokens = usage.completion_tokens_details.reasoning_tokens or 0


async def _streamed(client: openai.AsyncOpenAI, asked: dict[str, Any]) -> Answered:
    found = Answered([Choice() for _ in range(asked.get("n", 1))])
    stream = await client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    async for chunk in stream:
        if chunk.usage is not None:
            _count(found, chunk.usage)
        for each in chunk.choices:
            _add(found.choices[each.index], each)
    return found


class Custom:
    """A piece of a custom tool's call, which the SDK's type of a delta has no field for, as one of a function."""

    def __init__(self, delta: Any) -> None:
        found = (delta.model_extra or {})["custom"]
        self.name, self.arguments = found.get("name"), found.get("input")


def _add(choice: Choice, piece: Any) -> None:
    choice.text += piece.delta.content or ""
    choice.reasoning += getattr(piece.delta, "reasoning_content", None) or ""
    choice.finish = piece.finish_reason or choice.finish
    calls = list(piece.delta.tool_calls or ())
    for at, function in [(each.index, each.function or Custom(each)) for each in calls] + [
        (0, piece.delta.function_call)
    ] * (piece.delta.function_call is not None):
        while len(choice.calls) <= at:
            choice.calls.append(("", ""))
        name, arguments = choice.calls[at]
        choice.calls[at] = (name + (function.name or ""), arguments + (function.arguments or ""))
    tokens = (piece.logprobs.content if piece.logprobs is not None else None) or []
    for token in tokens:
        choice.tokens.append(token.token)
        choice.alternatives = len(token.top_logprobs)


async def _answered_or_refused(
    client: openai.AsyncOpenAI, ask: Callable[..., Any], asked: dict[str, Any], times: int
) -> tuple[Answered | None, str]:
    """The last answer, or the parameter that a refusal names."""
    try:
        return [await ask(client, asked) for _ in range(times)][-1], ""
    except openai.BadRequestError as refusal:
        return None, refusal.param or ""


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_feature_works_or_is_refused_by_name(
    engine: str,
    way: str,
    feature: Feature,
    served: Callable[[str, str], Any],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Chat Completions", feature.name, engine, way))
    gateway, simulated = await served(engine, feature.model)
    if feature.reply is not None and feature.model == "text":
        fans_out = next(iter(gateway.registry)).facts.fans_out
        simulated.say(*[feature.reply] * (feature.fields.get("n", 1) if fans_out else 1 + feature.twice))
    http = gateway.http_client(openai)
    async with openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0) as client:
        extras = {name: value for name, value in feature.fields.items() if name not in OPENAI}
        asked: dict[str, Any] = {"model": "sim", "messages": _messages(feature), "extra_body": extras}
        asked |= {name: value for name, value in feature.fields.items() if name in OPENAI}
        ask = _whole if way == "whole" else _streamed
        answered, refused = await _answered_or_refused(client, ask, asked, 1 + feature.twice)
    if answered is None:
        assert refused, "a refusal must name what it is about"
        while simulated.engine.script.next() is not None:
            pass  # what it would have said is not for the next cell
        record_property("result", f"400: {refused}")
        return
    record_property("result", checked(feature, engine, answered))


OPENAI = frozenset(
    {
        *("max_tokens", "stop", "n", "temperature", "top_p", "logprobs", "top_logprobs", "logit_bias", "seed"),
        *("frequency_penalty", "presence_penalty", "tools", "tool_choice", "parallel_tool_calls", "functions"),
        "response_format",
    }
)
"""Fields that the SDK has arguments for; the others travel in its `extra_body`."""
