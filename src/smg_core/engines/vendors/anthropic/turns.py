"""The messages of a `GenerationRequest` as the turns of a Messages body.

Decides how each part is written, and what stands where: neighbours of one role are joined, results of tools come first in the
turn after their calls, text without a letter is left out. Reasoning goes back where it came from, and nowhere else. Pure.
Above: body. Below: the shared modules of providers, the vocabulary.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

import attrs
import msgspec

from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.media import Inline, provider_media
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.talk import split_front, turns_of
from smg_core.engines.vendors.wire_names import SentNames, wire_id
from smg_core.engines.vendors.written_fields import WrittenFields
from smg_core.request import (
    Audio,
    File,
    Image,
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
from smg_core.sealing.carried import carried_in

__all__ = ["PROVIDER", "TurnWriter", "WrittenTurns", "cache_mark"]

PROVIDER = "anthropic"
_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_ID_LENGTH = 128
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


@attrs.frozen
class WrittenTurns:
    """What was written: the `system` blocks at the front, the turns, whether the last turn of the assistant before open results
    `begins_thinking`, and whether the talk ends with the `assistant`."""

    system: tuple[ProviderJson, ...]
    messages: tuple[ProviderJson, ...]
    loop_thinks: bool


@attrs.frozen
class TurnWriter:
    """Writes the turns of one request. `family` is the model's own name: signatures of it alone go back to it."""

    model: str
    names: SentNames
    losses: Losses
    fields: WrittenFields

    def write(self, messages: Sequence[Message]) -> WrittenTurns:
        """All turns. Raises UnsupportedParameter and InvalidRequest naming the part that cannot be written."""
        front = split_front(messages)
        system = [block for at, each in enumerate(messages[:front]) for block in self._system(each, f"messages[{at}]")]
        turns = turns_of(messages, front, self._blocks, PROVIDER)
        for turn in turns:
            turn["content"] = _results_first(turn["content"])
        return WrittenTurns(tuple(system), tuple(turns), _loop_thinks(turns))

    def _system(self, message: Message, at: str) -> Iterator[ProviderJson]:
        self.fields.check(message, at)
        for order, part in enumerate(message.parts):
            if not isinstance(part, Text):
                raise not_for(f"{at}.parts[{order}]", PROVIDER)
            if part.text.strip():
                yield _text(part)

    def _blocks(self, message: Message, at: str) -> Iterator[ProviderJson]:
        self.fields.check(message, at)
        if message.role in ("system", "developer"):
            self.losses.note("system_later", "a reminder in the user's turn")
            for each in self._system(message, at):
                yield {**each, "text": f"<system-reminder>\n{each['text']}\n</system-reminder>"}
            return
        plain = not any(isinstance(each, Reasoning) and each.carried for each in message.parts)
        for order, part in enumerate(message.parts):
            where = f"{at}.parts[{order}]"
            self.fields.check(part, where)
            block = (
                self._thought(part, plain=plain) if isinstance(part, Reasoning) else self._part(part, message, where)
            )
            if block is not None:
                yield block

    def _part(self, part: Part, message: Message, at: str) -> ProviderJson | None:
        assistant = message.role == "assistant"
        match part:
            case Text():
                return _text(part) if part.text.strip() else None
            case Refusal() if assistant:
                self.losses.note("refusal", "text")
                return {"type": "text", "text": part.text} if part.text.strip() else None
            case ToolCall() if assistant:
                return self._call(part, at)
            case Opaque() if assistant and part.kind in _THOUGHTS:
                return _object(part.payload, f"{at}.payload")
            case ToolResult() if not assistant:
                return self._result(part, at)
            case Image() if not assistant:
                return self._image(part, at)
            case File() if not assistant:
                return self._document(part, at)
        raise not_for(at, PROVIDER, _why(part))

    def _thought(self, part: Reasoning, *, plain: bool) -> ProviderJson | None:
        """The signed block, where this model's provider has made it; what another one has made is left out."""
        original = carried_in(part)
        if original is not None and original.provider == PROVIDER and original.model == self.model:
            return _object(original.payload, "")
        if (part.text and plain) or original is not None:
            self.losses.note("reasoning", "left out, for another model has made it")
        return None

    def _call(self, part: ToolCall, at: str) -> ProviderJson:
        try:
            arguments = msgspec.json.decode(part.arguments or "{}")
        except (msgspec.DecodeError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise not_for(f"{at}.arguments", PROVIDER, "they are no JSON object")
        block: ProviderJson = {
            "type": "tool_use",
            "id": wire_id(part.id, longest=_ID_LENGTH),
            "name": self.names.wire(part.name, part.namespace),
            "input": msgspec.Raw(part.arguments.encode() or b"{}"),
        }
        return block | cache_mark(part.cache)

    def _result(self, part: ToolResult, at: str) -> ProviderJson:
        within = [self._part(each, _USER, f"{at}.content[{order}]") for order, each in enumerate(part.content)]
        content = [each for each in within if each is not None]
        block: ProviderJson = {"type": "tool_result", "tool_use_id": wire_id(part.call_id, longest=_ID_LENGTH)}
        if content:
            block["content"] = content
        if part.is_error:
            block["is_error"] = True
        return block | cache_mark(part.cache)

    def _image(self, part: Image, at: str) -> ProviderJson:
        media = provider_media(part.source, at, PROVIDER, "image/png")
        if not isinstance(media, Inline):
            return {"type": "image", "source": {"type": "url", "url": media.url}} | cache_mark(part.cache)
        if media.media_type not in _PICTURES:
            raise not_for(f"{at}.source.media_type", PROVIDER, "it takes JPEG, PNG, GIF and WebP")
        source = {"type": "base64", "media_type": media.media_type, "data": media.data}
        return {"type": "image", "source": source} | cache_mark(part.cache)

    def _document(self, part: File, at: str) -> ProviderJson:
        if part.source.text is not None:
            source: ProviderJson = {"type": "text", "media_type": "text/plain", "data": part.source.text}
        else:
            media = provider_media(part.source, at, PROVIDER, "application/pdf")
            if not isinstance(media, Inline):
                source = {"type": "url", "url": media.url}
            elif media.media_type == "application/pdf":
                source = {"type": "base64", "media_type": media.media_type, "data": media.data}
            elif media.media_type.startswith("text/") and part.source.data is not None:
                self.losses.note("file_type", "plain text")
                source = {
                    "type": "text",
                    "media_type": "text/plain",
                    "data": part.source.data.decode("utf-8", "replace"),
                }
            else:
                raise not_for(f"{at}.source.media_type", PROVIDER, "it takes PDF and plain text")
        block: ProviderJson = {"type": "document", "source": source}
        if (title := part.title or part.filename) is not None:
            block["title"] = title
        if part.context is not None:
            block["context"] = part.context
        if part.citations:
            block["citations"] = {"enabled": True}
        return block | cache_mark(part.cache)


_USER = Message("user", ())


def _why(part: Part) -> str:
    if isinstance(part, Audio | Video):
        return "it takes no sound and no video"
    return "it has no place for such a part there"


def _text(part: Text) -> ProviderJson:
    return {"type": "text", "text": part.text} | cache_mark(part.cache)


def cache_mark(mark: Mapping[str, object] | None) -> ProviderJson:
    """A cache mark, whatever API it was written in."""
    if mark is None:
        return {}
    return {"cache_control": dict(mark) if "type" in mark else {"type": "ephemeral"}}


def _object(payload: bytes, at: str) -> ProviderJson:
    """A block as its provider wrote it."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("type") not in _THOUGHTS:
        raise not_for(at or "messages", PROVIDER, "it is no block of reasoning")
    return found


def _results_first(blocks: list[ProviderJson]) -> list[ProviderJson]:
    """The blocks of a turn with its results of tools before all else, as the API wants them."""
    first = [each for each in blocks if each["type"] == "tool_result"]
    return first + [each for each in blocks if each["type"] != "tool_result"] if first else blocks


def _loop_thinks(turns: Sequence[ProviderJson]) -> bool:
    """Whether the turn of the assistant whose calls are answered last begins with reasoning; True where no loop is open."""
    if len(turns) < 2 or not any(each["type"] == "tool_result" for each in turns[-1]["content"]):
        return True
    return turns[-2]["content"][0]["type"] in _THOUGHTS
