"""Files in the history: a record for each, and its contents as the events of a log (edge).

A file is there once its record is, which is written with the last of its contents. Until then, and when the upload fails, the log
has the short life of any stream. Above: the handlers of files and of batches, and the runs of batches. Below: the history.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from smg_core.batches.file_types import FileQuery, KeptFile, read_kept_file
from smg_core.batches.spool import Spool
from smg_core.errors import NotFound, SmgError
from smg_core.history.store.base import (
    AppendEvents,
    DeleteEvents,
    DeleteRecord,
    PutRecord,
    RecordPosition,
    StoredEvent,
    StoredRecord,
    StoreOperation,
)
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.request import Caller
from smg_core.serving.inference import take_back_cancellation
from smg_core.serving.offload import worked
from smg_core.serving.services import Services
from smg_core.stored.lists import StoredList, read_list
from smg_core.wire.fields import not_in_list
from smg_core.wire.json_lines import Line, LineSplitter

__all__ = ["FILE", "ContentsGone", "KeptFiles", "contents", "file_record", "lines_of", "send_contents"]

T = TypeVar("T")

FILE = "file"
"""Kind of the records of files."""

_PIECE = 256 * 1024  # bytes of one event
_PIECES = 8  # events that are written, or read, at once
_LISTED = 200  # records that are read at once
_WRITTEN = 1 << 18  # bytes of an answer that are written at once


class ContentsGone(NotFound):
    """The contents of a file are not there any more: it was deleted, has expired, or the store had no room for it."""

    def __init__(self) -> None:
        super().__init__("The contents of this file are not kept any more.")


def file_record(file: KeptFile) -> PutRecord:
    """Keep a file's record."""
    body = msgspec.json.encode(file)
    return PutRecord(
        StoredRecord(kind=FILE, id=file.id, body=body, created_at=file.created_at, expires_at=file.expires_at)
    )


class KeptFiles:
    """The files of all tenants."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by tenant

    async def find(self, tenant: str, id: str) -> KeptFile:
        """The file. Raises NotFound."""
        found = await self._services.running.history.record(tenant, FILE, id)
        if found is None:
            raise NotFound(f"No such File object: '{id[:100]}'.", param="id")
        return read_kept_file(found.body)

    async def page(self, tenant: str, query: FileQuery) -> StoredList[KeptFile]:
        """The files that `query` asks for. Raises InvalidRequest."""
        history = self._services.running.history
        found: list[KeptFile] = []
        size = 0
        after: str | RecordPosition | None = query.after
        more = True
        while more:
            most = min(_LISTED, query.limit + 1 - len(found)) if query.purpose is None else _LISTED
            page = await history.records(tenant, FILE, after=after, limit=most, newest_first=query.newest_first)
            if not page.data and query.after is not None and after == query.after:
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
        if await self._services.running.history.record(tenant, FILE, id) is None:
            raise not_in_list(id)

    async def count(self, tenant: str, most: int) -> int:
        """How many files a tenant has; `most` stands for that many or more."""
        count, more = 0, True
        after: RecordPosition | None = None
        while more and count < most:
            page = await self._services.running.history.records(
                tenant, FILE, after=after, limit=min(_LISTED, most - count)
            )
            count += len(page.data)
            more, after = page.has_more, page.data[-1].position if page.data else None
            await asyncio.sleep(0)  # a store in memory does not wait
        return count

    async def keep(
        self, caller: Caller, log: str, spool: Spool, until: float, last: Callable[[int], Sequence[StoreOperation]]
    ) -> None:
        """Keep the contents in `spool` as `log` until `until`. `last` makes the operations that are done with the last of them,
        of the number of pieces. Nothing stays where this fails."""
        history, tenant = self._services.running.history, caller.tenant
        number = 0
        kept = False
        try:
            await asyncio.to_thread(spool.rewind)
            data = await asyncio.to_thread(spool.read, _PIECE * _PIECES)
            while True:
                following = await asyncio.to_thread(spool.read, _PIECE * _PIECES)
                pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
                events = tuple(StoredEvent(number + place, piece) for place, piece in enumerate(pieces))
                number += len(events)
                operations: list[StoreOperation] = []
                if events:
                    operations.append(AppendEvents(log, events, None if following else until))
                if not following:
                    operations += last(number)
                await history.write(tenant, operations, principal=caller.principal)
                if not following:
                    break
                data = following
            kept = True
        finally:
            if not kept and number:
                with contextlib.suppress(SmgError):  # what it failed with is said, not this
                    await history.write(tenant, [DeleteEvents(log)], principal=caller.principal)

    async def add(self, caller: Caller, file: KeptFile, spool: Spool, room: Callable[[int], None]) -> KeptFile:
        """Keep a file with the contents in `spool`. `room` is told how many files there are, and raises where there may be no
        further one."""
        kept = file

        def last(pieces: int) -> list[StoreOperation]:
            nonlocal kept
            kept = msgspec.structs.replace(file, pieces=pieces, bytes=spool.size)
            return [file_record(kept)]

        async with self._counting.setdefault(caller.tenant, asyncio.Lock()):
            room(await self.count(caller.tenant, self._services.live.config.batches.files))
            await self.keep(caller, file.log, spool, file.expires_at, last)
        return kept

    async def delete(self, caller: Caller, file: KeptFile) -> None:
        """Forget a file."""
        operations: list[StoreOperation] = [DeleteRecord(FILE, file.id), DeleteEvents(file.log)]
        await self._services.running.history.write(caller.tenant, operations, principal=caller.principal)


async def contents(services: Services, tenant: str, log: str, pieces: int) -> AsyncIterator[bytes]:
    """The contents, piece by piece. Raises ContentsGone, also amid them."""
    number = 0
    while number < pieces:
        page = await services.running.history.events(tenant, log, after=number - 1, limit=_PIECES)
        if not page:
            raise ContentsGone
        for event in page:
            if event.number != number:
                raise ContentsGone
            number += 1
            yield event.data


async def lines_of(
    services: Services, tenant: str, log: str, pieces: int, most: int, read: Callable[[Sequence[Line]], T]
) -> AsyncIterator[T]:
    """What `read` makes of the lines of a file, of some at a time: they are cut and read together, off the event loop where that
    takes long. A line of more than `most` bytes is not kept."""
    splitter = LineSplitter(most)
    async for piece in contents(services, tenant, log, pieces):
        size = splitter.held + len(piece)
        yield await worked(services, tenant, size, lambda piece=piece: read(splitter.feed(piece)))  # type: ignore[misc]
    yield await worked(services, tenant, splitter.held, lambda: read(splitter.end()))


async def send_contents(
    services: Services, exchange: Exchange, size: int, pieces: AsyncIterator[bytes], headers: Sequence[Header]
) -> None:
    """Answer with contents of `size` bytes. Raises ContentsGone where they are not there; where they go away meanwhile, the
    client sees that the answer is cut."""
    first = await anext(pieces, b"")
    exchange.watch(services.live.config.timeouts.write_s)
    try:
        await exchange.start(200, [*headers, (b"content-length", b"%d" % size)])
        if exchange.method != "HEAD":
            await _write(exchange, first)
            async for piece in pieces:
                await _write(exchange, piece)
        await exchange.write(b"", True)
    except SmgError:
        if not exchange.started:
            raise
        return  # the server closes a connection whose answer is not complete, so the client sees the cut
    except asyncio.CancelledError:
        if not exchange.gone:
            raise
        take_back_cancellation()
    finally:
        exchange.unwatch()


async def _write(exchange: Exchange, data: bytes) -> None:
    for at in range(0, len(data), _WRITTEN):
        await exchange.write(data[at : at + _WRITTEN], False)
