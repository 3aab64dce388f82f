"""A schema that nothing is held to may be any that a client has: of an older draft, with a look-ahead, with a null for a word.
Only where the client asks that it be held to is one refused that cannot be, by its field."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process

from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

Body = dict[str, Any]


def an_object(**property: Any) -> Body:
    return {"type": "object", "properties": {"a": property}, "required": ["a"]}


SCHEMAS: dict[str, Body] = {
    "look-ahead": an_object(type="string", pattern="^(?!x)y"),
    "items as a list": an_object(type="array", items=[{"type": "string"}, {"type": "number"}]),
    "null for a word": {**an_object(type="string", description=None), "description": None},
    "draft 4": {
        **an_object(type="number", minimum=1, exclusiveMinimum=True),
        "$schema": "http://json-schema.org/draft-04/schema#",
    },
    "draft 3": {"type": "object", "properties": {"a": {"type": "any", "required": True}}},
    "refers elsewhere": an_object(**{"$ref": "https://example.com/x.json"}),
}
HI: Any = [{"role": "user", "content": "Hi"}]
CHAT: Body = {"model": "sim", "messages": HI, "max_tokens": 60}
RESPONSE: Body = {"model": "sim", "input": "Hi", "max_output_tokens": 60}


def chat_tool(schema: Body, **more: Any) -> Body:
    return {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema, **more}}]}


def flat_tool(schema: Body, **more: Any) -> Body:
    return {"tools": [{"type": "function", "name": "f", "parameters": schema, **more}]}


def unbound(schema: Body) -> dict[str, tuple[str, Body]]:
    """Requests in which the schema does not bind, by what they are."""
    declared = {"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}
    google: Body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "tools": [declared]}
    named = {"type": "function", "function": {"name": "f"}}
    format_ = {"type": "json_schema", "name": "x", "schema": schema}
    found: dict[str, tuple[str, Body]] = {
        "chat, a call may be made": ("/v1/chat/completions", {**CHAT, **chat_tool(schema)}),
        "chat, a call is demanded": ("/v1/chat/completions", {**CHAT, **chat_tool(schema), "tool_choice": "required"}),
        "chat, this one": ("/v1/chat/completions", {**CHAT, **chat_tool(schema, strict=False), "tool_choice": named}),
        "responses, may": ("/v1/responses", {**RESPONSE, **flat_tool(schema)}),
        "responses, must": ("/v1/responses", {**RESPONSE, **flat_tool(schema), "tool_choice": "required"}),
        "messages, may": ("/v1/messages", {**CHAT, "tools": [{"name": "f", "input_schema": schema}]}),
        "messages, must": (
            "/v1/messages",
            {**CHAT, "tools": [{"name": "f", "input_schema": schema}], "tool_choice": {"type": "any"}},
        ),
        "gemini, must": (
            "/v1beta/models/sim:generateContent",
            {**google, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        ),
        "interactions, must": (
            "/v1beta/interactions",
            {"model": "sim", "input": "Hi", **flat_tool(schema), "generation_config": {"tool_choice": "any"}},
        ),
    }
    for strict in ({}, {"strict": None}, {"strict": False}):
        wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **strict}}
        found[f"chat, format {strict}"] = ("/v1/chat/completions", {**CHAT, "response_format": wanted})
        found[f"responses, format {strict}"] = (
            "/v1/responses",
            {**RESPONSE, "text": {"format": {**format_, **strict}}},
        )
    return found


def bound(schema: Body) -> dict[str, tuple[str, Body, str]]:
    """Requests in which it binds, and the field that is named where it cannot be held to."""
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    format_ = {"type": "json_schema", "name": "x", "schema": schema, "strict": True}
    return {
        "chat": (
            "/v1/chat/completions",
            {**CHAT, **chat_tool(schema, strict=True), "tool_choice": "required"},
            "tools[0].function.parameters",
        ),
        "chat, format": ("/v1/chat/completions", {**CHAT, "response_format": wanted}, "response_format"),
        "responses, format": ("/v1/responses", {**RESPONSE, "text": {"format": format_}}, "text.format.schema"),
    }


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process(SimulatorConfig(seed=1)) as house:
        yield house


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_schema_that_does_not_bind_is_refused_nowhere(house: House, schema: str) -> None:
    for what, (path, asked) in unbound(SCHEMAS[schema]).items():
        answer = await house.http.post(path, json=asked)
        assert answer.status_code == 200, (what, answer.text)


@pytest.mark.parametrize("schema", [each for each in SCHEMAS if each != "draft 4"])
async def test_a_schema_that_binds_and_cannot_be_held_to_is_refused_by_its_field(house: House, schema: str) -> None:
    for what, (path, asked, field) in bound(SCHEMAS[schema]).items():
        answer = await house.http.post(path, json=asked)
        assert answer.status_code == 400, (what, answer.text)
        assert answer.json()["error"]["param"].startswith(field), (what, answer.text)


async def test_a_call_that_is_demanded_is_made_whatever_the_schema(house: House) -> None:
    for schema in SCHEMAS.values():
        asked = {**CHAT, **chat_tool(schema), "tool_choice": "required", "max_tokens": 200}
        choice = (await house.http.post("/v1/chat/completions", json=asked)).json()["choices"][0]
        assert [each["function"]["name"] for each in choice["message"]["tool_calls"]] == ["f"]


@pytest.mark.parametrize("schema", [{}, {"schema": None}, {"strict": True}])
async def test_a_json_schema_of_chat_without_a_schema_is_json_mode(house: House, schema: Body) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", **schema}}
    answer = await house.http.post("/v1/chat/completions", json={**CHAT, "response_format": wanted})
    plain = await house.http.post("/v1/chat/completions", json={**CHAT, "response_format": {"type": "json_object"}})
    assert answer.status_code == plain.status_code == 200
    said = [each.json()["choices"][0]["message"]["content"] for each in (answer, plain)]
    assert said[0] == said[1]
    assert isinstance(json.loads(said[0]), dict)


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_says_which_functions_are_held_to_their_schemas(
    house: House, choice: str, stream: bool
) -> None:
    schemas = {"held": {"type": "object", "properties": {"a": {"type": "string"}}}, "free": SCHEMAS["refers elsewhere"]}
    tools: list[Body] = [{"type": "function", "name": name, "parameters": schema} for name, schema in schemas.items()]
    tools.append({**tools[0], "name": "not_wanted", "strict": False})
    sent = {**RESPONSE, "tools": tools, "tool_choice": choice, "stream": stream}
    text = (await house.http.post("/v1/responses", json=sent)).text
    last = json.loads(text.rpartition("data: ")[2])["response"] if stream else json.loads(text)
    assert {tool["name"]: tool["strict"] for tool in last["tools"]} == {
        "held": True,
        "free": False,
        "not_wanted": False,
    }
