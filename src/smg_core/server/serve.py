"""The reference server: one process, or several that share a port (edge).

Decides how a gateway leaves: on SIGTERM it takes nothing new (503 with Retry-After, readiness included), lets what is in
flight finish for at most `drain_s` seconds, and goes; a second signal ends it at once. With several processes a supervisor
holds the listening socket, so a process that dies loses no connection that waits to be accepted, and starts another in its
place; when the supervisor dies, the processes exit once their streams have finished. Requests in flight are counted in shared
memory, a column a process, so every process routes by the requests of all.
"""

import asyncio
import contextlib
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
from typing import Any

import attrs

from smg_core.config import Config
from smg_core.errors import SmgError
from smg_core.observability.logs import configure
from smg_core.server.announcing import announce
from smg_core.server.config_check import check
from smg_core.server.gateway import Gateway
from smg_core.server.http_server import HttpServer, connections_within
from smg_core.server.identity import unshared_keys
from smg_core.server.keeping import with_state_file
from smg_core.server.listeners import Listeners, open_listeners, tell_listeners
from smg_core.server.memory import use_one_arena
from smg_core.server.metrics.meter import metrics_bytes
from smg_core.server.observing import ProcessReports
from smg_core.server.processes import SharedNumbers
from smg_core.server.sealing_keys import with_cache_secret

__all__ = ["serve"]

log = logging.getLogger("smg.server")

SPEAKER = "smg-serve-0"  # name of the process that tells the operator for all
CANNOT_START = 3  # exit status of a process that would only fail again


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
            return 1 if _run(config, listeners, _shared(config, 1, _local_array), 0, patience=0.0) else 0
        return _Supervisor(config, listeners, processes).run()
    finally:
        listeners.close(config)


def _shared(config: Config, processes: int, array: Callable[[str, int], Any]) -> SharedNumbers:
    """The numbers that so many processes share."""
    return SharedNumbers.made(processes, config.workers.most, metrics_bytes(config.metrics, processes), array)


def _local_array(kind: str, length: int) -> "array[int]":
    """Numbers of one process, all zero."""
    return array(kind, bytes(array(kind).itemsize * length))


def _run(config: Config, listeners: Listeners, shared: SharedNumbers, column: int, *, patience: float) -> int:
    """One process's life, with the listeners that it has. It takes no connection before a worker is ready, for at most `patience`
    seconds: meanwhile the other processes do."""
    use_one_arena()
    _raise_file_limit(config.server.connections, config.server.spare_files)
    observing = ProcessReports(config, shared, column)
    gateway = Gateway(config=config, board=shared.counts(column), observer=observing.observer)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_live(gateway, config, listeners, observing, patience))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed; it is not available on every system."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _live(
    gateway: Gateway, config: Config, listeners: Listeners, observing: ProcessReports, patience: float
) -> int:
    try:
        await gateway.start()
    except (SmgError, OSError, LookupError, ValueError) as error:
        log.critical("the gateway cannot start: %s", error)
        await gateway.stop()
        return CANNOT_START
    try:
        async with _announced(gateway, config, listeners), observing.beside(gateway, listeners):
            if not await _waited(gateway, config.server.wait_for_workers_s, patience):
                return CANNOT_START
            server = HttpServer(gateway, config, alone=True, processes=observing.processes)
            await server.serve(sockets=[listeners.public])
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
        self._shared = _shared(config, processes, self._context.RawArray)
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
        self._shared.clear(column)
        listeners = self._listeners.for_process(column)
        child = self._context.Process(
            target=_child,
            args=(self._config, listeners, self._shared, column),
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


def _child(config: Config, listeners: Listeners, shared: SharedNumbers, column: int) -> None:
    """Entry of a spawned process."""
    configure(config.observability.log_level, config.observability.log_format)
    raise SystemExit(_run(config, listeners, shared, column, patience=config.server.first_wait_s))
