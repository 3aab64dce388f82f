"""The contract of one middleware: what it is shown, and what it may answer.

A middleware is made once. For each exchange (one HTTP request and its answer) that it applies to, `begin` makes a session, whose
hooks are called in the order of `HookName`. Every text is a `str`. Pure. Above: `chain`, which calls; `wasm` and Python plugins,
which implement. Below: the request and the events that all APIs and engines share.
"""

from collections.abc import Awaitable, Mapping
from typing import Literal, Protocol, get_args

import attrs

from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = [
    "CONTINUE",
    "HOOKS",
    "About",
    "AnswerPiece",
    "ChangeHead",
    "ChangeStored",
    "ChangeText",
    "Continue",
    "End",
    "EventVerdict",
    "Failure",
    "HeadVerdict",
    "Headers",
    "HookName",
    "Middleware",
    "MiddlewareFault",
    "PieceKind",
    "PieceMode",
    "PieceVerdict",
    "PluginSession",
    "Reject",
    "RequestBody",
    "RequestHead",
    "RequestVerdict",
    "ResponseHead",
    "StorageCall",
    "StorageVerdict",
    "TextVerdict",
]

HookName = Literal[
    "request_head",
    "request_body",
    "request",
    "event",
    "response_head",
    "response",
    "piece",
    "end",
    "error",
    "store",
    "stored",
]
HOOKS: tuple[HookName, ...] = get_args(HookName)
PieceKind = Literal["wire", "text", "reasoning", "arguments"]
PieceMode = Literal["none", "wire", "text"]
Headers = tuple[tuple[str, str], ...]


class MiddlewareFault(Exception):
    """A hook failed, or answered with what it may not. `reason` is for the operator: a client never sees it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@attrs.frozen
class About:
    """The known facts of an exchange; no verdict changes it. `tenant` and `principal` are empty before the caller is known,
    `model` before the body was read. `route` is the pattern of the route, `path` the path as sent, without the query."""

    request_id: str
    method: str
    path: str
    route: str = ""
    tenant: str = ""
    principal: str = ""
    model: str = ""


@attrs.frozen
class RequestHead:
    """The head of a request. Names of `headers` are in lower case; a name may occur more than once."""

    method: str
    path: str
    query: str
    headers: Headers


@attrs.frozen
class ResponseHead:
    """The head of an answer."""

    status: int
    headers: Headers


@attrs.frozen
class RequestBody:
    """The body of a request, without its content coding. A body that is no UTF-8 is not shown."""

    text: str


@attrs.frozen
class AnswerPiece:
    """A piece of an answer. `kind` "wire": text as the client gets it, whole events of an event stream, or a whole body. Other
    kinds are what the model said before it is written in an API's words: "text", "reasoning" and "arguments" (of a tool call) of
    the choice `choice`. `last`: nothing more of this kind comes, so what was held back must come out now."""

    text: str
    kind: PieceKind
    choice: int = 0
    last: bool = False


@attrs.frozen
class End:
    """The end of an exchange: `outcome` is "ok" or the name of the error; tokens are None where they are not known."""

    status: int
    outcome: str
    seconds: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None


@attrs.frozen
class Failure:
    """An error that the client is about to get."""

    status: int
    code: str
    message: str


@attrs.frozen
class StorageCall:
    """One call of the store of the history, or one operation of a write. `operation` is "put-response", "append-items", ... for
    what is written, and the method of `history.store.base.Store` for the others; `kind` is that of a record, else ""; `texts` are
    what is written, each by a name."""

    operation: str
    kind: str
    id: str
    tenant: str
    principal: str
    texts: Headers = ()


# ------------------------------------------------------------------------------------------------------------ verdicts


@attrs.frozen
class Continue:
    """Nothing is changed."""


CONTINUE = Continue()


def _pairs(given: Headers | Mapping[str, str]) -> Headers:
    """Headers as pairs of name and value. Raises MiddlewareFault where they are none."""
    found = tuple(given.items() if isinstance(given, Mapping) else given)
    for each in found:
        if not isinstance(each, tuple | list) or len(each) != 2 or not all(isinstance(text, str) for text in each):
            raise MiddlewareFault(
                "gave headers that are neither pairs (name, value) of texts nor a mapping of names to values"
            )
    return found


@attrs.frozen
class ChangeHead:
    """Headers to remove, then to set (in place of all of that name), then to add: pairs (name, value), or a mapping. `status` is
    for answers only. `tenant` and `principal` say whose a request is: only before the caller is known, and only with the grant
    "tenant". Raises MiddlewareFault for headers of another form."""

    set: Headers = attrs.field(default=(), converter=_pairs)
    add: Headers = attrs.field(default=(), converter=_pairs)
    remove: tuple[str, ...] = ()
    status: int | None = None
    tenant: str | None = None
    principal: str | None = None


@attrs.frozen
class ChangeText:
    """Another text in place of a body or a piece; an empty piece is held back. With a request's body the head may change once
    more."""

    text: str
    head: "ChangeHead | None" = None


@attrs.frozen
class Reject:
    """The exchange ends with an error of this status and this message, in the envelope of its API. A status that no error of the
    gateway has becomes 400 or 500."""

    status: int
    message: str = ""


@attrs.frozen
class ChangeStored:
    """Other texts in place of some of those that are written, by their names."""

    texts: Headers


StorageVerdict = Continue | ChangeStored | Reject
HeadVerdict = Continue | ChangeHead | Reject
TextVerdict = Continue | ChangeText | Reject
PieceVerdict = TextVerdict
RequestVerdict = Continue | GenerationRequest | Reject
EventVerdict = Continue | tuple[Event, ...] | Reject


# --------------------------------------------------------------------------------------------------------------- roles


class PluginSession(Protocol):
    """One middleware in one exchange. Hooks that the middleware does not list are never called; calls do not overlap. A hook may
    raise anything, which is a failure of the middleware."""

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        """Before anything of the request is used."""
        ...

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        """When the body has come, before it is decoded."""
        ...

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        """When a request for generation was decoded, whatever its API. Returns the request that is answered in its place."""
        ...

    def on_event(self, event: Event) -> EventVerdict:
        """For each event of an answer, before it is written in the words of an API. Returns the events that come in its place, ()
        for none. A plain function."""
        ...

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        """Before the head of an answer is sent."""
        ...

    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        """For an answer that is sent whole, in place of `on_response_head` and `on_piece`; never for an event stream."""
        ...

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
        """For each piece of an answer. A plain function does not make the stream wait for another turn of the event loop."""
        ...

    async def on_end(self, end: End) -> str:
        """After the last piece. Returns what is to be sent behind it on an event stream, "" for nothing."""
        ...

    async def on_error(self, failure: Failure) -> Continue | Reject:
        """Instead of an answer the client gets an error: Reject replaces its status and message."""
        ...

    async def on_store(self, call: StorageCall) -> StorageVerdict:
        """Before a call of the store. The session is of that call alone."""
        ...

    async def on_stored(self, call: StorageCall) -> None:
        """After a call of the store that has happened; as `on_store`."""
        ...

    def close(self) -> None:
        """The exchange is over, however it ended; called once."""
        ...


class Middleware(Protocol):
    """One middleware. `hooks` are those that its sessions have, `pieces` which kind of pieces they see."""

    @property
    def name(self) -> str: ...

    @property
    def hooks(self) -> frozenset[HookName]: ...

    @property
    def pieces(self) -> PieceMode: ...

    def begin(self, about: About) -> PluginSession:
        """The session of one exchange. A plain call that takes microseconds."""
        ...
