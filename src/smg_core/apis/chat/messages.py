"""The messages of a Chat Completions request as `Message` records.

Decides which content parts each role may hold and how legacy function calls become tool calls. Inline media stays a `data:` URL:
the pipeline decodes it, off the event loop; an inline file of text becomes a text here. What would break an engine or a template
is refused (a user's message that is null, an image in a system prompt). What other servers accept is accepted: an assistant's
message may be empty, and a tool result may answer a call that is not in the history. JSON texts in strings (arguments of calls,
opaque blocks) are bounded here, before anything parses them.

Pure. Above: chat. Below: the wire types, documents, json_bounds, request.
"""

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from smg_core.apis.chat import types as wire
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.request import (
    Audio,
    File,
    Image,
    MediaSource,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from smg_core.wire.documents import document_text, inline_file, untyped_url
from smg_core.wire.json_bounds import NestedJson
from smg_core.wire.settings import LimitsConfig

__all__ = ["read_message", "read_messages"]

_Place = tuple[int, int]
"""Where a part stands: the index of its message, and its own in that message's content."""

_MEDIA: tuple[type, ...] = (
    wire.TextPart,
    wire.ImagePart,
    wire.VideoUrlPart,
    wire.AudioUrlPart,
    wire.InputAudioPart,
    wire.FilePart,
)
_ALLOWED: dict[str, frozenset[type]] = {
    "system": frozenset({wire.TextPart}),
    "developer": frozenset({wire.TextPart}),
    "user": frozenset(_MEDIA),
    "tool": frozenset(_MEDIA),
    "assistant": frozenset({*_MEDIA, wire.RefusalPart, wire.ThinkingPart}),
}


def read_messages(messages: list[wire.MessageWire], limits: LimitsConfig) -> tuple[Message, ...]:
    """`messages` in order. Raises `InvalidRequest` naming the part at fault."""
    read: list[Message] = []
    nested: NestedJson | None = None
    for position, message in enumerate(messages):
        content = message.content
        role = _PLAIN_ROLES.get(type(message))
        if role is None:
            nested = nested or NestedJson(limits)
            read.append(read_message(message, position, nested))
        elif isinstance(content, str):
            read.append(Message(role, (Text(content),), message.name, True))
        else:
            read.append(Message(role, _parts(content or [], role, position), message.name))
    return tuple(read)


def read_message(message: wire.MessageWire, position: int, nested: NestedJson) -> Message:
    """One message of an assistant, a tool or a function. `nested` bounds the JSON texts of all messages together."""
    return _READERS[type(message)](message, position, nested)


def _assistant(message: wire.AssistantMessage, position: int, nested: NestedJson) -> Message:
    if message.mcp_calls or message.mcp_approval_requests:
        raise _not_hosted(f"messages[{position}].{'mcp_calls' if message.mcp_calls else 'mcp_approval_requests'}")
    if message.audio is not None:
        raise UnsupportedParameter(
            "Earlier audio answers cannot be referred to on this server.", param=f"messages[{position}].audio"
        )
    if message.annotations:
        raise UnsupportedParameter(
            "Annotations of earlier answers cannot be sent back on this server.",
            param=f"messages[{position}].annotations",
        )
    parts: list[Part] = []
    thought = message.reasoning_content if message.reasoning_content is not None else message.reasoning
    if thought:
        parts.append(Reasoning(thought))
    if message.opaque_blocks:
        parts.extend([_opaque(block, position, order, nested) for order, block in enumerate(message.opaque_blocks)])
    is_text = isinstance(message.content, str)
    if isinstance(message.content, str):
        if message.content or not (message.tool_calls or message.function_call):
            parts.append(Text(message.content))
    elif message.content is not None:
        parts.extend(_parts(message.content, "assistant", position))
    if message.refusal:
        parts.append(Refusal(message.refusal))
    for order, call in enumerate(message.tool_calls or ()):
        parts.append(_call(call, position, order, nested))
    if message.function_call is not None:
        nested.check(message.function_call.arguments, f"messages[{position}].function_call.arguments")
        parts.append(
            ToolCall(
                _legacy_id(message.function_call.name), message.function_call.name, message.function_call.arguments
            )
        )
    return Message("assistant", tuple(parts), message.name, is_text)


def _opaque(block: wire.OpaqueBlockWire, position: int, order: int, nested: NestedJson) -> Opaque:
    at = f"messages[{position}].opaque_blocks[{order}].data"
    if block.encoding is None:
        payload = block.data.encode()
    else:
        try:
            payload = base64.b64decode(block.data, validate=True)
        except ValueError:
            raise InvalidRequest(f"Invalid '{at}': it is not base64.", param=at, code="invalid_value") from None
    nested.check(payload, at)
    return Opaque(block.type, payload)


def _call(call: wire.ToolCallWire, position: int, order: int, nested: NestedJson) -> ToolCall:
    if call.type == "function" and call.function is not None and call.custom is None:
        nested.check(call.function.arguments, f"messages[{position}].tool_calls[{order}].function.arguments")
        return ToolCall(call.id, call.function.name, call.function.arguments)
    if call.type == "custom" and call.custom is not None and call.function is None:
        return ToolCall(call.id, call.custom.name, call.custom.input, custom=True)
    at = f"messages[{position}].tool_calls[{order}]"
    if (call.function if call.type == "function" else call.custom) is None:
        raise InvalidRequest(
            f"Missing required parameter: '{at}.{call.type}'.",
            param=f"{at}.{call.type}",
            code="missing_required_parameter",
        )
    other = "custom" if call.type == "function" else "function"
    raise InvalidRequest(f"A call of type '{call.type}' has no '{other}'.", param=f"{at}.{other}", code="invalid_value")


def _not_hosted(at: str) -> UnsupportedParameter:
    return UnsupportedParameter(
        f"Unsupported parameter: '{at}' is not supported here: tools of MCP servers do not run in Chat on this server.",
        param=at,
    )


def _tool(message: wire.ToolMessage, position: int, _: NestedJson) -> Message:
    if message.approve is not None:
        raise _not_hosted(f"messages[{position}].approve")
    content = message.content
    if isinstance(content, str):
        return Message("tool", (ToolResult(message.tool_call_id, (Text(content),)),), message.name, True)
    return Message("tool", (ToolResult(message.tool_call_id, _parts(content, "tool", position)),), message.name)


def _function(message: wire.FunctionMessage, _: int, __: NestedJson) -> Message:
    result = ToolResult(_legacy_id(message.name), (Text(message.content or ""),))
    return Message("tool", (result,), message.name, True)


def _legacy_id(name: str) -> str:
    """The id of a legacy call, which has none on the wire: a call and its result share only the function's name."""
    return f"call_{name}"


def _parts(content: list[wire.PartWire], role: Role, position: int) -> tuple[Part, ...]:
    allowed = _ALLOWED[role]
    if not content and role != "assistant":
        at = f"messages[{position}].content"
        raise InvalidRequest(
            f"Invalid '{at}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            param=at,
            code="empty_array",
        )
    parts: list[Part] = []
    for order, part in enumerate(content):
        if type(part) not in allowed:
            at = f"messages[{position}].content[{order}].type"
            kind = part.__struct_config__.tag
            raise InvalidRequest(
                f"Invalid value for '{at}': a message with role '{role}' cannot hold a part of type '{kind}'.",
                param=at,
                code="invalid_value",
            )
        try:
            parts.append(_PART_READERS[type(part)](part, (position, order)))
        except ValueError as problem:
            at = f"messages[{position}].content[{order}]"
            raise InvalidRequest(f"Invalid '{at}': {problem}.", param=at, code="invalid_value") from None
    return tuple(parts)


def _cache(part: wire.TextPart | wire.ImagePart | wire.InputAudioPart | wire.FilePart) -> JsonObject | None:
    mark = part.prompt_cache_breakpoint or part.cache_control
    return None if mark is None else {k: v for k, v in msgspec.structs.asdict(mark).items() if v is not None}


def _image(part: wire.ImagePart, _: _Place) -> Part:
    picture = part.image_url
    if isinstance(picture, str):
        return Image(MediaSource(url=picture), cache=_cache(part))
    return Image(MediaSource(url=picture.url), picture.detail or "auto", cache=_cache(part))


def _sound(part: wire.InputAudioPart, _: _Place) -> Part:
    sound = part.input_audio
    url = f"data:audio/{sound.format};base64,{sound.data}"
    return Audio(MediaSource(url=url), sound.format, cache=_cache(part))


def _file(part: wire.FilePart, place: _Place) -> Part:
    file = part.file
    if (file.file_data is None) == (file.file_id is None):
        raise ValueError("a file has exactly one of 'file_data' and 'file_id'")
    cache = _cache(part)
    if file.file_id is not None:
        return File(MediaSource(file_id=file.file_id), file.filename, cache=cache)
    url = untyped_url(file.file_data or "")
    found = inline_file(url, f"messages[{place[0]}].content[{place[1]}].file.file_data")
    if isinstance(found, str):
        return Text(document_text(found, file.filename), cache)
    return File(found, file.filename, cache=cache)


_PLAIN_ROLES: dict[type, Role] = {
    wire.UserMessage: "user",
    wire.SystemMessage: "system",
    wire.DeveloperMessage: "developer",
}
_READERS: dict[type, Callable[[Any, int, NestedJson], Message]] = {
    wire.AssistantMessage: _assistant,
    wire.ToolMessage: _tool,
    wire.FunctionMessage: _function,
}
_PART_READERS: dict[type, Callable[[Any, _Place], Part]] = {
    wire.TextPart: lambda part, _: Text(part.text, _cache(part)),
    wire.ImagePart: _image,
    wire.VideoUrlPart: lambda part, _: Video(MediaSource(url=part.video_url.url)),
    wire.AudioUrlPart: lambda part, _: Audio(MediaSource(url=part.audio_url.url)),
    wire.InputAudioPart: _sound,
    wire.FilePart: _file,
    wire.RefusalPart: lambda part, _: Refusal(part.refusal),
    wire.ThinkingPart: lambda part, _: Reasoning(part.thinking),
}
