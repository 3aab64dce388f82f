"""A store that is opened when it is first used: once for all who come, anew after a failure, and by every method."""

import asyncio
import inspect
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import make_url
from tests.history.conformance import record, response

from smg_core.errors import SmgError, StoreFailed
from smg_core.history.deferred import DeferredStore
from smg_core.history.guard import Backend
from smg_core.history.memory.store import MemoryStore
from smg_core.history.opening import open_history, unopened_history
from smg_core.history.settings import HistoryConfig
from smg_core.history.sql.names import Names
from smg_core.history.sql.sqlite_file import SqliteFile, file_of
from smg_core.history.store.base import KEYS_OWNER, SERVED_MODELS, Lease, Store, Upkeep
from smg_core.settings import ConfigError
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio


@attrs.define
class Opening:
    """Opens a store in memory when it is let. `failures` are what its next tries fail with."""

    clock: FakeClock
    failures: list[Exception] = attrs.field(factory=list)
    tries: int = 0
    may: asyncio.Event = attrs.field(factory=asyncio.Event)
    made: list["Closing"] = attrs.field(factory=list)

    async def __call__(self) -> Backend:
        self.tries += 1
        await self.may.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.made.append(in_memory(self.clock))
        return self.made[-1]


class Closing(MemoryStore):
    """A store in memory that says whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


def in_memory(clock: FakeClock) -> Closing:
    return Closing(clock, most_bytes=1 << 20, most_links=9, most_link_bytes=1 << 20, most_page_bytes=1 << 20)


@pytest.fixture
def opening(clock: FakeClock) -> Opening:
    return Opening(clock)


LEASE = Lease(kind="batch", id="a", owner="me", token=1, expires_at=0.0)
CALLS: dict[str, tuple[Any, ...]] = {
    "write": ("", ()),
    "response": ("", "a"),
    "chain": ("", "a"),
    "holding": ("", ["a"]),
    "conversation": ("", "a"),
    "items": ("", "a"),
    "item": ("", "a", "b"),
    "events": ("", "a"),
    "last_event": ("", "a"),
    "record": ("", "batch", "a"),
    "records": ("", "batch"),
    "acquire": ("", "batch", "a", "me", 9.0),
    "renew": ("", LEASE, 9.0),
    "release": ("", LEASE),
    "export": ("",),
    "erase": ("",),
    "abandoned": ("response",),
    "sweep": (),
}
METHODS = sorted({name for role in (Store, Upkeep) for name in vars(role) if not name.startswith("_")})


async def done(backend: Backend, method: str) -> Any:
    """What a method says, and what it raises."""
    called = getattr(backend, method)(*CALLS[method])
    try:
        return [each async for each in called] if method == "export" else await called
    except SmgError as error:
        return type(error)


def test_every_method_of_a_store_is_called_here() -> None:
    assert {*CALLS, "keeps", "close"} == set(METHODS)
    for name in METHODS:
        role = Store if name in vars(Store) else Upkeep
        assert inspect.signature(getattr(DeferredStore, name)) == inspect.signature(getattr(role, name)), name


@pytest.mark.parametrize("method", CALLS)
async def test_any_method_opens_the_store_and_says_what_the_store_says(
    method: str, opening: Opening, clock: FakeClock
) -> None:
    opening.may.set()
    store = DeferredStore(opening)

    assert await done(store, method) == await done(in_memory(clock), method)
    assert store.is_open


async def test_all_who_use_it_at_once_open_it_once(opening: Opening) -> None:
    store = DeferredStore(opening)
    told: list[Backend] = []
    store.when_open(told.append)
    uses = [asyncio.create_task(done(store, method)) for method in CALLS]
    await asyncio.sleep(0)
    assert not store.is_open
    opening.may.set()
    await asyncio.gather(*uses)

    assert opening.tries == 1
    assert told == opening.made


async def test_a_failure_is_that_of_each_who_waits_and_the_next_tries_again(opening: Opening) -> None:
    opening.failures = [
        StoreFailed("full", "no room", outside_text="no room"),
        ConfigError("gone"),
        ImportError("no driver"),
    ]
    opening.may.set()
    store = DeferredStore(opening)
    first = await asyncio.gather(*(store.response("", "a") for _ in range(3)), return_exceptions=True)
    assert [(type(each), each.reason, each.detail) for each in first] == [(StoreFailed, "full", "no room")] * 3  # type: ignore[union-attr]
    assert len(set(map(id, first))) == 3
    for outside_text in ("gone", "no driver"):
        with pytest.raises(StoreFailed, match=outside_text):
            await store.response("", "a")

    assert await store.response("", "a") is None
    assert opening.tries == 4


async def test_one_who_leaves_does_not_end_the_opening(opening: Opening) -> None:
    store = DeferredStore(opening)
    leaving, staying = (asyncio.create_task(store.response("", "a")) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    opening.may.set()

    assert leaving.cancelled()
    assert await staying is None
    assert opening.tries == 1


async def test_it_can_be_closed_before_it_is_open(opening: Opening) -> None:
    store = DeferredStore(opening)
    await store.close()

    with pytest.raises(StoreFailed, match="closed"):
        await store.response("", "a")
    assert opening.tries == 0


async def test_closed_while_it_opens_it_fails_those_who_wait(opening: Opening) -> None:
    store = DeferredStore(opening)
    waiting = asyncio.create_task(store.response("", "a"))
    await asyncio.sleep(0)
    await store.close()

    with pytest.raises(StoreFailed, match="closed"):
        await waiting
    assert not opening.made


async def test_closed_when_it_is_open_it_closes_what_was_opened(opening: Opening) -> None:
    opening.may.set()
    store = DeferredStore(opening)
    await store.response("", "a")
    await store.close()

    assert [each.closed for each in opening.made] == [True]


# ------------------------------------------------------------------------------------------------------------- the file


@given(st.text(min_size=1, max_size=30))
def test_the_file_of_a_url_is_the_one_that_sqlalchemy_would_open(path: str) -> None:
    for url in (f"sqlite:///{path}", f"sqlite:///{quote(path)}"):
        found = file_of(url)
        assert found is None or (make_url(url).database, dict(make_url(url).query)) == (found, {})


def test_the_usual_urls_name_a_file() -> None:
    assert file_of("sqlite:////var/lib/a%20b/history.db") == "/var/lib/a b/history.db"
    assert file_of("sqlite:///history.db") == "history.db"


Change = Callable[[Any, FakeClock], Awaitable[object]]


async def _nothing(store: Any, clock: FakeClock) -> None: ...


async def _answered(store: Any, clock: FakeClock) -> None:
    await store.write("a", [response(clock), record(clock, "file_1", "file")])


async def _pending_response(store: Any, clock: FakeClock) -> None:
    await store.write("a", [response(clock, pending=True)])


async def _pending_record(store: Any, clock: FakeClock) -> None:
    await store.write("a", [record(clock, "batch_1", "batch_job", pending=True)])


async def _served(store: Any, clock: FakeClock) -> None:
    await store.write(KEYS_OWNER, [record(clock, "one", SERVED_MODELS, expires_at=clock.time() + 60)])


async def _served_once(store: Any, clock: FakeClock) -> None:
    await store.write(KEYS_OWNER, [record(clock, "one", SERVED_MODELS, expires_at=clock.time() + 1)])
    clock.advance(2)


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    ("change", "waits"),
    [
        (_nothing, False),
        (_answered, False),
        (_pending_response, True),
        (_pending_record, True),
        (_served, True),
        (_served_once, False),
    ],
)
@pytest.mark.parametrize("names", [(), ("responses=answers", "records.pending=open", "records.kind=sort")])
async def test_a_file_is_opened_at_the_start_where_work_may_wait_in_it(
    change: Change, waits: bool, names: tuple[str, ...], tmp_path: Path, clock: FakeClock
) -> None:
    config = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db", names=names)
    before = await open_history(config, clock)
    await change(before, clock)
    await before.close()
    unopened = await unopened_history(config, clock)

    assert (unopened is None) is waits
    if unopened is not None:
        assert not unopened.store.is_open
        assert await unopened.store.response("b", "resp_1") is None
        assert unopened.store.is_open
        await unopened.store.close()
        unopened.file.close()


async def test_what_has_expired_is_seen_by_the_names_of_its_tables(tmp_path: Path, clock: FakeClock) -> None:
    config = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db", responses_s=100.0)
    store = await open_history(config, clock)
    await store.write("a", [response(clock)])
    file = SqliteFile(f"{tmp_path}/history.db", Names(), 1.0)

    assert not file.has_expired(clock.time() + 99)
    assert file.has_expired(clock.time() + 101)
    await store.close()
    file.close()


async def test_each_look_goes_by_an_index(tmp_path: Path, clock: FakeClock) -> None:
    store = await open_history(HistoryConfig(url=f"sqlite:///{tmp_path}/history.db"), clock)
    await store.close()
    file, asked = SqliteFile(f"{tmp_path}/history.db", Names(), 1.0), list[str]()
    file.has_work(0.0)
    assert file._connection is not None
    file._connection.set_trace_callback(asked.append)
    file.has_work(0.0)
    file.has_expired(0.0)
    file.close()
    own = [each for each in asked if "sqlite_master" not in each]
    with sqlite3.connect(tmp_path / "history.db") as connection:
        plans = {each: connection.execute(f"EXPLAIN QUERY PLAN {each}").fetchall() for each in own}
    connection.close()

    assert len(own) == 8
    assert all("USING" in step[-1] and "INDEX" in step[-1] for steps in plans.values() for step in steps), plans


WRONG: dict[str, Callable[[Path], object]] = {
    "no database": lambda file: file.write_bytes(b"this is no database, whatever its name says " * 100),
    "a folder": lambda file: file.mkdir(),
    "tables of a newer version": lambda file: _run(file, "UPDATE smg_schema_version SET version_num = '9999'"),
    "a table that is missing": lambda file: _run(file, "DROP TABLE smg_leases"),
}


def _run(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("what", WRONG)
async def test_a_file_that_is_not_as_it_should_be_is_opened_at_the_start_or_refused_then(
    what: str, tmp_path: Path, clock: FakeClock
) -> None:
    file = tmp_path / "history.db"
    config = HistoryConfig(url=f"sqlite:///{file}")
    if "table" in what:
        await (await open_history(config, clock)).close()
    WRONG[what](file)

    assert await outcome(config, clock) in ("opened at the start", f"unreachable: {file}")


async def outcome(config: HistoryConfig, clock: FakeClock) -> str:
    """What becomes of a history at the start."""
    try:
        return "opened at the start" if await unopened_history(config, clock) is None else "opened later"
    except StoreFailed as error:
        return f"{error.reason}: {(error.detail or '').partition(': ')[0]}"


async def test_without_the_right_to_make_tables_a_new_file_is_refused_at_the_start(
    tmp_path: Path, clock: FakeClock
) -> None:
    config = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db", migrate=False)

    assert await unopened_history(config, clock) is None
    with pytest.raises(StoreFailed):
        await open_history(config, clock)


@pytest.mark.parametrize(
    "url", ["memory:", "redis://h", "postgresql://h/db", "sqlite:////tmp/x.db?foo=1", "sqlite://x.db", "sqlite://"]
)
async def test_another_store_and_another_url_are_opened_at_the_start(url: str, clock: FakeClock) -> None:
    assert await unopened_history(HistoryConfig(url=url), clock) is None
