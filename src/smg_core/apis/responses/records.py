"""A response, and its turn of a conversation, as the records that are kept of them.

Pure. Above: `remembering`, the API's rows. Below: the history's records.
"""

from collections.abc import Sequence

from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.history.store.base import AppendItems, StoredItem, StoredResponse
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_body

__all__ = ["PREFIX", "answer_bytes", "stored_response", "turn_of"]

PREFIX = "resp_"
"""What the ids of responses begin with. Other APIs keep their answers in the same store under other prefixes."""
_TOKEN = 8  # bytes of JSON that a token of output is about


def answer_bytes(decoded: ResponsesRequest, response: JsonObject) -> int:
    """About how many bytes a response and its request have."""
    usage = response["usage"]
    tokens = usage.get("output_tokens") if isinstance(usage, dict) else None
    return decoded.generation.size + (tokens * _TOKEN if isinstance(tokens, int) else 0)


def stored_response(decoded: ResponsesRequest, response: JsonObject, *, pending: bool = False) -> StoredResponse:
    """A response as it is kept, with the items of its request."""
    output = _items(response["output"])
    ids = [str(item["id"]) for item in (*decoded.items, *output) if item.get("id")]
    return StoredResponse(
        id=decoded.generation.id,
        body=encode_body({name: value for name, value in response.items() if name != "output"}),
        created_at=float(str(response["created_at"])),
        input=encode_body(list(decoded.items)),
        output=encode_body(output),
        status=str(response["status"]),
        model=decoded.generation.model,
        previous_id=decoded.history.previous_id,
        conversation_id=decoded.history.conversation_id,
        pending=pending,
        item_ids=tuple(ids),
    )


def turn_of(decoded: ResponsesRequest, response: JsonObject) -> list[AppendItems]:
    """What a response adds to its conversation; nothing without one."""
    conversation = decoded.history.conversation_id
    if conversation is None:
        return []
    items = [*(item for item in decoded.items if item.get("id") not in decoded.known), *_items(response["output"])]
    created = float(str(response["created_at"]))
    return [AppendItems(conversation, _stored_items(items, created, decoded.generation.id))]


def _items(output: object) -> list[JsonObject]:
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _stored_items(items: Sequence[JsonObject], created_at: float, response_id: str) -> tuple[StoredItem, ...]:
    return tuple(
        StoredItem(id=str(item["id"]), body=encode_body(item), created_at=created_at, response_id=response_id)
        for item in items
        if item.get("id")
    )
