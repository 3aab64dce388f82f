"""Looks at the gateway at an interval, for what gauges show (edge).

Decides nothing: what is seen is a moment like others, and which metrics are made of it is in their table. Above:
processes.telemetry. Below: the runtime, the table of processes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from smg_core.hooks import ProcessSampled
from smg_core.machine.loop_watch import LoopHealth, LoopWatch
from smg_core.operation.process_table import ProcessTable
from smg_core.pool_sample import WorkerSampled
from smg_core.serving.services import Services

__all__ = ["background_sampling", "sample"]

_UNWATCHED = LoopHealth()


def sample(services: Services, processes: ProcessTable, loop: LoopHealth = _UNWATCHED) -> ProcessSampled:
    """How this process is now, and how its event loop was lately."""
    workers = [WorkerSampled(each.name, each.state, each.in_flight, each.queued) for each in services.registry]
    return ProcessSampled(
        connections=processes.mine.connections,
        in_flight=services.in_flight,
        waiting=services.running.executor.waiting,
        models=len(services.models),
        workers=tuple(workers),
        lag=loop.lag,
        blocked=loop.blocked,
        collections=loop.collections,
        collecting_s=loop.collecting_s,
        pools=services.registry.pools.sampled(services.registry, services.clock.monotonic()),
    )


@contextlib.asynccontextmanager
async def background_sampling(
    services: Services, processes: ProcessTable, watch: LoopWatch, seconds: float
) -> AsyncIterator[None]:
    """A context in which it is reported how this process is, every so many seconds."""
    sampling = asyncio.create_task(_sampled(services, processes, watch, seconds), name="metrics sampling")
    try:
        yield
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)


async def _sampled(services: Services, processes: ProcessTable, watch: LoopWatch, seconds: float) -> None:
    while True:
        services.observer.report(sample(services, processes, watch.taken()))
        if services.running.mesh is not None:
            services.observer.report(services.running.mesh.sampled)
        await asyncio.sleep(seconds)
