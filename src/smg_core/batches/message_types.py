"""Message Batches on the wire: the requests of a body, the lines of results, the objects.

A batch is kept as `batches.Batch`, like OpenAI's. Pure. Above: the handlers and the queue of batches. Below: batches.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Raw, Struct

from smg_core.batches.types import KeptBatch
from smg_core.errors import InvalidJson, InvalidRequest
from smg_core.json_types import Json, JsonObject
from smg_core.line_ends import as_one_line
from smg_core.wire.decoding import OWN_LEVELS, too_many
from smg_core.wire.fields import read_limit
from smg_core.wire.json_lines import ObjectBounds, objects_of
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "MessageBatchBody",
    "MessageLine",
    "message_batch_list",
    "message_batch_object",
    "message_batch_status",
    "message_result",
    "message_result_without_answer",
    "read_page",
    "write_lines",
]

_READ = 1 << 16  # bytes of a body that are read at once
_OVERHEAD = 1024  # bytes of a request beside its params
_LISTED, _MOST_LISTED = 20, 1000
_CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STATES = {
    "validating": "in_progress",
    "in_progress": "in_progress",
    "finalizing": "in_progress",
    "cancelling": "canceling",
}
"""How Messages calls the status of a batch; any other is "ended"."""


def message_batch_status(status: str) -> str:
    """How Messages calls this status of a batch."""
    return _STATES.get(status, "ended")


class MessageRequest(Struct, forbid_unknown_fields=True, gc=False):
    """One request of a batch: `params` is the body of a request to /v1/messages."""

    custom_id: str
    params: JsonObject


class MessageBatchBody(Struct, forbid_unknown_fields=True, gc=False):
    """What a batch is made of."""

    requests: list[MessageRequest]


class MessageLine(Struct, forbid_unknown_fields=True, gc=False):
    """One request as it is kept."""

    custom_id: str
    params: Raw


_LINE = msgspec.json.Decoder(MessageLine)


class _Lines:
    """Makes a line to keep of each request of a body, in their order. Raises InvalidRequest; `most` is how many there may be."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most
        self._ids: set[str] = set()

    def line(self, request: bytes) -> bytes:
        """The line of a request, given as the JSON text of its object, without a line feed."""
        at = f"requests[{self.count}]"
        self.count += 1
        if self.count > self._most:
            raise too_many("requests", self.count, self._most, "requests")
        try:
            wire = _LINE.decode(request)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"{error}.", param=at) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidJson("The request body is not valid JSON.", param=at) from None
        if _CUSTOM_ID.fullmatch(wire.custom_id) is None:
            raise InvalidRequest("Expected 1 to 64 letters, digits, '_' and '-'.", param=f"{at}.custom_id")
        if wire.custom_id in self._ids:
            raise InvalidRequest("Another request has the same.", param=f"{at}.custom_id")
        if bytes(memoryview(wire.params)[:1]) != b"{":
            raise InvalidRequest("Expected an object.", param=f"{at}.params")
        self._ids.add(wire.custom_id)
        return request.replace(b"\n", b" ")  # in JSON they are white space: a string has none

    def end(self) -> None:
        """The body has ended."""
        if not self.count:
            raise InvalidRequest("Invalid 'requests': a batch has one request at least.", param="requests")


def write_lines(
    read: Callable[[int], bytes], write: Callable[[bytes], object], limits: LimitsConfig, *, most: int, most_bytes: int
) -> int:
    """Write a line for each request of a body, which `read` gives piece by piece, and return how many there are: `most` at most,
    whose `params` have `most_bytes` each, and as many values and levels as `limits` allow. Raises what is wrong with the body."""
    lines = _Lines(most)
    bounds = ObjectBounds(
        size=most_bytes + _OVERHEAD,
        values=limits.json_values + 2,  # the request itself and its custom_id
        depth=limits.json_depth + OWN_LEVELS + 1,
    )
    for request in objects_of(read, "requests", bounds, window=_READ):
        write(lines.line(request))
        write(b"\n")
    lines.end()
    return lines.count


def message_result(custom_id: str, answered: bool, body: bytes) -> bytes:
    """The line of a request that was answered, with a message or with an error."""
    result = {"type": "succeeded", "message": Raw(body)} if answered else {"type": "errored", "error": Raw(body)}
    return as_one_line(msgspec.json.encode({"custom_id": custom_id, "result": result})) + b"\n"


def message_result_without_answer(custom_id: str, expired: bool) -> bytes:
    """The line of a request that was never begun, since the batch expired or was cancelled."""
    result = {"type": "expired" if expired else "canceled"}
    return as_one_line(msgspec.json.encode({"custom_id": custom_id, "result": result})) + b"\n"


def message_batch_object(batch: KeptBatch) -> JsonObject:
    """A batch as clients of Messages get it: nothing is told of single requests before all have ended."""
    state, counts = message_batch_status(batch.status), batch.counts
    over = state == "ended"
    ended_at = batch.times.get(batch.status) if over else None
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": state,
        "request_counts": {
            "processing": 0 if over else batch.total,
            "succeeded": counts.succeeded if over else 0,
            "errored": counts.errored if over else 0,
            "canceled": counts.canceled if over else 0,
            "expired": counts.expired if over else 0,
        },
        "created_at": _stamp(batch.created_at),
        "expires_at": _stamp(batch.expires_at),
        "ended_at": _stamp(ended_at),
        "cancel_initiated_at": _stamp(batch.times.get("cancelling")),
        "archived_at": None,
        "results_url": f"/v1/messages/batches/{batch.id}/results" if over else None,
    }


class BatchPage(Struct, frozen=True):
    """Which batches of a list are wanted: `limit` of those behind `behind`, counted from the newest or from the oldest."""

    behind: str | None
    limit: int
    newest_first: bool


def read_page(query: Mapping[str, tuple[str, ...]]) -> BatchPage:
    """The page that is asked for. Raises InvalidRequest naming the parameter."""
    after, before = query.get("after_id", (None,))[-1], query.get("before_id", (None,))[-1]
    if after is not None and before is not None:
        raise InvalidRequest("Only one of 'after_id' and 'before_id' can be given.", param="before_id")
    limit = read_limit(query, usual=_LISTED, most=_MOST_LISTED)
    return BatchPage(before or after, limit, before is None)


def message_batch_list(batches: Sequence[KeptBatch], has_more: bool) -> JsonObject:
    """A page of batches."""
    return {
        "data": [message_batch_object(each) for each in batches],
        "has_more": has_more,
        "first_id": batches[0].id if batches else None,
        "last_id": batches[-1].id if batches else None,
    }


def _stamp(seconds: float | None) -> Json:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
