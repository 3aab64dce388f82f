"""The life of a batch as a table, and what is kept of the work on it.

    status        checked      refused  fed         cancelled    over       overdue   lost
    validating    in_progress  failed               cancelling              expired   failed
    in_progress                         finalizing  cancelling                        failed
    finalizing                                                   completed  expired   failed
    cancelling                                                   cancelled            failed
    (any other)   the batch has ended: nothing happens any more

`checked` or `refused`: its input was read; `fed`: every request has ended or the time is up; `lost`: its input is not there any
more. Two records are kept of a batch: the batch itself, which clients read and cancel by its version, and a `BatchJob` that is
there as long as there is work, which only the holder of its lease writes. Both APIs' batches wait in one queue, of jobs. Pure.
Above: the queue, its runs, the handlers. Below: the history's records.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from smg_core.batches.message_types import message_batch_status
from smg_core.batches.types import BatchCounts, BatchTokens, KeptBatch
from smg_core.errors import InvalidRequest
from smg_core.files.blobs import Blob
from smg_core.grants import Grants
from smg_core.history.store.base import PutRecord, StoredRecord

__all__ = [
    "BATCH",
    "JOB",
    "MESSAGE_BATCH",
    "NEXT",
    "BatchJob",
    "Tail",
    "batch_record",
    "cancellable",
    "following_status",
    "job_record",
    "with_done",
    "with_progress",
]

BATCH = "batch"
"""Kind of the records of OpenAI's batches."""
MESSAGE_BATCH = "message_batch"
"""Kind of the records of Message Batches."""
JOB = "batch_job"
"""Kind of the records of the work on both."""

NEXT: Mapping[str, Mapping[str, str]] = {
    "validating": {
        "checked": "in_progress",
        "refused": "failed",
        "cancelled": "cancelling",
        "overdue": "expired",
        "lost": "failed",
    },
    "in_progress": {"fed": "finalizing", "cancelled": "cancelling", "lost": "failed"},
    "finalizing": {"over": "completed", "overdue": "expired", "lost": "failed"},
    "cancelling": {"over": "cancelled", "lost": "failed"},
}
"""The status that follows, by the status that is and by what happens."""


class Tail(Struct, omit_defaults=True):
    """The end of a log of results: how many events it has, and their bytes."""

    events: int = 0
    bytes: int = 0


class BatchJob(Struct, omit_defaults=True):
    """The work on a batch. Its input is the `pieces` events of the log `log`, or, without one, what lies in `blobs` of
    `folder`; of so many bytes; `done` has a bit for each request that has ended."""

    messages: bool
    principal: str
    headers: dict[str, str]
    log: str
    pieces: int
    done: bytes = b""
    counts: BatchCounts = field(default_factory=BatchCounts)
    tokens: BatchTokens = field(default_factory=BatchTokens)
    output: Tail = field(default_factory=Tail)
    errors: Tail = field(default_factory=Tail)
    grants: Grants = Grants()
    input_bytes: int = 0
    blobs: tuple[Blob, ...] = ()
    folder: str = ""

    @property
    def kind(self) -> str:
        """The kind of the batch's own record."""
        return MESSAGE_BATCH if self.messages else BATCH

    def has_done(self, place: int) -> bool:
        """Whether the request at this place of the input has ended."""
        return place // 8 < len(self.done) and bool(self.done[place // 8] >> place % 8 & 1)


def with_done(done: bytes, places: list[int]) -> bytes:
    """The bits with those of `places` set."""
    found = bytearray(done)
    found.extend(bytes(max(0, max(places, default=-1) // 8 + 1 - len(found))))
    for place in places:
        found[place // 8] |= 1 << place % 8
    return bytes(found)


def following_status(status: str, what: str) -> str | None:
    """The status of a batch to which `what` happens; None where nothing happens to it."""
    return NEXT.get(status, {}).get(what)


def cancellable(batch: KeptBatch, kind: str = BATCH) -> bool:
    """Whether a cancellation changes the batch; False where it is being cancelled or was. Raises InvalidRequest where it has
    ended."""
    if batch.status in ("cancelling", "cancelled"):
        return False
    if following_status(batch.status, "cancelled") is None:
        status = batch.status if kind == BATCH else message_batch_status(batch.status)
        raise InvalidRequest(f"Cannot cancel a batch with status '{status}'.", param=f"{kind}_id")
    return True


def batch_record(batch: KeptBatch, kind: str, kept_s: float, *, version: int) -> PutRecord:
    """Keep a batch in place of its `version`."""
    until = batch.expires_at + kept_s
    body = msgspec.json.encode(batch)
    return PutRecord(
        StoredRecord(kind=kind, id=batch.id, body=body, created_at=batch.created_at, expires_at=until), version
    )


def job_record(batch: KeptBatch, job: BatchJob, kept_s: float) -> PutRecord:
    """Keep the work on a batch."""
    until = batch.expires_at + kept_s
    body = msgspec.json.encode(job)
    return PutRecord(
        StoredRecord(kind=JOB, id=batch.id, body=body, created_at=batch.created_at, pending=True, expires_at=until)
    )


def with_progress(batch: KeptBatch, job: BatchJob | None) -> KeptBatch:
    """The batch with the counts of its work so far."""
    return batch if job is None else msgspec.structs.replace(batch, counts=job.counts, tokens=job.tokens)
