"""The metrics of one process: the memory of their series, the observer that writes it, and the text that scrapers get (edge).

Decides that a text is made in a thread, one at a time, and that others get their turn between its pieces: a scrape of many series
takes milliseconds. Above: processes.telemetry, the routes. Below: observability.metrics.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from smg_core.clock import Clock
from smg_core.observability.metrics.exposition import Exposition
from smg_core.observability.metrics.metric import Metric
from smg_core.observability.metrics.recording import MetricsRecorder, with_tenant
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.smg_names import SMG_METRICS
from smg_core.observability.metrics.table import METRICS
from smg_core.observability.settings import MetricsConfig

__all__ = ["Meter", "forget_gauges", "metrics_bytes", "metrics_of"]


def metrics_of(settings: MetricsConfig) -> tuple[Metric, ...]:
    """The metrics under the names that the settings want."""
    table = METRICS if settings.names == "own" else SMG_METRICS
    return with_tenant(table) if settings.tenants else table


def metrics_bytes(settings: MetricsConfig, processes: int) -> int:
    """The memory that the metrics of so many processes need, in bytes; 0 where none are recorded."""
    return SeriesTable.size(settings.series, processes) if settings.on else 0


def forget_gauges(settings: MetricsConfig, memory: memoryview, processes: int, column: int) -> None:
    """Forget the gauges of a process that has ended, in the memory of all; its counts stay."""
    SeriesTable(metrics_of(settings), memory, series=settings.series, columns=processes, own=column)


class Meter:
    """`memory` is that of all processes; this one has place `own` among `processes`. `recorder` is the observer."""

    def __init__(
        self, settings: MetricsConfig, clock: Clock, memory: memoryview, *, processes: int = 1, own: int = 0
    ) -> None:
        table = SeriesTable(metrics_of(settings), memory, series=settings.series, columns=processes, own=own)
        self.recorder = MetricsRecorder(table, clock.time, settings.tenants, settings.batch)
        self._gather_s = settings.gather_s
        self._exposition = Exposition(table)
        self._lock = asyncio.Lock()  # held while a text is made

    @contextlib.asynccontextmanager
    async def gathering(self) -> AsyncIterator[None]:
        """A context in which what was gathered is recorded at an interval."""
        recording = asyncio.create_task(self._record_gathered(), name="metrics recording")
        try:
            yield
        finally:
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
            self.recorder.flush()

    async def _record_gathered(self) -> None:
        while True:
            await asyncio.sleep(self._gather_s)
            self.recorder.flush()

    async def text(self, content_type: str) -> bytes:
        """All series of all processes, in the format of `content_type`."""
        async with self._lock:
            self.recorder.flush()
            return await asyncio.to_thread(self._text, content_type)

    def _text(self, content_type: str) -> bytes:
        found: list[bytes] = []
        for piece in self._exposition.pieces(content_type):
            found.append(piece)
            time.sleep(0)  # lets the thread of the event loop run
        return b"".join(found)
