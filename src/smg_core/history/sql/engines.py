"""The engines of SQLAlchemy that the databases are reached through (edge).

Decides drivers and pools. Of each database there are two: one whose connections read, each statement by
itself, and one with a single connection that writes. Above: `opening`. Below: SQLAlchemy, which connects
when it is first asked.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from smg_core.history.store.urls import check_parameters
from smg_core.settings import ConfigError

__all__ = ["DRIVERS", "engines"]

DRIVERS = {"postgresql": "postgresql+asyncpg", "oracle": "oracle+oracledb_async"}
_UNNAMED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}
"""Has asyncpg prepare and run a statement in one message, without a name."""


def engines(url: str, *, connections: int, seconds: float, pooled: bool = False) -> tuple[AsyncEngine, AsyncEngine]:
    """The engine that reads and the one that writes. `seconds` is how long connecting, or waiting for a lock, may take; `pooled`,
    whether a pooler is before a PostgreSQL: then nothing is prepared by name. Loads the database's driver: to be called in a
    thread. Raises ConfigError for a URL of no database."""
    where = _with_driver(url)
    options: dict[str, Any] = {"pool_timeout": seconds, "hide_parameters": True}
    writing = dict(options)
    reading = {**options, "isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None}
    if where.get_backend_name() == "postgresql":
        for each in (writing, reading):
            each["connect_args"] = {"timeout": seconds, "command_timeout": seconds, **(_UNNAMED if pooled else {})}
            each["pool_pre_ping"] = True
    reader = create_async_engine(where, pool_size=connections, max_overflow=0, **reading)
    writer = create_async_engine(where, pool_size=1, max_overflow=0, **writing)
    return reader, writer


def _with_driver(url: str) -> URL:
    try:
        where = make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigError("history.url: this is no URL of a database") from None
    check_parameters(where.get_backend_name(), where.query)
    return where.set(drivername=DRIVERS[where.get_backend_name()])
