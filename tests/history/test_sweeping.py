"""A sweep deletes what has expired at the moment in which it is deleted, and nothing that another process keeps anew meanwhile.

In PostgreSQL a process may write between any two statements of another; its statements are played in SQLite here, with a write
put between them. SQLite has one writer at a time, and its own statements do the same. What Redis does is in test_redis.py.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
import sqlalchemy as sa
from tests.history.conformance import conversation, item, record, response
from tests.history.conftest import opens_sql

from smg_core.history.sql.names import Names
from smg_core.history.sql.statements import Statements
from smg_core.history.sql.store_write import StoreWrite
from smg_core.history.sql.tables import StoreTables
from smg_core.history.sql.writing import Writing
from smg_core.history.sqlite.schema import bring_up_to_date
from smg_core.history.sqlite.statements import SqliteStatements
from smg_core.history.sqlite.writing import SqliteWriting
from smg_core.history.store.base import LEASE_KEPT_S, AppendEvents, AppendItems, StoredEvent, StoreOperation
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio


@attrs.frozen
class Thing:
    """What expires: its table, that of what belongs to it, and how it is written."""

    table: str
    parts: str | None
    made: Callable[[FakeClock, float], list[StoreOperation]]


THINGS = [
    Thing(
        "responses",
        "response_items",
        lambda clock, until: [response(clock, expires_at=until, item_ids=("msg_1",))],
    ),
    Thing(
        "conversations",
        "items",
        lambda clock, until: [
            conversation(clock, expires_at=until),
            AppendItems("conv_1", (item(clock, "msg_1"),)),
        ],
    ),
    Thing("event_logs", "events", lambda clock, until: [AppendEvents("resp_1", (StoredEvent(1, b"{}"),), until)]),
    Thing("records", None, lambda clock, until: [record(clock, "r", expires_at=until)]),
]
AFTER = LEASE_KEPT_S + 20
things = pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.table)


def counts(connection: sa.Connection, tables: StoreTables) -> dict[str, int]:
    return {
        name: connection.execute(sa.select(sa.func.count()).select_from(getattr(tables, name))).scalar_one()
        for name in ("responses", "response_items", "conversations", "items", "event_logs", "events", "records")
    }


def kept(thing: Thing) -> dict[str, int]:
    return {thing.table: 1} if thing.parts is None else {thing.table: 1, thing.parts: 1}


@pytest.fixture
def tables() -> StoreTables:
    return StoreTables(Names())


@pytest.fixture
def connection(tables: StoreTables) -> Any:
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        tables.metadata.create_all(connection)
        yield connection
    engine.dispose()


class InSqlite:
    """SQLite's own writing, over a connection between whose statements another may write."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, factory=Overtaken)
        bring_up_to_date(self.connection, Names(), allowed=True)
        self.writing = SqliteWriting(SqliteStatements(Names()))

    def counts(self) -> dict[str, int]:
        tables = ("responses", "response_items", "conversations", "items", "event_logs", "events", "records")
        found = {each: self.connection.execute(f"SELECT count(*) FROM smg_{each}").fetchone()[0] for each in tables}
        return {name: count for name, count in found.items() if count}


class Overtaken(sqlite3.Connection):
    """Has `waiting` done once, before rows of `table` are deleted."""

    table = ""
    waiting: list[Callable[[], object]] = []  # noqa: RUF012

    def _look(self, statement: str) -> None:
        if self.waiting and statement.startswith(f'DELETE FROM "smg_{self.table}" '):
            self.waiting.pop()()

    def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
        self._look(statement)
        return super().execute(statement, *given)

    def executemany(self, statement: str, *given: Any) -> sqlite3.Cursor:
        self._look(statement)
        return super().executemany(statement, *given)


@pytest.fixture
def sqlite() -> Iterator[InSqlite]:
    found = InSqlite()
    yield found
    found.connection.close()


@things
def test_in_sqlite_too_what_is_kept_anew_before_it_is_deleted_stays_whole(
    sqlite: InSqlite, clock: FakeClock, thing: Thing
) -> None:
    def keep() -> None:
        sqlite.writing.alone(
            sqlite.connection, StoreWrite("t", thing.made(clock, clock.time() + 10), None), clock.time()
        )

    keep()
    clock.advance(20)
    sqlite.connection.table, sqlite.connection.waiting = thing.table, [keep]
    sqlite.writing.sweep(sqlite.connection, 10, clock.time())

    assert sqlite.counts() == kept(thing)
    assert sqlite.connection.waiting == []
    clock.advance(20)
    assert sqlite.writing.sweep(sqlite.connection, 10, clock.time()) == 1
    assert sqlite.counts() == {}


def before_first_delete(connection: sa.Connection, table: str, do: Callable[[], object]) -> None:
    """Have `do` done once, before rows of `table` are deleted."""
    waiting = [do]

    def overtaken(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(f"DELETE FROM smg_{table} ") and waiting:
            waiting.pop()()

    sa.event.listen(connection, "before_cursor_execute", overtaken)


@things
def test_what_is_kept_anew_before_it_is_deleted_stays_whole(
    connection: sa.Connection, tables: StoreTables, clock: FakeClock, thing: Thing
) -> None:
    writing = Writing(Statements(tables, "sqlite"))

    def keep() -> None:
        write = StoreWrite("t", thing.made(clock, clock.time() + 10), None)
        writing.alone(connection, write, clock.time())

    keep()
    clock.advance(20)
    before_first_delete(connection, thing.table, keep)
    writing.sweep(connection, 10, clock.time())

    found = {name: count for name, count in counts(connection, tables).items() if count}
    assert found == kept(thing)
    clock.advance(20)
    assert writing.sweep(connection, 10, clock.time()) == 1
    assert not any(counts(connection, tables).values())


def test_a_lease_that_is_taken_before_it_is_deleted_is_held(
    connection: sa.Connection, tables: StoreTables, clock: FakeClock
) -> None:
    writing = Writing(Statements(tables, "sqlite"))
    first = writing.acquire(connection, "t", "batch", "b", "one", 10.0, clock.time())
    clock.advance(AFTER)
    taken = []
    before_first_delete(
        connection,
        "leases",
        lambda: taken.append(writing.acquire(connection, "t", "batch", "b", "two", 10.0, clock.time())),
    )
    writing.sweep(connection, 10, clock.time())

    assert first is not None
    (second,) = taken
    assert second.token == first.token + 1
    assert writing.renew(connection, "t", second, 10.0, clock.time()).owner == "two"


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@things
async def test_a_sweep_passes_over_what_another_process_is_writing_and_does_not_wait(
    postgresql: str, schema: str, clock: FakeClock, thing: Thing
) -> None:
    opened = opens_sql(postgresql, Names(prefix=f"{schema}_"), clock)
    async with opened() as store, opened() as other:
        await store.write("t", thing.made(clock, clock.time() + 10))
        clock.advance(20)
        again = StoreWrite("t", thing.made(clock, clock.time() + 10), None)
        async with other._engine.begin() as writing:  # type: ignore[attr-defined]
            await writing.run_sync(other._do.alone, again, clock.time())  # type: ignore[attr-defined]
            assert await store.sweep() == 0
        async with other._reading.connect() as reading:  # type: ignore[attr-defined]
            found = await reading.run_sync(counts, other._of.tables)  # type: ignore[attr-defined]
        assert {name: count for name, count in found.items() if count} == kept(thing)
        clock.advance(20)
        assert await store.sweep() == 1


async def test_of_two_sweeps_at_once_each_deletes_what_the_other_leaves(
    postgresql: str, schema: str, clock: FakeClock
) -> None:
    opened = opens_sql(postgresql, Names(prefix=f"{schema}_"), clock)
    async with opened() as store, opened() as other:
        until = clock.time() + 10
        await store.write("t", [record(clock, f"r_{number}", expires_at=until) for number in range(6)])
        clock.advance(20)
        async with other._engine.begin() as sweeping:  # type: ignore[attr-defined]
            assert await sweeping.run_sync(other._do.sweep, 4, clock.time()) == 4  # type: ignore[attr-defined]
            assert await store.sweep() == 2
        assert await store.sweep() == 0
        assert (await store.records("t", "batch")).data == ()
