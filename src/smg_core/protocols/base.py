"""What one public API is to the rest of the house: a decoder of bodies and an encoder of events.

Roles and limits only. An API module (chat, messages, ...) provides a `decode` function, a `StreamEncoder` for server-sent
events and a `WholeEncoder` for one JSON body; the server drives them and knows nothing of their wire. They are pure: the
time stamp and ids they write are arguments. They know no engine and no worker.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import attrs
from msgspec import Struct

from smg_core.errors import SmgError
from smg_core.events import Event
from smg_core.protocols.compat import STRICT, Compat
from smg_core.request import Caller, GenerationRequest

__all__ = ["Decoded", "ErrorEncoder", "Incoming", "Locate", "RequestLimits", "StreamEncoder", "WholeEncoder"]

Locate = Callable[[str], str]
"""From a path into `GenerationRequest` ("messages[3].parts[1]") to the field of an API's own request that it was read from."""

_NO_VALUES: Mapping[str, str] = MappingProxyType({})
_NO_QUERY: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@attrs.frozen
class RequestLimits:
    """Bounds on what one request may hold. Sizes are bytes, the rest are counts. Over a bound is a 400 (413 for the
    body) that names the parameter and the bound.

    `json_values` bounds how many values a body holds, and how many the JSON texts in its strings hold together; it is checked
    before the body is parsed. `json_depth` bounds the nesting of free-form values (schemas, template arguments, documents);
    everything else in a body has a fixed shape. `schema_bytes` bounds what an answer or its calls are held to: schemas as JSON,
    regular expressions, grammars, choices. `parse_characters` bounds a text to be parsed. `stop_token_ids`, `documents`,
    `template_arguments` and `choices` bound the engine extras of those names.
    """

    body_bytes: int = 16 * 1024 * 1024
    json_values: int = 100_000
    json_depth: int = 64
    schema_bytes: int = 256 * 1024
    parse_characters: int = 256 * 1024
    messages: int = 10_000
    n: int = 128
    stop: int = 16
    stop_characters: int = 1024
    tools: int = 512
    logprobs: int = 20
    logit_bias: int = 1024
    metadata: int = 16
    metadata_characters: int = 512
    stop_token_ids: int = 256
    documents: int = 1024
    template_arguments: int = 256
    choices: int = 1024


_DEFAULT_LIMITS = RequestLimits()


class Incoming(Struct, frozen=True):
    """One request as its decoder gets it.

    `path_values` are the values that the path has for the names in its route's pattern, `query` the values of each name in
    the query, in order; header names are lower-cased. `request_id` becomes the id of what is generated. `compat` says which
    fields of other servers' APIs are passed over.
    """

    body: bytes
    request_id: str
    path_values: Mapping[str, str] = _NO_VALUES
    query: Mapping[str, tuple[str, ...]] = _NO_QUERY
    headers: Mapping[str, str] = _NO_VALUES
    caller: Caller = Caller()
    limits: RequestLimits = _DEFAULT_LIMITS
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
