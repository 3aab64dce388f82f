"""The connections to one origin, at the address that was judged (edge).

Above: `wire`, which judges every request and says where it goes. Below: httpcore2 and httpx2. A request's head and body go out in
one write: the library writes them one after the other, and each write is a system call.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol

import httpcore2
import httpx2

from smg_egress import FetchTarget
from smg_mcp.records.settings import EgressSettings

__all__ = ["Direct", "OriginConnections", "ThroughProxy"]

_HELD_BYTES = 64 * 1024
_CORE_ERRORS = (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError)


class OriginConnections(Protocol):
    """Sends requests to one origin. Raises httpx2.TransportError."""

    async def send(self, request: httpx2.Request, target: FetchTarget) -> httpx2.Response: ...

    async def aclose(self) -> None: ...


class ThroughProxy:
    """Requests go to a proxy, which resolves the origin's name."""

    def __init__(self, proxy: httpx2.Proxy, tls: ssl.SSLContext) -> None:
        self._transport = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, proxy=proxy)

    async def send(self, request: httpx2.Request, target: FetchTarget) -> httpx2.Response:
        """The answer of the origin, or the proxy's."""
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()


class Direct:
    """Requests go to `address`, under the origin's own name in the Host header and in TLS."""

    def __init__(self, address: str, tls: ssl.SSLContext, settings: EgressSettings) -> None:
        self._address = address.encode()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=settings.connections,
            max_keepalive_connections=settings.idle_connections,
            keepalive_expiry=settings.idle_connection_s,
            network_backend=_JoiningBackend(),
        )

    async def send(self, request: httpx2.Request, target: FetchTarget) -> httpx2.Response:
        """The origin's answer, whose body is still to come."""
        host = target.authority.encode()
        asked = httpcore2.Request(
            request.method,
            httpcore2.URL(
                scheme=target.scheme.encode(), host=self._address, port=target.port, target=request.url.raw_path
            ),
            headers=[(b"host", host), *((k, v) for k, v in request.headers.raw if k.lower() != b"host")],
            content=request.stream,
            extensions={**request.extensions, "sni_hostname": target.host},
        )
        try:
            answer = await self._pool.handle_async_request(asked)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        except _CORE_ERRORS as error:
            raise httpx2.ReadError(str(error), request=request) from error
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer.stream), request=request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, with errors as httpx2 names them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                yield part
        except _CORE_ERRORS as error:
            raise httpx2.ReadError(str(error)) from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class _JoiningBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections whose writes are joined."""

    def __init__(self) -> None:
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _JoinedWrites(await self._inner.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _JoinedWrites(httpcore2.AsyncNetworkStream):
    """A connection that keeps small writes back until the other side's answer is read, which over HTTP/1.1 follows the whole
    request; at most `_HELD_BYTES` are kept back."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._held = bytearray()
        self._timeout: float | None = None

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._held += buffer
        self._timeout = timeout
        if len(self._held) > _HELD_BYTES:
            await self._flush()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._held:
            # A server may answer and close before it has read all; then what it answered is read below.
            with contextlib.suppress(httpcore2.WriteError):
                await self._flush()
        return await self._inner.read(max_bytes, timeout)

    async def _flush(self) -> None:
        held, self._held = bytes(self._held), bytearray()
        await self._inner.write(held, self._timeout)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _JoinedWrites(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
