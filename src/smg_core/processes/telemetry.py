"""The reports of a serving process about itself: its log of requests, its metrics, its admin door (edge).

Decides which observers a gateway has by the settings, and what runs beside it for those who run it. Above: processes.serve.
Below: the access log, the metrics, the admin door.
"""

import contextlib
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any

import attrs

from smg_core.admin.metrics.meter import Meter, forget_gauges, metrics_bytes
from smg_core.admin.metrics.sampling import background_sampling
from smg_core.admin.metrics.serving import metrics_app
from smg_core.clock import SystemClock
from smg_core.config.config import Config
from smg_core.gateway.gateway import Gateway
from smg_core.gateway.limits import counters_block, forget_process, meshed_block
from smg_core.hooks import Observer, SilentObserver, fan_out
from smg_core.machine.loop_watch import LoopWatch
from smg_core.observability.line_writer import LineWriter
from smg_core.observability.logs import AccessLog, as_logged, written_by
from smg_core.operation.config_source import ConfigSource
from smg_core.operation.control import Control
from smg_core.operation.process_table import ProcessTable, SharedNumbers
from smg_core.processes.sighup import managed
from smg_core.server.admin_server import administered
from smg_core.server.http_server import HttpServer
from smg_core.server.listeners import Listeners
from smg_core.server.second_listener import background_listener

__all__ = ["ProcessReports", "end_column", "log_writer", "shared_numbers"]


def shared_numbers(
    config: Config,
    processes: int,
    array: Callable[[str, int], Any],
    lock: AbstractContextManager[object] | None = None,
) -> SharedNumbers:
    """The numbers that so many processes share; `array` makes an array of a type and length, all zero. `lock` is one between
    these processes; a single process needs none."""
    numbers = SharedNumbers.made(
        processes, config.workers.most, metrics_bytes(config.metrics, processes), array, lock, config.breaker.shared
    )
    if processes == 1:
        return numbers
    limits = counters_block(config.limits.counters, processes)
    meshed = meshed_block(config) if limits is not None else None
    return attrs.evolve(numbers, limits=limits, meshed=meshed, media=secrets.token_hex(16))


def end_column(config: Config, shared: SharedNumbers, column: int) -> None:
    """Forget how the process of a column was that has ended; its counts stay."""
    shared.clear(column)
    if shared.limits is not None:
        forget_process(shared.limits, column, shared.processes)
    if config.metrics.on:
        forget_gauges(config.metrics, shared.metrics_memory(), shared.processes, column)


@contextlib.contextmanager
def log_writer(config: Config) -> Iterator[LineWriter]:
    """A context in which a thread writes the log of this process: whoever logs waits for nobody that reads standard error."""
    observability = config.observability
    dropped = partial(as_logged, "smg.access")
    writer = LineWriter(sys.stderr.fileno(), observability.access_flush_s, observability.access_bytes, dropped)
    with written_by(writer):
        yield writer


class ProcessReports:
    """The observers of one process, and what runs beside its gateway; `control` changes it then. `shared` is what the
    processes share, of which this one has column `own`; `source` says where the settings came from; `writer` writes its log."""

    def __init__(
        self, config: Config, shared: SharedNumbers, own: int, writer: LineWriter, source: ConfigSource | None = None
    ) -> None:
        self._config, self._source = config, source
        self.processes: ProcessTable = shared.table(own)
        self.meter: Meter | None = None
        self.control: Control | None = None
        self._writer = writer
        if config.metrics.on:
            clock, memory = SystemClock(), shared.metrics_memory()
            self.meter = Meter(config.metrics, clock, memory, processes=shared.processes, own=own)

    @property
    def observer(self) -> Observer:
        """The observer of the gateway."""
        return fan_out(
            self._access_log(),
            self.meter.recorder if self.meter is not None else SilentObserver(),
        )

    def _access_log(self) -> Observer:
        """The access log, where it is wanted."""
        if not self._config.server.access_log:
            return SilentObserver()
        return AccessLog(self._writer, self._config.observability.log_format)

    def managed(self, server: HttpServer) -> AbstractAsyncContextManager[None]:
        """A context in which the manager of services is told how the single process is, and SIGHUP has it read its settings
        again."""
        return managed(server, self.control)

    def close(self) -> None:
        """Record what is left of the metrics. Called when the process ends."""
        if self.meter is not None:
            self.meter.recorder.flush()

    @contextlib.asynccontextmanager
    async def opened(self, gateway: Gateway, listeners: Listeners) -> AsyncIterator[None]:
        """A context in which the gateway is looked at, and can be asked by those who run it."""
        config, meter = self._config, self.meter
        async with contextlib.AsyncExitStack() as stack:
            watch = LoopWatch(gateway.services.clock, gateway.services.call_later, config.observability)
            watch.start()
            stack.callback(watch.stop)
            if meter is not None:
                await stack.enter_async_context(meter.gathering())
                await stack.enter_async_context(
                    background_sampling(gateway.services, self.processes, watch, config.metrics.sample_s)
                )
            if meter is not None and listeners.metrics is not None:
                app = metrics_app(gateway, meter, config)
                await stack.enter_async_context(
                    background_listener(gateway, config, listeners.metrics, app, "metrics", plain=True)
                )
            control = self.control = Control(gateway, self.processes, self._source)
            stack.callback(control.close)
            await stack.enter_async_context(
                administered(gateway, config, listeners.admin, self.processes, meter, control)
            )
            yield
