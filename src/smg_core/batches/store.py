"""Reads and writes of the process that works on a batch (edge).

Every write is made under the lease: a process that has lost it cannot write any more. Results are kept together with the marks of
the requests that they are of, so a request either has its result or is run again. Above: `batch_run`. Below: the history, the
table of states.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from smg_core.batches.states import JOB, BatchJob, Tail, batch_record, following_status, job_record, with_done
from smg_core.batches.types import BatchCounts, BatchTokens, KeptBatch, read_kept_batch
from smg_core.errors import Conflict, SmgError, StoreFailed
from smg_core.files.kept import file_record
from smg_core.files.types import KeptFile
from smg_core.history.store.base import (
    AppendEvents,
    DeleteEvents,
    DeleteRecord,
    Lease,
    LeaseLost,
    StaleVersion,
    StoredEvent,
    StoreOperation,
)
from smg_core.serving.services import Services
from smg_core.stored.bells import Key

__all__ = ["BatchOutcome", "PendingBatch", "error_log", "input_log", "output_log"]

_TRIES = 50
"""How often a batch is written anew that is changed meanwhile."""


class BatchOutcome(msgspec.Struct, frozen=True, gc=False):
    """How one request ended: its place in the input, which of `BatchCounts` counts it, its line, and whether that belongs to the
    errors."""

    place: int
    count: str
    line: bytes
    is_error: bool = False
    tokens: BatchTokens | None = None


def input_log(id: str) -> str:
    """The log of a batch's input, where that is no file of its own."""
    return f"{id}.in"


def output_log(id: str) -> str:
    """The log of a batch's results."""
    return f"{id}.out"


def error_log(id: str) -> str:
    """The log of those results that are errors, where they are kept apart."""
    return f"{id}.err"


class PendingBatch:
    """The batch `key`, worked on under `lease`."""

    def __init__(self, services: Services, key: Key, lease: Lease) -> None:
        self._services, self._history, self._settings = services, services.running.history, services.live.config.batches
        self.key = key
        self.tenant, self.id = key
        self.lost = False
        self._lease, self._version = lease, 0
        self._batch: KeptBatch | None = None
        self._job: BatchJob | None = None

    @property
    def batch(self) -> KeptBatch:
        """The batch as it was last read or written."""
        if self._batch is None:
            raise AssertionError("it is read first")
        return self._batch

    @property
    def job(self) -> BatchJob:
        """The work as it was last read or written."""
        if self._job is None:
            raise AssertionError("it is read first")
        return self._job

    @property
    def overdue(self) -> bool:
        """Whether the time of the batch is up."""
        return self._services.clock.time() >= self.batch.expires_at

    async def read(self) -> bool:
        """Read what there is. False where there is nothing to work on."""
        record = await self._history.record(self.tenant, JOB, self.id)
        if record is None:
            return False
        self._job = msgspec.json.decode(record.body, type=BatchJob)
        if await self._look() and following_status(self.batch.status, "lost") is not None:
            return True
        await self._write([DeleteRecord(JOB, self.id)])
        return False

    async def _look(self) -> bool:
        """Read the batch again. False where it is not there any more."""
        record = await self._history.record(self.tenant, self.job.kind, self.id)
        if record is None:
            return False
        self._batch, self._version = read_kept_batch(record.body), record.version
        return True

    # ----------------------------------------------------------------------------------------------------------- writing

    async def become(self, what: str, operations: Sequence[StoreOperation] = (), **changes: object) -> bool:
        """Change the batch's status by `what`, together with `operations`. False where its status has changed meanwhile so that
        this is not possible."""
        for _ in range(_TRIES):
            status = following_status(self.batch.status, what)
            if status is None:
                return False
            times = {**self.batch.times, status: self._services.clock.time()}
            changed: KeptBatch = replace(self.batch, status=status, times=times, **changes)
            put = batch_record(changed, self.job.kind, self._settings.kept_s, version=self._version)
            try:
                await self._write([put, *operations])
            except StaleVersion:
                if not await self._look():
                    raise LeaseLost(self.id) from None
                continue
            self._batch, self._version = changed, self._version + 1
            return True
        raise Conflict("The batch is being written; try again.")

    async def keep(self, outcomes: Sequence[BatchOutcome]) -> None:
        """Keep results, with the marks of their requests."""
        job, batch = self.job, self.batch
        counts, tokens = msgspec.structs.asdict(job.counts), msgspec.structs.asdict(job.tokens)
        for outcome in outcomes:
            counts[outcome.count] += 1
            for name in tokens if outcome.tokens is not None else ():
                tokens[name] += getattr(outcome.tokens, name)
        output = b"".join([each.line for each in outcomes if not each.is_error])
        errors = b"".join([each.line for each in outcomes if each.is_error])
        changed = replace(
            job,
            done=with_done(job.done, [each.place for each in outcomes]),
            counts=BatchCounts(**counts),
            tokens=BatchTokens(**tokens),
            output=_longer(job.output, output),
            errors=_longer(job.errors, errors),
        )
        until = batch.expires_at + self._settings.kept_s
        operations: list[StoreOperation] = [job_record(batch, changed, self._settings.kept_s)]
        if output:
            operations.append(AppendEvents(output_log(self.id), (StoredEvent(job.output.events, output),), until))
        if errors:
            operations.append(AppendEvents(error_log(self.id), (StoredEvent(job.errors.events, errors),), until))
        await self._write(operations)
        self._job = changed

    async def end(self, what: str, **changes: object) -> bool:
        """End the batch, with its counts, and its results as files or as they are. False where its status has changed so that it
        does not end in this way."""
        job = self.job
        operations: list[StoreOperation] = [DeleteRecord(JOB, self.id)]
        if job.messages:
            operations.append(DeleteEvents(job.log))
            changes |= {"results": job.output.events, "result_bytes": job.output.bytes}
        else:
            for name, kind, tail, log in (
                ("output", "output", job.output, output_log(self.id)),
                ("errors_file", "error", job.errors, error_log(self.id)),
            ):
                if tail.events:
                    file = self._results_file(kind, tail, log)
                    operations += [file_record(file), AppendEvents(log, (), file.expires_at)]
                    changes[name] = file.id
        return await self.become(what, operations, counts=job.counts, tokens=job.tokens, **changes)

    def _results_file(self, kind: str, tail: Tail, log: str) -> KeptFile:
        now = self._services.clock.time()
        seconds = self._settings.file_s if self.batch.files_s is None else self.batch.files_s
        return KeptFile(
            id=self._services.ids("file-"),
            filename=f"{self.id}_{kind}.jsonl",
            purpose="batch_output",
            bytes=tail.bytes,
            created_at=now,
            expires_at=now + seconds,
            log=log,
            pieces=tail.events,
        )

    async def _write(self, operations: Sequence[StoreOperation]) -> None:
        """Write, and try again for as long as a lease lasts where the store fails."""
        clock = self._services.clock
        until = clock.monotonic() + self._settings.lease_s
        while True:
            try:
                await self._history.write(self.tenant, operations, lease=self._lease, principal=self.job.principal)
                break
            except StoreFailed:
                if clock.monotonic() > until:
                    raise
                await asyncio.sleep(self._settings.poll_s)

    # ------------------------------------------------------------------------------------------------------------- lease

    async def guard(self, stopping: asyncio.Event, task: "asyncio.Task[bool]") -> None:
        """Keep the lease while `task` works; cancel it once the batch is not its any more, which `lost` says then. `stopping` is
        set when the batch was cancelled, or its time is up."""
        settings, clock = self._settings, self._services.clock
        renewed = clock.monotonic()
        while not self.lost:
            await asyncio.sleep(min(settings.poll_s, settings.lease_s / 4))
            try:
                found = await self._history.record(self.tenant, self.job.kind, self.id)
                self.lost = found is None
                if found is not None:
                    status = read_kept_batch(found.body).status
                    if status == "cancelling" or self.overdue:
                        stopping.set()
                if not self.lost and clock.monotonic() - renewed > settings.lease_s / 4:
                    began = clock.monotonic()
                    self._lease = await self._history.renew(self.tenant, self._lease, settings.lease_s)
                    renewed = began
            except LeaseLost:
                self.lost = True
            except SmgError:  # the store fails, or a hook refuses: until the lease ends there are further tries
                self.lost = clock.monotonic() - renewed > settings.lease_s * 0.75
        task.cancel()

    async def release(self) -> None:
        """Release the lease, if the store does that."""
        with contextlib.suppress(SmgError):
            await self._history.release(self.tenant, self._lease)


def _longer(tail: Tail, data: bytes) -> Tail:
    return Tail(tail.events + 1, tail.bytes + len(data)) if data else tail
