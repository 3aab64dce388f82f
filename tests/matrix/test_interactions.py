"""Interactions: every feature on every engine, streamed and whole, by the official SDK.

A cell works, as its check says, or is refused with a 400 that names what this engine cannot do.
"""

import json
import warnings
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import pytest
from google import genai
from google.genai import types
from google.genai._gaos.lib.compat_errors import APIStatusError
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
    said,
    shaped,
    thought,
)

from smg_core import Gateway
from smg_simulator.answers.replies import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

LONG = "word " * 100
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
WEATHER = {"type": "function", "name": "get_weather", "description": "get_weather", "parameters": CITY}
TIME = {"type": "function", "name": "get_time", "description": "get_time", "parameters": ZONE}
THINKS = Reply("Yes.", reasoning="Let me see.")
TURNS = [
    {"type": "user_input", "content": [{"type": "text", "text": "Count."}]},
    {"type": "function_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Paris"}},
    {"type": "function_result", "call_id": "c1", "name": "get_weather", "result": "sunny"},
]
STATUSES = {"completed": "stop", "incomplete": "length", "requires_action": "tool_calls"}


def _picture() -> list[dict[str, Any]]:
    return [
        {"type": "image", "mime_type": "image/png", "data": b64encode(picture(56, 56)).decode()},
        {"type": "text", "text": "Say the shapes."},
    ]


def _config(**fields: Any) -> dict[str, Any]:
    return {"generation_config": fields}


def _allowed(mode: str, *names: str) -> dict[str, Any]:
    return _config(tool_choice={"allowed_tools": {"mode": mode, "tools": list(names)}})


@attrs.frozen
class Feature:
    """`fields` are those of a request beside model and input; `reply` is what the engine says (None: what it likes); `model` is
    the kind of model that it needs. With `twice`, the check gets the second answer to the same request; with `before`, that
    request continues the first."""

    name: str
    check: Callable[[Answered], object]
    fields: dict[str, Any] = attrs.field(factory=dict)
    reply: Reply | None = COUNTS
    given: Callable[[], Any] = lambda: "Count."
    model: str = "text"
    twice: bool = False
    before: bool = False


FEATURES = (
    Feature("text", said(WORDS)),
    Feature("usage", counted),
    Feature("cached tokens", from_cache, twice=True, given=lambda: LONG),
    Feature("system_instruction", said(WORDS), {"system_instruction": "Be brief."}),
    Feature("previous_interaction_id", said(WORDS), twice=True, before=True),
    Feature("max_output_tokens", ended("length", 3), _config(max_output_tokens=3)),
    Feature("stop_sequences", said("one two three "), _config(stop_sequences=["four"])),
    Feature("temperature, top_p, seed", said(WORDS), _config(temperature=0.5, top_p=0.5, seed=7)),
    Feature("tools: auto", called("get_weather"), {"tools": [WEATHER, TIME]}, CALL),
    Feature("tools: several calls", called("get_weather", "get_time"), {"tools": [WEATHER, TIME]}, CALLS),
    Feature("tools: any", called("get_weather"), {"tools": [WEATHER], **_config(tool_choice="any")}, None),
    Feature("tools: any of some", called("get_time"), {"tools": [WEATHER, TIME], **_allowed("any", "get_time")}, None),
    Feature("tools: none", said(WORDS), {"tools": [WEATHER], **_config(tool_choice="none")}),
    Feature("tools: validated", called("get_weather"), {"tools": [WEATHER], **_config(tool_choice="validated")}, CALL),
    Feature("tools: a result", said(WORDS), {"tools": [WEATHER]}, given=lambda: TURNS),
    Feature("tools of Google's servers", said(WORDS), {"tools": [{"type": "google_search"}]}),
    Feature("thinking: summaries", thought, _config(thinking_summaries="auto"), THINKS),
    Feature("thinking: a level", thought, _config(thinking_summaries="auto", thinking_level="low"), THINKS),
    Feature("JSON", is_object, {"response_format": {"type": "text", "mime_type": "application/json"}}, None),
    Feature(
        "JSON schema",
        is_person,
        {"response_format": {"type": "text", "mime_type": "application/json", "schema": PERSON}},
        None,
    ),
    Feature("pictures", shaped("pixel_values"), {}, None, given=_picture, model="picture"),
)


def _counts(found: Answered, choice: Choice, interaction: Any) -> None:
    usage = interaction.usage
    choice.finish = STATUSES[interaction.status]
    found.reasoning_tokens = usage.total_thought_tokens
    found.prompt_tokens = usage.total_input_tokens
    found.completion_tokens = usage.total_output_tokens + usage.total_thought_tokens
    found.cached_tokens = usage.total_cached_tokens


def _whole(answer: Any) -> Answered:
    choice = Choice()
    found = Answered([choice])
    for step in answer.steps:
        if step.type == "function_call":
            choice.calls.append((step.name, json.dumps(step.arguments)))
        elif step.type == "thought":
            choice.reasoning += "".join(part.text for part in step.summary or ())
        else:
            choice.text += "".join(part.text for part in step.content)
    _counts(found, choice, answer)
    return found


def _streamed(events: list[Any]) -> Answered:
    choice = Choice()
    found = Answered([choice])
    for event in events:
        if event.event_type == "step.start" and event.step.type == "function_call":
            choice.calls.append((event.step.name, ""))
        elif event.event_type == "step.delta":
            delta = event.delta
            if delta.type == "text":
                choice.text += delta.text
            elif delta.type == "thought_summary":
                choice.reasoning += delta.content.text
            elif delta.type == "arguments_delta":
                name, arguments = choice.calls[-1]
                choice.calls[-1] = name, arguments + delta.arguments
    _counts(found, choice, events[-1].interaction)
    return found


_clients: dict[int, tuple[httpx.AsyncClient, Any]] = {}


def _client(http: httpx.AsyncClient) -> Any:
    """The SDK over `http`, made once."""
    if id(http) not in _clients:
        options = types.HttpOptions(base_url="http://gateway", api_version="v1", httpx_async_client=http)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the API is experimental, the SDK says
            _clients[id(http)] = http, genai.Client(api_key="-", http_options=options).aio.interactions
    return _clients[id(http)][1]


async def _answer(client: Any, way: str, feature: Feature, previous: str | None) -> tuple[str, Answered]:
    asked: dict[str, Any] = {"model": "sim", "input": feature.given(), **feature.fields}
    if feature.before and previous is not None:
        asked["previous_interaction_id"] = previous
    if way == "whole":
        answer = await client.create(**asked)
        return answer.id, _whole(answer)
    events = [event async for event in await client.create(**asked, stream=True)]
    return events[0].interaction.id, _streamed(events)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("engine", ["vLLM", "neutral", "MLX", "chat server"])
@pytest.mark.filterwarnings("ignore")
async def test_a_feature_works_or_is_refused_by_name(
    engine: str,
    way: str,
    feature: Feature,
    served: Callable[[str, str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Interactions", feature.name, engine, way))
    gateway, simulated = await served(engine, feature.model)
    if feature.reply is not None:
        simulated.say(*[feature.reply] * (1 + feature.twice))
    client = _client(called_by(gateway))
    refused: Any = None
    answered, previous = Answered([]), None
    try:
        for _ in range(1 + feature.twice):
            previous, answered = await _answer(client, way, feature, previous)
    except APIStatusError as refusal:
        refused = refusal
    while simulated.engine.script.next() is not None:
        pass  # what it would have said is not for the next cell
    if refused is None:
        record_property("result", checked(feature, engine, answered))
        return
    error = refused.body["error"]
    (violation,) = error["details"][0]["fieldViolations"]
    assert (error["code"], bool(violation["field"])) == (400, True)
    record_property("result", f"400: {violation['field']}")
