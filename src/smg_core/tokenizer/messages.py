"""Our messages and tools as the plain objects chat templates read.

Hugging Face's conventions: role, content as a string or a list of {"type": ...}, tool_calls with a function object, tool
turns with name and tool_call_id, reasoning_content. Pure; decides shapes by a template's facts and touches no template.
Above: chat_template. Below: request (the records) and template_facts (what the template takes).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec

from smg_core.errors import UnsupportedParameter
from smg_core.request import (
    Audio,
    CustomTool,
    FunctionTool,
    HostedTool,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Video,
)
from smg_core.tokenizer.template_facts import TemplateFacts
from smg_parsers.free_text import ARGUMENT, parameters, wrapped

__all__ = ["MessageShaper", "count_media", "text_asked_for"]

_PLAIN = frozenset({"system", "user", "assistant"})
_MEDIA: dict[type, str] = {Image: "image", Audio: "audio", Video: "video"}


@attrs.frozen
class MessageShaper:
    """Turns `Message` and `Tool` records into template objects.

    `media` is the text that stands for a medium where content is one string ("image" -> "<image>"; "{n}" in it becomes
    the medium's number, from 1); a template that takes strings refuses media that are not in it. `separator` joins text
    parts there.
    """

    facts: TemplateFacts
    media: Mapping[str, str] = attrs.field(factory=dict)
    separator: str = "\n"

    def messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """One object per turn; a tool result is a turn of its own, in its place."""
        shaped: list[dict[str, Any]] = []
        turns = _Turns(self)
        as_is = not self.facts.wraps
        for place, message in enumerate(messages):
            parts, role = message.parts, message.role
            # Nearly every turn is one string: a dict of it is all there is to do.
            if as_is and message.content_is_text and len(parts) == 1 and message.name is None and role in _PLAIN:
                part = parts[0]
                if part.__class__ is Text:
                    shaped.append({"role": role, "content": part.text})
                    continue
            shaped.extend(turns.shape(message, place))
        return shaped

    def tools(self, tools: Sequence[Tool]) -> list[dict[str, Any]] | None:
        """Function objects; None without tools, as Hugging Face has it."""
        return [_tool(tool, place) for place, tool in enumerate(tools)] or None


class _Turns:
    """One conversation on its way: remembers which call had which name, and counts media."""

    __slots__ = ("_counts", "_facts", "_names", "_shaper")

    def __init__(self, shaper: MessageShaper) -> None:
        self._shaper = shaper
        self._facts = shaper.facts
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def shape(self, message: Message, place: int) -> list[dict[str, Any]]:
        """The turns one message becomes."""
        turns: list[dict[str, Any]] = []
        content: list[Part] = []
        calls: list[dict[str, Any]] = []
        reasoning: list[str] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                turns.append(self._result(part, message, place))
            elif isinstance(part, ToolCall):
                calls.append(self._call(part))
            elif isinstance(part, Reasoning):
                reasoning.append(part.text)
            elif isinstance(part, Opaque):
                reasoning.append(_opaque_text(part))
            else:
                content.append(part)
        if content or calls or reasoning or not turns:
            turns.append(self._turn(message, content, calls, "\n".join(filter(None, reasoning)), place))
        return turns

    def _turn(
        self, message: Message, content: list[Part], calls: list[dict[str, Any]], reasoning: str, place: int
    ) -> dict[str, Any]:
        turn: dict[str, Any] = {}
        if reasoning:
            turn["thinking"] = reasoning
        turn["role"] = self._role(message)
        if content:
            turn["content"] = self._content(content, message.content_is_text, place)
        elif message.role == "assistant" and self._facts.none_checked:
            turn["content"] = None
        else:
            turn["content"] = self._string("") if message.content_is_text or not self._facts.wraps else []
        if message.name is not None:
            turn["name"] = message.name
        if calls:
            turn["tool_calls"] = calls
        if reasoning:
            turn["reasoning_content"] = reasoning
        return turn

    def _role(self, message: Message) -> str:
        return "system" if message.role == "developer" and not self._facts.developer else message.role

    def _string(self, text: str) -> str | list[dict[str, str]]:
        """One string of content, wrapped for a template that walks over content without asking what it is."""
        return [{"type": "text", "text": text}] if self._facts.wraps else text

    def _content(self, parts: Sequence[Part], is_text: bool, place: int) -> str | list[dict[str, str]]:
        if self._facts.content == "parts":
            if is_text and all(isinstance(part, Text | Refusal) for part in parts):
                return self._string("".join(_text(part) for part in parts))
            return [self._part(part, place) for part in parts]
        return self._joined(parts, place)

    def _part(self, part: Part, place: int) -> dict[str, str]:
        if isinstance(part, Text | Refusal):
            return {"type": "text", "text": part.text}
        return {"type": _media_kind(part, place)}

    def _joined(self, parts: Sequence[Part], place: int) -> str:
        """Text parts joined by the separator; a medium's text stands directly beside its neighbours."""
        out: list[str] = []
        after_text = False
        for part in parts:
            if isinstance(part, Text | Refusal):
                out += (self._shaper.separator, part.text) if after_text else (part.text,)
                after_text = True
            else:
                out.append(self._placeholder(_media_kind(part, place), place))
                after_text = False
        return "".join(out)

    def _placeholder(self, kind: str, place: int) -> str:
        text = self._shaper.media.get(kind)
        if text is None:
            raise UnsupportedParameter(
                f"This model's chat template has no place for {kind} content.", param=f"messages[{place}].parts"
            )
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return text.replace("{n}", str(self._counts[kind]))

    def _call(self, call: ToolCall) -> dict[str, Any]:
        self._names[call.id] = call.name
        arguments: Any = call.arguments
        if call.custom:
            arguments = wrapped(call.arguments) if self._facts.arguments == "text" else {ARGUMENT: call.arguments}
        elif self._facts.arguments == "object":
            arguments = _parsed(call.arguments)
        return {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": arguments}}

    def _result(self, result: ToolResult, message: Message, place: int) -> dict[str, Any]:
        turn: dict[str, Any] = {"role": "tool"}
        if all(isinstance(part, Text | Refusal) for part in result.content):
            turn["content"] = self._shaper.separator.join(_text(part) for part in result.content)
        else:
            turn["content"] = self._content(result.content, False, place)
        turn["tool_call_id"] = result.call_id
        name = message.name if message.role == "tool" and message.name else None
        name = name or result.name or self._names.get(result.call_id)
        if name is not None:
            turn["name"] = name
        return turn


def count_media(messages: Sequence[Message], kind: str) -> int:
    """How many media of `kind` ("image", "audio", "video") the messages and the tool results in them hold."""
    parts = [part for message in messages for part in message.parts]
    parts += [part for result in parts if isinstance(result, ToolResult) for part in result.content]
    return sum(_MEDIA.get(type(part)) == kind for part in parts)


def _text(part: Part) -> str:
    return part.text if isinstance(part, Text | Refusal) else ""


def _media_kind(part: Part, place: int) -> str:
    kind = _MEDIA.get(type(part))
    if kind is None:
        raise UnsupportedParameter(
            f"This model's chat template has no place for {type(part).__name__.lower()} content.",
            param=f"messages[{place}].parts",
        )
    return kind


def _parsed(arguments: str) -> Any:
    """The JSON object, or the text as it is where it is not one. Empty arguments are an empty object."""
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _opaque_text(block: Opaque) -> str:
    """What a model can read of an opaque block: the text of a thinking block, or of a reasoning item. Ciphertext says
    nothing to this model and is left out of its prompt."""
    try:
        body = msgspec.json.decode(block.payload)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if not isinstance(body, dict):
        return ""
    if isinstance(body.get("thinking"), str):
        return str(body["thinking"])
    items = body.get("content")
    texts = [item.get("text") for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))


def text_asked_for(tool: CustomTool) -> str | None:
    """What a model is told of the text that a tool takes; None where any will do."""
    if tool.grammar is None:
        return None
    if tool.syntax == "regex":
        return f"Text that this regular expression matches as a whole: {tool.grammar}"
    return f"Text of this Lark grammar:\n{tool.grammar}"


def _tool(tool: Tool, place: int) -> dict[str, Any]:
    if isinstance(tool, HostedTool):
        raise UnsupportedParameter(
            f"The tool type '{tool.kind}' is not one a model's chat template can describe.", param=f"tools[{place}]"
        )
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if isinstance(tool, FunctionTool):
        function["parameters"] = (
            tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}
        )
    else:
        function["parameters"] = parameters(text_asked_for(tool))
    return {"type": "function", "function": function}
