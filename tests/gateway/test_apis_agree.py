"""The same conversation through every API: one prompt for the engine, one answer in each API's words, streamed and whole."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.conftest import House, in_process
from tests.tiers import examples

from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.gemini.decode import decode_generate
from smg_core.apis.interactions.decode import interaction_decoder
from smg_core.apis.messages.decode import decode_messages
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.errors import InvalidRequest
from smg_core.pipeline.prompt.prepare import render
from smg_core.request import GenerationRequest, Image
from smg_core.sse import SseReader
from smg_core.tokenizer.base import Prompt
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.wire.base import Incoming
from smg_multimodal.fetching.egress import data_url
from smg_simulator.answers.replies import Reply
from smg_simulator.testing import tool_call

pytestmark = pytest.mark.anyio

Body = dict[str, Any]
SCHEMA: Body = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@attrs.frozen
class Round:
    """What the user says, and what the model does: it may think, then come text, or calls of `f`, each with its argument and
    result, and then text. A turn that is under way has calls and no answer yet. The user may show a picture beside the text."""

    question: str
    picture: bytes | None
    thought: str | None
    calls: tuple[tuple[str, str], ...]
    answer: str | None


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12).filter(str.strip)
PICTURES = st.none() | st.binary(min_size=1, max_size=4)
ROUNDS = st.builds(
    Round,
    question=TEXTS,
    picture=PICTURES,
    thought=st.none() | TEXTS,
    calls=st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    answer=TEXTS,
)
CALLS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=2).map(tuple)
UNDER_WAY = st.builds(Round, question=TEXTS, picture=PICTURES, thought=st.none() | TEXTS, calls=CALLS, answer=st.none())
SOME = st.lists(ROUNDS, max_size=2)
CONVERSATIONS = st.tuples(st.none() | TEXTS, SOME, TEXTS) | st.tuples(
    st.none() | TEXTS, st.tuples(SOME, UNDER_WAY).map(lambda made: [*made[0], made[1]]), st.none()
)
"""A system text, turns, and what the user says last; None where the last turn is under way."""


def arguments(city: str) -> str:
    return msgspec.json.encode({"city": city}).decode()


def as_url(picture: bytes) -> str:
    return f"data:image/png;base64,{b64encode(picture).decode()}"


def calls_of(place: int, round_: Round) -> list[tuple[str, str, str]]:
    """Id, argument and result of each call."""
    return [(f"call_{place}_{n}", city, result) for n, (city, result) in enumerate(round_.calls)]


def chat_body(system: str | None, rounds: list[Round], last: str | None) -> Body:
    messages: list[Body] = [] if system is None else [{"role": "system", "content": system}]
    for place, each in enumerate(rounds):
        shown = [] if each.picture is None else [{"type": "image_url", "image_url": {"url": as_url(each.picture)}}]
        content = [{"type": "text", "text": each.question}, *shown] if shown else each.question
        messages.append({"role": "user", "content": content})
        thought = {} if each.thought is None else {"reasoning_content": each.thought}
        if calls := calls_of(place, each):
            functions = [
                {"id": i, "type": "function", "function": {"name": "f", "arguments": arguments(city)}}
                for i, city, _ in calls
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": functions, **thought})
            messages += [{"role": "tool", "tool_call_id": i, "content": result} for i, _, result in calls]
            thought = {}
        if each.answer is not None:
            messages.append({"role": "assistant", "content": each.answer, **thought})
    if last is not None:
        messages.append({"role": "user", "content": last})
    function = {"name": "f", "description": "F.", "parameters": SCHEMA}
    return {"model": "sim", "messages": messages, "tools": [{"type": "function", "function": function}]}


def messages_body(system: str | None, rounds: list[Round], last: str | None) -> Body:
    messages: list[Body] = []
    for place, each in enumerate(rounds):
        content: Any = each.question
        if each.picture is not None:
            source = {"type": "base64", "media_type": "image/png", "data": b64encode(each.picture).decode()}
            content = [{"type": "text", "text": each.question}, {"type": "image", "source": source}]
        messages.append({"role": "user", "content": content})
        thought: list[Body] = []
        if each.thought is not None:
            thought = [{"type": "thinking", "thinking": each.thought, "signature": ""}]
        if calls := calls_of(place, each):
            uses = [{"type": "tool_use", "id": i, "name": "f", "input": {"city": city}} for i, city, _ in calls]
            results = [{"type": "tool_result", "tool_use_id": i, "content": result} for i, _, result in calls]
            messages += [{"role": "assistant", "content": [*thought, *uses]}, {"role": "user", "content": results}]
            thought = []
        if each.answer is not None:
            messages.append({"role": "assistant", "content": [*thought, {"type": "text", "text": each.answer}]})
    if last is not None:
        messages.append({"role": "user", "content": last})
    tools = [{"name": "f", "description": "F.", "input_schema": SCHEMA}]
    body: Body = {"model": "sim", "max_tokens": 99, "messages": messages, "tools": tools}
    return body if system is None else {**body, "system": system}


def responses_body(system: str | None, rounds: list[Round], last: str | None) -> Body:
    items: list[Body] = []
    for place, each in enumerate(rounds):
        content: Any = each.question
        if each.picture is not None:
            shown = {"type": "input_image", "image_url": as_url(each.picture)}
            content = [{"type": "input_text", "text": each.question}, shown]
        items.append({"role": "user", "content": content})
        if each.thought is not None:
            thought = {"type": "reasoning_text", "text": each.thought}
            items.append({"type": "reasoning", "summary": [], "content": [thought]})
        calls = calls_of(place, each)
        items += [
            {"type": "function_call", "call_id": i, "name": "f", "arguments": arguments(city)} for i, city, _ in calls
        ]
        items += [{"type": "function_call_output", "call_id": i, "output": result} for i, _, result in calls]
        if each.answer is not None:
            items.append({"role": "assistant", "content": each.answer})
    if last is not None:
        items.append({"role": "user", "content": last})
    tools = [{"type": "function", "name": "f", "description": "F.", "parameters": SCHEMA, "strict": False}]
    body: Body = {"model": "sim", "input": items, "tools": tools, "store": False}
    return body if system is None else {**body, "instructions": system}


def gemini_body(system: str | None, rounds: list[Round], last: str | None) -> Body:
    contents: list[Body] = []
    for place, each in enumerate(rounds):
        shown: list[Body] = []
        if each.picture is not None:
            shown = [{"inlineData": {"mimeType": "image/png", "data": b64encode(each.picture).decode()}}]
        contents.append({"role": "user", "parts": [{"text": each.question}, *shown]})
        thought = [] if each.thought is None else [{"text": each.thought, "thought": True}]
        if calls := calls_of(place, each):
            made = [{"functionCall": {"id": i, "name": "f", "args": {"city": city}}} for i, city, _ in calls]
            told = [{"functionResponse": {"name": "f", "response": {"result": result}}} for _, _, result in calls]
            contents += [{"role": "model", "parts": [*thought, *made]}, {"role": "user", "parts": told}]
            thought = []
        if each.answer is not None:
            contents.append({"role": "model", "parts": [*thought, {"text": each.answer}]})
    if last is not None:
        contents.append({"role": "user", "parts": [{"text": last}]})
    declared = {"name": "f", "description": "F.", "parametersJsonSchema": SCHEMA}
    body: Body = {"contents": contents, "tools": [{"functionDeclarations": [declared]}]}
    return body if system is None else {**body, "systemInstruction": {"parts": [{"text": system}]}}


def interactions_body(system: str | None, rounds: list[Round], last: str | None) -> Body:
    steps: list[Body] = []
    for place, each in enumerate(rounds):
        shown: list[Body] = []
        if each.picture is not None:
            shown = [{"type": "image", "mime_type": "image/png", "data": b64encode(each.picture).decode()}]
        steps.append({"type": "user_input", "content": [{"type": "text", "text": each.question}, *shown]})
        if each.thought is not None:
            steps.append({"type": "thought", "summary": [{"type": "text", "text": each.thought}]})
        calls = calls_of(place, each)
        steps += [{"type": "function_call", "id": i, "name": "f", "arguments": {"city": city}} for i, city, _ in calls]
        steps += [{"type": "function_result", "call_id": i, "result": {"result": result}} for i, _, result in calls]
        if each.answer is not None:
            steps.append({"type": "model_output", "content": [{"type": "text", "text": each.answer}]})
    if last is not None:
        steps.append({"type": "user_input", "content": [{"type": "text", "text": last}]})
    tools = [{"type": "function", "name": "f", "description": "F.", "parameters": SCHEMA}]
    body: Body = {"model": "sim", "input": steps, "tools": tools, "store": False}
    return body if system is None else {**body, "system_instruction": system}


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process() as made:
        yield made


EVERYTHING = """{%- for message in messages %}
{{ message.role }} {{ message.reasoning_content or "" }}: {{ message.content | tojson }}
{%- for call in message.tool_calls or [] %} {{ call.id }} {{ call.function.name }} {{ call.function.arguments | tojson }}
{%- endfor -%} {{ message.tool_call_id or "" }}{% endfor %}"""
"""A template that leaves out nothing which models are told: our engine's own has no place for reasoning, pictures and ids."""
WAYS: dict[str, tuple[Any, Any]] = {
    "chat": (chat_body, decode_chat),
    "messages": (messages_body, decode_messages),
    "responses": (responses_body, decode_responses),
    "generateContent": (gemini_body, decode_generate),
    "interactions": (interactions_body, interaction_decoder("steps")),
}


@pytest.mark.full
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversation=CONVERSATIONS)
async def test_every_api_gives_the_engine_the_same_prompt(
    house: House, conversation: tuple[str | None, list[Round], str | None]
) -> None:
    usual = house.gateway.models["sim"]
    shown = [each.picture for each in conversation[1] if each.picture is not None]
    told_all = attrs.evolve(usual, template=ChatTemplate(EVERYTHING, media={"image": "PICTURE"}))
    for model in (told_all,) if shown else (told_all, usual):
        prompts: dict[str, tuple[str, ...]] = {}
        pictures: dict[str, list[bytes]] = {}
        for name, (body, decode) in WAYS.items():
            incoming = Incoming(msgspec.json.encode(body(*conversation)), "r", path_values={"model": "sim"})
            generation = decode(incoming).generation
            prompt = render(generation, model)
            assert isinstance(prompt, Prompt)
            prompts[name], pictures[name] = prompt.pieces, pictures_of(generation)

        assert all(each == prompts["chat"] for each in prompts.values()), prompts
        assert all(each == pictures["chat"] for each in pictures.values()), pictures
        assert pictures["chat"] == shown


def pictures_of(generation: GenerationRequest) -> list[bytes]:
    sources = [part.source for message in generation.messages for part in message.parts if isinstance(part, Image)]
    return [data_url(each.url, max_bytes=99) if each.url is not None else each.data or b"" for each in sources]


async def test_the_thought_of_a_turn_that_is_under_way_is_in_the_prompt(house: House) -> None:
    model = attrs.evolve(house.gateway.models["sim"], template=ChatTemplate(EVERYTHING))
    rounds = [Round("Where?", None, "LOOK-THERE", (("Oslo", "3"),), None)]
    for body, decode in WAYS.values():
        incoming = Incoming(msgspec.json.encode(body(None, rounds, None)), "r", path_values={"model": "sim"})
        prompt = render(decode(incoming).generation, model)

        assert isinstance(prompt, Prompt)
        assert "LOOK-THERE" in prompt.text


WALKS = """{% for message in messages %}{% for call in message.tool_calls or [] %}{% set given = call.function.arguments %}
{%- for name, value in given.items() %}{{ name }} {% endfor %}walked {% endfor %}{% endfor %}"""
ARGUMENTS = ("arguments", "input", "args")


def with_arguments(body: Any, value: object) -> Any:
    """The body with other arguments of its call: as JSON text, where the API has them as text."""
    if isinstance(body, list):
        return [with_arguments(each, value) for each in body]
    if not isinstance(body, dict):
        return body
    is_call = "name" in body and any(isinstance(body.get(key), str | dict) for key in ARGUMENTS)
    return {
        key: (json.dumps(value) if isinstance(each, str) else value)
        if is_call and key in ARGUMENTS
        else with_arguments(each, value)
        for key, each in body.items()
    }


@pytest.mark.parametrize("api", WAYS)
@pytest.mark.parametrize("value", [None, [1], "Paris", 7, {}, {"city": "Oslo"}])
async def test_arguments_that_are_no_object_in_an_old_turn_reach_a_template_as_one(
    house: House, api: str, value: object
) -> None:
    model = attrs.evolve(house.gateway.models["sim"], template=ChatTemplate(WALKS))
    body, decode = WAYS[api]
    old = with_arguments(body(None, [Round("Where?", None, None, (("Oslo", "3"),), "There.")], "Go on"), value)
    incoming = Incoming(msgspec.json.encode(old), "r", path_values={"model": "sim"})
    if api not in ("chat", "responses") and not isinstance(value, dict) and not (value is None and api != "messages"):
        with pytest.raises(InvalidRequest, match="expected an object"):  # the API has no text there
            decode(incoming)
        return
    prompt = render(decode(incoming).generation, model)

    assert isinstance(prompt, Prompt)
    assert prompt.text.endswith("walked ")


# ---------------------------------------------------------------------------------------------------------- the answer


@attrs.define
class Said:
    """An answer in no API's words. `usage` is prompt, output, thinking."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = attrs.field(factory=list)
    finish: str = ""
    usage: tuple[int, int, int] = (0, 0, 0)


FINISHES = {
    "chat": {"stop": "stop", "length": "length", "tool_calls": "calls"},
    "messages": {"end_turn": "stop", "max_tokens": "length", "tool_use": "calls"},
    "responses": {"completed": "stop", "incomplete": "length"},
    "generateContent": {"STOP": "stop", "MAX_TOKENS": "length"},
    "interactions": {"completed": "stop", "incomplete": "length", "requires_action": "calls"},
}
REPLIES: dict[str, tuple[Reply, int]] = {
    "text": (Reply("Grüße 🙂 aus Zürich."), 99),
    "reasoning": (Reply("Yes.", reasoning="Let me see."), 99),
    "a call": (tool_call("f", {"city": "Zürich"}), 99),
    "text, reasoning and calls": (
        Reply("I look.", reasoning="Hm.", tool_calls=(("f", {"city": "A"}), ("f", {"city": "B"}))),
        99,
    ),
    "cut": (Reply("one two three four five six"), 3),
}


def asked(name: str, most: int, stream: bool) -> tuple[str, Body]:
    body: Body = WAYS[name][0](None, [], "Go")
    if name == "chat":
        more: Body = {"stream_options": {"include_usage": True}} if stream else {}
        return "/v1/chat/completions", {**body, "max_tokens": most, "stream": stream, **more}
    if name == "messages":
        return "/v1/messages", {
            **body,
            "max_tokens": most,
            "stream": stream,
        }
    if name == "responses":
        return "/v1/responses", {**body, "max_output_tokens": most, "stream": stream}
    if name == "interactions":
        limited = {"max_output_tokens": most, "thinking_summaries": "auto"}
        return "/v1/interactions", {**body, "generation_config": limited, "stream": stream}
    config = {"maxOutputTokens": most, "thinkingConfig": {"includeThoughts": True}}
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/sim:{verb}", {**body, "generationConfig": config}


def from_chat(chunks: list[Body], stream: bool) -> Said:
    said, pieces = Said(), {}
    for chunk in chunks:
        if chunk.get("usage"):
            usage = chunk["usage"]
            thinking = usage["completion_tokens_details"]["reasoning_tokens"]
            said.usage = (usage["prompt_tokens"], usage["completion_tokens"], thinking)
        for choice in chunk["choices"]:
            delta = choice["delta" if stream else "message"]
            said.text += delta.get("content") or ""
            said.reasoning += delta.get("reasoning_content") or ""
            for order, call in enumerate(delta.get("tool_calls") or ()):
                name, text = pieces.get(call.get("index", order), ("", ""))
                function = call["function"]
                pieces[call.get("index", order)] = (name + function.get("name", ""), text + function["arguments"])
            said.finish = choice["finish_reason"] or said.finish
    said.calls = [(name, json.loads(text)) for name, text in pieces.values()]
    return said


def from_messages(chunks: list[Body], stream: bool) -> Said:
    said = Said()
    blocks: list[Body] = []
    usage: Body = {}
    for chunk in chunks:
        if not stream:
            blocks, said.finish, usage = chunk["content"], chunk["stop_reason"], chunk["usage"]
        elif chunk["type"] == "message_start":
            usage = dict(chunk["message"]["usage"])
        elif chunk["type"] == "content_block_start":
            blocks.append({**chunk["content_block"], "json": ""})
        elif chunk["type"] == "content_block_delta":
            delta = chunk["delta"]
            field = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "json"}.get(delta["type"])
            if field is not None:
                blocks[-1][field] += delta["partial_json" if field == "json" else field]
        elif chunk["type"] == "message_delta":
            said.finish, usage = chunk["delta"]["stop_reason"], {**usage, **chunk["usage"]}
    for block in blocks:
        if block["type"] == "text":
            said.text += block["text"]
        elif block["type"] == "thinking":
            said.reasoning += block["thinking"]
        else:
            said.calls.append((block["name"], json.loads(block["json"]) if block.get("json") else block["input"]))
    prompt = usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
    thinking = (usage.get("output_tokens_details") or {}).get("thinking_tokens", 0)
    said.usage = (prompt, usage["output_tokens"], thinking)
    return said


def from_gemini(chunks: list[Body], stream: bool) -> Said:
    said = Said()
    for chunk in chunks:
        for candidate in chunk.get("candidates", ()):
            said.finish = candidate.get("finishReason", said.finish)
            for part in candidate["content"]["parts"]:
                if "functionCall" in part:
                    said.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
                elif part.get("thought"):
                    said.reasoning += part["text"]
                else:
                    said.text += part["text"]
    usage = chunks[-1]["usageMetadata"]
    thinking = usage.get("thoughtsTokenCount", 0)
    said.usage = (usage["promptTokenCount"], usage["candidatesTokenCount"] + thinking, thinking)
    return said


def from_responses(chunks: list[Body], stream: bool) -> Said:
    """Of a stream, texts and arguments are those of its deltas, the rest that of its last event."""
    said = Said()
    answer = chunks[-1]["response"] if stream else chunks[-1]
    pieces: dict[str, str] = {}
    for chunk in chunks if stream else ():
        if chunk["type"].endswith(".delta"):
            pieces[chunk["item_id"]] = pieces.get(chunk["item_id"], "") + chunk["delta"]
    for item in answer["output"]:
        if item["type"] == "function_call":
            said.calls.append((item["name"], json.loads(pieces[item["id"]] if stream else item["arguments"])))
            continue
        told = pieces.get(item["id"], "") if stream else "".join(part["text"] for part in item["content"])
        if item["type"] == "reasoning":
            said.reasoning += told
        else:
            said.text += told
    said.finish = answer["status"]
    usage = answer["usage"]
    thinking = usage["output_tokens_details"]["reasoning_tokens"]
    said.usage = (usage["input_tokens"], usage["output_tokens"], thinking)
    return said


def from_interactions(chunks: list[Body], stream: bool) -> Said:
    said, names, pieces = Said(), list[str](), dict[int, str]()
    told = chunks[-1]["interaction"] if stream else chunks[-1]
    for chunk in chunks if stream else ():
        if chunk["event_type"] == "step.start" and chunk["step"]["type"] == "function_call":
            names.append(chunk["step"]["name"])
        elif chunk["event_type"] == "step.delta":
            delta = chunk["delta"]
            if delta["type"] == "text":
                said.text += delta["text"]
            elif delta["type"] == "thought_summary":
                said.reasoning += delta["content"]["text"]
            elif delta["type"] == "arguments_delta":
                pieces[chunk["index"]] = pieces.get(chunk["index"], "") + delta["arguments"]
    said.calls = [(name, json.loads(text)) for name, text in zip(names, pieces.values(), strict=True)]
    for step in () if stream else told["steps"]:
        if step["type"] == "function_call":
            said.calls.append((step["name"], step["arguments"]))
        elif step["type"] == "thought":
            said.reasoning += "".join(part["text"] for part in step.get("summary", ()))
        else:
            said.text += "".join(part["text"] for part in step["content"])
    said.finish = told["status"]
    usage = told["usage"]
    thinking = usage["total_thought_tokens"]
    said.usage = (usage["total_input_tokens"], usage["total_output_tokens"] + thinking, thinking)
    return said


READERS = {
    "chat": from_chat,
    "messages": from_messages,
    "responses": from_responses,
    "generateContent": from_gemini,
    "interactions": from_interactions,
}


async def summary_bytes_of(house: House, name: str, reply: Reply, most: int, stream: bool) -> Said:
    house.engine.say(reply)
    path, body = asked(name, most, stream)
    answer = await house.http.post(path, json=body, headers={"anthropic-version": "2023-06-01"})
    assert answer.status_code == 200, answer.text
    chunks = [answer.json()] if not stream else events_of(answer.content)
    said = READERS[name](chunks, stream)
    said.text, said.reasoning = said.text.strip(), said.reasoning.strip()
    known = FINISHES[name][said.finish]
    said.finish = "calls" if known == "stop" and said.calls else known
    return said


def events_of(data: bytes) -> list[Body]:
    reader = SseReader()
    return [json.loads(event.data) for event in reader.feed(data) if event.data != "[DONE]"]


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("reply", REPLIES)
async def test_every_api_says_the_same_answer_in_its_own_words(house: House, reply: str) -> None:
    found = {
        (name, stream): await summary_bytes_of(house, name, *REPLIES[reply], stream)
        for name in READERS
        for stream in (False, True)
    }

    first = found["chat", False]
    assert all(said == first for said in found.values()), found
    assert first.text or first.calls


async def test_two_tools_of_one_name_are_refused_by_every_api(house: House) -> None:
    """A model calls tools by their names."""
    schema = {"type": "object", "properties": {}}
    chat = {"type": "function", "function": {"name": "f", "parameters": schema}}
    flat = {"type": "function", "name": "f", "parameters": schema}
    message = {"name": "f", "input_schema": schema}
    declared = [{"name": "f"}, {"name": "g"}, {"name": "f"}]
    hello = [{"role": "user", "content": "Hello"}]
    contents = [{"role": "user", "parts": [{"text": "Hello"}]}]
    asked: dict[str, tuple[str, dict[str, Any], str]] = {
        "Chat": ("/v1/chat/completions", {"messages": hello, "tools": [chat, chat]}, "tools[1].function.name"),
        "Responses": ("/v1/responses", {"input": "Hello", "tools": [flat, flat]}, "tools[1].name"),
        "Messages": ("/v1/messages", {"messages": hello, "max_tokens": 5, "tools": [message, message]}, "tools.1.name"),
        "generateContent": (
            "/v1beta/models/sim:generateContent",
            {"contents": contents, "tools": [{"functionDeclarations": declared}]},
            "tools[0].functionDeclarations[2].name",
        ),
        "Interactions": ("/v1beta/interactions", {"input": "Hello", "tools": [flat, flat]}, "tools[1].name"),
    }
    for name, (path, body, param) in asked.items():
        body = body if "contents" in body else {"model": "sim", **body}
        answer = await house.http.post(path, json=body)
        assert answer.status_code == 400, (name, answer.text)
        assert param in answer.text, (name, answer.text)
        assert ("must be unique" if name == "Messages" else "named 'f'") in answer.text, (name, answer.text)
