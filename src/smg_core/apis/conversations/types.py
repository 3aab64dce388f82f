"""Conversations and lists of items on the wire: bodies, queries, objects.

Pure. Above: the handlers of what is stored. Below: the items of Responses, decoding.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from smg_core.apis.responses.wire.items import check_item
from smg_core.apis.responses.wire.stored_items import with_ids
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.wire.decoding import WireDecoder, too_many
from smg_core.wire.fields import read_limit, read_metadata
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "ConversationBody",
    "ItemsBody",
    "ItemsQuery",
    "conversation_object",
    "item_list",
    "read_conversation",
    "read_items_query",
    "read_new_items",
]

_MOST_ITEMS = 20
_MOST_LISTED = 100
_LISTED = 20


class ConversationBody(Struct, forbid_unknown_fields=True, gc=False):
    """What a conversation is made or changed with."""

    metadata: dict[str, str] | None = None
    items: list[JsonObject] | None = None


class ItemsBody(Struct, forbid_unknown_fields=True, gc=False):
    """Items to put at the end of a conversation."""

    items: list[JsonObject]


class ItemsQuery(Struct, frozen=True):
    """Which items of a list are wanted."""

    after: str | None
    limit: int
    newest_first: bool


_CONVERSATIONS = WireDecoder(ConversationBody, {})
_ITEMS = WireDecoder(ItemsBody, {})


def read_conversation(body: bytes, limits: LimitsConfig, suffix: str) -> tuple[dict[str, str] | None, list[JsonObject]]:
    """The metadata, None where there is none, and the items. `suffix` makes the ids of items that have none."""
    wire = _CONVERSATIONS.decode(body or b"{}", limits)
    metadata = None if wire.metadata is None else dict(read_metadata(wire.metadata, limits))
    return metadata, _checked(wire.items or [], limits, suffix)


def read_new_items(body: bytes, limits: LimitsConfig, suffix: str) -> list[JsonObject]:
    """The items of a body that has nothing else."""
    return _checked(_ITEMS.decode(body, limits).items, limits, suffix)


def _checked(items: Sequence[JsonObject], limits: LimitsConfig, suffix: str) -> list[JsonObject]:
    if len(items) > _MOST_ITEMS:
        raise too_many("items", len(items), _MOST_ITEMS, "items")
    made = with_ids(items, suffix, "items")
    for order, item in enumerate(made):
        if not item.get("id"):  # a reference, which is the only item that gets none
            at = f"items[{order}].id"
            raise InvalidRequest(f"Missing required parameter: '{at}'.", param=at, code="missing_required_parameter")
        try:
            check_item(item, limits)
        except InvalidRequest as error:
            at = (error.param or "").replace("input[0]", f"items[{order}]")
            message = error.message.replace("input[0]", f"items[{order}]")
            raise InvalidRequest(message, param=at, code=error.code) from None
    return made


def read_items_query(query: Mapping[str, tuple[str, ...]]) -> ItemsQuery:
    """The page that is asked for. Raises `InvalidRequest` naming the parameter."""
    limit = read_limit(query, usual=_LISTED, most=_MOST_LISTED)
    order = query.get("order", ("desc",))[-1]
    if order not in ("asc", "desc"):
        raise InvalidRequest("Invalid value for 'order'. Supported values are: 'asc', 'desc'.", param="order")
    return ItemsQuery(query.get("after", (None,))[-1], limit, order == "desc")


def conversation_object(id: str, created_at: float, metadata: object) -> JsonObject:
    """A conversation as clients get it."""
    return {"id": id, "object": "conversation", "created_at": int(created_at), "metadata": metadata}  # type: ignore[dict-item]


def item_list(items: Sequence[JsonObject], has_more: bool) -> JsonObject:
    """A page of items."""
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0].get("id") if items else None,
        "last_id": items[-1].get("id") if items else None,
        "has_more": has_more,
    }
