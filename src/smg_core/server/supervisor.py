"""The supervisor of several processes: holds the listeners, starts the processes, replaces those that die (edge).

What the processes tell each other passes through it (`channel`). When it dies, the processes exit once their streams have
finished. Above: server.serve. Below: the listeners, the numbers and the channel that the processes share.
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import attrs

from smg_core.config import Config
from smg_core.server.channel.relaying import Relaying
from smg_core.server.listeners import Listeners
from smg_core.server.processes import SharedNumbers
from smg_core.server.sealing_keys import with_cache_secret

__all__ = ["CANNOT_START", "SPEAKER", "Supervisor"]

log = logging.getLogger("smg.server")

SPEAKER = "smg-serve-0"  # name of the process that tells the operator for all
CANNOT_START = 3  # exit status of a process that would only fail again


class Supervisor:
    """Starts the processes, replaces those that die, and passes on the signal to leave. `shared` makes the numbers that they
    share, with arrays in memory that they share; `entry` is what a process runs."""

    def __init__(
        self,
        config: Config,
        listeners: Listeners,
        shared: Callable[[Callable[[str, int], Any]], SharedNumbers],
        entry: Callable[..., None],
    ) -> None:
        self._config = attrs.evolve(config, sealing=with_cache_secret(config.sealing))
        self._listeners = listeners
        self._context = multiprocessing.get_context("spawn")
        self._shared = shared(self._context.RawArray)
        self._entry = entry
        self._relaying = Relaying(config.channel)
        self._started = 0
        self._children: list[BaseProcess] = []
        self._leaving = False
        self._told: set[int] = set()
        self._status = 0

    def run(self) -> int:
        """Supervise until told to leave; the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        self._children = [self._start(column) for column in range(self._shared.processes)]
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
        self._relaying.close()
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
        self._started += 1
        channel = self._relaying.add(self._started)
        child = self._context.Process(
            target=self._entry,
            args=(self._config, self._listeners.for_process(column), self._shared, column, channel),
            daemon=False,
            name=SPEAKER if column == 0 else None,
        )
        child.start()
        channel.close()
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
