"""The rows of conversations and logs in memory, and small decisions about any of its objects.

Pure. Above: `tables`. Below: `store.base`.
"""

import bisect
from collections.abc import Sequence
from typing import TypeVar

import attrs

from smg_core.history.store.base import ChainLink, StaleVersion, StoredConversation, StoredItem, StoredResponse

__all__ = ["ConversationRows", "EventRows", "chain_link", "next_version", "not_expired", "paged"]

T = TypeVar("T", int, tuple[float, str])


@attrs.define
class ConversationRows:
    """A conversation's items by position, and the position of each id."""

    head: StoredConversation
    items: dict[int, StoredItem] = attrs.field(factory=dict)
    positions: dict[str, int] = attrs.field(factory=dict)
    order: list[int] = attrs.field(factory=list)  # of the positions that are there, ascending
    next: int = 0


@attrs.define
class EventRows:
    """A response's events by number."""

    expires_at: float | None
    data: dict[int, bytes] = attrs.field(factory=dict)
    order: list[int] = attrs.field(factory=list)


def paged(order: Sequence[T], after: T | None, limit: int, newest_first: bool) -> tuple[list[T], bool]:
    """At most `limit` of the sorted `order` behind `after`, and whether there are more."""
    if newest_first:
        end = len(order) if after is None else bisect.bisect_left(order, after)
        start = max(0, end - limit)
        return list(reversed(order[start:end])), start > 0
    start = 0 if after is None else bisect.bisect_right(order, after)
    return list(order[start : start + limit]), start + limit < len(order)


def not_expired(expires_at: float | None, now: float) -> bool:
    return expires_at is None or expires_at > now


def next_version(id: str, version: int, if_version: int | None) -> int:
    if if_version is not None and if_version != version:
        raise StaleVersion(id)
    return version + 1


def chain_link(response: StoredResponse) -> ChainLink:
    return ChainLink(
        id=response.id,
        previous_id=response.previous_id,
        status=response.status,
        model=response.model,
        created_at=response.created_at,
        input=response.input,
        output=response.output,
    )
