"""A WebSocket as an exchange (edge): the handshake is its request, and it goes on in frames where that is accepted.

The app checks and routes a handshake as it does a request; one that it refuses is answered as over HTTP where the server can do
that, else closed. Speaks ASGI and nothing else. Above: app.app, and handlers of WebSockets. Below: the exchange.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import final

import attrs

from smg_core.http.exchange import Exchange, hide_key
from smg_core.http.routes import WEBSOCKET
from smg_core.http.scope import DISCONNECT, AsgiMessage, Disconnect, Header, Receive, Scope, Send
from smg_core.middleware.base import Middleware
from smg_core.request import Caller

__all__ = ["SWITCHED", "DirectReceive", "Received", "WebSocket"]

SWITCHED = 101
_NO_CODE, _ABNORMAL = 1005, 1006  # a close without a code; none at all (RFC 6455, 7.4.1)
_REFUSED = 1008  # policy violation (RFC 6455, 7.4.1)
_RESPONSE = "websocket.http.response"


def _is_lost(message: AsgiMessage) -> bool:
    """Whether the connection has ended without a closing frame of the client. uvicorn says then that there is no code, and gives
    no reason, not even an empty one."""
    code = message.get("code", _NO_CODE)
    return code == _ABNORMAL or (code == _NO_CODE and "reason" not in message)


@attrs.frozen
class Received:
    """A message of the client, and whether it is text: in UTF-8, or a string from a server that has decoded it already."""

    text: bool
    data: str | bytes | bytearray

    def encoded(self) -> bytes | bytearray:
        """The bytes of the message. Takes time for a string."""
        return self.data.encode() if isinstance(self.data, str) else self.data


@final
class DirectReceive:
    """The `receive` of a server that can also give messages as the bytes that they are: a long text is neither decoded nor
    encoded on the event loop then. `receive` is that of ASGI; `received` gives a message, or what else has happened as that."""

    __slots__ = ("_receive", "received")

    def __init__(
        self,
        receive: Callable[[], Awaitable[AsgiMessage]],
        received: Callable[[], Awaitable[Received | AsgiMessage]],
    ) -> None:
        self._receive = receive
        self.received = received

    def __call__(self) -> Awaitable[AsgiMessage]:
        return self._receive()


class WebSocket(Exchange):
    """One connection. `read` and `send` are for after `accept`. `identify` finds the caller anew: a connection outlives keys.
    `met` are the plugins that applied when it was opened. `outcome` says how the connection ended, as in ExchangeEnded."""

    __slots__ = ("_closed", "identify", "met", "outcome")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hide_key(scope)  # in the server's own scope, not in the copy alone
        super().__init__({**scope, "method": WEBSOCKET}, receive, send)
        self.identify: Callable[[], Awaitable[Caller]] | None = None
        self.met: tuple[Middleware, ...] = ()
        self.outcome = "ok"
        self._closed = False

    def ends(self) -> tuple[Scope, Receive, Send]:
        scope, receive, send = super().ends()
        return {name: value for name, value in scope.items() if name != "method"}, receive, send

    def rebind(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().rebind({**scope, "method": WEBSOCKET}, receive, send)

    async def accept(self, *subprotocols: str) -> None:
        """Switch to frames, in the first of `subprotocols` that the client offers. The client's first message from the server is
        this; one that has left already is noticed by `read`."""
        await self._receive()
        self.started, self.status = True, SWITCHED
        message: dict[str, object] = {"type": "websocket.accept", "headers": self.always}
        offered = self.scope.get("subprotocols") or ()
        if subprotocols and (chosen := next((each for each in subprotocols if each in offered), None)):
            message["subprotocol"] = chosen
        await self._put(message)

    async def read(self) -> Received | None:
        """The next message; None once the client has left, properly or not, or was sent away by the server."""
        receive = self._receive
        # Only the server's own gives bytes: a middleware that wraps it sees every message.
        message = await (receive.received() if type(receive) is DirectReceive else receive())
        if isinstance(message, Received):
            return message
        if message["type"] != "websocket.receive":
            disconnect: Disconnect | None = self.scope.get(DISCONNECT)
            if disconnect is not None and disconnect.refused is not None:
                self.outcome = disconnect.refused[0].outcome
            elif not self._closed and _is_lost(message):
                self.outcome = "client_gone"
            self.gone = True
            return None
        text: str | None = message.get("text")
        return Received(text is not None, text if text is not None else message.get("bytes") or b"")

    async def send(self, text: str) -> int:
        """Send a frame of text, of which the bytes are returned; nothing to a client that has left. They are counted by the
        response or the refusal that the frame is of, and not by the connection too."""
        if self.gone:
            return 0
        await self._put({"type": "websocket.send", "text": text})
        return len(text) if text.isascii() else len(text.encode())

    def count(self, sent: int) -> None:
        """Count bytes of frames that are of no response and no refusal, as the connection's."""
        self._sent += sent

    async def close(self, code: int) -> None:
        """Close the connection."""
        self._closed = True
        await self._put({"type": "websocket.close", "code": code})

    async def _put(self, message: dict[str, object]) -> None:
        if self.gone:
            return
        try:
            await self._send(message)
        except OSError:  # how an ASGI server says that the client has left
            self.gone = True

    async def respond(self, status: int, body: bytes, headers: Sequence[Header]) -> None:
        """Refuse the handshake."""
        await self._receive()
        self.started, self.status, self._sent = True, status, len(body)
        if _RESPONSE not in (self.scope.get("extensions") or {}):
            await self._put({"type": "websocket.close", "code": _REFUSED})
            return
        length = (b"content-length", b"%d" % len(body))
        await self._put({"type": f"{_RESPONSE}.start", "status": status, "headers": [*headers, length, *self.always]})
        await self._put({"type": f"{_RESPONSE}.body", "body": body})
