"""The reference server: one process, or several that share a port (edge).

Decides how a gateway leaves: on SIGTERM it takes nothing new (503 with Retry-After, readiness included), lets what is in
flight finish for at most `drain_s` seconds, and goes; a second signal ends it at once. With several processes a supervisor
holds the listening socket, so a process that dies loses no connection that waits to be accepted, and starts another in its
place; when the supervisor dies, the processes exit once their streams have finished. Requests in flight are counted in shared
memory, a column a process, so every process routes by the requests of all. On SIGHUP the supervisor replaces the processes one by
one, by the settings as they are then; a process without a supervisor changes what can change live.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial

from smg_core.admin.auditing import audit_fault
from smg_core.apis.rows import PERMISSIONS
from smg_core.channel.local import LocalChannel
from smg_core.channel.member import MemberChannel
from smg_core.config.check import check
from smg_core.config.config import Config
from smg_core.errors import SmgError
from smg_core.gateway.gateway import Gateway
from smg_core.gateway.limits import LimitMemory
from smg_core.identity.identity import unshared_keys
from smg_core.machine.cpus import usable_cpus
from smg_core.machine.memory import use_one_arena
from smg_core.observability.logs import configure
from smg_core.operation.config_source import ConfigSource
from smg_core.operation.process_table import SharedNumbers
from smg_core.operation.startup_log import announce
from smg_core.processes.supervisor import CANNOT_START, SPEAKER, Supervisor
from smg_core.processes.telemetry import ProcessReports, log_writer, shared_numbers
from smg_core.server.http_server import HttpServer, connections_within
from smg_core.server.listeners import Listeners, open_listeners, tell_listeners
from smg_core.settings import ConfigError
from smg_core.stored.default_store import DefaultStore, gateway_name

__all__ = ["serve"]

log = logging.getLogger("smg.server")


def _configure_logs(config: Config) -> None:
    settings = config.observability
    configure(settings.log_level, settings.log_format, words=settings.fault_words)


def serve(
    config: Config,
    source: ConfigSource | None = None,
    reread: Callable[[], Config] | None = None,
    opened: Callable[[Listeners], None] | None = None,
) -> int:
    """Serve until told to stop; the exit status. `source` says where the settings can be read again; `reread` reads them, which a
    supervisor does on SIGHUP; `opened` is told the listeners. Raises ConfigError for settings that could never work."""
    check(config, PERMISSIONS)
    _configure_logs(config)
    if wrong := audit_fault(config.audit):
        log.critical("the gateway cannot start: %s", wrong)
        return 1
    listeners = open_listeners(config)
    if listeners is None:
        return 1
    if opened is not None:
        opened(listeners)
    store = DefaultStore(gateway_name(config), os.environ)
    try:
        return _serve_at(listeners, store, config, source, reread or (lambda: config))
    finally:
        listeners.close(config)
        store.close()


def _serve_at(
    listeners: Listeners,
    store: DefaultStore,
    config: Config,
    source: ConfigSource | None,
    reread: Callable[[], Config],
) -> int:
    """Serve at these listeners, with the history in `store` if the settings name no other place."""
    try:
        config = store.filled_in(config)
    except OSError as error:
        log.critical("there is no place for the history (--history memory: needs none): %s", error)
        return 1
    except ConfigError as error:
        log.critical("the gateway cannot start: %s", error)
        return 1
    processes = config.server.processes or usable_cpus()
    if wrong := unshared_keys(config, processes):
        log.critical("the gateway cannot start: %s", wrong)
        return 1
    tell_listeners(config, listeners, processes)
    if processes == 1 and not config.server.supervised:
        _ignore_hangups()  # until it takes requests
        shared_alone, alone = shared_numbers(config, 1, _local_array), LocalChannel(config.channel)
        return 1 if _run(config, listeners, shared_alone, 0, alone, source, patience=0.0) else 0
    again, entry = partial(_reread, reread, store), partial(_child, source)
    with log_writer(config):
        return Supervisor(config, listeners, processes, partial(shared_numbers, config), entry, again).run()


def _ignore_hangups() -> None:
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the supervisor. A terminal sends it to all processes, and then the supervisor's word would be the second
    one that these hear, which ends a process without its streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # which the supervisor has kept off until now


def _reread(read: Callable[[], Config], store: DefaultStore) -> Config:
    """The settings as they are now. Raises ConfigError and OSError."""
    return store.filled_in(read())


def _local_array(kind: str, length: int) -> "array[int]":
    """Numbers of one process, all zero."""
    return array(kind, bytes(array(kind).itemsize * length))


def _run(
    config: Config,
    listeners: Listeners,
    shared: SharedNumbers,
    column: int,
    channel: LocalChannel | MemberChannel,
    source: ConfigSource | None = None,
    *,
    patience: float,
) -> int:
    """One process's life, with the listeners that it has. It takes no connection before a worker is ready, for at most `patience`
    seconds: meanwhile the other processes do."""
    use_one_arena()
    _raise_file_limit(config.server.connections, config.server.spare_files)
    with log_writer(config) as writer:
        observing = ProcessReports(config, shared, column, writer, source)
        gateway = Gateway(config=config, board=shared.counts(column), observer=observing.observer, channel=channel)
        memory = None
        if shared.limits is not None:
            memory = LimitMemory(shared.limits, column, shared.processes, shared.meshed)
        gateway.share(memory, shared.media)
        return _run_gateway(gateway, config, listeners, observing, channel, patience)


def _run_gateway(
    gateway: Gateway,
    config: Config,
    listeners: Listeners,
    observing: ProcessReports,
    channel: LocalChannel | MemberChannel,
    patience: float,
) -> int:
    if isinstance(channel, MemberChannel):
        gateway.services.leading.become(False)  # until it is told
        channel.on_word = partial(_heed, gateway, observing)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_member(channel, _live(gateway, config, listeners, observing, patience)))
    finally:
        observing.close()


def _heed(gateway: Gateway, observing: ProcessReports, word: str) -> None:
    """Do what the supervisor has said: "lead" and "revise" begin to lead, "revise" as the first of a new generation; "follow" and
    "retire" cease to."""
    if word == "retire":
        gateway.retire()
        return
    gateway.services.leading.become(word != "follow")
    if word == "revise" and observing.control is not None:
        observing.control.revise()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed; it is not available on every system."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _member(channel: LocalChannel | MemberChannel, living: Coroutine[None, None, int]) -> int:
    """Live as one of the processes on the channel, if there are several."""
    if isinstance(channel, LocalChannel):
        return await living
    async with channel:
        return await living


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
        async with _announced(gateway, config, listeners), observing.opened(gateway, listeners):
            if not await _waited(gateway, config.server.wait_for_workers_s, patience):
                return CANNOT_START
            server = HttpServer(gateway, config, alone=True, processes=observing.processes)
            async with _reporting_ready(gateway, server, observing):
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


@contextlib.asynccontextmanager
async def _reporting_ready(gateway: Gateway, server: HttpServer, observing: ProcessReports) -> AsyncIterator[None]:
    """A context in which the process takes requests: one of several says so to the supervisor, a single one to the manager of
    services."""
    if isinstance(gateway.services.channel, MemberChannel):
        gateway.services.channel.say("ready")
        yield
        return
    async with observing.managed(server):
        yield


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


def _child(
    source: ConfigSource | None,
    config: Config,
    listeners: Listeners,
    shared: SharedNumbers,
    column: int,
    channel: socket.socket,
) -> None:
    """Entry of a spawned process."""
    _configure_logs(config)
    _ignore_hangups()  # they are the supervisor's, also where all processes get them
    _ignore_interrupts()
    member = MemberChannel(channel, config.channel)
    raise SystemExit(_run(config, listeners, shared, column, member, source, patience=config.server.first_wait_s))
