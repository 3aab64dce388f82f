"""The engines of SQLAlchemy that the databases are reached through (edge).

Decides drivers, pools and how a transaction begins. Of each database there are two: one whose connections read, each statement by
itself, and one with a single connection that writes. Above: `opening`. Below: `sqlite_file`, SQLAlchemy, which
connects when it is first asked.
"""

import errno
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from smg_core.history.sql.sqlite_file import OLDEST_SQLITE, prepare_file
from smg_core.history.store.urls import check_parameters
from smg_core.settings import ConfigError

__all__ = ["DRIVERS", "engines"]

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "oracle": "oracle+oracledb_async"}
_UNNAMED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}
"""Has asyncpg prepare and run a statement in one message, without a name."""


def engines(
    url: str, *, connections: int, seconds: float, flush: bool, pooled: bool = False
) -> tuple[AsyncEngine, AsyncEngine]:
    """The engine that reads and the one that writes. `seconds` is how long connecting, or waiting for a lock, may take; `pooled`,
    whether a pooler is before a PostgreSQL: then nothing is prepared by name. Loads the database's driver and opens an SQLite
    file, which it makes where there is none: to be called in a thread. Raises ConfigError for a URL of no database, StoreFailed
    for a file that cannot be opened."""
    where = _with_driver(url)
    if where.get_backend_name() == "sqlite":
        prepare_file(where.database or ":memory:", seconds)
    options: dict[str, Any] = {"pool_timeout": seconds, "hide_parameters": True}
    writing = dict(options)
    reading = {**options, "isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None}
    if where.get_backend_name() == "sqlite":
        for each in (writing, reading):
            each["connect_args"] = {"timeout": seconds}
            each["poolclass"] = sa.pool.AsyncAdaptedQueuePool
    elif where.get_backend_name() == "postgresql":
        for each in (writing, reading):
            each["connect_args"] = {"timeout": seconds, "command_timeout": seconds, **(_UNNAMED if pooled else {})}
            each["pool_pre_ping"] = True
    reader = create_async_engine(where, pool_size=connections, max_overflow=0, **reading)
    writer = create_async_engine(where, pool_size=1, max_overflow=0, **writing)
    if where.get_backend_name() == "sqlite":
        file = _File(where.database)
        for engine in (reader, writer):
            sa.event.listen(engine.sync_engine, "do_connect", file.check)
            sa.event.listen(engine.sync_engine, "checkout", file.check)
            sa.event.listen(engine.sync_engine, "connect", _prepare(flush=flush))
        sa.event.listen(writer.sync_engine, "begin", _begin)
    return reader, writer


class _File:
    """The file of an SQLite database that was opened. When it is deleted or replaced, SQLite goes on with the file that no path
    leads to any more, and what it says is kept is lost with the process. So every use of a connection looks for the file."""

    def __init__(self, path: str | None) -> None:
        on_disk = path and path != ":memory:" and not path.startswith("file:")
        self._path = Path(path or "") if on_disk else None
        self._opened = self._found()

    def _found(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        found = self._path.stat()
        return found.st_dev, found.st_ino

    def check(self, *_: object) -> None:
        """Raise OSError where the file is gone, or is another one."""
        if self._found() != self._opened:
            raise OSError(errno.ESTALE, "this is not the file that was opened", str(self._path))


def _with_driver(url: str) -> URL:
    try:
        where = make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigError("history.url: this is no URL of a database") from None
    check_parameters(where.get_backend_name(), where.query)
    if where.get_backend_name() == "sqlite":
        _check_sqlite(where)
    return where.set(drivername=DRIVERS[where.get_backend_name()])


def _check_sqlite(where: URL) -> None:
    if where.host or where.username or where.port:
        raise ConfigError(
            "history.url: an absolute path of an SQLite file begins with a fourth slash, sqlite:////path/file"
        )
    if where.database in (None, "", ":memory:"):
        raise ConfigError("history.url: this names no SQLite file; memory: keeps the history in memory")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigError(
            f"history.url: SQLite is of version {sqlite3.sqlite_version}; 3.25 is the oldest that will do"
        )


def _prepare(*, flush: bool) -> Any:
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say when a transaction begins
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
        cursor.close()

    return prepare


def _begin(connection: sa.Connection) -> None:
    """Ask for the right to write at once: a transaction that first reads could not get it later."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
