"""The body and the answer of POST /v1/audio/speech.

The text and the voice go to an engine that has the same route, and its sound comes back as it is made: as the bytes of the
format, or as server-sent events with base64 (`stream_format` "sse"), which alone can tell of a failure in their midst. Pure.
Above: the routes, the Realtime API. Below: the wire's decoding, request, events.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest
from smg_core.events import Cancelled, Done, Event, Failed, OpaqueBlock, Usage
from smg_core.origin import Origin
from smg_core.request import GenerationRequest, Message, Text
from smg_core.speech import SoundFormat, Speech
from smg_core.sse import COMMENT
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_object
from smg_core.wire.scalars import ModelName

__all__ = ["SPEECH_TYPES", "SpeechBody", "SpeechRequest", "SpeechStreamEncoder", "decode_speech", "speaking_of"]

_ORIGIN = Origin("speech")
SPEECH_TYPES: dict[SoundFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""The content type of each format."""
_SHORT = Annotated[str, Meta(min_length=1, max_length=256)]


class _VoiceId(Struct, forbid_unknown_fields=True):
    """A voice by its id."""

    id: _SHORT


class SpeechBody(Struct, forbid_unknown_fields=True):
    """The body of POST /v1/audio/speech."""

    model: Annotated[ModelName, Meta(min_length=1)]
    input: Annotated[str, Meta(min_length=1)]
    voice: _SHORT | _VoiceId | None = None
    response_format: SoundFormat | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    instructions: str | None = None
    stream_format: Literal["audio", "sse"] | None = None


_DECODER = WireDecoder(
    SpeechBody, {"response_format": tuple(SPEECH_TYPES), "stream_format": ("audio", "sse")}, ("voice",)
)


class SpeechRequest(Struct, frozen=True):
    """A decoded body. `events`: the answer is server-sent events."""

    generation: GenerationRequest
    speech: Speech
    events: bool = False

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from."""
        return "input" if path.startswith("messages") else path


def decode_speech(incoming: Incoming) -> SpeechRequest:
    """Decode the body. Raises InvalidJson, InvalidRequest and UnsupportedParameter."""
    body = _DECODER.decode(incoming.body, incoming.limits, incoming.compat)
    if not body.input.strip():
        raise InvalidRequest("Invalid 'input': there is nothing to speak.", param="input")
    voice = body.voice.id if isinstance(body.voice, _VoiceId) else body.voice
    speech = Speech(voice, body.response_format or "mp3", body.speed, body.instructions)
    return SpeechRequest(
        speaking_of(incoming, body.model, body.input, speech), speech, events=body.stream_format == "sse"
    )


def speaking_of(incoming: Incoming, model: str, text: str, speech: Speech) -> GenerationRequest:
    """The request to speak `text`. Its answer is always streamed."""
    return GenerationRequest(
        id=incoming.request_id,
        model=model,
        messages=(Message("user", (Text(text),), content_is_text=True),),
        stream=True,
        headers=incoming.headers,
        origin=_ORIGIN,
        caller=incoming.caller,
        speaking=speech,
        size=len(incoming.body),
    )


class SpeechStreamEncoder:
    """One answer: the sound as it comes. `created` is not told by this API."""

    def __init__(self, request: SpeechRequest, created: int) -> None:
        del created
        self._request = request
        self._usage: Usage | None = None
        self._ended = False
        self.content_type = (
            "text/event-stream; charset=utf-8" if request.events else SPEECH_TYPES[request.speech.format]
        )

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first sound."""
        return b""

    def keep_alive(self) -> bytes:
        """A comment between events; in sound there is nothing that could be sent."""
        return COMMENT if self._request.events else b""

    def encode(self, events: Sequence[Event]) -> bytes:
        """The bytes of `events`, in order; nothing after the end."""
        pieces: list[bytes] = []
        for event in events:
            if self._ended:
                break
            match event:
                case OpaqueBlock():
                    pieces.append(self._sound(event.payload))
                case Usage():
                    self._usage = event
                case Done() | Cancelled():
                    self._ended = True
                    pieces.append(self._done())
                case Failed():
                    self._ended = True
                    pieces.append(self._failed(event))
        return b"".join(pieces)

    def _sound(self, data: bytes) -> bytes:
        if not self._request.events:
            return data
        audio = base64.b64encode(data).decode()
        return b"data: %b\n\n" % encode_object({"type": "speech.audio.delta", "audio": audio})

    def _done(self) -> bytes:
        if not self._request.events:
            return b""
        usage = self._usage or Usage(0, 0)
        fields = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }
        return b"data: %b\n\n" % encode_object({"type": "speech.audio.done", "usage": fields})

    def _failed(self, event: Failed) -> bytes:
        """What is told of a failure in the midst: an event; sound alone ends there."""
        if not self._request.events:
            return b""
        return b"data: %b\n\n" % openai_error(event.error, "", self._request.locate)
