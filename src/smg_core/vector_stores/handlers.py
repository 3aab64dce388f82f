"""The handlers of vector stores: made, listed, read, changed, deleted, searched (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist. Above: `work`. Below: the records,
searches, the queue.
"""

from collections.abc import Awaitable, Callable

from msgspec import UNSET
from msgspec.structs import replace

from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange
from smg_core.json_types import JsonObject
from smg_core.retrieval.searching import Found
from smg_core.retrieval.words import rewritten
from smg_core.serving.json_handler import decoded_body, json_handler
from smg_core.stored.answers import StoredHandlers
from smg_core.vector_stores.adding import FileAdding
from smg_core.vector_stores.indexing import IndexRooms
from smg_core.vector_stores.place import check_stores
from smg_core.vector_stores.queue import IndexQueue
from smg_core.vector_stores.records import KeptStore, page_object, store_object
from smg_core.vector_stores.searcher import StoreSearcher
from smg_core.vector_stores.types import (
    StoreChangeBody,
    read_change,
    read_list_query,
    read_search,
    read_store,
    store_files,
)
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_body

__all__ = ["StoreHandlers", "VectorStoreBase"]

_HOW = b"x-smg-search"
"""The header that says how a store was searched."""


class VectorStoreBase(StoredHandlers):
    """What the handlers of stores and of their files have in common."""

    def __init__(self, rooms: IndexRooms) -> None:
        super().__init__(rooms.services)
        self._rooms, self._kept = rooms, rooms.kept

    def _reading(self, answer: Callable[[Exchange, Incoming], Awaitable[JsonObject]]) -> Handler:
        """A handler of requests with a JSON body, of which `answer` makes the answer's."""

        async def handle(exchange: Exchange) -> None:
            async def made(incoming: Incoming, located: list[Locate]) -> bytes:
                check_stores(self._services)
                return encode_body(await answer(exchange, incoming))

            await json_handler(self._services, "req_", openai_error, made)(exchange)

        return handle

    def _store_id(self, exchange: Exchange) -> str:
        return exchange.path_values["id"]


class StoreHandlers(VectorStoreBase):
    """The handlers."""

    def __init__(self, rooms: IndexRooms, queue: IndexQueue, searcher: StoreSearcher, adding: FileAdding) -> None:
        super().__init__(rooms)
        self._queue, self._searcher, self._adding = queue, searcher, adding
        self.create, self.update = self._reading(self._create), self._reading(self._update)
        self.search = self._reading(self._search)

    async def _create(self, exchange: Exchange, incoming: Incoming) -> JsonObject:
        """POST /v1/vector_stores"""
        services, caller = self._services, incoming.caller
        wire = await decoded_body(services, incoming, lambda each: read_store(each.body or b"{}", each.limits))
        files = store_files(wire)
        await self._adding.check(caller, files)
        now, model = services.clock.time(), services.live.config.vector_stores.model
        store = KeptStore(
            id=services.ids("vs_"),
            created_at=now,
            last_active_at=now,
            name=wire.name or "",
            description=wire.description,
            metadata=wire.metadata,
            days=None if wire.expires_after is None else wire.expires_after.days,
            model=model,
            folder=await self._rooms.indexes.mark(vectors=bool(model)),
        )
        await self._kept.create(caller, store)
        if files:
            await self._adding.add(caller, store.id, files)
            store, _ = await self._kept.find(caller.tenant, store.id)
        return store_object(store, now)

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/vector_stores"""
        exchange.take_id(self._services.ids, "req_")
        page = await self._kept.page(exchange.caller.tenant, read_list_query(exchange.query))
        now = self._services.clock.time()
        await self.answer_long(
            exchange, page.size, lambda: page_object([store_object(each, now) for each in page.data], page.has_more)
        )

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/vector_stores/{id}"""
        exchange.take_id(self._services.ids, "req_")
        store, _ = await self._kept.find(exchange.caller.tenant, self._store_id(exchange))
        await self.answer(exchange, store_object(store, self._services.clock.time()))

    async def _update(self, exchange: Exchange, incoming: Incoming) -> JsonObject:
        """POST /v1/vector_stores/{id}"""
        wire, now = read_change(incoming.body, incoming.limits), self._services.clock.time()
        changed = await self._kept.update(
            incoming.caller, self._store_id(exchange), lambda store: _changed(store, wire, now), usable=True
        )
        return store_object(changed, now)

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/vector_stores/{id}"""
        exchange.take_id(self._services.ids, "req_")
        id = self._store_id(exchange)
        await self._kept.delete(exchange.caller, id)
        self._queue.added()
        await self.answer(exchange, {"id": id, "object": "vector_store.deleted", "deleted": True})

    async def _search(self, exchange: Exchange, incoming: Incoming) -> JsonObject:
        """POST /v1/vector_stores/{id}/search"""
        asked = await decoded_body(self._services, incoming, lambda each: read_search(each.body, each.limits))
        queries = [rewritten(each) for each in asked.queries] if asked.rewrite else asked.queries
        result = await self._searcher.search(
            incoming.caller,
            [self._store_id(exchange)],
            queries,
            max_results=asked.most,
            filters=asked.filters,
            ranking=asked.ranking,
        )
        how = f"{result.how}; reason={result.reason}" if result.reason else result.how
        exchange.always.append((_HOW, how.encode()))
        return {
            "object": "vector_store.search_results.page",
            "search_query": list(queries),
            "data": [_result_object(each) for each in result.found],
            "has_more": False,
            "next_page": None,
        }


def _changed(store: KeptStore, wire: StoreChangeBody, now: float) -> KeptStore:
    """The store as a request has it changed; the clock of its expiry begins anew."""
    if wire.name is not UNSET:
        store = replace(store, name=wire.name or "")
    if wire.metadata is not UNSET:
        store = replace(store, metadata=wire.metadata)
    if wire.expires_after is not UNSET:
        store = replace(store, days=None if wire.expires_after is None else wire.expires_after.days)
    return replace(store, last_active_at=max(now, store.last_active_at))


def _result_object(found: Found) -> JsonObject:
    return {
        "file_id": found.file_id,
        "filename": found.filename,
        "score": found.score,
        "attributes": dict(found.attributes),
        "content": [{"type": "text", "text": each.text} for each in found.texts],
    }
