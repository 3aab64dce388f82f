"""The records of vector stores of all tenants in the history: read, listed, changed (edge).

A change of a file is written together with the counts of its store and of its batch, and with the work that it makes, under the
versions that were read: all of it, or it is tried anew. Above: the handlers, the queue, searches. Below: the history, `records`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import attrs
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import Conflict, InvalidRequest, NotFound
from smg_core.history.store.base import (
    DeleteRecord,
    Lease,
    NotKept,
    Page,
    PutRecord,
    RecordPosition,
    StaleVersion,
    StoredRecord,
    StoreOperation,
)
from smg_core.request import Caller
from smg_core.retrieval.searching import StoreUnknown
from smg_core.serving.services import Services
from smg_core.stored.lists import StoredList
from smg_core.vector_stores.records import (
    BATCH_OF_FILES,
    INDEX_JOB,
    VECTOR_STORE,
    IndexJob,
    IndexStatus,
    KeptFileBatch,
    KeptStore,
    KeptStoreFile,
    expired,
    file_batch_record,
    index_job_record,
    job_id,
    recounted,
    store_file_kind,
    store_file_record,
    store_record,
)
from smg_core.vector_stores.types import ListQuery
from smg_core.wire.documents import kept_file_key
from smg_core.wire.fields import not_in_list

__all__ = ["FileChange", "KeptStores"]

T = TypeVar("T", bound=Struct)

FileChange = Callable[[KeptStoreFile | None], KeptStoreFile | None]
"""What a file becomes, of what it is; None: it is not there."""

_TURN = "vector_store_turn"
"""Kind and id of the record of a tenant that is written with every store that it gets, so that their bound is exact."""
_LISTED = 200  # records that are read at once
_TRIES = 50  # how often something is written anew that is changed meanwhile
_CENTURY = 36_500 * 86400.0
_IDLE_S = 60.0  # how late a use of a store is noted: not every search is written


@attrs.frozen
class _Read:
    """What a change is made of: the store and the files, with their versions."""

    store: KeptStore
    version: int
    files: Mapping[str, tuple[KeptStoreFile | None, int]]


class KeptStores:
    """The vector stores of all tenants."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _now(self) -> float:
        return self._services.clock.time()

    # ------------------------------------------------------------------------------------------------------------- stores

    async def find(self, tenant: str, id: str, param: str = "vector_store_id") -> tuple[KeptStore, int]:
        """A store and its version. Raises StoreUnknown."""
        record = await self._services.running.history.record(tenant, VECTOR_STORE, id) if id else None
        if record is None:
            raise StoreUnknown(id, param)
        return msgspec.json.decode(record.body, type=KeptStore), record.version

    async def usable(self, tenant: str, id: str, param: str = "vector_store_id") -> KeptStore:
        """A store that has not expired. Raises StoreUnknown."""
        store, _ = await self.find(tenant, id, param)
        if expired(store, self._now):
            raise StoreUnknown(id, param, expired=True)
        return store

    async def create(self, caller: Caller, store: KeptStore) -> None:
        """Keep a new store. Raises InvalidRequest where the tenant has as many as it may, and NotKept."""
        history, tenant = self._services.running.history, caller.tenant
        if not history.keeps(tenant, caller.principal):
            raise NotKept
        most = self._services.live.config.vector_stores.stores
        turn = StoredRecord(kind=_TURN, id=_TURN, body=b"{}", created_at=self._now, expires_at=self._now + _CENTURY)
        for _ in range(_TRIES):
            before = await history.record(tenant, _TURN, _TURN)
            if await self._count(tenant, most) >= most:
                raise InvalidRequest(f"There may be {most:,} vector stores; delete some.", code="vector_store_limit")
            mine = PutRecord(turn, before.version if before is not None else 0)
            try:
                await history.write(tenant, [mine, store_record(store, 0)], principal=caller.principal)
            except StaleVersion:
                continue
            return
        raise _busy()

    async def _count(self, tenant: str, most: int) -> int:
        found, after, more = 0, None, True
        while more and found < most:
            page = await self._services.running.history.records(tenant, VECTOR_STORE, after=after, limit=_LISTED)
            found += len(page.data)
            more, after = page.has_more and bool(page.data), page.data[-1].position if page.data else None
        return found

    async def update(
        self, caller: Caller, id: str, change: Callable[[KeptStore], KeptStore], *, usable: bool = False
    ) -> KeptStore:
        """Change a store. Raises StoreUnknown, also where one that has expired is to be `usable`."""
        for _ in range(_TRIES):
            store, version = await self.find(caller.tenant, id)
            if usable and expired(store, self._now):
                raise StoreUnknown(id, expired=True)
            changed = change(store)
            try:
                await self._write(caller, [store_record(changed, version)])
            except StaleVersion:
                continue
            return changed
        raise _busy()

    async def use(self, caller: Caller, store: KeptStore) -> None:
        """Note that a store is used, unless that was noted a moment ago."""
        if self._now - store.last_active_at >= _IDLE_S:
            now = self._now
            await self.update(
                caller, store.id, lambda each: replace(each, last_active_at=max(each.last_active_at, now))
            )

    async def delete(self, caller: Caller, id: str) -> None:
        """Forget a store; what it has is forgotten by the work that this makes. Raises StoreUnknown."""
        await self.find(caller.tenant, id)
        job = IndexJob(id, "", caller.principal, self._now)
        await self._write(caller, [DeleteRecord(VECTOR_STORE, id), index_job_record(job)])

    async def forget_files(self, tenant: str, id: str) -> None:
        """Forget the records of all files of a store that is not there any more."""
        kind, more = store_file_kind(id), True
        while more:
            page = await self._services.running.history.records(tenant, kind, limit=_LISTED)
            operations: list[StoreOperation] = [DeleteRecord(kind, each.id) for each in page.data]
            operations += [DeleteRecord(INDEX_JOB, job_id(id, each.id)) for each in page.data]
            if operations:
                await self._services.running.history.write(tenant, operations)
            more = page.has_more

    # -------------------------------------------------------------------------------------------------------------- lists

    async def page(self, tenant: str, query: ListQuery) -> StoredList[KeptStore]:
        """The stores that `query` asks for. Raises InvalidRequest."""
        return await self._page(tenant, VECTOR_STORE, query, KeptStore, lambda each: True)

    async def files(self, tenant: str, store: str, query: ListQuery, batch: str = "") -> StoredList[KeptStoreFile]:
        """The files of a store, or of one batch, that `query` asks for. Raises InvalidRequest."""

        def wanted(file: KeptStoreFile) -> bool:
            return query.status in (None, file.status) and (not batch or file.batch == batch)

        return await self._page(tenant, store_file_kind(store), query, KeptStoreFile, wanted)

    async def _page(
        self, tenant: str, kind: str, query: ListQuery, type: type[T], wanted: Callable[[T], bool]
    ) -> StoredList[T]:
        """Some of a list. What comes before a place is walked backwards, and turned round."""
        history = self._services.running.history
        start = query.after if query.before is None else query.before
        newest_first = query.newest_first is (query.before is None)
        if start is not None and await history.record(tenant, kind, start) is None:
            raise not_in_list(start, "after" if query.before is None else "before")
        found: list[T] = []
        size, more = 0, True
        after: str | RecordPosition | None = start
        while more and len(found) <= query.limit:
            page: Page[StoredRecord] = await history.records(
                tenant, kind, after=after, limit=_LISTED, newest_first=newest_first
            )
            for each in page.data:
                kept = msgspec.json.decode(each.body, type=type)
                if wanted(kept):
                    found.append(kept)
                    size += len(each.body)
            more, after = page.has_more and bool(page.data), page.data[-1].position if page.data else None
        data = found[: query.limit]
        return StoredList(tuple(data if query.before is None else reversed(data)), len(found) > query.limit, size)

    # -------------------------------------------------------------------------------------------------------------- files

    async def file(self, tenant: str, store: str, id: str) -> tuple[KeptStoreFile, int]:
        """A file of a store and its version, by its id in the form of any API. Raises NotFound."""
        key = kept_file_key(id)
        kind = store_file_kind(store)
        record = None if key is None else await self._services.running.history.record(tenant, kind, f"file-{key}")
        if record is None:
            raise NotFound(f"No such file in this vector store: '{id[:100]}'.", param="file_id")
        return msgspec.json.decode(record.body, type=KeptStoreFile), record.version

    async def batch(self, tenant: str, store: str, id: str) -> tuple[KeptFileBatch, int]:
        """A batch of a store and its version. Raises NotFound."""
        record = await self._services.running.history.record(tenant, BATCH_OF_FILES, id)
        found = None if record is None else msgspec.json.decode(record.body, type=KeptFileBatch)
        if found is None or record is None or found.store != store:
            raise NotFound(f"No such batch of files in this vector store: '{id[:100]}'.", param="batch_id")
        return found, record.version

    async def change(
        self,
        caller: Caller,
        store: str,
        changes: Mapping[str, FileChange],
        *,
        batch: KeptFileBatch | None = None,
        with_job: bool = True,
        lease: Lease | None = None,
        also: Sequence[StoreOperation] = (),
    ) -> dict[str, KeptStoreFile | None]:
        """Change files of a store, with all counts; returns what they are then. A file that is changed makes work `with_job`;
        `batch` is a new one that they belong to. Raises StoreUnknown, InvalidRequest where there are too many files, and
        StaleVersion where `also` is stale."""
        for _ in range(_TRIES):
            read = await self._read(caller.tenant, store, changes)
            after = {id: changes[id](file) for id, (file, _) in read.files.items()}
            changed = [id for id, (before, _) in read.files.items() if after[id] is not before]
            if not changed and batch is None:
                return after
            operations = self._operations(read, after, changed)
            operations += await self._batches(caller.tenant, read, after, batch)
            if with_job:
                jobs = (IndexJob(store, id, caller.principal, self._now) for id in changed)
                operations += [index_job_record(each) for each in jobs]
            try:
                await self._write(caller, [*operations, *also], lease)
            except StaleVersion as error:
                if any(getattr(each, "id", None) == error.id for each in also):
                    raise
                continue
            return after
        raise _busy()

    async def _read(self, tenant: str, store: str, ids: Mapping[str, FileChange]) -> _Read:
        history, kind = self._services.running.history, store_file_kind(store)
        kept, version = await self.find(tenant, store)
        files: dict[str, tuple[KeptStoreFile | None, int]] = {}
        for id in ids:
            record = await history.record(tenant, kind, id)
            found = None if record is None else msgspec.json.decode(record.body, type=KeptStoreFile)
            files[id] = found, 0 if record is None else record.version
        return _Read(kept, version, files)

    def _operations(
        self, read: _Read, after: Mapping[str, KeptStoreFile | None], changed: Sequence[str]
    ) -> list[StoreOperation]:
        """What keeps the files, and their store with its counts."""
        store = read.store
        operations: list[StoreOperation] = []
        counts, usage = store.counts, store.usage_bytes
        for id in changed:
            (before, version), file = read.files[id], after[id]
            counts = recounted(counts, _status(before), _status(file))
            usage += (file.usage_bytes if file else 0) - (before.usage_bytes if before else 0)
            if file is None:
                operations.append(DeleteRecord(store_file_kind(store.id), id, version))
            else:
                operations.append(store_file_record(store.id, file, version))
        most = self._services.live.config.vector_stores.files
        if counts.total > max(most, store.counts.total):
            raise InvalidRequest(f"A vector store has {most:,} files at most.", param="file_id", code="file_limit")
        kept = replace(
            store, counts=counts, usage_bytes=max(0, usage), last_active_at=max(store.last_active_at, self._now)
        )
        return [store_record(kept, read.version), *operations]

    async def _batches(
        self, tenant: str, read: _Read, after: Mapping[str, KeptStoreFile | None], new: KeptFileBatch | None
    ) -> list[StoreOperation]:
        """What keeps the counts of the batches that the files belong to. A file that leaves a batch before its end is counted as
        cancelled there."""
        found: dict[str, tuple[KeptFileBatch | None, int]] = {} if new is None else {new.id: (new, 0)}
        if new is not None:
            record = await self._services.running.history.record(tenant, BATCH_OF_FILES, new.id)
            if record is not None:
                found[new.id] = msgspec.json.decode(record.body, type=KeptFileBatch), record.version
        for id, (before, _) in read.files.items():
            file = after[id]
            if file is before:
                continue
            for name in {each.batch for each in (before, file) if each is not None and each.batch}:
                if name not in found:
                    try:
                        found[name] = await self.batch(tenant, read.store.id, name)
                    except NotFound:  # it is not kept any more
                        found[name] = None, 0
                batch, version = found[name]
                if batch is None:
                    continue
                was = before.status if before is not None and before.batch == name else None
                becomes = file.status if file is not None and file.batch == name else None
                if becomes is None:
                    becomes = "cancelled" if was == "in_progress" else was
                found[name] = replace(batch, counts=recounted(batch.counts, was, becomes)), version
        return [file_batch_record(batch, version) for batch, version in found.values() if batch is not None]

    async def _write(self, caller: Caller, operations: Sequence[StoreOperation], lease: Lease | None = None) -> None:
        history = self._services.running.history
        await history.write(caller.tenant, operations, lease=lease, principal=caller.principal)


def _status(file: KeptStoreFile | None) -> IndexStatus | None:
    return None if file is None else file.status


def _busy() -> Conflict:
    return Conflict("The vector store is being changed by other requests; try again.")
