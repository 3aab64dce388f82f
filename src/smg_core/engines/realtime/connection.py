"""One session at another server, over a WebSocket (edge).

Frames of text go both ways as they are. A server that reads nothing is waited for, and one whose frames nobody takes is read no
further: at most a few frames wait here. Above: engine. Below: the sockets of HTTP servers, websockets.
"""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from urllib.parse import quote

import attrs
from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.uri import WebSocketURI

from smg_core.engines.connections.certificates import TlsContexts
from smg_core.engines.http.address import HttpAddress
from smg_core.engines.http.dialing import open_socket
from smg_core.engines.openai.answers import error_from_http_status, retry_after
from smg_core.errors import SmgError, WorkerGone

__all__ = ["PeerRefused", "PeerSocket", "connect_peer"]

_FRAMES_WAITING = 16
"""Frames of a server that wait here before its socket is read no further."""
_WRITE_BYTES = 64 * 1024
"""Bytes that wait for a server before its client is read no further."""
_PING_S = 20.0
_CLOSE_S = 2.0
_SILENT = logging.getLogger("smg.engines.realtime.frames")
_SILENT.disabled = True  # the library's own lines have heads, with their secrets, and what people say


@attrs.frozen
class PeerRefused(Exception):  # an answer, which may be followed by another try
    """A server has refused the handshake."""

    status: int
    headers: dict[str, str]
    body: bytes

    def meaning(self) -> SmgError:
        """The error that it is."""
        return error_from_http_status(self.status, self.body, retry_after(self.headers))


class PeerSocket:
    """A session that is open. `name` is the server's, for logs."""

    def __init__(self, connection: ClientConnection, name: str) -> None:
        self._connection, self._name = connection, name

    async def send(self, text: bytes) -> None:
        """Send a frame of text, once the server reads. Raises WorkerGone."""
        try:
            await self._connection.send(text, text=True)
        except ConnectionClosed as error:
            raise self._gone(error) from None

    async def receive(self) -> bytes:
        """The next frame. Raises WorkerGone once the server has closed the session, or is lost."""
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise self._gone(error) from None

    @property
    def closed_well(self) -> bool:
        """Whether the server has closed the session as it should."""
        return self._connection.close_code in (1000, 1001)

    async def close(self) -> None:
        """End the session there."""
        try:
            await self._connection.close()
        finally:  # also where nobody waits any longer
            self._connection.transport.abort()

    def _gone(self, error: ConnectionClosed) -> WorkerGone:
        closed = error.rcvd
        reason = "" if closed is None else " ".join(closed.reason[:200].split())
        how = "lost" if closed is None else f"closed with {closed.code}"
        detail = f"{self._name}: the session was {how}{': ' if reason else ''}{reason}"
        return WorkerGone("The server of this session has ended it.", detail=detail, outside_text=reason)


async def connect_peer(
    address: HttpAddress,
    path: str,
    query: Sequence[tuple[str, str]],
    headers: Sequence[tuple[str, str]],
    *,
    contexts: TlsContexts,
    server_name: str,
    proxy: HttpAddress | None,
    most: int,
    seconds: float,
) -> PeerSocket:
    """Open a session at `path`; a frame of the server has at most `most` bytes. Raises PeerRefused, and WorkerGone where the
    server cannot be reached or answers no handshake within `seconds`."""
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query)
    uri = WebSocketURI(address.secure, address.host or "localhost", address.port or 80, path, asked)
    protocol = ClientProtocol(uri, max_size=most, logger=_SILENT)
    made: list[ClientConnection] = []

    def connection() -> ClientConnection:
        made.append(
            ClientConnection(
                protocol,
                ping_interval=_PING_S,
                ping_timeout=_PING_S,
                close_timeout=_CLOSE_S,
                max_queue=_FRAMES_WAITING,
                write_limit=_WRITE_BYTES,
            )
        )
        return made[-1]

    try:
        async with asyncio.timeout(seconds):
            await open_socket(connection, address, contexts, server_name, proxy)
            await made[0].handshake(Headers(headers), None)
    except BaseException as error:
        if made and made[0].transport is not None:
            made[0].transport.abort()
        if isinstance(error, InvalidStatus):
            response = error.response
            raise PeerRefused(
                response.status_code,
                {name.lower(): value for name, value in response.headers.raw_items()},
                bytes(response.body or b""),
            ) from None
        if isinstance(error, OSError | ssl.SSLError | UnicodeError | TimeoutError | InvalidHandshake | EOFError):
            raise WorkerGone(
                "The engine is not available.", detail=f"{address}: {error or type(error).__name__}"
            ) from None
        raise
    made[0].start_keepalive()
    return PeerSocket(made[0], str(address))
