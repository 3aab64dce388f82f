"""The life of a response in the background, as a table, and how it is kept while it is pending.

    status        taken        put_off    cancelled    completed, incomplete, failed
    queued        in_progress  queued     cancelled    failed: it has waited too long, or cannot be run
    in_progress   in_progress  queued     cancelled    so
    (any other)   the response has ended: nothing happens any more

`taken` by a process that holds its lease, also after another has died; `put_off` by one that cannot run it now. Every change is a
write that only succeeds on the version that was read, so that of two that come at once only one happens. Pure. Above:
`background`, `background_run`. Below: the history's records.
"""

from collections.abc import Mapping

import attrs
import msgspec
from msgspec import Struct

from smg_core.background.api import StoredLog, StoredWords
from smg_core.errors import SmgError
from smg_core.grants import Grants
from smg_core.history.store.base import (
    DeleteRecord,
    ExtendExpiry,
    PutRecord,
    StoredRecord,
    StoredResponse,
    StoreOperation,
)
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_body

__all__ = [
    "NEXT",
    "REQUEST",
    "RUNNING",
    "KeptAsker",
    "KeptRequest",
    "Mark",
    "closed",
    "ends_soon",
    "kept_bytes",
    "kept_longer",
    "mark",
    "marks",
    "next_status",
    "pending_until",
    "restated",
    "unmarks",
]

_RUN: Mapping[str, str] = {
    "taken": "in_progress",
    "put_off": "queued",
    "cancelled": "cancelled",
    "failed": "failed",
}
NEXT: Mapping[str, Mapping[str, str]] = {
    "queued": _RUN,
    "in_progress": {**_RUN, "completed": "completed", "incomplete": "incomplete"},
}
"""The status that follows, by the status that is and by what happens."""

RUNNING = "background"
"""Kind of the small record that is there as long as a response is pending: whoever works on one looks whether it still is."""
REQUEST = "background_request"
"""Kind of the record of a pending response's request."""


class Mark(Struct, frozen=True):
    """What RUNNING keeps: how often the response was begun."""

    runs: int = 0


class KeptRequest(Struct, frozen=True):
    """A request as it was: its body, the headers that it is run by, whose key it came with, and what that key may do."""

    body: str
    headers: dict[str, str]
    principal: str
    grants: Grants = Grants()


class KeptAsker(Struct, frozen=True):
    """Of a `KeptRequest`, whose key it came with; the rest is passed over."""

    principal: str


def next_status(status: str, what: str) -> str | None:
    """The status of a response to which `what` happens; None where nothing happens to it any more."""
    return NEXT.get(status, {}).get(what)


def pending_until(now: float, pending_s: float) -> float:
    """Until when everything of a pending response is kept, if no run keeps it longer: twice as long as it may wait, so that one
    that has waited too long is still there to be failed."""
    return now + 2 * pending_s


def ends_soon(until: float, now: float, pending_s: float) -> bool:
    """Whether what is kept of a pending response until then is to be kept longer by the run that works on it."""
    return until - now < 1.5 * pending_s


def kept_longer(id: str, until: float) -> list[StoreOperation]:
    """Keep everything of a pending response until then: itself, its marks, and its events where it has some."""
    return [
        ExtendExpiry("response", id, until),
        ExtendExpiry("events", id, until),
        ExtendExpiry("record", id, until, RUNNING),
        ExtendExpiry("record", id, until, REQUEST),
    ]


def mark(id: str, runs: int, now: float, until: float | None) -> PutRecord:
    """Say that a response is pending, and how often it was begun."""
    body = msgspec.json.encode(Mark(runs))
    return PutRecord(StoredRecord(kind=RUNNING, id=id, body=body, created_at=now, expires_at=until))


def marks(id: str, request: KeptRequest, now: float, until: float) -> list[StoreOperation]:
    """What is kept beside a response as long as it is pending, until then at most."""
    return [
        mark(id, 0, now, until),
        PutRecord(
            StoredRecord(kind=REQUEST, id=id, body=msgspec.json.encode(request), created_at=now, expires_at=until)
        ),
    ]


def unmarks(id: str) -> list[StoreOperation]:
    """The response is pending no more."""
    return [DeleteRecord(RUNNING, id), DeleteRecord(REQUEST, id)]


def kept_bytes(found: StoredResponse) -> int:
    """How many bytes `restated` reads and writes."""
    return len(found.body) + len(found.input) + len(found.output)


def closed(
    found: StoredResponse, log: StoredLog, words: StoredWords, what: str, now: float, error: SmgError | None = None
) -> tuple[StoredResponse, list[bytes]]:
    """The answer after `what` has happened to it, and the events that its stream gets then: its open item is closed as
    incomplete, and where the answer ends, its last event follows. Raises LookupError where nothing happens to it any more."""
    status = NEXT[found.status][what]
    events, ends = log.close() if log.begun else [], status not in NEXT
    kept, whole = restated(
        found, words, status, now, items=list(log.items) if ends and log.begun else None, error=error
    )
    if ends and log.begun:
        events.append(log.ending(status, whole))
    return kept, events


def restated(
    found: StoredResponse,
    words: StoredWords,
    status: str,
    now: float,
    *,
    items: list[JsonObject] | None = None,
    error: SmgError | None = None,
) -> tuple[StoredResponse, JsonObject]:
    """The answer with another status since `now`, and with `items` where they are given; and the object as it is then."""
    body = words.changed(msgspec.json.decode(found.body), status, error, now)
    output: list[JsonObject] = msgspec.json.decode(found.output) if items is None else items
    given: list[JsonObject] = msgspec.json.decode(found.input)
    kept = attrs.evolve(
        found,
        body=encode_body(body),
        output=encode_body(output),
        status=status,
        pending=status in NEXT,
        item_ids=tuple(str(item["id"]) for item in (*given, *output) if words.has_ids and item.get("id")),
    )
    return kept, {**body, words.items: output}
