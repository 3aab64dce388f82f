"""Accepts connections that begin with TLS, or with a trusted proxy's PROXY header (edge).

A plain listener is left to the event loop. Here each connection is taken in steps: the PROXY header, if its peer is a trusted
proxy; then a look at the first byte, so that plain HTTP is answered in words; then the TLS handshake, with the context that is
current now. Only then does a connection get its HTTP protocol. All steps together have `handshake_s` seconds, and at most
`handshakes` connections are in them at once: for a further one the oldest is ended, since an honest client needs a few
milliseconds. Why a connection was closed is logged in a bounded way. Above: processes.serve. Below: server.tls, server.proxies.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from smg_core.config.config import Config
from smg_core.http.networks import Networks
from smg_core.observability.repeats import Repeats
from smg_core.server.proxy_header import ProxiedClient, ProxyHeaderFault, header_size, source_of
from smg_core.server.tls.contexts import Contexts

__all__ = ["Accepting", "MakeProtocol", "accepting", "contexts_of", "send_at_once"]

log = logging.getLogger("smg.server")

MakeProtocol = Callable[[ProxiedClient | None], asyncio.Protocol]
"""Makes the HTTP protocol of a connection, for the client that a PROXY header named."""

AT_ONCE = 64  # connections taken in one round of the event loop
PAUSE_SECONDS = 1.0  # after the process was out of files
HANDSHAKE = 0x16  # the first byte of a TLS connection
PLAIN = b"This port speaks TLS: call it by https.\n"
ANSWER = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"


class Accepting:
    """The connections of one listening socket.

    `make` is called for each that is through; `tls` has the context, None for plain HTTP; connections of the `proxies` begin with
    a PROXY header of at most `header_bytes`. `seconds` and `most` bound the steps before, `repeats` what is logged.
    """

    def __init__(
        self,
        listener: socket.socket,
        make: MakeProtocol,
        *,
        tls: Contexts | None,
        proxies: Networks | None,
        header_bytes: int,
        seconds: float,
        most: int,
        repeats: Repeats,
    ) -> None:
        self._listener = listener
        self._make = make
        self._tls = tls
        self._proxies = proxies
        self._header_bytes = header_bytes
        self._seconds = seconds
        self._most = most
        self._repeats = repeats
        self._open: dict[asyncio.Task[None], socket.socket] = {}  # in their steps, the oldest first
        self._ending: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._paused: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to take connections."""
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Take no more. Those in their steps are ended."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._listener.fileno())
        for sock in self._open.values():
            _end(sock)

    async def wait_closed(self) -> None:
        """Return once no connection is in its steps."""
        await asyncio.gather(*self._open, *self._ending)

    @property
    def unfinished(self) -> int:
        """Connections that are in their steps."""
        return len(self._open)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:  # no more files or buffers
                self._tell("no connection can be taken", error.strerror or str(error))
                self._loop.remove_reader(self._listener.fileno())
                self._paused = self._loop.call_later(PAUSE_SECONDS, self.start)
                return
            self._begin(sock, address[0] if isinstance(address, tuple) else "")

    def _begin(self, sock: socket.socket, host: str) -> None:
        sock.setblocking(False)
        if len(self._open) >= self._most:
            oldest = next(iter(self._open))
            _end(self._open.pop(oldest))
            self._ending.add(oldest)
            self._tell("a handshake was ended for another", "tls.handshakes are unfinished at once")
        task = self._loop.create_task(self._take(sock, host))
        self._open[task] = sock
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task, None)
        self._ending.discard(task)

    async def _take(self, sock: socket.socket, host: str) -> None:
        """All steps of one connection; it is closed where one fails."""
        try:
            await self._stepped(sock, host)
        except (TimeoutError, ConnectionAbortedError):
            self._tell("a connection was closed", "its handshake took longer than tls.handshake_s")
        except ProxyHeaderFault as error:
            self._tell("a connection of a proxy was closed", str(error))
        except ssl.SSLError as error:
            self._tell("a TLS handshake failed", error.reason or "it was not complete")
        except OSError as error:
            self._tell("a connection ended in its handshake", error.strerror or type(error).__name__)
        else:
            return
        sock.close()

    async def _stepped(self, sock: socket.socket, host: str) -> None:
        until = self._loop.time() + self._seconds
        source: ProxiedClient | None = None
        if self._proxies is not None and host in self._proxies:
            async with asyncio.timeout_at(until):
                source = await self._proxied(sock)
        if self._tls is None:
            await self._loop.connect_accepted_socket(lambda: self._make(source), sock)
            return
        async with asyncio.timeout_at(until):
            if not await self._begins_handshake(sock):
                return
        await self._loop.connect_accepted_socket(
            lambda: self._make(source),
            sock,
            ssl=self._tls.current,
            ssl_handshake_timeout=max(until - self._loop.time(), 0.001),
            ssl_shutdown_timeout=self._seconds,
        )

    async def _proxied(self, sock: socket.socket) -> ProxiedClient | None:
        """Read the PROXY header, and not a byte behind it. Raises ProxyHeaderFault and ConnectionError."""
        header = b""
        while True:
            await self._readable(sock)
            seen = sock.recv(self._header_bytes, socket.MSG_PEEK)
            if not seen:
                raise ConnectionResetError
            size = header_size(header + seen, self._header_bytes)
            header += sock.recv(len(seen) if size is None else size - len(header))
            if size is not None:
                return source_of(header)

    async def _begins_handshake(self, sock: socket.socket) -> bool:
        """Whether the client begins with TLS. One that does not is told in plain HTTP, and its connection closed."""
        await self._readable(sock)
        first = sock.recv(1, socket.MSG_PEEK)
        if not first:
            raise ConnectionResetError
        if first[0] == HANDSHAKE:
            return True
        sock.recv(1 << 16)  # so that closing sends the answer, not a reset
        sock.send(ANSWER % (len(PLAIN), PLAIN))
        sock.close()
        return False

    async def _readable(self, sock: socket.socket) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(sock.fileno(), _resolve, waiter)
        try:
            await waiter
        finally:
            self._loop.remove_reader(sock.fileno())

    def _tell(self, what: str, why: str) -> None:
        again = self._repeats.note((what, why), self._loop.time())
        if again is not None:
            log.info("%s: %s%s", what, why, f" ({again} more like it since the last time)" if again else "")


def send_at_once(listener: socket.socket) -> None:
    """Have connections of this listener send each piece when it is written (TCP_NODELAY), which they inherit from it. Without it
    the system keeps a second small piece back until the client has acknowledged the first, often 40 ms later; asyncio's own loop
    sets it only for sockets that were made with a protocol number. Called for every listener before it is served."""
    if listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def contexts_of(config: Config) -> Contexts | None:
    """The TLS contexts that the settings name, loaded; None for plain HTTP. Raises ConfigError."""
    if config.tls.cert is None:
        return None
    contexts = Contexts(config.tls)
    contexts.load()
    return contexts


def accepting(
    config: Config, tls: Contexts | None, listener: socket.socket, make: MakeProtocol, *, proxied: bool
) -> Accepting:
    """What takes the connections of `listener` by the settings; `proxied`: those of trusted proxies begin with a PROXY header.
    Called in the event loop."""
    proxies, observability = config.proxies, config.observability
    return Accepting(
        listener,
        make,
        tls=tls,
        proxies=Networks(proxies.networks()) if proxied else None,
        header_bytes=proxies.protocol_bytes,
        seconds=config.tls.handshake_s,
        most=config.tls.handshakes,
        repeats=Repeats(observability.repeat_s, observability.repeats),
    )


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _end(sock: socket.socket) -> None:
    """Have whoever waits on the socket find it at its end."""
    with contextlib.suppress(OSError):  # the client has left already
        sock.shutdown(socket.SHUT_RDWR)
