"""uvicorn's WebSocket protocol with what it leaves open closed (edge).

Takes over a connection from `http_protocol` with the handshake. A client that answers no ping, or takes nothing of what waits for
it, loses its connection at once: uvicorn would wait until it has read all. Nothing is compressed, so that a small frame cannot
become a large one. Above: server.serve. Below: uvicorn and websockets.
"""

import logging
from asyncio import BaseTransport
from collections.abc import Sequence
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake, InvalidHeader
from websockets.http11 import Request
from websockets.server import ServerProtocol

from smg_core.auth.certificates import Certificate
from smg_core.errors import InvalidRequest, SmgError, UpgradeRequired
from smg_core.server.exchange import CERTIFICATE, Scope
from smg_core.server.proxies.protocol_header import ProxiedClient

__all__ = ["SOCKET_VERSION", "BoundedWebSocketProtocol", "handshake_fault", "socket_protocol_class"]

SOCKET_VERSION = b"13"
"""The version of WebSocket that there is (RFC 6455, 4.1)."""


def handshake_fault(target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> SmgError | None:
    """What is wrong with a head that asks for a WebSocket. Asked before a connection is handed on, where the refusal is told and
    answered as any other."""
    named = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])
    if named.get_all("sec-websocket-version") != [SOCKET_VERSION.decode()]:
        return UpgradeRequired("The handshake of a WebSocket has the header Sec-WebSocket-Version with 13.")
    try:
        ServerProtocol().process_request(Request(target.decode("latin-1"), named))
    except InvalidHandshake as fault:
        name = fault.name if isinstance(fault, InvalidHeader) else "header"
        return InvalidRequest(f"The {name} of this handshake of a WebSocket is not valid.")
    return None


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection. The bound is a class attribute: uvicorn makes the instances."""

    write_seconds = 60.0

    def __init__(
        self, *arguments: Any, client: ProxiedClient | None = None, certificate: Certificate | None = None, **named: Any
    ) -> None:
        """`client`: whom a trusted proxy has named as the other side; `certificate`: what it has shown."""
        self._proxied, self.certificate = client, certificate
        super().__init__(*arguments, **named)
        self.logger = logging.getLogger("smg.server.websocket")  # uvicorn's would log whole URLs, keys in queries too
        self.logger.setLevel(logging.WARNING)
        self._pong = b""
        self._unread: tuple[float, int] | None = None  # since when the client has taken none of how many bytes

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self.client = self._proxied or self.client

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if self.certificate is not None:
            cast("Scope", self.scope)[CERTIFICATE] = self.certificate

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # by a refusal; uvicorn would log it as an application's fault

    def handle_ping(self) -> None:
        """Answer a ping; of those that come while the client takes nothing, the last alone and later (RFC 6455, 5.5.3), since
        their answers would fill the memory."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self._pong = b"".join(self.conn.data_to_send())

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if pong:
            self.transport.write(pong)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()

    def check(self, now: float) -> None:
        """Close the connection if its client takes nothing of what waits to be sent. Called between requests, twice a second."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._unread = None
        elif self._unread is None or size < self._unread[1]:
            self._unread = now, size
        else:
            self._unread = self._unread[0], size
            if now - self._unread[0] > self.write_seconds:
                self.transport.abort()


def socket_protocol_class(write_seconds: float) -> type[BoundedWebSocketProtocol]:
    """The protocol with this bound, in seconds."""
    return type("BoundedWebSocketProtocol", (BoundedWebSocketProtocol,), {"write_seconds": write_seconds})
