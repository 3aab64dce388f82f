"""Connections to the PostgreSQL that indexes of vector stores are in, and its tables (edge).

Tables are made when the first of them is used. Nothing is prepared by name, so a pooler may be between. Above: the indexes.
Below: asyncpg, the statements.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import asyncpg

from smg_core.retrieval.indexes import IndexFailed
from smg_core.retrieval.postgres_statements import PostgresStatements

__all__ = ["IndexConnections", "has_index_tables"]

_LOCK = 0x536D6769  # of PostgreSQL's advisory locks, ours
_VERSION = 1
_CONNECTIONS = 4
_SCHEMA_OF_VECTORS = (
    "SELECT nspname FROM pg_type JOIN pg_namespace ON pg_namespace.oid = typnamespace WHERE typname = 'halfvec'"
)
_CAN_HAVE_VECTORS = "SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')"


class IndexConnections:
    """Connections to `url`. `seconds` is how long connecting, and each statement, may take; `may_make`: tables that are missing
    are made."""

    def __init__(self, url: str, statements: PostgresStatements, seconds: float, *, may_make: bool) -> None:
        self._url, self._of, self._seconds, self._may_make = _for_driver(url), statements, seconds, may_make
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self.has_vectors = False

    async def opened(self, *, anew: bool = False) -> None:
        """Open them, where that has not been done; `anew`: look again at what there is. Raises IndexFailed."""
        async with self._opening:
            if self._pool is not None and not anew:
                return
            async with _failures():
                if self._pool is None:
                    pool = await asyncpg.create_pool(
                        self._url,
                        min_size=0,
                        max_size=_CONNECTIONS,
                        timeout=self._seconds,
                        command_timeout=self._seconds,
                        statement_cache_size=0,
                    )
                else:
                    pool = self._pool
                try:
                    async with pool.acquire(timeout=self._seconds) as connection, connection.transaction():
                        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                        await self._make(connection)
                except BaseException:
                    if self._pool is None:
                        pool.terminate()
                    raise
            self._pool = pool

    async def _make(self, connection: asyncpg.Connection) -> None:
        """Make what is missing."""
        if await _is_there(connection, self._of.version_name):
            if (found := await connection.fetchval(self._of.version)) != _VERSION:
                raise IndexFailed("failed", f"the tables of vector stores are of version {found}, and not {_VERSION}")
        elif self._may_make:
            for each in self._of.tables:
                await connection.execute(each)
        else:
            raise IndexFailed("failed", "the tables of vector stores are not there, and history.migrate is off")
        schema = await connection.fetchval(_SCHEMA_OF_VECTORS)
        if schema is None and self._may_make and await connection.fetchval(_CAN_HAVE_VECTORS):
            try:
                async with connection.transaction():
                    await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except asyncpg.InsufficientPrivilegeError:
                return
            schema = await connection.fetchval(_SCHEMA_OF_VECTORS)
        if schema is None:
            return
        if await _is_there(connection, self._of.vectors_name):
            self._of.use_vectors(schema)
        elif self._may_make:
            for each in self._of.with_vectors(schema):
                await connection.execute(each)
        else:
            return
        self.has_vectors = True

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection. Raises IndexFailed, also for what fails inside."""
        await self.opened()
        async with _failures(), self._there().acquire(timeout=self._seconds) as connection:
            yield connection

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection in a transaction."""
        async with self.reading() as connection, connection.transaction():
            yield connection

    def _there(self) -> asyncpg.Pool:
        if self._pool is None:
            raise IndexFailed("failed", "the indexes of vector stores are closed")
        return self._pool

    async def close(self) -> None:
        """Let go of them."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(self._seconds):
                    await pool.close()
            except TimeoutError:
                pool.terminate()


async def has_index_tables(url: str, statements: PostgresStatements, seconds: float) -> bool:
    """Whether the tables of indexes are in the database of this URL. Raises IndexFailed."""
    async with _failures():
        connection = await asyncpg.connect(
            _for_driver(url), timeout=seconds, command_timeout=seconds, statement_cache_size=0
        )
        try:
            return await _is_there(connection, statements.version_name)
        finally:
            await connection.close(timeout=seconds)


async def _is_there(connection: asyncpg.Connection, table: str) -> bool:
    return await connection.fetchval("SELECT to_regclass($1)::text", table) is not None


def _for_driver(url: str) -> str:
    """The URL as asyncpg has it: the history's driver calls one parameter otherwise."""
    return re.sub(r"([?&])ssl=", r"\1sslmode=", url)


@asynccontextmanager
async def _failures() -> AsyncIterator[None]:
    """What the driver and the server refuse is a failure of the store."""
    try:
        yield
    except TimeoutError as error:
        raise IndexFailed(
            "unreachable", "the indexes of vector stores: no answer in time (history.timeout_s)"
        ) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        outside_text = str(error)
        raise IndexFailed(
            _reason(error), f"the indexes of vector stores: {outside_text}", outside_text=outside_text
        ) from error


def _reason(error: Exception) -> Literal["unreachable", "full", "failed"]:
    if isinstance(error, asyncpg.DiskFullError):
        return "full"
    lost = OSError | asyncpg.InterfaceError | asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError
    return "unreachable" if isinstance(error, lost) else "failed"
