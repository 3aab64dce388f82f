"""The messages of a `GenerationRequest` as those of a Chat Completions body.

Decides how each part is written, and that a turn whose order of parts the wire cannot keep (a text behind a tool call) is
refused by the part's path. The inverse of `protocols.chat_messages`: a property test holds the two together. Pure.
Above: body. Below: words, the vocabulary.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smg_core.engines.openai.words import ChatWords, no_word, refuse_unwritten
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

Wire = dict[str, Any]

_MEDIA: frozenset[type] = frozenset({Text, Image, Audio, Video, File})
_ALLOWED: dict[str, frozenset[type]] = {
    "system": frozenset({Text}),
    "developer": frozenset({Text}),
    "user": _MEDIA,
    "tool": _MEDIA,
    "assistant": _MEDIA | {Refusal, Reasoning},
}
_SCHEMES = ("http:", "https:", "data:")


def write_messages(messages: Sequence[Message], words: ChatWords) -> list[Wire]:
    """`messages` in order; one that holds several tool results becomes as many. Raises `UnsupportedParameter`."""
    written: list[Wire] = []
    for position, message in enumerate(messages):
        at = f"messages[{position}]"
        refuse_unwritten(message, at)
        if message.role == "assistant":
            written.append(_assistant(message, at, words))
        elif message.role == "tool" or (message.parts and isinstance(message.parts[0], ToolResult)):
            written += _results(message, at, words)
        else:
            written.append(_plain(message, at, words))
    return written


def _plain(message: Message, at: str, words: ChatWords) -> Wire:
    content = _content(tuple(enumerate(message.parts)), message, at, words)
    return {"role": message.role, **_name(message), "content": content}


def _name(message: Message) -> Wire:
    return {} if message.name is None else {"name": message.name}


def _assistant(message: Message, at: str, words: ChatWords) -> Wire:
    """The wire's order is fixed: reasoning, opaque blocks, content, refusal, calls."""
    wire: Wire = {"role": "assistant", **_name(message)}
    content: list[tuple[int, Part]] = []
    opaque: list[Wire] = []
    calls: list[Wire] = []
    for order, part in enumerate(message.parts):
        where = f"{at}.parts[{order}]"
        if isinstance(part, ToolCall):
            calls.append(_call(part, where))
        elif calls or (isinstance(part, Opaque) and content):
            raise no_word(where)
        elif isinstance(part, Opaque):
            words.needs_extras(where)
            opaque.append(_opaque(part, where))
        elif isinstance(part, Reasoning) and order == 0 and part.text:
            words.needs_extras(where)
            refuse_unwritten(part, where)
            wire["reasoning_content"] = part.text
        else:
            content.append((order, part))
    if content and (message.content_is_text or len(content) == 1):
        order, last = content[-1]
        if isinstance(last, Refusal) and last.text:
            refuse_unwritten(last, f"{at}.parts[{order}]")
            wire["refusal"] = last.text
            content.pop()
    wire["content"] = _content(content, message, at, words)
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


def _results(message: Message, at: str, words: ChatWords) -> list[Wire]:
    """One message for each result that leads the turn; what follows in a user's turn is a message of its own."""
    written: list[Wire] = []
    for order, part in enumerate(message.parts):
        where = f"{at}.parts[{order}]"
        if not isinstance(part, ToolResult):
            if message.role == "tool":
                raise no_word(where)
            rest = tuple(enumerate(message.parts))[order:]
            content = _content(rest, message, at, words)
            return [*written, {"role": message.role, **_name(message), "content": content}]
        refuse_unwritten(part, where)
        wire: Wire = {"role": "tool", "tool_call_id": part.call_id}
        if message.role == "tool":
            wire |= _name(message)
        wire["content"] = _result_content(part, message, where, words)
        written.append(wire)
    if not written:
        raise no_word(f"{at}.parts")
    return written


def _result_content(result: ToolResult, message: Message, at: str, words: ChatWords) -> str | list[Wire]:
    if not result.content:
        return ""
    if len(result.content) == 1 and message.content_is_text and (text := _plain_text(result.content[0])) is not None:
        return text
    return [_part(part, "tool", f"{at}.content[{order}]", words) for order, part in enumerate(result.content)]


# ------------------------------------------------------------------------------------------------------------- content


def _content(parts: Sequence[tuple[int, Part]], message: Message, at: str, words: ChatWords) -> str | list[Wire] | None:
    """One string where the client wrote one, else a list of parts. `parts` come with their places in the message."""
    if not parts:
        return "" if message.content_is_text or message.role != "assistant" else None
    if len(parts) == 1 and message.content_is_text and (text := _plain_text(parts[0][1])) is not None:
        return text
    return [_part(part, message.role, f"{at}.parts[{order}]", words) for order, part in parts]


def _plain_text(part: Part) -> str | None:
    return part.text if isinstance(part, Text) and part.cache is None else None


def _part(part: Part, role: str, at: str, words: ChatWords) -> Wire:
    if type(part) not in _ALLOWED[role]:
        raise no_word(at)
    refuse_unwritten(part, at)
    return _PARTS[type(part)](part, at, words)


def _cache(mark: Mapping[str, Any] | None, words: ChatWords) -> Wire:
    """The mark as the API wrote it: Chat's own, or Messages', which engines take too."""
    if mark is None:
        return {}
    if "mode" in mark:
        return {"prompt_cache_breakpoint": dict(mark)}
    return {"cache_control": dict(mark)} if words.extras else {}


def _text(part: Text, at: str, words: ChatWords) -> Wire:
    return {"type": "text", "text": part.text, **_cache(part.cache, words)}


def _image(part: Image, at: str, words: ChatWords) -> Wire:
    picture = {"url": _url(part.source, at, "image/png")}
    if part.detail != "auto":
        picture["detail"] = part.detail
    return {"type": "image_url", "image_url": picture, **_cache(part.cache, words)}


def _audio(part: Audio, at: str, words: ChatWords) -> Wire:
    if part.format is None:
        words.needs_extras(at)
        return {"type": "audio_url", "audio_url": {"url": _url(part.source, at, "audio/wav")}}
    if part.source.data is not None:
        data = base64.b64encode(part.source.data).decode()
    else:
        head, comma, data = _url(part.source, at, "").partition(";base64,")
        if not comma or head != f"data:audio/{part.format}":
            raise no_word(f"{at}.format")
    sound = {"data": data, "format": part.format}
    return {"type": "input_audio", "input_audio": sound, **_cache(part.cache, words)}


def _video(part: Video, at: str, words: ChatWords) -> Wire:
    words.needs_extras(at)
    return {"type": "video_url", "video_url": {"url": _url(part.source, at, "video/mp4")}}


def _file(part: File, at: str, words: ChatWords) -> Wire:
    file: Wire = {} if part.filename is None else {"filename": part.filename}
    if part.source.file_id is not None:
        file["file_id"] = part.source.file_id
    else:
        file["file_data"] = _url(part.source, at, "application/octet-stream")
        if not file["file_data"].startswith("data:"):
            raise no_word(f"{at}.source.url")
    return {"type": "file", "file": file, **_cache(part.cache, words)}


def _thinking(part: Reasoning, at: str, words: ChatWords) -> Wire:
    words.needs_extras(at)
    if part.seal is not None and not part.text:
        raise no_word(f"{at}.seal")  # what it says has not been opened
    return {"type": "thinking", "thinking": part.text}


def _url(source: MediaSource, at: str, media_type: str) -> str:
    """The source as a URL that another machine can read: a path of this one means nothing to it. Bytes become a data: URL
    of their own type, else of `media_type`."""
    refuse_unwritten(source, f"{at}.source")
    if source.data is not None:
        return f"data:{source.media_type or media_type};base64,{base64.b64encode(source.data).decode()}"
    if source.url is None:
        raise no_word(f"{at}.source.{'text' if source.file_id is None else 'file_id'}")
    if not source.url[:6].lower().startswith(_SCHEMES):
        raise no_word(f"{at}.source.url")
    return source.url


_PARTS: dict[type, Callable[[Any, str, ChatWords], Wire]] = {
    Text: _text,
    Image: _image,
    Audio: _audio,
    Video: _video,
    File: _file,
    Refusal: lambda part, at, words: {"type": "refusal", "refusal": part.text},
    Reasoning: _thinking,
}
