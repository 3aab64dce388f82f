"""The fast transport: `connection.Connection` on an asyncio socket, plain, TLS or unix (edge).

An edge: it opens sockets, keeps the deadline and keep-alive timers, and moves bytes between socket and connection. Above:
`engines.token_ids.client`. It knows nothing of frames. Works on asyncio's own loop and on uvloop.

There is one connection for each engine, made on first use, and a new one after a question to which nothing came. Calls that start
while it is being made share the attempt; if it fails, all of them fail, and the next call tries again at once: how long a failing
worker is left alone is not decided here. A connection that got GOAWAY finishes its calls while a new one takes the next calls.
Starting a call creates no task.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from smg_core.clock import Clock, SystemClock
from smg_core.engines.base import Receiver
from smg_core.engines.connections.certificates import tls_context
from smg_core.engines.connections.target import Target
from smg_core.engines.grpc.h2.connection import Connection
from smg_core.engines.grpc.h2.stream import H2Stream
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled, EngineTimeout, SmgError, WorkerBusy, WorkerGone

__all__ = ["H2Transport"]

_USER_AGENT = "smg-core"
_DEFAULTS = EnginesConfig()
_READ_BYTES = 16 * 1024
"""Most bytes that are read in one round of the event loop (some hundred tokens), so that an engine that sends much at once does
not delay other requests."""


class _Link(asyncio.Protocol):
    """One socket and the connection on it."""

    def __init__(self, target: Target, limits: EnginesConfig, clock: Clock, on_over: Callable[["_Link"], None]) -> None:
        self.connection = Connection(
            "https" if target.tls else "http",
            target.authority,
            limits=limits,
            user_agent=_USER_AGENT,
            wants_write=self.write,
        )
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receive = self.connection.receive
        self._out = self.connection.out
        self._later = b""  # received, to be read in further rounds of the loop; meanwhile the socket is not read
        self._target, self._limits, self._clock, self._on_over = target, limits, clock, on_over
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._greeted = False
        self._finished = False

    # ------------------------------------------------------------------------------------------------ the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A stream socket has no other kind; uvloop's does not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        socket_tls = transport.get_extra_info("ssl_object")
        if socket_tls is not None and socket_tls.selected_alpn_protocol() != "h2":
            self.abandon(WorkerGone("The engine is not available.", detail="the peer does not speak HTTP/2 over TLS"))
            return
        self.write()
        if self._limits.ping_interval_s:
            self._tick()

    def data_received(self, data: bytes) -> None:
        if self._later or len(data) > _READ_BYTES:
            data = self._first_piece(data)
        connection = self.connection
        self._receive(data)
        if self._out:
            self.write()
        if not self._greeted and connection.greeted:
            self._greeted = True
            if not self.ready.done():
                self.ready.set_result(None)
        if connection.draining or connection.failure is not None:
            self._finish_if_over()

    def _first_piece(self, data: bytes) -> bytes:
        """The first piece of the received data; the rest is read in further rounds of the event loop."""
        data = self._later + data
        if not self._later:
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)
        self._later = data[_READ_BYTES:]
        return data[:_READ_BYTES]

    def _read_on(self) -> None:
        """Read the next piece; one round after the last piece, read from the socket again."""
        later, self._later = self._later, b""
        if later:
            if len(later) <= _READ_BYTES:
                asyncio.get_running_loop().call_soon(self._read_on)
            self.data_received(later)
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _finish_if_over(self) -> None:
        if self.connection.over:
            self.finish()

    def pause_writing(self) -> None:
        self.connection.sender.writable = False

    def resume_writing(self) -> None:
        self.connection.sender.writable = True
        self.connection.sender.pump()
        self.write()

    def connection_lost(self, error: Exception | None) -> None:
        if self._later:  # it came before the loss
            later, self._later = self._later, b""
            self._receive(later)
        reason = f"{self._target}: {error or 'closed by the engine'}"
        self.connection.lost(WorkerGone("The connection to the engine was lost.", detail=reason))
        self.finish()
        if self._timer is not None:
            self._timer.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    # -------------------------------------------------------------------------------------------------- the owner's side

    def write(self) -> None:
        """Write all pending data, and more request body while the socket's buffer has room. A connection whose last call has
        ended is closed then, whichever side ended it."""
        transport, connection = self._transport, self.connection
        if transport is None:
            return
        sender = connection.sender
        while self._out:
            transport.write(connection.take())
            if sender.writable:
                if sender.unsent:
                    sender.pump()
            elif transport.get_write_buffer_size() > self._limits.unread_bytes:
                self.abandon(EngineGarbled("The engine stopped reading.", detail=f"{self._target} reads nothing"))
                return
        if connection.draining and not self._finished:
            self._finish_if_over()

    def finish(self) -> None:
        """Called when the connection is no longer needed: closes the socket once the written data has left."""
        if self._timer is not None and not self._finished:
            self._timer.cancel()
        if not self.ready.done():
            self.ready.set_exception(self.connection.failure or WorkerGone("The engine is shutting down."))
            self.ready.exception()  # retrieved: nobody may be waiting
        if self._transport is not None and not self._finished:
            self._finished = True
            if not self._transport.get_write_buffer_size():
                self._transport.abort()  # the kernel has all data; closing TLS would wait for the peer
            self._transport.close()
            # The data may never leave if the peer does not read.
            self._timer = asyncio.get_running_loop().call_later(self._limits.close_s, self._transport.abort)
        self._on_over(self)

    def abandon(self, error: SmgError) -> None:
        """End every call with `error` and drop the socket."""
        self.connection.lost(error)
        self.finish()
        if self._transport is not None:
            self._transport.abort()

    def _tick(self) -> None:
        delay = self.connection.tick(self._clock.monotonic())
        if self.connection.failure is not None:
            self.abandon(self.connection.failure)
        else:
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)


class H2Transport:
    """A `Transport` over our own HTTP/2. `target` is a URL or a `Target`; `connect_timeout` is in seconds."""

    def __init__(
        self,
        target: str | Target,
        *,
        limits: EnginesConfig = _DEFAULTS,
        connect_timeout: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self.target = Target.parse(target)
        self.limits = limits
        self._connect_timeout = connect_timeout
        self._clock = clock or SystemClock()
        self.connections = 0  # that were made so far
        self._link: _Link | None = None
        self._links: set[_Link] = set()
        self._connecting: asyncio.Task[_Link] | None = None
        self._closed = False

    async def start(
        self,
        path: str,
        message: bytes,
        receiver: Receiver,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
        question: bool = False,
    ) -> H2Stream:
        """See `Transport.start`. Raises WorkerGone when no connection can be made, WorkerBusy when too many calls wait,
        EngineTimeout when `timeout` passes before the request has left, WorkerBusy if others were answered meanwhile. `question`:
        it may use what is kept for questions."""
        link = self._link
        answers = link.connection.answers if link is not None else 0
        if link is not None and not link.connection.draining and link.connection.failure is None:
            stream = link.connection.request(
                path, message, receiver, metadata=metadata, timeout=timeout, question=question
            )
            if stream.id:
                link.write()
                if timeout is not None:
                    _set_deadline(stream, timeout)
                return stream
            stream.cancel()
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                stream = await self._start_slowly(
                    path, message, receiver, metadata, deadline, connect_timeout, question=question
                )
        except TimeoutError:
            raise self._not_started(link, answers) from None
        if deadline is not None and not stream.done:
            _set_deadline(stream, deadline - loop.time())
        return stream

    def _not_started(self, link: _Link | None, answers: int) -> SmgError:
        """The error of a call for which no stream became free in its time: the engine is busy if `link`, which had brought so
        many `answers` before, has brought more meanwhile."""
        if link is not None and link is self._link and link.connection.answers > answers:
            detail = f"{self.target}: no stream became free in time"
            busy = WorkerBusy("The engine has no room for the request.", detail=detail)
            busy.answers_others = True
            return busy
        return EngineTimeout("The engine did not answer in time.", detail=f"{self.target}: not even started")

    async def _start_slowly(
        self,
        path: str,
        message: bytes,
        receiver: Receiver,
        metadata: Sequence[tuple[str, str]],
        deadline: float | None,
        connect_timeout: float | None,
        *,
        question: bool,
    ) -> H2Stream:
        """Connect if need be and wait for a free stream; a call that never left moves to the next connection."""
        loop = asyncio.get_running_loop()
        error: SmgError = WorkerGone("The engine is not available.", detail=str(self.target))
        for _ in range(self.limits.connections_tried):
            link = await self._connected(connect_timeout)
            left = None if deadline is None else deadline - loop.time()
            try:
                stream = link.connection.request(
                    path, message, receiver, metadata=metadata, timeout=left, question=question
                )
                if stream.id:
                    link.write()
                else:
                    await _sent(stream)
            except WorkerGone as gone:  # the connection went away before the call was on it
                error = gone
            else:
                return stream
        raise error

    async def unary(
        self,
        path: str,
        message: bytes,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        work: bool = False,
    ) -> bytes:
        """See `Transport.unary`."""
        answer, link = UnaryReceiver(), self._link
        answers = link.connection.answers if link is not None else 0
        stream: H2Stream | None = None
        try:
            stream = await self.start(path, message, answer, metadata=metadata, timeout=timeout, question=not work)
            return await answer.future
        except EngineTimeout:
            if not work and link is not None and link.connection.answers == answers:
                self._leave(link)
            raise
        finally:
            if stream is not None:
                stream.cancel()

    def _leave(self, link: _Link) -> None:
        """Make the next call over a new connection: a question was not answered over `link`, and no other call was. Its path may
        have gone dead without a word, which TCP notices after minutes. The calls on it go on: the engine may only be late."""
        if link is self._link and link.connection.usable:
            self._link = None
            link.connection.retire()
            link.write()

    async def close(self) -> None:
        """See `Transport.close`. Idempotent."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        error = WorkerGone("The connection to the engine was closed.", detail=f"{self.target}: closed by us")
        links = list(self._links)
        for link in links:
            link.connection.goodbye()
            link.write()
            link.connection.lost(error)
            link.finish()
        if links:
            await asyncio.wait([link.closed for link in links], timeout=self.limits.close_s)
        for link in links:
            if not link.closed.done():
                link.abandon(error)

    # ------------------------------------------------------------------------------------------------------- connecting

    async def _connected(self, seconds: float | None) -> _Link:
        """The connection; waits for at most so many `seconds` (None: as long as the attempt to make one lasts)."""
        link = self._link
        if link is not None and link.connection.usable:
            return link
        if self._closed:
            raise WorkerGone("The connection to the engine was closed.", detail=f"{self.target}: closed by us")
        task = self._connecting
        if task is None or task.done():
            # A caller with less time than the others stops waiting; the shared attempt goes on.
            most = max(seconds or 0.0, self._connect_timeout)
            task = self._connecting = asyncio.get_running_loop().create_task(self._connect(most))
            task.add_done_callback(self._attempt_over)
        try:
            # Shielded: one caller's cancellation must not take the attempt from the others.
            async with asyncio.timeout(seconds):
                return await asyncio.shield(task)
        except TimeoutError:
            raise _unreachable(self.target, f"no answer within {seconds} s") from None
        except asyncio.CancelledError:
            if task.cancelled():
                raise WorkerGone("The connection to the engine was closed.", detail=f"{self.target}: closed") from None
            raise

    def _attempt_over(self, task: "asyncio.Task[_Link]") -> None:
        if self._connecting is task:
            self._connecting = None
        if not task.cancelled():
            task.exception()  # retrieved: every caller may have gone

    async def _connect(self, seconds: float) -> _Link:
        """One attempt, up to the peer's SETTINGS, which show that it speaks HTTP/2 and how many streams it takes."""
        loop = asyncio.get_running_loop()
        link = _Link(self.target, self.limits, self._clock, self._over)
        self._links.add(link)
        try:
            async with asyncio.timeout(seconds):
                await self._open_socket(loop, link)
                await link.ready
        except TimeoutError:
            link.abandon(_unreachable(self.target, f"no answer within {seconds} s"))
            raise link.connection.failure or _unreachable(self.target, "") from None
        except (OSError, UnicodeError) as error:  # ssl.SSLError is an OSError; a name may be no host name at all
            link.abandon(_unreachable(self.target, str(error)))
            raise _unreachable(self.target, str(error)) from None
        except asyncio.CancelledError:
            link.abandon(_unreachable(self.target, "given up"))
            raise
        self._link = link
        self.connections += 1
        return link

    async def _open_socket(self, loop: asyncio.AbstractEventLoop, link: _Link) -> None:
        target = self.target
        if target.path:
            await loop.create_unix_connection(lambda: link, target.path)
        elif target.tls is None:
            await loop.create_connection(lambda: link, target.host, target.port)
        else:
            # Reads certificate files, so it runs in a thread; done for every connection, since certificates are renewed.
            context = await loop.run_in_executor(None, tls_context, target.tls)
            name = target.tls.server_name or target.host
            await loop.create_connection(lambda: link, target.host, target.port, ssl=context, server_hostname=name)

    def _over(self, link: _Link) -> None:
        self._links.discard(link)
        if self._link is link:
            self._link = None


class UnaryReceiver:
    """The receiver of a unary call: `future` gets its one message, or its error."""

    __slots__ = ("_messages", "future")

    def __init__(self) -> None:
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._messages: list[bytes] = []

    def messages(self, batch: list[bytes]) -> None:
        """Keep the messages, at most two: a second one is an error."""
        self._messages = (self._messages + batch[:2])[:2]

    def closed(self, error: SmgError | None) -> None:
        if self.future.done():
            return
        if error is None and len(self._messages) != 1:
            count = len(self._messages)
            error = EngineGarbled("The engine broke its own protocol.", detail=f"{count} messages where one was due")
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self._messages[0])


def _set_deadline(stream: H2Stream, seconds: float) -> None:
    """End the call after `seconds`, unless it ends earlier."""
    if not stream.done:
        stream.on_end = asyncio.get_running_loop().call_later(max(seconds, 0.0), _expire, stream).cancel


def _expire(stream: H2Stream) -> None:
    stream.end(EngineTimeout("The engine did not answer in time.", detail="deadline passed"))


async def _sent(stream: H2Stream) -> None:
    """Wait until a queued call has been sent. Raises the error if it cannot be; if the caller is cancelled, so is the call."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(error: SmgError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    stream.on_sent = tell
    try:
        await future
    except asyncio.CancelledError:
        stream.cancel()
        raise


def _unreachable(target: Target, reason: str) -> WorkerGone:
    return WorkerGone("The engine is not reachable.", detail=f"{target}: {reason}")
