"""A server's result to a `ToolOutcome`, within bounds.

Above: sessions, functions. Below: `records.base`, `records.settings`. Pure: takes the result as JSON. Pictures and recordings are
kept as they are; what is over a bound is cut or left out, and a line of text says so.
"""

import json
from collections.abc import Mapping
from typing import Any

from smg_mcp.records.base import ToolAudio, ToolImage, ToolLink, ToolOutcome, ToolPart, ToolResource, ToolText
from smg_mcp.records.settings import McpLimits

__all__ = ["as_text", "block_of", "error_outcome", "outcome_of", "result_of"]


def error_outcome(text: str) -> ToolOutcome:
    """The result of a call that failed, with the reason for the model."""
    return ToolOutcome((ToolText(text),), is_error=True)


def outcome_of(result: Mapping[str, Any], limits: McpLimits) -> ToolOutcome:
    """The outcome of a `tools/call` result (the JSON of `CallToolResult`)."""
    room = _Room(limits.result_bytes)
    parts: list[ToolPart] = []
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    for block in blocks[: limits.result_parts]:
        part = room.fitted(_part(block))
        if part is not None:
            parts.append(part)
    if len(blocks) > limits.result_parts:
        room.left_out += len(blocks) - limits.result_parts
    structured = result.get("structuredContent")
    if structured is not None and not room.takes(len(json.dumps(structured, ensure_ascii=False))):
        structured = None
    if room.left_out:
        parts.append(ToolText(f"[{room.left_out} part(s) of the result were too large and are cut or left out]"))
    return ToolOutcome(tuple(parts), structured, result.get("isError") is True, truncated=room.left_out > 0)


class _Room:
    """How many bytes a result may still have."""

    def __init__(self, most: int) -> None:
        self._left = most
        self.left_out = 0

    def takes(self, size: int) -> bool:
        if size > self._left:
            self.left_out += 1
            return False
        self._left -= size
        return True

    def fitted(self, part: ToolPart | None) -> ToolPart | None:
        """The part; its beginning where it is text and there is no room for more; None where there is no room at all."""
        if part is None:
            return None
        size = _size(part)
        if size <= self._left:
            self._left -= size
            return part
        self.left_out += 1
        if not isinstance(part, ToolText) or not self._left:
            return None
        cut = part.text.encode("utf-8", "replace")[: self._left].decode("utf-8", "ignore")
        self._left = 0
        return ToolText(cut)


def _size(part: ToolPart) -> int:
    if isinstance(part, ToolText):
        return len(part.text.encode("utf-8", "replace"))
    if isinstance(part, ToolImage | ToolAudio):
        return len(part.data)
    if isinstance(part, ToolResource):
        return len(part.uri) + len((part.text or "").encode("utf-8", "replace")) + len(part.data or "")
    return len(part.uri) + len(part.name) + len(part.description or "")


def _part(block: Any) -> ToolPart | None:
    if not isinstance(block, Mapping):
        return None
    kind, mime = block.get("type"), block.get("mimeType")
    if kind == "text":
        return ToolText(str(block.get("text", "")))
    if kind == "image":
        return ToolImage(str(block.get("data", "")), str(mime))
    if kind == "audio":
        return ToolAudio(str(block.get("data", "")), str(mime))
    if kind == "resource_link":
        return ToolLink(str(block.get("uri", "")), str(block.get("name", "")), mime, block.get("description"))
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        return ToolResource(
            str(resource.get("uri", "")), resource.get("mimeType"), resource.get("text"), resource.get("blob")
        )
    return ToolText(f"[a part of the kind {str(kind)[:40]!r}, which is not known]")


def result_of(outcome: ToolOutcome) -> dict[str, Any]:
    """An outcome as the result of `tools/call`, for a client of ours."""
    result: dict[str, Any] = {"content": [block_of(part) for part in outcome.content], "isError": outcome.is_error}
    if isinstance(outcome.structured, Mapping):  # the protocol has objects alone
        result["structuredContent"] = outcome.structured
    return result


def block_of(part: ToolPart) -> dict[str, Any]:
    """A part as the protocol writes it."""
    match part:
        case ToolText():
            return {"type": "text", "text": as_text(part.text)}
        case ToolImage():
            return {"type": "image", "data": part.data, "mimeType": part.mime}
        case ToolAudio():
            return {"type": "audio", "data": part.data, "mimeType": part.mime}
        case ToolLink():
            link = {"uri": part.uri, "name": part.name, "mimeType": part.mime, "description": part.description}
            return {"type": "resource_link", **_given(link)}
        case ToolResource():
            resource = {"uri": part.uri, "mimeType": part.mime, "text": part.text, "blob": part.data}
            return {"type": "resource", "resource": _given(resource)}


def _given(fields: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}


def as_text(text: str) -> str:
    """The text without halves of characters, which no answer could carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
