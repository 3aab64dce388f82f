"""The events of a Realtime session on the wire: what a client sends, read; what the server sends, written.

Every event of the server has an `event_id`, in the order in which it was made. A client's event that cannot be read keeps its own
id, which the error then names. Pure. Above: the session, the encoder. Below: the wire types.
"""

import base64
import binascii
from collections.abc import Mapping

import attrs
import msgspec
from msgspec import Struct

from smg_core.apis.realtime.wire.beta import BETA_EVENTS, beta_refused
from smg_core.apis.realtime.wire.states import CLIENT
from smg_core.apis.realtime.wire.types import (
    SUPPORTED_VALUES,
    ItemCreate,
    ItemNamed,
    ItemTruncate,
    NoFields,
    ResponseCancel,
    ResponseCreate,
    SessionUpdate,
    SoundAppend,
)
from smg_core.errors import InvalidJson, InvalidRequest, SmgError
from smg_core.json_types import JsonObject
from smg_core.wire.decoding import brief, explained, plain_body
from smg_core.wire.errors import responses_error
from smg_core.wire.json_text import encode_object
from smg_core.wire.settings import LimitsConfig

__all__ = ["ClientEvent", "SessionIds", "error_frame", "read_event", "written"]

_TYPES: Mapping[str, type[Struct]] = {
    "session.update": SessionUpdate,
    "conversation.item.create": ItemCreate,
    "conversation.item.retrieve": ItemNamed,
    "conversation.item.delete": ItemNamed,
    "conversation.item.truncate": ItemTruncate,
    "input_audio_buffer.append": SoundAppend,
    "input_audio_buffer.commit": NoFields,
    "input_audio_buffer.clear": NoFields,
    "output_audio_buffer.clear": NoFields,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
}
_LONGEST_EVENT_ID = 512


@attrs.define(eq=False)
class SessionIds:
    """Makes the ids of one session's events and items: numbers behind the session's own part."""

    part: str
    count: int = 0

    def __call__(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.part}{self.count:x}"


class ClientEvent(Struct, frozen=True):
    """One event of a client: its type, its own id, what it says, and the sound that it brings; or the `fault` that was found in
    it. `size` is in bytes."""

    kind: str
    id: str | None = None
    fields: Struct | None = None
    sound: bytes = b""
    fault: SmgError | None = None
    size: int = 0


def read_event(data: bytes | bytearray, limits: LimitsConfig) -> ClientEvent:
    """Read one event; what is wrong with it is its fault, which the session tells."""
    try:
        plain = plain_body(bytes(data), limits)
    except InvalidJson:
        return ClientEvent(
            "", fault=InvalidJson("An event is a JSON object, and this is no JSON.", code="invalid_event")
        )
    except SmgError as error:
        return ClientEvent("", fault=error)
    if not isinstance(plain, dict):
        return ClientEvent("", fault=InvalidJson("An event is a JSON object.", code="invalid_event"))
    own = plain.get("event_id")
    id = own if isinstance(own, str) and len(own) <= _LONGEST_EVENT_ID else None
    kind = plain.get("type")
    try:
        return _read(plain, kind, id, len(data))
    except SmgError as error:
        return ClientEvent(kind if isinstance(kind, str) else "", id, fault=error, size=len(data))


def _read(plain: JsonObject, kind: object, id: str | None, size: int) -> ClientEvent:
    if kind is None:
        raise InvalidRequest("Missing required parameter: 'type'.", param="type", code="missing_required_parameter")
    wanted = _TYPES.get(kind) if isinstance(kind, str) else None
    if wanted is None or not isinstance(kind, str):
        if kind in BETA_EVENTS:
            raise beta_refused()
        known = ", ".join(repr(each) for each in sorted({name for name, _ in CLIENT}))
        raise InvalidRequest(
            f"Invalid value: {brief(repr(kind))}. Supported values are: {known}.", param="type", code="invalid_value"
        )
    fields: Struct = explained(plain, wanted, "", SUPPORTED_VALUES)
    sound = b""
    if isinstance(fields, SoundAppend):
        sound, fields = _sound(fields.audio), NoFields(type=kind, event_id=id)
    return ClientEvent(kind, id, fields, sound, size=size)


def _sound(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("Invalid 'audio': expected base64.", param="audio", code="invalid_value") from None


def written(kind: str, id: str, **fields: object) -> bytes:
    """One event of the server."""
    return encode_object({"type": kind, "event_id": id, **fields})


def error_frame(error: SmgError, id: str, about: str | None) -> bytes:
    """The event of an error; `about` is the id of the client's event that it is about."""
    error_body = msgspec.json.decode(responses_error(error))["error"]
    return written("error", id, error={**error_body, "event_id": about})
