"""Files that wait to be indexed: taken by whoever has room, gone on with where a process was killed (edge).

A file waits in the history until a process of this gateway takes the lease on its work. Every process looks there at intervals,
and at once when it has kept one itself. Above: `work`, the handlers. Below: indexing, the history.
"""

import asyncio
import logging

from smg_core.errors import SmgError, StoreFailed
from smg_core.history.store.base import NotKept
from smg_core.stored.bells import Key, rung
from smg_core.vector_stores.indexing import IndexRooms, IndexRun
from smg_core.vector_stores.records import INDEX_JOB, VECTOR_STORE, job_id

__all__ = ["IndexQueue"]

log = logging.getLogger("smg.server")

_LOOKED_AT = 1000  # work that is looked at together


class IndexQueue:
    """The indexing that one process does."""

    def __init__(self, rooms: IndexRooms) -> None:
        self._rooms, self._services = rooms, rooms.services
        self._owner = rooms.services.ids("indexing_")
        self._runs: dict[Key, asyncio.Task[bool]] = {}
        self._later: dict[Key, float] = {}  # when what could not be done is looked at again
        self._broken: set[Key] = set()  # what has met faults: it is failed by the next try
        self._wanted = asyncio.Event()

    def added(self) -> None:
        """There is work."""
        self._wanted.set()

    async def run(self) -> None:
        """Do what waits, until this is cancelled. What is under way is then given up, for another process to do."""
        self._wanted = asyncio.Event()  # an event is its loop's, and a gateway may be started again in another one
        poll_s = self._services.live.config.batches.poll_s
        try:
            while True:
                self._wanted.clear()
                try:
                    if not (self._services.admission.draining or self._services.life.retiring):
                        await self._take()
                except SmgError as error:
                    log.warning("files of vector stores wait: %s", error)
                await rung(self._wanted, poll_s)
        finally:
            for task in self._runs.values():
                task.cancel()
            await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def _take(self) -> None:
        """Take the leases of what waits, as far as there is room: the tenant that has fewest under way goes first."""
        most = self._services.live.config.vector_stores.at_once
        if len(self._runs) >= most:
            return
        now = self._services.clock.monotonic()
        self._later = {key: until for key, until in self._later.items() if until > now}
        found = await self._services.running.history.abandoned(INDEX_JOB, _LOOKED_AT)
        waiting = [key for key in ((each.tenant, each.id) for each in found) if not self._is_known(key)]
        while waiting and len(self._runs) < most:
            key = min(waiting, key=lambda each: sum(running[0] == each[0] for running in self._runs))
            waiting.remove(key)
            await self._begin(key)

    def _is_known(self, key: Key) -> bool:
        return key in self._later or key in self._runs

    async def _begin(self, key: Key) -> None:
        try:
            task = await self._started(key)
        except NotKept:  # since it was kept
            return
        except StoreFailed:  # for all of them
            raise
        except SmgError as error:  # a hook's, which may have nothing against the others
            self._put_off(key, error)
            return
        if task is not None:
            task.add_done_callback(lambda task: self._ended(key, task))

    async def _started(self, key: Key) -> "asyncio.Task[bool] | None":
        """The task that does this, where its lease can be had."""
        seconds = self._services.live.config.batches.lease_s
        lease = await self._services.running.history.acquire(key[0], INDEX_JOB, key[1], self._owner, seconds)
        if lease is None:
            return None
        task = self._runs[key] = asyncio.create_task(
            IndexRun(self._rooms, key, lease, broken=key in self._broken).work()
        )
        return task

    async def do_now(self, tenant: str, store: str, file: str) -> None:
        """Do this work before others where it can be done at once; else it waits as others do."""
        key = tenant, job_id(store, file)
        if self._is_known(key):
            self.added()
            return
        try:
            task = await self._started(key)
        except SmgError:
            self.added()
            return
        if task is not None:
            task.add_done_callback(lambda task: self._ended(key, task))
            await asyncio.wait([task])

    def _ended(self, key: Key, task: "asyncio.Task[bool]") -> None:
        self._runs.pop(key, None)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None and not isinstance(fault, SmgError) and key not in self._broken:
            self._services.faults.note("the indexing of a file, which fails,", fault, key[1])
            self._broken.add(key)
        elif fault is not None or not task.result():
            self._put_off(key, fault)
        else:
            self._broken.discard(key)
        self._wanted.set()

    def _put_off(self, key: Key, fault: BaseException | None) -> None:
        """Look at something again when its lease would have ended."""
        if fault is not None:
            self._services.faults.note("the indexing of a file, which is gone on with later,", fault, key[1])
        self._later[key] = self._services.clock.monotonic() + self._services.live.config.batches.lease_s

    async def sweep(self) -> None:
        """Forget the indexes of stores that are not there any more: they have expired, or were erased with their tenant."""
        rooms, history = self._rooms, self._services.running.history
        for each in await rooms.indexes.names():
            if await history.record(each.tenant, VECTOR_STORE, each.store) is None:
                await rooms.kept.forget_files(each.tenant, each.store)
                await rooms.indexes.drop(each)
