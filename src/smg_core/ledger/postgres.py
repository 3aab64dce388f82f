"""The ledger in PostgreSQL, by asyncpg (edge).

Nothing is prepared by name, so a pooler may be between. Above: `opening`. Below: asyncpg, the statements.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.statements import LedgerStatements
from smg_core.ledger.store import LedgerFailed, SumsBatch

__all__ = ["PostgresLedger"]

WRITER_KEPT_S = 7 * 86400
_LOCK = 0x536D676C  # of PostgreSQL's advisory locks, ours
_CONNECTIONS = 2


class PostgresLedger:
    """A `LedgerStore` at `url`. `seconds` is how long connecting, and each statement, may take."""

    def __init__(self, url: str, statements: LedgerStatements, seconds: float) -> None:
        self._url, self._of, self._seconds = url, statements, seconds
        self._pool: asyncpg.Pool | None = None

    async def open(self, secret: str) -> str:
        async with _failures():
            self._pool = await asyncpg.create_pool(
                self._url,
                min_size=0,
                max_size=_CONNECTIONS,
                timeout=self._seconds,
                command_timeout=self._seconds,
                statement_cache_size=0,
            )
        async with self._changing() as connection:
            await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
            for each in self._of.tables:
                await connection.execute(each)
            await connection.execute(self._of.remember, "secret", secret)
            return str(await connection.fetchval(self._of.recall, "secret"))

    async def write(self, batch: SumsBatch, now: int) -> None:
        async with self._changing() as connection:
            if (await connection.execute(self._of.claim, batch.writer, batch.number, now)).endswith(" 1"):
                await connection.executemany(self._of.add, [self._of.row(*each) for each in batch.rows])

    async def read(self, query: UsageQuery) -> Sequence[Sequence[object]]:
        text, parameters = self._of.read(query)
        async with _failures(), self._opened().acquire(timeout=self._seconds) as connection:
            return [tuple(each) for each in await connection.fetch(text, *parameters)]

    async def forget(self, tenant: str, user: str | None) -> None:
        async with self._changing() as connection:
            if user is None:
                await connection.execute(self._of.forget_tenant, tenant)
            else:
                for each in self._of.forget_user:
                    await connection.execute(each, tenant, user)

    async def sweep(self, hour: int, now: int) -> None:
        async with self._changing() as connection:
            for text, before in zip(self._of.sweep, (hour, now - WRITER_KEPT_S), strict=True):
                await connection.execute(text, before)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(self._seconds):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    def _opened(self) -> asyncpg.Pool:
        if self._pool is None:
            raise LedgerFailed("failed", "it is closed")
        return self._pool

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection in a transaction."""
        async with (
            _failures(),
            self._opened().acquire(timeout=self._seconds) as connection,
            connection.transaction(),
        ):
            yield connection


@asynccontextmanager
async def _failures() -> AsyncIterator[None]:
    """Turns what fails inside into LedgerFailed."""
    try:
        yield
    except TimeoutError as error:
        raise LedgerFailed("unreachable", "no answer in time (ledger.timeout_s)") from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise LedgerFailed("unreachable", str(error), outside_text=str(error)) from error
