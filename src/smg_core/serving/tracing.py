"""The traces of one gateway: the tracer that requests meet, and the thread that sends their spans while it runs; and its log of
faults, whose tracebacks are Python's (edge).

Decides whether there are traces, and loads the OpenTelemetry SDK only then. Above: gateway.assembly. Below:
observability.tracing.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Mapping

from smg_core.clock import Clock
from smg_core.config.config import Config
from smg_core.extras import missing
from smg_core.hooks import Observer, TracesDropped
from smg_core.observability.failures import FailureLog
from smg_core.observability.faults import FaultLog
from smg_core.observability.tracing.requests import SpanQueue, Tracer
from smg_core.observability.tracing.sampling import sampler_of
from smg_core.settings import ConfigError

__all__ = ["Tracing", "logs_of", "tracing_of"]

_SPANS = 8  # of a request, about


class Tracing:
    """`tracer` is for requests; `sending` is a context in which their spans are sent."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        observer: Observer,
        environ: Mapping[str, str],
        operations: Mapping[str, str],
    ) -> None:
        self._operations = operations
        settings = config.traces
        self._config = config
        self._clock = clock
        self._observer = observer
        self._environ = environ
        self._random = random.Random()
        self._queue = SpanQueue(settings.queue, max(1, settings.batch // _SPANS))
        self.tracer = Tracer(
            sampler_of(settings.ratio, settings.trust_clients, environ),
            self._queue,
            clock=clock,
            bits=self._random.getrandbits,
            observer=observer,
            keep=settings.content_characters if settings.content else 0,
            calls=settings.spans,
        )

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """A context in which spans are sent; at its end, what waits is. Raises ConfigError."""
        try:
            from smg_core.observability.tracing import exporting
        except ModuleNotFoundError as error:
            raise ConfigError(missing("traces.endpoint", error, "traces")) from None
        loop, settings = asyncio.get_running_loop(), self._config.traces

        def lost(requests: int, why: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._observer.report, TracesDropped(requests, why))

        def made() -> exporting.SpanSending:
            return exporting.SpanSending(
                settings,
                self._queue,
                exporting.exporter_of(settings, self._environ),
                exporting.resource_of(settings),
                clock=self._clock,
                bits=random.Random().getrandbits,
                on_lost=lost,
                repeats_s=self._config.observability.repeat_s,
                operations=self._operations,
            )

        sending = await asyncio.to_thread(made)
        sending.start()
        try:
            yield
        finally:
            await asyncio.to_thread(sending.stop)


def logs_of(config: Config, clock: Clock) -> tuple[FaultLog, FailureLog]:
    """The log of faults that nobody has foreseen, and that of failures of engines, of a gateway with these settings."""
    return FaultLog("smg.server", clock, config.observability), FailureLog(clock, config.observability)


def tracing_of(config: Config, clock: Clock, observer: Observer, operations: Mapping[str, str]) -> Tracing | None:
    """The traces that the settings ask for; None for none. OTEL_SDK_DISABLED switches them off. Raises ConfigError."""
    if not config.traces.on or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    return Tracing(config, clock, observer, os.environ, operations)
