"""The parts within a response and its items: summaries, reasoning, annotations, a search's arguments, what was left out.

Pure. Above: `encode`. Below: events.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from smg_core.events import Annotation, DroppedReasoning
from smg_core.json_types import Json, JsonObject

__all__ = [
    "Seal",
    "annotation_object",
    "object_of",
    "reasoning_part",
    "summary_part",
    "transformation_object",
    "with_sealed_reasoning",
]

_REMOVED: Mapping[str, str] = {
    "wrong_tenant": "organization_mismatch",
    "other_family": "model_mismatch",
    "unknown_key": "organization_mismatch",
    "not_ours": "organization_mismatch",
}
"""What the API calls it when sealed reasoning does not open; whatever was changed is a prefix_mismatch."""


def summary_part(text: str) -> JsonObject:
    """A part of a summary of reasoning."""
    return {"type": "summary_text", "text": text}


def reasoning_part(text: str) -> JsonObject:
    """A part of reasoning."""
    return {"type": "reasoning_text", "text": text}


Seal: TypeAlias = Callable[[str], str]
"""Makes the encrypted_content of a piece of reasoning."""


def with_sealed_reasoning(item: JsonObject, seal: Seal) -> JsonObject:
    """The item with its text sealed, where it is reasoning that has a text and no seal."""
    if item.get("type") != "reasoning" or item.get("encrypted_content"):
        return item
    text = _joined(item.get("content"), "") or _joined(item.get("summary"), "\n")
    return {**item, "encrypted_content": seal(text)} if text else item


def _joined(parts: Json, between: str) -> str:
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return between.join(text for text in texts if isinstance(text, str))


def object_of(text: str) -> Json:
    """A search's arguments as the JSON object that they are; the text where they are none."""
    try:
        found: Json = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text
    return found


def annotation_object(event: Annotation) -> JsonObject:
    """A source that a text names. A file is cited at a place, a page by a stretch of the text."""
    if event.kind == "file":
        return {"type": "file_citation", "index": event.end, "file_id": event.source, "filename": event.title}
    kind = "url" if event.kind == "page" else event.kind
    made: JsonObject = {"type": f"{kind}_citation", "start_index": event.start, "end_index": event.end}
    made["file_id" if event.kind == "file" else "url"] = event.source
    made["filename" if event.kind == "file" else "title"] = event.title
    return made


def transformation_object(dropped: DroppedReasoning) -> JsonObject:
    """That an item of reasoning is not in the prompt."""
    reason = _REMOVED.get(dropped.reason, "prefix_mismatch")
    return {"id": dropped.id or "", "type": "reasoning", "action": "removed", "reason": reason}
