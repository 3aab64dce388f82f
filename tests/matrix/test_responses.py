"""Responses: every feature on every engine, streamed and whole, by the official SDK.

A cell works, as its check says, or is refused with a 400 that names what this engine cannot do. Every stream is held to the
grammar of its events, and gives the same object as a whole answer.
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import openai
import pytest
from tests.gateway.vision_models import picture
from tests.matrix.features import PERSON, WORDS, checked, shapes_told

from smg_core.apis.responses.wire.grammar import check_stream
from smg_simulator.answers.replies import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

COUNTS = Reply(WORDS)
CALL = Reply(tool_calls=(("get_weather", {"city": "Paris"}),))
CALLS = Reply(tool_calls=(("get_weather", {"city": "Paris"}), ("get_time", {"city": "Rome"})))
THINKS = Reply("Yes.", reasoning="Let me see.")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ASKED = {"role": "user", "content": "Count."}
CALLED = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
SHAPES = {"type": "input_text", "text": "Say the shapes."}
SEALED = ["reasoning.encrypted_content"]


def _tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": name, "parameters": SCHEMA, "strict": None, **fields}


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


TOOLS = [_tool("get_weather"), _tool("get_time")]
CUSTOM = {"type": "custom", "name": "run", "description": "Run a command."}
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "ls( -l)?"}
NAMESPACE = {"type": "namespace", "name": "weather", "description": "Weather.", "tools": [_tool("now")]}


def _picture() -> dict[str, Any]:
    data = base64.b64encode(picture(56, 56)).decode()
    return {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{data}"}


def _text_file() -> dict[str, Any]:
    data = base64.b64encode(b"a b c").decode()
    return {"type": "input_file", "filename": "notes.txt", "file_data": f"data:text/plain;base64,{data}"}


@attrs.frozen
class Feature:
    """`fields` are added to a plain request; `replies` are what the engine says (none: what it likes); `model` is the kind of
    model that it needs. `again` makes the fields of a second request of the first answer, and the check gets the second."""

    name: str
    check: Callable[[Any], object]
    fields: dict[str, Any] = attrs.field(factory=dict)
    replies: Sequence[Reply] = (COUNTS,)
    items: Callable[[], Sequence[Any]] = lambda: [ASKED]
    model: str = "text"
    again: Callable[[Any], dict[str, Any]] | None = None


def kinds(response: Any) -> list[str]:
    return [item.type for item in response.output]


def said(text: str, status: str = "completed") -> Callable[[Any], None]:
    def check(response: Any) -> None:
        assert kinds(response) == ["message"]
        assert (response.output_text.strip(), response.status) == (text, status)

    return check


def called(*names: str, status: str = "completed") -> Callable[[Any], None]:
    """The calls are of these functions, with arguments that are JSON objects."""

    def check(response: Any) -> None:
        calls = [item for item in response.output if item.type == "function_call"]
        assert [call.name for call in calls] == list(names)
        assert all(isinstance(json.loads(call.arguments), dict) for call in calls)
        assert response.status == status

    return check


def ran(response: Any) -> None:
    (call,) = response.output
    assert (call.type, call.name, call.input, response.status) == ("custom_tool_call", "run", "ls -l", "completed")


def called_in_its_namespace(response: Any) -> None:
    (call,) = response.output
    assert (call.type, call.namespace, call.name) == ("function_call", "weather", "now")


def thought(response: Any) -> None:
    assert kinds(response) == ["reasoning", "message"]
    assert [part.text.strip() for part in response.output[0].content] == ["Let me see."]
    assert (response.output[0].summary, response.output_text.strip()) == ([], "Yes.")
    assert 0 < response.usage.output_tokens_details.reasoning_tokens < response.usage.output_tokens


def summarized(response: Any) -> None:
    assert kinds(response) == ["reasoning", "message"]
    assert [part.text.strip() for part in response.output[0].summary] == ["Let me see."]


def sealed(response: Any) -> None:
    assert kinds(response) == ["reasoning", "message"]
    assert response.output[0].encrypted_content


def spelled(response: Any) -> None:
    logprobs = response.output[0].content[0].logprobs
    assert "".join(each.token for each in logprobs) == WORDS
    assert {len(each.top_logprobs) for each in logprobs} == {2}


def counted(response: Any) -> None:
    assert response.usage.input_tokens > 0
    assert response.usage.output_tokens > 0
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def from_cache(response: Any) -> None:
    assert response.usage.input_tokens_details.cached_tokens > 0


def is_person(response: Any) -> None:
    found = json.loads(response.output_text)
    assert isinstance(found["name"], str)
    assert isinstance(found["age"], int)


def is_object(response: Any) -> None:
    assert isinstance(json.loads(response.output_text), dict)


def shaped(response: Any) -> None:
    shapes_told(response.output_text, "pixel_values")


def compacted(response: Any) -> None:
    assert kinds(response) == ["compaction"]
    assert response.output[0].encrypted_content


def _with_output(answer: Any) -> dict[str, Any]:
    """The turn after one with a call, for a client that keeps the history itself."""
    call = next(item for item in answer.output if item.type == "function_call")
    replayed = [item.to_dict() for item in answer.output]
    return {"input": [ASKED, *replayed, {**RESULT, "call_id": call.call_id}]}


FEATURES = (
    Feature("text", said(WORDS)),
    Feature("usage", counted),
    Feature("cached tokens", from_cache, {}, (COUNTS, COUNTS), again=lambda answer: {},
            items=lambda: [ASKED | {"content": "word " * 99}]),
    Feature("instructions, and a developer's turn", said(WORDS), {"instructions": "Be brief."},
            items=lambda: [{"role": "developer", "content": "Be kind."}, ASKED]),
    Feature("max_output_tokens", said("one two three", "incomplete"), {"max_output_tokens": 3}),
    Feature("temperature, top_p", said(WORDS), {"temperature": 0.5, "top_p": 0.5}),
    Feature("what engines add: seed, stop, top_k", said("one two three"),
            {"extra_body": {"seed": 7, "stop": "four", "top_k": 5}}),
    Feature("logprobs", spelled, {"include": ["message.output_text.logprobs"], "top_logprobs": 2}),
    Feature("tools: auto", called("get_weather"), {"tools": TOOLS}, (CALL,)),
    Feature("tools: several calls", called("get_weather", "get_time"), {"tools": TOOLS}, (CALLS,)),
    Feature("tools: parallel_tool_calls false", called("get_weather"), {"tools": TOOLS, "parallel_tool_calls": False},
            (CALLS,)),
    Feature("tools: required", called("get_weather"), {"tools": TOOLS[:1], "tool_choice": "required"}, ()),
    Feature("tools: by name", called("get_time"), {"tools": TOOLS, "tool_choice": _named("get_time")}, ()),
    Feature("tools: allowed_tools", called("get_time"), {"tools": TOOLS, "tool_choice":
            {"type": "allowed_tools", "mode": "required", "tools": [_named("get_time")]}}, ()),
    Feature("tools: none", said(WORDS), {"tools": TOOLS, "tool_choice": "none"}),
    Feature("tools: strict", called("get_weather"), {"tools": [_tool("get_weather", strict=True)],
            "tool_choice": "required"}, ()),
    Feature("tools: custom", ran, {"tools": [CUSTOM]}, (Reply(tool_calls=(("run", {"input": "ls -l"}),)),)),
    Feature("tools: custom with a grammar", ran, {"tools": [CUSTOM | {"format": GRAMMAR}]},
            (Reply(tool_calls=(("run", {"input": "ls -l"}),)),)),
    Feature("tools: a namespace", called_in_its_namespace, {"tools": [NAMESPACE]},
            (Reply(tool_calls=(("weather__now", {"city": "Paris"}),)),)),
    Feature("tools: hosted ones are offered to nobody", said(WORDS), {"tools": [{"type": "web_search"}]}),
    Feature("tools: a result", said(WORDS), {"tools": TOOLS}, items=lambda: [ASKED, CALLED, RESULT]),
    Feature("tools: a result alone, behind a stored response", said(WORDS), {"tools": TOOLS}, (CALL, COUNTS),
            again=lambda answer: {"previous_response_id": answer.id,
                                  "input": [RESULT | {"call_id": answer.output[-1].call_id}]}),
    Feature("reasoning: its text", thought, {}, (THINKS,)),
    Feature("reasoning: a summary", summarized, {"reasoning": {"summary": "auto"}}, (THINKS,)),
    Feature("reasoning: encrypted_content", sealed, {"include": SEALED, "store": False}, (THINKS,)),
    Feature("reasoning: sent back with calls", said(WORDS), {"tools": TOOLS, "include": SEALED, "store": False},
            (attrs.evolve(CALL, reasoning="Let me see."), COUNTS), again=_with_output),
    Feature("text.format: json_object", is_object, {"text": {"format": {"type": "json_object"}}}, ()),
    Feature("text.format: json_schema", is_person, {"text": {"format":
            {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}}, ()),
    Feature("previous_response_id", said(WORDS), {}, (COUNTS, COUNTS),
            again=lambda answer: {"previous_response_id": answer.id}),
    Feature("files of text", said(WORDS), items=lambda: [{"role": "user", "content": [_text_file()]}]),
    Feature("pictures", shaped, {}, (), model="picture",
            items=lambda: [{"role": "user", "content": [_picture(), SHAPES]}]),
    Feature("pictures in a tool's output", shaped, {"tools": TOOLS}, (), model="picture",
            items=lambda: [ASKED, CALLED, RESULT | {"output": [_picture(), SHAPES]}]),
    Feature("a compaction that the input asks for", compacted, items=lambda: [ASKED, {"type": "compaction_trigger"}]),
)  # fmt: skip


async def _answer(client: openai.AsyncOpenAI, way: str, fields: dict[str, Any]) -> Any:
    asked: dict[str, Any] = {"model": "sim", **fields}
    if way == "whole":
        return await client.responses.create(**asked)
    events = [event async for event in await client.responses.create(**asked, stream=True)]
    check_stream([event.to_dict() for event in events])
    return events[-1].response


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
    record_property("cell", ("Responses", feature.name, engine, way))
    gateway, simulated = await served(engine, feature.model)
    if feature.replies:
        simulated.say(*feature.replies)
    asked = {"input": feature.items(), **feature.fields}
    refused: str | None = None
    http = gateway.http_client(openai)
    async with openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0) as client:
        try:
            answer = await _answer(client, way, asked)
            if feature.again is not None:
                answer = await _answer(client, way, asked | feature.again(answer))
        except openai.BadRequestError as refusal:
            while simulated.engine.script.next() is not None:
                pass  # what it would have said is not for the next cell
            refused = refusal.param or ""
    if refused is not None:
        assert refused, "a refusal must name what it is about"
        record_property("result", f"400: {refused}")
        return
    record_property("result", checked(feature, engine, answer))
