"""Ids of calls before templates that check them: whoever made an id, the conversation is rendered, on every template here."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.gemini.decode import decode_generate
from smg_core.apis.interactions.decode import interaction_decoder
from smg_core.apis.messages.decode import decode_messages
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.errors import TemplateFailed
from smg_core.request import FunctionTool, Message, Text, ToolCall, ToolResult
from smg_core.tokenizer.base import SpecialTokens
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.wire.base import Incoming

TEMPLATES = Path(__file__).parent / "templates"
FAMILIES = {path.stem: path.read_text() for path in sorted(TEMPLATES.glob("*.jinja"))}
CHECKING = ("mistral_v2v3", "mistral_v3_tekken")
SPECIAL = SpecialTokens(bos="<s>", eos="</s>")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = FunctionTool("look", "Looks.", SCHEMA)
MADE = ["call00001", "call_look", "call_1_0", "call_abcdefghi", "toolu_01AbC", "mcp_0", "functions.look:0", "input[1]"]
MADE += ["", "call_1234", "é" * 9, "x" * 300, "\ud800"]

Body = dict[str, Any]


def history(*ids: str) -> list[Message]:
    """A conversation that has called a tool once under each of the ids."""
    called: list[Message] = [Message("user", (Text("Where?"),), content_is_text=True)]
    called.append(Message("assistant", tuple(ToolCall(each, "look", '{"city":"Oslo"}') for each in ids)))
    called += [Message("tool", (ToolResult(each, (Text("seen"),)),)) for each in ids]
    called.append(Message("assistant", (Text("There."),), content_is_text=True))
    return [*called, Message("user", (Text("Sure?"),), content_is_text=True)]


def rendered(family: str, messages: list[Message]) -> str | None:
    """The prompt; None where the template refuses a conversation with calls whatever their ids are."""
    template = ChatTemplate(FAMILIES[family], special=SPECIAL)
    try:
        template.render(history("call00001"), tools=[TOOL])
    except TemplateFailed:
        return None
    return template.render(messages, tools=[TOOL]).text


# ------------------------------------------------------------------------------------------------------------ every template


def test_the_templates_that_check_ids_are_known_as_such() -> None:
    spelled = {name for name, source in FAMILIES.items() if re.search(r"id\s*\|\s*length", source)}
    lengths = {name: ChatTemplate(source).template_facts().id_length for name, source in FAMILIES.items()}

    assert {name: length for name, length in lengths.items() if length is not None} == dict.fromkeys(CHECKING, 9)
    assert spelled == set(CHECKING)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_conversation_with_any_id_is_rendered_wherever_one_with_calls_is(family: str) -> None:
    usual = rendered(family, history("call00001"))
    for call_id in MADE:
        text = rendered(family, history(call_id))
        assert (text is None) == (usual is None)
        assert text is None or text.count("seen") == (usual or "").count("seen")


@given(ids=st.lists(st.text(max_size=12), min_size=2, max_size=2, unique=True))
def test_calls_and_their_results_keep_together_and_apart_from_others(ids: list[str]) -> None:
    for family in CHECKING:
        text = rendered(family, history(*ids))

        assert text is not None
        called = re.findall(r'"id": "([0-9A-Za-z]{9})"', text)
        answered = re.findall(r'"call_id": "([0-9A-Za-z]{9})"', text)
        assert called == answered
        assert len(set(called)) == 2


def test_an_id_that_the_template_takes_stays_and_others_are_the_same_in_every_prompt() -> None:
    for family in CHECKING:
        assert '"id": "a1B2c3D4e"' in (rendered(family, history("a1B2c3D4e")) or "")
        assert rendered(family, history("toolu_01")) == rendered(family, history("toolu_01"))


@pytest.mark.parametrize(
    ("source", "length"),
    [
        ("{% if call['id'] | length != 9 %}{% endif %}", 9),
        ("{% if 6 != (m.tool_call_id | string | count) %}{% endif %}", 6),
        ("{% set given = call.id %}{% if given | length == 9 %}{% endif %}", 9),
        ("{% if call.id | length > 9 %}{% endif %}", None),
        ("{% if message.content | length != 9 %}{% endif %}", None),
        ("{{ call.id }}", None),
    ],
)
def test_a_check_of_an_ids_length_is_read_from_the_template(source: str, length: int | None) -> None:
    assert ChatTemplate(source).template_facts().id_length == length


# ---------------------------------------------------------------------------------------------------------------- every API

FUNCTION = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
CALLS = {"name": "look", "arguments": '{"city":"Oslo"}'}


def chat(called: Body, answered: Body, **fields: Any) -> Body:
    turns = [{"role": "user", "content": "Where?"}, {"role": "assistant", **called}, answered]
    return {"model": "m", "messages": turns, **fields}


def chat_with(call_id: str) -> Body:
    called = {"content": None, "tool_calls": [{"id": call_id, "type": "function", "function": CALLS}]}
    result = {"role": "tool", "tool_call_id": call_id, "content": "seen"}
    return chat(called, result, tools=[{"type": "function", "function": FUNCTION}])


def hosted_chat() -> Body:
    call = {"id": "chatcmpl-1-0", "server_label": "notes", **CALLS, "output": "seen"}
    said = {"content": "There.", "mcp_calls": [call]}
    return chat(said, {"role": "user", "content": "Sure?"}, tools=[{"type": "mcp", "server_label": "notes"}])


def messages(call_id: str) -> Body:
    use = {"type": "tool_use", "id": call_id, "name": "look", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": "seen"}
    turns = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": [use]}]
    tools = [{"name": "look", "input_schema": SCHEMA}]
    return {"model": "m", "max_tokens": 9, "messages": [*turns, {"role": "user", "content": [result]}], "tools": tools}


def responses(*items: Body, **fields: Any) -> Body:
    return {"model": "m", "input": [{"role": "user", "content": "Where?"}, *items], **fields}


def hosted_responses() -> Body:
    call = {"type": "mcp_call", "id": "mcp_0a1b", "server_label": "notes", **CALLS, "output": "seen"}
    answered = ({"role": "assistant", "content": "There."}, {"role": "user", "content": "Sure?"})
    server = {"type": "mcp", "server_label": "notes", "server_url": "https://notes.example/mcp"}
    return responses(call, *answered, tools=[{**server, "require_approval": "never"}])


def gemini(*parts: Body) -> Body:
    called = {"role": "model", "parts": [parts[0]]}
    contents = [{"role": "user", "parts": [{"text": "Where?"}]}, called, {"role": "user", "parts": [parts[1]]}]
    declared = {"name": "look", "parametersJsonSchema": SCHEMA}
    return {"contents": contents, "tools": [{"functionDeclarations": [declared]}]}


def interactions(call: Body, result: Body, *more: Body) -> Body:
    return {"model": "m", "input": [{"type": "user_input", "content": "Where?"}, call, result, *more], "store": False}


SAID = {"name": "look", "args": {"city": "Oslo"}}
ANSWERED = {"name": "look", "response": {"result": "seen"}}
RAN = {"type": "mcp_server_tool_call", "id": "mcp_1", "name": "look", "server_name": "notes", "arguments": {}}
RETURNED = {"type": "mcp_server_tool_result", "call_id": "mcp_1", "name": "look", "server_name": "notes"}
SECOND_TURNS: dict[str, tuple[Any, Body]] = {
    "chat": (decode_chat, chat_with("call_abcdefghi")),
    "chat with the id of another server": (decode_chat, chat_with("toolu_01AbC")),
    "chat with functions": (
        decode_chat,
        chat(
            {"content": None, "function_call": CALLS},
            {"role": "function", "name": "look", "content": "seen"},
            functions=[FUNCTION],
        ),
    ),
    "chat with a hosted tool": (decode_chat, hosted_chat()),
    "messages": (decode_messages, messages("toolu_01AbC")),
    "responses": (
        decode_responses,
        responses(
            {"type": "function_call", "call_id": "call_abcdefghi", **CALLS},
            {"type": "function_call_output", "call_id": "call_abcdefghi", "output": "seen"},
        ),
    ),
    "responses with a hosted tool": (decode_responses, hosted_responses()),
    "gemini without ids": (decode_generate, gemini({"functionCall": SAID}, {"functionResponse": ANSWERED})),
    "gemini with ids": (
        decode_generate,
        gemini({"functionCall": {**SAID, "id": "call_7"}}, {"functionResponse": {**ANSWERED, "id": "call_7"}}),
    ),
    "interactions": (
        interaction_decoder("steps"),
        interactions(
            {"type": "function_call", "id": "call_7", "name": "look", "arguments": {"city": "Oslo"}},
            {"type": "function_result", "call_id": "call_7", "result": "seen"},
        ),
    ),
    "interactions with a hosted tool": (
        interaction_decoder("steps"),
        interactions(
            RAN,
            {**RETURNED, "result": "seen"},
            {"type": "model_output", "content": "There."},
            {"type": "user_input", "content": "Sure?"},
        ),
    ),
}


@pytest.mark.parametrize("name", SECOND_TURNS)
def test_the_second_turn_of_every_api_is_rendered_by_templates_that_check_ids(name: str) -> None:
    decode, body = SECOND_TURNS[name]
    hosted = frozenset({"mcp"}) if "hosted" in name else frozenset[str]()
    incoming = Incoming(json.dumps(body).encode(), "r", path_values={"model": "m"}, hosted=hosted)
    said = list(decode(incoming).generation.messages)
    assert any(isinstance(part, ToolCall) for message in said for part in message.parts)

    for family in CHECKING:
        text = rendered(family, said)
        assert text is not None
        assert re.findall(r'"id": "([0-9A-Za-z]{9})"', text) == re.findall(r'"call_id": "([0-9A-Za-z]{9})"', text) != []
