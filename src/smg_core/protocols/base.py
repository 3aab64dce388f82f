"""What one public API is to the rest of the house: a decoder of bodies and an encoder of events.

Roles only. An API module (chat, messages, ...) provides a `decode` function, a `StreamEncoder` for server-sent
events and a `WholeEncoder` for one JSON body; the server drives them and knows nothing of their wire. They are pure: the
time stamp and ids they write are arguments. They know no engine and no worker.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from smg_core.errors import SmgError
from smg_core.events import Event
from smg_core.protocols.compat import STRICT, Compat
from smg_core.protocols.settings import LimitsConfig
from smg_core.request import Caller, GenerationRequest

__all__ = ["Decoded", "ErrorEncoder", "Incoming", "Locate", "StreamEncoder", "WholeEncoder"]

Locate = Callable[[str], str]
"""From a path into `GenerationRequest` ("messages[3].parts[1]") to the field of an API's own request that it was read from."""

_NO_VALUES: Mapping[str, str] = MappingProxyType({})
_NO_QUERY: Mapping[str, tuple[str, ...]] = MappingProxyType({})


_DEFAULT_LIMITS = LimitsConfig()


class Incoming(Struct, frozen=True):
    """One request as its decoder gets it.

    `path_values` are the values that the path has for the names in its route's pattern, `query` the values of each name in
    the query, in order; header names are lower-cased. `request_id` becomes the id of what is generated. `compat` says which
    fields of other servers' APIs are passed over. What a request has over `limits` is a 400 (413 for the body) that names the
    parameter and the bound.
    """

    body: bytes
    request_id: str
    path_values: Mapping[str, str] = _NO_VALUES
    query: Mapping[str, tuple[str, ...]] = _NO_QUERY
    headers: Mapping[str, str] = _NO_VALUES
    caller: Caller = Caller()
    limits: LimitsConfig = _DEFAULT_LIMITS
    compat: Compat = STRICT


class Decoded(Protocol):
    """What every API's decoder makes of a request, at least; its encoders get all of it."""

    @property
    def generation(self) -> GenerationRequest: ...

    def locate(self, path: str) -> str:
        """The field of this API's request that `path` into `generation` was read from. See `Locate`."""
        ...


class StreamEncoder(Protocol):
    """Events to the bytes of a streamed answer; one per response. `content_type` is that of its head."""

    content_type: str

    def start(self) -> bytes:
        """What goes out before the first event; may be empty."""
        ...

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`. A `Failed` becomes the API's in-band error, a `Done` the API's end of stream; nothing
        is returned for events after either."""
        ...


class WholeEncoder(Protocol):
    """Events to one body; one per response. `content_type` is that of its head."""

    content_type: str

    def add(self, events: Sequence[Event]) -> None:
        """Take in events. `Failed` is kept and raised by `body`."""
        ...

    def body(self) -> bytes:
        """The finished object. Raises the error of a `Failed` event."""
        ...

    def fork(self) -> "WholeEncoder":
        """Another that has taken in the same, and from here on goes its own way."""
        ...


class ErrorEncoder(Protocol):
    """An error to the API's envelope. `locate` is for errors from behind the decoder, whose paths are in our words."""

    def __call__(self, error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes: ...
