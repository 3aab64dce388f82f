"""Requests to a server with OpenAI's routes for pictures, and its answers.

Decides how a `GenerationRequest` that asks for pictures is written, as JSON or, where pictures are to be changed, as a form,
and reads the answer: one object, or a stream of events. A picture is megabytes of base64: it is cut out of the answer as it
comes, and only what is left is parsed. Pure. Above: asking, the formats of providers. Sources: OpenAI's API reference; the
servers of vLLM-Omni, SGLang and LocalAI, which have the same routes.
"""

import re

import msgspec
from msgspec import Struct

from smg_core.engines.openai.answers import error_from_event
from smg_core.engines.openai.chunks import ErrorWire
from smg_core.engines.openai.forms import FormFile, WrittenForm, write_files_form
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Finished, OpaqueBlock, Usage
from smg_core.imaging import PICTURE, Imaging, MadePicture, written_picture
from smg_core.json_types import Json, JsonObject
from smg_core.request import GenerationRequest
from smg_core.sse import DONE, DataReader
from smg_core.tokens import reported_count
from smg_core.wire.json_text import encode_body

__all__ = ["PictureDecoder", "write_picture_request"]

_JSON = "application/json"
_ABOUT = ("size", "quality", "background", "output_format", "revised_prompt")
_BEGINS = re.compile(rb'"b64_json"\s{0,16}:\s{0,16}"')
_KEY = b'"b64_json"'
_MOST_STATES = 16  # that are taken of one picture: some servers tell each step
_LONGEST = 48  # bytes that the beginning of a picture may have before its first character
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="


def write_picture_request(request: GenerationRequest, asked: Imaging, model: str, *, extras: bool) -> WrittenForm:
    """What a server is asked. `extras`: it is none of OpenAI's own, so it may give addresses where nothing is said."""
    prompt = "".join(message.text for message in request.messages)
    fields: dict[str, Json] = {"model": model, "prompt": prompt, **asked.wishes}
    if asked.count != 1:
        fields["n"] = asked.count
    if request.stream:
        fields["stream"] = True
        if asked.partial:
            fields["partial_images"] = asked.partial
    if extras:
        fields["response_format"] = "b64_json"
    if not asked.given:
        return WrittenForm("/images/generations", encode_body(fields), _JSON)
    field = "image" if len(asked.given) == 1 else "image[]"
    files = [FormFile(field, each.filename, each.media_type, each.data) for each in asked.given]
    if (mask := asked.mask) is not None:
        files.append(FormFile("mask", mask.filename, mask.media_type, mask.data))
    return write_files_form(
        "/images/edits", request.id, [(name, _in_form(value)) for name, value in fields.items()], files
    )


def _in_form(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


class _Details(Struct):
    image_tokens: int | None = None


class _Tokens(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _Made(Struct):
    b64_json: str | None = None
    url: str | None = None
    revised_prompt: str | None = None


class _Answer(Struct):
    """The whole answer, or one event."""

    type: str = ""
    data: list[_Made] | None = None
    b64_json: str | None = None
    partial_image_index: int = 0
    size: str | None = None
    quality: str | None = None
    background: str | None = None
    output_format: str | None = None
    revised_prompt: str | None = None
    usage: _Tokens | None = None
    error: ErrorWire | str | None = None
    message: str | None = None


_ANSWERS = msgspec.json.Decoder(_Answer)


class PictureDecoder:
    """Reads one answer. As `ChatDecoder`; it is given all bytes, of an object too."""

    def __init__(self, asked: Imaging, limits: EnginesConfig) -> None:
        self.done = False
        self.error: SmgError | None = None
        self._asked = asked
        self._most, self._size = limits.http_pictures_bytes, 0
        self._pictures = _CutOut()
        self._reader = DataReader(max_event_bytes=limits.http_event_bytes)
        self._object: bytearray | None = None
        self._streams: bool | None = None  # None: not seen yet
        self._passed_on = self._states = 0
        self._usage: Usage | None = None

    @property
    def finished(self) -> bool:
        """Whether all pictures of a stream are there, so that nothing but its end is due."""
        return bool(self._streams) and self._passed_on >= self._asked.count

    def feed(self, data: bytes) -> list[Event]:
        """The events that the next bytes bring."""
        if self.done or self.error is not None:
            return []
        events: list[Event] = []
        try:
            self._size += len(data)
            if self._size > self._most:
                raise EngineGarbled(f"The engine sent pictures of more than {self._most} bytes.")
            self._feed(data, events)
        except SmgError as error:
            self.error = error
        return events

    def _feed(self, data: bytes, events: list[Event]) -> None:
        rest = self._pictures.feed(data)
        if self._streams is None:
            rest = rest.lstrip(b" \t\r\n\xef\xbb\xbf")
            if not rest:
                return
            self._streams = not rest.startswith((b"{", b"["))
            self._object = None if self._streams else bytearray()
        if self._object is not None:
            self._object += rest
            return
        for each in self._reader.feed(rest):
            if each.strip() == DONE:
                self._finish(events)
                return
            if each.strip():
                self._event(_read(each), events)

    def end(self) -> list[Event]:
        """The events that the end of the answer brings; an error, unless all is said by then."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            if self._object is not None:
                self._whole(_read(bytes(self._object)), events)
            elif (rest := self._reader.rest()) is not None and rest.strip() not in (b"", DONE):
                self._event(_read(rest), events)
            self._finish(events)
        except SmgError as error:
            self.error = error
        return events

    def whole(self, body: bytes) -> list[Event]:
        """The events of an answer that is there at once."""
        return [*self.feed(body), *self.end()]

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`."""
        self.error = error
        return []

    def _whole(self, answer: _Answer, events: list[Event]) -> None:
        self._refuse_error(answer)
        for each in answer.data or ():
            if each.b64_json is None and each.url is not None:
                raise EngineGarbled("The engine gave the address of a picture in place of the picture.")
            self._picture(each.b64_json, answer, events, revised=each.revised_prompt)
        self._count(answer.usage)

    def _event(self, answer: _Answer, events: list[Event]) -> None:
        self._refuse_error(answer)
        if answer.data is not None:
            self._whole(answer, events)
        elif answer.type.endswith(".partial_image"):
            self._picture(answer.b64_json, answer, events, partial=max(0, answer.partial_image_index))
        elif answer.type.endswith(".completed"):
            self._picture(answer.b64_json, answer, events)
            self._count(answer.usage)

    @staticmethod
    def _refuse_error(answer: _Answer) -> None:
        if answer.error is not None:
            raise error_from_event(answer.error)
        if answer.type == "error":
            raise error_from_event(answer.message or "the engine gave up")

    def _picture(
        self,
        place: str | None,
        answer: _Answer,
        events: list[Event],
        *,
        revised: str | None = None,
        partial: int | None = None,
    ) -> None:
        data = self._pictures.take(place or "")
        if partial is not None:
            self._states += 1
        if self._passed_on >= self._asked.count or self._states > self._asked.count * _MOST_STATES:
            raise EngineGarbled("The engine sent more pictures than it was asked for.")
        about: JsonObject = {name: value for name in _ABOUT if (value := getattr(answer, name) or None) is not None}
        if revised is not None:
            about["revised_prompt"] = revised
        events.append(OpaqueBlock(0, PICTURE, written_picture(MadePicture(data, about, partial))))
        self._passed_on += partial is None

    def _count(self, usage: _Tokens | None) -> None:
        if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
            return
        details = usage.input_tokens_details or _Details()
        prompt, seen = reported_count(usage.input_tokens), reported_count(details.image_tokens)
        self._usage = Usage(prompt, reported_count(usage.output_tokens), image_tokens=min(seen, prompt))

    def _finish(self, events: list[Event]) -> None:
        if not self._passed_on or self._pictures.open:
            raise EngineGarbled("The engine ended its answer before its pictures were whole.")
        events.append(Finished(0, "stop"))
        if self._usage is not None:
            events.append(self._usage)
        self.done = True


class _CutOut:
    """Takes pictures out of JSON as it comes, in pieces of any size: in their place stand their numbers."""

    def __init__(self) -> None:
        self._found: dict[str, bytes] = {}
        self._count = 0
        self._held = b""  # may be the beginning of what comes before a picture
        self._parts: list[bytes] | None = None  # of the picture that is open

    @property
    def open(self) -> bool:
        """Whether a picture has begun and not ended."""
        return self._parts is not None

    def feed(self, data: bytes) -> bytes:
        """The next bytes, without pictures."""
        rest: list[bytes] = []
        while data:
            data = self._outside(self._held + data, rest) if self._parts is None else self._inside(data, rest)
        return b"".join(rest)

    def take(self, place: str) -> bytes:
        """The picture of this number. Raises EngineGarbled where there is none, or it is no base64."""
        data = self._found.pop(place, None)
        if not data:
            raise EngineGarbled("The engine sent no picture.")
        return data if not data.translate(None, _ALPHABET) else _plain(data)

    def _outside(self, data: bytes, rest: list[bytes]) -> bytes:
        self._held = b""
        begins = _BEGINS.search(data)
        if begins is not None:
            rest.append(data[: begins.end()])
            self._parts = []
            return data[begins.end() :]
        at = data.find(b'"', max(0, len(data) - _LONGEST))
        while at >= 0 and not _may_begin(data[at:]):
            at = data.find(b'"', at + 1)
        rest.append(data if at < 0 else data[:at])
        self._held = b"" if at < 0 else data[at:]
        return b""

    def _inside(self, data: bytes, rest: list[bytes]) -> bytes:
        parts, end = self._parts or [], data.find(b'"')
        if end < 0:
            parts.append(data)
            self._parts = parts
            return b""
        name = str(self._count)
        self._found[name] = b"".join([*parts, data[:end]])
        self._count += 1
        self._parts = None
        rest.append(name.encode() + b'"')
        return data[end + 1 :]


def _may_begin(text: bytes) -> bool:
    """Whether more bytes could make of `text` the beginning of a picture."""
    if len(text) <= len(_KEY):
        return _KEY.startswith(text)
    return text.startswith(_KEY) and text[len(_KEY) :].strip() in (b"", b":")


def _plain(data: bytes) -> bytes:
    """The base64 in a text of JSON that has more in it: escapes, line ends, the head of a data URL. Raises EngineGarbled."""
    try:
        text = msgspec.json.decode(b'"%b"' % data, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = "\0"
    if text.startswith("data:"):
        text = text.partition(",")[2]
    found = "".join(text.split()).encode("utf-8", "replace")
    if not found or found.translate(None, _ALPHABET):
        raise EngineGarbled("The engine sent a picture that is no base64.")
    return found


def _read(data: bytes) -> _Answer:
    try:
        return _ANSWERS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled(
            "The engine sent an answer about pictures that cannot be read.", detail=str(error), outside_text=str(error)
        ) from None
