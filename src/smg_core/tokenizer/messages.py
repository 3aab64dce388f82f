"""Writes messages and tools as the plain objects that chat templates read.

The objects follow Hugging Face: role, content as a string or a list of {"type": ...}, tool_calls with a function object,
tool turns with name and tool_call_id, reasoning_content. Pure: the shapes depend on a template's facts, and no template is
touched. Above: chat_template; the pipeline (`text_asked_for`). Below: request, template_facts, and from smg_parsers the
spelling of custom tools.
"""

import hashlib
import json
import string
from collections.abc import Mapping, Sequence

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
from smg_parsers.json_text.free_text import ARGUMENT, parameters, wrapped

__all__ = ["MessageShaper", "TemplateObject", "count_media", "text_asked_for", "with_reminders"]

TemplateObject = dict[str, object]
"""A turn, a tool or a tool call as a chat template reads it."""

_NO_OBJECT = "INVALID_JSON"

_PLAIN = frozenset({"system", "user", "assistant"})
_MEDIA: dict[type, str] = {Image: "image", Audio: "audio", Video: "video"}


@attrs.frozen
class MessageShaper:
    """Turns `Message` and `Tool` records into template objects.

    `media` and `separator` are for templates that take content as one string.
    `media` maps a kind of medium to the text that stands for it ("image" -> "<image>"; "{n}" in it becomes the medium's number,
    from 1); a kind that it lacks is refused. `separator` is put between text parts.
    """

    facts: TemplateFacts
    media: Mapping[str, str] = attrs.field(factory=dict)
    separator: str = "\n"

    def messages(self, messages: Sequence[Message]) -> list[TemplateObject]:
        """One object per turn; every tool result becomes a turn of its own. Raises UnsupportedParameter."""
        shaped: list[TemplateObject] = []
        turns = _Turns(self)
        as_is = not self.facts.wraps
        for place, message in enumerate(messages):
            parts, role = message.parts, message.role
            # A shortcut for speed: nearly every turn is one string.
            if as_is and message.content_is_text and len(parts) == 1 and message.name is None and role in _PLAIN:
                part = parts[0]
                if part.__class__ is Text:
                    shaped.append({"role": role, "content": part.text})
                    continue
            shaped.extend(turns.shape(message, place))
        return shaped

    def tools(self, tools: Sequence[Tool]) -> list[TemplateObject] | None:
        """The tools as function objects; None if there are none, as in Hugging Face. Raises UnsupportedParameter."""
        return [_tool(tool, place) for place, tool in enumerate(tools)] or None


class _Turns:
    """Shapes the turns of one conversation: remembers the names of tool calls by id, and counts media."""

    __slots__ = ("_counts", "_facts", "_names", "_shaper")

    def __init__(self, shaper: MessageShaper) -> None:
        self._shaper = shaper
        self._facts = shaper.facts
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def shape(self, message: Message, place: int) -> list[TemplateObject]:
        """The turns of one message; `place` is its index in the request."""
        turns: list[TemplateObject] = []
        content: list[Part] = []
        calls: list[TemplateObject] = []
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
        self, message: Message, content: list[Part], calls: list[TemplateObject], reasoning: str, place: int
    ) -> TemplateObject:
        turn: TemplateObject = {}
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
        """A string as content: as a list of one part if the template loops over content without a test for strings."""
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
        """Parts as one string: the separator stands between two texts only, not beside a medium."""
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

    def _call(self, call: ToolCall) -> TemplateObject:
        self._names[call.id] = call.name
        as_text = self._facts.arguments == "text"
        arguments: object
        if call.custom:
            arguments = wrapped(call.arguments) if as_text else {ARGUMENT: call.arguments}
        else:
            arguments = _object_text(call.arguments) if as_text else _object(call.arguments)
        return {"type": "function", "id": self._id(call.id), "function": {"name": call.name, "arguments": arguments}}

    def _id(self, call_id: str) -> str:
        """The id of a call, as the template takes it; the same for the call and its result. A conversation has ids that another
        model, another API or its client has made, and a template that checks ids refuses all but its own model's."""
        length = self._facts.id_length
        return call_id if length is None else _id_of(call_id, length)

    def _result(self, result: ToolResult, message: Message, place: int) -> TemplateObject:
        turn: TemplateObject = {"role": "tool"}
        if all(isinstance(part, Text | Refusal) for part in result.content):
            turn["content"] = self._shaper.separator.join(_text(part) for part in result.content)
        else:
            turn["content"] = self._content(result.content, False, place)
        if result.is_error:
            turn["is_error"] = True
        turn["tool_call_id"] = self._id(result.call_id)
        name = message.name if message.role == "tool" and message.name else None
        name = name or result.name or self._names.get(result.call_id)
        if name is not None:
            turn["name"] = name
        return turn


def with_reminders(messages: Sequence[Message]) -> Sequence[Message]:
    """The same turns, with each system prompt behind the first turn as a reminder in the user's words, in its place: for
    templates that take a system prompt at the beginning alone."""
    if all(message.role != "system" for message in messages[1:]):
        return messages
    return [*messages[:1], *(_reminder(each) if each.role == "system" else each for each in messages[1:])]


def _reminder(message: Message) -> Message:
    return Message("user", (Text(f"<system-reminder>\n{message.text}\n</system-reminder>"),), content_is_text=True)


def count_media(messages: Sequence[Message], kind: str) -> int:
    """The number of media of `kind` ("image", "audio", "video") in the messages, tool results included."""
    parts = [part for message in messages for part in message.parts]
    parts += [part for result in parts if isinstance(result, ToolResult) for part in result.content]
    return sum(_MEDIA.get(type(part)) == kind for part in parts)


_LETTERS = string.digits + string.ascii_letters


def _id_of(call_id: str, length: int) -> str:
    """The id itself if it is `length` letters and digits, else as many that follow from it."""
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest())
    letters = []
    for _ in range(length):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)


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


def _object(arguments: str) -> TemplateObject:
    """Arguments as a JSON object, which templates walk over: they refuse anything else, and with it the whole conversation.

    No arguments and `null` are an empty object, and a string that holds an object is that object. What is no object, or no JSON
    (a call that was cut off), came so from a model: it stands under the name that Messages gives to such arguments.
    """
    value = _json(arguments)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _json(value)
    if value is None:
        return {}
    return value if isinstance(value, dict) else {_NO_OBJECT: arguments}


def _object_text(arguments: str) -> str:
    """The same as JSON text: as it is written, if it is an object."""
    if isinstance(_json(arguments), dict):
        return arguments
    return json.dumps(_object(arguments), ensure_ascii=False)


def _json(text: str) -> object:
    """The value of a JSON text; the text itself if it is none. Empty text is no value."""
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text


def _opaque_text(block: Opaque) -> str:
    """The readable text of a thinking block or of a reasoning item, "" if it has none. Ciphertext is left out of the
    prompt: the model cannot read it."""
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
    """The sentence that tells a model which text a custom tool takes; None if the tool takes any text."""
    if tool.grammar is None:
        return None
    if tool.syntax == "regex":
        return f"Text that this regular expression matches as a whole: {tool.grammar}"
    return f"Text of this Lark grammar:\n{tool.grammar}"


def _tool(tool: Tool, place: int) -> TemplateObject:
    if isinstance(tool, HostedTool):
        raise UnsupportedParameter(
            f"The tool type '{tool.kind}' is not one a model's chat template can describe.", param=f"tools[{place}]"
        )
    function: TemplateObject = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if isinstance(tool, FunctionTool):
        function["parameters"] = (
            tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}
        )
    else:
        function["parameters"] = parameters(text_asked_for(tool))
    return {"type": "function", "function": function}
