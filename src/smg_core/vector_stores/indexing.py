"""One piece of work on a file of a vector store: the index is made to have what is kept (edge).

It is done by the process that holds its lease. A file that waits is read, cut, given vectors and put in; one that was taken away,
or failed, is taken out; one that is there has its attributes written. All of it can be done again from the beginning, so that
what a killed process leaves is done by the next. Above: the queue. Below: the records, the indexes, reading, embedding.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import attrs
import msgspec
from msgspec.structs import replace

from smg_core.errors import ModelNotFound, NotFound, RateLimited, SmgError
from smg_core.files.kept import KeptFiles
from smg_core.history.store.base import DeleteRecord, Lease, LeaseLost, StaleVersion
from smg_core.observability.repeats import Repeats
from smg_core.pipeline.prompt.documents import DocumentService
from smg_core.request import Caller
from smg_core.retrieval.chunking import Chunker, TextChunk
from smg_core.retrieval.indexes import Indexes, IndexFull, IndexName, VectorsDiffer, vectors_as_bytes
from smg_core.retrieval.searching import StoreUnknown
from smg_core.serving.services import Services
from smg_core.stored.bells import Key
from smg_core.vector_stores.embedding import TextEmbedding
from smg_core.vector_stores.kept import KeptStores
from smg_core.vector_stores.reading import NotIndexable, kept_text
from smg_core.vector_stores.records import INDEX_JOB, IndexFault, IndexJob, KeptStore, KeptStoreFile, store_file_kind

__all__ = ["IndexRooms", "IndexRun"]

T = TypeVar("T")

log = logging.getLogger("smg.server")

_AT_ONCE = 64  # chunks that are put in, and given vectors, together
_PIECE = 1 << 16  # characters that are cut at once


@attrs.frozen(eq=False)
class IndexRooms:
    """What indexing works with."""

    services: Services
    kept: KeptStores
    files: KeptFiles
    indexes: Indexes
    embedding: TextEmbedding
    documents: DocumentService | None
    pool: Executor
    repeats: Repeats

    async def work(self, work: Callable[[], T]) -> T:
        """Do this in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    def note_waiting(self, error: SmgError) -> None:
        """Tell the operator why files wait: once in a while, since all of them wait for the same."""
        if self.repeats.note(type(error).__name__, self.services.clock.monotonic()) is not None:
            log.warning("files of vector stores wait to be indexed: %s", error)


class IndexRun:
    """The work `key`, done under `lease`. A file whose work is `broken`, since it has met a fault before, fails."""

    def __init__(self, rooms: IndexRooms, key: Key, lease: Lease, *, broken: bool = False) -> None:
        self._rooms, self._key, self._lease, self._broken = rooms, key, lease, broken
        self._history = rooms.services.running.history
        self._tenant = key[0]

    async def work(self) -> bool:
        """Do it. True: it is over, or somebody else's. False: it cannot be done now."""
        task = asyncio.current_task()
        guard = asyncio.create_task(self._guard(task))
        try:
            return await self._work()
        except (LeaseLost, StaleVersion):
            return True
        finally:
            guard.cancel()
            await asyncio.gather(guard, return_exceptions=True)
            with contextlib.suppress(SmgError):
                await self._history.release(self._tenant, self._lease)

    async def _guard(self, task: "asyncio.Task[object] | None") -> None:
        """Keep the lease; the work is given up where it is lost."""
        seconds = self._rooms.services.live.config.batches.lease_s
        failed = 0
        while failed < 3:
            await asyncio.sleep(seconds / 4)
            try:
                self._lease = await self._history.renew(self._tenant, self._lease, seconds)
                failed = 0
            except LeaseLost:
                break
            except SmgError:
                failed += 1
        if task is not None:
            task.cancel()

    async def _work(self) -> bool:
        record = await self._history.record(self._tenant, INDEX_JOB, self._key[1])
        if record is None:
            return True
        job = msgspec.json.decode(record.body, type=IndexJob)
        caller = Caller(self._tenant, job.principal)
        done = [DeleteRecord(INDEX_JOB, self._key[1], record.version)]
        indexes, of = self._rooms.indexes, IndexName(self._tenant, job.store)
        try:
            store, _ = await self._rooms.kept.find(self._tenant, job.store)
            file = await self._file(job)
            if file is not None and file.status == "in_progress":
                return await self._index(caller, store, file, job, done)
        except StoreUnknown:  # it is deleted, or was meanwhile
            await indexes.drop(of)
            await self._rooms.kept.forget_files(self._tenant, job.store)
            await self._history.write(self._tenant, done, lease=self._lease)
            return True
        if file is not None and file.status == "completed":
            await indexes.set_attributes(of, job.file, file.attributes or {})
        else:
            await indexes.remove(of, job.file)
        await self._history.write(self._tenant, done, lease=self._lease)
        return True

    async def _file(self, job: IndexJob) -> KeptStoreFile | None:
        record = await self._history.record(self._tenant, store_file_kind(job.store), job.file)
        return None if record is None else msgspec.json.decode(record.body, type=KeptStoreFile)

    async def _index(
        self, caller: Caller, store: KeptStore, file: KeptStoreFile, job: IndexJob, done: list[DeleteRecord]
    ) -> bool:
        """Put a file in. False where that has to wait. Raises StoreUnknown."""
        fault: IndexFault | None = None
        size = 0
        try:
            size = await self._put_in(caller, store, file)
        except NotIndexable as error:
            fault = error.fault
        except IndexFull:
            most = self._rooms.services.live.config.vector_stores.chunks
            fault = IndexFault("invalid_file", f"The vector store would have more than {most:,} chunks.")
        except VectorsDiffer as error:
            fault = IndexFault("server_error", f"The model {store.model} makes other vectors than before: {error}.")
        except SmgError as error:
            await self._rooms.kept.find(self._tenant, store.id)
            if self._may_wait(error, job):
                self._rooms.note_waiting(error)
                return False
            fault = IndexFault("server_error", error.message)

        def ended(found: KeptStoreFile | None) -> KeptStoreFile | None:
            if found is None or found.status != "in_progress" or found.turn != file.turn:
                return found
            status = "failed" if fault is not None else "completed"
            return replace(found, status=status, fault=fault, usage_bytes=size)

        kept = await self._rooms.kept.change(
            caller,
            store.id,
            {file.id: ended},
            with_job=False,
            lease=self._lease,
            also=() if fault is not None else done,
        )
        now = kept[file.id]
        if fault is not None or now is None or now.status != "completed":
            await self._rooms.indexes.remove(IndexName(self._tenant, store.id), file.id)
            await self._history.write(self._tenant, done, lease=self._lease)
        return True

    def _may_wait(self, error: SmgError, job: IndexJob) -> bool:
        """Whether a file may be indexed later that cannot be now: engines are not there, a limit is reached, the disk is full."""
        services = self._rooms.services
        passing = error.status >= 500 or isinstance(error, RateLimited | ModelNotFound)
        return passing and services.clock.time() - job.since < services.live.config.responses.pending_s

    async def _put_in(self, caller: Caller, store: KeptStore, file: KeptStoreFile) -> int:
        """Read, cut, and put in; returns the bytes that it takes. Raises NotIndexable, IndexFull, SmgError."""
        if self._broken:
            raise NotIndexable(IndexFault("server_error", "The file could not be indexed."))
        rooms, config = self._rooms, self._rooms.services.live.config.vector_stores
        try:
            kept = await rooms.files.find(self._tenant, file.id)
        except NotFound:
            raise NotIndexable(IndexFault("invalid_file", "The file is not kept any more.")) from None
        of = IndexName(self._tenant, store.id)
        number = await rooms.indexes.begin(of, file.id, kept.filename)
        chunker, held = Chunker(file.chunking), list[TextChunk]()
        async for text in kept_text(rooms.files, self._tenant, kept, rooms.documents, config.file_bytes):
            for at in range(0, len(text), _PIECE):
                part = text[at : at + _PIECE]
                held += await rooms.work(lambda part=part: list(chunker.feed(part)))  # type: ignore[misc]
                while len(held) >= _AT_ONCE:
                    await self._add(caller, store, number, held[:_AT_ONCE])
                    del held[:_AT_ONCE]
        held += await rooms.work(lambda: list(chunker.end()))
        if held:
            await self._add(caller, store, number, held)
        fresh = await self._file(IndexJob(store.id, file.id, "", 0.0))
        attributes = (fresh or file).attributes or {}
        await rooms.indexes.finish(of, number, file.id, attributes)
        return await rooms.indexes.size(of, file.id)

    async def _add(self, caller: Caller, store: KeptStore, number: int, chunks: Sequence[TextChunk]) -> None:
        most = self._rooms.services.live.config.vector_stores.chunks
        for at in range(0, len(chunks), _AT_ONCE):
            some = chunks[at : at + _AT_ONCE]
            vectors: bytes | None = None
            if store.model:
                texts = [each.text for each in some]
                found = await self._rooms.embedding.vectors(caller, store.model, texts, "document")
                vectors = await self._rooms.work(lambda found=found: vectors_as_bytes(found))  # type: ignore[misc]
            await self._rooms.indexes.add(IndexName(self._tenant, store.id), number, some, vectors, most)
