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
from collections.abc import AsyncIterator, Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

import attrs

from smg_core.config import Config, ConfigError
from smg_core.errors import SmgError
from smg_core.hooks import SilentObserver
from smg_core.observability.logs import AccessLog, configure
from smg_core.server.accepting import contexts_of
from smg_core.server.announcing import announce
from smg_core.server.browsers import is_loopback
from smg_core.server.gateway import Gateway
from smg_core.server.http_server import HttpServer, connections_within
from smg_core.server.identity import is_open, unshared_keys
from smg_core.server.keeping import with_state_file
from smg_core.server.memory import use_one_arena
from smg_core.server.sealing_keys import with_cache_secret
from smg_core.workers.worker import Board, LocalBoard

__all__ = ["SharedBoard", "serve"]

log = logging.getLogger("smg.server")

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
    processes = config.server.processes or os.cpu_count() or 1
    if wrong := unshared_keys(config, processes):
        log.critical("the gateway cannot start: %s", wrong)
        return 1
    try:
        contexts_of(config)
        listener = _listen(config)
    except ConfigError as error:
        log.critical("the gateway cannot start: %s", error)
        return 1
    except OSError as error:
        log.critical("cannot listen on %s port %d: %s", config.server.host, config.server.port, error.strerror or error)
        return 1
    host, port = listener.getsockname()[:2]
    if not is_loopback(config.server.host) and is_open(config):
        log.warning(
            "listening on %s without asking who sends a request: whoever reaches it may use it", config.server.host
        )
    log.info(
        "listening on %s://%s:%d with %s",
        _scheme(config),
        host,
        port,
        "1 process" if processes == 1 else f"{processes} processes",
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
    base = f"{_scheme(config)}://{_named(*listener.getsockname()[:2])}"
    telling = asyncio.create_task(announce(gateway, base, config.server.reminder_s))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


def _scheme(config: Config) -> str:
    return "https" if config.tls.cert else "http"


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
        self._config = attrs.evolve(config, sealing=with_cache_secret(config.sealing))
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
