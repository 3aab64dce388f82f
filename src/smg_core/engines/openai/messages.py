"""The messages of a `GenerationRequest` as those of a Chat Completions body.

Decides how each part is written. A turn that goes on behind a tool call becomes several messages, since one has its calls last;
an order that the wire cannot keep so either is refused by the part's path. The inverse of `apis.chat.messages`: a property
test holds the two together. Pure.
Above: body. Below: fields, the vocabulary.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smg_core.engines.openai.fields import ServerFields, Wire, refuse_unwritten, unsupported
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
    Text,
    ToolCall,
    ToolResult,
    Video,
)

__all__ = ["write_messages"]

_MEDIA: frozenset[type] = frozenset({Text, Image, Audio, Video, File})
_ALLOWED: dict[str, frozenset[type]] = {
    "system": frozenset({Text}),
    "developer": frozenset({Text}),
    "user": _MEDIA,
    "tool": _MEDIA,
    "assistant": _MEDIA | {Refusal, Reasoning},
}
_SCHEMES = ("http:", "https:", "data:")


def write_messages(messages: Sequence[Message], server: ServerFields) -> list[Wire]:
    """`messages` in order; one that holds several tool results becomes as many. Raises `UnsupportedParameter`."""
    written: list[Wire] = []
    for position, message in enumerate(messages):
        at = f"messages[{position}]"
        refuse_unwritten(message, at)
        if message.role == "assistant":
            written += _assistant(message, at, server)
        elif message.role == "tool" or (message.parts and isinstance(message.parts[0], ToolResult)):
            written += _results(message, at, server)
        else:
            written.append(_plain(message, at, server))
    return written


def _plain(message: Message, at: str, server: ServerFields) -> Wire:
    content = _content(tuple(enumerate(message.parts)), message, at, server)
    role = server.words.developer if message.role == "developer" else message.role
    return {"role": role, **_name(message), "content": content}


def _name(message: Message) -> Wire:
    return {} if message.name is None else {"name": message.name}


def _assistant(message: Message, at: str, server: ServerFields) -> list[Wire]:
    """The turn as one message, whose order is fixed: reasoning, opaque blocks, content, refusal, calls. What follows a call
    is a message of its own, which keeps the order."""
    written: list[Wire] = []
    rest = [(order, part) for order, part in enumerate(message.parts) if not _left_out(part)]
    while rest or not written:
        length = _one_message(rest)
        written.append(_spoken(rest[:length], message, at, server))
        rest = rest[length:]
    if len(written) > 1:
        server.needs_extras(f"{at}.parts")  # OpenAI wants the results right behind the calls
    return written


def _left_out(part: Part) -> bool:
    """Whether it is reasoning whose seal did not open: nothing is left of it."""
    return isinstance(part, Reasoning) and not part.text and part.seal is None


def _one_message(parts: Sequence[tuple[int, Part]]) -> int:
    """How many of the parts, from the first, are one message: all up to the first that follows a call and is none."""
    called = False
    for count, (_, part) in enumerate(parts):
        if isinstance(part, ToolCall):
            called = True
        elif called:
            return count
    return len(parts)


def _spoken(parts: Sequence[tuple[int, Part]], message: Message, at: str, server: ServerFields) -> Wire:
    wire: Wire = {"role": "assistant", **_name(message)}
    content: list[tuple[int, Part]] = []
    opaque: list[Wire] = []
    calls: list[Wire] = []
    first = parts[0][0] if parts else 0
    for order, part in parts:
        where = f"{at}.parts[{order}]"
        if isinstance(part, ToolCall):
            calls.append(_call(part, where))
        elif isinstance(part, Opaque):
            if content:
                raise unsupported(where)
            server.needs_extras(where)
            opaque.append(_opaque(part, where))
        elif isinstance(part, Reasoning) and order == first and part.text:
            server.needs_extras(where)
            refuse_unwritten(part, where)
            wire |= dict.fromkeys(server.words.reasoning, part.text)
        else:
            content.append((order, part))
    if content and (message.content_is_text or len(content) == 1):
        order, last = content[-1]
        if isinstance(last, Refusal) and last.text:
            refuse_unwritten(last, f"{at}.parts[{order}]")
            wire["refusal"] = last.text
            content.pop()
    wire["content"] = _content(content, message, at, server)
    if opaque:
        wire["opaque_blocks"] = opaque
    if calls:
        wire["tool_calls"] = calls
    return wire


def _opaque(part: Opaque, at: str) -> Wire:
    refuse_unwritten(part, at)
    try:
        return {"type": part.kind, "data": part.payload.decode()}
    except UnicodeDecodeError:
        return {"type": part.kind, "data": base64.b64encode(part.payload).decode(), "encoding": "base64"}


def _call(part: ToolCall, at: str) -> Wire:
    refuse_unwritten(part, at)
    if part.custom:
        return {"id": part.id, "type": "custom", "custom": {"name": part.name, "input": part.arguments}}
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}


def _results(message: Message, at: str, server: ServerFields) -> list[Wire]:
    """One message for each result that leads the turn; what follows in a user's turn is a message of its own."""
    written: list[Wire] = []
    for order, part in enumerate(message.parts):
        where = f"{at}.parts[{order}]"
        if not isinstance(part, ToolResult):
            if message.role == "tool":
                raise unsupported(where)
            rest = tuple(enumerate(message.parts))[order:]
            content = _content(rest, message, at, server)
            return [*written, {"role": message.role, **_name(message), "content": content}]
        refuse_unwritten(part, where)
        wire: Wire = {"role": "tool", "tool_call_id": part.call_id}
        if message.role == "tool":
            wire |= _name(message)
        wire["content"] = _result_content(part, message, where, server)
        written.append(wire)
    if not written:
        raise unsupported(f"{at}.parts")
    return written


def _result_content(result: ToolResult, message: Message, at: str, server: ServerFields) -> str | list[Wire]:
    if not result.content:
        return ""
    if len(result.content) == 1 and message.content_is_text and (text := _plain_text(result.content[0])) is not None:
        return text
    return [_part(part, "tool", f"{at}.content[{order}]", server) for order, part in enumerate(result.content)]


# ------------------------------------------------------------------------------------------------------------- content


def _content(
    parts: Sequence[tuple[int, Part]], message: Message, at: str, server: ServerFields
) -> str | list[Wire] | None:
    """A string where the client sent one, else a list of parts. `parts` come with their index in the message."""
    if not parts:
        return "" if message.content_is_text or message.role != "assistant" else None
    if len(parts) == 1 and message.content_is_text and (text := _plain_text(parts[0][1])) is not None:
        return text
    return [_part(part, message.role, f"{at}.parts[{order}]", server) for order, part in parts]


def _plain_text(part: Part) -> str | None:
    return part.text if isinstance(part, Text) and part.cache is None else None


def _part(part: Part, role: str, at: str, server: ServerFields) -> Wire:
    if type(part) not in _ALLOWED[role]:
        raise unsupported(at)
    refuse_unwritten(part, at)
    return _PARTS[type(part)](part, at, server)


def _cache(mark: Mapping[str, object] | None, server: ServerFields) -> Wire:
    """A cache mark in its API's form: that of Chat, or that of Messages, which engines take too."""
    if mark is None:
        return {}
    if "mode" in mark:
        return {"prompt_cache_breakpoint": dict(mark)}
    return {"cache_control": dict(mark)} if server.extras else {}


def _text(part: Text, at: str, server: ServerFields) -> Wire:
    return {"type": "text", "text": part.text, **_cache(part.cache, server)}


def _image(part: Image, at: str, server: ServerFields) -> Wire:
    picture = {"url": _url(part.source, at, "image/png")}
    if part.detail != "auto":
        picture["detail"] = part.detail
    return {"type": "image_url", "image_url": picture, **_cache(part.cache, server)}


def _audio(part: Audio, at: str, server: ServerFields) -> Wire:
    if part.format is None:
        server.needs_extras(at)
        return {"type": "audio_url", "audio_url": {"url": _url(part.source, at, "audio/wav")}}
    if part.source.data is not None:
        data = base64.b64encode(part.source.data).decode()
    else:
        head, comma, data = _url(part.source, at, "").partition(";base64,")
        if not comma or head != f"data:audio/{part.format}":
            raise unsupported(f"{at}.format")
    sound = {"data": data, "format": part.format}
    return {"type": "input_audio", "input_audio": sound, **_cache(part.cache, server)}


def _video(part: Video, at: str, server: ServerFields) -> Wire:
    server.needs_extras(at)
    return {"type": "video_url", "video_url": {"url": _url(part.source, at, "video/mp4")}}


def _file(part: File, at: str, server: ServerFields) -> Wire:
    file: Wire = {} if part.filename is None else {"filename": part.filename}
    if part.source.file_id is not None:
        file["file_id"] = part.source.file_id
    else:
        url = _url(part.source, at, "application/octet-stream")
        if not url.startswith("data:"):
            raise unsupported(f"{at}.source.url")
        file["file_data"] = url
    return {"type": "file", "file": file, **_cache(part.cache, server)}


def _thinking(part: Reasoning, at: str, server: ServerFields) -> Wire:
    server.needs_extras(at)
    if part.seal is not None and not part.text:
        raise unsupported(f"{at}.seal")  # what it says has not been opened
    return {"type": "thinking", "thinking": part.text}


def _url(source: MediaSource, at: str, media_type: str) -> str:
    """The source as a URL that another machine can read: a path of this one means nothing to it. Bytes become a data: URL
    of their own type, else of `media_type`."""
    refuse_unwritten(source, f"{at}.source")
    if source.data is not None:
        return f"data:{source.media_type or media_type};base64,{base64.b64encode(source.data).decode()}"
    if source.url is None:
        raise unsupported(f"{at}.source.{'text' if source.file_id is None else 'file_id'}")
    if not source.url[:6].lower().startswith(_SCHEMES):
        raise unsupported(f"{at}.source.url")
    return source.url


_PARTS: dict[type, Callable[[Any, str, ServerFields], Wire]] = {
    Text: _text,
    Image: _image,
    Audio: _audio,
    Video: _video,
    File: _file,
    Refusal: lambda part, at, server: {"type": "refusal", "refusal": part.text},
    Reasoning: _thinking,
}
