"""The thread in which a history in SQLite is written: one transaction for what comes together, there and back once, no hang."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.history.conformance import conversation, record, response
from tests.history.conftest import opens_sqlite

from smg_core.errors import StoreFailed
from smg_core.history.sql.names import Names
from smg_core.history.sqlite.store import SqliteStore
from smg_core.history.store.base import AppendEvents, PutRecord, StaleVersion, StoredEvent, StoredRecord
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio

SOON = 0.05
"""Seconds that a store waits for what does not come."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/history.db"


def traced(store: SqliteStore) -> list[str]:
    """What the thread asks SQLite from now on."""
    asked: list[str] = []
    store._writer._connection.set_trace_callback(asked.append)
    return asked


class Counting:
    """The ways to the thread and back of a writer."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there = self.back = 0
        writer, loop = store._writer, asyncio.get_running_loop()
        put, call = writer._asked.put, loop.call_soon_threadsafe

        def asked(works: Any) -> None:
            self.there += 1
            put(works)

        def answered(*given: Any) -> Any:
            self.back += 1
            return call(*given)

        class Queue:
            get, put = writer._asked.get, staticmethod(asked)

        monkeypatch.setattr(writer, "_asked", Queue)
        monkeypatch.setattr(loop, "call_soon_threadsafe", answered)


async def test_a_stored_response_goes_to_one_thread_once_and_back(
    url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opens_sqlite(url, Names(), clock)() as store:
        before = threading.active_count()
        ways = Counting(store, monkeypatch)  # type: ignore[arg-type]
        for number in range(3):
            await store.write("acme", [response(clock, f"resp_{number}", item_ids=("msg_1", "msg_2"))])

        assert (ways.there, ways.back) == (3, 3)
        assert threading.active_count() == before


async def test_what_comes_in_one_turn_is_one_transaction_and_its_rows_one_statement_for_each_table(
    url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opens_sqlite(url, Names(), clock)() as store:
        ways, asked = Counting(store, monkeypatch), traced(store)  # type: ignore[arg-type]
        await asyncio.gather(
            *(store.write("acme", [response(clock, f"resp_{number}", item_ids=("msg_1",))]) for number in range(20))
        )
        plain = [each for each in asked if not each.startswith(("INSERT", "DELETE"))]

        assert (ways.there, ways.back) == (1, 1)
        assert plain == ["BEGIN IMMEDIATE", "COMMIT"]
        assert len(asked) == 2 + 3 * 20  # none of them is asked for itself


async def test_a_write_that_cannot_be_done_fails_alone(url: str, clock: FakeClock) -> None:
    broken = PutRecord(StoredRecord(kind="note", id="\ud800", body=b"1", created_at=0.0))
    large = AppendEvents("resp_1", (StoredEvent(1 << 70, b"{}"),))
    async with opens_sqlite(url, Names(), clock)() as store:
        writes = [[record(clock, "a")], [broken], [large], [record(clock, "b", if_version=7)], [record(clock, "c")]]
        outcomes = await asyncio.gather(*(store.write("acme", each) for each in writes), return_exceptions=True)

        assert [type(each) for each in outcomes] == [type(None), StoreFailed, StoreFailed, StaleVersion, type(None)]
        assert [each.id for each in (await store.records("acme", "batch")).data] == ["c", "a"]


async def test_one_who_leaves_before_the_transaction_writes_nothing_and_takes_no_room(
    url: str, clock: FakeClock
) -> None:
    async with opens_sqlite(url, Names(), clock, waiting_bytes=10)() as store:
        leaving = asyncio.create_task(store.write("acme", [record(clock, "a", body=b"0123456789")]))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await store.write("acme", [record(clock, "b", body=b"0123456789")])

        assert await store.record("acme", "batch", "a") is None
        assert await store.record("acme", "batch", "b") is not None


async def test_a_file_that_another_process_holds_is_no_answer_in_time_and_written_when_it_is_free(
    url: str, clock: FakeClock, tmp_path: Path
) -> None:
    async with opens_sqlite(url, Names(), clock, timeout_s=SOON)() as store:
        other = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        outcomes = await asyncio.gather(
            *(store.write("acme", [record(clock, id)]) for id in "ab"), return_exceptions=True
        )
        assert [(type(each), each.reason) for each in outcomes] == [(StoreFailed, "unreachable")] * 2  # type: ignore[union-attr]
        assert [str(each.detail) for each in outcomes] == ["writing: no answer in time (history.timeout_s)"] * 2  # type: ignore[union-attr]
        other.execute("COMMIT")
        other.close()
        while True:
            try:
                await store.write("acme", [conversation(clock)])
            except StoreFailed:  # the time of the machine, which may be busy
                continue
            break
        assert await store.conversation("acme", "conv_1") is not None


async def test_a_thread_that_does_not_come_back_keeps_nobody_waiting_and_does_not_keep_the_store_open(
    url: str, clock: FakeClock
) -> None:
    hangs = threading.Event()
    async with opens_sqlite(url, Names(), clock, timeout_s=SOON)() as store:
        await store.write("acme", [record(clock, "a")])
        stuck = asyncio.create_task(store._writer.job(lambda connection, now: hangs.wait()))  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(store.write("acme", [record(clock, "b")])) for _ in range(3)]
        outcomes = await asyncio.gather(stuck, *waiting, return_exceptions=True)
        assert [type(each) for each in outcomes] == [StoreFailed] * 4
        assert await store.record("acme", "batch", "a") is not None
    hangs.set()


async def test_a_thread_that_ends_by_a_fault_of_ours_answers_those_who_wait(
    url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda failed: None)
    async with opens_sqlite(url, Names(), clock)() as store:

        def fault(connection: sqlite3.Connection, now: float) -> None:
            raise LookupError("a fault")

        with pytest.raises(StoreFailed, match="the writing has ended"):
            await store._writer.job(fault)  # type: ignore[attr-defined]
        with pytest.raises(StoreFailed, match="it is closing"):
            await store.write("acme", [record(clock, "a")])


async def test_a_store_that_is_closed_says_so_to_readers_and_writers(url: str, clock: FakeClock) -> None:
    async with opens_sqlite(url, Names(), clock)() as store:
        pass
    await store.close()
    with pytest.raises(StoreFailed, match="closed"):
        await store.record("acme", "batch", "a")
    with pytest.raises(StoreFailed, match="it is closing"):
        await store.write("acme", [record(clock, "a")])


async def test_a_read_that_takes_too_long_is_ended(url: str, clock: FakeClock) -> None:
    forever = "WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT count(*) FROM n"
    async with opens_sqlite(url, Names(), clock, timeout_s=SOON)() as store:
        with pytest.raises(StoreFailed, match=r"no answer in time \(history\.timeout_s\)"):
            await store._readers.read(lambda connection: connection.execute(forever).fetchall())  # type: ignore[attr-defined]
