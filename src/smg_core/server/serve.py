"""The reference server: one process, or several that share a port (edge).

Decides how a gateway leaves: on SIGTERM it takes nothing new (503 with Retry-After, readiness included), lets what is in
flight finish for at most `drain_s` seconds, and goes; a second signal ends it at once. With several processes a supervisor
holds the listening socket, so a process that dies loses no connection that waits to be accepted, and starts another in its
place; when the supervisor dies, the processes exit once their streams have finished. Requests in flight are counted in shared
memory, a column a process, so every process routes by the requests of all.
"""

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

import uvicorn

from smg_core.config import Config
from smg_core.errors import SmgError
from smg_core.hooks import SilentObserver
from smg_core.observability.logs import AccessLog, configure
from smg_core.server.announcing import announce
from smg_core.server.app import App
from smg_core.server.browsers import is_loopback
from smg_core.server.gateway import Gateway
from smg_core.server.http_protocol import BoundedHttpProtocol, protocol_class
from smg_core.server.identity import is_open
from smg_core.server.keeping import with_state_file
from smg_core.server.memory import settle_objects, use_one_arena
from smg_core.server.routes import WEBSOCKET
from smg_core.server.socket_protocol import BoundedWebSocketProtocol, socket_protocol_class
from smg_core.workers.worker import Board, LocalBoard

__all__ = ["HttpServer", "SharedBoard", "serve"]

log = logging.getLogger("smg.server")

TICK_SECONDS = 0.1  # between two looks at whether the server is to leave
SWEEP_TICKS = 5  # deadlines are looked at every so many ticks
SPEAKER = "smg-serve-0"  # name of the process that tells the operator for all
CANNOT_START = 3  # exit status of a process that would only fail again


class SharedBoard:
    """Requests in flight by worker, summed over all processes; each writes only its own column, so nothing is locked."""

    def __init__(self, cells: "ctypes.Array[ctypes.c_int32]", processes: int, column: int) -> None:
        self._cells = cells
        self._processes = processes
        self._column = column

    def add(self, row: int, change: int) -> None:
        self._cells[row * self._processes + self._column] += change

    def total(self, row: int) -> int:
        start = row * self._processes
        return sum(self._cells[start : start + self._processes])

    def clear(self) -> None:
        """Forget this column: its process is gone, and its requests with it."""
        for row in range(len(self._cells) // self._processes):
            self._cells[row * self._processes + self._column] = 0


def serve(config: Config) -> int:
    """Serve until told to stop; the exit status."""
    configure(config.observability.log_level, config.observability.log_format)
    try:
        config = with_state_file(config, os.environ)
    except OSError as error:
        log.critical("there is no place for the history (--history memory: needs none): %s", error)
        return 1
    try:
        listener = _listen(config)
    except OSError as error:
        log.critical("cannot listen on %s port %d: %s", config.server.host, config.server.port, error.strerror or error)
        return 1
    processes = config.server.processes or os.cpu_count() or 1
    host, port = listener.getsockname()[:2]
    if not is_loopback(config.server.host) and is_open(config.auth):
        log.warning(
            "listening on %s without asking who sends a request: whoever reaches it may use it", config.server.host
        )
    log.info(
        "listening on http://%s:%d with %s", host, port, "1 process" if processes == 1 else f"{processes} processes"
    )
    if processes == 1:
        return 1 if _run(config, listener, LocalBoard(), patience=0.0) else 0
    return _Supervisor(config, listener, processes).run()


def _listen(config: Config) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.server.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((config.server.host, config.server.port))
    listener.listen(config.server.backlog)
    listener.setblocking(False)
    return listener


def _run(config: Config, listener: socket.socket, board: Board, *, patience: float) -> int:
    """One process's life. It takes no connection before a worker is ready, for at most `patience` seconds: meanwhile the
    other processes do."""
    use_one_arena()
    _raise_file_limit(config.server.connections, config.server.spare_files)
    gateway = Gateway(
        config=config, board=board, observer=AccessLog() if config.server.access_log else SilentObserver()
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_live(gateway, config, listener, patience))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed; it is not available on every system."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _live(gateway: Gateway, config: Config, listener: socket.socket, patience: float) -> int:
    try:
        await gateway.start()
    except (SmgError, OSError, LookupError, ValueError) as error:
        log.critical("the gateway cannot start: %s", error)
        await gateway.stop()
        return CANNOT_START
    try:
        async with _announced(gateway, config, listener):
            if not await _waited(gateway, config.server.wait_for_workers_s, patience):
                return CANNOT_START
            await HttpServer(gateway, config, alone=True).serve(sockets=[listener])
    finally:
        await gateway.stop()
    return 0


@contextlib.asynccontextmanager
async def _announced(gateway: Gateway, config: Config, listener: socket.socket) -> AsyncIterator[None]:
    """A context in which the first of several processes tells the operator when workers join."""
    child = multiprocessing.parent_process() is not None
    if child and multiprocessing.current_process().name != SPEAKER:
        yield
        return
    base = f"http://{_named(*listener.getsockname()[:2])}"
    telling = asyncio.create_task(announce(gateway, base, config.server.reminder_s))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


def _named(host: str, port: int) -> str:
    """Host and port as a URL has them; for a server that listens everywhere, the loopback, where it can be tried."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (compared, not listened on)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _waited(gateway: Gateway, wanted: float, patience: float) -> bool:
    """Wait for a worker; False when the operator wants one within `wanted` seconds (0: does not) and none has come."""
    try:
        if wanted or patience:
            await gateway.ready(wanted or patience)
    except TimeoutError:
        if wanted:
            log.critical("no worker has joined within %g s: %s", wanted, gateway.registry.missing())
            return False
    return True


def _unplanned(record: logging.LogRecord) -> bool:
    """A log filter: False for uvicorn's line about requests that were ended after `drain_s`, since we log that ourselves."""
    return not record.getMessage().startswith("Cancel ")


class HttpServer(uvicorn.Server):
    """uvicorn with our way of leaving, and the sweep over connections that wait. Starts and stops a gateway that was not
    started before."""

    def __init__(self, gateway: Gateway, config: Config, *, alone: bool = False) -> None:
        """`alone`: this process serves nothing but the gateway."""
        settings = config.server
        self._alone = alone
        self._most = connections_within(settings.connections, _files(), settings.spare_files)
        self._warned, self._nearly_all = False, settings.connections_warning
        self._settled: tuple[int, ...] = ()  # which models, by identity
        app = gateway.asgi()
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol_class(
                    settings.header_bytes,
                    settings.header_timeout_s,
                    settings.body_timeout_s,
                    body_rate=settings.body_bytes_per_s,
                    write_seconds=config.timeouts.write_s,
                    most_connections=self._most,
                    refused_seconds=settings.refused_s,
                    discard_bytes=settings.discard_bytes,
                    observer=gateway.observer,
                    socket_paths=_socket_paths(app),
                ),
                ws=socket_protocol_class(config.timeouts.write_s),
                ws_max_size=config.responses.socket_frame_bytes,
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

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if sys.platform == "win32":  # where a loop takes no signals
            with super().capture_signals():
                yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_leave)
        supervisor = multiprocessing.parent_process()
        if supervisor is not None:
            # Readable once it is gone, however it went: nobody would pass the word to leave on, or give up the port.
            loop.add_reader(supervisor.sentinel, self._orphaned, supervisor.sentinel)
        try:
            yield
        finally:
            if supervisor is not None:
                loop.remove_reader(supervisor.sentinel)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def _orphaned(self, sentinel: int) -> None:
        asyncio.get_running_loop().remove_reader(sentinel)
        log.error("the supervisor is gone")
        if self._deadline is None:
            self._asked_to_leave()

    def _asked_to_leave(self) -> None:
        if self._deadline is not None:
            self.should_exit = self.force_exit = True
            return
        log.info("leaving: %d request(s) in flight", self._gateway.in_flight)
        self._gateway.drain()
        self._deadline = time.monotonic() + self._drain_seconds

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
            if self._alone:
                self._settle_models()
        if self._deadline is not None and not self.should_exit:
            in_flight = self._gateway.in_flight
            self.should_exit = not in_flight or time.monotonic() > self._deadline
            if self.should_exit and in_flight:
                log.warning("%d request(s) have not finished in %g s and are ended", in_flight, self._drain_seconds)
        return await super().on_tick(counter)

    def _settle_models(self) -> None:
        """Exclude loaded models from garbage collection, since they stay."""
        models = tuple(map(id, self._gateway.models.values()))
        if models != self._settled:
            self._settled = models
            settle_objects()

    def _warn_of_connections(self) -> None:
        """Log once that connections run out, and again only after there were fewer."""
        nearly = len(self.server_state.connections) >= self._most * self._nearly_all
        if nearly and not self._warned:
            open_now = len(self.server_state.connections)
            log.warning("%d of %d connections are open; more than that are answered 503", open_now, self._most)
        self._warned = nearly


def _socket_paths(app: App) -> frozenset[str]:
    return frozenset(route.pattern for route in app.routes if route.method == WEBSOCKET)


def connections_within(wanted: int, files: int, spare: int) -> int:
    """How many connections a process may have if it may open `files` files (below 0: any number), `spare` of them reserved."""
    return wanted if files < 0 else max(1, min(wanted, files - spare, files * 9 // 10))


def _files() -> int:
    """How many files the process may open; below 0 for any number."""
    if sys.platform == "win32":
        return -1
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _raise_file_limit(wanted: int, spare: int) -> None:
    """Let the process open the files that its connections need, as far as the system lets it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max(wanted + spare, wanted * 10 // 9 + 1)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = connections_within(wanted, soft, spare)
    if possible < wanted:
        log.warning("only %d connections instead of %d: the process may open %d files", possible, wanted, soft)


class _Supervisor:
    """Starts the processes, replaces those that die, and passes on the signal to leave."""

    def __init__(self, config: Config, listener: socket.socket, processes: int) -> None:
        self._config = config
        self._listener = listener
        self._context = multiprocessing.get_context("spawn")
        self._cells = self._context.RawArray(ctypes.c_int32, config.workers.most * processes)
        self._children: list[BaseProcess] = []
        self._count = processes
        self._leaving = False
        self._told: set[int] = set()
        self._status = 0

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        self._children = [self._start(column) for column in range(self._count)]
        while not self._leaving:
            gone = wait([child.sentinel for child in self._children], timeout=1.0)
            for column, child in enumerate(self._children):
                if child.sentinel in gone:
                    self._replace(column, child)
        for child in self._children:
            # One that was being started when the signal came has not heard of it.
            self._tell(child)
            child.join(self._config.server.drain_s + 5.0)
            if child.is_alive():
                child.kill()
        return self._status

    def _replace(self, column: int, child: BaseProcess) -> None:
        child.join()
        if child.exitcode == CANNOT_START:
            self._status = 1
            self._leave()
        elif not self._leaving:
            log.error("process %s ended with %s; starting another", child.pid, child.exitcode)
            time.sleep(self._config.server.restart_s)
        if not self._leaving:
            self._children[column] = self._start(column)

    def _start(self, column: int) -> BaseProcess:
        board = SharedBoard(self._cells, self._count, column)
        board.clear()
        child = self._context.Process(
            target=_child,
            args=(self._config, self._listener, self._cells, self._count, column),
            daemon=False,
            name=SPEAKER if column == 0 else None,
        )
        child.start()
        return child

    def _leave(self, number: int = 0, frame: object = None) -> None:
        """Pass a signal to leave on to the processes. A second signal ends them at once."""
        again, self._leaving = self._leaving, True
        for child in self._children:
            self._tell(child, again=again)

    def _tell(self, child: BaseProcess, *, again: bool = False) -> None:
        if child.pid is not None and child.is_alive() and (again or child.pid not in self._told):
            self._told.add(child.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)


def _child(
    config: Config, listener: socket.socket, cells: "ctypes.Array[ctypes.c_int32]", processes: int, column: int
) -> None:
    """Entry of a spawned process."""
    configure(config.observability.log_level, config.observability.log_format)
    raise SystemExit(_run(config, listener, SharedBoard(cells, processes, column), patience=config.server.first_wait_s))
