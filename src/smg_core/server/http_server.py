"""uvicorn's server with our way of leaving, our bounds and our listeners (edge).

Decides when a server has left: once nothing is in flight, or `drain_s` seconds after it was asked to. Twice a second it looks at
connections that wait for something. A listener that speaks TLS, or that proxies pass connections to, is read by
`server.tls_accept`. Above: processes.serve. Below: the HTTP and WebSocket protocols.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import uvicorn

from smg_core.app.app import App
from smg_core.config.config import Config
from smg_core.gateway.gateway import Gateway
from smg_core.http.bodies import Pace
from smg_core.http.routes import WEBSOCKET
from smg_core.machine.memory import Settling, Trimming
from smg_core.operation.process_table import ProcessState, ProcessTable
from smg_core.server.http_protocol import BoundedHttpProtocol, Refusals, protocol_class
from smg_core.server.proxy_header import ProxiedClient
from smg_core.server.socket_protocol import BoundedWebSocketProtocol, SocketBounds, socket_protocol_class
from smg_core.server.tls_accept import accepting, contexts_of, send_at_once

__all__ = ["HttpServer", "connections_within", "open_files"]

log = logging.getLogger("smg.server")

TICK_SECONDS = 0.1  # between two looks at whether the server is to leave
SWEEP_TICKS = 5  # deadlines are looked at every so many ticks


def _unplanned(record: logging.LogRecord) -> bool:
    """A log filter: False for uvicorn's line about requests that were ended after `drain_s`, since we log that ourselves."""
    return not record.getMessage().startswith("Cancel ")


def _waiting_connection(listener: socket.socket) -> socket.socket | None:
    """The next connection that waits to be taken, if one does."""
    try:
        taken, _ = listener.accept()
    except OSError:
        return None
    taken.setblocking(False)
    return taken


class HttpServer(uvicorn.Server):
    """uvicorn with our way of leaving, and the sweep over connections that wait. Starts and stops a gateway that was not
    started before."""

    def __init__(
        self,
        gateway: Gateway,
        config: Config,
        *,
        alone: bool = False,
        app: App | None = None,
        plain: bool = False,
        processes: ProcessTable | None = None,
    ) -> None:
        """`alone`: this process serves nothing but the gateway. `app` is served in place of the gateway's; `plain`: without TLS,
        whatever the settings say. How it goes is written to `processes`. Raises ConfigError for a certificate that
        cannot be loaded."""
        settings = config.server
        self._settings, self._contexts = config, None if plain else contexts_of(config)
        self._proxied = config.proxies.protocol and app is None
        self._processes, self._began = processes, gateway.services.clock.time()
        self._keeping_certificates: asyncio.Task[None] | None = None
        self._alone = alone
        self._trimming = Trimming(settings.trim_bytes)
        self._trimmed: asyncio.Future[None] | None = None
        self._most = connections_within(settings.connections, open_files(), settings.spare_files)
        self._warned, self._nearly_all = False, settings.connections_warning
        self._settling = Settling()
        app = gateway.asgi() if app is None else app
        super().__init__(
            uvicorn.Config(
                app,
                http=_http_protocol(gateway, config, app, self._most),
                ws=_socket_protocol(gateway, config),
                ws_ping_interval=config.responses.socket_ping_s,
                ws_ping_timeout=config.responses.socket_ping_s,
                ws_per_message_deflate=False,
                loop="none",
                lifespan="off" if gateway.started else "on",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=True,
                proxy_headers=False,
                backlog=settings.backlog,
                timeout_keep_alive=int(settings.keep_alive_s),
                timeout_graceful_shutdown=1,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_unplanned)
        self._gateway = gateway
        self._drain_seconds = settings.drain_s
        self._deadline: float | None = None
        self._retired_until: float | None = None
        self._listeners: list[socket.socket] = []
        self._plain = True
        self._taking: list[asyncio.Task[None]] = []
        self.on_hangup: Callable[[], None] | None = None  # called with SIGHUP, where there is no supervisor

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; a listener that speaks TLS, or that proxies pass connections to, is not left to the event loop."""
        self._listeners = list(sockets or ())
        for each in self._listeners:
            send_at_once(each)
        self._plain = self._contexts is None and not self._proxied
        unix = any(each.family == socket.AF_UNIX for each in sockets or ())  # which uvloop takes from us one by one
        if sockets is None or (self._contexts is None and not self._proxied and not unix):
            await super().startup(sockets)
            return
        await super().startup([])
        if self._contexts is not None:
            self._keeping_certificates = asyncio.create_task(self._keep_certificates(), name="beside Contexts")
        for each in sockets:
            taking = accepting(self._settings, self._contexts, each, self._protocol, proxied=self._proxied)
            taking.start()
            self.servers.append(cast("asyncio.Server", taking))

    async def _keep_certificates(self) -> None:
        """Look at the files of certificates again and again."""
        while True:
            await asyncio.sleep(self._settings.tls.reload_s)
            await self._look_at_certificates()

    async def _look_at_certificates(self) -> None:
        """Take up changed files. Connections whose client has shown a certificate end with their current request then, since it
        may be revoked now; the client begins another."""
        if self._contexts is None or not await self._contexts.look() or not self._contexts.asks_clients:
            return
        for connection in list(self.server_state.connections):
            if (
                isinstance(connection, BoundedHttpProtocol | BoundedWebSocketProtocol)
                and connection.certificate is not None
            ):
                connection.shutdown()

    def _protocol(self, client: ProxiedClient | None) -> asyncio.Protocol:
        """The protocol of a new connection, whose `client` a proxy has named."""
        made: BoundedHttpProtocol = cast("Any", self.config.http_protocol_class)(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        made.proxied = client
        return made

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._keeping_certificates is not None:
            self._keeping_certificates.cancel()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if sys.platform == "win32":  # where a loop takes no signals
            with super().capture_signals():
                yield
            return
        loop = asyncio.get_running_loop()
        supervisor = multiprocessing.parent_process()
        # One of several processes ignores SIGINT, and goes on to.
        numbers = [
            each
            for each in (signal.SIGTERM, signal.SIGINT)
            if supervisor is None or signal.getsignal(each) is not signal.SIG_IGN
        ]
        for number in numbers:
            loop.add_signal_handler(number, self._asked_to_leave)
        if supervisor is not None:
            # Readable once it is gone, however it went: nobody would pass the word to leave on, or give up the port.
            loop.add_reader(supervisor.sentinel, self._orphaned, supervisor.sentinel)
        else:
            loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        try:
            yield
        finally:
            if supervisor is not None:
                loop.remove_reader(supervisor.sentinel)
            else:
                loop.remove_signal_handler(signal.SIGHUP)
            for number in numbers:
                loop.remove_signal_handler(number)

    def _hung_up(self) -> None:
        if self.on_hangup is not None:
            self.on_hangup()

    def _orphaned(self, sentinel: int) -> None:
        asyncio.get_running_loop().remove_reader(sentinel)
        log.error("the supervisor is gone")
        if self._deadline is None:
            self._asked_to_leave()

    def _asked_to_leave(self) -> None:
        if self._deadline is not None:
            self.should_exit = self.force_exit = True
            return
        notice, life = self._settings.server.notice_s, self._gateway.services.life
        if notice and self._alone and not life.retiring:
            life.retiring = True
            self._retired_until = time.monotonic() + notice
            log.info("leaving, with notice: %d request(s) in flight", self._gateway.in_flight)
            self._leave_listeners()
            return
        log.info("leaving: %d request(s) in flight", self._gateway.in_flight)
        self._gateway.drain()
        self._deadline = time.monotonic() + self._drain_seconds

    def _leave_listeners(self) -> None:
        """Take no more connections in any process, beginning with those that wait to be taken, which are served."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            while self._plain and (taken := _waiting_connection(listener)) is not None:
                self._taking.append(loop.create_task(self._take(taken)))
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # else the system would go on for the others that have it
        for server in self.servers:
            server.close()
        cast("Any", self.config.http_protocol_class).retiring = True

    async def _take(self, taken: socket.socket) -> None:
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self._protocol(None), taken)

    async def main_loop(self) -> None:
        """uvicorn's loop; between two sweeps only `should_exit` is checked."""
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            await asyncio.sleep(TICK_SECONDS)
            while counter % SWEEP_TICKS and not self.should_exit and self._deadline is None:
                counter += 1
                await asyncio.sleep(TICK_SECONDS)

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedHttpProtocol | BoundedWebSocketProtocol):
                    connection.check(now)
            self._warn_of_connections()
            self._tell_processes()
            if self._alone:
                self._settle_models()
                self._return_memory()
            if self._gateway.services.life.retiring:
                self._retire()
        if self._deadline is not None and not self.should_exit:
            in_flight = self._gateway.in_flight
            self.should_exit = not in_flight or time.monotonic() > self._deadline
            if self.should_exit and in_flight:
                log.warning("%d request(s) have not finished in %g s and are ended", in_flight, self._drain_seconds)
        return await super().on_tick(counter)

    def _retire(self) -> None:
        """Take no more connections, since another process does, and leave once the last one is closed: each when its next answer
        is out, or when it has been idle for as long as any may be. WebSockets on which nothing is answered keep nobody."""
        if self._retired_until is None:
            self._retired_until = time.monotonic() + self._settings.server.retire_s
            log.info("another process takes over: %d request(s) in flight", self._gateway.in_flight)
            for server in self.servers:
                server.close()
            cast("Any", self.config.http_protocol_class).retiring = True
        if not self._alone or self._deadline is not None:
            return
        left = list(self.server_state.connections)
        if not self._gateway.in_flight and all(isinstance(each, BoundedWebSocketProtocol) for each in left):
            self.should_exit = True
        elif time.monotonic() > self._retired_until:
            self._asked_to_leave()

    def _settle_models(self) -> None:
        """Exclude loaded models from garbage collection, since they stay."""
        loaded = frozenset(id(each.tokenizer) for each in self._gateway.models.values())
        self._settling.look(loaded, busy=bool(self._gateway.in_flight))

    def _return_memory(self) -> None:
        """Have what requests needed and no longer do returned to the system, in a thread."""
        now = time.monotonic()
        if (self._trimmed is None or self._trimmed.done()) and self._trimming.due(now):
            self._trimmed = asyncio.get_running_loop().run_in_executor(None, self._trimming.run, now)

    def _tell_processes(self) -> None:
        """Say how this process is, for all to read."""
        if self._processes is None:
            return
        gateway = self._gateway
        state = ProcessState(
            pid=os.getpid(),
            started_at=int(self._began * 1000),
            seen_at=int(gateway.services.clock.time() * 1000),
            ready=int(gateway.registry.any_ready),
            draining=int(gateway.services.admission.draining or gateway.services.life.retiring),
            in_flight=gateway.in_flight,
            connections=len(self.server_state.connections),
        )
        self._processes.write(state)

    def _warn_of_connections(self) -> None:
        """Log once that connections run out, and again only after there were fewer."""
        nearly = len(self.server_state.connections) >= self._most * self._nearly_all
        if nearly and not self._warned:
            open_now = len(self.server_state.connections)
            log.warning("%d of %d connections are open; more than that are answered 503", open_now, self._most)
        self._warned = nearly


def _pace(config: Config) -> Pace:
    settings = config.server
    return Pace(settings.header_timeout_s, settings.body_timeout_s, settings.body_bytes_per_s)


def _http_protocol(gateway: Gateway, config: Config, app: App, most: int) -> type[BoundedHttpProtocol]:
    """The HTTP protocol of `app` with the bounds of the settings, for at most so many connections."""
    settings = config.server
    return protocol_class(
        settings.header_bytes,
        settings.header_timeout_s,
        _pace(config),
        header_lines=settings.header_lines,
        write_seconds=config.timeouts.write_s,
        most_connections=most,
        refused_seconds=settings.refused_s,
        discard_bytes=settings.discard_bytes,
        refusals=Refusals(
            gateway.services.observer,
            gateway.services.ids,
            gateway.services.request_ids.header("")[0],
            gateway.services.apis.envelopes,
        ),
        socket_paths=_socket_paths(app),
    )


def _socket_protocol(gateway: Gateway, config: Config) -> type[BoundedWebSocketProtocol]:
    """The protocol of WebSockets with the bounds of the settings."""
    bounds = SocketBounds(
        message_bytes=config.responses.socket_frame_bytes,
        pace=_pace(config),
        write_seconds=config.timeouts.write_s,
        discard_bytes=config.server.discard_bytes,
        bodies=gateway.services.admission.bodies,
    )
    return socket_protocol_class(bounds)


def _socket_paths(app: App) -> frozenset[str]:
    return frozenset(route.pattern for route in app.routes if route.method == WEBSOCKET)


def connections_within(wanted: int, files: int, spare: int) -> int:
    """How many connections a process may have if it may open `files` files (below 0: any number), `spare` of them reserved."""
    return wanted if files < 0 else max(1, min(wanted, files - spare, files * 9 // 10))


def open_files() -> int:
    """How many files the process may open; below 0 for any number."""
    if sys.platform == "win32":
        return -1
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
