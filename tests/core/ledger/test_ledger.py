"""The ledger of one process and its stores: every sum is written once, whatever fails, and what is dropped is told."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import add
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import PATIENCE

from smg_core.channel.local import LocalChannel
from smg_core.config.ledger import ledger_problems
from smg_core.errors import InvalidRequest, StoreFailed
from smg_core.events import Usage
from smg_core.history.settings import HistoryConfig
from smg_core.hooks import LedgerDropped, Moment
from smg_core.ledger.accounts import HOUR_S, NOTHING, Account, Amounts, Sums, amounts_of, in_store
from smg_core.ledger.keeping import Ledger
from smg_core.ledger.opening import ledger_store, ledger_url
from smg_core.ledger.queries import UsageQuery, read_query
from smg_core.ledger.settings import LedgerConfig
from smg_core.ledger.statements import LedgerStatements
from smg_core.ledger.store import LedgerFailed, LedgerStore, SumsBatch
from smg_core.settings import ConfigError
from smg_core.testing import FakeClock
from smg_core.usage_report import UsageReport

pytestmark = pytest.mark.anyio

NOON = 1_700_049_600 // HOUR_S
ALICE = Account(NOON, "acme", "search", "one", "alice", "sim", "chat", "w1", "vllm")
BOB = ALICE._replace(user="bob")
ONE = Amounts(1, 0, 0, 10, 4, 0, 5, 2, money=70)
ALL = UsageQuery((0, 10**6))
LAZY = LedgerConfig(write_s=3600.0)


class Heard:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def report(self, moment: Moment) -> None:
        self.moments.append(moment)


class Faulty:
    """A store whose writes fail as they are told to: before anything was done, or after all was."""

    def __init__(self, store: LedgerStore) -> None:
        self._store, self.faults = store, list[str]()
        self.open, self.read, self.forget = store.open, store.read, store.forget
        self.sweep, self.close = store.sweep, store.close

    async def write(self, batch: SumsBatch, now: int) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise LedgerFailed("unreachable", "it is away")
        await self._store.write(batch, now)
        if fault == "after":
            raise LedgerFailed("unreachable", "its answer was lost")


def store_at(url: str) -> LedgerStore:
    return ledger_store(LedgerConfig(url=url), HistoryConfig())


@asynccontextmanager
async def ledger_in(
    store: LedgerStore, settings: LedgerConfig = LAZY, channel: LocalChannel | None = None
) -> AsyncIterator[Ledger]:
    ledger = Ledger(store, settings, FakeClock(epoch=NOON * HOUR_S), Heard(), channel or LocalChannel())
    async with ledger.opened():
        yield ledger


@given(st.lists(st.sampled_from(["add", "flush", "before", "after"]), max_size=30))
def test_every_sum_is_written_once_however_the_store_fails(does: list[str]) -> None:
    async def played() -> tuple[UsageReport, int]:
        store, added = Faulty(store_at("memory:")), 0
        async with ledger_in(store) as ledger:
            for each in does:
                if each == "add":
                    ledger.add(ALICE if added % 2 else BOB, ONE)
                    added += 1
                elif each == "flush":
                    try:
                        await ledger.flush()
                    except StoreFailed:
                        continue
                else:
                    store.faults.append(each)
            store.faults.clear()
            return await ledger.read(ALL), added

    report, added = asyncio.run(played())

    assert sum(row.requests for row in report.data) == added


async def test_a_store_that_fails_to_the_end_loses_what_waits_and_says_how_much() -> None:
    store, heard = Faulty(store_at("memory:")), Heard()
    ledger = Ledger(store, LedgerConfig(write_s=3600.0, waiting=1), FakeClock(), heard, LocalChannel())
    async with ledger.opened():
        ledger.add(ALICE, ONE)
        ledger.add(BOB, ONE)  # for whom there is no room
        store.faults = ["before"] * 9
    ledger.add(ALICE, ONE)  # when it is over

    assert [each.requests for each in heard.moments if isinstance(each, LedgerDropped)] == [1, 1, 1]


async def test_two_processes_with_one_file_add_up_and_hash_users_alike(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/accounts.db"
    async with ledger_in(store_at(url)) as one, ledger_in(store_at(url)) as other:
        for ledger in (one, other) * 20:
            ledger.add(ALICE._replace(user=ledger.user("acme", "alice")), ONE)
            await asyncio.gather(one.flush(), other.flush())
        report = await one.read(UsageQuery((0, 10**6), by=("user",)))

    assert [row.requests for row in report.data] == [40]
    assert "alice" not in str(report.data)
    assert (tmp_path / "accounts.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("fault", ["", "before", "after"])
async def test_who_is_forgotten_is_so_in_what_other_processes_have_not_written(tmp_path: Path, fault: str) -> None:
    url, channel = f"sqlite:///{tmp_path}/accounts.db", LocalChannel()
    plain = LedgerConfig(write_s=3600.0, users="plain")
    store = Faulty(store_at(url))
    async with ledger_in(store_at(url), plain, channel) as one, ledger_in(store, plain, channel) as other:
        for ledger in (one, other):
            ledger.add(ALICE, ONE)
            ledger.add(BOB, ONE)
        if fault:
            store.faults.append(fault)
            with pytest.raises(StoreFailed):
                await other.flush()
        await one.forget("acme", "alice")
        await other.flush()
        report = await one.read(UsageQuery((0, 10**6), by=("user",)))

    assert [(row.user, row.requests) for row in report.data] == [("", 2), ("bob", 2)]


async def test_who_is_forgotten_is_so_however_users_were_and_are_written_down(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/accounts.db"
    for forgets in ("hashed", "plain", "none"):
        for kind in ("hashed", "plain", "none"):
            async with ledger_in(store_at(url), LedgerConfig(write_s=3600.0, users=kind)) as ledger:
                ledger.add(ALICE._replace(user=ledger.user("acme", "alice")), ONE)
        async with ledger_in(store_at(url), LedgerConfig(write_s=3600.0, users=forgets)) as ledger:
            assert (await ledger.read(UsageQuery((0, 10**6), only=(("user", ledger.sought("acme", "alice")),)))).data
            await ledger.forget("acme", "alice")
            report = await ledger.read(UsageQuery((0, 10**6), by=("user",)))
            await ledger.forget("acme", None)

        assert [(row.user, row.requests) for row in report.data] == [("", 3)]


async def test_who_is_forgotten_while_the_store_fails_is_so_when_it_is_back(tmp_path: Path) -> None:
    channel, forgets = LocalChannel(), list[str]()
    plain, store = LedgerConfig(write_s=3600.0, users="plain"), Faulty(store_at(f"sqlite:///{tmp_path}/accounts.db"))

    async def forget(tenant: str, user: str | None) -> None:
        forgets.append("away")
        if len(forgets) < 3:
            raise LedgerFailed("unreachable", "it is away")
        await erase(tenant, user)

    erase, store.forget = store.forget, forget
    async with ledger_in(store, plain, channel) as ledger:
        ledger.add(ALICE, ONE)
        store.faults.append("after")
        with pytest.raises(StoreFailed):
            await ledger.flush()
        for change in (ledger.forget("acme", "alice"), ledger.flush()):
            with pytest.raises(StoreFailed):
                await change
        await ledger.flush()  # nothing but this waits
        report = await ledger.read(UsageQuery((0, 10**6), by=("user",)))

    assert [(row.user, row.requests) for row in report.data] == [("", 1)]


async def test_a_reader_does_not_wait_for_what_is_added_after_it_asked() -> None:
    store, written = Faulty(store_at("memory:")), list[int]()
    async with ledger_in(store) as ledger:

        async def write(batch: SumsBatch, now: int) -> None:
            written.append(len(batch.rows))
            assert len(written) == 1, "what came later is for the next time"
            ledger.add(BOB, ONE)
            await really(batch, now)

        really, store.write = store.write, write  # type: ignore[method-assign]
        ledger.add(ALICE, ONE)
        report = await ledger.read(ALL)
        store.write = really  # type: ignore[method-assign]

    assert [row.requests for row in report.data] == [1]


async def test_nothing_is_dropped_where_the_store_can_keep_up_however_many_users_there_are() -> None:
    store, heard = store_at("memory:"), Heard()
    ledger = Ledger(store, LedgerConfig(write_s=3600.0, waiting=20), FakeClock(), heard, LocalChannel())
    async with ledger.opened(), asyncio.timeout(PATIENCE):
        for number in range(100):
            ledger.add(ALICE._replace(user=str(number)), ONE)
            while len(ledger._sums) > 10:
                await asyncio.sleep(0)
        assert [row.requests for row in (await ledger.read(ALL)).data] == [100]

    assert heard.moments == []


async def test_however_many_ask_nothing_else_waits_for_a_thread_and_none_waits_for_ever(tmp_path: Path) -> None:
    settings = LedgerConfig(url=f"sqlite:///{tmp_path}/accounts.db", write_s=3600.0, timeout_s=0.3)
    store = ledger_store(settings, HistoryConfig())
    async with ledger_in(store, settings) as ledger, asyncio.timeout(PATIENCE):
        ledger.add(ALICE, ONE)
        await ledger.flush()
        long_text = (
            "WITH RECURSIVE m(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM m LIMIT 40000000) SELECT count(*) FROM m"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LedgerStatements, "read", lambda *_: (long_text, ()))
            asking = [asyncio.create_task(ledger.read(ALL)) for _ in range(50)]
            await asyncio.sleep(0)
            await asyncio.to_thread(asking.copy)
            assert not any(each.done() for each in asking)
            found = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(each, LedgerFailed) for each in found)
        assert [row.requests for row in (await ledger.read(ALL)).data] == [1]


async def test_a_file_that_is_replaced_is_not_written_to_as_if_it_were_there(tmp_path: Path) -> None:
    path = tmp_path / "accounts.db"
    async with ledger_in(store_at(f"sqlite:///{path}")) as ledger:
        path.unlink()
        sqlite3.connect(path).close()
        ledger.add(ALICE, ONE)
        with pytest.raises(StoreFailed, match="not available"):
            await ledger.flush()


async def test_accounts_of_long_ago_are_deleted(tmp_path: Path) -> None:
    store, clock = store_at("memory:"), FakeClock(epoch=NOON * HOUR_S)
    ledger = Ledger(store, LedgerConfig(write_s=0.01, kept_s=3600.0), clock, Heard(), LocalChannel())
    async with ledger.opened(), asyncio.timeout(PATIENCE):
        ledger.add(ALICE._replace(hour=NOON - 2), ONE)
        ledger.add(ALICE, ONE)
        await ledger.flush()
        clock.advance(2)
        while len((await ledger.read(UsageQuery((0, 10**6), None))).data) > 1:
            clock.advance(HOUR_S / 100)
            await asyncio.sleep(0.01)


@given(st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.integers(0, 2**41), st.integers(-5, 2**70)), max_size=9))
def test_sums_are_those_of_all_that_was_added_and_no_engine_makes_them_overflow(
    rows: list[tuple[Account, int, int]],
) -> None:
    found, wanted = Sums(2), NOTHING
    for account, read, written in rows:
        amounts = amounts_of(Usage(read, written), None, failed=False)
        found.add(account, amounts)
        wanted = Amounts(*map(add, wanted, amounts))

    assert found.total == wanted
    assert all(0 <= each < 2**63 for each in wanted)
    assert len(found.take(1)) + len(found) == len({account for account, *_ in rows})


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"every": ["year"]}, "every"),
        ({"by": ["worker"]}, "by"),
        ({"from": ["yesterday"]}, "from"),
        ({"from": ["-1"]}, "from"),
        ({"from": ["20231301"]}, "from"),
        ({"from": ["99999999999999"]}, "from"),
        ({"to": ["1970-01-01"], "from": ["1971-01-01"]}, "from"),
        ({"limit": ["0"]}, "limit"),
        ({"after": ["²"]}, "after"),
        ({"every": ["day"], "from": ["0"], "to": ["9990-01-01"]}, "every"),
        ({"tenant": ["other"]}, "tenant"),
    ],
)
def test_a_question_that_is_none_is_refused_with_the_name_of_what_is_wrong(
    query: dict[str, list[str]], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_query(query, ("key", "model"), 0.0, "UTC", {"tenant": "acme"})

    assert refused.value.param == param


def test_a_date_without_dashes_is_one() -> None:
    plain, dashed = (read_query({"from": [text]}, (), NOON * HOUR_S, "UTC", {}) for text in ("20231101", "2023-11-01"))

    assert plain == dashed


def test_steps_are_the_windows_of_the_calendar_in_the_zone() -> None:
    asked = {"every": ["day"], "by": ["model,key"], "from": ["2026-10-24T22:00:00Z"], "to": ["2026-10-26T23:00:00Z"]}
    found = read_query(asked, ("key", "model"), 0.0, "Europe/Berlin", {"tenant": "acme"})

    assert found.steps is not None
    assert [end - start for start, end in found.steps] == [25, 24]
    assert found.by == ("model", "key")
    assert found.only == (("tenant", "acme"),)


def test_the_accounts_are_beside_the_history_where_that_can_have_them() -> None:
    def beside(url: str | None) -> str:
        return ledger_url(LedgerConfig(), HistoryConfig(url=url))

    assert beside("sqlite:///a.db") == "sqlite:///a.db"
    assert beside("postgresql://h/d") == "postgresql://h/d"
    assert [beside(each) for each in (None, "memory:", "redis://h", "oracle://h")] == ["memory:"] * 4
    for wrong in ("redis://h", "sqlite:x", "a.db"):
        with pytest.raises(ConfigError, match=r"ledger\.url"):
            store_at(wrong)


async def test_what_cannot_be_written_as_it_is_has_escapes() -> None:
    async with ledger_in(store_at("memory:"), LedgerConfig(write_s=3600.0, users="plain")) as ledger:
        for text in ("a\0b", "\ud800", "x" * 300):
            ledger.add(ALICE._replace(user=ledger.user("acme", text), key=in_store(text)), ONE)
            query = read_query({"key": [text], "from": ["0"]}, ("key",), NOON * HOUR_S, "UTC", {})
            assert [row.requests for row in (await ledger.read(query)).data] == [1]
        assert (await ledger.read(ALL)).data[0].requests == 3
        assert ledger.user("acme", "alice") == "alice"


@pytest.mark.parametrize(
    ("url", "history", "processes", "wrong"),
    [
        (None, None, 4, False),  # `serve` has a file for both
        (None, "sqlite:///a.db", 4, False),
        ("memory:", None, 1, False),
        ("memory:", None, 4, True),
        (None, "redis://h", 4, True),
        ("redis://h", None, 1, True),
        ("redis://h", None, 4, True),
    ],
)
def test_a_place_that_cannot_have_the_ledger_is_told_at_the_start(
    url: str | None, history: str | None, processes: int, wrong: bool
) -> None:
    off, on = LedgerConfig(url=url), LedgerConfig(url=url, enabled=True)

    assert list(ledger_problems(off, HistoryConfig(url=history), processes)) == []
    found = list(ledger_problems(on, HistoryConfig(url=history), processes))
    assert [each.startswith("ledger.url: ") for each in found] == [True] * len(found)
    assert bool(found) == wrong
