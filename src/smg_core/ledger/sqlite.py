"""The ledger in a file of SQLite, or in memory, by the standard library alone (edge).

All that waits for the disk is done in two threads of its own, one write and one read at a time: however many ask, nothing else
that needs threads waits for them. Several processes may have the same file. Above: `opening`. Below: sqlite3, the statements.
"""

import asyncio
import errno
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from smg_core.history.sql.sqlite_file import prepare_file
from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.statements import LedgerStatements
from smg_core.ledger.store import LedgerFailed, SumsBatch

__all__ = ["SqliteLedger"]

WRITER_KEPT_S = 7 * 86400
"""Seconds that the number of a writer's last batch is kept."""
_MEMORY = ":memory:"

T = TypeVar("T")


class SqliteLedger:
    """A `LedgerStore` in the file `path`; None: in memory. `seconds` is how long it waits for others that write, and how long a
    read may take."""

    def __init__(self, path: str | None, statements: LedgerStatements, seconds: float) -> None:
        self._path, self._of, self._seconds = path or _MEMORY, statements, seconds
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._writes: ThreadPoolExecutor | None = None
        self._reads: ThreadPoolExecutor | None = None
        self._file: tuple[int, int] | None = None

    async def open(self, secret: str) -> str:
        self._writes, self._reads = (ThreadPoolExecutor(1, f"smg-ledger-{name}") for name in ("writes", "reads"))
        return await self._done(lambda: self._open(secret))

    async def write(self, batch: SumsBatch, now: int) -> None:
        def add(connection: sqlite3.Connection) -> None:
            if connection.execute(_sqlite(self._of.claim), (batch.writer, batch.number, now)).rowcount > 0:
                connection.executemany(_sqlite(self._of.add), [self._of.row(*each) for each in batch.rows])

        await self._done(lambda: self._changed(add))

    async def read(self, query: UsageQuery) -> Sequence[Sequence[object]]:
        text, parameters = self._of.read(query)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._done(lambda: self._found(_sqlite(text), parameters), reads=True)
        except TimeoutError as error:
            if self._reader is not None:
                self._reader.interrupt()  # a read that runs now was asked for earlier than this: its time is over too
            raise LedgerFailed("unreachable", "no answer in time (ledger.timeout_s)") from error

    async def forget(self, tenant: str, user: str | None) -> None:
        def forget(connection: sqlite3.Connection) -> None:
            if user is None:
                connection.execute(_sqlite(self._of.forget_tenant), (tenant,))
            else:
                for each in self._of.forget_user:
                    connection.execute(_sqlite(each), (tenant, user))

        await self._done(lambda: self._changed(forget))

    async def sweep(self, hour: int, now: int) -> None:
        def sweep(connection: sqlite3.Connection) -> None:
            for text, before in zip(self._of.sweep, (hour, now - WRITER_KEPT_S), strict=True):
                connection.execute(_sqlite(text), (before,))

        await self._done(lambda: self._changed(sweep))

    async def close(self) -> None:
        writes, reads, self._writes, self._reads = self._writes, self._reads, None, None
        if reads is not None:
            reads.shutdown(wait=False, cancel_futures=True)
        if writes is not None:
            await asyncio.get_running_loop().run_in_executor(writes, self._close)
            writes.shutdown(wait=False)

    # -------------------------------------------------------------------------------------------------------- in a thread

    async def _done(self, work: Callable[[], T], *, reads: bool = False) -> T:
        threads = self._reads if reads else self._writes
        if threads is None:
            raise LedgerFailed("failed", "it is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        except (OSError, sqlite3.Error, OverflowError) as error:
            full = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
            raise LedgerFailed("full" if full else "failed", str(error), outside_text=str(error)) from error

    def _open(self, secret: str) -> str:
        prepare_file(self._path, self._seconds)
        with self._writing:
            self._file = self._on_disk()
            self._writer = self._connected()
            self._reader = self._writer if self._path == _MEMORY else self._connected()

        def make(connection: sqlite3.Connection) -> str:
            for each in self._of.tables:
                connection.execute(each)
            connection.execute(_sqlite(self._of.remember), ("secret", secret))
            return str(connection.execute(_sqlite(self._of.recall), ("secret",)).fetchone()[0])

        return self._changed(make)

    def _on_disk(self) -> tuple[int, int] | None:
        """Which file the path leads to now."""
        if self._path == _MEMORY:
            return None
        found = Path(self._path).stat()
        return found.st_dev, found.st_ino

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=self._seconds, isolation_level=None, check_same_thread=False)

    def _changed(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """What a change of the accounts returns, which is made as a whole or not at all."""
        with self._writing:
            if self._writer is None:
                raise sqlite3.ProgrammingError("it is closed")
            if self._on_disk() != self._file:  # what is written to it would be lost with this process
                raise OSError(errno.ESTALE, "this is not the file that was opened", self._path)
            self._writer.execute("BEGIN IMMEDIATE")  # one that first reads could not write later
            try:
                found = change(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            return found

    def _found(self, text: str, parameters: Sequence[object]) -> Sequence[Sequence[object]]:
        with self._writing if self._path == _MEMORY else self._reading:
            if self._reader is None:
                raise sqlite3.ProgrammingError("it is closed")
            return self._reader.execute(text, parameters).fetchall()

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.interrupt()
        with self._writing, self._reading:
            opened, self._writer, self._reader = (self._writer, self._reader), None, None
            for each in dict.fromkeys(opened):
                if each is not None:
                    each.close()


def _sqlite(text: str) -> str:
    """The text of a statement with parameters as SQLite numbers them."""
    return text.replace("$", "?")
