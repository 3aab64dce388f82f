"""The items of a conversation: what a client may put into it, how one is told, and what it says to the model.

An item is kept as text: as it is told, and as the item of a Responses request that it is for the model, since each response of a
session is decoded as such a request. The model's reasoning before an item is kept with it and told to nobody. Pure. Above: the
conversation. Below: the wire's JSON, errors.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import attrs
import msgspec
from msgspec import Meta, Struct

from smg_core.apis.realtime.wire.g711 import FromPhone, Law
from smg_core.apis.realtime.wire.hearing import wav_base64
from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import brief, explained, no_kind
from smg_core.wire.json_text import encode_object
from smg_core.wire.scalars import Label, Name

__all__ = ["LONGEST_ID", "Item", "item_given", "made_item", "reference_of"]

LONGEST_ID = 32
"""Characters of an id that a client gives an item."""

_MOST_OF_PHONE = 4 * 1024 * 1024
"""Bytes of a telephone's sound in an item: eight minutes, which become six times as many bytes."""
_Id = Annotated[str, Meta(min_length=1)]
_Status = Literal["completed", "incomplete", "in_progress"]
_CONTENT_KINDS: Mapping[str, str] = {"system": "input_text", "user": "input_text", "assistant": "output_text"}


class _Item(Struct, forbid_unknown_fields=True, gc=False):
    """What every item may have; `id` is checked apart, since its bound has an error of its own."""

    type: str
    id: str | None = None
    object: Literal["realtime.item"] | None = None
    status: _Status | None = None


class _Message(_Item, kw_only=True):
    role: Literal["system", "user", "assistant"]
    content: list[JsonObject]
    phase: Literal["commentary", "final_answer"] | None = None


class _FunctionCall(_Item, kw_only=True):
    name: Name
    arguments: str
    call_id: Label | None = None


class _CallOutput(_Item, kw_only=True):
    call_id: Label
    output: str


class _ApprovalRequest(_Item, kw_only=True):
    server_label: Label
    name: str
    arguments: str


class _ApprovalResponse(_Item, kw_only=True):
    approval_request_id: _Id
    approve: bool
    reason: str | None = None


class _McpCall(_Item, kw_only=True):
    server_label: Label
    name: str
    arguments: str
    output: str | None = None
    error: Json = None
    approval_request_id: _Id | None = None


class _McpTools(_Item, kw_only=True):
    server_label: Label
    tools: list[JsonObject]


class _TextPart(Struct, forbid_unknown_fields=True):
    type: str
    text: str


class _ImagePart(Struct, forbid_unknown_fields=True):
    type: str
    image_url: Annotated[str, Meta(min_length=1)]
    detail: Literal["auto", "low", "high"] | None = None


class _SoundPart(Struct, forbid_unknown_fields=True):
    """Sound, of which `transcript` are the words."""

    type: str
    audio: str | None = None
    transcript: str | None = None


_KINDS: Mapping[str, type[_Item]] = {
    "message": _Message,
    "function_call": _FunctionCall,
    "function_call_output": _CallOutput,
    "mcp_approval_request": _ApprovalRequest,
    "mcp_approval_response": _ApprovalResponse,
    "mcp_call": _McpCall,
    "mcp_list_tools": _McpTools,
}
_PARTS: Mapping[str, Mapping[str, type[Struct]]] = {
    "system": {"input_text": _TextPart},
    "user": {"input_text": _TextPart, "input_image": _ImagePart, "input_audio": _SoundPart},
    "assistant": {"output_text": _TextPart, "output_audio": _SoundPart},
}


@attrs.frozen(eq=False)
class Item:
    """One item. `as_json` is it as JSON, `for_model` the item of a Responses request that it is for the model (b"" for nothing),
    `hidden` one of the reasoning before it. `call_id` is of a call or its output; `asks` is the id of the question that it
    asks or answers."""

    id: str
    kind: str
    as_json: bytes
    for_model: bytes = b""
    hidden: bytes = b""
    call_id: str = ""
    asks: str = ""

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return len(self.as_json) + len(self.for_model) + len(self.hidden)

    def body(self) -> JsonObject:
        """The item as it is told."""
        body: JsonObject = msgspec.json.decode(self.as_json)
        return body


def item_given(
    item: JsonObject, at: str, make_id: Callable[[str], str], *, hears: bool = False, law: Law | None = None
) -> Item:
    """The item that a client gives at `at`, with an id of `make_id` where it has none. `hears`: the model takes sound, which the
    client encodes by `law`, None for pcm16. Raises InvalidRequest."""
    kind = item.get("type")
    if not isinstance(kind, str):
        raise no_kind(item, at)
    wanted = _KINDS.get(kind)
    if wanted is None:
        known = ", ".join(map(repr, _KINDS))
        raise InvalidRequest(
            f"Invalid value for '{at}.type': {brief(repr(kind))}. Supported values are: {known}.",
            param=f"{at}.type",
            code="invalid_value",
        )
    read = explained(item, wanted, at)
    if read.id is not None and not 0 < len(read.id) <= LONGEST_ID:
        raise InvalidRequest(
            f"Invalid '{at}.id': expected 1 to {LONGEST_ID} characters.",
            param=f"{at}.id",
            code="string_above_max_length",
        )
    if read.id is not None and "\x00" in read.id:
        raise InvalidRequest(f"Invalid '{at}.id': it has a NUL.", param=f"{at}.id", code="invalid_value")
    given = {name: value for name, value in item.items() if value is not None or name in ("output", "error")}
    if isinstance(read, _Message):
        given["content"] = [
            _part(part, read.role, f"{at}.content[{place}]", hears=hears, law=law)
            for place, part in enumerate(read.content)
        ]
        if not read.content:
            raise InvalidRequest(f"Invalid '{at}.content': empty array.", param=f"{at}.content", code="empty_array")
    if isinstance(read, _FunctionCall) and read.call_id is None:
        given["call_id"] = make_id("call_")
    return made_item({**given, "id": read.id or make_id("item_")})


def _part(part: JsonObject, role: str, at: str, *, hears: bool, law: Law | None) -> JsonObject:
    """A part of a message of this role, checked. Raises InvalidRequest."""
    kind = part.get("type")
    if not isinstance(kind, str):
        raise no_kind(part, at)
    wanted = _PARTS[role].get(kind)
    if wanted is None:
        known = ", ".join(map(repr, _PARTS[role]))
        raise InvalidRequest(
            f"Invalid value for '{at}.type': {brief(repr(kind))}. Supported values are: {known}.",
            param=f"{at}.type",
            code="invalid_value",
        )
    read = explained(part, wanted, at)
    if isinstance(read, _SoundPart) and not read.audio and not read.transcript:
        raise InvalidRequest(
            f"Missing required parameter: '{at}.audio'.", param=f"{at}.audio", code="missing_required_parameter"
        )
    if isinstance(read, _SoundPart) and role == "user" and read.audio and hears:
        return {**part, "audio": _checked_sound(read.audio, f"{at}.audio", law)}
    if isinstance(read, _SoundPart) and role == "user" and not read.transcript:
        raise InvalidRequest(
            f"'{at}' is sound, which this model does not take; send its transcript, or text.",
            param=at,
            code="unsupported_content",
        )
    return part


def _checked_sound(audio: str, at: str, law: Law | None) -> str:
    """Sound as base64, which must be pcm16, or becomes it. Raises InvalidRequest."""
    try:
        sound = base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        sound = b""
    if law is not None and len(sound) > _MOST_OF_PHONE:
        raise InvalidRequest(
            f"Invalid '{at}': at most {_MOST_OF_PHONE} bytes of this format.", param=at, code="invalid_value"
        )
    if law is not None and sound:
        return base64.b64encode(FromPhone(law).pcm(sound)).decode()
    if not sound or len(sound) % 2:
        raise InvalidRequest(f"Invalid '{at}': expected pcm16 as base64.", param=at, code="invalid_value")
    return audio


def made_item(fields: JsonObject, hidden: str = "") -> Item:
    """The item that is told so, which is known to be one; `hidden` is the reasoning before it."""
    kind, id = str(fields["type"]), str(fields["id"])
    body: JsonObject = {"id": id, "object": "realtime.item", "status": "completed", **fields}
    for_model = _for_model(body, kind)
    body = _without_sound(body)
    if kind not in ("message", "function_call", "function_call_output"):
        body.pop("object")
        body.pop("status")
    thought: JsonObject = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": hidden}]}
    return Item(
        id,
        kind,
        encode_object(body),
        for_model=for_model,
        hidden=encode_object(thought) if hidden else b"",
        call_id=str(fields.get("call_id") or ""),
        asks=str(fields.get("approval_request_id") or (id if kind == "mcp_approval_request" else "")),
    )


def _for_model(body: JsonObject, kind: str) -> bytes:
    """What an item says to the model, as an item of a Responses request."""
    if kind == "message":
        role = str(body["role"])
        content = body["content"]
        parts = (
            [_spoken(part, _CONTENT_KINDS[role]) for part in content if isinstance(part, dict)]
            if isinstance(content, list)
            else []
        )
        return encode_object({"type": kind, "role": role, "content": parts}) if parts else b""
    fields = _MODELS_FIELDS[kind]
    for_model = {name: body.get(name) for name in fields if name in body}
    if kind == "mcp_list_tools":
        for_model["tools"] = []
    return encode_object({"type": kind, **for_model})


_MODELS_FIELDS: Mapping[str, tuple[str, ...]] = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "mcp_approval_request": ("id", "server_label", "name", "arguments"),
    "mcp_approval_response": ("approval_request_id", "approve", "reason"),
    "mcp_call": ("id", "server_label", "name", "arguments", "output", "error", "approval_request_id"),
    "mcp_list_tools": ("server_label",),
}


def _without_sound(body: JsonObject) -> JsonObject:
    """An item as it is told: without the sound in it, which its client has."""
    content = body.get("content")
    if not isinstance(content, list) or not any(isinstance(part, dict) and "audio" in part for part in content):
        return body
    parts: list[Json] = [
        {"transcript": None, **{name: value for name, value in part.items() if name != "audio"}}
        if isinstance(part, dict) and "audio" in part
        else part
        for part in content
    ]
    return {**body, "content": parts}


def _spoken(part: JsonObject, kind: str) -> JsonObject:
    """A part of a message for the model: the sound of a user that it hears, else the words."""
    audio = part.get("audio")
    if part.get("type") == "input_audio" and isinstance(audio, str) and not part.get("transcript"):
        return {"type": "input_audio", "input_audio": {"data": wav_base64(base64.b64decode(audio)), "format": "wav"}}
    if part.get("type") in ("input_audio", "output_audio"):
        return {"type": kind, "text": part.get("transcript") or ""}
    return part


def reference_of(item: JsonObject, at: str) -> str | None:
    """The id of the item that this one of `input` stands for; None where it is one itself. Raises InvalidRequest."""
    if item.get("type") != "item_reference":
        return None
    id = item.get("id")
    if not isinstance(id, str):
        raise InvalidRequest(
            f"Missing required parameter: '{at}.id'.", param=f"{at}.id", code="missing_required_parameter"
        )
    return id
