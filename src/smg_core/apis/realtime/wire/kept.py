"""The items of a session as the conversation store has them, and back: items of Responses, which other APIs read too.

The words of sound are kept, and not the sound. Pure. Above: keeping. Below: the items of sessions.
"""

import msgspec

from smg_core.apis.realtime.wire.items import Item, made_item
from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import brief
from smg_core.wire.json_text import encode_body

__all__ = ["KeptEntries", "kept_of", "restored"]

KeptEntries = list[tuple[str, bytes]]
"""Ids and bodies of the store, in order."""

_REASONING = "reasoning_of_the_item_"
"""What the id of an item's reasoning begins with: with the item's own it is longer than ids that clients give."""
_TEXTS = ("input_text", "output_text")
_COPIED: dict[str, tuple[str, ...]] = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "mcp_approval_request": ("server_label", "name", "arguments"),
    "mcp_approval_response": ("approval_request_id", "approve", "reason"),
    "mcp_call": ("server_label", "name", "arguments", "output", "error", "approval_request_id"),
    "mcp_list_tools": ("server_label", "tools"),
}


def kept_of(item: Item) -> KeptEntries:
    """The ids and bodies that are kept of an item: its reasoning, and itself; none of one that is not complete yet."""
    body = item.body()
    if body.get("status") == "in_progress" or not item.for_model:
        return []
    for_model: JsonObject = msgspec.json.decode(item.for_model)
    content = for_model.get("content")
    if isinstance(content, list):
        parts = [part for part in content if not (isinstance(part, dict) and part.get("type") == "input_audio")]
        if not parts:
            return []  # sound whose words nobody has written down
        for_model["content"] = parts
    if item.kind == "mcp_list_tools":
        for_model["tools"] = body.get("tools", [])
    status = {"status": body["status"]} if "status" in body else {}
    kept = [(item.id, encode_body({**for_model, "id": item.id, **status}))]
    if item.hidden:
        thought: JsonObject = msgspec.json.decode(item.hidden)
        id = f"{_REASONING}{item.id}"
        kept.insert(0, (id, encode_body({**thought, "id": id})))
    return kept


def restored(entries: KeptEntries) -> list[tuple[Item, KeptEntries]]:
    """The items of a session that are kept so, each with the entries that it was read from. Raises InvalidRequest for what a
    session cannot have."""
    items: list[tuple[Item, KeptEntries]] = []
    before: KeptEntries = []
    hidden = ""
    for id, body in entries:
        kept: JsonObject = msgspec.json.decode(body)
        before.append((id, body))
        if kept.get("type") == "reasoning":
            hidden += _thought(kept)
            continue
        items.append((made_item({**_session_item(kept), "id": id}, hidden), before))
        hidden, before = "", []
    if items:
        items[-1][1].extend(before)  # reasoning with nothing behind it
    return items


def _thought(kept: JsonObject) -> str:
    content = kept.get("content")
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _session_item(kept: JsonObject) -> JsonObject:
    """The item of a session that an item of the store is."""
    kind = kept.get("type", "message")
    fields: JsonObject = {"type": kind}
    if kept.get("status") in ("completed", "incomplete"):
        fields["status"] = kept["status"]
    if kind == "message":
        role = "system" if kept.get("role") == "developer" else kept.get("role")
        return {**fields, "role": role, "content": _parts(kept.get("content"), str(role))}
    if not isinstance(kind, str) or kind not in _COPIED:
        raise _cannot(f"an item of type {brief(repr(kind))}")
    if kind == "function_call_output" and not isinstance(kept.get("output"), str):
        raise _cannot("an output that is no text")
    return {**fields, **{name: kept[name] for name in _COPIED[kind] if name in kept}}


def _parts(content: Json, role: str) -> list[Json]:
    own = "output_text" if role == "assistant" else "input_text"
    if isinstance(content, str):
        return [{"type": own, "text": content}]
    return [_part(part, own) for part in content] if isinstance(content, list) else []


def _part(part: Json, own: str) -> JsonObject:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, dict) and kind in _TEXTS:
        return {"type": own, "text": part.get("text") or ""}
    if isinstance(part, dict) and kind == "input_image" and isinstance(part.get("image_url"), str):
        return {name: part[name] for name in ("type", "image_url", "detail") if part.get(name) is not None}
    raise _cannot(f"content of type {brief(repr(kind))}")


def _cannot(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"The conversation has {what}, which a Realtime session cannot have.",
        param="conversation",
        code="unsupported_content",
    )
