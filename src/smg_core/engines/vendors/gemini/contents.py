"""The messages of a `GenerationRequest` as the contents of a generateContent body.

Decides how each part is written, and which part a signature goes back on: exactly that on which it came. The calls of a turn are
one content, and their results the next one, before anything else that the user says. Pure. Above: body. Below: facts, the shared
modules of providers, the vocabulary.
"""

from collections.abc import Iterator, Sequence

import attrs
import msgspec

from smg_core.engines.vendors.gemini.facts import GeminiFacts
from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.media import Inline, provider_media
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.talk import split_front
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.engines.vendors.written_fields import WrittenFields
from smg_core.request import (
    Audio,
    File,
    Image,
    MediaSource,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from smg_core.sealing.carried import Carried, carried_in

__all__ = ["PROVIDER", "ContentWriter", "WrittenContents"]

PROVIDER = "gemini"
STAND_IN = "skip_thought_signature_validator"
"""What stands for the signature of a call that another provider's model has made."""


@attrs.frozen
class WrittenContents:
    """What was written: the parts of the system's instruction, and the contents."""

    system: tuple[ProviderJson, ...]
    contents: tuple[ProviderJson, ...]


@attrs.define
class ContentWriter:
    """Writes the turns of one request to `model`."""

    model: str
    facts: GeminiFacts
    names: SentNames
    losses: Losses
    fields: WrittenFields
    _called: dict[str, str] = attrs.field(factory=dict)  # the names of calls, by id

    def write(self, messages: Sequence[Message]) -> WrittenContents:
        """All turns. Raises UnsupportedParameter naming the part that cannot be written."""
        front = split_front(messages)
        system = [
            each for at, message in enumerate(messages[:front]) for each in self._system(message, f"messages[{at}]")
        ]
        contents: list[ProviderJson] = []
        for at, message in enumerate(messages[front:], front):
            where = f"messages[{at}]"
            self.fields.check(message, where)
            role = "model" if message.role == "assistant" else "user"
            parts = self._model(message, where) if role == "model" else list(self._user(message, where))
            if not parts:
                continue
            if contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            else:
                contents.append({"role": role, "parts": parts})
        if contents and contents[0]["role"] == "model":
            raise not_for(f"messages[{front}]", PROVIDER, "a talk begins with the user")
        if contents and contents[-1]["role"] == "model":
            raise not_for(f"messages[{len(messages) - 1}]", PROVIDER, "it does not go on with its own turn")
        for content in contents:
            content["parts"] = _first("functionResponse", content["parts"])
        if self.facts.signs:
            self._stand_in(contents)
        return WrittenContents(tuple(system), tuple(contents))

    def _system(self, message: Message, at: str) -> Iterator[ProviderJson]:
        self.fields.check(message, at)
        for order, part in enumerate(message.parts):
            if not isinstance(part, Text):
                raise not_for(f"{at}.parts[{order}]", PROVIDER)
            self.fields.check(part, f"{at}.parts[{order}]")
            self._unmarked(part.cache)
            if part.text:
                yield {"text": part.text}

    # --------------------------------------------------------------------------------------------------- model's turns

    def _model(self, message: Message, at: str) -> list[ProviderJson]:
        parts: list[ProviderJson] = []
        waiting: list[Carried] = []
        plain = not any(isinstance(each, Reasoning) and each.carried for each in message.parts)
        calls: dict[str, ProviderJson] = {}
        for order, part in enumerate(message.parts):
            where = f"{at}.parts[{order}]"
            self.fields.check(part, where)
            if isinstance(part, Reasoning):
                original = self._own(part, plain=plain)
                if original is None:
                    continue
                if original.part == "thought":
                    parts.append({"thought": True, **msgspec.json.decode(original.payload, type=dict[str, str])})
                elif original.part == "text" and parts and "text" in parts[-1] and "thoughtSignature" not in parts[-1]:
                    parts[-1]["thoughtSignature"] = original.payload.decode()
                else:
                    waiting.append(original)
                continue
            written = self._written(part, where)
            if written is None:
                continue
            parts.append(written)
            if isinstance(part, ToolCall):
                calls[part.id] = written
        return _signed(parts, waiting, calls)

    def _own(self, part: Reasoning, *, plain: bool) -> Carried | None:
        """What came with the reasoning, where this provider's model has made it."""
        original = carried_in(part)
        if original is not None and original.provider == PROVIDER and original.model == self.model:
            return original
        if (part.text and plain) or original is not None:
            self.losses.note("reasoning", "left out, for another model has made it")
        return None

    def _written(self, part: Part, at: str) -> ProviderJson | None:
        match part:
            case Text():
                self._unmarked(part.cache)
                return {"text": part.text} if part.text else None
            case Refusal():
                self.losses.note("refusal", "text")
                return {"text": part.text} if part.text else None
            case ToolCall():
                return self._call(part, at)
            case Image() | Audio() | Video() | File():
                return self._media(part, at)
        raise not_for(at, PROVIDER, "it has no place for such a part there")

    def _call(self, part: ToolCall, at: str) -> ProviderJson:
        try:
            arguments = msgspec.json.decode(part.arguments or "{}")
        except (msgspec.DecodeError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise not_for(f"{at}.arguments", PROVIDER, "they are no JSON object")
        name = self._called[part.id] = self.names.wire(part.name, part.namespace)
        call: ProviderJson = {"name": name, "args": msgspec.Raw(part.arguments.encode() or b"{}")}
        if self.facts.ids:
            call["id"] = part.id
        return {"functionCall": call}

    def _stand_in(self, contents: Sequence[ProviderJson]) -> None:
        """Give a signature to the first call of each step since the user last spoke, where another model has made it."""
        for content in reversed(contents):
            if content["role"] == "user":
                if any("functionResponse" not in part for part in content["parts"]):
                    return
                continue
            first = next((part for part in content["parts"] if "functionCall" in part), None)
            if first is not None and "thoughtSignature" not in first:
                first["thoughtSignature"] = STAND_IN
                if "reasoning" not in self.losses.found:
                    self.losses.note("call_signature", "a stand-in, for the call came with none")

    # ---------------------------------------------------------------------------------------------------- user's turns

    def _user(self, message: Message, at: str) -> Iterator[ProviderJson]:
        if message.role in ("system", "developer"):
            self.losses.note("system_later", "a reminder in the user's turn")
            for each in self._system(message, at):
                yield {"text": f"<system-reminder>\n{each['text']}\n</system-reminder>"}
            return
        for order, part in enumerate(message.parts):
            where = f"{at}.parts[{order}]"
            self.fields.check(part, where)
            if isinstance(part, ToolResult):
                yield from self._result(part, where)
            elif isinstance(part, Text):
                self._unmarked(part.cache)
                if part.text:
                    yield {"text": part.text}
            elif isinstance(part, Image | Audio | Video | File):
                yield self._media(part, where)
            else:
                raise not_for(where, PROVIDER, "it has no place for such a part there")

    def _result(self, part: ToolResult, at: str) -> Iterator[ProviderJson]:
        self._unmarked(part.cache)
        texts = [each.text for each in part.content if isinstance(each, Text)]
        name = self._called.get(part.call_id) or part.name
        if name is None:
            raise not_for(f"{at}.call_id", PROVIDER, "no call before it has this id")
        response = (
            dict(part.value) if part.value is not None else {"error" if part.is_error else "output": "".join(texts)}
        )
        result: ProviderJson = {"name": name, "response": response}
        if self.facts.ids:
            result["id"] = part.call_id
        media = [
            self._media(each, f"{at}.content[{order}]")
            for order, each in enumerate(part.content)
            if isinstance(each, Image | Audio | Video | File)
        ]
        if media and self.facts.result_media:
            result["parts"] = media
            media = []
        yield {"functionResponse": result}
        if media:
            self.losses.note("result_media", "in the user's turn behind the results")
            yield from ({"text": f"From the result of {name}:"}, *media)

    def _media(self, part: Image | Audio | Video | File, at: str) -> ProviderJson:
        self._unmarked(part.cache)
        media = provider_media(part.source, at, PROVIDER, _usual(part))
        if isinstance(media, Inline):
            written: ProviderJson = {"inlineData": {"mimeType": media.media_type, "data": media.data}}
        elif self.facts.urls:
            kind = part.source.media_type or _usual(part)
            written = {"fileData": {"fileUri": media.url, "mimeType": kind}}
        else:
            raise not_for(f"{at}.source.url", PROVIDER, "this model fetches nothing")
        if isinstance(part, File) and (part.citations or part.title or part.context):
            if part.citations:
                raise not_for(f"{at}.citations", PROVIDER)
            self.losses.note("file_title", "left out")
        clip = _clip(part.source) if isinstance(part, Video) else {}
        return {**written, "videoMetadata": clip} if clip else written

    def _unmarked(self, mark: object) -> None:
        if mark is not None:
            self.losses.note("cache", "the provider's own, without marks")


def _usual(part: Image | Audio | Video | File) -> str:
    """The type of media that say none."""
    match part:
        case Image():
            return "image/png"
        case Audio():
            return f"audio/{part.format or 'wav'}"
        case Video():
            return "video/mp4"
    return "application/pdf"


def _clip(source: MediaSource) -> ProviderJson:
    clip: ProviderJson = {}
    if source.start_s is not None:
        clip["startOffset"] = f"{source.start_s:g}s"
    if source.end_s is not None:
        clip["endOffset"] = f"{source.end_s:g}s"
    if source.fps is not None:
        clip["fps"] = source.fps
    return clip


def _signed(
    parts: list[ProviderJson], waiting: Sequence[Carried], calls: dict[str, ProviderJson]
) -> list[ProviderJson]:
    """The parts with the signatures that wait: each on its own call, else on the first call or the last text without one."""
    for original in waiting:
        kind, _, call_id = original.part.partition(":")
        place = calls.get(call_id)
        if place is None and kind == "call":
            place = next((each for each in calls.values() if "thoughtSignature" not in each), None)
        elif place is None:
            texts = [each for each in parts if "text" in each and "thought" not in each]
            place = texts[-1] if texts and "thoughtSignature" not in texts[-1] else None
        if place is None:
            place = {"text": ""}
            parts.append(place)
        place["thoughtSignature"] = original.payload.decode()
    return parts


def _first(name: str, parts: list[ProviderJson]) -> list[ProviderJson]:
    first = [each for each in parts if name in each]
    return first + [each for each in parts if name not in each] if first else parts
