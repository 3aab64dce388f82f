"""Files and uploads of all tenants: their records in the history, their contents in blobs (edge).

A file is there once its record is, which is written when its contents are. The bounds of a tenant are exact however many
processes write: who adds a file counts first, and writes with a record of the tenant that nobody else may have written
meanwhile. Above: the handlers of files and of batches, and what reads files for requests. Below: the history, the place of
contents, logs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from weakref import WeakValueDictionary

import attrs
import msgspec
from msgspec.structs import replace

from smg_core.errors import Conflict, InvalidRequest, NotFound, RateLimited, SmgError, StoreFailed
from smg_core.files.blobs import Blob
from smg_core.files.logs import log_contents
from smg_core.files.place import ContentsElsewhere, FilePlace
from smg_core.files.spool import Spool
from smg_core.files.types import FileQuery, KeptFile, KeptPart, KeptUpload, read_kept_file
from smg_core.history.store.base import (
    DeleteEvents,
    DeleteRecord,
    NotKept,
    PutRecord,
    RecordPosition,
    StaleVersion,
    StoredRecord,
    StoreOperation,
)
from smg_core.request import Caller
from smg_core.serving.services import Services
from smg_core.stored.lists import StoredList, read_list
from smg_core.wire.documents import kept_file_key
from smg_core.wire.fields import not_in_list

__all__ = ["FILE", "UPLOAD", "KeptFiles", "file_record"]

FILE, UPLOAD = "file", "upload"
"""Kinds of the records of files and of uploads in parts."""

_TURN = "file_turn"
"""Kind and id of the record of a tenant that is written with every file and upload that it gets."""

_LISTED = 200  # records that are read at once
_READ = 1 << 18  # bytes of a spool that are read at once
_TRIES = 50  # how often something is written anew that is changed meanwhile
_CENTURY = 36_500 * 86400.0


def file_record(file: KeptFile, version: int | None = None) -> PutRecord:
    """Keep a file's record."""
    body = msgspec.json.encode(file)
    record = StoredRecord(kind=FILE, id=file.id, body=body, created_at=file.created_at, expires_at=file.expires_at)
    return PutRecord(record, version)


def _upload_record(upload: KeptUpload, version: int | None) -> PutRecord:
    body = msgspec.json.encode(upload)
    return PutRecord(
        StoredRecord(kind=UPLOAD, id=upload.id, body=body, created_at=upload.created_at, expires_at=upload.expires_at),
        version,
    )


@attrs.define
class _Usage:
    """What a tenant has: files, bytes, bytes of the one key that is asked about, uploads that are open."""

    files: int = 0
    bytes: int = 0
    key_bytes: int = 0
    uploads: int = 0

    def add(self, size: int, own: bool) -> None:
        self.bytes += size
        self.key_bytes += size if own else 0


class KeptFiles:
    """The files of all tenants."""

    def __init__(self, services: Services, place: FilePlace) -> None:
        self._services, self._place = services, place
        self._adding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by tenant

    # ------------------------------------------------------------------------------------------------------------ reading

    async def find(self, tenant: str, id: str, param: str = "id") -> KeptFile:
        """The file, by its id in the form of any API. Raises NotFound."""
        key = kept_file_key(id)
        found = None if key is None else await self._services.running.history.record(tenant, FILE, f"file-{key}")
        if found is None:
            raise NotFound(f"No such File object: '{id[:100]}'.", param=param)
        return read_kept_file(found.body)

    async def page(self, tenant: str, query: FileQuery) -> StoredList[KeptFile]:
        """The files that `query` asks for. Raises InvalidRequest."""
        history = self._services.running.history
        found: list[KeptFile] = []
        size = 0
        first = None if query.after is None else f"file-{kept_file_key(query.after) or ''}"
        after: str | RecordPosition | None = first
        more = True
        while more:
            most = min(_LISTED, query.limit + 1 - len(found)) if query.purpose is None else _LISTED
            page = await history.records(tenant, FILE, after=after, limit=most, newest_first=query.newest_first)
            if not page.data and query.after is not None and after == first:
                await self._check_listed(tenant, query.after)
            files = await read_list(self._services, tenant, page, read_kept_file)
            found += [each for each in files.data if query.purpose in (None, each.purpose)]
            size += files.size
            if len(found) > query.limit:
                break
            more, after = page.has_more and bool(page.data), page.data[-1].position if page.data else None
            await asyncio.sleep(0)  # a store in memory does not wait, and others are to have their turn
        return StoredList(tuple(found[: query.limit]), len(found) > query.limit, size)

    async def _check_listed(self, tenant: str, id: str) -> None:
        try:
            await self.find(tenant, id)
        except NotFound:
            raise not_in_list(id) from None

    async def contents(self, tenant: str, file: KeptFile) -> AsyncIterator[bytes]:
        """The contents, piece by piece. Raises ContentsGone, also amid them."""
        if file.log:
            pieces = log_contents(self._services, tenant, file.log, file.pieces)
        else:
            pieces = (await self._place.opened()).read(file.blobs, file.folder)
        async for piece in pieces:
            yield piece

    async def blobs(self, blobs: tuple[Blob, ...], folder: str) -> AsyncIterator[bytes]:
        """What lies in `blobs`, one behind the other. Raises ContentsGone and FilesFailed."""
        async for piece in (await self._place.opened()).read(blobs, folder):
            yield piece

    # ------------------------------------------------------------------------------------------------------------- bounds

    async def _usage(self, caller: Caller, most: int) -> _Usage:
        """What the caller's tenant has; no more than `most` files are counted."""
        found = _Usage()
        async for record in self._records(caller.tenant, FILE):
            file = read_kept_file(record.body)
            found.files += 1
            found.add(file.bytes, file.principal == caller.principal)
            if found.files >= most:
                break
        async for record in self._records(caller.tenant, UPLOAD):
            upload = msgspec.json.decode(record.body, type=KeptUpload)
            if upload.status == "pending":
                found.uploads += 1
                found.add(upload.bytes, upload.principal == caller.principal)
        return found

    async def _records(self, tenant: str, kind: str) -> AsyncIterator[StoredRecord]:
        more, after = True, None
        while more:
            page = await self._services.running.history.records(tenant, kind, after=after, limit=_LISTED)
            for each in page.data:
                yield each
            more, after = page.has_more and bool(page.data), page.data[-1].position if page.data else None
            await asyncio.sleep(0)  # a store in memory does not wait

    async def _check_room(self, caller: Caller, size: int, param: str, *, upload: bool) -> None:
        batches, files = self._services.live.config.batches, self._services.live.config.files
        usage = await self._usage(caller, batches.files)
        if usage.files >= batches.files:
            raise InvalidRequest(f"There may be {batches.files:,} files; delete some.", param=param)
        for has, most, whose in (
            (usage.bytes, files.tenant_bytes, "account"),
            (usage.key_bytes, files.key_bytes, "key"),
        ):
            if has + size > most:
                raise InvalidRequest(
                    f"The files of this {whose} may have {most:,} bytes together; delete some.",
                    param=param,
                    code="file_storage_limit",
                )
        if upload and usage.uploads >= files.open:
            raise RateLimited(f"There may be {files.open:,} open uploads; complete or cancel some.")

    async def _added(
        self, caller: Caller, size: int, param: str, operations: Sequence[StoreOperation], *, upload: bool = False
    ) -> None:
        """Do the operations, by which the tenant gets `size` bytes more, where there is room."""
        history, tenant, now = self._services.running.history, caller.tenant, self._services.clock.time()
        turn = StoredRecord(kind=_TURN, id=_TURN, body=b"{}", created_at=now, expires_at=now + _CENTURY)
        async with self._adding.setdefault(tenant, asyncio.Lock()):
            for _ in range(_TRIES):
                before = await history.record(tenant, _TURN, _TURN)
                await self._check_room(caller, size, param, upload=upload)
                mine = PutRecord(turn, before.version if before is not None else 0)
                try:
                    await history.write(tenant, [mine, *operations], principal=caller.principal)
                except StaleVersion as error:
                    if error.id != _TURN:
                        raise
                    continue
                return
        raise Conflict("Other files are being added; try again.")

    # ------------------------------------------------------------------------------------------------------------ writing

    async def kept_contents(self, caller: Caller, key: str, spool: Spool) -> tuple[Blob, str]:
        """Keep what is in `spool` as contents of the file `key`; returns where they are, and the folder's name."""
        if not self._services.running.history.keeps(caller.tenant, caller.principal):
            raise NotKept
        place = await self._place.opened()
        blob = await place.write(caller.tenant, key, _pieces(spool), spool.size)
        return blob, place.folder

    async def add(self, caller: Caller, file: KeptFile, spool: Spool) -> KeptFile:
        """Keep a file with the contents in `spool`. Raises InvalidRequest where there is no room, and Conflict where there is a
        file of its id."""
        await self._check_room(caller, spool.size, "file", upload=False)
        blob, folder = await self.kept_contents(caller, file.key, spool)
        kept = replace(file, bytes=spool.size, blobs=(blob,), folder=folder, principal=caller.principal)
        async with self._dropping([blob], folder):
            await self._added(caller, kept.bytes, "file", [file_record(kept, 0)])
        return kept

    @contextlib.asynccontextmanager
    async def _dropping(self, blobs: Sequence[Blob], folder: str) -> AsyncIterator[None]:
        """Contents that nothing has where the block fails are dropped. Where the history fails, it may have them all the same:
        then a sweep decides."""
        try:
            yield
        except StoreFailed:
            raise
        except SmgError as error:
            await self.drop(blobs, folder)
            if isinstance(error, StaleVersion):
                raise Conflict("There is a file of this name.", param="file", code="already_exists") from None
            raise

    # ------------------------------------------------------------------------------------------------------------ uploads

    async def upload(self, tenant: str, id: str, param: str = "upload_id") -> tuple[KeptUpload, int]:
        """The upload and its version. Raises NotFound."""
        found = await self._services.running.history.record(tenant, UPLOAD, id)
        if found is None:
            raise NotFound(f"No such Upload object: '{id[:100]}'.", param=param)
        return msgspec.json.decode(found.body, type=KeptUpload), found.version

    async def begin(self, caller: Caller, upload: KeptUpload) -> KeptUpload:
        """Keep an upload that begins. Raises InvalidRequest and RateLimited where there is no room, and Conflict where there is a
        file of the id that its own will have."""
        if not self._services.running.history.keeps(caller.tenant, caller.principal):
            raise NotKept
        history, version = self._services.running.history, 0
        if await history.record(caller.tenant, FILE, upload.file) is not None:
            raise Conflict("There is a file of this name.", param="file", code="already_exists")
        earlier = await history.record(caller.tenant, UPLOAD, upload.id)
        if earlier is not None:
            if msgspec.json.decode(earlier.body, type=KeptUpload).status == "pending":
                raise Conflict("A file of this name is being uploaded.", param="file", code="already_exists")
            version = earlier.version
        upload = replace(upload, principal=caller.principal, folder=(await self._place.opened()).folder)
        try:
            await self._added(caller, upload.bytes, "bytes", [_upload_record(upload, version)], upload=True)
        except StaleVersion:
            raise Conflict("A file of this name is being uploaded.", param="file", code="already_exists") from None
        return upload

    async def add_part(
        self, caller: Caller, id: str, spool: Spool, at: int | None = None
    ) -> tuple[KeptUpload, KeptPart]:
        """Keep what is in `spool` as a part of an upload. With `at` it must begin at this offset. Raises InvalidRequest and
        Conflict."""
        upload, version = await self.upload(caller.tenant, id)
        _check_part(upload, spool.size, self._services.live.config.files.parts, at)
        blob, folder = await self.kept_contents(caller, upload.file.removeprefix("file-"), spool)
        part = KeptPart(self._services.ids("part_"), blob)
        async with self._dropping([blob], folder):
            for _ in range(_TRIES):
                _check_part(upload, spool.size, self._services.live.config.files.parts, at)
                if folder != upload.folder:
                    raise ContentsElsewhere
                changed = replace(upload, parts=(*upload.parts, part))
                try:
                    await self._write(caller, [_upload_record(changed, version)])
                except StaleVersion:
                    upload, version = await self.upload(caller.tenant, id)
                    continue
                return changed, part
            raise Conflict("Other parts of this upload are being added; try again.")

    async def complete(
        self,
        caller: Caller,
        upload: KeptUpload,
        version: int,
        parts: Sequence[KeptPart],
        file: KeptFile,
    ) -> tuple[KeptUpload, KeptFile]:
        """Make the file of an upload, of these of its parts. Raises Conflict where the upload has changed meanwhile, or there is
        a file of its id."""
        blobs = tuple(each.blob for each in parts)
        kept = replace(
            file,
            bytes=sum(each.bytes for each in blobs),
            blobs=blobs,
            folder=upload.folder,
            principal=caller.principal,
        )
        ended = replace(upload, status="completed", parts=())
        try:
            await self._write(caller, [_upload_record(ended, version), file_record(kept, 0)])
        except StaleVersion as error:
            if error.id == kept.id:
                raise Conflict("There is a file of this name.", param="file", code="already_exists") from None
            raise Conflict("The upload was changed by another request.", param="upload_id") from None
        unused = [each.blob for each in upload.parts if each.blob not in blobs]
        await self.drop(unused, upload.folder)
        return ended, kept

    async def cancel(self, caller: Caller, upload: KeptUpload, version: int) -> KeptUpload:
        """Give up an upload. Raises Conflict where it has changed meanwhile."""
        ended = replace(upload, status="cancelled", parts=())
        try:
            await self._write(caller, [_upload_record(ended, version)])
        except StaleVersion:
            raise Conflict("The upload was changed by another request.", param="upload_id") from None
        await self.drop([each.blob for each in upload.parts], upload.folder)
        return ended

    async def _write(self, caller: Caller, operations: Sequence[StoreOperation]) -> None:
        await self._services.running.history.write(caller.tenant, operations, principal=caller.principal)

    # ----------------------------------------------------------------------------------------------------------- deleting

    async def delete(self, caller: Caller, file: KeptFile) -> None:
        """Forget a file."""
        operations: list[StoreOperation] = [DeleteRecord(FILE, file.id)]
        if file.log:
            operations.append(DeleteEvents(file.log))
        await self._services.running.history.write(caller.tenant, operations, principal=caller.principal)
        await self.drop(file.blobs, file.folder)

    async def drop(self, blobs: Sequence[Blob], folder: str) -> None:
        """Forget contents, as far as they lie here; a sweep forgets what stays."""
        if not blobs:
            return
        with contextlib.suppress(SmgError):
            place = await self._place.opened()
            if folder == place.folder:
                for each in blobs:
                    await place.blobs.delete(each.name)


def _check_part(upload: KeptUpload, size: int, most: int, at: int | None) -> None:
    """Raise Conflict or InvalidRequest where an upload takes no part of this size, beginning `at`, now."""
    if upload.status != "pending":
        raise Conflict(f"The upload is {upload.status}.", param="upload_id")
    if at is not None and at != upload.received:
        raise Conflict(f"The upload has {upload.received} bytes; a part that begins at {at} is not its next.")
    if upload.received + size > upload.bytes:
        raise InvalidRequest(
            f"The parts of this upload have more bytes than the {upload.bytes} that were announced.", param="data"
        )
    if len(upload.parts) >= most:
        raise InvalidRequest(f"An upload has {most:,} parts at most.", param="data")


async def _pieces(spool: Spool) -> AsyncIterator[bytes]:
    await asyncio.to_thread(spool.rewind)
    while piece := await asyncio.to_thread(spool.read, _READ):
        yield piece
