"""uvicorn's HTTP protocol, with stricter framing and with bounds (edge).

Framing: an `Upgrade` that opens a WebSocket at one of `socket_paths` is accepted; any other is ignored, and its body is read as
usual. A request without a Host or with two, with a transfer coding other than `chunked`, or in chunks by HTTP/1.0 is refused and
its connection closed, since a proxy before the gateway may have read it as another request. `http.framing` has these rules.

Bounds: bytes, lines and seconds of a request's head, bytes of what frames its body (trailer, lines of chunks), seconds and a
minimum rate of a body, seconds that a client may leave its answer unread, and the number of connections (503 above it). What
cannot be parsed is answered in the envelope of the API that it was for.

Clients that leave: the socket is read while a response is under way, so that the app is told at once. A client that has only shut
its sending side still gets its answer. To tell the two cases apart, interim responses (100) are written, and within a stream
zeros before a chunk's size: a closed socket answers them with a reset. A broken request does not spoil the answers to earlier
requests of the same connection. A refused body is read and dropped, within bounds: if a connection is closed with unread bytes,
the client sees a reset instead of its answer.

What one read brings is parsed in pieces: others have their turn between them, and while enough requests wait for the one that is
being answered nothing more is parsed or read. Time in which the gateway does not read is not the client's.

Deadlines are checked by a sweep over all connections twice a second, so they cost a request only two attribute writes. The app's
`send` is a `DirectSend` (`direct`), except for clients of HTTP/1.0. Depends on uvicorn's httptools protocol; `tests/core/server`
and `tests/gateway/test_http_conformance.py` test every override with a real socket.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import attrs
import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from smg_core.auth.certificates import Certificate, certificate_of
from smg_core.clock import IdSource, random_ids
from smg_core.errors import (
    HeadersTooLarge,
    InvalidRequest,
    MethodNotAllowed,
    Overloaded,
    RequestTimeout,
    SmgError,
)
from smg_core.hooks import ExchangeEnded, Observer, SilentObserver
from smg_core.http.bodies import Pace
from smg_core.http.envelopes import Envelopes
from smg_core.http.framing import framing_fault, origin_form, path_of_target, target_fault, without_user
from smg_core.http.queries import query_fields
from smg_core.http.scope import (
    CERTIFICATE,
    DISCONNECT,
    AsgiApp,
    AsgiMessage,
    Disconnect,
    Receive,
    Scope,
    Send,
)
from smg_core.server.direct import with_direct_send
from smg_core.server.proxy_header import ProxiedClient
from smg_core.server.socket_protocol import SOCKET_VERSION, read_handshake
from smg_core.wire.base import ErrorEncoder
from smg_core.wire.errors import error_headers

__all__ = ["BoundedHttpProtocol", "Refusals", "protocol_class"]

PROBE_PAUSE = 0.001  # seconds between the second and the third probe of a half-closed client; then six times the last
PROBES = 12  # the last after three hours; curl and Go take 16 digits of a chunk's size, zeros included
LONGEST_PATH = 256  # bytes of a path that are reported
PIECE = 4096  # bytes that are parsed in one go, of which some 150 requests are made at most
PIECES_AT_ONCE = 4  # before other connections have their turn


@attrs.frozen
class Refusals:
    """Who is told of requests that are refused before there is an exchange, what makes their ids, and the header of the answer
    that has these, and the envelopes that they are told in."""

    observer: Observer = attrs.field(factory=SilentObserver)
    ids: IdSource = attrs.field(factory=random_ids)
    id_header: bytes = b"x-request-id"
    envelopes: Envelopes = attrs.field(factory=Envelopes)


class _Flow(FlowControl):
    """As uvicorn's, but nothing is read while there is something left to parse, whatever uvicorn wants."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.wanted, self.held = True, False

    def pause_reading(self) -> None:
        self.wanted = False
        super().pause_reading()

    def resume_reading(self) -> None:
        self.wanted = True
        if self.read_paused and not self.held:
            super().resume_reading()

    def hold(self, held: bool) -> None:
        """Read nothing while `held`."""
        self.held = held
        if held:
            super().pause_reading()
        elif self.wanted:
            super().resume_reading()


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. Bounds are class attributes: uvicorn makes the instances."""

    header_bytes = 65536
    header_lines = 1000
    header_seconds = 10.0
    pace = Pace(10.0, 60.0, 0.0)  # of a body
    write_seconds = 60.0
    most_connections = 1 << 30
    refusals: Refusals  # of the requests that are refused here and never reach the app
    refused_seconds = 1.0  # that a connection over the bound has to send its head before it is refused
    discard_bytes = 256 * 1024 * 1024
    socket_paths: frozenset[str] = frozenset()  # where WebSockets are taken
    proxied: ProxiedClient | None = None  # the client of the connection, if a trusted proxy has named it
    certificate: Certificate | None = None  # that the client has shown
    retiring = False  # whether each connection is to be closed after its next answer
    pipelined = 8  # requests that may wait behind the one under way while the socket is still read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = self._flow = _Flow(transport)
        if self.proxied is not None:
            self.client = self.proxied
        if self.scheme == "https":
            self.certificate = certificate_of(transport.get_extra_info("peercert") or {})
        if self.proxied is not None or self.certificate is not None:
            switched = partial(cast("Any", self.ws_protocol_class), client=self.proxied, certificate=self.certificate)
            self.ws_protocol_class = cast("Any", switched)
        self.url, self.headers = b"", []
        self._unparsed = memoryview(b"")  # what has been read of the socket; nothing more is until it is parsed
        self._again = False  # whether that goes on in the next round of the event loop
        self._body_left = 0  # bytes of the body that is being read, where its length is known
        self._head_open = True
        self._head_bytes = self._head_lines = 0  # of the fields that the parser has told of
        self._framing_read = 0  # bytes of the pieces since a request's end, its head's end or the last of its body
        self._fault: SmgError | None = None
        self._waiting_since: float | None = self.loop.time()
        self._running: RequestResponseCycle | None = None
        self._taken: RequestResponseCycle | None = None  # of the request of which the head is read and the end is not
        self._deferred: SmgError | None = None
        self._discarded = 0
        self._body_bytes = 0
        self._unread: tuple[float, int] | None = None  # (since when the client reads nothing, bytes that wait)
        self.idle_since: float | None = None  # since the last answer, while nothing of another request has come
        self._refused_at_once = len(self.connections) > self.most_connections

    def connection_lost(self, exc: Exception | None) -> None:
        cycle = self._running
        if cycle is not None and cycle is not self.cycle:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)
        if cycle is not None and not cycle.response_complete:
            cast("Scope", cycle.scope)[DISCONNECT].happened()

    def data_received(self, data: bytes) -> None:
        if self._deferred is not None:
            return
        if self._refused_at_once:
            self._refuse(Overloaded("The gateway has as many connections as it takes.", retry_after=1.0))
            return
        self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
        self._parse()

    def _parse(self) -> None:
        """Parse what was read, until enough requests wait for their turn or other connections should have theirs."""
        for _ in range(PIECES_AT_ONCE):
            if not self._unparsed or self.parser is None or self._deferred is not None or self.transport.is_closing():
                self._unparsed = memoryview(b"")
                break
            if len(self.pipeline) > self.pipelined:
                break
            size = len(self._unparsed) if self._body_left >= len(self._unparsed) else max(PIECE, self._body_left)
            piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            self._parse_piece(piece)
        else:
            self._parse_again()
        if (held := bool(self._unparsed)) != self._flow.held and not self.transport.is_closing():
            self._flow.hold(held)

    def _parse_again(self) -> None:
        if self._unparsed and not self._again:
            self._again = True
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._again = False
        self._parse()

    def _parse_piece(self, piece: memoryview) -> None:
        taken, discarded = self._taken, self._discarded
        self._framing_read += len(piece)  # of fields that are not whole, and of chunks' lines, the parser tells nothing
        self._feed(piece)
        if self._waiting_since is None:
            self._framing_read = 0  # it is nothing of a request
        elif self._framing_read > self.header_bytes:
            self._refuse(self._too_long())
        if taken is not None and taken is self._taken and taken.response_complete:
            self._discard(len(piece) - (self._discarded - discarded), taken)  # what frames the body

    def _feed(self, data: bytes | memoryview) -> None:
        """Parse. The parser stops after the head of a request with `Upgrade`. If the upgrade is not accepted, a new parser reads
        the head again without that header, and then the rest."""
        try:
            while True:
                try:
                    self.parser.feed_data(data)
                except httptools.HttpParserUpgrade as stopped:
                    if self._should_upgrade():
                        self._switch(len(data) > stopped.args[0] or bool(self._unparsed))
                        return
                    data = memoryview(data)[stopped.args[0] :]
                    self._parse_without_upgrade()
                else:
                    return
        except httptools.HttpParserError:
            self._refuse(self._fault or InvalidRequest("The request is not valid HTTP."))

    def _should_upgrade(self) -> bool:
        """Whether the head that has been read opens a WebSocket that is taken."""
        names = {name for name, _ in self.headers}
        return (
            path_of_target(self.url).decode("latin-1") in self.socket_paths
            and super()._should_upgrade()
            and self.parser.get_method() == b"GET"
            and self.parser.get_http_version() == "1.1"
            and not names & {b"content-length", b"transfer-encoding"}
            and (self._running is None or self._running.response_complete)
        )

    def _switch(self, more: bool) -> None:
        """Hand the connection on. `more`: the client has not waited for the answer to its handshake; whoever stands before us may
        have read what follows as HTTP."""
        if more:
            self._refuse(InvalidRequest("A client waits until its WebSocket is accepted."))
            return
        try:
            request = read_handshake(self.url, self.headers)
        except SmgError as fault:
            self._refuse(fault, [(b"sec-websocket-version", SOCKET_VERSION)])
            return
        self.connections.discard(self)
        made = cast("Any", self.ws_protocol_class)
        protocol = made(config=self.config, server_state=self.server_state, app_state=self.app_state)
        protocol.connection_made(self.transport)
        protocol.begin(request, self.url, self.headers)
        self.transport.set_protocol(protocol)

    def _parse_without_upgrade(self) -> None:
        """Replace the parser by one that has read the same head without `Upgrade` (RFC 9110, 7.8), and so frames its body."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more. If a whole request is under way, it still gets its answer, and so do those behind it; a last
        one that is not whole is refused after them."""
        running = self._running
        if running is None or running.response_complete or running.more_body or self.transport.is_closing():
            return False
        if self.scheme == "https":
            return False  # the event loop ends a TLS connection as soon as one side does
        if running.scope["http_version"] == "1.0" and not running.response_started:
            return False  # without interim responses, a client that has left cannot be told from one that waits
        if self._deferred is None and self._waiting_since is None:
            self.cycle.keep_alive = False
        elif self._deferred is None:
            self._refuse(InvalidRequest("The client has ended its last request before that was whole."))
        self._probe(PROBES)
        self.loop.call_soon(self._probe, PROBES - 1, PROBE_PAUSE)  # a system nearby has answered by then
        return True

    def _probe(self, left: int, pause: float | None = None) -> None:
        """Write something that means nothing to a client that has shut its sending side, and again after `pause`, if there is
        one. If it has left, its system answers with a reset, and the next write finds the connection lost."""
        running = self._running
        if running is None or running.response_complete or self.transport.is_closing() or not left:
            return
        if not running.response_started and running.scope["http_version"] != "1.0":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif running.chunked_encoding:
            self.transport.write(b"0")  # the next write begins with a chunk's size, which may begin with zeros
        if pause is not None:
            self.loop.call_later(pause, self._probe, left - 1, pause * 6)

    def on_message_begin(self) -> None:
        self.idle_since = None  # not by any other bytes, behind which nothing would end the connection
        super().on_message_begin()
        scope: Scope = self.scope  # type: ignore[assignment]  # uvicorn's type has no keys of ours
        scope[DISCONNECT] = Disconnect()
        if self.certificate is not None:
            scope[CERTIFICATE] = self.certificate
        self._head_open, self._taken = True, None
        self._head_bytes = self._head_lines = self._discarded = self._body_bytes = 0
        self._waiting_since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        self.url += url  # first, so that a refusal knows the path and its API
        self._head_bytes += len(url)
        if self._head_bytes > self.header_bytes:
            self._stop(self._too_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or of the trailer of a body in chunks, which is counted and passed over: the app may have the head
        already, and what is checked there must not be changed behind it (RFC 9110, 6.5.1)."""
        self._head_bytes += len(name) + len(value) + 4
        self._head_lines += 1
        if self._head_bytes > self.header_bytes:
            self._stop(self._too_long())
        if self._head_lines > self.header_lines:
            self._stop(HeadersTooLarge(f"The request's head has more than {self.header_lines} lines."))
        if not self._head_open:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def _too_long(self) -> SmgError:
        part = "head is" if self._head_open else "head, trailer or chunk lines are"
        return HeadersTooLarge(f"The request's {part} over the limit of {self.header_bytes} bytes.")

    def _stop(self, fault: SmgError) -> None:
        """Stop the parser, from within one of its callbacks; the client gets the error `fault`."""
        self._fault = fault
        raise httptools.HttpParserError(fault.message)

    def on_headers_complete(self) -> None:
        self._head_open = False
        self._framing_read = 0
        if self.parser.should_upgrade() and not self._should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                self._stop(MethodNotAllowed("This is no proxy: CONNECT is not taken."))
            return
        method = self.parser.get_method()
        fault = framing_fault(self.parser.get_http_version(), self.headers, self.url) or target_fault(method, self.url)
        if fault is not None:
            self._stop(fault)
        self.url = origin_form(method, self.url)
        self._body_left = 0
        for name, value in self.headers:
            if name == b"content-length":
                self._body_left = int(value)
                break
        if self.parser.should_upgrade():
            return  # to a WebSocket, which is another protocol's
        super().on_headers_complete()
        self._taken = self.cycle
        if not self._flow.wanted or self._flow.read_paused:
            self._read_on()

    def on_body(self, body: bytes) -> None:
        self._framing_read = 0
        self._body_bytes += len(body)
        self._body_left -= len(body)
        cycle = self.cycle
        if cycle.response_complete:
            self._discard(len(body), cycle)
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        if self._body_left:  # else the end of the message, which tells of it too, comes at once
            cycle.message_event.set()

    def _discard(self, size: int, cycle: RequestResponseCycle) -> None:
        """Throw away so many bytes of a request that has its answer."""
        self._discarded += size
        own: int | None = cast("Scope", cycle.scope)[DISCONNECT].discard_bytes
        if self._discarded > (self.discard_bytes if own is None else min(own, self.discard_bytes)):
            self.transport.close()

    def on_message_complete(self) -> None:
        taken = self._taken
        if taken is None:
            return  # it is the end of a head with `Upgrade`, behind which the parser stops
        if not taken.response_complete:
            taken.more_body = False
            taken.message_event.set()
        self._body_left = self._framing_read = 0
        self._taken = self._waiting_since = None
        if taken.response_complete and not self.transport.is_closing():  # it was answered before it had come
            self.idle_since = self.loop.time()
        if not self._flow.wanted or self._flow.read_paused:
            self._read_on()

    def _read_on(self) -> None:
        """Resume reading after uvicorn has paused it: only a socket that is read shows that its client has left."""
        if len(self.pipeline) <= self.pipelined and (self._waiting_since is None or self.pipeline):
            self._flow.resume_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if self.retiring:
            cycle.keep_alive = False  # which the answer's head then says
        plain = cycle.scope["http_version"] == "1.0"
        wrapped: Any = _unsized(cycle, app) if plain else with_direct_send(cycle, app)
        task = self.loop.create_task(cycle.run_asgi(wrapped))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def on_response_complete(self) -> None:
        if self._deferred is not None and (not self.pipeline or self.pipeline[-1][0].more_body):
            self.pipeline.clear()
            self._refuse(self._deferred)
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._flow.read_paused or not self._flow.wanted:
            self._flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._waiting_since is None:  # what is left of a request has bounds of its own
            self.idle_since = self.loop.time()
        if self._unparsed:
            self._parse_again()

    def check(self, now: float) -> None:
        """Called by the sweep at the monotonic time `now`: close the connection if the rest of a request, the reading of the
        answer, or another request is late."""
        if self._left_unread(now):
            self.transport.abort()
            return
        if self.idle_since is not None and now - self.idle_since >= self.timeout_keep_alive:
            self.transport.close()
            return
        since = self._waiting_since
        if since is None or self.transport.is_closing():
            return
        if self._head_open and not self.flow.read_paused:
            if now - since > self.header_seconds or (self._refused_at_once and now - since > self.refused_seconds):
                self._refuse(RequestTimeout("The request's head did not arrive in time."))
        elif self.flow.read_paused:
            self._waiting_since, self._body_bytes = now, 0  # the gateway itself does not read now
        elif self.pace.too_slow(now - since, self._body_bytes):
            taken = self._taken
            if taken is not None and (taken.response_complete or not taken.response_started):
                self._refuse(RequestTimeout("The request's body did not arrive in time."))

    def _left_unread(self, now: float) -> bool:
        """Whether the client has read nothing for too long while data waits for it."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._unread = None
        elif self._unread is None or size < self._unread[1]:
            self._unread = now, size
        else:
            self._unread = self._unread[0], size
            return now - self._unread[0] > self._write_bound()
        return False

    def _write_bound(self) -> float:
        """Seconds that the client may read nothing: the bound of the request under way, else the general one."""
        running = self._running
        own = None if running is None else cast("Scope", running.scope)[DISCONNECT].write_seconds
        return self.write_seconds if own is None else cast(float, own)

    def _refuse(self, error: SmgError, more: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Answer without the app, with `more` headers, and close; only close if the request that is read has its answer already.
        If an earlier request is still being answered, this is done after it."""
        if self.transport.is_closing():
            return
        running, taken = self._running, self._taken
        if running is not None and not running.response_complete and not running.more_body:
            self._defer(error)
            return
        if taken is None or not taken.response_complete:
            self._answer(error, more)
        self.transport.close()

    def _defer(self, error: SmgError) -> None:
        """Refuse once what is under way is answered. What comes meanwhile is dropped, but read, so that a client that leaves is
        noticed."""
        self._deferred, self._waiting_since = error, None
        self._unparsed = memoryview(b"")
        self._flow.hold(False)
        self.flow.resume_reading()

    def _answer(self, error: SmgError, more: Sequence[tuple[bytes, bytes]]) -> None:
        """Answer the request that is read, unless the app has begun to, and report it, unless the app has it and reports it."""
        id, taken = self.refusals.ids("req_"), self._taken
        body = self._envelope()(error, id)
        if taken is None or taken is not self._running:
            self._tell(error, len(body), id)
        if taken is None or not taken.response_started:
            head = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()]
            headers = [
                *self.server_state.default_headers,
                *error_headers(error),
                *more,
                (self.refusals.id_header, id.encode()),
                (b"content-length", b"%d" % len(body)),
            ]
            head += [b"%b: %b" % header for header in headers]
            self.transport.write(b"\r\n".join([*head, b"connection: close", b"", body]))
        if taken is not None:
            cast("Scope", taken.scope)[DISCONNECT].refused = error, id
            taken.disconnected = True  # what the app answers is no longer sent
            taken.response_started = taken.response_complete = True

    def _tell(self, error: SmgError, size: int, id: str) -> None:
        """Report a request that the app never sees, for the access log."""
        peer = f"{self.client[0]}:{self.client[1]}" if self.client else ""
        path = without_user(path_of_target(self.url).decode("latin-1"))[:LONGEST_PATH]
        seconds = self.loop.time() - (self._waiting_since or self.loop.time())
        self.refusals.observer.report(
            ExchangeEnded(peer, "", path, error.status, size, seconds, type(error).__name__, id)
        )

    def _envelope(self) -> ErrorEncoder:
        """The error envelope of the API that the request under way is for, found from the path if that was read."""
        path, query = path_of_target(self.url).decode("latin-1"), self.url.partition(b"?")[2]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers}
        return self.refusals.envelopes.of(unquote(path), headers, query_fields(query))


def _unsized(cycle: RequestResponseCycle, app: AsgiApp) -> AsgiApp:
    """`app` for a client of HTTP/1.0, which knows no chunks: a body of unknown length ends with the connection."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        sized = True

        async def send_plain(message: AsgiMessage) -> None:
            nonlocal sized
            if message["type"] == "http.response.start":
                sized = any(name.lower() == b"content-length" for name, _ in message["headers"])
                cycle.chunked_encoding = None if sized else False
            elif not sized:
                more = message.get("more_body", False)
                cycle.expected_content_length = len(message.get("body", b"")) + more
            await send(message)

        await app(scope, receive, send_plain)

    return answer


def protocol_class(
    header_bytes: int,
    header_seconds: float,
    pace: Pace,
    *,
    header_lines: int = BoundedHttpProtocol.header_lines,
    write_seconds: float = 60.0,
    most_connections: int = 1 << 30,
    refused_seconds: float = BoundedHttpProtocol.refused_seconds,
    discard_bytes: int = BoundedHttpProtocol.discard_bytes,
    refusals: Refusals | None = None,
    socket_paths: frozenset[str] = frozenset(),
) -> type[BoundedHttpProtocol]:
    """A subclass of the protocol with these bounds, for uvicorn."""
    bounds = {
        "header_bytes": header_bytes,
        "header_lines": header_lines,
        "header_seconds": header_seconds,
        "pace": pace,
        "write_seconds": write_seconds,
        "most_connections": most_connections,
        "refused_seconds": refused_seconds,
        "discard_bytes": discard_bytes,
        "refusals": refusals or Refusals(),
        "socket_paths": socket_paths,
    }
    return type("BoundedHttpProtocol", (BoundedHttpProtocol,), bounds)
