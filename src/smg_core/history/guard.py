"""The store that the gateway uses (edge): a backend of any kind, behind the rules that hold for all of them.

Every call passes here: hooks are asked, names are checked, tenants for which nothing is kept are refused, times are filled in,
and texts are encrypted and decrypted; large ones in a thread. Above: `opening`, `server`. Below: `rules`, `hooks`, and a store.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import attrs

from smg_core.clock import Clock
from smg_core.history.hooks import Hook, StoreCall
from smg_core.history.rules import (
    Clear,
    RestSeal,
    Rules,
    is_name,
    open_conversation,
    open_event,
    open_exported,
    open_item,
    open_link,
    open_record,
    open_response,
    sealed,
)
from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    Chain,
    Exported,
    ItemPosition,
    Lease,
    NotKept,
    Owned,
    Page,
    PutRecord,
    PutResponse,
    RecordPosition,
    Store,
    StoredConversation,
    StoredEvent,
    StoredItem,
    StoredRecord,
    StoredResponse,
    StoreOperation,
    Upkeep,
)
from smg_core.hooks import Observer, SilentObserver, StoreCalled

__all__ = ["Backend", "GuardedStore"]

T = TypeVar("T")
_SILENT = SilentObserver()
_LARGE = 128 * 1024  # bytes whose encryption may take longer than an event loop should


class Backend(Store, Upkeep, Protocol):
    """A store without rules: in memory, in SQL tables or in Redis."""


class GuardedStore:
    """A `Store` and `Upkeep` over a `backend`, by `rules`. `seal` None keeps texts in the clear. `observer` is told of every
    call of the backend, and how long it took. `is_open` False where the backend is one that is opened later (`use`).
    `on_erased`, where it is set, erases what others keep of a tenant."""

    def __init__(
        self,
        backend: Backend,
        rules: Rules,
        clock: Clock,
        *,
        seal: RestSeal | None = None,
        hooks: Sequence[Hook] = (),
        observer: Observer = _SILENT,
        is_open: bool = True,
    ) -> None:
        self._in, self._rules, self._now = backend, rules, clock.time
        self._clock, self._observer = clock, observer
        self.on_erased: Callable[[str], Awaitable[None]] | None = None
        self._sealed, self._seal, self._hooks = seal is not None, seal or Clear(), tuple(hooks)
        self._open = asyncio.Event()
        if is_open:
            self._open.set()

    def use(self, backend: Backend) -> None:
        """Go on with `backend`, which has been opened by the one before."""
        self._in = backend
        self._open.set()

    @property
    def is_open(self) -> bool:
        """Whether the backend is open."""
        return self._open.is_set()

    async def until_open(self) -> None:
        """Return once the backend is open. What looks into the history at intervals begins then: before, there is nothing in it
        for it to find, and it would open it."""
        await self._open.wait()

    def keeps(self, tenant: str, principal: str = "") -> bool:
        return self._rules.keeps(tenant, principal) and self._in.keeps(tenant, principal)

    # ------------------------------------------------------------------------------------------------------------- hooks

    async def _before(self, method: str, tenant: str, arguments: dict[str, Any], principal: str = "") -> StoreCall:
        """The call with the arguments that the hooks have changed."""
        call = StoreCall(method, tenant, principal, arguments)
        for hook in self._hooks:
            changed = await hook.before(call)
            if changed is not None:
                call = attrs.evolve(call, arguments={**call.arguments, **changed})
        return call

    async def _after(self, call: StoreCall, result: T) -> T:
        for hook in self._hooks:
            await hook.after(call, result)
        return result

    async def _around(
        self, method: str, tenant: str, arguments: dict[str, Any], do: Callable[..., Any], absent: Any = None
    ) -> Any:
        """Ask the hooks, do it with the arguments that they leave, and tell them. `absent` is the answer where a name is none."""
        call = await self._before(method, tenant, arguments)
        named = [call.arguments.get(name) for name in ("id", "conversation_id", "response_id", "kind", "after")]
        names = [each.id if isinstance(each, RecordPosition) else each for each in named]
        if not _is_tenant(tenant) or any(isinstance(name, str) and not is_name(name) for name in names):
            return await self._after(call, absent)
        return await self._after(call, await self._timed(method, do(tenant, **call.arguments)))

    async def _timed(self, method: str, call: Awaitable[T]) -> T:
        """The result of a call of the backend; tells the observer how it ended."""
        began, outcome = self._clock.monotonic(), "cancelled"
        try:
            result = await call
        except Exception as error:  # whatever a backend's driver raises is counted by its kind, and goes on
            outcome = type(error).__name__
            raise
        else:
            outcome = "ok"
            return result
        finally:
            self._observer.report(StoreCalled(method, outcome, self._clock.monotonic() - began))

    async def _opened(self, size: int, do: Callable[[], T]) -> T:
        """The result of `do` for texts of that many bytes: in a thread if they are encrypted and large."""
        return await asyncio.to_thread(do) if self._sealed and size > _LARGE else do()

    # ------------------------------------------------------------------------------------------------------------ writing

    async def write(
        self, tenant: str, operations: Sequence[StoreOperation], *, lease: Lease | None = None, principal: str = ""
    ) -> None:
        if not self.keeps(tenant, principal):
            raise NotKept
        call = await self._before("write", tenant, {"operations": tuple(operations), "lease": lease}, principal)
        given: Any = call.arguments["operations"]
        timed = self._rules.checked(tenant, given, self._now())
        if self._sealed:
            size = sum(_size(each) for each in timed)
            timed = await self._opened(size, lambda: [sealed(self._seal, tenant, each) for each in timed])
        held: Any = call.arguments["lease"]
        await self._timed("write", self._in.write(tenant, timed, lease=held, principal=principal))
        await self._after(call, None)

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        if not self.keeps(tenant):
            raise NotKept
        arguments = {"kind": kind, "id": id, "owner": owner, "seconds": seconds}
        found: Lease | None = await self._around("acquire", tenant, arguments, self._in.acquire)
        return found

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        arguments = {"lease": lease, "seconds": seconds}
        found: Lease = await self._around("renew", tenant, arguments, self._in.renew)
        return found

    async def release(self, tenant: str, lease: Lease) -> None:
        await self._around("release", tenant, {"lease": lease}, self._in.release)

    async def erase(self, tenant: str) -> int:
        found: int = await self._around("erase", tenant, {}, self._in.erase, 0)
        if self.on_erased is not None:
            await self.on_erased(tenant)
        return found

    # ------------------------------------------------------------------------------------------------------------ reading

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        async def read(tenant: str, id: str) -> StoredResponse | None:
            found = await self._in.response(tenant, id)
            return None if found is None else await self._opened_response(tenant, found)

        answer: StoredResponse | None = await self._around("response", tenant, {"id": id}, read)
        return answer

    async def _opened_response(self, tenant: str, found: StoredResponse) -> StoredResponse:
        size = len(found.body) + len(found.input) + len(found.output)
        return await self._opened(size, lambda: open_response(self._seal, tenant, found))

    async def chain(self, tenant: str, id: str) -> Chain | None:
        async def read(tenant: str, id: str) -> Chain | None:
            found = await self._in.chain(tenant, id)
            if found is None or not self._sealed:
                return found
            size = sum(len(link.input) + len(link.output) for link in found.links)
            links = await self._opened(size, lambda: tuple(open_link(self._seal, tenant, link) for link in found.links))
            return Chain(links, found.missing)

        answer: Chain | None = await self._around("chain", tenant, {"id": id}, read)
        return answer

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
        async def read(tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
            found = await self._in.holding(tenant, [each for each in item_ids if is_name(each)])
            return tuple([await self._opened_response(tenant, each) for each in found])

        answer: tuple[StoredResponse, ...] = await self._around("holding", tenant, {"item_ids": item_ids}, read, ())
        return answer

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        async def read(tenant: str, id: str) -> StoredConversation | None:
            found = await self._in.conversation(tenant, id)
            return None if found is None else open_conversation(self._seal, tenant, found)

        answer: StoredConversation | None = await self._around("conversation", tenant, {"id": id}, read)
        return answer

    async def items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | ItemPosition | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Page[StoredItem]:
        async def read(tenant: str, conversation_id: str, **page: Any) -> Page[StoredItem]:
            found = await self._in.items(tenant, conversation_id, **page)
            size = sum(len(item.body) for item in found.data)
            data = await self._opened(
                size, lambda: tuple(open_item(self._seal, tenant, conversation_id, item) for item in found.data)
            )
            return Page(data, found.has_more)

        arguments = {"conversation_id": conversation_id, "after": after, "limit": limit, "newest_first": newest_first}
        answer: Page[StoredItem] = await self._around("items", tenant, arguments, read, Page((), False))
        return answer

    async def item(self, tenant: str, conversation_id: str, id: str) -> StoredItem | None:
        async def read(tenant: str, conversation_id: str, id: str) -> StoredItem | None:
            found = await self._in.item(tenant, conversation_id, id)
            if found is None:
                return None
            return await self._opened(len(found.body), lambda: open_item(self._seal, tenant, conversation_id, found))

        arguments = {"conversation_id": conversation_id, "id": id}
        answer: StoredItem | None = await self._around("item", tenant, arguments, read)
        return answer

    async def events(
        self, tenant: str, response_id: str, *, after: int = -1, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        async def read(tenant: str, response_id: str, after: int, limit: int) -> tuple[StoredEvent, ...]:
            found = await self._in.events(tenant, response_id, after=after, limit=limit)
            size = sum(len(event.data) for event in found)
            return await self._opened(
                size, lambda: tuple(open_event(self._seal, tenant, response_id, event) for event in found)
            )

        arguments = {"response_id": response_id, "after": after, "limit": limit}
        answer: tuple[StoredEvent, ...] = await self._around("events", tenant, arguments, read, ())
        return answer

    async def last_event(self, tenant: str, response_id: str) -> int:
        arguments = {"response_id": response_id}
        found: int = await self._around("last_event", tenant, arguments, self._in.last_event, -1)
        return found

    async def record(self, tenant: str, kind: str, id: str) -> StoredRecord | None:
        async def read(tenant: str, kind: str, id: str) -> StoredRecord | None:
            found = await self._in.record(tenant, kind, id)
            if found is None:
                return None
            return await self._opened(len(found.body), lambda: open_record(self._seal, tenant, found))

        answer: StoredRecord | None = await self._around("record", tenant, {"kind": kind, "id": id}, read)
        return answer

    async def records(
        self,
        tenant: str,
        kind: str,
        *,
        after: str | RecordPosition | None = None,
        limit: int = 100,
        newest_first: bool = True,
    ) -> Page[StoredRecord]:
        async def read(tenant: str, kind: str, **page: Any) -> Page[StoredRecord]:
            found = await self._in.records(tenant, kind, **page)
            size = sum(len(record.body) for record in found.data)
            data = await self._opened(
                size, lambda: tuple(open_record(self._seal, tenant, record) for record in found.data)
            )
            return Page(data, found.has_more)

        arguments = {"kind": kind, "after": after, "limit": limit, "newest_first": newest_first}
        answer: Page[StoredRecord] = await self._around("records", tenant, arguments, read, Page((), False))
        return answer

    async def export(self, tenant: str) -> AsyncIterator[Exported]:
        call = await self._before("export", tenant, {})
        if _is_tenant(tenant):
            async for each in self._in.export(tenant):
                size = sum(map(len, each.parts.values()))
                yield await self._opened(size, partial(open_exported, self._seal, tenant, each))
        await self._after(call, None)

    # ------------------------------------------------------------------------------------------------- for all tenants

    async def abandoned(self, kind: str, limit: int = 100) -> tuple[Owned, ...]:
        return await self._timed("abandoned", self._in.abandoned(kind, limit))

    async def sweep(self, limit: int = 1000) -> int:
        return await self._timed("sweep", self._in.sweep(limit))

    async def close(self) -> None:
        await self._in.close()


def _is_tenant(tenant: str) -> bool:
    return not tenant or is_name(tenant)


def _size(operation: StoreOperation) -> int:
    """Bytes of the texts that an operation brings."""
    match operation:
        case PutResponse(response):
            return len(response.body) + len(response.input) + len(response.output)
        case AppendItems(items=items):
            return sum(len(item.body) for item in items)
        case AppendEvents(events=events):
            return sum(len(event.data) for event in events)
        case PutRecord(record):
            return len(record.body)
    return 0
