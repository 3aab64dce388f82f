"""Messages: every feature on every engine, streamed and whole, by the official SDK.

A cell works, as its check says, or is refused with a 400 that names what this engine cannot do.
"""

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import anthropic
import attrs
import pytest
from tests.gateway.vision_models import picture
from tests.matrix.features import WORDS, checked, shapes_told

from smg_simulator.answers.replies import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

COUNTS = Reply(WORDS)
CALL = Reply(tool_calls=(("get_weather", {"city": "Paris"}),))
CALLS = Reply(tool_calls=(("get_weather", {"city": "Paris"}), ("get_time", {"city": "Rome"})))
THINKS = Reply("Yes.", reasoning="Let me see.")


def _tool(name: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"name": name, "description": name, "input_schema": schema | {"additionalProperties": False}, **fields}


TOOLS = [_tool("get_weather"), _tool("get_time")]
COUNT = {"role": "user", "content": "Count."}
USE = {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Paris"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def _turns(*assistant: Any, result: dict[str, Any] = RESULT) -> tuple[dict[str, Any], ...]:
    return (COUNT, {"role": "assistant", "content": list(assistant)}, {"role": "user", "content": [result]})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _picture() -> dict[str, Any]:
    data = base64.b64encode(picture(56, 56)).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


@attrs.frozen
class Feature:
    """`fields` are added to a plain request; `replies` are what the engine says (none: what it likes); `model` is the kind of
    model that it needs. `again` makes the messages of a second request of the first answer, and the check gets the second."""

    name: str
    check: Callable[[Any], object]
    fields: dict[str, Any] = attrs.field(factory=dict)
    replies: Sequence[Reply] = (COUNTS,)
    messages: Callable[[], Sequence[Any]] = lambda: [COUNT]
    model: str = "text"
    again: Callable[[Any], Sequence[Any]] | None = None


def kinds(message: Any) -> list[str]:
    return [block.type for block in message.content]


def said(text: str, reason: str = "end_turn") -> Callable[[Any], None]:
    def check(message: Any) -> None:
        assert kinds(message) == ["text"]
        assert (message.content[0].text.strip(), message.stop_reason) == (text, reason)

    return check


def called(*names: str) -> Callable[[Any], None]:
    def check(message: Any) -> None:
        assert [block.name for block in message.content if block.type == "tool_use"] == list(names)
        assert all(isinstance(block.input, dict) for block in message.content if block.type == "tool_use")
        assert message.stop_reason == "tool_use"

    return check


def thought(message: Any) -> None:
    assert kinds(message) == ["thinking", "text"]
    assert message.content[0].thinking.strip() == "Let me see."
    assert message.content[0].signature
    assert message.content[1].text.strip() == "Yes."


def hidden(message: Any) -> None:
    assert kinds(message) == ["thinking", "text"]
    assert (message.content[0].thinking, bool(message.content[0].signature)) == ("", True)


def counted(message: Any) -> None:
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 0
    assert message.usage.output_tokens > 0


def from_cache(message: Any) -> None:
    assert message.usage.cache_read_input_tokens > 0


def is_person(message: Any) -> None:
    found = json.loads(message.content[0].text)
    assert isinstance(found["name"], str)
    assert isinstance(found["age"], int)


def shaped(message: Any) -> None:
    shapes_told(message.content[0].text, "pixel_values")


FEATURES = (
    Feature("text", said(WORDS)),
    Feature("usage", counted),
    Feature("cached tokens", from_cache, {}, (COUNTS, COUNTS), again=lambda answer: [COUNT | {"content": "word " * 99}],
            messages=lambda: [COUNT | {"content": "word " * 99}]),
    Feature("system, and a system turn amid the others", said(WORDS), {"system": [_text("Be brief."), _text("Be kind.")]},
            messages=lambda: [COUNT, {"role": "system", "content": "Tools: none."}]),
    Feature("max_tokens", said("one two three", "max_tokens"), {"max_tokens": 3}),
    Feature("stop_sequences", said("one two three", "stop_sequence"), {"stop_sequences": ["four"]}),
    Feature("temperature, top_p, top_k", said(WORDS), {"extra_body": {"temperature": 0.5, "top_p": 0.5, "top_k": 5}}),
    Feature("tools: auto", called("get_weather"), {"tools": TOOLS}, (CALL,)),
    Feature("tools: several calls", called("get_weather", "get_time"), {"tools": TOOLS}, (CALLS,)),
    Feature("tools: one call at a time", called("get_weather"),
            {"tools": TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, (CALLS,)),
    Feature("tools: any", called("get_weather"), {"tools": TOOLS[:1], "tool_choice": {"type": "any"}}, ()),
    Feature("tools: by name", called("get_time"), {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "get_time"}}, ()),
    Feature("tools: none", said(WORDS), {"tools": TOOLS, "tool_choice": {"type": "none"}}),
    Feature("tools: strict", called("get_weather"), {"tools": [_tool("get_weather", strict=True)],
            "tool_choice": {"type": "any"}}, ()),
    Feature("tools: a result", said(WORDS), {"tools": TOOLS}, messages=lambda: _turns(_text("Let me look."), USE)),
    Feature("tools: a result that is an error", said(WORDS), {"tools": TOOLS},
            messages=lambda: _turns(USE, result=RESULT | {"is_error": True})),
    Feature("tools: a text behind the call", said(WORDS), {"tools": TOOLS},
            messages=lambda: _turns(_text("Let me look."), USE, _text("I am waiting."))),
    Feature("thinking: returned", thought, {"thinking": {"type": "adaptive"}}, (THINKS,)),
    Feature("thinking: omitted", hidden, {"thinking": {"type": "adaptive", "display": "omitted"}}, (THINKS,)),
    Feature("thinking: disabled", said(WORDS), {"thinking": {"type": "disabled"}}),
    Feature("thinking: a budget", thought, {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000},
            (THINKS,)),
    Feature("thinking: sent back with calls", said(WORDS), {"tools": TOOLS, "thinking": {"type": "adaptive"}},
            (attrs.evolve(CALL, reasoning="Let me see."), COUNTS),
            again=lambda answer: [COUNT, {"role": "assistant", "content": answer.content},
                                  {"role": "user", "content": [RESULT | {"tool_use_id": answer.content[-1].id}]}]),
    Feature("prefill", said(WORDS), messages=lambda: [COUNT, {"role": "assistant", "content": "So:"}]),
    Feature("json_schema", is_person, {"output_config": {"format": {"type": "json_schema", "schema": PERSON}}}, ()),
    Feature("documents of text", said(WORDS), messages=lambda: [{"role": "user", "content": [
            {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "a b"}}]}]),
    Feature("pictures", shaped, {}, (), model="picture",
            messages=lambda: [{"role": "user", "content": [_picture(), _text("Say the shapes.")]}]),
    Feature("pictures in a tool's result", shaped, {"tools": TOOLS}, (), model="picture",
            messages=lambda: _turns(USE, result=RESULT | {"content": [_picture(), _text("Say the shapes.")]})),
)  # fmt: skip


async def _answer(client: anthropic.AsyncAnthropic, way: str, messages: Sequence[Any], fields: dict[str, Any]) -> Any:
    asked: dict[str, Any] = {"model": "sim", "max_tokens": 100, "messages": messages, **fields}
    if way == "whole":
        return await client.messages.create(**asked)
    async with client.messages.stream(**asked) as stream:
        return await stream.get_final_message()


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("engine", ["vLLM", "neutral", "MLX", "chat server"])
async def test_a_feature_works_or_is_refused_by_name(
    engine: str,
    way: str,
    feature: Feature,
    served: Callable[[str, str], Any],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Messages", feature.name, engine, way))
    gateway, simulated = await served(engine, feature.model)
    if feature.replies:
        simulated.say(*feature.replies)
    http = gateway.http_client(anthropic)
    async with anthropic.AsyncAnthropic(
        http_client=http, base_url="http://gateway", api_key="-", max_retries=0
    ) as client:
        try:
            answer = await _answer(client, way, feature.messages(), feature.fields)
            if feature.again is not None:
                answer = await _answer(client, way, feature.again(answer), feature.fields)
        except anthropic.BadRequestError as refusal:
            told: Any = refusal.body
            while simulated.engine.script.next() is not None:
                pass  # what it would have said is not for the next cell
            named = re.search(r"^[\w.]+(?=:)|\btool_choice\b", told["error"]["message"])
            assert named, told
            record_property("result", f"400: {named[0]}")
            return
    record_property("result", checked(feature, engine, answer))
