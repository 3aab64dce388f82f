"""The work of a request, in characters of text.

Decides what is short enough for the event loop, before anything walks all of it: counting ends where the bound is passed. Above:
prepare, for rendering; chat_calls, for writing the request to a server. Pure.
"""

from collections.abc import Iterable

from smg_core.request import (
    Audio,
    File,
    GenerationRequest,
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

__all__ = ["lighter_than", "quickly_written"]

_PART_COST = 64
"""Cost of a turn or a part without its text, in characters of text."""
_JSON_COST = 4
"""Cost of one character of a call's arguments, in characters of text: they are parsed for the template, which walks them."""


def quickly_written(request: GenerationRequest, most: int) -> bool:
    """Whether writing the request as a body costs at most as much as `most` characters of one message: what media consist of
    is written too. A flow may have added messages to those of the body."""
    return request.size <= most and lighter_than(request.messages, most, media=True)


def lighter_than(messages: Iterable[Message], most: int, *, media: bool = False) -> bool:
    """Whether rendering or writing `messages` costs at most as much as `most` characters of one message. `media`: what media
    consist of counts too; in a prompt they are a few characters each."""
    left = most
    for message in messages:
        left -= _PART_COST
        for part in message.parts:
            left -= _PART_COST + len(part.text) if type(part) is Text else _weight(part, media)  # nearly all are texts
            if left < 0:
                return False
    return left >= 0


def _weight(part: Part, media: bool) -> int:
    match part:
        case Text() | Reasoning() | Refusal():
            return _PART_COST + len(part.text)
        case ToolCall():
            return _PART_COST + _JSON_COST * len(part.arguments)
        case ToolResult():
            return _PART_COST + sum(_weight(each, media) for each in part.content)
        case Opaque():
            return _PART_COST + len(part.payload)
        case Image() | Audio() | Video() | File() if media:
            return _PART_COST + _size(part.source)
    return _PART_COST


def _size(source: MediaSource) -> int:
    return max(map(len, filter(None, (source.url, source.data, source.text))), default=0)
