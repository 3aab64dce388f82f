"""Batches of requests as they are kept, and OpenAI's batches on the wire: bodies, lines of input and of results, objects.

Pure. Above: the handlers and the queue of batches. Below: decoding.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Raw, Struct, field

from smg_core.files.types import ExpiresAfter
from smg_core.json_types import JsonObject
from smg_core.line_ends import as_one_line
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.fields import read_metadata
from smg_core.wire.json_bounds import over_values
from smg_core.wire.json_lines import Line
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "BatchBody",
    "BatchCounts",
    "BatchLine",
    "BatchTokens",
    "KeptBatch",
    "LineCheck",
    "batch_list",
    "batch_object",
    "error_line",
    "read_batch",
    "read_kept_batch",
    "read_tokens",
    "refusal",
    "result_line",
]

_Endpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"]
_ENDPOINTS: tuple[str, ...] = get_args(_Endpoint)


class OutputExpiresAfter(ExpiresAfter, frozen=True):
    """When the files of a batch's results are deleted."""


class BatchBody(Struct, forbid_unknown_fields=True, gc=False):
    """The body of a request that makes a batch."""

    input_file_id: str
    endpoint: _Endpoint
    completion_window: Literal["24h"]
    metadata: dict[str, str] | None = None
    output_expires_after: OutputExpiresAfter | None = None


_BODY = WireDecoder(BatchBody, {"endpoint": _ENDPOINTS, "completion_window": ("24h",)})


class BatchCounts(Struct, omit_defaults=True):
    """How many requests of a batch have ended so far, and how."""

    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def ended(self) -> int:
        return self.succeeded + self.errored + self.canceled + self.expired


class BatchTokens(Struct, omit_defaults=True):
    """The tokens of a batch's answers together."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


class KeptBatch(Struct, omit_defaults=True):
    """A batch as it is kept. `status` is one of `batches.states`, `times` has when it came to each, in seconds since the
    epoch; `log` is what the logs of its results are named after, `output` and `errors_file` are the ids of the files that show
    them."""

    id: str
    endpoint: str
    status: str
    created_at: float
    expires_at: float
    input_file_id: str = ""
    metadata: dict[str, str] | None = None
    times: dict[str, float] = field(default_factory=dict)
    faults: list[JsonObject] = field(default_factory=list)
    files_s: float | None = None
    total: int = 0
    counts: BatchCounts = field(default_factory=BatchCounts)
    tokens: BatchTokens = field(default_factory=BatchTokens)
    output: str | None = None
    errors_file: str | None = None
    results: int = 0
    result_bytes: int = 0


def read_batch(body: bytes, limits: LimitsConfig) -> BatchBody:
    """The body of a request for a batch."""
    wire = _BODY.decode(body, limits)
    if wire.metadata is not None:
        wire.metadata = dict(read_metadata(wire.metadata, limits))
    return wire


# ---------------------------------------------------------------------------------------------------------------- objects


def batch_object(batch: KeptBatch) -> JsonObject:
    """A batch as OpenAI's clients get it."""

    def at(status: str) -> int | None:
        found = batch.times.get(status)
        return None if found is None else int(found)

    failed = batch.counts.errored + batch.counts.expired
    counts: JsonObject = {"total": batch.total, "completed": batch.counts.succeeded, "failed": failed}
    tokens = batch.tokens
    usage: JsonObject = {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.completion,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.completion,
    }
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": list(batch.faults)} if batch.faults else None,
        "input_file_id": batch.input_file_id,
        "completion_window": "24h",
        "status": batch.status,
        "output_file_id": batch.output,
        "error_file_id": batch.errors_file,
        "created_at": int(batch.created_at),
        "in_progress_at": at("in_progress"),
        "expires_at": int(batch.expires_at),
        "finalizing_at": at("finalizing"),
        "completed_at": at("completed"),
        "failed_at": at("failed"),
        "expired_at": at("expired"),
        "cancelling_at": at("cancelling"),
        "cancelled_at": at("cancelled"),
        "request_counts": counts,
        "usage": usage,
        "metadata": batch.metadata,
    }


def read_kept_batch(body: bytes) -> KeptBatch:
    """A batch's record, as it was kept."""
    return msgspec.json.decode(body, type=KeptBatch)


def batch_list(batches: Sequence[KeptBatch], has_more: bool) -> JsonObject:
    """A page of batches."""
    return {
        "object": "list",
        "data": [batch_object(each) for each in batches],
        "first_id": batches[0].id if batches else None,
        "last_id": batches[-1].id if batches else None,
        "has_more": has_more,
    }


# ------------------------------------------------------------------------------------------------------------------ lines


class BatchLine(Struct, gc=False):
    """One request of an input file; fields that are not known here are passed over, as OpenAI does."""

    custom_id: str
    method: str
    url: str
    body: Raw


_LINE = msgspec.json.Decoder(BatchLine)


class LineCheck:
    """Checks the lines of an input file, in their order. `faults` are those found, `most_faults` of them at most; `count` is the
    number of requests, of which there may be `most`. A line may have as many values beside its body as a body may, which has
    `most_values` at most."""

    def __init__(self, endpoint: str, *, most: int, most_faults: int, most_characters: int, most_values: int) -> None:
        self.faults: list[JsonObject] = []
        self.count = 0
        self._endpoint, self._most, self._most_faults = endpoint, most, most_faults
        self._most_characters, self._most_values = most_characters, 2 * most_values
        self._number = 0
        self._ids: set[str] = set()

    @property
    def over(self) -> bool:
        """Whether checking can stop: enough faults were found, or there are too many requests."""
        return len(self.faults) >= self._most_faults or self.count > self._most

    def add(self, lines: Sequence[Line]) -> None:
        """More lines, of which none is blank."""
        for number, line in lines:
            if self.over:
                return
            self._number = number
            if line is None:
                self._fault("line_too_long", "This line is longer than a request may be.")
                continue
            self.count += 1
            if over_values(line, self._most_values):
                self._fault("too_many_values", "This line holds more JSON values than a request may.")
            else:
                self._check(line)

    def end(self) -> None:
        """The file has ended."""
        if self.count > self._most:
            self._fault("too_many_requests", f"The file has more than {self._most:,} requests.", at=None)
        elif not self.count and not self.faults:
            self._fault("empty_file", "The file has no requests.", at=None)

    def _check(self, line: bytes) -> None:
        try:
            wire = _LINE.decode(line)
        except msgspec.ValidationError as error:
            missing = str(error).startswith("Object missing required field")
            code = "missing_required_parameter" if missing else "invalid_request"
            self._fault(code, f"This line is not a request: {error}.")
            return
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._fault("invalid_json_line", "This line is not parseable as valid JSON.")
            return
        if not 0 < len(wire.custom_id) <= self._most_characters:
            self._fault("invalid_custom_id", f"A custom_id has 1 to {self._most_characters} characters.", "custom_id")
        elif wire.custom_id in self._ids:
            self._fault("duplicate_custom_id", "Another line has this custom_id too.", "custom_id")
        elif wire.method != "POST":
            self._fault("invalid_method", "The method of a request is POST.", "method")
        elif wire.url != self._endpoint:
            self._fault("invalid_url", f"The url of a request is the batch's endpoint, {self._endpoint}.", "url")
        elif bytes(memoryview(wire.body)[:1]) != b"{":
            self._fault("invalid_request", "The body of a request is an object.", "body")
        self._ids.add(wire.custom_id)

    def _fault(self, code: str, message: str, param: str | None = None, at: Literal["line"] | None = "line") -> None:
        line = self._number if at else None
        self.faults.append({"code": code, "message": message, "param": param, "line": line})


class Requested(Struct, gc=False):
    """The fields of a batch's request that decide how it is sent. Nothing is made of what they hold: it may be of any shape."""

    stream: Raw = Raw(b"null")
    background: Raw = Raw(b"null")


_REQUESTED = msgspec.json.Decoder(Requested)
_NO = b"null", b"false"


def refusal(body: bytes) -> str | None:
    """The field because of which a request cannot be part of a batch, else None. Other faults of the request are
    found by its own API later."""
    try:
        asked = _REQUESTED.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if memoryview(asked.stream) not in _NO:
        return "stream"
    return "background" if memoryview(asked.background) not in _NO else None


def result_line(id: str, custom_id: str, status: int, request_id: str, body: bytes) -> bytes:
    """The line of a request that was answered, well or with an error."""
    response = {"status_code": status, "request_id": request_id, "body": Raw(body)}
    return (
        as_one_line(msgspec.json.encode({"id": id, "custom_id": custom_id, "response": response, "error": None}))
        + b"\n"
    )


def error_line(id: str, custom_id: str, code: str, message: str) -> bytes:
    """The line of a request that was not answered."""
    error = {"code": code, "message": message}
    return (
        as_one_line(msgspec.json.encode({"id": id, "custom_id": custom_id, "response": None, "error": error})) + b"\n"
    )


# ----------------------------------------------------------------------------------------------------------------- tokens


class Tokens(Struct, gc=False):
    """The usage of one answer, in the words of any API here."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens_details: dict[str, int | None] | None = None
    completion_tokens_details: dict[str, int | None] | None = None
    input_tokens_details: dict[str, int | None] | None = None
    output_tokens_details: dict[str, int | None] | None = None
    cache_read_input_tokens: int | None = None


class Answered(Struct, gc=False):
    """The token counts in an answer of any API here."""

    usage: Tokens | None = None


_ANSWERED = msgspec.json.Decoder(Answered)


def read_tokens(body: bytes, into: BatchTokens) -> None:
    """Add the tokens of an answer."""
    usage = _ANSWERED.decode(body).usage
    if usage is None:
        return
    before = usage.prompt_tokens_details or usage.input_tokens_details or {}
    behind = usage.completion_tokens_details or usage.output_tokens_details or {}
    into.prompt += usage.prompt_tokens + usage.input_tokens
    into.completion += usage.completion_tokens + usage.output_tokens
    into.cached += before.get("cached_tokens") or usage.cache_read_input_tokens or 0
    into.reasoning += behind.get("reasoning_tokens") or behind.get("thinking_tokens") or 0
