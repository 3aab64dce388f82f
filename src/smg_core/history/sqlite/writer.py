"""Puts the writes of many callers into one transaction, in a thread of its own (edge).

A caller hands in a `StoreWrite` or a job and waits. What has come in one turn of the event loop goes to the thread together, up
to `group`; what comes meanwhile waits for the next transaction. The thread does a transaction and tells the loop once: so a write
goes to another thread and back, and those beside it go with it. A disk that needs milliseconds for a commit still takes thousands
of writes a second, and SQLite, which has one writer at a time, has one. Above: `store`. Below: `writing`, sqlite3.
"""

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

import attrs

from smg_core.clock import Clock
from smg_core.errors import SmgError, StoreFailed
from smg_core.history.sql.bounds import SqlBounds
from smg_core.history.sql.store_write import StoreWrite
from smg_core.history.sqlite.failures import FAILURES, failure, too_late
from smg_core.history.sqlite.writing import SqliteWriting

__all__ = ["SqliteWriter"]

T = TypeVar("T")
_Job = Callable[[sqlite3.Connection, float], Any]
_WHAT = "writing"
_ITS_OWN = (sqlite3.IntegrityError, sqlite3.DataError, UnicodeError, OverflowError)
"""What says something about one write, and nothing about those beside it."""


@attrs.define(eq=False)
class _Waiting:
    """A write or a job that waits, and the future with its result."""

    work: StoreWrite | _Job
    bytes: int
    answer: "asyncio.Future[Any]"


class SqliteWriter:
    """Writes over `connection`, which is its own from now on. `check` raises OSError where the file is not there any more. What
    waits is bounded by `bounds`, and so is how long a transaction may take."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        check: Callable[[], None],
        writing: SqliteWriting,
        clock: Clock,
        bounds: SqlBounds,
    ) -> None:
        self._connection, self._check, self._writing, self._now = connection, check, writing, clock.time
        self._bounds, self._loop = bounds, asyncio.get_running_loop()
        self._bytes = 0  # of the contents of all that is not answered yet
        self._waiting: deque[_Waiting] = deque()
        self._writes: list[_Waiting] = []  # what the thread has
        self._is_called = False  # whether the next turn of the loop looks at what waits
        self._since = 0.0  # when it got them
        self._watch: asyncio.TimerHandle | None = None
        self._closing = False
        self._asked: SimpleQueue[list[StoreWrite | _Job] | None] = SimpleQueue()
        self._ended = self._loop.create_future()
        threading.Thread(target=self._run, name="smg-history", daemon=True).start()

    async def write(self, write: StoreWrite) -> None:
        """Do a write; it is kept when this returns."""
        await self._ask(write, write.bytes)

    async def job(self, job: Callable[[sqlite3.Connection, float], T]) -> T:
        """Do `job` in a transaction, in a savepoint of its own. It gets the connection and the time."""
        found: T = await self._ask(job, 0)
        return found

    async def close(self) -> None:
        """Finish what waits, and let go of the connection."""
        if not self._closing:
            self._closing = True
            if not self._waiting and not self._writes:
                self._asked.put(None)
        await asyncio.shield(self._ended)

    # ------------------------------------------------------------------------------------------------------ in the event loop

    def _ask(self, work: StoreWrite | _Job, size: int) -> "asyncio.Future[Any]":
        if (why := self._bounds.refusal(self._closing, len(self._waiting), self._bytes, size)) is not None:
            raise StoreFailed("failed", why)
        answer = self._loop.create_future()
        self._waiting.append(_Waiting(work, size, answer))
        self._bytes += size
        if not self._is_called and not self._writes:
            self._is_called = True
            self._loop.call_soon(self._send)
        return answer

    def _send(self) -> None:
        """Give the thread what waits, if it has nothing; where nothing comes any more, that it may end."""
        self._is_called = False
        while self._waiting and len(self._writes) < self._bounds.group:
            waiting = self._waiting.popleft()
            if waiting.answer.done():  # it has left
                self._bytes -= waiting.bytes
            else:
                self._writes.append(waiting)
        if self._writes:
            self._since = self._loop.time()
            if self._watch is None:
                self._watch = self._loop.call_later(self._bounds.timeout_s, self._look)
            self._asked.put([each.work for each in self._writes])
        elif self._closing:
            self._asked.put(None)

    def _answered(self, outcomes: Sequence[Any]) -> None:
        """Tell those whose transaction has ended, and begin the next."""
        written, self._writes = self._writes, []
        for waiting, outcome in zip(written, outcomes, strict=True):
            self._bytes -= waiting.bytes
            if waiting.answer.done():
                continue
            if isinstance(outcome, SmgError):
                waiting.answer.set_exception(outcome)
            else:
                waiting.answer.set_result(outcome)
        self._send()

    def _look(self) -> None:
        """See whether the transaction takes too long. There is one timer for all of them, and none where nothing is written."""
        self._watch = None
        left = self._since + self._bounds.timeout_s - self._loop.time()
        if self._writes and left > 0:
            self._watch = self._loop.call_later(left, self._look)
        elif self._writes:
            self._is_late()

    def _is_late(self) -> None:
        """Answer those who have waited too long for a transaction, and those behind them each time that it is too long again. A
        thread that does not come back does not keep the gateway from ending."""
        with contextlib.suppress(sqlite3.ProgrammingError):
            self._connection.interrupt()
        late = [each for each in self._writes if not each.answer.done()]
        if not late:
            late = [self._waiting.popleft() for _ in range(min(self._bounds.group, len(self._waiting)))]
            self._bytes -= sum([each.bytes for each in late])
        for each in late:
            if not each.answer.done():
                each.answer.set_exception(too_late(_WHAT))
        if self._closing and not self._waiting:
            self._over()
        else:
            self._since = self._loop.time()
            self._watch = self._loop.call_later(self._bounds.timeout_s, self._look)

    def _over(self) -> None:
        """The thread has ended, or is given up: nobody waits for ever, and nobody begins to."""
        self._closing = True
        if self._watch is not None:
            self._watch.cancel()
        for each in (*self._writes, *self._waiting):
            if not each.answer.done():
                each.answer.set_exception(StoreFailed("failed", "the writing has ended"))
        self._waiting.clear()
        if not self._ended.done():
            self._ended.set_result(None)

    # ---------------------------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        try:
            while (works := self._asked.get()) is not None:
                outcomes = self._outcomes(works)
                self._loop.call_soon_threadsafe(self._answered, outcomes)
        except RuntimeError:  # the event loop has ended, and nobody waits
            pass
        finally:
            self._connection.close()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over)

    def _outcomes(self, works: list[StoreWrite | _Job]) -> list[Any]:
        """The result of each work, or the error that its writer gets."""
        try:
            return self._transaction(works, merge=True)
        except _ITS_OWN:
            pass
        except FAILURES as error:
            return [failure(_WHAT, error)] * len(works)
        try:  # one of the merged writes cannot be done: which one shows when each has its savepoint
            return self._transaction(works, merge=False)
        except FAILURES as error:
            return [failure(_WHAT, error)] * len(works)

    def _transaction(self, works: list[StoreWrite | _Job], *, merge: bool) -> list[Any]:
        self._check()
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")  # one that first reads could not get the right to write later
        try:
            now = self._now()
            plain = {id(work): work for work in works if merge and isinstance(work, StoreWrite) and work.plain}
            self._writing.merged(connection, list(plain.values()), now)
            found = [None if id(work) in plain else self._one(connection, work, now) for work in works]
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return found

    def _one(self, connection: sqlite3.Connection, work: StoreWrite | _Job, now: float) -> Any:
        """The result of one piece of work, or the error that its writer gets."""
        connection.execute("SAVEPOINT one")
        try:
            found = self._done(connection, work, now)
        except (SmgError, *_ITS_OWN) as error:
            connection.execute("ROLLBACK TO one")
            found = failure(_WHAT, error)
        connection.execute("RELEASE one")
        return found

    def _done(self, connection: sqlite3.Connection, work: StoreWrite | _Job, now: float) -> Any:
        if not isinstance(work, StoreWrite):
            return work(connection, now)
        self._writing.alone(connection, work, now)
        return None
