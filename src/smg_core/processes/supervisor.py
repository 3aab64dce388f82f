"""The supervisor of several processes: holds the listeners, starts the processes, replaces those that die (edge).

On SIGHUP it reads the settings anew and replaces the processes one by one, as `processes.succession` says: a new one takes
requests before the old one leaves the listener. The processes that were started by one reading are a generation: what was
changed live of the settings before is not for a new one, and stays with the old ones if the new one cannot start. One process
leads, as `processes.leader_election` says. What the processes tell each other passes through the supervisor (`channel`). When
it dies, the processes exit once their streams have finished. A gateway whose first processes cannot start ends; once one has
been ready, one that cannot start is tried again and again, since what keeps it from that may pass, and the others serve
meanwhile. Above: processes.serve. Below: the listeners, the numbers and the channel that the processes share.
"""

import contextlib
import logging
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import attrs

from smg_core.apis.rows import PERMISSIONS
from smg_core.channel.relaying import Relaying
from smg_core.config.check import check
from smg_core.config.config import Config
from smg_core.machine.process_lock import process_lock
from smg_core.machine.service_manager import ManagerNotices
from smg_core.models.sealing_keys import with_cache_secret
from smg_core.operation.control import LIVE_VALUES
from smg_core.operation.process_table import SharedNumbers
from smg_core.processes.leader_election import LEADING, Leadership, ProcessWord
from smg_core.processes.restart_only_settings import with_fixed
from smg_core.processes.succession import Succession
from smg_core.processes.telemetry import end_column
from smg_core.server.listeners import Listeners
from smg_core.settings import ConfigError

__all__ = ["CANNOT_START", "SPEAKER", "Supervisor"]

log = logging.getLogger("smg.server")

SPEAKER = "smg-serve-0"  # name of the process that tells the operator for all
CANNOT_START = 3  # exit status of a process that would only fail again
LONGEST_WAIT = 1.0  # seconds


@attrs.frozen
class _Run:
    """Settings that processes run by, as they were read at one time, and the number of that reading."""

    config: Config
    generation: int = 0


@attrs.define(eq=False)
class _Child:
    """A process: `number` counts all that were started, `slot` is its place among those that serve, `column` its place in the
    numbers that they share. `run` are the settings it runs by, `began` when it was started (monotonic seconds)."""

    process: BaseProcess
    number: int
    slot: int
    column: int
    run: _Run
    began: float


@attrs.frozen
class _Down:
    """A slot in which no process runs: what the next one is to run by, and when it is started (monotonic seconds)."""

    run: _Run
    due: float


class Supervisor:
    """Starts the processes, replaces them, and passes on the signal to leave. `shared` makes the numbers that so many processes
    share, with arrays in memory that they share and a lock between them; `entry` is what a process runs; `reread` reads the
    settings anew. There is a column for each process and for one that is to succeed it."""

    def __init__(
        self,
        config: Config,
        listeners: Listeners,
        processes: int,
        shared: Callable[[int, Callable[[str, int], Any], AbstractContextManager[object]], SharedNumbers],
        entry: Callable[..., None],
        reread: Callable[[], Config],
    ) -> None:
        self._run = _Run(attrs.evolve(config, sealing=with_cache_secret(config.sealing)))
        self._readings = 0
        self._lost: dict[int, _Run] = {}  # by slot, what a process ran by that ended while its successor was starting
        self._down: dict[int, _Down] = {}  # by slot
        self._has_served = False  # a process was ready at some time
        self._listeners = listeners
        self._context = multiprocessing.get_context("spawn")
        self._shared = shared(2 * processes, self._context.RawArray, process_lock())
        self._entry, self._reread = entry, reread
        self._relaying = Relaying(config.channel)
        self._manager = ManagerNotices()
        self._succession, self._leadership = Succession(processes), Leadership()
        self._children: dict[int, _Child] = {}
        self._leaving = False
        self._hangup = False
        self._asked_to_leave: set[int] = set()
        self._status = 0

    def run(self) -> int:
        """Supervise until told to leave; the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._hung_up)
        for slot in range(self._succession.slots):
            self._start(slot, self._run)
        while not self._leaving:
            self._round()
        self._manager.stopping()
        for child in list(self._children.values()):
            # One that was being started when the signal came has not heard of it.
            self._tell(child.process)
            child.process.join(self._run.config.server.notice_s + self._run.config.server.drain_s + 5.0)
            if child.process.is_alive():
                child.process.kill()
        self._relaying.close()
        return self._status

    def _round(self) -> None:
        """Wait until something happens to a process, for a moment at most, and act on it."""
        due = min((each.due for each in self._down.values()), default=math.inf)
        seconds = min(LONGEST_WAIT, self._manager.pause or LONGEST_WAIT, max(0.0, due - time.monotonic()))
        sentinels = {child.process.sentinel: child for child in self._children.values()}
        gone = wait([*sentinels, self._relaying.heard], timeout=seconds)
        for number, word in self._relaying.words():
            if word == "ready":
                self._ready(number)
        for sentinel in gone:
            if isinstance(sentinel, int) and (child := sentinels.get(sentinel)) is not None:
                self._ended(child)
        if self._hangup:
            self._hangup = False
            self._read_anew()
        self._succeed()
        self._start_again()
        self._manager.alive()

    # ----------------------------------------------------------------------------------------------------- one by one

    def _hung_up(self, number: int, frame: object) -> None:
        self._hangup = True

    def _read_anew(self) -> None:
        """Begin to replace all processes, by the settings as they are now; settings with a mistake change nothing."""
        self._manager.reloading()
        try:
            config = self._reread()
            config, fixed = with_fixed(config, self._run.config)
            check(config, PERMISSIONS)
        except (ConfigError, OSError, ValueError) as error:
            log.critical("the settings stay as they were: %s", error)
            self._manager.ready()
            return
        if fixed:
            log.warning("these settings stay as they are until the gateway is started anew: %s", ", ".join(fixed))
        log.info("replacing the processes one by one")
        runs = [self._run, *self._lost.values(), *(each.run for each in self._down.values())]
        oldest = min(each.generation for each in (*runs, *(child.run for child in self._children.values())))
        self._readings += 1
        self._run = _Run(config, self._readings)
        # What was changed live before is in the file, or is not wanted any more.
        self._relaying.began(self._readings, (LIVE_VALUES,), oldest)
        self._succession.begin()

    def _succeed(self) -> None:
        """Start the next process that is to succeed another, if it is time and there is a column for it."""
        late = self._succession.starting
        if late is not None:
            child = self._children[late]
            if time.monotonic() - child.began > child.run.config.server.replace_s:
                log.error("process %s has not come up in server.replace_s and is ended", child.process.pid)
                child.process.kill()
            return
        slot = self._succession.next_slot(self._down)
        if self._leaving or slot is None:
            return
        down = self._down.get(slot)
        # Each slot in which nothing runs keeps a column for the process that will.
        if down is None and len(self._free_columns()) <= len(self._down):
            return
        if down is not None:
            # By its own settings it may never start: the new ones are tried now, those if they cannot start either.
            self._lost[slot] = self._down.pop(slot).run
        self._succession.started(self._start(slot, self._run, succeeds=True).number)

    def _ready(self, number: int) -> None:
        """A process takes requests now: the one that it succeeds leaves."""
        child = self._children.get(number)
        if child is None:
            return
        self._has_served = True
        succeeds = number == self._succession.starting
        leaving = self._succession.ready(number, child.slot)
        if leaving is not None:
            self._relaying.tell(leaving, "retire")
        if succeeds:
            self._lost.pop(child.slot, None)
        self._say(self._leadership.ready(number, child.slot, leaving, succeeds=succeeds))
        if self._succession.settled:
            self._manager.ready()

    def _ended(self, child: _Child) -> None:
        child.process.join()
        del self._children[child.number]
        end_column(child.run.config, self._shared, child.column)
        role = self._succession.ended(child.number, child.slot)
        self._say(self._leadership.ended(child.number, self._succession.all_serving))
        if role == "retired" or self._leaving:
            return
        if role == "successor":
            log.error("the new process %s ended with %s; the others stay", child.process.pid, child.process.exitcode)
            self._keep_settings(child)
        elif self._is_succeeded(child.slot):
            log.error(
                "process %s ended with %s before its successor was ready", child.process.pid, child.process.exitcode
            )
            self._lost[child.slot] = child.run
        elif child.process.exitcode == CANNOT_START and not self._has_served:
            self._status = 1
            self._leave()
        else:
            pause = child.run.config.server.restart_s
            log.error(
                "process %s ended with %s; starting another in %g s", child.process.pid, child.process.exitcode, pause
            )
            self._down[child.slot] = _Down(child.run, time.monotonic() + pause)

    def _start_again(self) -> None:
        """Start a process in each slot in which none has run for `server.restart_s`. The supervisor does not sleep until then:
        others may come up or end meanwhile."""
        for slot, down in list(self._down.items()):
            if down.due <= time.monotonic() and not self._leaving:
                del self._down[slot]
                self._start(slot, down.run)

    def _is_succeeded(self, slot: int) -> bool:
        """Whether a successor for this slot is starting."""
        starting = self._succession.starting
        return starting is not None and self._children[starting].slot == slot

    def _keep_settings(self, failed: _Child) -> None:
        """A successor could not start: go on with the settings of the processes that serve, or did until now."""
        serving = self._succession.serving(failed.slot)
        before = self._lost.pop(failed.slot, None) if serving is None else self._children[serving].run
        if before is not None and failed.run is self._run:
            self._run = before
        if before is not None and serving is None:
            self._start(failed.slot, before)
        self._manager.ready()

    # ------------------------------------------------------------------------------------------------------ processes

    def _free_columns(self) -> list[int]:
        used = {child.column for child in self._children.values()}
        return [column for column in range(self._shared.processes) if column not in used]

    def _start(self, slot: int, run: _Run, *, succeeds: bool = False) -> _Child:
        """Start a process, which is to replace another where it `succeeds` one."""
        column = self._free_columns()[0]  # each slot has two
        number = self._succession.number()
        channel = self._relaying.add(number, run.generation)
        self._say(self._leadership.started(number, slot, succeeds=succeeds))
        process = self._context.Process(
            target=self._entry,
            args=(run.config, self._listeners.for_process(slot), self._shared, column, channel),
            daemon=False,
            name=SPEAKER if slot == LEADING else None,
        )
        with _no_interrupts():
            process.start()
        channel.close()
        child = self._children[number] = _Child(process, number, slot, column, run, time.monotonic())
        return child

    def _say(self, words: Iterable[ProcessWord]) -> None:
        for number, word in words:
            self._relaying.tell(number, word)

    def _leave(self, number: int = 0, frame: object = None) -> None:
        """Pass a signal to leave on to the processes. A second signal ends them at once."""
        again, self._leaving = self._leaving, True
        for child in list(self._children.values()):
            self._tell(child.process, again=again)

    def _tell(self, child: BaseProcess, *, again: bool = False) -> None:
        if child.pid is not None and child.is_alive() and (again or child.pid not in self._asked_to_leave):
            self._asked_to_leave.add(child.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """A process that is started meanwhile gets no SIGINT before it says that it ignores it. Here the other threads take it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
