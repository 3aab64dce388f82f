"""An interaction as the record that is kept of it, and back.

Pure. Above: the API's memory, rows and handlers. Below: the history's records.
"""

from datetime import UTC, datetime

import msgspec

from smg_core.apis.interactions.decode import InteractionRequest
from smg_core.history.store.base import StoredResponse
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_body

__all__ = ["INTERACTION_PREFIX", "interaction_bytes", "interaction_of", "stored_interaction"]

INTERACTION_PREFIX = "v1_"
"""What the ids of interactions begin with."""
_TOKEN = 8  # bytes of JSON that a token of output is about


def interaction_bytes(decoded: InteractionRequest, found: JsonObject) -> int:
    """About how many bytes an interaction and its request have."""
    usage = found.get("usage")
    counts = (
        [usage.get(name) for name in ("total_output_tokens", "total_thought_tokens")] if isinstance(usage, dict) else []
    )
    return decoded.generation.size + _TOKEN * sum(each for each in counts if isinstance(each, int))


def stored_interaction(decoded: InteractionRequest, found: JsonObject, pending: bool = False) -> StoredResponse:
    """The record of an interaction, with the steps of its request. Its steps have no ids of their own."""
    created = datetime.strptime(str(found["created"]), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return StoredResponse(
        id=decoded.generation.id,
        body=encode_body({name: value for name, value in found.items() if name != "steps"}),
        created_at=created.timestamp(),
        input=encode_body(decoded.steps),
        output=encode_body(found["steps"]),
        status=str(found["status"]),
        model=decoded.generation.model,
        previous_id=decoded.generation.history.previous_id,
        pending=pending,
    )


def interaction_of(found: StoredResponse, *, with_input: bool = False) -> JsonObject:
    """The object that was stored, with the steps of its request where they are wanted."""
    body: JsonObject = msgspec.json.decode(found.body)
    body["steps"] = msgspec.json.decode(found.output)
    if with_input:
        body["input"] = msgspec.json.decode(found.input)
    return body
