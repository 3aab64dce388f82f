"""A store that is opened when it is first used (edge): a gateway that keeps nothing loads no library of a database.

Decides when: at the first call of any method, once for all that come meanwhile. A failure is that of each caller, and the next
one tries again. Above: `opening`. Below: the store that it opens.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from smg_core.errors import StoreFailed
from smg_core.history.guard import Backend
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
from smg_core.settings import ConfigError

__all__ = ["DeferredStore"]


class DeferredStore:
    """A `Store` and `Upkeep` that `open_backend` opens at the first use. `keeps` asks for no use: what is opened keeps things of
    every tenant."""

    def __init__(self, open_backend: Callable[[], Awaitable[Backend]]) -> None:
        self._open_backend = open_backend
        self._opening: asyncio.Task[Backend] | None = None
        self._backend: Backend | None = None
        self._listeners: list[Callable[[Backend], object]] = []
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether it was opened."""
        return self._backend is not None

    def when_open(self, tell: Callable[[Backend], object]) -> None:
        """Call `tell` with the store once it is open."""
        self._listeners.append(tell)

    async def opened(self) -> Backend:
        """The store, opened if it is not yet. Raises StoreFailed."""
        if self._backend is not None:
            return self._backend
        if self._closed:
            raise _closed()
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="open the history")
            self._opening.add_done_callback(_seen)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except StoreFailed as error:  # one of its own for each that waits
            raise StoreFailed(
                error.reason, error.detail or "", outside_text=error.outside_text, retry_after=error.retry_after
            ) from error
        except asyncio.CancelledError:
            if opening.cancelled() and not _is_cancelled():
                raise _closed() from None
            raise

    async def _open(self) -> Backend:
        try:
            backend = await self._open_backend()
        except (ConfigError, ImportError) as error:  # it was checked at the start: something has changed since
            raise StoreFailed("failed", f"opening the history: {error}") from error
        finally:
            self._opening = None
        self._backend = backend
        for tell in self._listeners:
            tell(backend)
        return backend

    async def close(self) -> None:
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._backend is not None:
            await self._backend.close()

    # ------------------------------------------------------------------------------------------------ what a store does

    def keeps(self, tenant: str, principal: str = "") -> bool:
        return True

    async def write(
        self, tenant: str, operations: Sequence[StoreOperation], *, lease: Lease | None = None, principal: str = ""
    ) -> None:
        await (await self.opened()).write(tenant, operations, lease=lease, principal=principal)

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        return await (await self.opened()).response(tenant, id)

    async def chain(self, tenant: str, id: str) -> Chain | None:
        return await (await self.opened()).chain(tenant, id)

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
        return await (await self.opened()).holding(tenant, item_ids)

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return await (await self.opened()).conversation(tenant, id)

    async def items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | ItemPosition | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Page[StoredItem]:
        backend = await self.opened()
        return await backend.items(tenant, conversation_id, after=after, limit=limit, newest_first=newest_first)

    async def item(self, tenant: str, conversation_id: str, id: str) -> StoredItem | None:
        return await (await self.opened()).item(tenant, conversation_id, id)

    async def events(
        self, tenant: str, response_id: str, *, after: int = -1, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        return await (await self.opened()).events(tenant, response_id, after=after, limit=limit)

    async def last_event(self, tenant: str, response_id: str) -> int:
        return await (await self.opened()).last_event(tenant, response_id)

    async def record(self, tenant: str, kind: str, id: str) -> StoredRecord | None:
        return await (await self.opened()).record(tenant, kind, id)

    async def records(
        self,
        tenant: str,
        kind: str,
        *,
        after: str | RecordPosition | None = None,
        limit: int = 100,
        newest_first: bool = True,
    ) -> Page[StoredRecord]:
        return await (await self.opened()).records(tenant, kind, after=after, limit=limit, newest_first=newest_first)

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        return await (await self.opened()).acquire(tenant, kind, id, owner, seconds)

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        return await (await self.opened()).renew(tenant, lease, seconds)

    async def release(self, tenant: str, lease: Lease) -> None:
        await (await self.opened()).release(tenant, lease)

    async def export(self, tenant: str) -> AsyncIterator[Exported]:
        async for each in (await self.opened()).export(tenant):
            yield each

    async def erase(self, tenant: str) -> int:
        return await (await self.opened()).erase(tenant)

    async def abandoned(self, kind: str, limit: int = 100) -> tuple[Owned, ...]:
        return await (await self.opened()).abandoned(kind, limit)

    async def sweep(self, limit: int = 1000) -> int:
        return await (await self.opened()).sweep(limit)


def _closed() -> StoreFailed:
    return StoreFailed("unreachable", "the history was closed")


def _is_cancelled() -> bool:
    """Whether the task that runs now is cancelled itself, and not what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _seen(task: "asyncio.Task[Backend]") -> None:
    """Take note of a failure that nobody waits for any more: who asks next meets it."""
    if not task.cancelled():
        task.exception()
