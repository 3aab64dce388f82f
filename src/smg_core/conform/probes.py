"""The requests that `smg-gateway conform` sends: a fixed set for each API, and what each answer must be.

Pure. Above: asking, which sends them, and answers, which looks at what came. `wants` of a probe is

- "text": an answer with text                      - "call": an answer that calls the tool
- "schema": text that is JSON of `PERSON`          - "logprobs": an answer with the logprobs of its tokens
- "refusal": a 4xx in the API's envelope           - "count": a number of tokens
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import attrs
import msgspec

from smg_core.json_types import Json, JsonObject

__all__ = ["APIS", "BROKEN", "PERSON", "Probe", "probes"]

Wants = Literal["text", "call", "schema", "logprobs", "refusal", "count"]

PERSON: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
_CITY: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOL: JsonObject = {"name": "get_weather", "description": "The weather of a city."}
_ASKED = "What is the weather in Paris? Use the tool."
_ARGUMENTS = '{"city":"Paris"}'
_WHO = "Invent a person. Answer in JSON."
_TOKENS = 1024
"""Most tokens of an answer: room for a model that thinks first."""


@attrs.frozen
class Probe:
    """One request: `body` is sent to `path` as JSON , and `wants` says what its answer must be. `optional`: a server may
    also refuse it by name."""

    api: str
    name: str
    path: str
    body: bytes
    wants: Wants
    streamed: bool = False
    optional: bool = False


def _chat(model: str) -> Iterator[tuple[str, Wants, JsonObject]]:
    tool: Json = [{"type": "function", "function": {**_TOOL, "parameters": _CITY}}]
    call: Json = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": _ARGUMENTS}}
    asked: Json = {"role": "user", "content": _ASKED}
    answered: Json = {"role": "assistant", "content": None, "tool_calls": [call]}
    turns: Json = [asked, answered, {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."}]
    schema: Json = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    yield "text", "text", {"messages": [{"role": "user", "content": "Say hello."}]}
    yield "tool call", "call", {"messages": [asked], "tools": tool, "tool_choice": "required"}
    yield "two turns", "text", {"messages": turns, "tools": tool, "tool_choice": "none"}
    yield "JSON schema", "schema", {"messages": [{"role": "user", "content": _WHO}], "response_format": schema}
    told: JsonObject = {"messages": [{"role": "user", "content": "Say hello."}], "logprobs": True, "top_logprobs": 2}
    yield "logprobs", "logprobs", told
    yield "unknown role", "refusal", {"messages": [{"role": "wizard", "content": "x"}]}
    yield "no messages", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "messages": [asked]}


def _responses(model: str) -> Iterator[tuple[str, Wants, JsonObject]]:
    tool: Json = [{"type": "function", **_TOOL, "parameters": {**_CITY, "additionalProperties": False}, "strict": True}]
    asked: Json = {"role": "user", "content": _ASKED}
    call: Json = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": _ARGUMENTS}
    turns: Json = [asked, call, {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."}]
    schema: Json = {"format": {"type": "json_schema", "name": "person", "strict": True, "schema": PERSON}}
    yield "text", "text", {"input": "Say hello."}
    yield "tool call", "call", {"input": [asked], "tools": tool, "tool_choice": "required"}
    yield "two turns", "text", {"input": turns, "tools": tool, "tool_choice": "none"}
    yield "JSON schema", "schema", {"input": _WHO, "text": schema}
    included: JsonObject = {"input": "Say hello.", "top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    yield "logprobs", "logprobs", included
    yield "unknown role", "refusal", {"input": [{"role": "wizard", "content": "x"}]}
    yield "no input", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "input": "Hello"}


def _messages(model: str) -> Iterator[tuple[str, Wants, JsonObject]]:
    tool: Json = [{**_TOOL, "input_schema": _CITY}]
    asked: Json = {"role": "user", "content": _ASKED}
    call: Json = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    result: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny."}
    turns: Json = [asked, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    yield "text", "text", {"messages": [{"role": "user", "content": "Say hello."}]}
    yield "tool call", "call", {"messages": [asked], "tools": tool, "tool_choice": {"type": "any"}}
    yield "two turns", "text", {"messages": turns, "tools": tool, "tool_choice": {"type": "none"}}
    schema: Json = {"format": {"type": "json_schema", "schema": PERSON}}
    yield "JSON schema", "schema", {"messages": [{"role": "user", "content": _WHO}], "output_config": schema}
    yield "unknown role", "refusal", {"messages": [{"role": "wizard", "content": "x"}]}
    yield "no messages", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "messages": [asked]}


@attrs.frozen
class _Api:
    path: str
    bounded_by: str
    made_by: Callable[[str], Iterator[tuple[str, Wants, JsonObject]]]
    always: JsonObject = attrs.field(factory=dict)
    streamed: JsonObject = attrs.field(factory=dict)


_APIS: Mapping[str, _Api] = {
    "chat": _Api(
        "/v1/chat/completions", "max_completion_tokens", _chat, {}, {"stream_options": {"include_usage": True}}
    ),
    "responses": _Api("/v1/responses", "max_output_tokens", _responses, {"store": False}),
    "messages": _Api("/v1/messages", "max_tokens", _messages),
}
APIS = tuple(_APIS)
"""The APIs that can be looked at."""
BROKEN = "broken JSON"
"""The probe that every server which has the API refuses, whatever its models."""
_OPTIONAL = frozenset({"schema", "logprobs"})


def probes(api: str, model: str) -> Iterator[Probe]:
    """The probes of one API, in order."""
    told = _APIS[api]
    for name, wants, fields in told.made_by(model):
        for streamed in (False, True):
            body: JsonObject = {"model": model, told.bounded_by: _TOKENS, "temperature": 0, **told.always, **fields}
            if streamed:
                body |= {"stream": True, **told.streamed}
            yield Probe(api, name, told.path, msgspec.json.encode(body), wants, streamed, wants in _OPTIONAL)
    yield Probe(api, BROKEN, told.path, b'{"model": ', "refusal")
    if api == "messages":
        count = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "Say hello."}]})
        yield Probe(api, "count_tokens", f"{told.path}/count_tokens", count, "count", optional=True)
