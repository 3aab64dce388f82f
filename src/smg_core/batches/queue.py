"""The one queue of all batches, OpenAI's and those of Messages: kept, worked on by whoever has room, cancelled (edge).

A batch waits in the history until a process of this gateway takes the lease on its job. Every process looks there at intervals,
and at once when it has kept one itself, so that what a process that died has left is gone on with by another, or by itself after
a restart. Nothing but the history is shared. Above: the handlers of both APIs. Below: `batch_run`, the history.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from smg_core.auth.roles import check_permission
from smg_core.batches.calls import BatchEndpoint
from smg_core.batches.line_requests import next_request
from smg_core.batches.pacing import Turns
from smg_core.batches.run import BatchRun
from smg_core.batches.served_elsewhere import ServedElsewhere
from smg_core.batches.states import JOB, NEXT, BatchJob, batch_record, cancellable, job_record, with_progress
from smg_core.batches.store import PendingBatch, output_log
from smg_core.batches.types import KeptBatch, read_kept_batch
from smg_core.errors import Conflict, NotFound, Overloaded, RateLimited, SmgError, StoreFailed
from smg_core.history.store.base import (
    DeleteEvents,
    DeleteRecord,
    NotKept,
    Owned,
    StaleVersion,
    StoredRecord,
    StoreOperation,
)
from smg_core.request import Caller
from smg_core.serving.services import Services
from smg_core.stored.bells import Key, rung
from smg_core.stored.lists import StoredList, read_list
from smg_core.wire.fields import not_in_list

__all__ = ["BatchQueue"]

log = logging.getLogger("smg.server")

_TRIES = 50
"""How often a cancellation is tried against a process that writes the batch meanwhile."""


_BYTES_A_TOKEN = 3.5
"""Bytes of a request for each token of its prompt, before it is read."""


class _Enqueued(msgspec.Struct):
    """Of a job, how large its input is."""

    input_bytes: int = 0


class BatchQueue:
    """The batches of one process. `endpoints` are where their requests may go, by their paths."""

    def __init__(self, services: Services, endpoints: Mapping[str, BatchEndpoint]) -> None:
        self._services, self._endpoints = services, endpoints
        self._settings = settings = services.live.config.batches
        self._turns = Turns(settings.in_flight, settings.in_flight_tenant, settings.yield_to, self._live)
        self._owner = services.ids("batches_")
        self._runs: dict[Key, tuple[BatchRun, asyncio.Task[bool]]] = {}
        self._later: dict[Key, float] = {}  # when what could not be run is looked at again
        self._looks: dict[Key, float] = {}  # when what waits for engines or room is looked at again
        # That nobody here was working on: they end at once, whatever there is room for.
        self._cancelled: set[Key] = set()
        self._wanted = asyncio.Event()
        self._elsewhere = ServedElsewhere(services, self._owner)
        self._asking: dict[
            Key, tuple[float, str, Caller]
        ] = {}  # until when, for which model the next request asks, and whose

    def _live(self, own: int) -> int | None:
        """How many requests of clients are under way beside `own` of batches; None where nothing may begin."""
        return None if self._is_idle else max(0, self._services.in_flight - own)

    @property
    def _is_idle(self) -> bool:
        """Whether this process begins nothing: it leaves, or another has succeeded it, or it was asked to hold still. Its batches
        are then for others, and so are their leases: the streams of clients for which it may still be there can be long."""
        services = self._services
        return services.admission.draining or services.life.retiring or services.admission.held

    # ------------------------------------------------------------------------------------------------------------ running

    async def run(self) -> None:
        """Take batches that wait, until this is cancelled. Batches under way are then given up, for another process to take."""
        self._wanted = asyncio.Event()  # an event is its loop's, and a gateway may be started again in another one
        try:
            while True:
                self._wanted.clear()
                try:
                    if self._is_idle:
                        self._pause()
                    else:
                        await self._elsewhere.tell()
                        await self._take()
                except SmgError as error:
                    log.warning("batches wait: %s", error)
                self._turns.grant()
                await rung(self._wanted, self._settings.poll_s)
        finally:
            tasks = [task for _, task in self._runs.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._elsewhere.forget()

    def _pause(self) -> None:
        for run, _ in self._runs.values():
            run.pause()

    async def _take(self) -> None:
        """Take the leases of what waits, oldest first, as far as there is room, and of what is only to be ended whatever room and
        engines there are."""
        now, wall, cancelled = self._services.clock.monotonic(), self._services.clock.time(), set(self._cancelled)
        self._later = {key: until for key, until in self._later.items() if until > now}
        waiting = [_key(each) for each in await self._services.running.history.abandoned(JOB, self._settings.queue)]
        looks = {key: self._looks.get(key, 0.0) for key in waiting}
        self._looks = {key: at for key, at in looks.items() if at > wall}
        self._asking = {key: self._asking[key] for key in waiting if key in self._asking}
        for key in waiting:
            if key in self._later or key in self._runs:
                continue
            try:
                if key in cancelled or await self._is_for_us(key) or await self._is_to_end(key):
                    await self._begin(key)
            except StoreFailed:  # for all of them
                raise
            except SmgError as error:  # a hook's, which may have nothing against the others
                self._put_off(key, error)
        self._cancelled -= cancelled  # those that are left have a process that works on them, which looks for itself

    async def _begin(self, key: Key) -> None:
        """Work on a batch, if its lease can be had."""
        try:
            lease = await self._services.running.history.acquire(
                key[0], JOB, key[1], self._owner, self._settings.lease_s
            )
        except NotKept:  # since it was kept
            return
        if lease is None:
            return
        pending, serves = PendingBatch(self._services, key, lease), self._elsewhere.serves
        run = BatchRun(self._services, self._turns, self._endpoints, pending, serves)
        task = asyncio.create_task(run.work())
        self._runs[key] = run, task
        task.add_done_callback(lambda task: self._ended(key, task))

    async def _is_to_end(self, key: Key) -> bool:
        """Whether a batch that waits needs no engine any more: it was cancelled, by whichever process, or its time is up. It is
        looked at when that is so, and at intervals."""
        (tenant, id), wall = key, self._services.clock.time()
        if key in self._looks or len(self._runs) >= 2 * self._settings.at_once:  # as many are ended at once as are run
            return False
        record = await self._services.running.history.record(tenant, JOB, id)
        if record is None:
            return False
        job = msgspec.json.decode(record.body, type=BatchJob)
        try:
            batch, _ = await self.find(tenant, job.kind, id)
        except NotFound:  # its job is left to forget
            return True
        if batch.status == "cancelling" or wall >= batch.expires_at:
            return True
        self._looks[key] = min(wall + self._settings.lease_s, batch.expires_at)
        return False

    async def _is_for_us(self, key: Key) -> bool:
        """Whether a batch may be begun here. One whose next request asks for a model that only other gateways serve is theirs."""
        if not self._may_begin(key[0]):
            return False
        if not await self._elsewhere.names() or self._services.plugins.plan.links:  # which may name another model
            return True
        now = self._services.clock.monotonic()
        until, model, caller = self._asking.get(key, (0.0, "", Caller()))
        if until <= now:
            model, caller = await next_request(self._services, key)
            self._asking[key] = now + self._settings.lease_s, model, caller
        if not model or self._services.lookup.served_name(model, caller):
            return True
        return not await self._elsewhere.serves(model)

    def _may_begin(self, tenant: str) -> bool:
        """Whether a further batch of a tenant may be worked on."""
        return self._services.registry.any_ready and self._has_room(tenant)

    def _has_room(self, tenant: str) -> bool:
        """Whether there is room for a further batch of a tenant."""
        running = sum(key[0] == tenant for key in self._runs)
        return len(self._runs) < self._settings.at_once and running < self._settings.at_once_tenant

    def _ended(self, key: Key, task: "asyncio.Task[bool]") -> None:
        self._runs.pop(key, None)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None or not task.result():
            self._put_off(key, fault)
        self._wanted.set()

    def _put_off(self, key: Key, fault: BaseException | None) -> None:
        """Look at a batch again when its lease would have ended."""
        if fault is not None:
            self._services.faults.note("a batch, which is gone on with later,", fault, f"batch {key[1]}")
        self._later[key] = self._services.clock.monotonic() + self._settings.lease_s

    # ---------------------------------------------------------------------------------------------- as its routes ask for

    async def check_room(self, tenant: str, size: int) -> None:
        """Raise RateLimited where a tenant has as many batches as may be under way or wait, or so many tokens in them that one of
        so many bytes is too much, and Overloaded where as many wait as may."""
        most, queue = self._settings.open, self._settings.queue
        page = await self._services.running.history.records(tenant, JOB, limit=most)
        if len(page.data) >= most:
            retry_after = self._services.admission.retry_after
            raise RateLimited(f"As many batches as may ({most:,}) are under way.", retry_after=retry_after)
        if (bound := self._settings.enqueued_tokens) is not None:
            self._check_tokens(page.data, size, bound)
        if len(await self._services.running.history.abandoned(JOB, queue)) >= queue:
            retry_after = self._services.admission.retry_after
            raise Overloaded("As many batches wait as may.", retry_after=retry_after)

    def _check_tokens(self, jobs: Iterable[StoredRecord], size: int, most: int) -> None:
        """Raise RateLimited where batches of so many bytes together have more tokens than may be enqueued."""
        before = sum(msgspec.json.decode(each.body, type=_Enqueued).input_bytes for each in jobs)
        tokens = int((before + size) / _BYTES_A_TOKEN)
        if tokens > most:
            alone = int(size / _BYTES_A_TOKEN) > most
            raise RateLimited(
                f"Enqueued token limit reached: with this batch {tokens:,} tokens would wait, and {most:,} may.",
                code="token_limit_exceeded",
                retry_after=None if alone else self._services.admission.retry_after,
                should_retry=False,
            )

    def operations(self, batch: KeptBatch, job: BatchJob) -> Sequence[StoreOperation]:
        """What keeps a new batch."""
        kept_s = self._settings.kept_s
        return [batch_record(batch, job.kind, kept_s, version=0), job_record(batch, job, kept_s)]

    def added(self) -> None:
        """A batch was kept."""
        self._wanted.set()

    async def find(self, tenant: str, kind: str, id: str) -> tuple[KeptBatch, int]:
        """A batch and its version. Raises NotFound."""
        record = await self._services.running.history.record(tenant, kind, id)
        if record is None:
            raise NotFound(f"No batch found with id '{id[:100]}'.", param=f"{kind}_id")
        return read_kept_batch(record.body), record.version

    async def progress(self, tenant: str, batch: KeptBatch) -> KeptBatch:
        """The batch with the counts of its work so far."""
        if batch.status not in NEXT:
            return batch
        record = await self._services.running.history.record(tenant, JOB, batch.id)
        return with_progress(batch, None if record is None else msgspec.json.decode(record.body, type=BatchJob))

    async def page(
        self, tenant: str, kind: str, *, after: str | None, limit: int, newest_first: bool = True, param: str = "after"
    ) -> StoredList[KeptBatch]:
        """Batches of a kind behind the one `after`, which the query has as `param`, by time of creation. Raises
        InvalidRequest."""
        history = self._services.running.history
        found = await history.records(tenant, kind, after=after, limit=limit, newest_first=newest_first)
        if not found.data and after is not None and await history.record(tenant, kind, after) is None:
            raise not_in_list(after, param)
        return await read_list(self._services, tenant, found, read_kept_batch)

    def check_permission(self, path: str, caller: Caller) -> None:
        """Refuse a batch whose requests its caller could not send one by one. Raises PermissionDenied."""
        if (endpoint := self._endpoints.get(path)) is not None:
            check_permission(caller.grants, endpoint.needs)

    async def forget(self, caller: Caller, kind: str, id: str) -> None:
        """Forget a batch that has ended, and its results."""
        operations: Sequence[StoreOperation] = [DeleteRecord(kind, id), DeleteEvents(output_log(id))]
        await self._services.running.history.write(caller.tenant, operations, principal=caller.principal)

    async def cancel(self, caller: Caller, kind: str, id: str) -> KeptBatch:
        """The batch, being cancelled: no further request of it begins, and those under way end. Raises InvalidRequest where it
        has ended otherwise, and NotFound."""
        tenant, now = caller.tenant, self._services.clock.time
        for _ in range(_TRIES):
            found, version = await self.find(tenant, kind, id)
            if not cancellable(found, kind):
                return found
            changed = replace(found, status="cancelling", times={**found.times, "cancelling": now()})
            try:
                put = batch_record(changed, kind, self._settings.kept_s, version=version)
                await self._services.running.history.write(tenant, [put], principal=caller.principal)
            except StaleVersion:
                continue
            run = self._runs.get((tenant, id))
            if run is not None:
                run[0].stop()
            else:
                self._cancelled.add((tenant, id))
            self._wanted.set()
            return changed
        raise Conflict("The batch is being written; try again.", retry_after=self._services.admission.retry_after)


def _key(owned: Owned) -> Key:
    return owned.tenant, owned.id
