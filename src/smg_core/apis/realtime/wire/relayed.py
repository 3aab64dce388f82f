"""The events of a session that another server has, as far as they are looked at: whose response an event is of, what it counts.

All others are passed on as they came, byte for byte. Pure. Above: the relay. Below: the events of sessions.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from smg_core.errors import EngineFailed, InvalidJson, InvalidRequest, SmgError, WorkerBusy
from smg_core.events import FinishReason, Usage
from smg_core.json_types import JsonObject
from smg_core.request import GenerationRequest, Message, Text, Tool
from smg_core.wire.base import Incoming
from smg_core.wire.json_text import encode_object

__all__ = [
    "EndedAtServer",
    "RelayedRequest",
    "SentEvent",
    "ServerEvent",
    "asking_of",
    "ended_at_server",
    "ended_by_loss",
    "error_about",
    "failure_of",
    "named_as",
    "plain_event",
    "read_sent",
    "read_server_event",
    "response_id",
    "usage_of",
    "with_event_id",
    "without_event_id",
]

_LONGEST_EVENT_ID = 512
_PUT_BEHIND = 32 * 1024
"""Bytes of an event from which on it is not written anew."""


class SentEvent(Struct, frozen=True):
    """An event of a client as it came, its type and its own id; or the `fault` in it."""

    kind: str
    data: bytes = b""
    id: str | None = None
    fault: SmgError | None = None


class _SentHead(Struct):
    """What is read of a client's event."""

    type: str
    event_id: str | None = None
    session: Raw | UnsetType = UNSET


class ServerEvent(Struct):
    """What is read of a server's event. `delta` and `response` stay as they came."""

    type: str
    response_id: str | None = None
    response: Raw | UnsetType = UNSET
    session: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    delta: Raw | UnsetType = UNSET

    def text(self) -> str:
        """The text that it adds to the answer."""
        if self.type not in _TEXTS or self.delta is UNSET:
            return ""
        try:
            return msgspec.json.decode(self.delta, type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""


_TEXTS = frozenset(
    {
        "response.output_text.delta",
        "response.output_audio_transcript.delta",
        "response.function_call_arguments.delta",
    }
)
_SENT = msgspec.json.Decoder(_SentHead)
_SERVER_EVENT = msgspec.json.Decoder(ServerEvent)


def read_sent(data: bytes | bytearray, model: str, name_there: str) -> SentEvent:
    """A client's event, whose settings name `model` as the server calls it. What is wrong with it is its fault: what it says is
    for the server to judge."""
    data = bytes(data)
    try:
        head = _SENT.decode(data)
        session = None if head.session is UNSET else msgspec.json.decode(head.session)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return SentEvent("", fault=InvalidJson("An event is a JSON object with a 'type'.", code="invalid_event"))
    if head.event_id is not None and len(head.event_id) > _LONGEST_EVENT_ID:
        error = InvalidRequest("Invalid 'event_id': it is too long.", param="event_id", code="invalid_value")
        return SentEvent(head.type, fault=error)
    if head.type != "session.update" or head.session is UNSET:
        return SentEvent(head.type, data, head.event_id)
    if not isinstance(session, dict) or (named := session.get("model")) is None:
        return SentEvent(head.type, data, head.event_id)
    if named != model:
        error = InvalidRequest("The model of a session cannot be changed.", param="session.model", code="invalid_value")
        return SentEvent(head.type, id=head.event_id, fault=error)
    try:
        whole = plain_event(data)
    except InvalidJson as error:
        return SentEvent(head.type, id=head.event_id, fault=error)
    return SentEvent(head.type, encode_object({**whole, "session": {**session, "model": name_there}}), head.event_id)


def read_server_event(data: bytes) -> ServerEvent | None:
    """A server's event; None for what is none."""
    try:
        if not data.isascii():
            data.decode()  # all of it: the decoder looks at no text in what it skips, and the client is sent text
        return _SERVER_EVENT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def named_as(data: bytes, model: str) -> bytes:
    """An event with a session in it, whose model is called so. Raises InvalidJson."""
    whole = plain_event(data)
    session = whole.get("session")
    if not isinstance(session, dict) or "model" not in session:
        return data
    return encode_object({**whole, "session": {**session, "model": model}})


class _Cached(Struct):
    cached_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


class _Usage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_token_details: _Cached | None = None


class _Failure(Struct):
    code: str | None = None
    type: str | None = None
    message: str = ""


class _Details(Struct):
    error: _Failure | None = None


class _Response(Struct):
    status: str = ""
    id: str = ""
    usage: _Usage | None = None
    status_details: _Details | None = None


def usage_of(response: Raw | UnsetType) -> Usage | None:
    """The tokens of a response that is over; None where it does not say."""
    usage = _response(response).usage
    if usage is None:
        return None
    details = usage.input_token_details or _Cached()
    return Usage(
        max(0, usage.input_tokens),
        max(0, usage.output_tokens),
        max(0, details.cached_tokens),
        image_tokens=max(0, details.image_tokens),
        audio_tokens=max(0, details.audio_tokens),
    )


def failure_of(response: Raw | UnsetType) -> SmgError | None:
    """The error that a response has failed with, None where it has not."""
    found = _response(response)
    if found.status != "failed":
        return None
    error = (found.status_details or _Details()).error or _Failure()
    sentence = f"{error.code or error.type or ''}: {' '.join(error.message[:300].split())}"
    kind = WorkerBusy if "rate_limit" in sentence else EngineFailed
    return kind(
        "The engine failed while it worked on the request.",
        detail=f"response failed: {sentence}",
        outside_text=sentence,
    )


class EndedAtServer(Struct, frozen=True):
    """A response that its server has ended: its object, and for which reason."""

    response: JsonObject
    reason: FinishReason


def ended_at_server(response: Raw | UnsetType) -> EndedAtServer:
    """How a response has ended at its server."""
    try:
        found = {} if response is UNSET else msgspec.json.decode(response)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = {}
    found = found if isinstance(found, dict) else {}
    reason: FinishReason = "stop"
    if found.get("status") == "incomplete":
        reason = "length"
    elif found.get("status") == "cancelled":
        reason = "abort"
    return EndedAtServer(found, reason)


def plain_event(data: bytes) -> JsonObject:
    """An event that was read, as plain JSON. Raises InvalidJson: what was skipped then may be no number that there is."""
    try:
        found: JsonObject = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson("An event is a JSON object, and this is no JSON.", code="invalid_event") from None
    return found


def response_id(response: Raw | UnsetType) -> str:
    """The id of a response, "" where it has none."""
    return _response(response).id


def _response(response: Raw | UnsetType) -> _Response:
    if response is UNSET:
        return _Response()
    try:
        return msgspec.json.decode(response, type=_Response)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Response()


def error_about(error: Raw | UnsetType) -> str | None:
    """The id of the client's event that an error is about."""
    try:
        found = None if error is UNSET else msgspec.json.decode(error, type=_About).event_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found


class _About(Struct):
    event_id: str | None = None


def ended_by_loss(created: bytes, status: Literal["failed", "cancelled"], error: JsonObject) -> JsonObject:
    """The response that an event `response.created` told of, which ends without a word of its server."""
    created_response = plain_event(created).get("response")
    response: JsonObject = created_response if isinstance(created_response, dict) else {}
    return {**response, "status": status, "status_details": {"type": status, "error": error}}


def with_event_id(data: bytes, id: str) -> bytes:
    """The client's event with an id of its own. Raises InvalidJson."""
    if len(data) > _PUT_BEHIND:
        return data.rstrip()[:-1] + b',"event_id":"%b"}' % id.encode()  # the last one counts, behind a null too
    return encode_object({**plain_event(data), "event_id": id})


def without_event_id(data: bytes) -> bytes:
    """An error that names no event of the client's: that one had no id."""
    whole = plain_event(data)
    error = whole.get("error")
    return encode_object({**whole, "error": {**error, "event_id": None}}) if isinstance(error, dict) else data


class RelayedRequest(Struct, frozen=True):
    """A response of another server as a request, for what counts and bounds those."""

    generation: GenerationRequest

    def locate(self, path: str) -> str:
        """The event has no fields of the request's."""
        return path


def asking_of(
    incoming: Incoming, model: str, session: str, home: str, tools: tuple[Tool, ...], live: object
) -> RelayedRequest:
    """The request that stands for a response `live` in this session, which the worker `home` has."""
    return RelayedRequest(
        GenerationRequest(
            id=incoming.request_id,
            model=model,
            messages=(Message("user", (Text(""),), content_is_text=True),),
            stream=True,
            headers=incoming.headers,
            caller=incoming.caller,
            session_key=session,
            home=home,
            tools=tools,
            live=live,
            size=len(incoming.body),
        )
    )
