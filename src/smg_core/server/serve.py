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
import sys
import time
from array import array
from collections.abc import AsyncIterator, Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

import attrs

from smg_core.config import Config
from smg_core.errors import SmgError
from smg_core.hooks import SilentObserver
from smg_core.observability.logs import AccessLog, configure
from smg_core.server.admin.running import administered
from smg_core.server.announcing import announce
from smg_core.server.config_check import check
from smg_core.server.gateway import Gateway
from smg_core.server.http_server import HttpServer, connections_within
from smg_core.server.identity import unshared_keys
from smg_core.server.keeping import with_state_file
from smg_core.server.listeners import Listeners, open_listeners, tell_listeners
from smg_core.server.memory import use_one_arena
from smg_core.server.processes import ProcessTable
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
        self.process = column, processes

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
    """Serve until told to stop; the exit status. Raises ConfigError for settings that could never work."""
    check(config)
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
    listeners = open_listeners(config)
    if listeners is None:
        return 1
    tell_listeners(config, listeners, processes)
    try:
        if processes == 1:
            table = ProcessTable(array("q", bytes(8 * ProcessTable.size(1))))
            return 1 if _run(config, listeners, LocalBoard(), table, patience=0.0) else 0
        return _Supervisor(config, listeners, processes).run()
    finally:
        listeners.close(config)


def _run(
    config: Config,
    listeners: Listeners,
    board: Board,
    table: ProcessTable,
    *,
    patience: float,
) -> int:
    """One process's life, with the listeners that it has. It takes no connection before a worker is ready, for at most `patience`
    seconds: meanwhile the other processes do."""
    use_one_arena()
    _raise_file_limit(config.server.connections, config.server.spare_files)
    gateway = Gateway(
        config=config, board=board, observer=AccessLog() if config.server.access_log else SilentObserver()
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_live(gateway, config, listeners, table, patience))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed; it is not available on every system."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _live(gateway: Gateway, config: Config, listeners: Listeners, table: ProcessTable, patience: float) -> int:
    try:
        await gateway.start()
    except (SmgError, OSError, LookupError, ValueError) as error:
        log.critical("the gateway cannot start: %s", error)
        await gateway.stop()
        return CANNOT_START
    try:
        async with _announced(gateway, config, listeners), administered(gateway, config, listeners.admin, table):
            if not await _waited(gateway, config.server.wait_for_workers_s, patience):
                return CANNOT_START
            await HttpServer(gateway, config, alone=True, processes=table).serve(sockets=[listeners.public])
    finally:
        await gateway.stop()
    return 0


@contextlib.asynccontextmanager
async def _announced(gateway: Gateway, config: Config, listeners: Listeners) -> AsyncIterator[None]:
    """A context in which the first of several processes tells the operator when workers join."""
    child = multiprocessing.parent_process() is not None
    if child and multiprocessing.current_process().name != SPEAKER:
        yield
        return
    telling = asyncio.create_task(announce(gateway, listeners.url(config), config.server.reminder_s))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


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

    def __init__(self, config: Config, listeners: Listeners, processes: int) -> None:
        self._config = attrs.evolve(config, sealing=with_cache_secret(config.sealing))
        self._listeners = listeners
        self._context = multiprocessing.get_context("spawn")
        self._cells = self._context.RawArray(ctypes.c_int32, config.workers.most * processes)
        self._states = self._context.RawArray(ctypes.c_int64, ProcessTable.size(processes))
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
        ProcessTable(self._states, self._count, column).clear()
        listeners = self._listeners.for_process(column)
        child = self._context.Process(
            target=_child,
            args=(self._config, listeners, self._cells, self._states, self._count, column),
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
    config: Config,
    listeners: Listeners,
    cells: "ctypes.Array[ctypes.c_int32]",
    states: "ctypes.Array[ctypes.c_int64]",
    processes: int,
    column: int,
) -> None:
    """Entry of a spawned process."""
    configure(config.observability.log_level, config.observability.log_format)
    board, table = SharedBoard(cells, processes, column), ProcessTable(states, processes, column)
    raise SystemExit(_run(config, listeners, board, table, patience=config.server.first_wait_s))
