"""`HttpClient`: calls of one HTTP/1.1 server over connections that are kept (edge).

Opens sockets and keeps timers; what the bytes mean is decided by `answer`. Above: the engines that speak HTTP. Knows no JSON and
no API. Works on asyncio's own loop and on uvloop.

A connection carries one call at a time; so a call that is cancelled closes its connection, which is how such a server is told to
stop. A call that ends leaves its connection to the next one. A server may have closed it meanwhile: where nothing of an answer
has come, and the request may be repeated, it is sent once more, on a new connection. Starting a call on a connection that is kept
creates no task.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import cast

from smg_core.engines.certificates import TlsContexts
from smg_core.engines.http.address import HttpAddress
from smg_core.engines.http.answer import AnswerReader, HttpReceiver, HttpReply
from smg_core.engines.http.gathering import GatheredReply
from smg_core.engines.http.request import request_head
from smg_core.engines.secrets import SecretHeaders
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.target import Tls
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
        self._buffer = bytearray(_PIECE)
        self._idle: list[_Link] = []  # the one used last is last
        self._links: set[_Link] = set()
        self._places = limits.http_connections  # for connections that may still be made
        self._kept_places = limits.question_calls  # beside those, for questions
        self._waiting: deque[asyncio.Future[_Link | None]] = deque()
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
        call = HttpCall(self, receiver, head, body, repeatable)
        self._calls.add(call)
        reads = self.reads
        if timeout is not None:
            call.expires_in(timeout)
        try:
            if self._idle and not self._closed:
                call.send_on(self._idle.pop())
            else:
                async with asyncio.timeout(timeout):
                    call.send_on(await self._link(connect_timeout, question=question))
        except TimeoutError:
            call.cancel()
            if question and self.reads > reads:
                raise self._busy(f"{self.address}: no connection became free in time", reads) from None
            raise EngineTimeout(_LATE, detail=f"{self.address}: not even started") from None
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
        while self._waiting:
            if not (waiter := self._waiting.popleft()).done():
                waiter.set_exception(self.gone("closed by us"))
        if self._links:
            await asyncio.wait([link.lost for link in self._links])

    def gone(self, detail: str) -> WorkerGone:
        """The error of a call that the server's absence ended."""
        return WorkerGone("The engine is not available.", detail=f"{self.address}: {detail}")

    # ------------------------------------------------------------------------------------------------ used by the calls

    def forget(self, call: "HttpCall") -> None:
        self._calls.discard(call)

    async def fresh_link(self, connect_timeout: float | None) -> "_Link":
        """A new connection, or one whose call has just ended; none that has been kept for some time."""
        if self._idle and not self._places:
            self._idle[0].abort()  # the one used longest ago; its place is free when it is gone
        return await self._link(connect_timeout)

    def give_back(self, link: "_Link") -> None:
        """Keep a connection whose call is over, unless it was made for a question beside all others."""
        if link.kept_place:
            link.abort()
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(link)
                return
        if self._closed or len(self._idle) >= self.limits.http_idle_connections or not self.limits.http_keep_alive_s:
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

    async def _link(self, connect_timeout: float | None, *, question: bool = False) -> "_Link":
        if self._closed:
            raise self.gone("closed by us")
        seconds = self.connect_timeout if connect_timeout is None else connect_timeout
        if self._places:
            self._places -= 1
            return await self._connect(seconds)
        if question and self._kept_places:
            self._kept_places -= 1
            return await self._connect(seconds, kept_place=True)
        reads = self.reads
        if len(self._waiting) >= self.limits.waiting_calls + (max(1, self.limits.question_calls) if question else 0):
            raise self._busy(f"{self.address}: too many calls wait", reads)
        waiter: asyncio.Future[_Link | None] = asyncio.get_running_loop().create_future()
        if question:
            self._waiting.appendleft(waiter)
        else:
            self._waiting.append(waiter)
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds):
                link = await waiter
        except BaseException as error:
            self._leave_queue(waiter)
            if isinstance(error, TimeoutError):
                raise self._busy(f"{self.address}: all connections are in use", reads) from None
            raise
        if link is None:
            return await self._connect(max(seconds - (asyncio.get_running_loop().time() - began), 0.0))
        return link

    def _busy(self, detail: str, reads: int) -> WorkerBusy:
        """The error of a call for which no connection became free; there were so many `reads` when it began to wait."""
        error = WorkerBusy("The engine has no room for the request.", detail=detail)
        error.answers_others = self.reads > reads
        return error

    def _leave_queue(self, waiter: "asyncio.Future[_Link | None]") -> None:
        """A caller waits no more; what it was given meanwhile is for the next."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        elif waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            link = waiter.result()
            if link is None:
                self._free_place()
            else:
                self.give_back(link)

    def _free_place_of(self, link: "_Link") -> None:
        if link.has_place:
            link.has_place = False
            if link.kept_place:
                self._kept_places += 1
            else:
                self._free_place()

    def _free_place(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._places += 1

    async def _connect(self, seconds: float, *, kept_place: bool = False) -> "_Link":
        """A new connection, for which there is a place; `kept_place`: one of those that are kept for questions."""
        link = _Link(self, self._buffer, kept_place)
        try:
            async with asyncio.timeout(seconds):
                await self._open_socket(link)
        except BaseException as error:
            if not link.abandoned():  # no socket was opened, whose end would be told
                self._free_place_of(link)
            if isinstance(error, TimeoutError):
                raise self.gone(f"no connection within {seconds} s") from None
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
        loop, address = asyncio.get_running_loop(), self.address
        if address.socket:
            await loop.create_unix_connection(lambda: link, address.socket)
        elif not address.secure:
            await loop.create_connection(lambda: link, address.host, address.port)
        else:
            context = await loop.run_in_executor(None, self._contexts.current)  # reads files
            name = self._tls.server_name or address.host
            await loop.create_connection(lambda: link, address.host, address.port, ssl=context, server_hostname=name)

    def take_in(self, link: "_Link") -> None:
        """A socket is open: it is a connection from now on."""
        self._links.add(link)


class HttpCall:
    """A call in flight (`base.Call`). `cancel` closes its connection, unless its answer is whole."""

    __slots__ = ("_body", "_client", "_head", "_link", "_receiver", "_repeatable", "_repeating", "_sent_at", "_timer")

    def __init__(self, client: HttpClient, receiver: HttpReceiver, head: bytes, body: bytes, repeatable: bool) -> None:
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
        self.expires_in(self._client.limits.http_end_s)

    def pause(self) -> None:
        """Stop reading: the server is held back by its full socket."""
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        """Read again."""
        if self._link is not None:
            self._link.resume()

    # ------------------------------------------------------------------------------------- called by client and connection

    def expires_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), self._expire)

    def _expire(self) -> None:
        if (
            self._link is not None or self._repeating is not None
        ):  # else `start` is waiting, which has a limit of its own
            self.fail(EngineTimeout(_LATE, detail=f"{self._client.address}: deadline passed"))

    def send_on(self, link: "_Link") -> None:
        self._link = link
        self._sent_at = asyncio.get_running_loop().time()
        link.send(self, self._head, self._body)

    def take_head(self, status: int, headers: dict[str, str]) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        coding = headers.get("content-encoding", "identity").lower()
        if status in _REDIRECTS:
            where = repr(headers.get("location", "")[:200])
            told = "The engine sends requests elsewhere, where they are not sent."
            detail = f"{self._client.address}: HTTP status {status} to {where}"
            self.fail(EngineFailed(told, detail=detail, said=where))
        elif coding not in ("identity", ""):
            told = "The engine compressed its answer, which it was not asked for."
            kind = repr(coding[:64])
            self.fail(EngineGarbled(told, detail=f"{self._client.address}: content-encoding {kind}", said=kind))
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
            link = await self._client.fresh_link(None)
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

    def __init__(self, client: HttpClient, buffer: bytearray, kept_place: bool = False) -> None:
        self.kept_place = kept_place  # it is one of those for questions
        self.unused = True  # has carried no call yet
        self.has_place = True  # of the client's `http_connections`
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
