"""The roles that a public API's modules fill: a decoder of bodies and two encoders of events. And the limits of a request.

An API (chat, messages, ...) has a `decode` function, a `StreamEncoder` for server-sent events and a `WholeEncoder` for one JSON
body; the server calls them and does not know what they read and write. They are pure: the time stamp and the ids that they write
are arguments. `VerbatimStream` and `VerbatimBody` are what encoders have for answers in a provider's own words. Above: the API
modules and the server. Below: request, events, compat.
"""

import copy
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from smg_core.errors import SmgError
from smg_core.events import Cancelled, Done, Event, Failed, Finished, ReasoningEnd, Verbatim
from smg_core.request import Caller, GenerationRequest
from smg_core.wire.compat import STRICT, Compat
from smg_core.wire.settings import LimitsConfig, MessagesConfig

__all__ = [
    "Decoded",
    "ErrorEncoder",
    "Incoming",
    "Locate",
    "StreamEncoder",
    "VerbatimBody",
    "VerbatimStream",
    "WholeEncoder",
]

Locate = Callable[[str], str]
"""From a path in `GenerationRequest` ("messages[3].parts[1]") to the field of the API's body that it was read from."""

_NO_VALUES: Mapping[str, str] = MappingProxyType({})
_NO_QUERY: Mapping[str, tuple[str, ...]] = MappingProxyType({})


_DEFAULT_LIMITS = LimitsConfig()
_MESSAGES = MessagesConfig()


class Incoming(Struct, frozen=True):
    """One HTTP request as a decoder gets it.

    `path_values` are the values in the path for the names in its route's pattern, `query` the values of each name in the
    query, in order; header names are lower-cased. `request_id` becomes the id of the `GenerationRequest`. `compat` says
    which unknown fields are ignored, `messages` how Messages is read, `hosted` the kinds of tools that run here. `keeps_body`: a
    body up to `limits.kept_body_bytes` stays with its request. A request over one of `limits` is refused with
    a 400 (413 for the body) that names the parameter and the bound.
    """

    body: bytes
    request_id: str
    path_values: Mapping[str, str] = _NO_VALUES
    query: Mapping[str, tuple[str, ...]] = _NO_QUERY
    headers: Mapping[str, str] = _NO_VALUES
    caller: Caller = Caller()
    limits: LimitsConfig = _DEFAULT_LIMITS
    compat: Compat = STRICT
    messages: MessagesConfig = _MESSAGES
    hosted: frozenset[str] = frozenset()
    keeps_body: bool = False

    @property
    def kept_body(self) -> bytes:
        """The body, where it is to stay with its request; else nothing."""
        return self.body if self.keeps_body and len(self.body) <= self.limits.kept_body_bytes else b""


class Decoded(Protocol):
    """The result of every API's decoder; an API may add fields for its encoders."""

    @property
    def generation(self) -> GenerationRequest: ...

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from. See `Locate`."""
        ...


class StreamEncoder(Protocol):
    """Encodes events as a streamed answer; one object per response. `content_type` goes into the response's head."""

    content_type: str

    def start(self) -> bytes:
        """The bytes before the first event; may be empty."""
        ...

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`. A `Failed` becomes the API's in-band error, a `Done` the API's end of stream; nothing
        is returned for events after either."""
        ...

    def keep_alive(self) -> bytes:
        """What the API sends when there is nothing to say for a while. May come before the first event, and between any two."""
        ...


class WholeEncoder(Protocol):
    """Encodes events as one body; one object per response. `content_type` goes into the response's head."""

    content_type: str

    def add(self, events: Sequence[Event]) -> None:
        """Take in events. `Failed` is kept and raised by `body`."""
        ...

    def body(self) -> bytes:
        """The finished object. Raises the error of a `Failed` event."""
        ...

    def fork(self) -> "WholeEncoder":
        """An independent copy with the same events so far."""
        ...


class ErrorEncoder(Protocol):
    """Encodes an error in the API's envelope. `locate` is given for errors from behind the decoder: their `param` is a path
    in `GenerationRequest`."""

    def __call__(self, error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes: ...


class VerbatimStream:
    """Frames what a provider said, in its order; `written` makes a seal the text that stands in JSON. A piece whose seal is not
    there yet waits for it, and what comes behind waits too; at the end, and where `most` pieces wait, nothing waits, and what has
    no seal is empty."""

    def __init__(self, written: Callable[[bytes], bytes], most: int = 256) -> None:
        self._most = most
        self._waiting: deque[Verbatim] = deque()
        self._seals = _Seals(written)

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames that can leave now."""
        for event in events:
            if isinstance(event, Verbatim):
                self._waiting.append(event)
            elif isinstance(event, ReasoningEnd):
                self._seals.take(event)
        over = bool(events) and isinstance(events[-1], Finished | Done | Failed | Cancelled)
        over = over or len(self._waiting) > self._most
        frames: list[bytes] = []
        while self._waiting and (over or self._seals.has_all_of(self._waiting[0])):
            first = self._waiting.popleft()
            name = f"event: {first.name}\n".encode() if first.name else b""
            frames.append(b"%bdata: %b\n\n" % (name, self._seals.put_in(first).replace(b"\n", b"\ndata: ")))
        return b"".join(frames)


class VerbatimBody:
    """A whole answer as a provider `said` it: `written` as for `VerbatimStream`."""

    def __init__(self, verbatim: Verbatim, written: Callable[[bytes], bytes]) -> None:
        self._verbatim = verbatim
        self._seals = _Seals(written)

    def seal(self, event: ReasoningEnd) -> None:
        """Reasoning has ended, perhaps with a seal that stands in the answer."""
        self._seals.take(event)

    def fork(self) -> "VerbatimBody":
        """An independent copy."""
        other = copy.copy(self)
        other._seals = self._seals.fork()
        return other

    def body(self) -> bytes:
        """The answer."""
        return self._seals.put_in(self._verbatim)


class _Seals:
    """The seals of an answer, and how many of them stand in what was framed."""

    __slots__ = ("_made", "_put", "_written")

    def __init__(self, written: Callable[[bytes], bytes]) -> None:
        self._written = written
        self._made: list[bytes] = []
        self._put = 0

    def fork(self) -> "_Seals":
        """An independent copy."""
        other = _Seals(self._written)
        other._made, other._put = self._made.copy(), self._put
        return other

    def take(self, event: ReasoningEnd) -> None:
        """Keep the seal of reasoning that a provider wants back."""
        if event.carried and event.seal is not None:
            self._made.append(self._written(event.seal))

    def has_all_of(self, event: Verbatim) -> bool:
        """Whether all seals that stand in `event` are there."""
        return len(event.pieces) - 1 <= len(self._made) - (0 if event.again else self._put)

    def put_in(self, event: Verbatim) -> bytes:
        """The data of `event` with the seals in their places."""
        at = 0 if event.again else self._put
        data = event.pieces[0]
        for piece in event.pieces[1:]:
            data += (self._made[at] if at < len(self._made) else b"") + piece
            at += 1
        if not event.again:
            self._put = min(at, len(self._made))
        return data
