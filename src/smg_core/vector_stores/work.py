"""Vector stores of one gateway, loaded when one is first used (edge): by a request, or where there are indexes.

Decides when. Above: `routes`, which has the table of handlers by name, and tools that search. Below: the handlers, the queue,
searches.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING

import attrs

from smg_core.errors import SmgError
from smg_core.files.work import FileWork
from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange
from smg_core.request import Caller
from smg_core.serving.services import Services

if TYPE_CHECKING:
    from smg_core.files.work import FileRooms
    from smg_core.models.document_loading import DocumentReading
    from smg_core.retrieval.filters import FileFilter
    from smg_core.retrieval.indexes import Indexes
    from smg_core.retrieval.searching import Ranking, StoreFindings
    from smg_core.vector_stores.queue import IndexQueue
    from smg_core.vector_stores.searcher import StoreSearcher

__all__ = ["VectorStoreWork"]

log = logging.getLogger("smg.server")

_LOADED = ("handlers", "file_handlers", "queue", "searcher")
_THREADS = 4  # that look into indexes and write them
_LOOK_S = 600.0  # how often it is looked whether there are indexes, where sweeps are off


@attrs.frozen(eq=False)
class _Rooms:
    """What there is once vector stores are used."""

    queue: "IndexQueue"
    searcher: "StoreSearcher"
    indexes: "Indexes"
    documents: "DocumentReading | None"
    pool: ThreadPoolExecutor
    handlers: Mapping[str, Handler]


class VectorStoreWork:
    """The vector stores of one gateway. It fulfils `retrieval.searching.StoreSearch`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rooms: _Rooms | None = None
        self._used = asyncio.Event()

    @classmethod
    def of(cls, services: Services) -> "VectorStoreWork":
        """The one of a gateway."""
        return services.side_tasks.one_of(cls, lambda: cls(services))

    # ------------------------------------------------------------------------------------------------------------ running

    async def run(self) -> None:
        """Index files that wait, and sweep at intervals, once there are vector stores; until this is cancelled."""
        seconds = self._services.live.config.files.sweep_s or _LOOK_S
        self._used = asyncio.Event()  # an event is its loop's, and a gateway may be started again in another one
        if self._rooms is not None:
            self._used.set()
        queue: asyncio.Task[None] | None = None
        try:
            await self._services.running.history.until_open()
            while True:
                if queue is None and (self._used.is_set() or await self._may_hold()):
                    queue = asyncio.create_task((await self._loaded()).queue.run())
                    queue.add_done_callback(lambda task: self._services.side_tasks.note_end("indexing of files", task))
                if queue is not None:
                    await self._sweep()
                    await asyncio.sleep(seconds)
                else:
                    await self._waited(seconds)
        finally:
            if queue is not None:
                queue.cancel()
                await asyncio.gather(queue, return_exceptions=True)
            await self._close()

    async def _waited(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._used.wait()
        except TimeoutError:
            return

    async def _may_hold(self) -> bool:
        """Whether there may be stores: there is something that indexes are in."""
        from smg_core.vector_stores.opening import may_hold_indexes

        try:
            return await may_hold_indexes(self._services)
        except SmgError as error:
            log.warning("whether there are vector stores is looked for later: %s", error)
            return False

    async def _sweep(self) -> None:
        if not self._services.live.config.files.sweep_s:
            return
        try:
            await (await self._loaded()).queue.sweep()
        except (SmgError, OSError) as error:
            log.warning("indexes of vector stores that are gone stay for now: %s", error)

    async def _close(self) -> None:
        rooms, self._rooms = self._rooms, None
        if rooms is not None:
            await rooms.indexes.close()
            if rooms.documents is not None:
                await rooms.documents.close()
            rooms.pool.shutdown(wait=False)

    # ---------------------------------------------------------------------------------------------------------- asked for

    def handler(self, name: str) -> Handler:
        """The handler of this name, which is made when it is first called."""

        async def answer(exchange: Exchange) -> None:
            rooms = await self._loaded()
            _check(self._services)
            self._used.set()
            await rooms.handlers[name](exchange)

        return answer

    async def search(
        self,
        caller: Caller,
        store_ids: Sequence[str],
        queries: Sequence[str],
        *,
        max_results: int = 10,
        filters: "FileFilter | None" = None,
        ranking: "Ranking | None" = None,
    ) -> "StoreFindings":
        """`StoreSearch.search`."""
        rooms = await self._loaded()
        self._used.set()
        return await rooms.searcher.search(
            caller, store_ids, queries, max_results=max_results, filters=filters, ranking=ranking
        )

    async def _loaded(self) -> _Rooms:
        files = await FileWork.of(self._services).rooms()
        if self._rooms is None:
            await asyncio.to_thread(_load)
        if self._rooms is None:  # nobody else has made them meanwhile
            self._rooms = self._make(files)
        return self._rooms

    def _make(self, files: "FileRooms") -> _Rooms:
        from smg_core.models.document_loading import document_reading
        from smg_core.observability.repeats import Repeats
        from smg_core.vector_stores.adding import FileAdding
        from smg_core.vector_stores.embedding import TextEmbedding
        from smg_core.vector_stores.file_handlers import StoreFileHandlers
        from smg_core.vector_stores.handlers import StoreHandlers
        from smg_core.vector_stores.indexing import IndexRooms
        from smg_core.vector_stores.kept import KeptStores
        from smg_core.vector_stores.opening import opened_indexes
        from smg_core.vector_stores.queue import IndexQueue
        from smg_core.vector_stores.searcher import StoreSearcher

        services, settings = self._services, self._services.live.config.observability
        pool = ThreadPoolExecutor(_THREADS, "smg-search")
        indexes = opened_indexes(services, pool)
        documents = document_reading(services.live.config, pool)
        rooms = IndexRooms(
            *(services, KeptStores(services), files.kept, indexes, TextEmbedding(services), documents, pool),
            Repeats(settings.repeat_s, settings.repeats),
        )
        queue = IndexQueue(rooms)
        searcher, adding = StoreSearcher(rooms), FileAdding(rooms, queue)
        stores, of_files = StoreHandlers(rooms, queue, searcher, adding), StoreFileHandlers(rooms, queue, adding)
        handlers = {
            "createVectorStore": stores.create,
            "listVectorStores": stores.list_page,
            "getVectorStore": stores.retrieve,
            "modifyVectorStore": stores.update,
            "deleteVectorStore": stores.delete,
            "searchVectorStore": stores.search,
            "createVectorStoreFile": of_files.create,
            "listVectorStoreFiles": of_files.list_page,
            "getVectorStoreFile": of_files.retrieve,
            "updateVectorStoreFile": of_files.update,
            "deleteVectorStoreFile": of_files.delete,
            "retrieveVectorStoreFileContent": of_files.content,
            "createVectorStoreFileBatch": of_files.create_batch,
            "getVectorStoreFileBatch": of_files.retrieve_batch,
            "cancelVectorStoreFileBatch": of_files.cancel_batch,
            "listFilesInVectorStoreBatch": of_files.batch_files,
        }
        return _Rooms(queue, searcher, indexes, documents, pool, handlers)


def _check(services: Services) -> None:
    from smg_core.vector_stores.place import check_stores

    check_stores(services)


def _load() -> None:
    """Load the modules, which takes some 20 ms: not in the event loop."""
    for each in _LOADED:
        import_module(f"smg_core.vector_stores.{each}")
