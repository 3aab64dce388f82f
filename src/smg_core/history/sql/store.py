"""A store in a database that speaks SQL (edge): PostgreSQL or Oracle, through SQLAlchemy.

Reads are single statements on connections that know no transaction; writes go through `group_commit`. Above: `opening`. Below:
`statements` and `writing`, which decide; `version`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from smg_core.clock import Clock
from smg_core.history.sql.bounds import SqlBounds
from smg_core.history.sql.failures import failures_of
from smg_core.history.sql.group_commit import GroupCommit
from smg_core.history.sql.statements import (
    Statements,
    conversation_of,
    item_of,
    link_of,
    record_of,
    response_of,
)
from smg_core.history.sql.store_write import StoreWrite
from smg_core.history.sql.tables import StoreTables
from smg_core.history.sql.version import SchemaVersion
from smg_core.history.sql.writing import Writing
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

if TYPE_CHECKING:
    from smg_core.history.sql.migrate import Migrations

__all__ = ["SqlStore"]

_EXPORTED = 200  # rows that an export reads at once
_HOLDING = 1000  # responses in which an item is looked for at once


class SqlStore:
    """A `Store` and `Upkeep` in SQL tables. Made by `open`."""

    def __init__(
        self, reading: AsyncEngine, writing: AsyncEngine, statements: Statements, clock: Clock, bounds: SqlBounds
    ) -> None:
        """`reading` makes connections in autocommit; `writing` such as begin a transaction that may write."""
        self._reading, self._engine = reading, writing
        self._now, self._bounds = clock.time, bounds
        self._of = statements
        self._do = Writing(self._of)
        self._commit = GroupCommit(writing, self._do, clock, bounds)

    @classmethod
    async def open(
        cls,
        reading: AsyncEngine,
        writing: AsyncEngine,
        tables: StoreTables,
        clock: Clock,
        bounds: SqlBounds,
        version: SchemaVersion,
    ) -> "SqlStore":
        """The store, its tables brought to the newest version. Raises StoreFailed where it cannot be opened; then the engines are
        disposed of."""
        try:
            with failures_of("opening the history"):
                async with reading.connect() as connection:
                    newest = await connection.run_sync(version.is_newest)
                if not newest:
                    await _migrate(reading, writing, await asyncio.to_thread(version.migrations))
            statements = await asyncio.to_thread(Statements, tables, writing.dialect.name)  # takes 20 ms
        except BaseException:
            await writing.dispose()
            await reading.dispose()
            raise
        return cls(reading, writing, statements, clock, bounds)

    def keeps(self, tenant: str, principal: str = "") -> bool:
        return True

    # ------------------------------------------------------------------------------------------------------------ writing

    async def write(
        self, tenant: str, operations: Sequence[StoreOperation], *, lease: Lease | None = None, principal: str = ""
    ) -> None:
        await self._commit.write(StoreWrite(tenant, operations, lease))

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        return await self._commit.job(
            lambda connection, now: self._do.acquire(connection, tenant, kind, id, owner, seconds, now)
        )

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        return await self._commit.job(lambda connection, now: self._do.renew(connection, tenant, lease, seconds, now))

    async def release(self, tenant: str, lease: Lease) -> None:
        await self._commit.job(lambda connection, now: self._do.release(connection, tenant, lease, now))

    async def erase(self, tenant: str) -> int:
        return await self._commit.job(lambda connection, now: self._do.erase(connection, tenant, now))

    async def sweep(self, limit: int = 1000) -> int:
        return await self._commit.job(lambda connection, now: self._do.sweep(connection, limit, now))

    # ------------------------------------------------------------------------------------------------------------ reading

    async def _rows(self, statement: sa.Select[Any], **given: object) -> Sequence[Any]:
        """Rows of a statement, with the parameters `given` and the time."""
        parameters = {f"{name}_": value for name, value in given.items()} | {"now_": self._now()}
        with failures_of("reading"):
            async with asyncio.timeout(self._bounds.timeout_s), self._reading.connect() as connection:
                found: Sequence[Any] = (await connection.execute(statement, parameters)).all()
        return found

    async def _page(self, statement: sa.Select[Any], limit: int, **given: object) -> tuple[Sequence[Any], bool]:
        """At most `limit` rows of a statement that measures before it loads, and whether there are more."""
        rows = await self._rows(statement, limit=limit + 1, most_bytes=self._bounds.page_bytes, **given)
        loaded = [row for row in rows if row.loaded_]
        return loaded, len(loaded) < len(rows)

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        rows = await self._rows(self._of.response, tenant=tenant, id=id)
        return response_of(rows[0]) if rows else None

    async def chain(self, tenant: str, id: str) -> Chain | None:
        most_links, most_bytes = self._bounds.chain_links, self._bounds.chain_bytes
        rows = await self._rows(self._of.chain, tenant=tenant, id=id, most_links=most_links, most_bytes=most_bytes)
        if not rows:
            return None
        if len({row.id for row in rows}) < len(rows):
            raise ChainBroken(id, "cycle")
        if len(rows) > most_links:
            raise ChainBroken(id, "too_long", most_links)
        if rows[-1].total > most_bytes:
            raise ChainBroken(id, "too_large", most_bytes)
        return Chain(tuple(link_of(row) for row in reversed(rows)), missing=rows[-1].previous_id)

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
        if not item_ids:
            return ()
        rows, _ = await self._page(self._of.holding, _HOLDING, tenant=tenant, item_ids=list(item_ids))
        return tuple(response_of(row) for row in rows)

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        rows = await self._rows(self._of.conversation, tenant=tenant, id=id)
        return conversation_of(rows[0]) if rows else None

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
        return Page(tuple(item_of(row) for row in rows), more)

    async def item(self, tenant: str, conversation_id: str, id: str) -> StoredItem | None:
        rows = await self._rows(self._of.item, tenant=tenant, conversation_id=conversation_id, id=id)
        return item_of(rows[0]) if rows else None

    async def events(
        self, tenant: str, response_id: str, *, after: int = -1, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        rows, _ = await self._page(self._of.events, limit, tenant=tenant, response_id=response_id, after=after)
        return tuple(StoredEvent(row.number, row.data) for row in rows)

    async def last_event(self, tenant: str, response_id: str) -> int:
        rows = await self._rows(self._of.last_event, tenant=tenant, response_id=response_id)
        return -1 if rows[0][0] is None else int(rows[0][0])

    async def record(self, tenant: str, kind: str, id: str) -> StoredRecord | None:
        rows = await self._rows(self._of.record, tenant=tenant, kind=kind, id=id)
        return record_of(rows[0]) if rows else None

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
        return Page(tuple(record_of(row) for row in rows), more)

    async def abandoned(self, kind: str, limit: int = 100) -> tuple[Owned, ...]:
        rows = await self._rows(self._of.abandoned(kind, limit, self._now()))
        return tuple(Owned(row.tenant, row.id) for row in rows)

    # ------------------------------------------------------------------------------------------------- a tenant as a whole

    async def export(self, tenant: str) -> AsyncIterator[Exported]:
        t, now = self._of.tables, self._now()
        async for row in self._walk(t.responses, tenant):
            if row.expires_at is None or row.expires_at > now:
                parts = {"body": row.body, "input": row.input, "output": row.output}
                yield Exported("response", "", row.id, row.created_at, parts)
        async for row in self._walk(t.event_logs, tenant):
            after = -1
            while events := await self.events(tenant, row.response_id, after=after, limit=_EXPORTED):
                for event in events:
                    yield Exported("event", row.response_id, str(event.number), None, {"data": event.data})
                after = events[-1].number
        async for row in self._walk(t.conversations, tenant):
            if row.expires_at is None or row.expires_at > now:
                yield Exported("conversation", "", row.id, row.created_at, {"metadata": row.metadata})
                async for item in self._all_items(tenant, row.id):
                    yield Exported("item", row.id, item.id, item.created_at, {"body": item.body})
        async for row in self._walk(t.records, tenant):
            if row.expires_at is None or row.expires_at > now:
                yield Exported("record", row.kind, row.id, row.created_at, {"body": row.body})

    async def _all_items(self, tenant: str, conversation_id: str) -> AsyncIterator[StoredItem]:
        """The items of a conversation, from position to position: the last one that was read may be deleted meanwhile."""
        after, more = None, True
        while more:
            page = await self.items(tenant, conversation_id, after=after, limit=_EXPORTED)
            for item in page.data:
                yield item
            after, more = page.data[-1].position if page.data else after, page.has_more

    async def _walk(self, table: sa.Table, tenant: str) -> AsyncIterator[Any]:
        """All rows of a tenant, some at a time."""
        keys = [column.key for column in table.primary_key if column.key != "tenant"]
        after = None
        more = True
        while more:
            rows, more = await self._page(self._of.of_tenant(table, tenant, after), _EXPORTED)
            for row in rows:
                yield row
            after = tuple(getattr(rows[-1], key) for key in keys) if rows else None

    async def close(self) -> None:
        """Finish what is being written and let go of files and connections."""
        await self._commit.close()
        await self._engine.dispose()
        await self._reading.dispose()


async def _migrate(reading: AsyncEngine, writing: AsyncEngine, migrations: "Migrations") -> None:
    """Bring the tables to the newest version. Raises StoreFailed where that is not allowed, or the code does not know theirs."""
    async with reading.connect() as connection:
        outdated = await connection.run_sync(migrations.outdated)
    if outdated:
        async with writing.begin() as connection:
            await connection.run_sync(migrations.run)
