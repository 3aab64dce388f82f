"""Opens the socket of a connection to an HTTP server: directly, over a Unix socket, by TLS, or through a proxy (edge).

A proxy is asked for a tunnel (CONNECT), in which TLS is spoken with the server itself: the proxy sees its name and no byte of
what is sent. Above: client. Below: connections.certificates, address.
"""

import asyncio
import ssl
from collections.abc import Callable

from smg_core.engines.connections.certificates import TlsContexts
from smg_core.engines.http.address import HttpAddress

__all__ = ["open_socket"]

_MOST_HEAD = 16 * 1024
"""Most bytes of a proxy's answer."""


async def open_socket(
    protocol: Callable[[], asyncio.BaseProtocol],
    address: HttpAddress,
    contexts: TlsContexts,
    name: str,
    proxy: HttpAddress | None,
) -> None:
    """Open a socket to `address`, which `protocol` is told of. `name` has to be in the server's certificate. Raises OSError,
    ssl.SSLError and UnicodeError for a server that cannot be reached."""
    loop = asyncio.get_running_loop()
    if address.socket:
        await loop.create_unix_connection(protocol, address.socket)
    elif not address.secure:
        await loop.create_connection(protocol, address.host, address.port)
    else:
        context = await loop.run_in_executor(None, contexts.current)  # reads files
        if proxy is None:
            await loop.create_connection(protocol, address.host, address.port, ssl=context, server_hostname=name)
        else:
            await _through(proxy, protocol, address, context, name)


async def _through(
    proxy: HttpAddress,
    protocol: Callable[[], asyncio.BaseProtocol],
    address: HttpAddress,
    context: ssl.SSLContext,
    name: str,
) -> None:
    loop = asyncio.get_running_loop()
    transport, tunnel = await loop.create_connection(_Tunnel, proxy.host, proxy.port)
    try:
        host = f"[{address.host}]" if ":" in address.host else address.host
        place = f"{host}:{address.port}"
        transport.write(f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n\r\n".encode("ascii"))
        await tunnel.open
        inner = protocol()
        secured = await loop.start_tls(transport, inner, context, server_hostname=name)
    except BaseException:
        transport.abort()
        raise
    if secured is None:
        raise ConnectionError("the proxy closed the tunnel")
    inner.connection_made(secured)


class _Tunnel(asyncio.Protocol):
    """Reads the proxy's answer: `open` ends when the tunnel is there, with an OSError where it is not."""

    def __init__(self) -> None:
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = bytearray()

    def data_received(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if self.open.done():
            return
        if end < 0 and len(self._head) <= _MOST_HEAD:
            return
        status = bytes(self._head[9:12])
        if end < 0 or not self._head.startswith(b"HTTP/1.") or not status.isdigit():
            self._fail("the proxy does not answer as one")
        elif status[:1] != b"2":
            self._fail(f"the proxy refuses the tunnel: HTTP status {int(status)}")
        elif end + 4 < len(self._head):
            self._fail("the proxy sent more than its answer")
        else:
            self.open.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.open.done():
            self._fail(f"the proxy closed the connection: {error}" if error else "the proxy closed the connection")

    def _fail(self, why: str) -> None:
        self.open.set_exception(ConnectionError(why))
