"""One WebSocket from its acceptance to its end (edge): reading, bounds, lifetime and drain, whatever messages go over it.

The messages are an API's: its `SocketTalk` reads a frame, begins what the frame asks for, and writes an error as a frame. What is
begun runs as tasks of the session. The connection ends with its lifetime once nothing is under way, and with what nobody has
foreseen; a client that leaves ends all of it.

A request in a frame is answered as the exchange that it would be by HTTP, with the head of the handshake and the body of the
frame: what is admitted, refused, timed, shown to plugins and counted is so by the same code. Above: the sockets of APIs. Below:
the WebSocket as an exchange, the handler of requests.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace

from smg_core.errors import InvalidRequest, PayloadTooLarge, SmgError
from smg_core.http.exchange import Exchange
from smg_core.http.routes import WEBSOCKET
from smg_core.http.scope import DISCONNECT, Disconnect, Receive, Send
from smg_core.http.stream_errors import ERROR_WRITTEN
from smg_core.http.websocket import Received, WebSocket
from smg_core.plugins.exchange import PluginExchange, exchange_within
from smg_core.serving.inference import DECODED_INLINE, Inference, internal_error
from smg_core.serving.services import Services
from smg_core.wire.base import Decoded
from smg_core.wire.errors import error_headers, responses_error

__all__ = ["PluginsMeet", "SocketSession", "SocketTalk", "answer_frame", "exchange_of_frame"]

_LEFT, _TOO_LARGE = 1001, 1009  # why a connection is closed (RFC 6455, 7.4.1)

F = TypeVar("F")
D = TypeVar("D", bound=Decoded)
_OF_THE_CONNECTION = (b"connection", b"upgrade", b"expect", b"transfer-encoding")
_PREFIXES = (b"content-", b"sec-websocket-")
PluginsMeet = Callable[[], Awaitable[None]]
"""Has the plugins of an exchange meet it."""


class SocketTalk(Protocol[F]):
    """The messages of one API on one connection."""

    def read(self, data: bytes | bytearray) -> F:
        """The frame in a message of text, which is read in a thread where it is long. Raises SmgError."""

    async def take(self, frame: F) -> None:
        """Begin what a frame asks for. SmgError is told to the client."""

    def error(self, error: SmgError, id: str, about: F | None) -> str:
        """A frame that tells an error, of the frame that it is about where there is one."""

    def expired(self) -> SmgError:
        """What a client is told whose connection's lifetime is over."""

    def left(self) -> None:
        """The connection is over: give up what is under way."""


class SocketSession(Generic[F]):
    """One connection that was accepted. It begins nothing new after `lifetime_s`; a frame has at most `most` bytes. `send` is how
    the errors of the session itself leave, behind what an API still has to say; None for at once."""

    def __init__(
        self,
        services: Services,
        socket: WebSocket,
        *,
        lifetime_s: float,
        most: int,
        send: Callable[[str], Awaitable[int]] | None = None,
    ) -> None:
        self._services, self._socket = services, socket
        self._send = send or socket.send
        self._lifetime_s, self._most = lifetime_s, most
        self._talk: SocketTalk[F]
        self._running: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self.expired = False

    async def run(self, talk: SocketTalk[F]) -> None:
        """Read frames until the client leaves or the connection's lifetime is over."""
        self._talk = talk
        expiry = self._services.call_later(self._lifetime_s, self._expire)
        try:
            while (message := await self._socket.read()) is not None:
                await self._take(message)
        finally:
            expiry.cancel()
            talk.left()
            last = [*self._running, *((self._closing,) if self._closing is not None else ())]
            await asyncio.gather(*last, return_exceptions=True)

    def begin(
        self, work: Coroutine[object, object, None], about: F | None, ended: Callable[[], object]
    ) -> "asyncio.Task[None]":
        """Run `work`, which a frame asks for, beside the reading; `ended` is called when it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(lambda done: self._over(done, about, ended))
        return task

    async def permitted(self, about: F | None) -> bool:
        """Whether the key of the connection is still good, and it has met all plugins that it would meet now. If not, the client
        is told, and the connection closed."""
        socket = self._socket
        try:
            now = self._services.plugins.plan.on_arrival(socket.about())
            if not all(any(each is one for one in socket.met) for each in now):
                raise InvalidRequest(
                    "The gateway has other plugins now than when this connection was opened; open another."
                )
            if socket.identify is not None:
                socket.caller = await socket.identify()
        except SmgError as error:
            self._close(about, error)
            return False
        return True

    # ----------------------------------------------------------------------------------------------------------- frames

    async def _take(self, message: Received) -> None:
        frame: F | None = None
        try:
            frame = await self._read(message)
            await self._talk.take(frame)
        except PayloadTooLarge as error:
            self._socket.outcome = error.outcome
            await self.refuse(error, None)
            await self._socket.close(_TOO_LARGE)
        except SmgError as error:
            await self.refuse(error, frame)

    async def _read(self, message: Received) -> F:
        if not message.text:
            raise InvalidRequest("A frame is text.")
        size = len(message.data)
        if size > self._most:
            raise self._too_large()
        if size <= DECODED_INLINE:
            return self._frame_of(message)
        tenant = self._socket.caller.tenant
        return await self._services.running.executor.run(lambda _: self._frame_of(message), size=size, caller=tenant)

    def _frame_of(self, message: Received) -> F:
        data = message.encoded()
        if len(data) > self._most:
            raise self._too_large()
        return self._talk.read(data)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"The frame is over the limit of {self._most} bytes.")

    async def refuse(self, error: SmgError, about: F | None) -> None:
        """Answer a frame that begins nothing: a request of its own, as it would be by HTTP."""
        id = self._services.ids("req_")
        sent = await self._send(self._talk.error(error, id, about))
        ended = self._socket.ended(error.outcome, 0.0)
        self._services.observer.report(
            replace(ended, status=error.status, sent=sent, outcome=error.outcome, request_id=id)
        )

    # ------------------------------------------------------------------------------------------------------------- ends

    def _over(self, task: "asyncio.Task[None]", about: F | None, ended: Callable[[], object]) -> None:
        """Called when what was begun is done. What nobody has foreseen is logged, and the client told."""
        self._running.discard(task)
        ended()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._services.faults.note("a response on a WebSocket", error, f"WebSocket {self._socket.name}")
        if error is not None or (self.expired and not self._running):
            self._close(about, None if error is None else internal_error())

    def _expire(self) -> None:
        """The connection's lifetime is over: nothing new is begun, and it closes when nothing is under way."""
        self.expired = True
        if not self._running:
            self._close(None, None)

    def end(self, failure: SmgError, code: int) -> None:
        """Close the connection since it cannot go on, with this `code`; its client is told why."""
        self._close(None, failure, code)

    def _close(self, about: F | None, failure: SmgError | None, code: int = _LEFT) -> None:
        """Close the connection: one that failed could not say how far its responses have come, and one whose key is good no more
        begins none."""
        if self._closing is None and not self._socket.gone:
            self._closing = asyncio.get_running_loop().create_task(self._leave(about, failure, code))

    async def _leave(self, about: F | None, failure: SmgError | None, code: int) -> None:
        socket = self._socket
        if failure is not None:
            socket.outcome = failure.outcome
        error = failure or self._talk.expired()
        socket.count(await self._send(self._talk.error(error, socket.request_id, about)))
        await socket.close(code)


# ------------------------------------------------------------------------------------------------------ a frame's request


def exchange_of_frame(
    services: Services,
    socket: WebSocket,
    handler: Inference[D],
    receive: Receive,
    send: Send,
    *,
    disconnect: Disconnect,
    written: Callable[[SmgError, str], bytes],
) -> tuple[Exchange, PluginsMeet]:
    """The request to `handler` that came in a frame over `socket`, and what has plugins meet it. `disconnect` gives it up,
    `written` is how an error at the end of a stream is told."""
    headers = [
        each
        for each in socket.scope["headers"]
        if each[0] not in _OF_THE_CONNECTION and not each[0].startswith(_PREFIXES)
    ]
    made = {**socket.scope, "type": "http", "method": "POST", "headers": headers, DISCONNECT: disconnect}
    made[ERROR_WRITTEN] = written
    exchange, join = exchange_within(services.plugins, handler, made, receive, send, socket.caller)
    exchange.client_id, exchange.kind = socket.client_id, "frame"
    return exchange, join


async def answer_frame(
    services: Services, exchange: Exchange, join: PluginsMeet, handler: Inference[D], sent: Callable[[], int]
) -> None:
    """Answer such a request, and write its line in the access log; `sent` says how many bytes its frames had."""
    started, outcome = services.clock.monotonic(), "error"
    try:
        outcome = await _made(services, exchange, join, handler)
    finally:
        exchange.unplug()
        ended = exchange.ended(outcome, services.clock.monotonic() - started)
        services.observer.report(replace(ended, method=WEBSOCKET, route=exchange.path, sent=sent()))


async def _made(services: Services, exchange: Exchange, join: PluginsMeet, handler: Inference[D]) -> str:
    """Make one response, or tell what it is refused for; returns the outcome."""
    try:
        await join()
        await handler(exchange)
    except SmgError as error:
        if isinstance(exchange, PluginExchange) and exchange.ended_with_error:
            return error.outcome
        if exchange.started:
            raise
        refusal = await exchange.replaced_error(error)
        exchange.take_id(services.ids, exchange.request_id.partition("-")[0] or "req_")
        await exchange.respond(refusal.status, responses_error(refusal, exchange.request_id), error_headers(refusal))
        return error.outcome
    return "ok"
