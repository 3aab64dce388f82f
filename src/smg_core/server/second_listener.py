"""Serves another app beside the public listener, in one process (edge).

The admin door and the port of the metrics are served so. Decides nothing: bounds and TLS are those of `server.http_server`;
such a server ends after the public one, so that a gateway that drains can still be asked how it is. Above: server.admin_server,
processes.telemetry.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

from smg_core.app.app import App
from smg_core.config.config import Config
from smg_core.gateway.gateway import Gateway
from smg_core.server.http_server import HttpServer

__all__ = ["background_listener"]


class _SecondServer(HttpServer):
    """A server that leaves when it is told to by `should_exit`: signals are the public one's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def background_listener(
    gateway: Gateway, config: Config, listener: socket.socket, app: App, name: str, *, plain: bool
) -> AsyncIterator[None]:
    """A context in which `app` answers at `listener`; `plain`: without TLS, whatever the settings say."""
    server = _SecondServer(gateway, config, app=app, plain=plain)
    running = asyncio.create_task(server.serve(sockets=[listener]), name=name)
    try:
        yield
    finally:
        server.should_exit = True
        await running
