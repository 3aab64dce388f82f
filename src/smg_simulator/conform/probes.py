"""The requests that `smg-gateway conform` sends: a fixed set for each API, and what each answer must be.

Pure. Above: asking, which sends them, and answers, which looks at what came. `wants` of a probe is

- "text": an answer with text                      - "call": an answer that calls the tool
- "schema": text that is JSON of `PERSON`          - "logprobs": an answer with the logprobs of its tokens
- "refusal": a 4xx in the API's envelope           - "count": a number of tokens
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

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


def _completions(model: str) -> Iterator[tuple[str, Wants, JsonObject]]:
    schema: Json = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    yield "text", "text", {"prompt": "Say hello."}
    yield "token ids", "text", {"prompt": [1, 2, 3]}
    yield "JSON schema", "schema", {"prompt": _WHO, "response_format": schema}
    yield "logprobs", "logprobs", {"prompt": "Say hello.", "logprobs": 2}
    yield "no prompt", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "prompt": "Hello"}


def _generate_content(model: str) -> Iterator[tuple[str, Wants, JsonObject]]:
    tools: Json = [{"functionDeclarations": [{**_TOOL, "parametersJsonSchema": _CITY}]}]
    asked: Json = {"role": "user", "parts": [{"text": _ASKED}]}
    hello: Json = [{"role": "user", "parts": [{"text": "Say hello."}]}]
    call: Json = {"name": "get_weather", "args": {"city": "Paris"}}
    result: Json = {"name": "get_weather", "response": {"result": "Sunny."}}
    turns: Json = [
        asked,
        {"role": "model", "parts": [{"functionCall": call}]},
        {"role": "user", "parts": [{"functionResponse": result}]},
    ]
    schema: Json = {"responseMimeType": "application/json", "responseJsonSchema": PERSON}
    yield "text", "text", {"contents": hello}
    demanded: Json = {"functionCallingConfig": {"mode": "ANY"}}
    yield "tool call", "call", {"contents": [asked], "tools": tools, "toolConfig": demanded}
    none: Json = {"functionCallingConfig": {"mode": "NONE"}}
    yield "two turns", "text", {"contents": turns, "tools": tools, "toolConfig": none}
    yield "JSON schema", "schema", {"contents": [{"parts": [{"text": _WHO}]}], "generationConfig": schema}
    told: Json = {"responseLogprobs": True, "logprobs": 2}
    yield "logprobs", "logprobs", {"contents": hello, "generationConfig": told}
    yield "unknown role", "refusal", {"contents": [{"role": "wizard", "parts": [{"text": "x"}]}]}
    yield "no contents", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "contents": hello}


def _interactions(model: str) -> Iterator[tuple[str, Wants, JsonObject]]:
    tools: Json = [{"type": "function", **_TOOL, "parameters": _CITY}]
    asked: Json = {"type": "user_input", "content": [{"type": "text", "text": _ASKED}]}
    call: Json = {"type": "function_call", "id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}
    turns: Json = [asked, call, {"type": "function_result", "call_id": "call_1", "result": "Sunny."}]
    schema: Json = {"type": "text", "mime_type": "application/json", "schema": PERSON}
    yield "text", "text", {"input": "Say hello."}
    yield "tool call", "call", {"input": [asked], "tools": tools, "generation_config": {"tool_choice": "any"}}
    yield "two turns", "text", {"input": turns, "tools": tools, "generation_config": {"tool_choice": "none"}}
    yield "JSON schema", "schema", {"input": _WHO, "response_format": schema}
    yield "unknown step", "refusal", {"input": [{"type": "wizard", "content": "x"}]}
    yield "no input", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "input": "Hello"}


@attrs.frozen
class _Api:
    """`made_by` makes the probes' fields; `bounded_by` is the field that bounds an answer's tokens, `always` and `streamed` are
    added to every body and to those that ask for a stream."""

    path: str
    bounded_by: str
    made_by: Callable[[str], Iterator[tuple[str, Wants, JsonObject]]]
    always: JsonObject = attrs.field(factory=dict)
    streamed: JsonObject = attrs.field(factory=dict)

    def request(self, model: str, fields: JsonObject, *, streamed: bool) -> tuple[str, JsonObject]:
        """The path and the body of one request."""
        body: JsonObject = {"model": model, self.bounded_by: _TOKENS, "temperature": 0, **self.always, **fields}
        return self.path, {**body, "stream": True, **self.streamed} if streamed else body


class _GeminiApi(_Api):
    """The model stands in the path, and so does what is asked of it; settings stand in an object of their own."""

    def request(self, model: str, fields: JsonObject, *, streamed: bool) -> tuple[str, JsonObject]:
        """The path and the body of one request."""
        given: Any = fields.get("generationConfig") or {}
        settings: Json = {self.bounded_by: _TOKENS, "temperature": 0, **given}
        rest = {name: value for name, value in fields.items() if name != "model"}
        verb = "streamGenerateContent?alt=sse" if streamed else "generateContent"
        return f"{self.path}/{fields.get('model', model)}:{verb}", {**rest, "generationConfig": settings}


class _InteractionsApi(_Api):
    """Settings stand in an object of their own."""

    def request(self, model: str, fields: JsonObject, *, streamed: bool) -> tuple[str, JsonObject]:
        """The path and the body of one request."""
        given: Any = fields.get("generation_config") or {}
        settings: Json = {self.bounded_by: _TOKENS, "temperature": 0, **given}
        body: JsonObject = {"model": model, **self.always, **fields, "generation_config": settings}
        return self.path, {**body, "stream": True} if streamed else body


_APIS: Mapping[str, _Api] = {
    "chat": _Api(
        "/v1/chat/completions", "max_completion_tokens", _chat, {}, {"stream_options": {"include_usage": True}}
    ),
    "responses": _Api("/v1/responses", "max_output_tokens", _responses, {"store": False}),
    "messages": _Api("/v1/messages", "max_tokens", _messages),
    "completions": _Api("/v1/completions", "max_tokens", _completions, {}, {"stream_options": {"include_usage": True}}),
    "generate_content": _GeminiApi("/v1beta/models", "maxOutputTokens", _generate_content),
    "interactions": _InteractionsApi("/v1/interactions", "max_output_tokens", _interactions, {"store": False}),
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
            path, body = told.request(model, fields, streamed=streamed)
            yield Probe(api, name, path, msgspec.json.encode(body), wants, streamed, wants in _OPTIONAL)
    yield Probe(api, BROKEN, told.request(model, {}, streamed=False)[0], b'{"model": ', "refusal")
    if api == "messages":
        count = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "Say hello."}]})
        yield Probe(api, "count_tokens", f"{told.path}/count_tokens", count, "count", optional=True)
