"""Puts the writes of many callers into one transaction (edge).

A caller hands in a `StoreWrite` or a job and waits; one task takes all that wait, up to `group`, does them in one transaction
and answers each after its commit. So a disk that needs milliseconds for a commit still takes thousands of writes a second.
Above: `store`. Below: `writing`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from smg_core.clock import Clock
from smg_core.errors import SmgError, StoreFailed
from smg_core.history.sql.bounds import SqlBounds
from smg_core.history.sql.failures import failures_of
from smg_core.history.sql.store_write import StoreWrite
from smg_core.history.sql.writing import Writing

__all__ = ["GroupCommit"]

T = TypeVar("T")
Job = Callable[[sa.Connection, float], Any]


@attrs.define(eq=False)
class _Waiting:
    """A write or a job that waits, and the future with its result."""

    work: StoreWrite | Job
    bytes: int
    answer: "asyncio.Future[Any]"


class GroupCommit:
    """Writes over `engine`, within `bounds`."""

    def __init__(self, engine: AsyncEngine, writing: Writing, clock: Clock, bounds: SqlBounds) -> None:
        self._engine, self._writing, self._now, self._bounds = engine, writing, clock.time, bounds
        self._bytes = 0  # of the contents of all that is not answered yet
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name="smg-history")

    async def write(self, write: StoreWrite) -> None:
        await self._ask(write)

    async def job(self, job: Callable[[sa.Connection, float], T]) -> T:
        """Do `job` in a transaction, in a savepoint of its own. It gets the connection and the time."""
        found: T = await self._ask(job)
        return found

    async def _ask(self, work: StoreWrite | Job) -> Any:
        size = work.bytes if isinstance(work, StoreWrite) else 0
        if (why := self._bounds.refusal(self._closing, len(self._waiting), self._bytes, size)) is not None:
            raise StoreFailed("failed", why)
        waiting = _Waiting(work, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._bytes += size
        self._wake.set()
        return await waiting.answer

    async def close(self) -> None:
        """Do the writes and jobs that wait, and stop."""
        self._closing = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        taken: list[_Waiting] = []
        try:
            while self._waiting or not self._closing:
                if not self._waiting:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                taken = [self._waiting.popleft() for _ in range(min(self._bounds.group, len(self._waiting)))]
                group = [each for each in taken if not each.answer.done()]  # whose writer has left
                if group:
                    await self._commit(group)
                self._bytes -= sum([each.bytes for each in taken])
        finally:  # also where a driver raised what it should not: nobody waits for ever, and nobody begins to
            self._closing = True
            left = [*taken, *self._waiting]
            _answer(left, [StoreFailed("failed", "the writing has ended")] * len(left))

    async def _commit(self, group: list[_Waiting]) -> None:
        try:
            outcomes = await self._transaction(group, merge=True)
        except sa.exc.IntegrityError:
            outcomes = None
        except SmgError as error:
            _answer(group, [error] * len(group))
            return
        if outcomes is None:  # one of the merged writes cannot be done: which one shows when each has its savepoint
            try:
                outcomes = await self._transaction(group, merge=False)
            except SmgError as error:
                outcomes = [error] * len(group)
        _answer(group, outcomes)

    async def _transaction(self, group: list[_Waiting], *, merge: bool) -> list[Any]:
        with failures_of("writing"):
            async with asyncio.timeout(self._bounds.timeout_s), self._engine.begin() as connection:
                return await connection.run_sync(self._apply, [each.work for each in group], merge)

    def _apply(self, connection: sa.Connection, works: list[StoreWrite | Job], merge: bool) -> list[Any]:
        now = self._now()
        plain = {id(work): work for work in works if merge and isinstance(work, StoreWrite) and work.plain}
        self._writing.merged(connection, list(plain.values()), now)
        return [None if id(work) in plain else self._one(connection, work, now) for work in works]

    def _one(self, connection: sa.Connection, work: StoreWrite | Job, now: float) -> Any:
        """The result of one piece of work, or the error that its writer gets."""
        nested = connection.begin_nested()
        try:
            found = self._do(connection, work, now)
        except SmgError as error:
            nested.rollback()
            return error
        except BaseException:
            nested.rollback()
            raise
        nested.commit()
        return found

    def _do(self, connection: sa.Connection, work: StoreWrite | Job, now: float) -> Any:
        if not isinstance(work, StoreWrite):
            return work(connection, now)
        self._writing.alone(connection, work, now)
        return None


def _answer(group: list[_Waiting], outcomes: list[Any]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.answer.done():
            continue
        if isinstance(outcome, SmgError):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)
