"""The engines of SQLAlchemy that the databases are reached through.

Decides drivers, pools and how a transaction begins. Of each database there are two: one whose connections read, each statement by
itself, and one with a single connection that writes. Above: `opening`. Below: SQLAlchemy, which connects when it is first asked.
"""

import contextlib
import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from smg_core.errors import StoreFailed
from smg_core.settings import ConfigError

__all__ = ["DRIVERS", "check_file", "engines"]

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "oracle": "oracle+oracledb_async"}


def engines(url: str, *, connections: int, seconds: float, flush: bool) -> tuple[AsyncEngine, AsyncEngine]:
    """The engine that reads and the one that writes. `seconds` is how long connecting, or waiting for a lock, may take."""
    where = _with_driver(url)
    options: dict[str, Any] = {"pool_timeout": seconds, "hide_parameters": True}
    writing = dict(options)
    reading = {**options, "isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None}
    if where.get_backend_name() == "sqlite":
        for each in (writing, reading):
            each["connect_args"] = {"timeout": seconds}
            each["poolclass"] = sa.pool.AsyncAdaptedQueuePool
    elif where.get_backend_name() == "postgresql":
        for each in (writing, reading):
            each["connect_args"] = {"timeout": seconds, "command_timeout": seconds}
            each["pool_pre_ping"] = True
    reader = create_async_engine(where, pool_size=connections, max_overflow=0, **reading)
    writer = create_async_engine(where, pool_size=1, max_overflow=0, **writing)
    if where.get_backend_name() == "sqlite":
        for engine in (reader, writer):
            sa.event.listen(engine.sync_engine, "connect", _prepare(flush=flush))
        sa.event.listen(writer.sync_engine, "begin", _begin)
    return reader, writer


def check_file(url: str) -> None:
    """Raise StoreFailed where the file of an SQLite database cannot be opened; who calls it may wait for the disk. aiosqlite
    would leave a thread behind for each try that fails. Of other databases nothing is checked."""
    where = make_url(url)
    if where.get_backend_name() != "sqlite":
        return
    try:
        with contextlib.closing(sqlite3.connect(where.database or ":memory:")) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.Error as error:
        raise StoreFailed("unreachable", f"{where.database}: {error}") from error


def _with_driver(url: str) -> URL:
    try:
        where = make_url(url)
    except sa.exc.ArgumentError:
        raise ConfigError("history.url: this is no URL of a database") from None
    return where.set(drivername=DRIVERS[where.get_backend_name()])


def _prepare(*, flush: bool) -> Any:
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say when a transaction begins
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
        cursor.close()

    return prepare


def _begin(connection: sa.Connection) -> None:
    """Ask for the right to write at once: a transaction that first reads could not get it later."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
