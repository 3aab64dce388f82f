"""Conversations as bodies of each provider's format, read back by the gateway's own decoder of that API: nothing is lost."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.gemini.decode import decode_generate
from smg_core.apis.messages.decode import decode_messages
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.bedrock.converse import ConverseFormat
from smg_core.engines.vendors.chat.format import ChatFormat
from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES
from smg_core.engines.vendors.gemini.format import GeminiFormat
from smg_core.engines.vendors.responses.format import ResponsesFormat
from smg_core.errors import UnsupportedParameter
from smg_core.request import (
    FunctionTool,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Part,
    Reasoning,
    Sampling,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from smg_core.wire.base import Incoming

TEXTS = st.text('ab é\n<>"\\', min_size=1, max_size=6).filter(str.strip)
OBJECTS = st.dictionaries(st.text("ab", min_size=1, max_size=2), TEXTS | st.integers(-9, 9) | st.none(), max_size=2)
PICTURES = st.binary(min_size=1, max_size=4).map(lambda data: Image(MediaSource(data=data, media_type="image/png")))
SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOLS = (FunctionTool("get_weather", "The weather", SCHEMA), FunctionTool("now", None, {**SCHEMA, "required": []}))


@st.composite
def talks(draw: Any) -> GenerationRequest:
    """A talk: turns of the user, and of the assistant with calls that are answered."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message("system", (Text(draw(TEXTS)),)))
    calls = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append(Message("user", tuple(draw(st.lists(TEXTS.map(Text) | PICTURES, min_size=1, max_size=2)))))
        asked = tuple(
            ToolCall(
                f"call_{calls + at}", draw(st.sampled_from(TOOLS)).name, msgspec.json.encode(draw(OBJECTS)).decode()
            )
            for at in range(draw(st.integers(0, 2)))
        )
        calls += len(asked)
        spoken = (Text(draw(TEXTS)),) if draw(st.booleans()) or not asked else ()
        messages.append(Message("assistant", (*spoken, *asked)))
        messages += [Message("tool", (ToolResult(each.id, (Text(draw(TEXTS)),), name=each.name),)) for each in asked]
    messages.append(Message("user", (Text(draw(TEXTS)),)))
    sampling = Sampling(
        max_tokens=draw(st.integers(1, 99)),
        temperature=draw(st.none() | st.sampled_from([0.0, 0.5, 1.0])),
        top_p=draw(st.none() | st.sampled_from([0.1, 1.0])),
    )
    choice = draw(st.sampled_from([ToolChoice(), ToolChoice("none"), ToolChoice("required")]))
    return GenerationRequest("r", "m", tuple(messages), tools=TOOLS, tool_choice=choice, sampling=sampling)


def meaning(request: GenerationRequest) -> Any:
    """What a request says, whatever turns it is cut into."""
    turns: list[tuple[str, list[Any]]] = []
    for message in request.messages:
        role = "user" if message.role == "tool" else "system" if message.role == "developer" else message.role
        parts = [_meant(part) for part in message.parts if not isinstance(part, Reasoning)]
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, parts))
    asked = request.sampling
    tools = [(each.name, each.description, each.parameters) for each in request.tools if isinstance(each, FunctionTool)]
    return turns, tools, request.tool_choice.mode, (asked.max_tokens, asked.temperature, asked.top_p)


def _meant(part: Part) -> Any:
    match part:
        case Text():
            return part.text
        case Image():
            return ("picture", _bytes(part.source))
        case ToolCall():
            return ("call", part.id, part.name, msgspec.json.decode(part.arguments))
        case ToolResult():
            return ("result", part.call_id, "".join(each.text for each in part.content if isinstance(each, Text)))
    raise AssertionError(part)


def _bytes(source: MediaSource) -> bytes:
    return source.data if source.data is not None else base64.b64decode((source.url or "").partition(",")[2])


def gemini_read(body: bytes) -> GenerationRequest:
    return decode_generate(Incoming(body, "r", path_values={"model": "gemini-3-pro"})).generation


def converse_read(body: bytes) -> GenerationRequest:
    """What a body of Converse says, which no API of the gateway reads."""
    said = msgspec.json.decode(body)
    messages = [Message("system", (Text(each["text"]),)) for each in said.get("system", ())]
    messages += [Message(each["role"], tuple(map(_of_converse, each["content"]))) for each in said["messages"]]
    config = said.get("toolConfig", {})
    specs = [each["toolSpec"] for each in config.get("tools", ())]
    mode = {"any": "required"}.get(next(iter(config.get("toolChoice", {"auto": {}}))), "auto")
    asked = said.get("inferenceConfig", {})
    return GenerationRequest(
        "r",
        "m",
        tuple(messages),
        tools=tuple(FunctionTool(each["name"], each.get("description"), each["inputSchema"]["json"]) for each in specs),
        tool_choice=ToolChoice(mode),  # type: ignore[arg-type]
        sampling=Sampling(max_tokens=asked["maxTokens"], temperature=asked.get("temperature"), top_p=asked.get("topP")),
    )


def _of_converse(block: Any) -> Part:
    ((kind, value),) = block.items()
    match kind:
        case "text":
            return Text(value)
        case "image":
            return Image(MediaSource(data=base64.b64decode(value["source"]["bytes"]), media_type="image/png"))
        case "toolUse":
            return ToolCall(value["toolUseId"], value["name"], msgspec.json.encode(value["input"]).decode())
        case "toolResult":
            return ToolResult(value["toolUseId"], tuple(map(_of_converse, value["content"])))
    raise AssertionError(kind)


def chat_format(name: str) -> Callable[[], Any]:
    return lambda: ChatFormat(CHAT_PROFILES[name])


def chat_read(body: bytes) -> GenerationRequest:
    return decode_chat(Incoming(body, "r")).generation


READ: dict[str, tuple[Callable[[], Any], str, Callable[[bytes], GenerationRequest]]] = {
    "bedrock": (ConverseFormat, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", converse_read),
    **{name: (chat_format(name), "vendor-model", chat_read) for name in ("openai-chat", "azure", "openrouter")},
    "anthropic": (MessagesFormat, "claude-opus-4-6", lambda body: decode_messages(Incoming(body, "r")).generation),
    "gemini": (GeminiFormat, "gemini-3-pro", gemini_read),
    "openai-responses": (ResponsesFormat, "gpt-6", lambda body: decode_responses(Incoming(body, "r")).generation),
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("kind", READ)
@given(request=talks())
@settings(max_examples=60)
def test_a_talk_means_the_same_when_it_is_read_back(kind: str, request: GenerationRequest) -> None:
    wire, model, read = READ[kind]

    calls = any(isinstance(part, ToolCall) for each in request.messages for part in each.parts)
    if (
        kind == "bedrock" and request.tool_choice.mode == "none" and calls
    ):  # calls want their tools, which may not be called
        with pytest.raises(UnsupportedParameter, match="tool_choice"):
            wire().ask(request, model, EnginesConfig())
        return

    sent = wire().ask(request, model, EnginesConfig())

    expected, found = meaning(request), meaning(read(sent.body))
    if "tool_choice" in sent.losses:  # there is no word for tools that are not to be called, so none is offered
        assert request.tool_choice.mode == "none"
        assert found == (expected[0], [], "auto", expected[3]), sent.body
    else:
        assert found == expected, sent.body
    assert set(sent.losses) <= {"call_signature", "tool_choice"}
