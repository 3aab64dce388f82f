"""The conversation of a session in the store (edge): loaded when opened again, kept before its client is told of it.

A change in the midst of a conversation has all behind it written anew, in one write: the store has items in the order in which
they came. Above: the socket of sessions. Below: the history, the items as they are kept.
"""

import asyncio
from collections.abc import Callable, Sequence

from smg_core.apis.realtime.wire.conversation import Conversation
from smg_core.apis.realtime.wire.items import Item
from smg_core.apis.realtime.wire.kept import KeptEntries, kept_of, restored
from smg_core.errors import InvalidRequest, NotFound, SmgError
from smg_core.history.store.base import (
    AppendItems,
    DeleteItem,
    ItemPosition,
    PutConversation,
    StoredConversation,
    StoredItem,
    StoreOperation,
)
from smg_core.request import Caller
from smg_core.serving.inference import DECODED_INLINE
from smg_core.serving.services import Services

__all__ = ["KeptConversation", "begin_kept", "open_kept"]

_PAGE = 100


class KeptConversation:
    """A conversation that is kept under `id` for `caller`. `items` are those that it begins with; `failed` is told once of each
    time that it could not be kept, which is tried again with the next change."""

    def __init__(
        self, services: Services, caller: Caller, id: str, items: Sequence[tuple[Item, KeptEntries]] = ()
    ) -> None:
        self.id = id
        self.items = [item for item, _ in items]
        self.failed: Callable[[SmgError], None] = lambda error: None
        self._services, self._caller = services, caller
        self._bodies = {item.id: (item, entries) for item, entries in items}
        self._stored = [entry for _, entries in items for entry in entries]
        self._seen = -1
        self._failing = False
        self._writing = asyncio.Lock()

    async def keep(self, conversation: Conversation, *, last: bool = False) -> None:
        """Have what the conversation is by now in the store. What could not be kept is tried again when it has changed, or this
        is the `last` time."""
        if self._seen == conversation.changes and not (last and self._failing):
            return
        async with self._writing:
            seen = conversation.changes
            if self._seen == seen and not (last and self._failing):
                return
            items = conversation.all()
            await self._work_out([item for item in items if self._unknown(item)])
            wanted = [entry for item in items for entry in self._bodies[item.id][1]]
            operations = self._operations(wanted)
            try:
                if operations:
                    history = self._services.running.history
                    await history.write(self._caller.tenant, operations, principal=self._caller.principal)
            except SmgError as error:
                reported, self._failing, self._seen = self._failing, True, seen
                if not reported:
                    self.failed(error)
                return
            self._stored, self._seen, self._failing = wanted, seen, False
            for id in self._bodies.keys() - {item.id for item in items}:
                del self._bodies[id]

    def _unknown(self, item: Item) -> bool:
        known = self._bodies.get(item.id)
        return known is None or known[0] is not item

    async def _work_out(self, items: list[Item]) -> None:
        """Work out what is kept of these items; off the event loop where that is much."""
        size = sum(item.size for item in items)
        if size <= DECODED_INLINE:
            made = [kept_of(item) for item in items]
        else:
            run, tenant = self._services.running.executor.run, self._caller.tenant
            made = await run(lambda _: [kept_of(item) for item in items], size=size, caller=tenant)
        self._bodies |= {item.id: (item, entries) for item, entries in zip(items, made, strict=True)}

    def _operations(self, wanted: KeptEntries) -> list[StoreOperation]:
        """What makes the stored items those that are wanted."""
        alike = 0
        for before, now in zip(self._stored, wanted, strict=False):
            if before != now:
                break
            alike += 1
        gone: list[StoreOperation] = [DeleteItem(self.id, id) for id, _ in self._stored[alike:]]
        at = self._services.clock.time()
        new = tuple(StoredItem(id=id, body=body, created_at=at) for id, body in wanted[alike:])
        return [*gone, AppendItems(self.id, new)] if new else gone


async def begin_kept(services: Services, caller: Caller) -> KeptConversation | None:
    """A new conversation in the store; None for a caller of whom nothing is kept."""
    history = services.running.history
    if not history.keeps(caller.tenant, caller.principal):
        return None
    id = services.ids("conv_")
    made = StoredConversation(id=id, created_at=services.clock.time())
    await history.write(caller.tenant, [PutConversation(made, if_version=0)], principal=caller.principal)
    return KeptConversation(services, caller, id)


async def open_kept(services: Services, caller: Caller, id: str, most: int, most_bytes: int) -> KeptConversation:
    """A conversation of this caller's tenant that is in the store, with at most so many items and bytes. Raises NotFound, and
    InvalidRequest for one that a session cannot have."""
    history, tenant = services.running.history, caller.tenant
    if not history.keeps(tenant, caller.principal) or await history.conversation(tenant, id) is None:
        raise NotFound(
            f"Conversation with id '{id[:100]}' not found.", param="conversation", code="conversation_not_found"
        )
    entries: KeptEntries = []
    size = 0
    after: str | ItemPosition | None = None
    while True:
        page = await history.items(tenant, id, after=after, limit=_PAGE)
        entries += [(item.id, item.body) for item in page.data]
        size += sum(len(item.body) for item in page.data)
        if len(entries) > most or size * 2 > most_bytes:
            raise InvalidRequest(
                "The conversation is too long for a session.", param="conversation", code="session_too_large"
            )
        if not page.has_more:
            break
        after = page.data[-1].position or page.data[-1].id
    items = await services.running.executor.run(lambda _: restored(entries), size=size, caller=tenant)
    return KeptConversation(services, caller, id, items)
