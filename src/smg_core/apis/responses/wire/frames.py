"""The frames of the Responses API over a WebSocket: what a client sends, and how events and errors are framed for it.

A client's `response.create` has the fields of a body by HTTP beside its type; a `stream_id` names a lane, which every event of
that response then names too. What the gateway sends are the events of the stream by HTTP, one a frame. Pure. Above:
apis.responses.socket. Below: the decoder's errors, json_text.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from smg_core.errors import InvalidJson, InvalidRequest, UnsupportedParameter
from smg_core.wire.json_text import encode_object

__all__ = ["ClientFrame", "error_frame", "event_frames", "read_frame", "steer_failed"]

_LONGEST_LANE = 64  # characters of a stream_id, which is repeated in every event
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_TRUE = Raw(b"true")
_DATA = b"\ndata: "
_KINDS = ("response.create", "response.steer")


class ClientFrame(Struct, frozen=True):
    """One frame of a client. `body` is that of the same request by HTTP, streamed; of a steer, the whole frame."""

    kind: Literal["response.create", "response.steer"]
    body: bytes
    stream_id: str | None = None


def read_frame(data: bytes | bytearray) -> ClientFrame:
    """Read one frame. Raises InvalidJson or InvalidRequest, which names the field at fault."""
    try:
        fields = _FIELDS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson("A frame is a JSON object.") from None
    kind, lane = _text(fields, "type"), _text(fields, "stream_id")
    if kind == "response.steer":
        return ClientFrame("response.steer", bytes(data))
    if kind != "response.create":
        known = ", ".join(map(repr, _KINDS))
        raise InvalidRequest(f"Invalid value for 'type'. Supported values are: {known}.", param="type")
    if lane is not None and not 0 < len(lane) <= _LONGEST_LANE:
        raise InvalidRequest(f"A 'stream_id' has 1 to {_LONGEST_LANE} characters.", param="stream_id")
    if bytes(fields.get("background", b"")) == b"true":
        raise UnsupportedParameter(
            "Unsupported parameter: 'background' is not supported over a WebSocket.", param="background"
        )
    fields["stream"] = _TRUE
    body = {name: value for name, value in fields.items() if name not in ("type", "stream_id")}
    return ClientFrame("response.create", msgspec.json.encode(body), lane)


def _text(fields: Mapping[str, Raw], name: str) -> str | None:
    """The field's text; None where it is absent or null. Raises InvalidRequest where it is something else."""
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=str | None)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidRequest(f"Invalid type for '{name}': expected a string.", param=name) from None


def event_frames(stream: bytes, stream_id: str | None = None) -> list[str]:
    """The frames of whole server-sent events."""
    lane = b"" if stream_id is None else b',"stream_id":%b}' % encode_object(stream_id)
    frames = []
    for event in stream.split(b"\n\n"):
        data = event[event.find(_DATA) + len(_DATA) :] if _DATA in event else b""
        if data:
            frames.append((data[:-1] + lane if lane else data).decode())
    return frames


def error_frame(
    status: int, envelope: bytes, headers: Sequence[tuple[bytes, bytes]] = (), stream_id: str | None = None
) -> str:
    """The frame of an error that by HTTP has this status, envelope and headers; of those, the ones about trying again."""
    error = msgspec.json.decode(envelope)["error"]
    again = {name.decode(): value.decode() for name, value in headers if b"retry" in name}
    if again:
        error["headers"] = again
    frame = {"type": "error", "status": status, "error": error}
    if stream_id is not None:
        frame["stream_id"] = stream_id
    return encode_object(frame).decode()


def steer_failed(frame: ClientFrame) -> str:
    """The answer to a steer, with its input: a response under way takes no further input here. Raises InvalidRequest for a frame
    without what a steer has."""
    fields = _FIELDS.decode(frame.body)
    target = _text(fields, "previous_response_id")
    if target is None or "input" not in fields:
        missing = "input" if target is not None else "previous_response_id"
        raise InvalidRequest(f"Missing required parameter: '{missing}'.", param=missing)
    failed = {
        "type": "response.steer.failed",
        "sequence_number": 0,
        "steer": {"input": fields["input"], "previous_response_id": target},
        "error": {
            "type": "invalid_request_error",
            "code": "steering_not_supported",
            "message": "A response under way takes no further input; send it with the next response.create.",
        },
    }
    return encode_object(failed).decode()
