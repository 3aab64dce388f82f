"""The conversation of a session: its items in order, within bounds.

What a response reads is made here: the text of all items, as the input of a Responses request. Items that came before `begins_at`
did not fit the model's context any more; they stay in the conversation and are not read again, so that the prompts of later
turns begin alike. Pure. Above: the session. Below: the items.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from smg_core.apis.realtime.wire.items import Item
from smg_core.errors import InvalidRequest

__all__ = ["Conversation", "not_found", "read_by_model"]

ROOT = "root"
"""The id that stands for the place before the first item."""


def not_found(id: str, param: str) -> InvalidRequest:
    """The error for an item that is not in the conversation."""
    return InvalidRequest(f"Item with id '{id[:80]}' not found.", param=param, code="item_not_found")


class Conversation:
    """The items of one session: at most `most` of them, of `most_bytes` together. `changes` grows with each change of them."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._order: list[str] = []
        self._items: dict[str, Item] = {}
        self._begins_at: str | None = None
        self.size = 0
        self.changes = 0

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, id: str) -> bool:
        return id in self._items

    def get(self, id: str, param: str = "item_id") -> Item:
        """The item. Raises InvalidRequest where there is none."""
        found = self._items.get(id)
        if found is None:
            raise not_found(id, param)
        return found

    def newest(self, item: Item) -> Item:
        """The item as it is in the conversation now, if it is there."""
        return self._items.get(item.id, item)

    @property
    def last(self) -> str | None:
        """The id of the last item."""
        return self._order[-1] if self._order else None

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of the calls of the client's functions."""
        return frozenset([item.call_id for item in self._items.values() if item.kind == "function_call"])

    def check_room(self, item: Item, held: int = 0) -> None:
        """Raise InvalidRequest where there is no room for `item`; `held` are bytes that the session holds beside its items."""
        if len(self._order) >= self._most:
            raise InvalidRequest(
                f"A conversation has at most {self._most} items here; delete some.", param="item", code="too_many_items"
            )
        if self.size + held + item.size > self._most_bytes:
            raise InvalidRequest(
                f"A session holds at most {self._most_bytes} bytes; delete items.",
                param="item",
                code="session_too_large",
            )

    def check_more(self, held: int = 0) -> None:
        """Raise InvalidRequest where the conversation is full, so that no response can add to it; `held` as for `check_room`."""
        if len(self._order) >= self._most or self.size + held >= self._most_bytes:
            raise InvalidRequest(
                "The conversation is full; delete items.", param="response.conversation", code="conversation_full"
            )

    def insert(self, item: Item, previous: str | None = None) -> str | None:
        """Put `item` behind the one of id `previous`, "root" for the front, None for the end; returns the id of the one before.
        Raises InvalidRequest for an id that there is already, or a `previous` that is none."""
        if item.id in self._items:
            raise InvalidRequest(
                f"Item with id '{item.id}' already exists in the conversation.",
                param="item.id",
                code="item_already_exists",
            )
        place = len(self._order)
        if previous == ROOT:
            place = 0
        elif previous is not None:
            self.get(previous, "previous_item_id")
            place = self._order.index(previous) + 1
        before = self._order[place - 1] if place else None
        self._order.insert(place, item.id)
        self._items[item.id] = item
        self.size += item.size
        self.changes += 1
        return before

    def replace(self, item: Item) -> str | None:
        """Put `item` into the place of the one of its id; returns the id of the one before it. One that was deleted meanwhile
        stays so."""
        old = self._items.get(item.id)
        if old is None:
            return self.last
        self.size += item.size - old.size
        self.changes += 1
        self._items[item.id] = item
        place = self._order.index(item.id)
        return self._order[place - 1] if place else None

    def delete(self, id: str) -> None:
        """Forget an item. Raises InvalidRequest where there is none."""
        item = self.get(id)
        if self._begins_at == id:
            place = self._order.index(id) + 1
            self._begins_at = self._order[place] if place < len(self._order) else None
        self._order.remove(id)
        del self._items[id]
        self.changes += 1
        self.size -= item.size

    def begin_at(self, id: str) -> None:
        """What came before this item did not fit the context: later responses begin with it."""
        if id in self._items:
            self._begins_at = id

    def all(self) -> list[Item]:
        """All items in order."""
        return [self._items[id] for id in self._order]

    def read(self) -> list[Item]:
        """The items that a response reads."""
        start = self._order.index(self._begins_at) if self._begins_at is not None else 0
        return [self._items[id] for id in self._order[start:]]


def read_by_model(items: Iterable[Item]) -> tuple[list[bytes], list[str]]:
    """The input of a Responses request that these items are, and the id of the item that each entry of it is of. A call without
    an output behind it is told as one that was cut off, and an output without its call not at all: a client may delete either, or
    put one in front of the other. An output comes before what the user has said meanwhile: models know no other order."""
    items = list(items)
    outputs = _outputs_of_calls(items)
    items_read: list[bytes] = []
    ids: list[str] = []
    awaited: list[int] = []  # the places of outputs whose calls were told, in order

    def tell(item: Item, text: bytes = b"") -> None:
        for each in (item.hidden, text or item.for_model):
            if each:
                items_read.append(each)
                ids.append(item.id)

    for place, item in enumerate(items):
        if item.kind == "function_call":
            output = outputs.get(place)
            tell(item, b"" if output is not None else item.for_model[:-1] + b',"status":"incomplete"}')
            awaited += [] if output is None else [output]
        elif item.kind == "function_call_output":
            if place in awaited:
                awaited.remove(place)
                tell(item)
        else:
            if item.for_model.startswith(_OF_USER):
                for output in sorted(awaited):
                    tell(items[output])
                awaited.clear()
            tell(item)
    return items_read, ids


_OF_USER = b'{"type":"message","role":"user"'


def _outputs_of_calls(items: Sequence[Item]) -> dict[int, int]:
    """The place of the output of each call that has one behind it, by the place of the call."""
    calls: dict[str, deque[int]] = {}
    found: dict[int, int] = {}
    for place, item in enumerate(items):
        if item.kind == "function_call":
            calls.setdefault(item.call_id, deque()).append(place)
        elif item.kind == "function_call_output" and (waiting := calls.get(item.call_id)):
            found[waiting.popleft()] = place
    return found
