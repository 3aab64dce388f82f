"""An API's part in answers that are made in the background.

The background keeps requests, runs them and sends what is kept of their streams; it knows no API. Each API is a row: a
`BackgroundApi`, with the words of its stored streams and objects (`StoredWords`). Pure. Above: `background` and its parts, which
read the rows; the wiring, which makes them. Below: the roles of the protocols.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import attrs

from smg_core.errors import SmgError
from smg_core.history.store.base import AppendItems, StoredResponse
from smg_core.json_types import JsonObject
from smg_core.request import GenerationRequest
from smg_core.serving.api import Api, Memory
from smg_core.wire.base import Decoded, StreamEncoder, WholeEncoder

__all__ = [
    "AnyBackgroundApi",
    "BackgroundApi",
    "BackgroundMemory",
    "StoredLog",
    "StoredStream",
    "StoredWhole",
    "StoredWords",
]

D = TypeVar("D", bound=Decoded)


@runtime_checkable
class StoredStream(StreamEncoder, Protocol):
    """The encoder of a stream that is kept."""

    def queued(self) -> bytes:
        """The frames that open the stream of an answer that waits for its turn."""
        ...

    def go_on(self, number: int, items: Sequence[JsonObject]) -> None:
        """Go on with a stream that was opened before: `number` is that of its next event, `items` are done. Called before
        `start`."""
        ...

    def response(self) -> JsonObject:
        """The object as it is now, in the form in which it is stored."""
        ...


@runtime_checkable
class StoredWhole(WholeEncoder, Protocol):
    """The encoder of a whole answer that is kept."""

    def fail(self, error: SmgError) -> None:
        """End the answer with an error, which the object then tells."""
        ...

    def response(self) -> JsonObject:
        """The object as it is now, in the form in which it is stored."""
        ...


class StoredLog(Protocol):
    """What the stored events of one answer say: the number of the next event, and the items that are done."""

    following: int

    @property
    def begun(self) -> bool:
        """Whether the event that opens the stream is there."""
        ...

    @property
    def items(self) -> list[JsonObject]: ...

    def close(self) -> list[bytes]:
        """The events that close what is open; they count as taken."""
        ...

    def ending(self, status: str, found: JsonObject) -> bytes:
        """The event that ends the stream with `found`, the finished object of this status."""
        ...


class BackgroundMemory(Memory[D], Protocol[D]):
    """The memory of an API, as a run in the background needs it."""

    async def hold(self, id: str, tenant: str) -> None:
        """Renew what `recall` has taken for the answer `id`. Raises LeaseLost and StoreFailed."""
        ...


@attrs.frozen
class StoredWords:
    """How an API writes its stored streams and objects.

    `events` makes the stored events of frames, `frame` the frame of a stored event, `closing` stands behind the last frame.
    `gone(error, id, number)` is the event, not stored, that ends the stream of an answer that is there no more. `log` reads
    stored events. `changed(body, status, error, now)` is a stored body with another status. `items` is the field of an object
    that holds its items; `has_ids`: they have ids by which they are found.
    """

    noun: str
    items: str
    events: Callable[[bytes], list[bytes]]
    frame: Callable[[bytes], bytes]
    is_terminal: Callable[[bytes], bool]
    gone: Callable[[SmgError, str, int], bytes]
    log: Callable[[Iterable[bytes]], StoredLog]
    changed: Callable[[JsonObject, str, SmgError | None, float], JsonObject]
    closing: bytes = b""
    has_ids: bool = True


def _as_stored(decoded: Decoded, found: JsonObject) -> JsonObject:
    return found


def _no_headers(decoded: Decoded) -> Mapping[str, str]:
    return {}


def _no_turn(decoded: Decoded, found: JsonObject) -> list[AppendItems]:
    return []


@attrs.frozen
class BackgroundApi(Generic[D]):
    """One API whose answers can be made in the background; its ids begin with the API's prefix. `path` is its route.

    `body` is the request's body as it is kept, `headers` the headers that are kept beside those by which it is routed. `prompt`
    is what is prepared to find out whether a request can be answered. `stored(decoded, object, pending)` makes the record of an
    answer, `turn` what it adds to its conversation; `rendered` is a stored object as the client gets it.
    """

    api: Api[D]
    path: str
    memory: BackgroundMemory[D]
    words: StoredWords
    stream: Callable[[D, int], StoredStream]
    whole: Callable[[D, int], StoredWhole]
    body: Callable[[D], bytes]
    prompt: Callable[[D], GenerationRequest]
    stored: Callable[[D, JsonObject, bool], StoredResponse]
    turn: Callable[[D, JsonObject], list[AppendItems]] = _no_turn
    headers: Callable[[D], Mapping[str, str]] = _no_headers
    rendered: Callable[[D, JsonObject], JsonObject] = _as_stored


AnyBackgroundApi: TypeAlias = BackgroundApi[Any]
"""A row of which API is known only at run time: what it decodes, it alone reads."""
