"""A store in this process's memory (edge): for the library, the simulator and tests.

Nothing survives the process, and no other process sees it. Every call is done at once, on the event loop. Above: `server`.
Below: `tables`, which decides everything.
"""

from collections.abc import AsyncIterator, Sequence

from smg_core.clock import Clock
from smg_core.history.memory.tables import MemoryTables
from smg_core.history.store.base import (
    Chain,
    Exported,
    ItemPosition,
    Lease,
    Owned,
    Page,
    RecordPosition,
    StoredConversation,
    StoredEvent,
    StoredItem,
    StoredRecord,
    StoredResponse,
    StoreOperation,
)

__all__ = ["MemoryStore"]


class MemoryStore:
    """A `Store` and `Upkeep` in memory. The bounds are `MemoryTables`'s."""

    def __init__(
        self, clock: Clock, *, most_bytes: int, most_links: int, most_link_bytes: int, most_page_bytes: int
    ) -> None:
        self._now = clock.time
        self._tables = MemoryTables(most_bytes, most_links, most_link_bytes, most_page_bytes)

    def keeps(self, tenant: str, principal: str = "") -> bool:
        return True

    async def write(
        self, tenant: str, operations: Sequence[StoreOperation], *, lease: Lease | None = None, principal: str = ""
    ) -> None:
        self._tables.write(tenant, operations, lease, self._now())

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        return self._tables.response(tenant, id, self._now())

    async def chain(self, tenant: str, id: str) -> Chain | None:
        return self._tables.chain(tenant, id, self._now())

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
        return self._tables.holding(tenant, item_ids, self._now())

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return self._tables.conversation(tenant, id, self._now())

    async def items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | ItemPosition | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Page[StoredItem]:
        return self._tables.items(tenant, conversation_id, after, limit, newest_first, self._now())

    async def item(self, tenant: str, conversation_id: str, id: str) -> StoredItem | None:
        return self._tables.item(tenant, conversation_id, id, self._now())

    async def events(
        self, tenant: str, response_id: str, *, after: int = -1, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        return self._tables.events(tenant, response_id, after, limit, self._now())

    async def last_event(self, tenant: str, response_id: str) -> int:
        return self._tables.last_event(tenant, response_id, self._now())

    async def record(self, tenant: str, kind: str, id: str) -> StoredRecord | None:
        return self._tables.record(tenant, kind, id, self._now())

    async def records(
        self,
        tenant: str,
        kind: str,
        *,
        after: str | RecordPosition | None = None,
        limit: int = 100,
        newest_first: bool = True,
    ) -> Page[StoredRecord]:
        return self._tables.records(tenant, kind, after, limit, newest_first, self._now())

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        return self._tables.acquire(tenant, kind, id, owner, seconds, self._now())

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        return self._tables.renew(tenant, lease, seconds, self._now())

    async def release(self, tenant: str, lease: Lease) -> None:
        self._tables.release(tenant, lease, self._now())

    async def export(self, tenant: str) -> AsyncIterator[Exported]:
        for each in self._tables.export(tenant, self._now()):
            yield each

    async def erase(self, tenant: str) -> int:
        return self._tables.erase(tenant, self._now())

    async def abandoned(self, kind: str, limit: int = 100) -> tuple[Owned, ...]:
        return self._tables.abandoned(kind, limit, self._now())

    async def sweep(self, limit: int = 1000) -> int:
        return self._tables.sweep(limit, self._now())

    async def close(self) -> None:
        """Does nothing: a store in memory has nothing to close."""
