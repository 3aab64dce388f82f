"""The messages of a `GenerationRequest` as the turns of a Converse body.

Decides how each part is written, and what stands where: neighbours of one role are joined, results of tools come first in the
turn after their calls, text without a letter is left out. Pure. Above: converse_body. Below: the shared modules of providers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import attrs
import msgspec

from smg_core.engines.vendors.bedrock.families import ModelFamily
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
from smg_core.sealing.carried import carried_in

__all__ = ["PROVIDER", "ConverseTurns", "ConverseWriter", "cache_point"]

PROVIDER = "bedrock"
_ID_LENGTH = 64
_ID_CHARACTERS = "a-zA-Z0-9_.:-"
_PICTURES: Mapping[str, str] = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
_DOCUMENTS: Mapping[str, str] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_CLIPS: Mapping[str, str] = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/webm": "webm",
    "video/mpeg": "mpeg",
    "video/3gpp": "three_gp",
}
_SOUNDS: Mapping[str, str] = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9 \-()\[\]]+")
_EXTENSION = re.compile(r"\.(?:pdf|csv|docx?|xlsx?|html|txt|md)$", re.IGNORECASE)
_NAME_LENGTH = 200
_DOCUMENT_TEXT = "The document is attached."


@attrs.frozen
class ConverseTurns:
    """What was written: the `system` blocks, the turns, whether they have calls or results of tools, and whether the last turn of
    the assistant before open results begins with reasoning (True where no loop is open)."""

    system: tuple[ProviderJson, ...]
    messages: tuple[ProviderJson, ...]
    tools_used: bool
    loop_thinks: bool


@attrs.frozen
class ConverseWriter:
    """Writes the turns of one request to `model`."""

    model: str
    family: ModelFamily
    names: SentNames
    losses: Losses
    fields: WrittenFields
    titles: set[str] = attrs.field(factory=set)

    def write(self, messages: Sequence[Message]) -> ConverseTurns:
        """All turns. Raises UnsupportedParameter naming the part that cannot be written."""
        front = split_front(messages)
        system = [block for at, each in enumerate(messages[:front]) for block in self._system(each, f"messages[{at}]")]
        turns = turns_of(messages, front, self._blocks, PROVIDER)
        for turn in turns:
            turn["content"] = _with_document_text(_results_first(turn["content"]))
        if not turns:
            raise not_for("messages", PROVIDER, "a talk has a turn of the user")
        used = any("toolUse" in block or "toolResult" in block for turn in turns for block in turn["content"])
        return ConverseTurns(tuple(system), tuple(turns), used, _loop_thinks(turns))

    def _system(self, message: Message, at: str) -> Iterator[ProviderJson]:
        self.fields.check(message, at)
        for order, part in enumerate(message.parts):
            if not isinstance(part, Text):
                raise not_for(f"{at}.parts[{order}]", PROVIDER)
            if part.text.strip():
                yield {"text": part.text}
                yield from self._mark(part.cache)

    def _blocks(self, message: Message, at: str) -> Iterator[ProviderJson]:
        self.fields.check(message, at)
        if message.role in ("system", "developer"):
            self.losses.note("system_later", "a reminder in the user's turn")
            for block in self._system(message, at):
                if "text" in block:
                    yield {"text": f"<system-reminder>\n{block['text']}\n</system-reminder>"}
                else:
                    yield block
            return
        plain = not any(isinstance(each, Reasoning) and each.carried for each in message.parts)
        for order, part in enumerate(message.parts):
            where = f"{at}.parts[{order}]"
            self.fields.check(part, where)
            if isinstance(part, Reasoning) and message.role == "assistant":
                written = self._thought(part, plain=plain)
            else:
                written = self._part(part, message.role, where)
            if written is not None:
                yield written
                yield from self._mark(_mark_of(part))

    def _mark(self, mark: Mapping[str, object] | None) -> Iterator[ProviderJson]:
        if mark is None:
            return
        if self.family.caches:
            yield cache_point(mark)
        else:
            self.losses.note("cache", "left out, for this model takes no marks")

    def _part(self, part: Part, role: str, at: str) -> ProviderJson | None:
        assistant = role == "assistant"
        match part:
            case Text():
                return {"text": part.text} if part.text.strip() else None
            case Refusal() if assistant:
                self.losses.note("refusal", "text")
                return {"text": part.text} if part.text.strip() else None
            case Opaque() if assistant and part.kind in _THOUGHTS:
                self.losses.note("reasoning", "left out, for another API has made it")
                return None
            case ToolCall() if assistant:
                return self._call(part, at)
            case ToolResult() if not assistant:
                return self._result(part, at)
            case Image() | File() | Video() | Audio() if not assistant:
                return self._media(part, at)
        raise not_for(at, PROVIDER, "it has no place for such a part there")

    def _thought(self, part: Reasoning, *, plain: bool) -> ProviderJson | None:
        """The block as this model has made it; what another one has made is left out. `plain`: no block comes beside the text,
        which would be the same reasoning."""
        original = carried_in(part)
        if original is not None and original.provider == PROVIDER and original.model == self.model:
            return {"reasoningContent": msgspec.json.decode(original.payload)}
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
        return {
            "toolUse": {
                "toolUseId": _call_id(part.id),
                "name": self.names.wire(part.name, part.namespace),
                "input": msgspec.Raw(part.arguments.encode() or b"{}"),
            }
        }

    def _result(self, part: ToolResult, at: str) -> ProviderJson:
        content: list[ProviderJson] = []
        if part.value is not None:
            content.append({"json": dict(part.value)})
        else:
            for order, each in enumerate(part.content):
                block = self._part(each, "user", f"{at}.content[{order}]")
                if block is not None:
                    content.append(block)
        result: ProviderJson = {"toolUseId": _call_id(part.call_id), "content": content or [{"text": "(nothing)"}]}
        if part.is_error:
            if self.family.statuses:
                result["status"] = "error"
            else:
                self.losses.note("tool_error", "text")
                result["content"] = [{"text": "Error:"}, *result["content"]]
        return {"toolResult": result}

    def _media(self, part: Image | File | Video | Audio, at: str) -> ProviderJson:
        match part:
            case Image():
                return {"image": self._inline(part.source, at, "image/png", _PICTURES)}
            case File():
                return {"document": self._document(part, at)}
            case Video() if self.family.moving and part.source.start_s is None and part.source.end_s is None:
                return {"video": self._inline(part.source, at, "video/mp4", _CLIPS)}
            case Audio() if self.family.moving:
                usual = f"audio/{part.format}" if part.format else "audio/wav"
                return {"audio": self._inline(part.source, at, usual, _SOUNDS)}
        raise not_for(at, PROVIDER, "this model takes no such sound and no such video")

    def _document(self, part: File, at: str) -> ProviderJson:
        document: ProviderJson = {"name": self._title(part.title or part.filename)}
        if part.source.text is not None and part.source.data is None:
            document |= {"format": "txt", "source": {"text": part.source.text}}
        else:
            document |= self._inline(part.source, at, "application/pdf", _DOCUMENTS)
        if part.context is not None:
            document["context"] = part.context
        if part.citations:
            document["citations"] = {"enabled": True}
        return document

    def _title(self, wanted: str | None) -> str:
        """A name that the service takes, and that no other document of the request has, of letters, digits and spaces: a name
        may tell a model what to do."""
        wanted = None if wanted is None else _EXTENSION.sub("", wanted)  # the format says it
        name = " ".join(_UNNAMEABLE.sub(" ", wanted or "").split())[: _NAME_LENGTH - 5] or "document"
        if wanted is not None and name != wanted:
            self.losses.note("file_name", "of letters, digits and spaces")
        found, count = name, 1
        while found in self.titles:
            count += 1
            found = f"{name} {count}"
        self.titles.add(found)
        return found

    def _inline(self, source: MediaSource, at: str, usual: str, formats: Mapping[str, str]) -> ProviderJson:
        media = provider_media(source, at, PROVIDER, usual)
        if not isinstance(media, Inline):
            raise not_for(f"{at}.source.url", PROVIDER, "it takes media in the request alone, not by an address")
        form = formats.get(media.media_type)
        if form is None:
            raise not_for(f"{at}.source.media_type", PROVIDER, f"it takes {', '.join(dict.fromkeys(formats.values()))}")
        return {"format": form, "source": {"bytes": media.data}}


def _mark_of(part: Part) -> Mapping[str, object] | None:
    """The mark behind a part; that of the last piece of a result, which has no place for one inside, stands behind the result."""
    found: Mapping[str, object] | None = getattr(part, "cache", None)
    if found is None and isinstance(part, ToolResult) and part.content:
        found = getattr(part.content[-1], "cache", None)
    return found


def _call_id(call_id: str) -> str:
    return wire_id(call_id, longest=_ID_LENGTH, allowed=_ID_CHARACTERS)


def cache_point(mark: Mapping[str, object]) -> ProviderJson:
    """A mark for the cache, which is an element of its own behind what it marks."""
    ttl = mark.get("ttl")
    return {"cachePoint": {"type": "default"} | ({"ttl": ttl} if ttl in ("5m", "1h") else {})}


def _results_first(blocks: list[ProviderJson]) -> list[ProviderJson]:
    """The blocks of a turn with its results of tools before all else; a mark for the cache stays behind what it marks."""
    groups: list[list[ProviderJson]] = []
    for each in blocks:
        if "cachePoint" in each and groups:
            groups[-1].append(each)
        else:
            groups.append([each])
    groups.sort(key=lambda group: "toolResult" not in group[0])
    return [each for group in groups for each in group]


def _with_document_text(blocks: list[ProviderJson]) -> list[ProviderJson]:
    """A turn with a document has a text, too."""
    if any("document" in each for each in blocks) and not any("text" in each for each in blocks):
        return [*blocks, {"text": _DOCUMENT_TEXT}]
    return blocks


def _loop_thinks(turns: Sequence[ProviderJson]) -> bool:
    if len(turns) < 2 or not any("toolResult" in each for each in turns[-1]["content"]):
        return True
    return "reasoningContent" in turns[-2]["content"][0]
