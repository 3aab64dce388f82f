"""A store in a file of SQLite, by the standard library alone (edge).

Reads are single statements in threads of `readers`; writes share transactions in the one of `writer`. Above: `opening`. Below:
`statements` and `writing`, which decide; `schema`, `place`.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from typing import Any

from smg_core.clock import Clock
from smg_core.history.sql.bounds import SqlBounds
from smg_core.history.sql.names import Names
from smg_core.history.sql.sqlite_file import prepare_file
from smg_core.history.sql.store_write import StoreWrite
from smg_core.history.sqlite.failures import FAILURES, failure
from smg_core.history.sqlite.place import SqlitePlace
from smg_core.history.sqlite.readers import SqliteReaders
from smg_core.history.sqlite.schema import bring_up_to_date
from smg_core.history.sqlite.statements import (
    KEYS,
    SqliteStatements,
    conversation_in_row,
    item_in_row,
    link_in_row,
    record_in_row,
    response_in_row,
)
from smg_core.history.sqlite.writer import SqliteWriter
from smg_core.history.sqlite.writing import SqliteWriting
from smg_core.history.store.base import (
    Chain,
    ChainBroken,
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

__all__ = ["SqliteStore"]

_Row = Sequence[Any]
_EXPORTED = 200  # rows that an export reads at once
_HOLDING = 1000  # responses in which an item is looked for at once


class SqliteStore:
    """A `Store` and `Upkeep` in a file of SQLite. Made by `open`."""

    def __init__(
        self,
        writer: SqliteWriter,
        readers: SqliteReaders,
        statements: SqliteStatements,
        clock: Clock,
        bounds: SqlBounds,
    ) -> None:
        self._writer, self._readers, self._of = writer, readers, statements
        self._do, self._now, self._bounds = SqliteWriting(statements), clock.time, bounds

    @classmethod
    async def open(
        cls,
        place: SqlitePlace,
        names: Names,
        clock: Clock,
        bounds: SqlBounds,
        *,
        readers: int,
        flush: bool = True,
        migrate: bool = True,
    ) -> "SqliteStore":
        """The store, its tables brought to the newest version, which `migrate` allows. `readers` is how many may read at a time;
        with `flush` a write waits for the disk. Raises StoreFailed where it cannot be opened."""
        statements = SqliteStatements(names)
        try:
            connection, opened = await asyncio.to_thread(
                _opened, place, names, bounds.timeout_s, flush=flush, migrate=migrate
            )
        except FAILURES as error:
            raise failure("opening the history", error) from error
        writer = SqliteWriter(connection, lambda: place.check(opened), SqliteWriting(statements), clock, bounds)
        return cls(writer, SqliteReaders(place, opened, readers, bounds.timeout_s), statements, clock, bounds)

    def keeps(self, tenant: str, principal: str = "") -> bool:
        return True

    # ------------------------------------------------------------------------------------------------------------ writing

    async def write(
        self, tenant: str, operations: Sequence[StoreOperation], *, lease: Lease | None = None, principal: str = ""
    ) -> None:
        await self._writer.write(StoreWrite(tenant, operations, lease))

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        return await self._writer.job(
            lambda connection, now: self._do.acquire(connection, tenant, kind, id, owner, seconds, now)
        )

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        return await self._writer.job(lambda connection, now: self._do.renew(connection, tenant, lease, seconds, now))

    async def release(self, tenant: str, lease: Lease) -> None:
        await self._writer.job(lambda connection, now: self._do.release(connection, tenant, lease, now))

    async def erase(self, tenant: str) -> int:
        return await self._writer.job(lambda connection, now: self._do.erase(connection, tenant, now))

    async def sweep(self, limit: int = 1000) -> int:
        return await self._writer.job(lambda connection, now: self._do.sweep(connection, limit, now))

    # ------------------------------------------------------------------------------------------------------------ reading

    async def _rows(self, statement: str, **given: object) -> list[_Row]:
        """Rows of a statement, with the parameters `given` and the time."""
        parameters = {**given, "now": self._now()}
        return await self._readers.read(lambda connection: connection.execute(statement, parameters).fetchall())

    async def _page(self, statement: str, limit: int, **given: object) -> tuple[list[_Row], bool]:
        """At most `limit` rows of a statement that measures before it loads, and whether there are more."""
        rows = await self._rows(statement, limit=limit + 1, most_bytes=self._bounds.page_bytes, **given)
        loaded = [row for row in rows if row[-1]]
        return loaded, len(loaded) < len(rows)

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        rows = await self._rows(self._of.response, tenant=tenant, id=id)
        return response_in_row(rows[0]) if rows else None

    async def chain(self, tenant: str, id: str) -> Chain | None:
        most_links, most_bytes = self._bounds.chain_links, self._bounds.chain_bytes
        rows = await self._rows(self._of.chain, tenant=tenant, id=id, most_links=most_links, most_bytes=most_bytes)
        if not rows:
            return None
        links = [link_in_row(row) for row in reversed(rows)]
        if len({link.id for link in links}) < len(rows):
            raise ChainBroken(id, "cycle")
        if len(rows) > most_links:
            raise ChainBroken(id, "too_long", most_links)
        if rows[-1][-1] > most_bytes:
            raise ChainBroken(id, "too_large", most_bytes)
        return Chain(tuple(links), missing=links[0].previous_id)

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
        if not item_ids:
            return ()
        items = {f"item{number}": id for number, id in enumerate(item_ids)}
        rows, _ = await self._page(self._of.holding(len(items)), _HOLDING, tenant=tenant, **items)
        return tuple([response_in_row(row) for row in rows])

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        rows = await self._rows(self._of.conversation, tenant=tenant, id=id)
        return conversation_in_row(rows[0]) if rows else None

    async def items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | ItemPosition | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Page[StoredItem]:
        behind = "at" if isinstance(after, ItemPosition) else None if after is None else "after"
        given: dict[str, object] = {"at": after.number} if isinstance(after, ItemPosition) else {"after": after}
        statement = self._of.items[behind, newest_first]
        rows, more = await self._page(statement, limit, tenant=tenant, conversation_id=conversation_id, **given)
        return Page(tuple([item_in_row(row) for row in rows]), more)

    async def item(self, tenant: str, conversation_id: str, id: str) -> StoredItem | None:
        rows = await self._rows(self._of.item, tenant=tenant, conversation_id=conversation_id, id=id)
        return item_in_row(rows[0]) if rows else None

    async def events(
        self, tenant: str, response_id: str, *, after: int = -1, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        rows, _ = await self._page(self._of.events, limit, tenant=tenant, response_id=response_id, after=after)
        return tuple([StoredEvent(number, data) for _, _, number, data, _ in rows])

    async def last_event(self, tenant: str, response_id: str) -> int:
        [(last,)] = await self._rows(self._of.last_event, tenant=tenant, response_id=response_id)
        return -1 if last is None else int(last)

    async def record(self, tenant: str, kind: str, id: str) -> StoredRecord | None:
        rows = await self._rows(self._of.record, tenant=tenant, kind=kind, id=id)
        return record_in_row(rows[0]) if rows else None

    async def records(
        self,
        tenant: str,
        kind: str,
        *,
        after: str | RecordPosition | None = None,
        limit: int = 100,
        newest_first: bool = True,
    ) -> Page[StoredRecord]:
        given: dict[str, object] = {}
        if after is not None:
            place = await self.record(tenant, kind, after) if isinstance(after, str) else after
            if place is None:
                return Page((), False)
            given = {"at": place.created_at, "after": place.id}
        statement = self._of.records[after is not None, newest_first]
        rows, more = await self._page(statement, limit, tenant=tenant, kind=kind, **given)
        return Page(tuple([record_in_row(row) for row in rows]), more)

    async def abandoned(self, kind: str, limit: int = 100) -> tuple[Owned, ...]:
        rows = await self._rows(self._of.abandoned(kind), kind=kind, limit=limit)
        return tuple([Owned(tenant, id) for tenant, id in rows])

    # ------------------------------------------------------------------------------------------------- a tenant as a whole

    async def export(self, tenant: str) -> AsyncIterator[Exported]:
        now = self._now()
        async for row in self._walk("responses", tenant):
            response = response_in_row(row)
            if response.expires_at is None or response.expires_at > now:
                parts = {"body": response.body, "input": response.input, "output": response.output}
                yield Exported("response", "", response.id, response.created_at, parts)
        async for _, response_id, *_ in self._walk("event_logs", tenant):
            after = -1
            while events := await self.events(tenant, response_id, after=after, limit=_EXPORTED):
                for event in events:
                    yield Exported("event", response_id, str(event.number), None, {"data": event.data})
                after = events[-1].number
        async for row in self._walk("conversations", tenant):
            head = conversation_in_row(row)
            if head.expires_at is None or head.expires_at > now:
                yield Exported("conversation", "", head.id, head.created_at, {"metadata": head.metadata})
                async for item in self._all_items(tenant, head.id):
                    yield Exported("item", head.id, item.id, item.created_at, {"body": item.body})
        async for row in self._walk("records", tenant):
            record = record_in_row(row)
            if record.expires_at is None or record.expires_at > now:
                yield Exported("record", record.kind, record.id, record.created_at, {"body": record.body})

    async def _all_items(self, tenant: str, conversation_id: str) -> AsyncIterator[StoredItem]:
        """The items of a conversation, from position to position: the last one that was read may be deleted meanwhile."""
        after, more = None, True
        while more:
            page = await self.items(tenant, conversation_id, after=after, limit=_EXPORTED)
            for item in page.data:
                yield item
            after, more = page.data[-1].position if page.data else after, page.has_more

    async def _walk(self, table: str, tenant: str) -> AsyncIterator[_Row]:
        """All rows of a tenant, some at a time. In each table the key stands first, with the tenant at its head."""
        after: dict[str, object] = {}
        more = True
        while more:
            statement = self._of.of_tenant(table, after=bool(after))
            rows, more = await self._page(statement, _EXPORTED, tenant=tenant, **after)
            for row in rows:
                yield row
            after = dict(zip(KEYS[table][1:], rows[-1][1:], strict=False)) if rows else {}

    async def close(self) -> None:
        """Finish what is being written and let go of files and connections."""
        await self._writer.close()
        await self._readers.close()


def _opened(
    place: SqlitePlace, names: Names, seconds: float, *, flush: bool, migrate: bool
) -> tuple[sqlite3.Connection, tuple[int, int] | None]:
    """The connection that writes, and which file it has open. Raises StoreFailed, and what is in `FAILURES`."""
    prepare_file(place.name, seconds, uri=place.path is None)
    opened, connection = place.found(), place.connected(seconds)
    try:
        connection.execute(f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
        bring_up_to_date(connection, names, allowed=migrate)
    except BaseException:
        connection.close()
        raise
    return connection, opened
