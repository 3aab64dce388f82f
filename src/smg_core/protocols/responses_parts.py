"""The parts within the items of a response: summaries, reasoning, annotations, a search's arguments.

Pure. Above: `responses_encode`. Below: events.
"""

import msgspec

from smg_core.events import Annotation
from smg_core.json_types import Json, JsonObject

__all__ = ["annotation_object", "object_of", "reasoning_part", "summary_part"]


def summary_part(text: str) -> JsonObject:
    """A part of a summary of reasoning."""
    return {"type": "summary_text", "text": text}


def reasoning_part(text: str) -> JsonObject:
    """A part of reasoning."""
    return {"type": "reasoning_text", "text": text}


def object_of(text: str) -> Json:
    """A search's arguments as the JSON object that they are; the text where they are none."""
    try:
        found: Json = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text
    return found


def annotation_object(event: Annotation) -> JsonObject:
    """A source that a text names."""
    made: JsonObject = {"type": f"{event.kind}_citation", "start_index": event.start, "end_index": event.end}
    made["file_id" if event.kind == "file" else "url"] = event.source
    made["filename" if event.kind == "file" else "title"] = event.title
    return made
