"""generateContent: every feature on every engine, streamed and whole, by the official SDK.

A cell works, as its check says, or is refused with a 400 that names what this engine cannot do.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import httpx
import pytest
from google import genai
from google.genai import errors, types
from tests.gateway.vision_models import picture
from tests.matrix.features import (
    CALL,
    CALLS,
    COUNTS,
    PERSON,
    WORDS,
    Answered,
    Choice,
    called,
    checked,
    counted,
    ended,
    from_cache,
    is_object,
    is_person,
    matching,
    said,
    shaped,
    spelled,
    thought,
    two_choices,
)

from smg_core import Gateway
from smg_simulator.answers.replies import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

COUNT: dict[str, Any] = {"role": "user", "parts": [{"text": "Count."}]}
LONG: dict[str, Any] = {"role": "user", "parts": [{"text": "word " * 100}]}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ZONE = {
    "type": "object",
    "properties": {"zone": {"type": "string"}},
    "required": ["zone"],
    "additionalProperties": False,
}
WEATHER = {"name": "get_weather", "description": "get_weather", "parametersJsonSchema": CITY}
TIME = {"name": "get_time", "description": "get_time", "parametersJsonSchema": ZONE}
TOOLS = [{"functionDeclarations": [WEATHER, TIME]}]
ONE_TOOL = [{"functionDeclarations": [WEATHER]}]
THINKS = Reply("Yes.", reasoning="Let me see.")
ASKS = {"role": "model", "parts": [{"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "get_weather", "response": {"result": "sunny"}}}]}


def _mode(mode: str, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = {"mode": mode}
    return {"functionCallingConfig": {**found, "allowedFunctionNames": list(names)} if names else found}


def _picture() -> dict[str, Any]:
    return {
        "role": "user",
        "parts": [{"inlineData": {"mimeType": "image/png", "data": picture(56, 56)}}, {"text": "Say the shapes."}],
    }


@attrs.frozen
class Feature:
    """`fields` are the SDK's config; `reply` is what the engine says (None: what it likes); `model` is the kind of model that it
    needs. With `twice`, the check gets the second answer to the same request."""

    name: str
    check: Callable[[Answered], object]
    fields: dict[str, Any] = attrs.field(factory=dict)
    reply: Reply | None = COUNTS
    contents: Callable[[], Sequence[Any]] = lambda: [COUNT]
    model: str = "text"
    twice: bool = False


FEATURES = (
    Feature("text", said(WORDS)),
    Feature("usage", counted),
    Feature("cached tokens", from_cache, twice=True, contents=lambda: [LONG]),
    Feature("systemInstruction", said(WORDS), {"systemInstruction": "Be brief."}),
    Feature("maxOutputTokens", ended("max_tokens", 3), {"maxOutputTokens": 3}),
    Feature("stopSequences", said("one two three "), {"stopSequences": ["four"]}),
    Feature("candidateCount", two_choices, {"candidateCount": 2, "temperature": 1}),
    Feature("responseLogprobs", spelled, {"responseLogprobs": True, "logprobs": 2}),
    Feature("temperature, topP, topK, penalties, seed", said(WORDS), {
            "temperature": 0.5, "topP": 0.5, "topK": 5, "presencePenalty": 1, "frequencyPenalty": 1, "seed": 7}),
    Feature("tools: AUTO", called("get_weather", finish="stop"), {"tools": TOOLS}, CALL),
    Feature("tools: several calls", called("get_weather", "get_time", finish="stop"), {"tools": TOOLS}, CALLS),
    Feature("tools: ANY", called("get_weather", finish="stop"), {"tools": ONE_TOOL, "toolConfig": _mode("ANY")}, None),
    Feature("tools: ANY of some", called("get_time", finish="stop"),
            {"tools": TOOLS, "toolConfig": _mode("ANY", "get_time")}, None),
    Feature("tools: NONE", said(WORDS), {"tools": TOOLS, "toolConfig": _mode("NONE")}),
    Feature("tools: VALIDATED", called("get_weather", finish="stop"),
            {"tools": ONE_TOOL, "toolConfig": _mode("VALIDATED")}, CALL),
    Feature("tools: a result", said(WORDS), {"tools": TOOLS}, contents=lambda: [COUNT, ASKS, RESULT]),
    Feature("tools of Google's servers", said(WORDS), {"tools": [{"googleSearch": {}}]}),
    Feature("thinking: includeThoughts", thought, {"thinkingConfig": {"includeThoughts": True}}, THINKS),
    Feature("thinking: a budget", thought, {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024}}, THINKS),
    Feature("thinking: off", said(WORDS), {"thinkingConfig": {"thinkingBudget": 0}}),
    Feature("JSON", is_object, {"responseMimeType": "application/json"}, None),
    Feature("responseJsonSchema", is_person, {"responseMimeType": "application/json", "responseJsonSchema": PERSON}, None),
    Feature("text/x.enum", matching("red|green"),
            {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["red", "green"]}}, None),
    Feature("pictures", shaped("pixel_values"), {}, None, contents=lambda: [_picture()], model="picture"),
)  # fmt: skip


def add(found: Answered, answer: Any) -> None:
    """Add an answer, or a chunk of one."""
    for candidate in answer.candidates or ():
        place = candidate.index or 0
        while len(found.choices) <= place:
            found.choices.append(Choice())
        choice = found.choices[place]
        for part in candidate.content.parts if candidate.content is not None else ():
            if part.function_call is not None:
                choice.calls.append((part.function_call.name, json.dumps(part.function_call.args)))
            elif part.thought:
                choice.reasoning += part.text
            else:
                choice.text += part.text or ""
        if candidate.logprobs_result is not None:
            choice.tokens += [each.token for each in candidate.logprobs_result.chosen_candidates]
            choice.alternatives = len(candidate.logprobs_result.top_candidates[0].candidates)
        if candidate.finish_reason is not None:
            choice.finish = candidate.finish_reason.value.lower()
    usage = answer.usage_metadata
    found.reasoning_tokens = usage.thoughts_token_count or 0
    found.prompt_tokens = usage.prompt_token_count
    found.completion_tokens = (usage.candidates_token_count or 0) + found.reasoning_tokens
    found.cached_tokens = usage.cached_content_token_count or 0


_clients: dict[int, tuple[httpx.AsyncClient, Any]] = {}


def _client(http: httpx.AsyncClient) -> Any:
    """The SDK over `http`, made once."""
    if id(http) not in _clients:
        options = types.HttpOptions(base_url="http://gateway", api_version="v1beta", httpx_async_client=http)
        _clients[id(http)] = http, genai.Client(api_key="-", http_options=options).aio
    return _clients[id(http)][1]


async def _answer(client: Any, way: str, feature: Feature) -> Answered:
    config = {**feature.fields, "automaticFunctionCalling": {"disable": True}}
    asked: dict[str, Any] = {"model": "sim", "contents": list(feature.contents()), "config": config}
    found = Answered([])
    if way == "whole":
        add(found, await client.models.generate_content(**asked))
    else:
        async for chunk in await client.models.generate_content_stream(**asked):
            add(found, chunk)
    return found


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("engine", ["vLLM", "neutral", "MLX", "chat server"])
async def test_a_feature_works_or_is_refused_by_name(
    engine: str,
    way: str,
    feature: Feature,
    served: Callable[[str, str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("generateContent", feature.name, engine, way))
    gateway, simulated = await served(engine, feature.model)
    if feature.reply is not None:
        simulated.say(*[feature.reply] * max(feature.fields.get("candidateCount", 1), 1 + feature.twice))
    client = _client(called_by(gateway))
    refused: Any = None
    answered = Answered([])
    try:
        for _ in range(1 + feature.twice):
            answered = await _answer(client, way, feature)
    except errors.ClientError as refusal:
        refused = refusal.details
    while simulated.engine.script.next() is not None:
        pass  # what it would have said is not for the next cell
    if refused is None:
        record_property("result", checked(feature, engine, answered))
        return
    (violation,) = refused["error"]["details"][0]["fieldViolations"]
    assert (refused["error"]["code"], bool(violation["field"])) == (400, True)
    record_property("result", f"400: {violation['field']}")
