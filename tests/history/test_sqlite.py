"""The file of SQLite: what was acknowledged outlives the process, names can be the deployment's own, tables move forward."""

import asyncio
import gzip
import os
import signal
import sqlite3
import stat
import sys
from pathlib import Path

import attrs
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from tests.history.conformance import conversation, item, record, response
from tests.history.conftest import opens_sqlite
from tests.shared import PATIENCE

from smg_core.clock import SystemClock
from smg_core.errors import StoreFailed
from smg_core.history.opening import open_history
from smg_core.history.settings import HistoryConfig
from smg_core.history.sql.migrate import Migrations
from smg_core.history.sql.names import FOLDER, Names, newest_version
from smg_core.history.sql.sqlite_file import _write_ahead
from smg_core.history.sql.tables import StoreTables
from smg_core.history.sql.version import SchemaVersion
from smg_core.history.sqlite.place import sqlite_place
from smg_core.history.sqlite.schema import STEPS, bring_up_to_date
from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    PutConversation,
    PutRecord,
    PutResponse,
    StoredConversation,
    StoredEvent,
    StoredRecord,
)
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio

OLD_FILE = Path(__file__).parent / "files" / "history-9aa540f5.db.gz"
"""A file that a gateway of that commit has made, by SQLAlchemy and Alembic."""

WRITER = """
import asyncio, sys
from smg_core.clock import SystemClock
from smg_core.history.store.base import PutResponse, StoredResponse
from smg_core.history.opening import open_history
from smg_core.history.settings import HistoryConfig

async def write(store, lane):
    for number in range(100_000):
        id = f"resp_{lane}_{number}"
        await store.write("acme", [PutResponse(StoredResponse(id=id, body=b"{}", created_at=0.0, item_ids=(id,)))])
        print(id, flush=True)

async def main():
    store = await open_history(HistoryConfig(url=sys.argv[1]), SystemClock())
    await asyncio.gather(*(write(store, lane) for lane in range(16)))

asyncio.run(main())
"""


def test_a_new_file_that_another_reads_at_that_moment_gets_its_write_ahead_log_when_it_is_free(tmp_path: Path) -> None:
    reader = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
    reader.execute("CREATE TABLE t (a)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM t").fetchall()

    class Waiting(sqlite3.Connection):
        def execute(self, statement: str) -> sqlite3.Cursor:
            if statement == "BEGIN EXCLUSIVE":
                reader.execute("COMMIT")
            return super().execute(statement)

    waiting = sqlite3.connect(tmp_path / "history.db", timeout=0, isolation_level=None, factory=Waiting)
    _write_ahead(waiting)

    reader.close()
    assert waiting.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    waiting.close()


@pytest.mark.full
async def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, stdout=asyncio.subprocess.PIPE, env=os.environ
    )
    acknowledged = [(await process.stdout.readline()).decode().strip() for _ in range(300)]
    process.send_signal(signal.SIGKILL)
    rest = (await process.stdout.read()).decode().splitlines(keepends=True)
    await process.wait()
    acknowledged += [line.strip() for line in rest if line.endswith("\n")]

    store = await open_history(HistoryConfig(url=url), SystemClock())
    there = [await store.response("acme", id) is not None for id in acknowledged]
    await store.close()
    assert len(there) >= 300
    assert all(there)
    with sqlite3.connect(tmp_path / "history.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_what_was_written_is_there_when_the_file_is_opened_again(tmp_path: Path, clock) -> None:
    opened = opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock)
    async with opened() as store:
        await store.write("acme", [response(clock), conversation(clock), AppendItems("conv_1", (item(clock, "a"),))])
        lease = await store.acquire("acme", "response", "resp_1", "one", 30)
    async with opened() as store:
        assert await store.response("acme", "resp_1") is not None
        assert len((await store.items("acme", "conv_1")).data) == 1
        assert await store.acquire("acme", "response", "resp_1", "two", 30) is None
        clock.advance(31)
        assert (await store.acquire("acme", "response", "resp_1", "two", 30)).token == lease.token + 1


async def test_two_processes_may_open_a_new_file_at_once_and_both_write(tmp_path: Path, clock) -> None:
    opened = opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock)
    one, two = opened(), opened()
    stores = await asyncio.gather(one.__aenter__(), two.__aenter__())
    await asyncio.gather(
        *(store.write("acme", [response(clock, f"resp_{k}_{n}")]) for k, store in enumerate(stores) for n in range(20))
    )
    assert [await stores[0].response("acme", f"resp_1_{n}") is not None for n in range(20)] == [True] * 20
    await asyncio.gather(one.__aexit__(None, None, None), two.__aexit__(None, None, None))


async def test_a_chain_of_fifty_is_loaded_in_one_statement(tmp_path: Path, clock) -> None:
    opened = opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock)
    async with opened() as store:
        for turn in range(50):
            previous = f"resp_{turn - 1}" if turn else None
            await store.write("acme", [response(clock, f"resp_{turn}", previous_id=previous)])
        await store.chain("acme", "resp_49")
        statements = []
        (connection,) = store._readers._free
        connection.set_trace_callback(statements.append)

        assert len((await store.chain("acme", "resp_49")).links) == 50
        assert len(statements) == 1


# ------------------------------------------------------------------------------------------------------ names, versions

OWN = Names.parse(
    "gw_", None, ["responses=answers", "responses.body=payload", "items.position=place", "leases.token=fence"]
)


@pytest.mark.full
async def test_tables_and_columns_have_the_names_of_the_deployment(tmp_path: Path, clock) -> None:
    async with opens_sqlite(f"sqlite:///{tmp_path}/history.db", OWN, clock)() as store:
        await store.write("acme", [response(clock, body=b"{}"), conversation(clock), record(clock, "b")])
        await store.write("acme", [AppendItems("conv_1", (item(clock, "a"),))])
        assert (await store.response("acme", "resp_1")).body == b"{}"
        assert (await store.acquire("acme", "response", "resp_1", "one", 3)).token == 1
    with sqlite3.connect(tmp_path / "history.db") as connection:
        assert connection.execute("SELECT payload FROM answers").fetchone() == (b"{}",)
        assert connection.execute("SELECT place FROM gw_items").fetchone() == (0,)


@pytest.mark.parametrize("names", [Names(), OWN], ids=["usual", "own"])
async def test_the_migrations_make_the_tables_that_the_code_uses(tmp_path: Path, clock, names: Names) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    async with opens_sqlite(url, names, clock)():
        pass
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": names.table("schema_version")})
        assert compare_metadata(context, StoreTables(names).metadata) == []
    engine.dispose()


def shape(file: Path) -> dict[str, object]:
    """Tables with their columns and keys, and indexes with theirs."""
    with sqlite3.connect(file) as connection:
        made = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        found = {}
        for kind, name, table, text in made:
            about = connection.execute(f"PRAGMA {'table' if kind == 'table' else 'index'}_xinfo('{name}')").fetchall()
            found[name] = (kind, table, (text or "").replace('"', "").partition(" WHERE ")[2], about)
    connection.close()
    return found


@pytest.mark.parametrize("names", [Names(), OWN], ids=["usual", "own"])
async def test_the_tables_are_those_that_alembic_makes_and_alembic_finds_them_up_to_date(
    tmp_path: Path, clock, names: Names
) -> None:
    async with opens_sqlite(f"sqlite:///{tmp_path}/ours.db", names, clock)():
        pass
    migrations = Migrations(names, FOLDER, allowed=False)
    for file in ("theirs", "ours"):
        engine = sa.create_engine(f"sqlite:///{tmp_path}/{file}.db")
        with engine.begin() as connection:
            if file == "theirs":
                Migrations(names, FOLDER, allowed=True).run(connection)
            assert SchemaVersion(names).is_newest(connection)
            assert not migrations.outdated(connection)
        engine.dispose()

    assert shape(tmp_path / "ours.db") == shape(tmp_path / "theirs.db")
    assert [*STEPS][-1] == newest_version()


async def test_a_file_of_an_older_gateway_is_read_and_written(tmp_path: Path, clock) -> None:
    file = tmp_path / "history.db"
    file.write_bytes(gzip.decompress(OLD_FILE.read_bytes()))
    before = shape(file)
    clock.advance(1_764_000_010 - clock.time())
    async with opens_sqlite(f"sqlite:///{file}", Names(), clock)() as store:
        first = await store.response("acme", "resp_1")
        assert (first.body, first.input, first.output) == (b'{"id":"resp_1"}', b'["a"]', b'["b"]')
        assert (first.version, first.created_at, first.pending) == (1, 1_764_000_000.25, False)
        assert [link.id for link in (await store.chain("acme", "resp_2")).links] == ["resp_1", "resp_2"]
        assert [each.id for each in await store.holding("acme", ["msg_2"])] == ["resp_1"]
        assert [each.body for each in (await store.items("acme", "conv_1")).data] == [b'{"n":%d}' % n for n in range(3)]
        assert await store.last_event("acme", "resp_2") == 3
        assert [each.id for each in (await store.records("", "batch")).data] == ["batch_1"]
        assert await store.abandoned("response") == ()
        clock.advance(30)
        assert [each.id for each in await store.abandoned("response")] == ["resp_2"]
        assert (await store.acquire("acme", "response", "resp_2", "two", 9)).token == 2
        await store.write("acme", [response(clock, "resp_1", if_version=1), AppendItems("conv_1", (item(clock, "x"),))])
        assert [each.position.number for each in (await store.items("acme", "conv_1")).data] == [0, 1, 2, 3]
    assert shape(file) == before


async def test_a_table_of_ours_without_its_version_is_a_failure_and_not_written_over(tmp_path: Path, clock) -> None:
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("CREATE TABLE smg_responses (a)")
    connection.close()
    with pytest.raises(StoreFailed, match="already exists"):
        async with opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock)():
            pass
    assert [*shape(tmp_path / "history.db")] == ["smg_responses"]


def _add_a_column(connection: sqlite3.Connection, names: Names) -> None:
    connection.execute(f"ALTER TABLE {names.table('responses')} ADD COLUMN extra VARCHAR(20)")


async def test_tables_move_forward_while_a_process_of_the_version_before_goes_on(tmp_path: Path, clock) -> None:
    url, names = f"sqlite:///{tmp_path}/history.db", Names()

    async with opens_sqlite(url, names, clock)() as old:
        await old.write("acme", [response(clock, "resp_1")])
        later = sqlite_place(url).connected(PATIENCE)
        bring_up_to_date(later, names, allowed=True, steps={**STEPS, "0002": _add_a_column})
        later.close()
        await old.write("acme", [response(clock, "resp_2")])
        assert [await old.response("acme", f"resp_{n}") is not None for n in (1, 2)] == [True] * 2
    with sqlite3.connect(tmp_path / "history.db") as connection:
        assert connection.execute("SELECT extra FROM smg_responses").fetchall() == [(None,)] * 2

    with pytest.raises(StoreFailed, match="newer than this program"):
        async with opens_sqlite(url, names, clock)():
            pass


async def test_older_tables_are_refused_where_migrations_are_off(tmp_path: Path, clock) -> None:
    with pytest.raises(StoreFailed, match=r"history\.migrate is off"):
        await open_history(HistoryConfig(url=f"sqlite:///{tmp_path}/history.db", migrate=False), clock)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["answers=x"], "no table or column 'answers'"),
        (["responses=a b"], "'a b' is no name"),
        (["responses=x;--"], "is no name"),
        (["responses=one", "items=one"], "two tables"),
        (["responses.body=id"], "two columns of responses"),
    ],
)
def test_a_wrong_name_is_refused(names: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Names.parse("smg_", None, names)


# -------------------------------------------------------------------------------------------------------------- failures


async def test_a_full_disk_is_said_and_what_was_there_is_still_read(tmp_path: Path, clock) -> None:
    async with opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock)() as store:
        await store.write("acme", [response(clock)])
        store._writer._connection.execute("PRAGMA max_page_count=60")
        with pytest.raises(StoreFailed) as failed:
            await store.write("acme", [response(clock, "resp_2", body=b'"' + b"x" * 1_000_000 + b'"')])
        assert (failed.value.reason, failed.value.status) == ("full", 503)
        assert "xxx" not in str(failed.value)
        assert await store.response("acme", "resp_1") is not None
        assert await store.response("acme", "resp_2") is None
        await store.write("acme", [response(clock, "resp_3")])


@pytest.mark.full
async def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path, clock) -> None:
    (tmp_path / "text.db").write_text("this is no database, and long enough to be seen as none" * 50)
    for place in (tmp_path / "missing" / "history.db", tmp_path, tmp_path / "text.db"):
        with pytest.raises(StoreFailed):
            await open_history(HistoryConfig(url=f"sqlite:///{place}"), clock)


async def test_a_new_file_is_its_users_alone_and_an_old_one_keeps_its_rights(tmp_path: Path, clock) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    old.touch()
    old.chmod(0o640)
    for file, rights in ((new, 0o600), (old, 0o640)):
        async with opens_sqlite(f"sqlite:///{file}", Names(), clock)() as store:
            await store.write("acme", [response(clock)])
            beside = list(tmp_path.glob(f"{file.name}*"))
            assert len(beside) > 1
            assert {stat.S_IMODE(each.stat().st_mode) for each in beside} == {rights}


async def test_a_store_that_is_behind_refuses_more_than_may_wait(tmp_path: Path, clock) -> None:
    async with opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock, waiting_writes=5)() as store:
        outcomes = await asyncio.gather(
            *(store.write("acme", [response(clock, f"resp_{n}")]) for n in range(8)), return_exceptions=True
        )
        assert [type(each).__name__ for each in outcomes] == ["NoneType"] * 5 + ["StoreFailed"] * 3
        assert await store.response("acme", "resp_4") is not None


async def test_writes_that_wait_are_bounded_in_bytes_of_every_kind_and_one_that_is_larger_is_kept(
    tmp_path: Path, clock
) -> None:
    text = b'"' + b"x" * 1998 + b'"'
    writes = [
        PutResponse(response(clock, "resp_1").response, None),
        PutResponse(attrs.evolve(response(clock, "resp_2").response, input=text), None),
        PutResponse(attrs.evolve(response(clock, "resp_3").response, output=text), None),
        PutConversation(StoredConversation(id="conv_1", created_at=0, metadata=text)),
        AppendEvents("resp_1", (StoredEvent(1, text),)),
        PutRecord(StoredRecord(kind="batch", id="batch_1", body=text, created_at=0)),
    ]
    async with opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock, waiting_bytes=1500)() as store:
        for first in writes[1:]:  # larger than what may wait, but nothing waits
            outcomes = await asyncio.gather(
                *(store.write("acme", [each]) for each in (first, *writes)), return_exceptions=True
            )
            assert [type(each).__name__ for each in outcomes] == ["NoneType"] + ["StoreFailed"] * len(writes)
        # what was answered no longer counts
        small = await asyncio.gather(*(store.write("acme", [writes[0]]) for _ in range(3)), return_exceptions=True)
        assert small == [None] * 3


async def test_closing_finishes_what_waits(tmp_path: Path, clock) -> None:
    opened = opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock)
    async with opened() as store:
        log = AppendEvents("resp_1", tuple(StoredEvent(n, b"{}") for n in range(5)))
        waiting = [asyncio.ensure_future(store.write("acme", [response(clock), log]))]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    async with opened() as store:
        assert await store.last_event("acme", "resp_1") == 4
        assert attrs.asdict(await store.response("acme", "resp_1"))["status"] == "completed"


async def test_a_file_that_is_deleted_or_replaced_is_a_failure_and_no_loss_in_silence(tmp_path: Path, clock) -> None:
    url, away = f"sqlite:///{tmp_path}/history.db", tmp_path / "away"
    away.mkdir()
    async with opens_sqlite(url, Names(), clock)() as store:
        await store.write("acme", [response(clock)])
        for file in tmp_path.glob("history.db*"):
            file.rename(away / file.name)
        for _ in range(2):
            with pytest.raises(StoreFailed, match="No such file"):
                await store.write("acme", [response(clock, "resp_2")])
            with pytest.raises(StoreFailed, match="No such file"):
                await store.response("acme", "resp_1")
        assert not list(tmp_path.glob("history.db*"))

        async with opens_sqlite(url, Names(), clock)() as other:
            await other.write("acme", [response(clock, "resp_3")])
            with pytest.raises(StoreFailed, match="not the file that was opened"):
                await store.response("acme", "resp_3")
        for file in tmp_path.glob("history.db*"):
            file.unlink()
        for file in away.iterdir():
            file.rename(tmp_path / file.name)
        await store.write("acme", [response(clock, "resp_2")])
        assert await store.response("acme", "resp_1") is not None
        assert await store.response("acme", "resp_2") is not None
