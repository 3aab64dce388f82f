"""uvicorn's WebSocket protocol with what it leaves open closed (edge).

Takes over a connection from `http_protocol` with the handshake. What a client sends is cut into messages by `socket_frames`, in
steps between which other connections have their turn; one message at a time waits for the app. A message that has begun is a body
that is being read: it comes within the time and at the rate of bodies, and counts among them until the app asks for the next. One
that is too slow is closed with 1008, one that gives way to others with 1013, and what breaks the protocol with the code that RFC
6455 has for it. The app is told by its `Disconnect`; nothing is logged here.

A client that answers no ping, or takes nothing of what waits for it, loses its connection at once: uvicorn would wait until it
has read all. Nothing is compressed, so that a small frame cannot become a large one. Above: processes.serve. Below: uvicorn,
websockets, socket_frames, bodies.
"""

import asyncio
import logging
from asyncio import BaseTransport
from collections.abc import Sequence
from typing import Any, cast

import attrs
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake, InvalidHeader, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from smg_core.auth.certificates import Certificate
from smg_core.errors import (
    HeadersTooLarge,
    InvalidRequest,
    Overloaded,
    PayloadTooLarge,
    RequestTimeout,
    SmgError,
    UpgradeRequired,
)
from smg_core.http.bodies import Bodies, Held, Pace
from smg_core.http.scope import CERTIFICATE, DISCONNECT, AsgiMessage, Disconnect, Scope
from smg_core.http.websocket import DirectReceive, Received
from smg_core.server.proxy_header import ProxiedClient
from smg_core.server.socket_frames import (
    CLOSE,
    NOT_UTF8,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TOO_LARGE,
    ControlFrame,
    FrameFault,
    FrameReader,
    SocketMessage,
)

try:
    from websockets.speedups import apply_mask
except ImportError:  # where websockets could not be compiled
    from websockets.utils import apply_mask

__all__ = ["SOCKET_VERSION", "BoundedWebSocketProtocol", "SocketBounds", "read_handshake", "socket_protocol_class"]

SOCKET_VERSION = b"13"
"""The version of WebSocket that there is (RFC 6455, 4.1)."""
TOO_SLOW, NO_ROOM = 1008, 1013
"""Why a connection is closed (RFC 6455, 7.4.1, and the registry of IANA)."""
HANDSHAKE_BYTES = 8192
"""Most bytes of the headers of a handshake that are lists."""
_LISTS = (b"connection", b"upgrade", b"sec-websocket-")
STEPS_AT_ONCE = 64  # of the reader, below a millisecond, before other connections have their turn
_OPEN = (State.OPEN, State.CLOSING)


@attrs.frozen
class SocketBounds:
    """What a client may take: bytes of a message, its pace, seconds that what waits for the client may stay unread, and bytes
    that are thrown away after a refusal. Messages count among `bodies` while they are read."""

    message_bytes: int
    pace: Pace
    write_seconds: float
    discard_bytes: int
    bodies: Bodies


def read_handshake(target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Request:
    """A head that asks for a WebSocket, as websockets has it. Bytes that are not ASCII are spelled out; what belongs to the
    handshake has none. Asked before a connection is handed on: there a refusal is told and answered as any other. Raises
    UpgradeRequired, InvalidRequest, and HeadersTooLarge for more lists than any client sends, which are parsed item by item."""
    if sum(len(value) for name, value in headers if name.startswith(_LISTS)) > HANDSHAKE_BYTES:
        raise HeadersTooLarge(f"The headers of this handshake of a WebSocket have more than {HANDSHAKE_BYTES} bytes.")
    named = Headers([(_ascii(name), _ascii(value.strip(b" \t"))) for name, value in headers])
    if named.get_all("sec-websocket-version") != [SOCKET_VERSION.decode()]:
        raise UpgradeRequired("The handshake of a WebSocket has the header Sec-WebSocket-Version with 13.")
    request = Request(_ascii(target), named)
    try:
        ServerProtocol().process_request(request)
    except InvalidHandshake as fault:
        name = fault.name if isinstance(fault, InvalidHeader) else "header"
        raise InvalidRequest(f"The {name} of this handshake of a WebSocket is not valid.") from None
    return request


def _ascii(sent: bytes) -> str:
    return sent.decode("ascii", "backslashreplace")


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection. The bounds are a class attribute: uvicorn makes the instances."""

    bounds: SocketBounds

    def __init__(
        self, *arguments: Any, client: ProxiedClient | None = None, certificate: Certificate | None = None, **named: Any
    ) -> None:
        """`client`: whom a trusted proxy has named as the other side; `certificate`: what it has shown."""
        self._proxied, self.certificate = client, certificate
        super().__init__(*arguments, **named)
        self.logger = logging.getLogger("smg.server.websocket")  # uvicorn's would log whole URLs, keys in queries too
        self.logger.setLevel(logging.WARNING)
        self.write_seconds = self.bounds.write_seconds
        self.receive = DirectReceive(self._next_event, self._next_received)  # type: ignore[method-assign, assignment]
        self._pong = b""
        self._unread: tuple[float, int] | None = None  # since when the client has taken none of how many bytes
        self._reader = FrameReader(self.bounds.message_bytes, apply_mask)
        self._begun: tuple[float, int] | None = None  # since when a message is waited for, and its size then
        self._held: Held | None = None  # the message that is partly here
        self._given: Held | None = None  # the one that the app has, until it asks for the next
        self._waits = False  # whether a message waits for the app; nothing is read meanwhile
        self._again = False  # whether the reading goes on in the next round of the event loop
        self._ended = False  # whether what the client sends has no meaning any more
        self._discarded = 0
        self._disconnect = Disconnect()

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self.client = self._proxied or self.client

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def begin(self, request: Request, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Begin with a handshake that `read_handshake` has made of `target` and `headers`. It is not written out for websockets
        to parse: its bounds are others than those of a head here."""
        self.handle_connect(request)
        scope = cast("Scope", self.scope)
        raw_path, _, scope["query_string"] = target.partition(b"?")
        scope["raw_path"] = self.root_path.encode("ascii") + raw_path
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in headers]
        scope[DISCONNECT] = self._disconnect
        if self.certificate is not None:
            scope[CERTIFICATE] = self.certificate

    def shutdown(self) -> None:
        if self.conn.state is State.OPEN or (self.handshake_initiated and not self.handshake_complete):
            super().shutdown()
        else:
            self.transport.close()

    # ------------------------------------------------------------------------------------------------------- reading

    def data_received(self, data: bytes) -> None:
        if self._ended:
            self._discarded += len(data)
            if self._discarded > self.bounds.discard_bytes:
                self.transport.close()
        else:
            self._reader.feed(data)
            self._read()

    def _read(self) -> None:
        """Read what is here, until a message waits for the app or others should have their turn."""
        for _ in range(STEPS_AT_ONCE):
            if not self._wants_more or self._reader.starved:
                break
            self._step()
        else:
            self._read_again()
        if self._begun is None and not self._ended and not self._reader.idle:
            self._begun = self.loop.time(), 0
        self._hold_back(not self._ended and not self._reader.starved)

    @property
    def _wants_more(self) -> bool:
        """Whether the next frame can be read now: not before the connection is accepted, nor while a message waits for the app,
        unless that has closed the connection and takes none."""
        return not self._ended and self.conn.state in _OPEN and (not self._waits or self.close_sent)

    def _read_again(self) -> None:
        if not self._again:
            self._again = True
            self.loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._again = False
        if not self._ended:
            self._read()

    def _hold_back(self, paused: bool) -> None:
        """Read nothing more of the socket while there is something left to read here."""
        if paused != self.read_paused and not self.transport.is_closing():
            self.read_paused = paused
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _step(self) -> None:
        size = self._reader.size
        event = self._reader.step()
        if isinstance(event, SocketMessage):
            self._count(len(event.data) - size)
            if not self._ended:
                self._arrived(event)
        elif isinstance(event, FrameFault):
            self._refuse(event.code, event.reason, _error_of(event))
        else:
            self._count(self._reader.size - size)
            if event is not None and not self._ended:
                self._answer(event)
        if self._reader.between:
            self._begun = None

    def _count(self, size: int) -> None:
        """Count so many bytes more of the message among all bodies."""
        if not size:
            return
        if self._held is None:
            self._held = self.bounds.bodies.open()
            self._held.give_way = self._give_way
        try:
            self._held.grow(size)
        except Overloaded as error:
            self._refuse(NO_ROOM, "the gateway holds as many messages as it can", error)

    def _give_way(self) -> None:
        """Called when the memory of the message is needed for others."""
        self._refuse(NO_ROOM, "the gateway holds as many messages as it can", self.bounds.bodies.refusal())

    def _arrived(self, message: SocketMessage) -> None:
        """A message is whole."""
        held, self._held = self._held, None
        if held is not None:
            held.give_way = None
            held.arrived()
        if self.close_sent:
            if held is not None:
                held.release()  # the app takes nothing more
            return
        self._waits = True
        self.queue.put_nowait(cast("Any", (message, held)))

    def _answer(self, control: ControlFrame) -> None:
        """Do what a control frame asks for."""
        if control.kind == PING:
            self.conn.send_pong(control.data)
            self.handle_ping()
        elif control.kind == PONG:
            self.handle_pong(Frame(Opcode.PONG, control.data))
        elif control.kind == CLOSE:
            self._close(Frame(Opcode.CLOSE, control.data))

    def _close(self, frame: Frame) -> None:
        """The client closes the connection."""
        try:
            self.conn.recv_frame(frame)
        except ProtocolError:
            self._refuse(PROTOCOL_ERROR, "a close has no code, or one that there is", _broken())
        except UnicodeDecodeError:
            self._refuse(NOT_UTF8, "the reason of a close is UTF-8", _broken())
        else:
            self._end()
            self.handle_close(frame)

    async def _next_message(self) -> Any:
        """The next message with what counts it, or what uvicorn has to say. The message before is over."""
        if self._given is not None:
            self._given.release()
            self._given = None
        event: Any = await self.queue.get()
        if isinstance(event, tuple):
            message, self._given = event
            self._waits = False
            if not self._ended and not self._reader.starved:
                self._read_again()
            return message
        return event

    async def _next_event(self) -> AsgiMessage:
        """As ASGI has it: `receive`."""
        event = await self._next_message()
        if not isinstance(event, SocketMessage):
            return cast(AsgiMessage, event)
        key, data = ("text", event.data.decode()) if event.text else ("bytes", bytes(event.data))
        return {"type": "websocket.receive", key: data}

    async def _next_received(self) -> Received | AsgiMessage:
        """The same for our own app, which needs no text of a message."""
        event = await self._next_message()
        return Received(event.text, event.data) if isinstance(event, SocketMessage) else cast(AsgiMessage, event)

    # -------------------------------------------------------------------------------------------------------- ending

    def _end(self) -> None:
        """Nothing more is read, and what is partly here is forgotten. The app may still have a message, and find another."""
        self._ended, self._begun = True, None
        self._reader = FrameReader(0, apply_mask)
        held, self._held = self._held, None
        if held is not None:
            held.give_way = None
            held.release()

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        super().on_task_complete(task)
        held = [self._given]
        while not self.queue.empty():
            event: Any = self.queue.get_nowait()
            held.append(event[1] if isinstance(event, tuple) else None)
        for each in held:
            if each is not None:
                each.release()

    def _refuse(self, code: int, reason: str, error: SmgError) -> None:
        """Close the connection for what the client did. What it still sends is thrown away within bounds, so that it sees the
        reason: a socket that is closed with unread bytes is reset."""
        if self._ended:
            return
        self._end()
        self.stop_keepalive()
        self._disconnect.refused = error, ""
        self.conn.fail(code, reason)
        self.queue.put_nowait(cast("Any", {"type": "websocket.disconnect", "code": code, "reason": reason}))
        self.close_sent = True
        self._hold_back(False)
        if self.transport.is_closing():
            return
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(self.bounds.pace.grace, self.transport.close)

    # ------------------------------------------------------------------------------------------------------- writing

    async def send(self, message: Any) -> None:
        await self.writable.wait()
        if self._ended:
            raise ClientDisconnected  # it has been told why; uvicorn would take what comes now for the app's fault
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # by a refusal; uvicorn would log it as an application's fault
        elif message["type"] in ("websocket.accept", "websocket.close") and not self._ended:
            self._read()  # what came before it was accepted, or what it would not have taken

    def handle_ping(self) -> None:
        """Answer a ping; of those that come while the client takes nothing, the last alone and later (RFC 6455, 5.5.3), since
        their answers would fill the memory. A client that has left gets none: the event loop logs each write to it."""
        if self.transport.is_closing():
            self.conn.data_to_send()
        elif self.writable.is_set():
            super().handle_ping()
        else:
            self._pong = b"".join(self.conn.data_to_send())

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if pong and not self.transport.is_closing():
            self.transport.write(pong)

    def keepalive_timeout(self) -> None:
        if self.read_paused and self.ping_timeout is not None and not self.transport.is_closing():
            self.pong_timer = self.loop.call_later(
                self.ping_timeout, self.keepalive_timeout
            )  # the answer may lie unread
            return
        super().keepalive_timeout()
        self.transport.abort()

    def check(self, now: float) -> None:
        """Close the connection if its client takes nothing of what waits to be sent, or is too slow with a message that it has
        begun. Called between requests, twice a second."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._unread = None
        elif self._unread is None or size < self._unread[1]:
            self._unread = now, size
        else:
            self._unread = self._unread[0], size
            if now - self._unread[0] > self.write_seconds:
                self.transport.abort()
                return
        self._check_message(now)

    def _check_message(self, now: float) -> None:
        if self._begun is None or self._ended:
            return
        since, size = self._begun
        if self.read_paused:
            self._begun = now, self._reader.size  # the gateway itself does not read now
        elif self.bounds.pace.too_slow(now - since, self._reader.size - size):
            self._refuse(
                TOO_SLOW, "the message did not arrive in time", RequestTimeout("The message did not arrive in time.")
            )


def _broken() -> InvalidRequest:
    return InvalidRequest("What the client sent is not by the protocol of WebSockets.")


def _error_of(fault: FrameFault) -> SmgError:
    """The error that a fault is in the log."""
    return PayloadTooLarge("The message is too large.") if fault.code == TOO_LARGE else _broken()


def socket_protocol_class(bounds: SocketBounds) -> type[BoundedWebSocketProtocol]:
    """The protocol with these bounds."""
    return type("BoundedWebSocketProtocol", (BoundedWebSocketProtocol,), {"bounds": bounds})
