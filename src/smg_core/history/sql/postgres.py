"""Looks at a PostgreSQL before it is used (edge): whether it can keep what the history promises, and whether a pooler is between.

A pooler gives each transaction the server connection that is free. What is prepared on one of them is not there on the next, so
behind a pooler nothing is prepared by name (`engines`). A pooler is known by the number of the server process that it tells
its client: it is not that of the process. Above: `opening`. Below: SQLAlchemy's engine, asyncpg.
"""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from smg_core.history.sql.failures import failures_of
from smg_core.settings import ConfigError

__all__ = ["is_pooled", "postgres_fault"]

_OLDEST = 90500
"""The first version with ON CONFLICT and SKIP LOCKED, and the first that the driver speaks to."""

_ASKED = sa.text(
    "SELECT pg_backend_pid(), current_setting('server_version_num'), pg_is_in_recovery(), "
    "current_setting('transaction_read_only')"
)


def postgres_fault(version: int, *, recovering: bool, read_only: bool) -> str:
    """Why a server cannot have the history, "" if it can. `version` is its server_version_num."""
    if version < _OLDEST:
        return (
            f"this PostgreSQL is of version {version // 10000}.{version // 100 % 100}; 9.5 is the oldest that will do"
        )
    if recovering:
        return "this PostgreSQL is a read replica, and the history has to be written; name the primary"
    if read_only:
        return (
            "this PostgreSQL lets its user only read (default_transaction_read_only), and the history has to be written"
        )
    return ""


async def is_pooled(engine: AsyncEngine) -> bool:
    """Whether a pooler is between `engine`, which prepares nothing by name, and the server. Raises ConfigError for a server that
    cannot have the history, and StoreFailed for one that cannot be asked, also where a pooler takes no transactions."""
    with failures_of("opening the history"):
        async with engine.begin() as connection:
            process, version, recovering, read_only = (await connection.execute(_ASKED)).one()
            driver = (await connection.get_raw_connection()).driver_connection
    if fault := postgres_fault(int(version), recovering=recovering, read_only=read_only == "on"):
        raise ConfigError(f"history.url: {fault}")
    return driver is None or driver.get_server_pid() != process
