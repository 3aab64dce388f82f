"""Vector stores, their files and batches of files as they are kept, and as clients get them.

Counts stand in the records of stores and batches, and are written with each change of a file, so that nobody has to count. Pure.
Above: `kept`, the handlers, the queue. Below: the history's records, chunking.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from smg_core.history.store.base import PutRecord, StoredRecord
from smg_core.json_types import JsonObject
from smg_core.retrieval.chunking import Chunking

__all__ = [
    "BATCH_OF_FILES",
    "INDEX_JOB",
    "VECTOR_STORE",
    "FileCounts",
    "IndexFault",
    "IndexJob",
    "IndexStatus",
    "KeptFileBatch",
    "KeptStore",
    "KeptStoreFile",
    "batch_status",
    "expired",
    "expires_at",
    "file_batch_object",
    "file_batch_record",
    "index_job_record",
    "job_id",
    "page_object",
    "recounted",
    "store_file_kind",
    "store_file_object",
    "store_file_record",
    "store_object",
    "store_record",
]

VECTOR_STORE = "vector_store"
"""Kind of the records of stores."""
BATCH_OF_FILES = "vector_store_file_batch"
"""Kind of the records of batches of files."""
INDEX_JOB = "vector_store_job"
"""Kind of the records of work on files: there as long as an index and what is kept may differ."""

IndexStatus = Literal["in_progress", "completed", "failed", "cancelled"]

_DAY = 86400.0
_AFTER_EXPIRY = 7 * _DAY  # how long an expired store can be read
_CENTURY = 36_500 * _DAY


class FileCounts(Struct, frozen=True, omit_defaults=True):
    """How many files there are, by their status."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return self.in_progress + self.completed + self.failed + self.cancelled


class KeptStore(Struct, frozen=True, omit_defaults=True):
    """A vector store. `days` after it was last used it expires; None: never. `model` makes its vectors, "" for none; `folder` is
    the mark of the folder that its index lies in."""

    id: str
    created_at: float
    last_active_at: float
    name: str = ""
    description: str | None = None
    metadata: Mapping[str, str] | None = None
    days: int | None = None
    counts: FileCounts = field(default_factory=FileCounts)
    usage_bytes: int = 0
    model: str = ""
    folder: str = ""


class IndexFault(Struct, frozen=True):
    """Why a file could not be indexed."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str


class KeptStoreFile(Struct, frozen=True, omit_defaults=True):
    """A file of a store. `turn` tells one that was added again from its earlier self."""

    id: str
    created_at: float
    turn: str
    status: IndexStatus = "in_progress"
    usage_bytes: int = 0
    fault: IndexFault | None = None
    attributes: Mapping[str, str | float | bool] | None = None
    max_tokens: int = 0
    overlap_tokens: int = 0
    batch: str = ""

    @property
    def chunking(self) -> Chunking:
        return Chunking(self.max_tokens, self.overlap_tokens)


class KeptFileBatch(Struct, frozen=True, omit_defaults=True):
    """A batch of files that were added together."""

    id: str
    store: str
    created_at: float
    counts: FileCounts = field(default_factory=FileCounts)
    is_cancelled: bool = False


class IndexJob(Struct, frozen=True):
    """Work on a file of a store, "" for the store itself, which is to be forgotten; whose it is, and since when it waits."""

    store: str
    file: str
    principal: str
    since: float


def expires_at(store: KeptStore) -> float | None:
    """When a store expires, where it is not used before."""
    return None if store.days is None else store.last_active_at + store.days * _DAY


def expired(store: KeptStore, now: float) -> bool:
    """Whether a store has expired: it can be read, and not searched or changed."""
    at = expires_at(store)
    return at is not None and now >= at


def recounted(counts: FileCounts, before: IndexStatus | None, after: IndexStatus | None) -> FileCounts:
    """The counts once a file of the status `before` has that of `after`; None: it is not there."""
    for status, by in ((before, -1), (after, 1)):
        if status is not None:
            counts = replace(counts, **{status: max(0, getattr(counts, status) + by)})
    return counts


def batch_status(batch: KeptFileBatch) -> IndexStatus:
    """The status of a batch."""
    if batch.counts.in_progress:
        return "in_progress"
    if batch.is_cancelled:
        return "cancelled"
    return "failed" if batch.counts.failed and batch.counts.failed == batch.counts.total else "completed"


# ----------------------------------------------------------------------------------------------------------------- records


def store_file_kind(store: str) -> str:
    """The kind of the records of a store's files."""
    return f"vector_store_file:{store}"


def job_id(store: str, file: str) -> str:
    """The id of the work on a file."""
    return f"{store}:{file}"


def store_record(store: KeptStore, version: int) -> PutRecord:
    """Keep a store in place of its `version`."""
    at = expires_at(store)
    until = store.created_at + _CENTURY if at is None else at + _AFTER_EXPIRY
    return _record(VECTOR_STORE, store.id, store, store.created_at, version, until)


def store_file_record(store: str, file: KeptStoreFile, version: int) -> PutRecord:
    """Keep a file of a store in place of its `version`."""
    return _record(store_file_kind(store), file.id, file, file.created_at, version)


def file_batch_record(batch: KeptFileBatch, version: int) -> PutRecord:
    """Keep a batch of files in place of its `version`."""
    return _record(BATCH_OF_FILES, batch.id, batch, batch.created_at, version, batch.created_at + 30 * _DAY)


def index_job_record(job: IndexJob) -> PutRecord:
    """Keep work, whatever there was before."""
    body, id = msgspec.json.encode(job), job_id(job.store, job.file)
    until = job.since + _CENTURY
    return PutRecord(
        StoredRecord(kind=INDEX_JOB, id=id, body=body, created_at=job.since, pending=True, expires_at=until)
    )


def _record(kind: str, id: str, kept: Struct, created_at: float, version: int, until: float | None = None) -> PutRecord:
    body = msgspec.json.encode(kept)
    expires = created_at + _CENTURY if until is None else until
    return PutRecord(StoredRecord(kind=kind, id=id, body=body, created_at=created_at, expires_at=expires), version)


# ----------------------------------------------------------------------------------------------------------------- objects


def _counts_object(counts: FileCounts) -> JsonObject:
    names = ("in_progress", "completed", "failed", "cancelled")
    return {**{name: getattr(counts, name) for name in names}, "total": counts.total}


def store_object(store: KeptStore, now: float) -> JsonObject:
    """A store as clients get it."""
    at = expires_at(store)
    status = "expired" if expired(store, now) else "in_progress" if store.counts.in_progress else "completed"
    return {
        "id": store.id,
        "object": "vector_store",
        "created_at": int(store.created_at),
        "name": store.name,
        "description": store.description,
        "usage_bytes": store.usage_bytes,
        "file_counts": _counts_object(store.counts),
        "status": status,
        "expires_after": None if store.days is None else {"anchor": "last_active_at", "days": store.days},
        "expires_at": None if at is None else int(at),
        "last_active_at": int(store.last_active_at),
        "metadata": dict(store.metadata or {}),
    }


def store_file_object(store: str, file: KeptStoreFile) -> JsonObject:
    """A file of a store as clients get it."""
    static: JsonObject = {"max_chunk_size_tokens": file.max_tokens, "chunk_overlap_tokens": file.overlap_tokens}
    fault = file.fault
    return {
        "id": file.id,
        "object": "vector_store.file",
        "usage_bytes": file.usage_bytes,
        "created_at": int(file.created_at),
        "vector_store_id": store,
        "status": file.status,
        "last_error": None if fault is None else {"code": fault.code, "message": fault.message},
        "chunking_strategy": {"type": "static", "static": static},
        "attributes": dict(file.attributes or {}),
    }


def file_batch_object(batch: KeptFileBatch) -> JsonObject:
    """A batch of files as clients get it."""
    return {
        "id": batch.id,
        "object": "vector_store.files_batch",
        "created_at": int(batch.created_at),
        "vector_store_id": batch.store,
        "status": batch_status(batch),
        "file_counts": _counts_object(batch.counts),
    }


def page_object(objects: Sequence[JsonObject], has_more: bool) -> JsonObject:
    """A page of any of them."""
    return {
        "object": "list",
        "data": list(objects),
        "first_id": objects[0]["id"] if objects else None,
        "last_id": objects[-1]["id"] if objects else None,
        "has_more": has_more,
    }
