"""The stored answer to a request with an Idempotency-Key, and the test for the same request.

Pure. A request is the same when its path, its query and its body are. The boundary between the parts of a form counts for
nothing, and neither does the time in a gzip body, since clients make new ones for each try. Above: `answering`. Below: errors.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterable

import msgspec

from smg_core.errors import Conflict, InvalidRequest

__all__ = [
    "LONGEST_KEY",
    "REPLAYED",
    "AnswerNotKept",
    "BodyDigest",
    "IdempotencyKeyInUse",
    "IdempotencyKeyReused",
    "KeptAnswer",
    "checked_key",
    "of_first_answer",
    "place_of",
    "target_of",
]

LONGEST_KEY = 255
"""The most characters of a key."""

REPLAYED = (b"idempotent-replayed", b"true")
"""The header of an answer that is given again."""
_OF_ONE_ANSWER = frozenset(
    b"connection content-length date keep-alive openai-processing-ms openai-version retry-after server transfer-encoding "
    b"vary".split()
)
"""Headers that an answer has anew each time that it is sent."""
_OF_ONE_MOMENT = (b"access-control-", b"x-ratelimit-", b"anthropic-ratelimit-", b"ratelimit")
"""How the names of others begin."""

_GZIP = frozenset({"gzip", "x-gzip"})
_TIME = slice(4, 8)
"""Where a gzip body says when it was made (RFC 1952, 2.3)."""


class IdempotencyKeyReused(InvalidRequest):
    """The key belongs to a request with another body."""

    status = 422
    openai_code = "idempotency_key_reused"

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another request; each request needs a key of its own.")


class IdempotencyKeyInUse(Conflict):
    """The first request with the key is still under way."""

    openai_code = "idempotency_key_in_use"

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "The first request with this Idempotency-Key is still being answered.", retry_after=retry_after
        )


class AnswerNotKept(Conflict):
    """The request was answered, and its answer was too large to be kept."""

    openai_code = "idempotency_answer_not_kept"
    should_retry = False

    def __init__(self) -> None:
        super().__init__(
            "The request with this Idempotency-Key was answered before; its answer was too large to be kept."
        )


class KeptAnswer(msgspec.Struct, frozen=True):
    """The answer to the first request. `target` is where that went, `digest` and `size` are of its body, "" and 0 where nothing
    of it was read. `headers` are pairs of texts; `body` is base64, None where the answer was too large, and where it is
    made in the background: under the id `goes_on` then."""

    target: str
    digest: str
    size: int
    status: int
    headers: tuple[tuple[str, str], ...]
    body: str | None
    goes_on: str = ""

    @classmethod
    def of(
        cls,
        target: str,
        digest: str,
        size: int,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes | None,
        goes_on: str = "",
    ) -> "KeptAnswer":
        """The answer of these bytes."""
        found = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
        text = None if body is None else b64encode(body).decode()
        return cls(target, digest, size, status, found, text, goes_on)

    @classmethod
    def read(cls, text: bytes) -> "KeptAnswer":
        """The answer of a kept text."""
        return msgspec.json.decode(text, type=cls)

    def text(self) -> bytes:
        """What is kept: a JSON text."""
        return msgspec.json.encode(self)

    def content(self) -> bytes | None:
        """The body, as it was sent."""
        return None if self.body is None else b64decode(self.body)

    def headers_again(self) -> list[tuple[bytes, bytes]]:
        """The headers with which the answer is sent once more."""
        found = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]
        return [*found, REPLAYED]


def of_first_answer(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that belong to an answer however often it is sent."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _OF_ONE_ANSWER and not name.lower().startswith(_OF_ONE_MOMENT)
    ]


def checked_key(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The key that a request's headers bring. Raises InvalidRequest, also where they bring two."""
    text, *others = [value.decode("latin-1") for name, value in headers if name.lower() == b"idempotency-key"]
    if any(each != text for each in others):
        raise InvalidRequest("A request has one Idempotency-Key.")
    if not 0 < len(text) <= LONGEST_KEY or not text.isprintable():
        raise InvalidRequest(f"Idempotency-Key has from 1 to {LONGEST_KEY} printable characters.")
    return text


def place_of(principal: str, route: str, key: str) -> str:
    """The id under which the answer is kept, of a tenant's: every key of it, and every route, has keys of its own."""
    return hashlib.sha256("\0".join((principal, route, key)).encode()).hexdigest()


def target_of(path: str, query: bytes) -> str:
    """Where a request goes, in short: two that go elsewhere are not the same."""
    return hashlib.sha256(path.encode() + b"\0" + query).hexdigest()


class BodyDigest:
    """The digest of a body that comes in pieces. `content_type` says the boundary of a form, `coding` whether it is compressed.
    `size` is of what is digested for good: the boundaries of a form are not counted."""

    def __init__(self, content_type: str, coding: str = "") -> None:
        self.size = 0
        self._hash = hashlib.sha256()
        self._boundary, self._tail = _boundary(content_type), b""
        self._is_fed = False
        self._time_at = 0 if coding.strip().lower() in _GZIP else _TIME.stop

    @property
    def whole_size(self) -> int:
        """The size, once there is nothing more to feed."""
        return self.size + len(self._tail)

    def feed(self, piece: bytes) -> None:
        """The next piece of the body."""
        self._is_fed = True
        if self._time_at < _TIME.stop:
            piece = self._timeless(piece)
        if not self._boundary:
            self._take(piece)
            return
        *before, rest = (self._tail + piece).split(self._boundary)
        for part in before:
            self._take(part)
            self._hash.update(b"\0--boundary--\0")
        held = min(len(self._boundary) - 1, len(rest))  # a boundary may go on in the next piece
        self._take(rest[: len(rest) - held])
        self._tail = rest[len(rest) - held :]

    def text(self) -> str:
        """The digest of the whole body; "" of one of which nothing was read, not even that it is empty."""
        if not self._is_fed:
            return ""
        whole = self._hash.copy()
        whole.update(self._tail)
        return whole.hexdigest()

    def _take(self, part: bytes) -> None:
        self._hash.update(part)
        self.size += len(part)

    def _timeless(self, piece: bytes) -> bytes:
        """A piece from the beginning of a gzip body, as if that were made at time 0."""
        at = self._time_at
        self._time_at += len(piece)
        first, last = max(_TIME.start - at, 0), max(_TIME.stop - at, 0)
        return piece[:first] + bytes(len(piece[first:last])) + piece[last:]


def _boundary(content_type: str) -> bytes:
    kind, *parameters = content_type.split(";")
    if not kind.strip().lower().startswith("multipart/"):
        return b""
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip().lower() == "boundary":
            return value.strip().strip('"').encode("latin-1", "replace")
    return b""
