"""Reads a history in SQLite in a few threads, each over a connection of its own (edge).

A read goes to a thread and back once, whatever it asks there. Threads and connections are made when there is something to read.
Above: `store`. Below: `place`, sqlite3.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from smg_core.errors import StoreFailed
from smg_core.history.sqlite.failures import FAILURES, failure, too_late
from smg_core.history.sqlite.place import SqlitePlace

__all__ = ["SqliteReaders"]

T = TypeVar("T")
_WHAT = "reading"


class _Read(Generic[T]):
    """One read, and the connection that it has at the moment."""

    def __init__(self, do: Callable[[sqlite3.Connection], T]) -> None:
        self.do = do
        self.connection: sqlite3.Connection | None = None


class SqliteReaders:
    """Reads of the file at `place` that was `opened`, at most `most` at a time, each within `seconds`."""

    def __init__(self, place: SqlitePlace, opened: tuple[int, int] | None, most: int, seconds: float) -> None:
        self._place, self._opened, self._seconds = place, opened, seconds
        self._threads = ThreadPoolExecutor(most, "smg-history-reads")
        self._free: list[sqlite3.Connection] = []
        self._changing = threading.Lock()
        self._closed = False

    async def read(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """What `do` finds over a connection. Raises StoreFailed."""
        if self._closed:
            raise StoreFailed("unreachable", "the history was closed")
        read = _Read(do)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._done, read)
        except TimeoutError as error:
            raise too_late(_WHAT) from error
        except FAILURES as error:
            raise failure(_WHAT, error) from error
        finally:
            self._end(read)

    def _end(self, read: "_Read[T]") -> None:
        """End a read that nobody waits for any more."""
        if read.connection is not None:
            with self._changing:
                if read.connection is not None:
                    read.connection.interrupt()

    async def close(self) -> None:
        """Let go of the connections, once the reads that are under way have ended."""
        self._closed = True
        await asyncio.to_thread(self._close)

    # ---------------------------------------------------------------------------------------------------------- in a thread

    def _done(self, read: "_Read[T]") -> T:
        self._place.check(self._opened)
        connection = self._taken()
        read.connection = connection
        try:
            return read.do(connection)
        finally:
            with self._changing:
                read.connection = None
            self._free.append(connection)

    def _taken(self) -> sqlite3.Connection:
        """A connection that no other thread has: there are as many as threads."""
        try:
            return self._free.pop()
        except IndexError:
            found = self._place.connected(self._seconds)
            found.execute("PRAGMA query_only=ON")
            return found

    def _close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        while self._free:
            self._free.pop().close()
