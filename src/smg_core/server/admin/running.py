"""Serves the admin door beside the public listener, in one process (edge).

With several processes the first one has it. Decides nothing: bounds and TLS are those of `server.http_server`; it ends after the
public listener, so that a gateway that drains can still be asked how it is. Above: server.serve.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

from smg_core.config import Config
from smg_core.server.admin.app import AdminApp
from smg_core.server.gateway import Gateway
from smg_core.server.http_server import HttpServer
from smg_core.server.processes import ProcessTable

__all__ = ["administered"]


class _AdminServer(HttpServer):
    """A server that leaves when it is told to by `should_exit`: signals are the public one's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def administered(
    gateway: Gateway, config: Config, listener: socket.socket | None, processes: ProcessTable
) -> AsyncIterator[None]:
    """A context in which the admin door answers at `listener`, if there is one."""
    if listener is None:
        yield
        return
    server = _AdminServer(gateway, config, app=AdminApp(gateway, processes), plain=not config.admin.tls)
    running = asyncio.create_task(server.serve(sockets=[listener]), name="admin door")
    try:
        yield
    finally:
        server.should_exit = True
        await running
