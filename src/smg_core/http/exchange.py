"""One HTTP exchange: reads the body within bounds, writes the answer, and notices when the client leaves (edge).

Speaks ASGI only; the protocols read what a body means. When the client leaves, the exchange's task is cancelled, wherever it
waits, so every phase of a request is given up in the same way. Our own HTTP protocol reports a lost connection by a plain call;
under other ASGI servers a task listens to `receive`. Above: app.app and the handlers. Below: bodies, framing, inflating.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Protocol
from urllib.parse import quote, unquote, unquote_plus

from smg_core.auth.certificates import Certificate
from smg_core.auth.credentials import Credential, presented
from smg_core.clock import IdSource
from smg_core.errors import (
    ClientGone,
    HeadersTooLarge,
    InternalError,
    InvalidRequest,
    PayloadTooLarge,
    SmgError,
    UnsupportedMedia,
)
from smg_core.events import Usage
from smg_core.hooks import ExchangeEnded, RequestFinished
from smg_core.http.bodies import Held
from smg_core.http.envelopes import envelopes_of
from smg_core.http.framing import framing_fault, ignores_upgrade, without_user
from smg_core.http.inflating import inflated
from smg_core.http.queries import check_query, query_fields
from smg_core.http.scope import CERTIFICATE, DISCONNECT, DirectSend, Disconnect, Header, Receive, Scope, Send, direct_of
from smg_core.lease import AdmittedKind, RequestLease
from smg_core.middleware.answer_watchers import AnswerWatchers
from smg_core.middleware.base import About
from smg_core.observability.trace_context import settle, trace_id_of
from smg_core.observability.tracing.requests import TracedRequest
from smg_core.request import Caller, GenerationRequest

__all__ = ["Exchange", "Keeper", "hide_key"]


OPENAI_VERSION: Header = (b"openai-version", b"2020-10-01")
"""What answers of OpenAI's APIs bring beside their id, and the milliseconds until their head left."""


_BINARY = ("2", "3")  # versions of HTTP without Transfer-Encoding; there the server checks the host
_PLAIN = frozenset({"identity", ""})
_CODINGS = _PLAIN | {"gzip", "x-gzip"}
_BLANKS = 1 << 16
"""Bytes of blanks that may stand before the first other character of a body; no client writes one."""
_WRITTEN = 1 << 18  # bytes of a whole response that are written at once

_QUERY = "smg.query"
"""Key of the scope under which a query is kept that has a key in it."""
_KEY_IN_QUERY = re.compile(rb"((?:^|&)(?:k|%6b)(?:e|%65)(?:y|%79)=)([^&]*)", re.IGNORECASE)

_NO_VALUES: Mapping[str, str] = {}
_NOBODY = Caller()


class Keeper(Protocol):
    """Who keeps the answer of an exchange, for a client that sends its request again."""

    def client_left(self) -> bool:
        """Called when the client leaves; returns whether the answer is made all the same."""

    async def goes_on_as(self, id: str) -> None:
        """Called once an answer of this id is made elsewhere, of which this exchange sends what comes."""

    def cut_off(self) -> None:
        """Called where the answer ends before all of it is sent, though nothing has failed."""


def _as_sent(path: str, root: str, raw_path: bytes) -> bytes:
    """`path` as it was sent, which has a `%` in it; empty if the server encodes it in another way."""
    raw_path = raw_path.removeprefix(quote(root).encode())
    return raw_path if unquote(raw_path.decode("latin-1")) == path else b""


def _headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request by their names, in lower case as servers give them."""
    headers = {}
    for name, value in scope["headers"]:
        headers[name.decode("latin-1")] = value.decode("latin-1")
    if "traceparent" in headers:
        settle(headers, scope["headers"])
    return headers


def hide_key(scope: Scope) -> None:
    """Take the key of Google's clients out of the scope's query, for all who log that: servers and middlewares do. It stays
    under a name that only this module reads."""
    query: bytes = scope.get("query_string", b"")
    if query and _QUERY not in scope and _KEY_IN_QUERY.search(query):
        scope[_QUERY] = query
        scope["query_string"] = _KEY_IN_QUERY.sub(rb"\1***", query)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The request body is over the limit of {limit} bytes.")


class Exchange:
    """A request and its response.

    `path` is decoded and without the path that the app is mounted under, `raw_path` the same as it was sent. The app sets
    `route` (the pattern of the route that it found), `path_values` (from that pattern) and `caller` (who sent the request)
    before it calls the handler. `request_id` is the gateway's and `client_id` the client's id of the request. `status` and
    `sent` (bytes of the body) are those of the answer so far; `finished` is set by the handler of a request to a model, and
    `subject` (what is changed) and `audited` (that its audit log knows of the request) at the admin door. `traced` is its trace,
    where the gateway makes spans. `began` is when it came; by the clock `timed` an answer of OpenAI's APIs says how long it took.
    `lease` is set once the request is admitted; `kind` is what it is admitted as, where that is not for its handler to say: a
    line of a batch, a frame of a WebSocket. `keeper` is there where the answer is kept for another try of the client.
    """

    __slots__ = (
        "_asked",
        "_direct",
        "_disconnect",
        "_listener",
        "_more",
        "_receive",
        "_send",
        "_sent",
        "_task",
        "always",
        "audited",
        "began",
        "caller",
        "client_id",
        "finished",
        "gone",
        "headers",
        "keeper",
        "kind",
        "lease",
        "method",
        "path",
        "path_values",
        "raw_path",
        "request_id",
        "route",
        "scope",
        "started",
        "status",
        "subject",
        "timed",
        "traced",
        "write_now",
    )

    plugged = False
    """Whether plugins see the exchange; without them `transform_request`, `shows`, `detach_request` and `used` are not called."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("query_string"):
            hide_key(scope)
        self.scope = scope
        self._receive = receive
        self._send = send
        self.method: str = scope["method"]
        root: str = scope.get("root_path", "")
        self.path: str = scope["path"].removeprefix(root)
        raw_path = scope.get("raw_path") or b""
        self.raw_path = _as_sent(self.path, root, raw_path) if b"%" in raw_path else b""
        self.headers = _headers_of(scope)
        self.path_values: Mapping[str, str] = _NO_VALUES
        self.caller = _NOBODY
        self._direct = send if type(send) is DirectSend else None
        self.write_now = self._direct.write_now if self._direct is not None else None
        self.always: list[Header] = []
        self.request_id = self.client_id = self.route = self.subject = ""
        self.status = self._sent = 0
        self.finished: RequestFinished | None = None
        self.traced: TracedRequest | None = None
        self.lease: RequestLease | None = None
        self.kind: AdmittedKind | None = None
        self.keeper: Keeper | None = None
        self.started = self.audited = self.gone = self._asked = False
        self.began = 0.0
        self.timed: Callable[[], float] | None = None
        self._more = True  # more of the body is to come
        self._task: asyncio.Task[object] | None = None
        self._listener: asyncio.Future[None] | None = None
        self._disconnect: Disconnect | None = None

    @property
    def name(self) -> str:
        """The request's id in the answer: the client's if it gave one, else the gateway's."""
        return self.client_id or self.request_id

    @property
    def sent(self) -> int:
        """The bytes of the answer's body so far; those of `write_now` where it counts them, or after `count_direct`."""
        direct = self._direct
        return self._sent if direct is None or direct.written is None else self._sent + direct.written()

    @property
    def trace_id(self) -> str:
        """The id of the trace that this request belongs to; without traces, that of the client, "" without one."""
        if self.traced is not None:
            return self.traced.trace_id
        parent = self.headers.get("traceparent")
        return "" if parent is None else trace_id_of(parent)

    @property
    def loggable_path(self) -> str:
        """The path for logs."""
        return without_user(self.path)

    def ended(self, outcome: str, seconds: float) -> ExchangeEnded:
        """The moment of this exchange, which has ended after so many seconds; `outcome` where it was no request to a model."""
        finished = self.finished
        return ExchangeEnded(
            peer=self.peer,
            method=self.method,
            path=self.loggable_path,
            status=self.status or (finished.status if finished is not None else InternalError.status),
            sent=self.sent,
            seconds=seconds,
            outcome=finished.outcome if finished is not None else outcome,
            request_id=self.request_id,
            client_id=self.client_id,
            finished=finished,
            tenant=self.caller.tenant,
            principal=self.caller.principal,
            route=self.route,
            trace_id=self.trace_id if finished is None else finished.trace_id,
            sampled=self.sampled,
        )

    @property
    def sampled(self) -> bool:
        """False where it is known that no spans of the request are kept."""
        return self.traced is None or self.traced.sampled

    @property
    def credential(self) -> Credential | None:
        """The one credential of the request. `?key=` is one on the paths of Google's API, spelt as its clients spell it. Raises
        AuthenticationFailed."""
        queried: bytes | None = self.scope.get(_QUERY)
        if queried is None or not envelopes_of(self.scope).takes_key_in_query(self.path):
            return presented(self.headers, self.scope["headers"])
        values = [unquote_plus(found[2].decode("latin-1")) for found in _KEY_IN_QUERY.finditer(queried)]
        return presented(self.headers, self.scope["headers"], values)

    async def replaced_error(self, error: SmgError) -> SmgError:
        """The error that the client is told of instead of this one."""
        return error

    async def transform_request(self, request: GenerationRequest) -> GenerationRequest:
        """The request that is answered in the place of a decoded one: what plugins leave of it. Raises SmgError."""
        return request

    async def detach_request(self, request: GenerationRequest) -> GenerationRequest:
        """As `transform_request`, of a request that is stored and run in the background, where its plugins see it. Raises
        SmgError."""
        return request

    def shows(self, choices: int) -> Callable[[int], AnswerWatchers] | None:
        """Who is shown what the model says, for each answer that makes the response together with others, of so many choices
        each; None for nobody."""
        return None

    def used(self, usage: Usage | None) -> None:
        """Called before the last bytes of an answer leave, with the tokens that it took."""

    def unplug(self) -> None:
        """The exchange is over for its plugins, if it has any."""

    def take_id(self, ids: IdSource, prefix: str) -> str:
        """Give the request its id, unless it has one that begins so, of which plugins were told; returns it."""
        if not prefix or not self.request_id.startswith(prefix):
            self.request_id = ids(prefix)
        return self.request_id

    def about(self) -> About:
        """What plugins are told of this exchange."""
        caller = self.caller
        return About(self.request_id, self.method, self.path, self.route, caller.tenant, caller.principal)

    @property
    def identified(self) -> bool:
        """Whether the app has found out whose this request is."""
        return self.caller is not _NOBODY

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the client has shown in the TLS handshake."""
        return self.scope.get(CERTIFICATE)

    @property
    def address(self) -> str:
        """The address of the client without its port, "" if it is not known."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def peer(self) -> str:
        """The address of the client, "" if it is not known."""
        client = self.scope.get("client")
        if not client:
            return ""
        return f"{client[0]}:{client[1]}" if client[1] else str(client[0])  # proxies may not say the port

    def check_head(self, most: int, most_lines: int) -> None:
        """Refuse a query of too many fields, and under another server than ours a head that can be read in two ways or is over
        its bounds. That server is told to close the connection then, and also after an `Upgrade` that it ignored, since uvicorn
        reads nothing after that."""
        if query := self.scope.get("query_string"):
            check_query(query)
        version, headers = self.scope.get("http_version", "1.1"), self.scope["headers"]
        if DISCONNECT in self.scope or version in _BINARY:
            return
        fault = framing_fault(version, headers)
        if fault is None and sum(len(name) + len(value) + 4 for name, value in headers) > most:
            fault = HeadersTooLarge(f"The request's head is over the limit of {most} bytes.")
        if fault is None and len(headers) > most_lines:
            fault = HeadersTooLarge(f"The request's head has more than {most_lines} lines.")
        if fault is not None or (self.scope["type"] == "http" and ignores_upgrade(headers)):
            self.always.append((b"connection", b"close"))
        if fault is not None:
            raise fault

    def discard(self, most: int) -> None:
        """Take in at most `most` more bytes of the body of this request, which is refused: our own HTTP protocol closes the
        connection then."""
        disconnect = self.scope.get(DISCONNECT)
        if disconnect is not None:
            disconnect.discard_bytes = most

    def count_direct(self) -> None:
        """Count the bytes of a `write_now` that does not count them itself. Only called if an observer needs the number, since it
        costs time for every token."""
        if self._direct is None or self._direct.written is not None:
            return
        direct = self._direct.write_now

        def counted(data: bytes) -> bool:
            if not direct(data):
                return False
            self._sent += len(data)
            return True

        self.write_now = counted

    def ends(self) -> tuple[Scope, Receive, Send]:
        """What this exchange reads and writes with, as an ASGI app is called with it."""
        return self.scope, self._receive, self._send

    def rebind(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read and write with these from now on: what an ASGI middleware passes on."""
        if scope["headers"] is not self.scope["headers"]:
            self.headers = _headers_of(scope)
        self.scope, self._receive, self._send = scope, receive, send
        self._direct = direct_of(send)
        self.write_now = self._direct.write_now if self._direct is not None else None

    def settle(self, ends: tuple[Scope, Receive, Send], status: int, sent: int, *, started: bool) -> None:
        """Read and write with `ends` again, after an answer of this status and so many bytes; status 0 is none."""
        self.rebind(*ends)
        self._direct = None  # it has counted what `sent` has
        self.started, self._sent = started, sent
        self.status = status or self.status

    @property
    def query(self) -> Mapping[str, tuple[str, ...]]:
        """The values of each name in the query, in order; a name without a value has an empty one."""
        text = self.scope.get(_QUERY) or self.scope.get("query_string", b"")
        return query_fields(text) if text else {}

    async def body(self, limit: int, held: Held | None = None) -> bytes:
        """The whole body, without its content coding. Raises PayloadTooLarge as soon as it is over `limit` bytes, as sent or
        inflated, UnsupportedMedia for a coding other than gzip, and ClientGone. `held` counts the bytes in memory of a body that
        comes in several pieces; Overloaded is raised if it has no room."""
        coding = self._coding(limit)
        self._asked = True
        first = await self._piece()
        if self._more or coding not in _PLAIN:
            return await self._gathered(first, coding, limit, held)
        if len(first) > limit:
            raise _too_large(limit)
        return first

    async def pieces(self, limit: int) -> AsyncIterator[bytes]:
        """The body as it comes, without its content coding, for a handler that does not keep it in memory. Raises as `body`."""
        coding = self._coding(limit)
        self._asked = True
        sent, size = self._pieces(await self._piece()), 0
        async for piece in sent if coding in _PLAIN else inflated(sent, limit):
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            yield piece

    def _coding(self, limit: int) -> str:
        """The body's content coding, before a byte of it is read. Raises PayloadTooLarge for a body that says it is longer than
        `limit` bytes, and UnsupportedMedia."""
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise _too_large(limit)
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        if coding not in _CODINGS:
            self.always.append((b"accept-encoding", b"gzip"))
            raise UnsupportedMedia("The content coding of a request's body is gzip or none.")
        return coding

    async def _gathered(self, first: bytes, coding: str, limit: int, held: Held | None) -> bytes:
        """A body that begins with `first` and comes in several pieces, or is coded."""
        whole, sent, blank = BytesIO(), self._pieces(first), True
        with self._giving_way(held):
            async for piece in sent if coding in _PLAIN else inflated(sent, limit):
                whole.write(piece)
                size = whole.tell()
                blank = blank and (not piece or piece.isspace())
                if blank and size > _BLANKS:
                    raise InvalidRequest(f"The request's body begins with more than {_BLANKS:,} blanks.")
                if size > limit:
                    raise _too_large(limit)
                if held is not None and (self._more or size > len(piece)):
                    held.grow(size - held.size)
        return whole.getvalue()  # the very bytes that were written to: the whole is never copied

    @contextmanager
    def _giving_way(self, held: Held | None) -> Iterator[None]:
        """While a body is read: the reading is cancelled, with Overloaded, if other requests need the memory."""
        task = asyncio.current_task()
        if held is None or task is None:
            yield
            return
        held.give_way = task.cancel
        try:
            yield
        except asyncio.CancelledError:
            if not held.gave_way:
                raise
            task.uncancel()
            raise held.refusal() from None
        finally:
            held.give_way = None
        held.arrived()

    async def _pieces(self, first: bytes) -> AsyncIterator[bytes]:
        """The body as it arrives, after its `first` piece. Raises ClientGone."""
        yield first
        while self._more:
            yield await self._piece()

    async def _piece(self) -> bytes:
        """The next piece of the body. Raises ClientGone, and what the server has refused the body for."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            if DISCONNECT in self.scope and (refused := self.scope[DISCONNECT].refused) is not None:
                error, self.request_id = refused
                raise error
            raise ClientGone("The client left before its request was complete.")
        self._more = message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece

    def watch(self, write_seconds: float | None = None) -> None:
        """From now on, the current task is cancelled when the client leaves; `gone` is True then. Called after the body has been
        read. With our own HTTP protocol the connection is closed if the client reads nothing of its answer for `write_seconds`;
        another server has its own bound."""
        disconnect = self.scope.get(DISCONNECT)
        if disconnect is not None:
            disconnect.write_seconds = write_seconds
        self._task = asyncio.current_task()
        disconnect = self._disconnect = self.scope.get(DISCONNECT)
        if disconnect is not None:
            disconnect.tell(self._leave)
        else:
            self._listener = asyncio.ensure_future(self._listen())

    def unwatch(self) -> None:
        """Called when the exchange is over: a client that leaves later cancels nothing."""
        self._task = None
        if self._disconnect is not None:
            self._disconnect.forget()
            self._disconnect = None
        if self._listener is not None:
            self._listener.cancel()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within, a client that leaves cancels the current task, as with `watch`: while others are asked about the request, such
        as plugins, a key's issuer, the history. Where `watch` is on already nothing changes. Another server than ours tells of
        it behind the body alone, so it is not noticed there before that was read."""
        if self._task is not None or (self._more and DISCONNECT not in self.scope):
            yield
            return
        self.watch()
        try:
            yield
        finally:
            self.unwatch()

    async def _listen(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except SmgError:
            return  # an ASGI middleware failed in its `receive`, which is told where it ends
        self._leave()

    def _leave(self) -> None:
        if self._task is not None and not self.gone and (self.keeper is None or not self.keeper.client_left()):
            self.give_up()

    def give_up(self) -> None:
        """Cancel the task of this exchange, whose client has left."""
        if self._task is not None and not self.gone:
            self.gone = True
            self._task.cancel()

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        """Send the response's head."""
        await self._send({"type": "http.response.start", "status": status, "headers": self._begun(status, headers)})

    def _begun(self, status: int, headers: Sequence[Header]) -> list[Header]:
        """All headers of the response, which begins now."""
        self.started, self.status = True, status
        if not self._asked and "expect" in self.headers:
            # The client waits for "100 Continue" and may send its body or not: the next bytes may not be a new request.
            self.always.append((b"connection", b"close"))
        if self.timed is not None:
            took = b"%d" % max(0, int((self.timed() - self.began) * 1000))
            headers = [*headers, (b"openai-processing-ms", took), OPENAI_VERSION]
        return [*headers, *self.always]

    async def write(self, data: bytes, last: bool) -> None:
        """Send some of the response's body."""
        self._sent += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def begin(self, status: int, headers: Sequence[Header], data: bytes, last: bool) -> None:
        """Send the head of a stream and its first bytes."""
        if last:  # and only ones, of which the head does not say how many
            await self.start(status, headers)
            await self.write(data, last)
        else:
            await self._send_first(status, headers, data, last)

    async def _send_first(self, status: int, headers: Sequence[Header], data: bytes, last: bool) -> None:
        """Send the head and the first of the body, or all of it, in one write if the server can."""
        write = None if self._direct is None else self._direct.write_first
        if write is None or self.plugged or self.method == "HEAD":
            await self.start(status, headers)
            await self.write(data, last)
            return
        head = self._begun(status, headers)
        if write(status, head, data, not last):
            self._sent += len(data)
        else:
            await self._send({"type": "http.response.start", "status": status, "headers": head})
            await self.write(data, last)

    async def respond(self, status: int, body: bytes, headers: Sequence[Header]) -> None:
        """Send a whole response; a large one in pieces, so that other requests are served between them."""
        length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]  # RFC 9110, 8.6
        if length and len(body) <= _WRITTEN:
            await self._send_first(status, [*headers, *length], b"" if self.method == "HEAD" else body, True)
            return
        await self.start(status, [*headers, *length])
        if self.method == "HEAD":
            body = b""
        at = 0
        while len(body) - at > _WRITTEN:
            await self.write(body[at : at + _WRITTEN], False)
            at += _WRITTEN
        await self.write(body[at:] if at else body, True)
