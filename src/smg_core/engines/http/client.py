"""`HttpClient`: calls of one HTTP/1.1 server over connections that are kept (edge).

Opens sockets and keeps timers; what the bytes mean is decided by `answer`. Above: the engines that speak HTTP. Knows no JSON and
no API. Works on asyncio's own loop and on uvloop.

A connection carries one call at a time; so a call that is cancelled closes its connection, which is how such a server is told to
stop. A call that ends leaves its connection to the next one. A server may have closed it meanwhile: where nothing of an answer
has come, and the request may be repeated, it is sent once more, on a new connection. Starting a call on a connection that is kept
creates no task.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import cast

from smg_core.engines.connections.certificates import TlsContexts
from smg_core.engines.connections.secrets import SecretHeaders
from smg_core.engines.connections.target import Tls
from smg_core.engines.http.address import HttpAddress, proxy_for
from smg_core.engines.http.answer import AnswerReader, HttpReceiver, HttpReply
from smg_core.engines.http.dialing import open_socket
from smg_core.engines.http.gathering import GatheredReply
from smg_core.engines.http.places import ConnectionPlaces, PlaceKind
from smg_core.engines.http.request import request_head
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineFailed, EngineGarbled, EngineStalled, EngineTimeout, SmgError, WorkerBusy, WorkerGone

__all__ = ["HttpCall", "HttpClient"]

_DEFAULTS = EnginesConfig()
_PIECE = 16 * 1024
"""Most bytes that are read in one round of the event loop (some hundred tokens), and that are written with the head, so that an
engine that sends much at once does not delay other requests."""
_WRITTEN = 256 * 1024  # most bytes of a large body that are handed to the socket at once
_LATE = "The engine did not answer in time."
_REDIRECTS = range(300, 400)


class HttpClient:
    """Calls of the server at `url`. `headers` are sent with every call and are kept out of errors. `tls` is for https, where the
    system's certificates do not do. `connect_timeout` in seconds is for a connection: to be made, to become free, and to take
    more of a request that it has stopped reading. At most `limits.http_connections` calls are in flight; `limits.waiting_calls`
    more wait for a connection; `limits.question_calls` beside those are for questions alone. `connections` counts those that were
    made so far, `reads` what came of answers."""

    def __init__(
        self,
        url: str | HttpAddress,
        *,
        headers: Sequence[tuple[str, str]] = (),
        tls: Tls | None = None,
        limits: EnginesConfig = _DEFAULTS,
        connect_timeout: float = 5.0,
    ) -> None:
        self.address = url if isinstance(url, HttpAddress) else HttpAddress.parse(url)
        self.limits = limits
        self.connections = 0
        self.connect_timeout = connect_timeout
        self.headers = SecretHeaders(headers)
        self._tls = tls or Tls()
        self._contexts = TlsContexts(self._tls, "http/1.1")
        self._proxy = proxy_for(self.address, limits.http_proxy, limits.http_direct)
        self._buffer = bytearray(_PIECE)
        self._idle: list[_Link] = []  # the one used last is last
        self._links: set[_Link] = set()
        self._places: ConnectionPlaces[_Link] = ConnectionPlaces(limits, str(self.address))
        self._calls: set[HttpCall] = set()
        self._closed = False
        self.reads = 0  # that brought a part of an answer

    @property
    def in_flight(self) -> int:
        """Calls whose answers are not whole yet."""
        return len(self._calls)

    async def start(
        self,
        method: str,
        path: str,
        body: bytes,
        receiver: HttpReceiver,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
        repeatable: bool = True,
        question: bool = False,
    ) -> "HttpCall":
        """Send a request; its answer is pushed into `receiver`. `timeout` in seconds covers the whole call, `connect_timeout` the
        wait for a connection (None: the client's). `repeatable`: the request may reach the server twice. `question`: it does not
        wait for a connection where all are in use, as long as fewer than `limits.question_calls` do so. Raises what kept the
        request from being sent, in which case nothing is pushed: WorkerGone, WorkerBusy, EngineTimeout, InternalError."""
        head = request_head(method, path, self.address.authority, len(body), (*self.headers.fields, *headers))
        call = HttpCall(self, receiver, head, body, repeatable, question)
        self._calls.add(call)
        if timeout is not None:
            call.deadline = asyncio.get_running_loop().time() + timeout
        try:
            idle = self._idle and not self._closed
            call.connect_timeout = connect_timeout
            call.send_on(self._idle.pop() if idle else await self._link(call))
        except BaseException:
            call.cancel()
            raise
        return call

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        timeout: float,
        headers: Sequence[tuple[str, str]] = (),
        repeatable: bool = True,
        most: int | None = None,
        question: bool = False,
    ) -> HttpReply:
        """One request with its whole answer, whatever its status. Of the body at most `most` bytes are read (None: as many as
        `limits.http_body_bytes`). `timeout` in seconds covers all of it. Raises as `start` does, and what ended the answer."""
        gathering = GatheredReply(self.limits.http_body_bytes if most is None else most)
        call = await self.start(
            method, path, body, gathering, headers=headers, timeout=timeout, repeatable=repeatable, question=question
        )
        try:
            return await gathering.done
        finally:
            call.cancel()

    async def close(self) -> None:
        """Let go of all connections; calls in flight end with WorkerGone. Idempotent."""
        self._closed = True
        for call in list(self._calls):
            call.fail(self.gone("closed by us"))
        for link in list(self._links):
            link.abort()
        for waiter in self._places.waiting.drain():
            waiter.take(None)
        if self._links:
            await asyncio.wait([link.lost for link in self._links])

    def gone(self, detail: str) -> WorkerGone:
        """The error of a call that the server's absence ended."""
        return WorkerGone("The engine is not available.", detail=f"{self.address}: {detail}")

    # ------------------------------------------------------------------------------------------------ used by the calls

    def forget(self, call: "HttpCall") -> None:
        self._calls.discard(call)

    async def fresh_link(self, call: "HttpCall") -> "_Link":
        """A new connection, or one whose call has just ended; none that has been kept for some time."""
        if self._idle and not self._places.has_free(call.question):
            self._idle[0].abort()  # the one used longest ago; its place is free when it is gone
        return await self._link(call)

    def give_back(self, link: "_Link") -> None:
        """Hand on a connection whose call is over, or keep it, unless it was made for a question beside all others."""
        if link.place is PlaceKind.ANY and self._places.hand_on(link):
            return
        few = len(self._idle) < self.limits.http_idle_connections and self.limits.http_keep_alive_s
        if self._closed or not few or link.place is PlaceKind.QUESTIONS:
            link.abort()
            return
        self._idle.append(link)
        link.rest(self.limits.http_keep_alive_s)

    def lost(self, link: "_Link") -> None:
        """A connection is no more."""
        self._links.discard(link)
        if link in self._idle:
            self._idle.remove(link)
        self._free_place_of(link)

    # ------------------------------------------------------------------------------------------------------ connecting

    async def _link(self, call: "HttpCall") -> "_Link":
        """A connection for a call, which has its `connect_timeout` to become free and to be made, within the call's own time."""
        if self._closed:
            raise self.gone("closed by us")
        seconds = self.connect_timeout if call.connect_timeout is None else call.connect_timeout
        until = asyncio.get_running_loop().time() + seconds
        until, late = min(until, call.deadline), call.deadline <= until
        given = self._places.take(call.question) or await self._freed(call.question, until, late)
        if given is None:
            raise self.gone("closed by us")
        return await self._connect(given, until, late) if isinstance(given, PlaceKind) else given

    async def _freed(self, question: bool, until: float, late: bool) -> "_Link | PlaceKind | None":
        """What becomes free for a call that waits until then at most; None where all is closed. `late`: its own time is up then,
        which raises EngineTimeout, but WorkerBusy for a question if the engine has answered others meanwhile."""
        waiter = _Waiter(question)
        self._places.waiting.add(waiter, self.reads)
        try:
            async with asyncio.timeout_at(until):
                return await waiter.given
        except TimeoutError:
            self._leave_queue(waiter)
        except BaseException:
            self._leave_queue(waiter)
            raise
        answers = self.reads > waiter.heard
        if late and not (question and answers):
            raise self._not_started()
        busy = WorkerBusy("The engine has no room for the request.", detail=f"{self.address}: no connection is free")
        busy.answers_others = answers
        raise busy

    def _not_started(self) -> EngineTimeout:
        return EngineTimeout(_LATE, detail=f"{self.address}: not even started")

    def _leave_queue(self, waiter: "_Waiter") -> None:
        """A caller waits no more; what it was given meanwhile is for the next."""
        self._places.waiting.remove(waiter)
        found = waiter.given.result() if waiter.given.done() and not waiter.given.cancelled() else None
        if isinstance(found, PlaceKind):
            self._places.give_back(found)
        elif found is not None:
            self.give_back(found)

    def _free_place_of(self, link: "_Link") -> None:
        if not link.left_place:
            link.left_place = True
            self._places.give_back(link.place)

    async def _connect(self, place: PlaceKind, until: float, late: bool) -> "_Link":
        """A new connection, for which there is a place, in the time that is left (see `_freed`)."""
        link = _Link(self, self._buffer, place)
        timer = asyncio.timeout_at(until)
        try:
            async with timer:
                await self._open_socket(link)
        except BaseException as error:
            if not link.abandoned():  # no socket was opened, whose end would be told
                self._free_place_of(link)
            if isinstance(error, TimeoutError) and timer.expired():
                raise (self._not_started() if late else self.gone("no connection in time")) from None
            # ssl.SSLError is an OSError; a name may be no host name at all.
            if isinstance(error, OSError | UnicodeError):
                raise self.gone(str(error)) from None
            raise
        if self._closed:
            link.abort()
            raise self.gone("closed by us")
        self.connections += 1
        return link

    async def _open_socket(self, link: "_Link") -> None:
        name = self._tls.server_name or self.address.host
        await open_socket(lambda: link, self.address, self._contexts, name, self._proxy)

    def take_in(self, link: "_Link") -> None:
        """A socket is open: it is a connection from now on."""
        self._links.add(link)


class _Waiter:
    """A call that waits for a connection (`PlaceTaker`): `given` becomes one, or a place for one; None when all is closed."""

    def __init__(self, question: bool) -> None:
        self.question = question
        self.heard = 0
        self.given: asyncio.Future[_Link | PlaceKind | None] = asyncio.get_running_loop().create_future()

    def take(self, given: "_Link | PlaceKind | None") -> bool:
        if waits := not self.given.done():
            self.given.set_result(given)
        return waits


class HttpCall:
    """A call in flight (`base.Call`). `cancel` closes its connection, unless its answer is whole. `deadline` is when it has to be
    over, by the event loop's clock, `question` whether it is one about the engine."""

    __slots__ = (
        "_body",
        "_client",
        "_head",
        "_link",
        "_receiver",
        "_repeatable",
        "_repeating",
        "_sent_at",
        "_timer",
        "connect_timeout",
        "deadline",
        "question",
    )

    def __init__(
        self, client: HttpClient, receiver: HttpReceiver, head: bytes, body: bytes, repeatable: bool, question: bool
    ) -> None:
        self.question = question
        self.deadline = math.inf
        self.connect_timeout: float | None = None  # seconds, also for a second connection; None: the client's
        self._client = client
        self._receiver: HttpReceiver | None = receiver
        self._head = head
        self._body = body
        self._repeatable = repeatable
        self._sent_at = 0.0  # by the event loop's clock
        self._link: _Link | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._repeating: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------------ asked by the call's owner

    def cancel(self) -> None:
        """Close the connection at once. The receiver hears nothing more. Harmless when the call is already over."""
        if self._receiver is None and self._link is None:
            return
        link = self._end()
        if link is not None:
            link.abort()

    def leave(self) -> None:
        """Nothing more is wanted of the answer, whose end is due now: the receiver hears nothing more. If the end comes within
        `limits.http_end_s`, the connection is kept."""
        if self._link is None:
            self.cancel()
            return
        self._receiver = None
        self._link.resume()
        self.expires_at(asyncio.get_running_loop().time() + self._client.limits.http_end_s)

    def pause(self) -> None:
        """Stop reading: the server is held back by its full socket."""
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        """Read again."""
        if self._link is not None:
            self._link.resume()

    # ------------------------------------------------------------------------------------- called by client and connection

    def expires_at(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline, self._expire)

    def _expire(self) -> None:
        if self._link is not None:  # else it waits for a connection, which goes by the deadline too
            self.fail(EngineTimeout(_LATE, detail=f"{self._client.address}: deadline passed"))

    def send_on(self, link: "_Link") -> None:
        self._link = link
        self._sent_at = asyncio.get_running_loop().time()
        if self.deadline < math.inf:
            self.expires_at(self.deadline)
        link.send(self, self._head, self._body)

    def take_head(self, status: int, headers: dict[str, str]) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        coding = headers.get("content-encoding", "identity").lower()
        if status in _REDIRECTS:
            where = repr(headers.get("location", "")[:200])
            sentence = "The engine sends requests elsewhere, where they are not sent."
            detail = f"{self._client.address}: HTTP status {status} to {where}"
            self.fail(EngineFailed(sentence, detail=detail, outside_text=where))
        elif coding not in ("identity", ""):
            sentence = "The engine compressed its answer, which it was not asked for."
            kind = repr(coding[:64])
            self.fail(
                EngineGarbled(sentence, detail=f"{self._client.address}: content-encoding {kind}", outside_text=kind)
            )
        else:
            receiver.head(status, headers)

    def take_body(self, piece: bytes) -> None:
        if self._receiver is not None:
            self._receiver.body(piece)

    def finish(self) -> None:
        """The answer is whole, and its connection no longer this call's."""
        self._link = None
        receiver = self._receiver
        self._end()
        if receiver is not None:
            receiver.closed(None)

    def fail(self, error: SmgError) -> None:
        """End the call with `error`; its connection is closed."""
        receiver = self._receiver
        link = self._end()
        if link is not None:
            link.abort()
        if receiver is not None:
            receiver.closed(self._client.headers.hide(error))

    def connection_lost(self, error: Exception | None, *, again: bool) -> None:
        """Its connection is gone; `again`: it had been kept since an earlier call, and has said nothing to this one."""
        self._link = None
        loop = asyncio.get_running_loop()
        # Only what an engine cannot have begun: after a while it has worked on the request, and may have died of it.
        soon = loop.time() - self._sent_at < self._client.limits.http_repeat_s
        if again and soon and self._repeatable and self._receiver is not None:
            self._repeatable = False
            self._repeating = loop.create_task(self._repeat())
            return
        reason = f"{self._client.address}: {error or 'closed by the engine'}"
        self.fail(WorkerGone("The engine went away before the request was complete.", detail=reason))

    async def _repeat(self) -> None:
        try:
            link = await self._client.fresh_link(self)
        except SmgError as error:
            self._repeating = None
            self.fail(error)
            return
        self._repeating = None
        self.send_on(link)

    def _end(self) -> "_Link | None":
        """Nothing more happens in this call. Returns its connection."""
        self._client.forget(self)
        self._receiver = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._repeating is not None:
            self._repeating.cancel()
            self._repeating = None
        link, self._link = self._link, None
        if link is not None:
            link.drop_call()
        return link


class _Link(asyncio.BufferedProtocol):
    """One socket, with at most one call on it."""

    def __init__(self, client: HttpClient, buffer: bytearray, place: PlaceKind) -> None:
        self.place = place
        self.unused = True  # has carried no call yet
        self.left_place = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._client = client
        # Not the buffer itself: asyncio reads a second TLS record into `buffer[offset:]`, which of a bytearray is a copy. What
        # is read there would be lost, and bytes of an earlier answer of any connection would be taken in its place.
        self._view = memoryview(buffer)
        self._reader = AnswerReader(client.limits.header_block_bytes)
        self._transport: asyncio.Transport | None = None
        self._call: HttpCall | None = None
        self._kept = False  # the call came over a connection that was kept
        self._headed = False
        self._unsent = memoryview(b"")
        self._full = False  # the socket takes no more for now
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._given_up = False

    # -------------------------------------------------------------------------------------------------- the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A stream socket has no other kind; uvloop's does not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._client.take_in(self)
        if self._given_up:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        call, reader = self._call, self._reader
        if call is None:
            self.abort()  # whatever it says, nobody asked
            return
        self._client.reads += 1
        body = reader.feed(bytes(self._view[:nbytes]))
        if not self._headed and reader.status:
            self._headed = True
            call.take_head(reader.status, reader.headers)
        if body and self._call is call:
            call.take_body(body)
        if self._call is not call:
            return
        if reader.fault is not None:
            reader.fault.detail = f"{self._client.address}: {reader.fault.detail}"
            call.fail(reader.fault)
        elif reader.done:
            self._answered(call)

    def _answered(self, call: HttpCall) -> None:
        transport = self._transport
        reusable = self._reader.keep_alive and not self._unsent and not self._full
        self.drop_call()
        if reusable and transport is not None and not transport.is_closing():
            self.resume()
            self._client.give_back(self)
        else:
            self.abort()
        call.finish()

    def pause_writing(self) -> None:
        self._full = True
        self._watch_writing()

    def resume_writing(self) -> None:
        self._full = False
        self._stop_timer()
        self._write_more()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        call, self._call = self._call, None
        self._client.lost(self)
        if not self.lost.done():
            self.lost.set_result(None)
        if call is None:
            return
        self._reader.end()
        if self._reader.done:
            call.finish()
        else:
            call.connection_lost(error, again=self._kept and not self._reader.begun)

    # -------------------------------------------------------------------------------------------------- the owner's side

    def send(self, call: HttpCall, head: bytes, body: bytes) -> None:
        """Send the request of `call`, whose answer is then awaited."""
        self._stop_timer()
        self._call = call
        self._kept, self.unused = not self.unused, False
        self._headed = False
        self._reader.begin()
        if self._transport is None or self._transport.is_closing():
            asyncio.get_running_loop().call_soon(self._missed, call)
        elif len(body) <= _PIECE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._write_more()

    def _missed(self, call: HttpCall) -> None:
        """The connection had gone, and nobody has been told yet."""
        if self._call is call:
            self._call = None
            call.connection_lost(None, again=self._kept)

    def _write_more(self) -> None:
        while self._unsent and not self._full and self._transport is not None:
            piece, self._unsent = self._unsent[:_WRITTEN], self._unsent[_WRITTEN:]
            self._transport.write(piece)

    def _watch_writing(self) -> None:
        """A server that reads nothing of a request for `connect_timeout` seconds is given up."""
        self._stop_timer()
        if self._transport is not None:
            left = self._transport.get_write_buffer_size()
            self._timer = asyncio.get_running_loop().call_later(self._client.connect_timeout, self._stalled, left)

    def _stalled(self, left: int) -> None:
        if self._transport is not None and self._transport.get_write_buffer_size() < left:
            self._watch_writing()
        elif self._call is not None:
            detail = f"{self._client.address}: it does not take the request"
            self._call.fail(EngineStalled(_LATE, detail=detail))
        else:
            self.abort()

    def rest(self, seconds: float) -> None:
        """Be kept without a call, for so long at most."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def pause(self) -> None:
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def drop_call(self) -> None:
        self._call = None

    def abort(self) -> None:
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    def abandoned(self) -> bool:
        """Give it up while it is being made. Returns whether a socket is open, whose loss will be told."""
        self._given_up = True
        self.abort()
        return self._transport is not None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
