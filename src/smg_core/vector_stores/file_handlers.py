"""The handlers of the files of vector stores, and of batches of them (edge).

Above: `work`. Below: the records, the indexes, the queue.
"""

from msgspec.structs import replace

from smg_core.errors import Conflict, InvalidRequest
from smg_core.http.exchange import Exchange
from smg_core.json_types import JsonObject
from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.indexes import IndexName
from smg_core.serving.json_handler import decoded_body
from smg_core.vector_stores.adding import FileAdding
from smg_core.vector_stores.handlers import VectorStoreBase
from smg_core.vector_stores.indexing import IndexRooms
from smg_core.vector_stores.kept import FileChange
from smg_core.vector_stores.queue import IndexQueue
from smg_core.vector_stores.records import (
    KeptFileBatch,
    KeptStoreFile,
    file_batch_object,
    file_batch_record,
    page_object,
    store_file_object,
)
from smg_core.vector_stores.types import (
    ListQuery,
    batch_files,
    read_file_batch,
    read_file_change,
    read_list_query,
    read_store_file,
)
from smg_core.wire.base import Incoming

__all__ = ["StoreFileHandlers"]

_CANCELLED = 100  # files that are cancelled together


class StoreFileHandlers(VectorStoreBase):
    """The handlers."""

    def __init__(self, rooms: IndexRooms, queue: IndexQueue, adding: FileAdding) -> None:
        super().__init__(rooms)
        self._queue, self._adding = queue, adding
        self.create, self.update = self._reading(self._create), self._reading(self._update)
        self.create_batch = self._reading(self._create_batch)

    # -------------------------------------------------------------------------------------------------------------- files

    async def _create(self, exchange: Exchange, incoming: Incoming) -> JsonObject:
        """POST /v1/vector_stores/{id}/files"""
        store = await self._kept.usable(incoming.caller.tenant, self._store_id(exchange))
        file = read_store_file(incoming.body, incoming.limits)
        await self._adding.check(incoming.caller, [file])
        (added,) = await self._adding.add(incoming.caller, store.id, [file])
        return store_file_object(store.id, added)

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/vector_stores/{id}/files"""
        exchange.take_id(self._services.ids, "req_")
        store, _ = await self._kept.find(exchange.caller.tenant, self._store_id(exchange))
        await self._page(exchange, store.id, "")

    async def _page(self, exchange: Exchange, store: str, batch: str) -> None:
        query = read_list_query(exchange.query, statuses=True)
        page = await self._kept.files(exchange.caller.tenant, store, query, batch)
        await self.answer_long(
            exchange,
            page.size,
            lambda: page_object([store_file_object(store, each) for each in page.data], page.has_more),
        )

    async def _found(self, exchange: Exchange) -> tuple[str, KeptStoreFile]:
        store, _ = await self._kept.find(exchange.caller.tenant, self._store_id(exchange))
        file, _ = await self._kept.file(exchange.caller.tenant, store.id, exchange.path_values["file_id"])
        return store.id, file

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/vector_stores/{id}/files/{file_id}"""
        exchange.take_id(self._services.ids, "req_")
        store, file = await self._found(exchange)
        await self.answer(exchange, store_file_object(store, file))

    async def _update(self, exchange: Exchange, incoming: Incoming) -> JsonObject:
        """POST /v1/vector_stores/{id}/files/{file_id}"""
        attributes = read_file_change(incoming.body, incoming.limits)
        store, file = await self._found(exchange)
        await self._kept.usable(incoming.caller.tenant, store)

        def changed(found: KeptStoreFile | None) -> KeptStoreFile | None:
            return None if found is None else replace(found, attributes=attributes)

        kept = (await self._kept.change(incoming.caller, store, {file.id: changed}))[file.id]
        await self._queue.do_now(incoming.caller.tenant, store, file.id)
        return store_file_object(store, kept or file)

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/vector_stores/{id}/files/{file_id}"""
        exchange.take_id(self._services.ids, "req_")
        store, file = await self._found(exchange)
        await self._kept.change(exchange.caller, store, {file.id: lambda _: None})
        await self._queue.do_now(exchange.caller.tenant, store, file.id)
        await self.answer(exchange, {"id": file.id, "object": "vector_store.file.deleted", "deleted": True})

    async def content(self, exchange: Exchange) -> None:
        """GET /v1/vector_stores/{id}/files/{file_id}/content"""
        exchange.take_id(self._services.ids, "req_")
        store, file = await self._found(exchange)
        kept_store, _ = await self._kept.find(exchange.caller.tenant, store)
        if file.status != "completed":
            raise Conflict(f"The file is {file.status}.", param="file_id")
        tenant, most = exchange.caller.tenant, self._services.live.config.limits.answer_bytes
        rooms = self._rooms
        of = IndexName(tenant, store)
        await rooms.indexes.check(of, kept_store.folder)
        chunks = await rooms.indexes.texts(of, file.id, most)
        if chunks is None:
            raise InvalidRequest(f"The text of this file has more than {most:,} bytes.", param="file_id")
        size = sum(len(each.text) for each in chunks)
        kept = await rooms.files.find(tenant, file.id)
        await self.answer_long(
            exchange,
            size,
            lambda: {
                "object": "vector_store.file_content.page",
                "file_id": file.id,
                "filename": kept.filename,
                "attributes": dict(file.attributes or {}),
                "data": [{"type": "text", "text": each} for each in _without_overlap(chunks)],
                "has_more": False,
                "next_page": None,
            },
        )

    # ------------------------------------------------------------------------------------------------------------ batches

    async def _create_batch(self, exchange: Exchange, incoming: Incoming) -> JsonObject:
        """POST /v1/vector_stores/{id}/file_batches"""
        services, caller = self._services, incoming.caller
        store = await self._kept.usable(caller.tenant, self._store_id(exchange))
        wire = await decoded_body(services, incoming, lambda each: read_file_batch(each.body, each.limits))
        files = batch_files(wire)
        await self._adding.check(caller, files)
        batch = KeptFileBatch(services.ids("vsfb_"), store.id, services.clock.time())
        await self._adding.add(caller, store.id, files, batch)
        kept, _ = await self._kept.batch(caller.tenant, store.id, batch.id)
        return file_batch_object(kept)

    async def _batch(self, exchange: Exchange) -> tuple[KeptFileBatch, int]:
        store, _ = await self._kept.find(exchange.caller.tenant, self._store_id(exchange))
        return await self._kept.batch(exchange.caller.tenant, store.id, exchange.path_values["batch_id"])

    async def retrieve_batch(self, exchange: Exchange) -> None:
        """GET /v1/vector_stores/{id}/file_batches/{batch_id}"""
        exchange.take_id(self._services.ids, "req_")
        batch, _ = await self._batch(exchange)
        await self.answer(exchange, file_batch_object(batch))

    async def batch_files(self, exchange: Exchange) -> None:
        """GET /v1/vector_stores/{id}/file_batches/{batch_id}/files"""
        exchange.take_id(self._services.ids, "req_")
        batch, _ = await self._batch(exchange)
        await self._page(exchange, batch.store, batch.id)

    async def cancel_batch(self, exchange: Exchange) -> None:
        """POST /v1/vector_stores/{id}/file_batches/{batch_id}/cancel"""
        exchange.take_id(self._services.ids, "req_")
        caller = exchange.caller
        batch, version = await self._batch(exchange)
        if not batch.is_cancelled and batch.counts.in_progress:
            marked = file_batch_record(replace(batch, is_cancelled=True), version)
            await self._services.running.history.write(caller.tenant, [marked], principal=caller.principal)
        while True:
            query = ListQuery(None, None, _CANCELLED, True, "in_progress")
            page = await self._kept.files(caller.tenant, batch.store, query, batch.id)
            if not page.data:
                break
            changes: dict[str, FileChange] = {each.id: _cancelled(each) for each in page.data}
            await self._kept.change(caller, batch.store, changes)
        self._queue.added()
        batch, _ = await self._batch(exchange)
        await self.answer(exchange, file_batch_object(batch))


def _cancelled(file: KeptStoreFile) -> FileChange:
    def change(found: KeptStoreFile | None) -> KeptStoreFile | None:
        if found is None or found.turn != file.turn or found.status != "in_progress":
            return found
        return replace(found, status="cancelled")

    return change


def _without_overlap(chunks: list[TextChunk]) -> list[str]:
    """The texts of chunks, each without what the one before has too."""
    found, reached = [], 0
    for each in chunks:
        text = each.text[max(0, reached - each.start) :]
        reached = max(reached, each.end)
        if text:
            found.append(text)
    return found
