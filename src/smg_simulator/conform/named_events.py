"""The object of an event whose kind stands in its data and, where it has one, in its event line.

Pure. Above: `responses_stream`, `interactions_stream`.
"""

from typing import Any

import msgspec

from smg_core.sse import ServerSentEvent

__all__ = ["read_named"]


def read_named(event: ServerSentEvent, field: str) -> tuple[dict[str, Any] | None, list[str]]:
    """The object, whose kind is in `field`, and what is wrong with it; None where the event has no object."""
    try:
        fields = msgspec.json.decode(event.data)
    except msgspec.DecodeError:
        return None, ["an event's data is no JSON"]
    if not isinstance(fields, dict):
        return None, ["an event's data is no object"]
    kind = fields.get(field)
    return fields, [] if event.event in ("message", kind) else [f"{kind} has the event line {event.event}"]
