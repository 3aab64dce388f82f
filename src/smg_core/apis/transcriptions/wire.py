"""OpenAI's transcriptions and translations of recordings: the form of a request, and its answer.

The recording becomes a part of a user's message, beside words that ask for what is spoken in it, so that a model which takes
sound can answer; an engine that has a call of its own reads `GenerationRequest.transcription` instead. Pure. Above:
apis.transcriptions.routes. Below: the reader of forms. Source: OpenAI's API reference.
"""

from collections.abc import Mapping, Sequence
from typing import get_args

from msgspec import Struct

from smg_core.errors import ClientGone, InvalidRequest, SmgError, UnsupportedParameter
from smg_core.events import Cancelled, Done, Event, Failed, Finished, OpaqueBlock, TextDelta, Usage
from smg_core.json_types import JsonObject
from smg_core.origin import Origin
from smg_core.request import Audio, GenerationRequest, MediaSource, Message, ReasoningSettings, Sampling, Text
from smg_core.speech import Transcription, TranscriptionFormat
from smg_core.sse import COMMENT
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import brief
from smg_core.wire.endings import broken_off
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_body, encode_object
from smg_core.wire.multipart import FormReader
from smg_core.wire.scalars import MODEL_CHARACTERS

__all__ = [
    "TranscriptionObject",
    "TranscriptionRequest",
    "TranscriptionStreamEncoder",
    "TranscriptionWholeEncoder",
    "asking_for_words",
    "decode_transcription",
    "decode_translation",
]

_FIELDS = 32  # of a form; the API has some ten
_FIELD_BYTES = 64 * 1024
_HOTTEST = 1.0
_FORMATS: tuple[TranscriptionFormat, ...] = get_args(TranscriptionFormat)
_KINDS: Mapping[str, str] = {
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "text": "text/plain; charset=utf-8",
}
"""The content type of an answer by its format; of the others it is JSON."""
_ASKS = {
    False: "Write down the words that are spoken in this recording. Answer with these words and nothing else.",
    True: "Translate the words that are spoken in this recording into English. Answer with the translation and nothing else.",
}
"""What a model that takes sound is asked, by whether its answer is to be a translation."""
_ORIGIN = Origin("transcriptions")


class TranscriptionObject(Struct, kw_only=True):
    """The answer in the format json."""

    text: str
    usage: JsonObject


class TranscriptionRequest(Struct, frozen=True):
    """A decoded form."""

    generation: GenerationRequest
    asked: Transcription

    def locate(self, path: str) -> str:
        """The field of the form that `path` in `generation` was read from."""
        if path.startswith("messages"):
            return "file"
        known = {"transcription.format": "response_format", "transcription.granularities": "timestamp_granularities[]"}
        place, _, rest = path.partition(".")
        return known.get(path) or (rest if place in ("sampling", "transcription") and rest else path)


def decode_transcription(incoming: Incoming) -> TranscriptionRequest:
    """Decode the form of a transcription. Raises UnsupportedMedia, InvalidRequest, UnsupportedParameter."""
    return _decoded(incoming, translate=False)


def decode_translation(incoming: Incoming) -> TranscriptionRequest:
    """Decode the form of a translation into English."""
    return _decoded(incoming, translate=True)


def _decoded(incoming: Incoming, *, translate: bool) -> TranscriptionRequest:
    pieces: list[bytes] = []
    form = FormReader(
        incoming.headers.get("content-type", ""), pieces.append, most=_FIELDS, most_bytes=_FIELD_BYTES, lists=True
    )
    form.feed(incoming.body)
    form.end()
    fields = form.fields
    _refuse_unknown(form, translate=translate)
    data = b"".join(pieces)
    if form.filename is None or not data:
        sentence = "Missing required parameter: 'file'." if form.filename is None else "Invalid 'file': it is empty."
        raise InvalidRequest(
            sentence, param="file", code="missing_required_parameter" if form.filename is None else None
        )
    if not fields.get("model"):
        raise InvalidRequest("Missing required parameter: 'model'.", param="model", code="missing_required_parameter")
    if len(fields["model"]) > MODEL_CHARACTERS:
        raise InvalidRequest(
            f"Invalid 'model': at most {MODEL_CHARACTERS} characters are taken.",
            param="model",
            code="string_above_max_length",
        )
    stream = _switch(fields, "stream")
    asked = Transcription(
        translate=translate,
        language=fields.get("language") or None,
        prompt=fields.get("prompt") or None,
        format=_format(fields, stream=stream),
        granularities=_granularities(form.lists.get("timestamp_granularities[]", ()), fields),
        filename=form.filename,
        media_type=form.media_type,
    )
    return TranscriptionRequest(
        asking_for_words(incoming, fields["model"], data, asked, _temperature(fields), stream=stream), asked
    )


def asking_for_words(
    incoming: Incoming, model: str, data: bytes, asked: Transcription, temperature: float = 0.0, *, stream: bool = False
) -> GenerationRequest:
    """The request for the words in a recording, `data`, in the way that `asked` says."""
    words = [_ASKS[asked.translate]]
    if asked.language:
        words.append(f"The language that is spoken is {asked.language} (ISO 639-1).")
    if asked.prompt:
        words.append(f"What came before it, or words that may occur in it: {asked.prompt}")
    ending = asked.filename.rpartition(".")[2].lower() if "." in asked.filename else None
    sound = Audio(MediaSource(data=data, media_type=asked.media_type or None), format=ending)
    return GenerationRequest(
        id=incoming.request_id,
        model=model,
        messages=(Message("user", (sound, Text("\n".join(words)))),),
        sampling=Sampling(temperature=temperature),
        reasoning=ReasoningSettings(enabled=False),
        stream=stream,
        headers=incoming.headers,
        origin=_ORIGIN,
        caller=incoming.caller,
        transcription=asked,
        size=len(incoming.body),
    )


def _refuse_unknown(form: FormReader, *, translate: bool) -> None:
    known = {"model", "prompt", "response_format", "temperature"}
    lists = set[str]()
    if not translate:
        known |= {"language", "stream"}
        lists = {"timestamp_granularities[]"}
    for name in (*form.fields, *form.lists):
        if name in ("include[]", "chunking_strategy", "known_speaker_names[]", "known_speaker_references[]"):
            raise UnsupportedParameter(f"'{name}' is not taken here.", param=name)
        if name not in known and name not in lists:
            short = brief(name)
            raise InvalidRequest(f"Unknown parameter: '{short}'.", param=short, code="unknown_parameter")


def _format(fields: Mapping[str, str], *, stream: bool) -> TranscriptionFormat:
    asked = fields.get("response_format") or "json"
    found = next((each for each in _FORMATS if each == asked), None)
    if found is None:
        supported = ", ".join(f"'{each}'" for each in _FORMATS)
        raise InvalidRequest(
            f"Invalid value for 'response_format'. Supported values are: {supported}.",
            param="response_format",
            code="invalid_value",
        )
    if stream and found not in ("json", "text"):
        raise InvalidRequest(f"An answer in the format '{found}' cannot be streamed.", param="response_format")
    return found


def _granularities(found: Sequence[str], fields: Mapping[str, str]) -> tuple[str, ...]:
    at = "timestamp_granularities[]"
    for each in found:
        if each not in ("word", "segment"):
            raise InvalidRequest(f"Invalid value for '{at}'. Supported values are: 'word', 'segment'.", param=at)
    if found and fields.get("response_format") != "verbose_json":
        raise InvalidRequest(f"'{at}' needs the response_format 'verbose_json'.", param=at)
    return tuple(dict.fromkeys(found))


def _temperature(fields: Mapping[str, str]) -> float:
    text = fields.get("temperature") or "0"
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _HOTTEST:
        raise InvalidRequest("Invalid 'temperature': a number from 0 to 1.", param="temperature")
    return found


def _switch(fields: Mapping[str, str], name: str) -> bool:
    text = fields.get(name, "").lower()
    if text not in ("", "true", "false", "1", "0"):
        raise InvalidRequest(f"Invalid '{name}': expected true or false.", param=name, code="invalid_type")
    return text in ("true", "1")


# ------------------------------------------------------------------------------------------------------------ answers


def _usage_object(usage: Usage) -> JsonObject:
    found: JsonObject = {
        "type": "tokens",
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    if not usage.unsplit_prompt_tokens:
        sound = usage.audio_tokens
        found["input_token_details"] = {"audio_tokens": sound, "text_tokens": usage.prompt_tokens - sound}
    return found


class TranscriptionStreamEncoder:
    """One streamed answer: deltas of the text, and at the end the whole of it. `created` is not told by this API."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: TranscriptionRequest, created: int) -> None:
        del created
        self._request = request
        self._text: list[str] = []
        self._usage: Usage | None = None
        self._finished: Finished | None = None
        self._ended = False

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first event."""
        return b""

    def keep_alive(self) -> bytes:
        """A comment, which clients of server-sent events pass over."""
        return COMMENT

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after the end."""
        frames: list[bytes] = []
        for event in events:
            if self._ended:
                break
            if isinstance(event, TextDelta) and event.text:
                self._text.append(event.text)
                frames.append(_frame({"type": "transcript.text.delta", "delta": event.text}))
            elif isinstance(event, Usage):
                self._usage = event
            elif isinstance(event, Finished):
                self._finished = event
            elif isinstance(event, Done | Failed | Cancelled):
                self._ended = True
                frames.append(self._end(event))
        return b"".join(frames)

    def _end(self, event: Done | Failed | Cancelled) -> bytes:
        error = event.error if isinstance(event, Failed) else broken_off(self._finished)
        if error is not None:
            return b"data: " + openai_error(error, locate=self._request.locate) + b"\n\n"
        if isinstance(event, Cancelled):
            return b""
        done: JsonObject = {"type": "transcript.text.done", "text": "".join(self._text)}
        if self._usage is not None:
            done["usage"] = _usage_object(self._usage)
        return _frame(done) + b"data: [DONE]\n\n"


def _frame(event: JsonObject) -> bytes:
    return b"data: " + encode_object(event) + b"\n\n"


class TranscriptionWholeEncoder:
    """One whole answer. Where an engine has written it in a format with times, its bytes leave as they are."""

    def __init__(self, request: TranscriptionRequest, created: int) -> None:
        del created
        self._format = request.asked.format
        self.content_type = _KINDS.get(self._format, "application/json")
        self._text: list[str] = []
        self._written: bytes | None = None
        self._usage: Usage | None = None
        self._error: SmgError | None = None

    def add(self, events: Sequence[Event]) -> None:
        """Take in events."""
        for event in events:
            match event:
                case TextDelta():
                    self._text.append(event.text)
                case OpaqueBlock():
                    self._written = event.payload
                case Usage():
                    self._usage = event
                case Finished():
                    self._error = self._error or broken_off(event)
                case Failed():
                    self._error = event.error
                case Cancelled():
                    self._error = ClientGone("The request was cancelled.")

    def fork(self) -> "TranscriptionWholeEncoder":
        """An independent copy with the same events so far."""
        other = TranscriptionWholeEncoder.__new__(TranscriptionWholeEncoder)
        other.__dict__ |= self.__dict__
        other._text = self._text[:]
        return other

    def body(self) -> bytes:
        """The answer. Raises the error of a `Failed` event, `EngineFailed` for an answer that is not whole, and `ClientGone`
        after a `Cancelled`."""
        if self._error is not None:
            raise self._error
        if self._written is not None:
            return self._written
        text = "".join(self._text)
        if self._format == "text":
            return text.encode("utf-8", "replace") + b"\n"
        found: JsonObject = {"text": text}
        if self._usage is not None:
            found["usage"] = _usage_object(self._usage)
        return encode_body(found)
