"""A request's texts in its span, where the settings ask for that: the prompt, and the answer.

In the form of the GenAI semantic conventions: a JSON list of messages with parts. Of the prompt the last messages are kept, of an
answer its beginning; each within a bound of characters. Media are only named. Pure. Above: `requests`, the pipeline. Below: the
request and the events.
"""

import json
from collections.abc import Sequence

from smg_core.events import Event, Finished, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta, ToolCallStart
from smg_core.json_types import Json, JsonObject
from smg_core.request import GenerationRequest, Message, Opaque, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

__all__ = ["TracedContent"]

_MARK = "..."  # stands for what was cut off
_LEAST = 16  # characters that a part without a text counts as
_LONGEST_ID = 64


class TracedContent:
    """The texts of one request, at most `most` characters of the prompt and as many of the answer."""

    __slots__ = ("_answers", "_left", "_most", "inputs")

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self.inputs = ""
        self._answers: dict[int, _Answer] = {}

    def asked(self, request: GenerationRequest) -> None:
        """Note the prompt of an admitted request."""
        if request.prompt is not None:
            text = request.prompt if isinstance(request.prompt, str) else f"{len(request.prompt)} token ids"
            self.inputs = _encoded([_message("user", [_text_part(_last(text, self._most))])])
            return
        messages: list[JsonObject] = []
        left = self._most
        for message in reversed(request.messages):
            if left <= 0:
                break
            parts, left = _parts(message, left)
            messages.append(_message(message.role, parts))
        self.inputs = _encoded(messages[::-1])

    def take(self, events: Sequence[Event]) -> None:
        """Note what an engine said."""
        for event in events:
            match event:
                case TextDelta() | RefusalDelta():
                    self._add(self._of(event.index).text, event.text)
                case ReasoningDelta():
                    self._add(self._of(event.index).reasoning, event.text)
                case ToolCallStart():
                    if self._left > 0:
                        self._of(event.index).calls[event.call] = (event.id[:_LONGEST_ID], event.name[: self._left], [])
                        self._left -= len(event.name) + _LEAST
                case ToolCallDelta():
                    if (call := self._of(event.index).calls.get(event.call)) is not None:
                        self._add(call[2], event.arguments)
                case Finished():
                    self._of(event.index).finish = event.reason

    @property
    def outputs(self) -> str:
        """The answers so far, as JSON; "" where nothing came."""
        return _encoded([answer.as_message() for _, answer in sorted(self._answers.items())]) if self._answers else ""

    def _of(self, index: int) -> "_Answer":
        return self._answers.setdefault(index, _Answer())

    def _add(self, texts: list[str], text: str) -> None:
        if self._left > 0:
            texts.append(text if len(text) <= self._left else text[: self._left] + _MARK)
            self._left -= len(text)


class _Answer:
    """One choice of an answer."""

    __slots__ = ("calls", "finish", "reasoning", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, tuple[str, str, list[str]]] = {}
        self.finish = ""

    def as_message(self) -> JsonObject:
        parts: list[Json] = []
        if self.reasoning:
            parts.append({"type": "reasoning", "content": "".join(self.reasoning)})
        if self.text:
            parts.append(_text_part("".join(self.text)))
        for id, name, arguments in self.calls.values():
            parts.append({"type": "tool_call", "id": id, "name": name, "arguments": "".join(arguments)})
        message = _message("assistant", parts)
        return {**message, "finish_reason": self.finish} if self.finish else message


def _parts(message: Message, left: int) -> tuple[list[Json], int]:
    """The parts of a message in order, its last ones where there is no room for all, and what room is left."""
    found: list[Json] = []
    for part in reversed(message.parts):
        if left <= 0:
            break
        made, size = _part(part, left)
        found.append(made)
        left -= size
    return found[::-1], left


def _part(part: Part, left: int) -> tuple[JsonObject, int]:
    """A part of a message within `left` characters, and how many it takes."""
    match part:
        case Text() | Refusal():
            text = _last(part.text, left)
            return _text_part(text), max(len(text), 1)
        case Reasoning() if part.visible:
            text = _last(part.text, left)
            return {"type": "reasoning", "content": text}, max(len(text), 1)
        case ToolCall():
            name = part.name[:left]
            text = _last(part.arguments, left - len(name))
            return {"type": "tool_call", "id": part.id[:_LONGEST_ID], "name": name, "arguments": text}, len(name) + len(
                text
            ) + _LEAST
        case ToolResult():
            text = _last("".join([each.text for each in part.content if isinstance(each, Text)]), left)
            return {"type": "tool_call_response", "id": part.call_id[:_LONGEST_ID], "response": text}, len(
                text
            ) + _LEAST
        case Opaque() | Reasoning():
            return {"type": "reasoning"}, _LEAST
    return {"type": type(part).__name__.lower()}, _LEAST


def _last(text: str, most: int) -> str:
    return text if len(text) <= most else _MARK + text[len(text) - most :]


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "content": text}


def _message(role: str, parts: list[Json]) -> JsonObject:
    return {"role": role, "parts": parts}


def _encoded(messages: list[JsonObject]) -> str:
    """As JSON. A text may hold half of a surrogate pair, which UTF-8 does not have: it becomes a question mark."""
    return json.dumps(messages, ensure_ascii=False).encode("utf-8", "replace").decode()
