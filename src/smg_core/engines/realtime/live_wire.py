"""The wire of a session of Gemini Live: an event of its client, read, and a message of its server.

Takes time where either is long. Pure. Above: the socket, the translation. Below: JSON.
"""

import base64
import binascii

import attrs
import msgspec
from msgspec import Struct

from smg_core.engines.realtime.live_response import LiveCall, LiveUsage
from smg_core.errors import InvalidJson, InvalidRequest, SmgError
from smg_core.json_types import Json, JsonObject
from smg_core.wire.json_text import encode_object

__all__ = ["LiveContent", "LiveEvent", "LiveMessage", "LiveTranscription", "read_live_event", "read_live_message"]

_SOUND = "audio/pcm;rate=24000"
_BYTES_A_MS = 48  # of pcm16 at 24 kHz
_EVENT = msgspec.json.Decoder(dict[str, Json])


class LiveTranscription(Struct):
    text: str = ""
    finished: bool = False


class _Blob(Struct, rename="camel"):
    data: str = ""
    mime_type: str = ""


class _Part(Struct, rename="camel"):
    text: str = ""
    thought: bool = False
    inline_data: _Blob | None = None


class _Turn(Struct):
    parts: list[_Part] = []


class LiveContent(Struct, rename="camel"):
    model_turn: _Turn | None = None
    turn_complete: bool = False
    interrupted: bool = False
    input_transcription: LiveTranscription | None = None
    output_transcription: LiveTranscription | None = None
    turn_complete_reason: str = ""


class _Calls(Struct, rename="camel"):
    function_calls: list[LiveCall] = []


class _Cancelled(Struct):
    ids: list[str] = []


class _Resumption(Struct, rename="camel"):
    new_handle: str = ""
    resumable: bool = False


class _Activity(Struct, rename="camel"):
    voice_activity_type: str = ""


class LiveMessage(Struct, rename="camel"):
    """What is read of a message of the server."""

    setup_complete: JsonObject | None = None
    server_content: LiveContent | None = None
    tool_call: _Calls | None = None
    tool_call_cancellation: _Cancelled | None = None
    usage_metadata: LiveUsage | None = None
    session_resumption_update: _Resumption | None = None
    voice_activity: _Activity | None = None


@attrs.frozen
class LiveEvent:
    """An event of a client: its type, its size in bytes and its fields; `sound` is the message to the server of the sound that it
    brings, which is `sound_ms` long; `fault` what is wrong with it."""

    kind: str
    size: int
    fields: JsonObject = attrs.field(factory=dict)
    sound: bytes = b""
    sound_ms: int = 0
    fault: SmgError | None = None


def read_live_event(data: bytes) -> LiveEvent:
    """An event of a client; what is wrong with it is its fault."""
    try:
        fields = _EVENT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fault = InvalidJson("An event is a JSON object, and this is no JSON.", code="invalid_event")
        return LiveEvent("", len(data), fault=fault)
    kind = str(fields.get("type"))
    if kind != "input_audio_buffer.append":
        return LiveEvent(kind, len(data), fields)
    audio = fields.pop("audio", None)
    try:
        size = len(base64.b64decode(audio, validate=True)) if isinstance(audio, str) else 0
    except (binascii.Error, ValueError):
        size = 0
    if not size:
        wrong = InvalidRequest("Invalid 'audio': expected base64.", param="audio", code="invalid_value")
        return LiveEvent(kind, len(data), fields, fault=wrong)
    sound = encode_object({"realtimeInput": {"audio": {"mimeType": _SOUND, "data": audio}}})
    return LiveEvent(kind, len(data), fields, sound, size // _BYTES_A_MS)


_MESSAGE = msgspec.json.Decoder(LiveMessage)


def read_live_message(data: bytes) -> LiveMessage | None:
    """A message of a server; None for what is none."""
    try:
        return _MESSAGE.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
