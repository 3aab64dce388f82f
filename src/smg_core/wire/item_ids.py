"""The ids that clients give to items: of a request for a response, of a conversation, of an interaction.

An item is found by its id later, so an id is held to what every store takes and what a client can ask for again, and no two items
of a list have the same. Pure. Above: the readers of items and steps. Below: errors.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import brief, explained

__all__ = ["LONGEST_ID", "ItemId", "check_item_ids", "is_item_id", "known_items"]

LONGEST_ID = 255
"""Characters; every store takes that many."""
ItemId = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
_MADE_HERE = frozenset({"status", "encrypted_content", "annotations", "logprobs", "detail", "execution"})
"""Fields that an item gets when it is kept, or that a client is only told where it asks for them: without them it is the same."""

_NOT_READ = frozenset({"parsed", "parsed_arguments", "created_by"})
"""Fields that helpers of SDKs put into what they were given, and which nothing here reads."""


class _Named(Struct):
    id: ItemId


def is_item_id(id: Json) -> bool:
    """Whether a thing can be found by this id."""
    return isinstance(id, str) and 0 < len(id) <= LONGEST_ID and id.isprintable()


def check_item_ids(items: Sequence[JsonObject], at: str) -> None:
    """Raise InvalidRequest where an item of the list `at` has an id that is none, or that an item before it has."""
    seen: set[str] = set()
    for order, item in enumerate(items):
        id = item.get("id")
        if id is None:
            continue
        if not is_item_id(id):
            explained({"id": id}, _Named, f"{at}[{order}]")
            param = f"{at}[{order}].id"
            raise InvalidRequest(
                f"Invalid '{param}': it has characters that cannot be printed.", param=param, code="invalid_value"
            )
        if id in seen:
            raise _duplicate(str(id), f"{at}[{order}].id")
        seen.add(str(id))


def known_items(
    given: Sequence[JsonObject], referred: Sequence[bool], earlier: Mapping[str, JsonObject]
) -> frozenset[str]:
    """The ids of the items of `given` that are among those of a conversation, `earlier`: those that only name one, as `referred`
    says, and those that repeat one. Raises InvalidRequest where an item says something else under the id of one."""
    known: set[str] = set()
    for order, (item, names) in enumerate(zip(given, referred, strict=True)):
        id = str(item.get("id"))
        if id not in earlier:
            continue
        if not names and not _same(item, earlier[id]):
            raise _duplicate(id, f"input[{order}].id")
        known.add(id)
    return frozenset(known)


def _same(given: JsonObject, kept: JsonObject) -> bool:
    """Whether the two say the same. Of reasoning clients send back what their types know: what only one has says nothing."""
    one, other = _own_fields(given), _own_fields(kept)
    if given.get("type") == "reasoning" == kept.get("type"):
        return all(one[name] == other[name] for name in one.keys() & other.keys())
    return one == other


def _own_fields(item: JsonObject) -> JsonObject:
    """The item without what is empty and what says nothing of its own."""
    return {
        name: _own_value(each)
        for name, each in item.items()
        if each not in (None, [], {}) and name not in _MADE_HERE and name not in _NOT_READ
    }


def _own_value(value: Json) -> Json:
    if isinstance(value, list):
        return [_own_value(each) for each in value]
    return _own_fields(value) if isinstance(value, dict) else value


def _duplicate(id: str, at: str) -> InvalidRequest:
    return InvalidRequest(
        f"Duplicate item found with id {brief(id, 80)}. Remove duplicate items from your input and try again.", param=at
    )
