"""Looks at the gateway at an interval, for what gauges show (edge).

Decides nothing: what is seen is a moment like others, and which metrics are made of it is in their table. Above:
server.observing. Below: the runtime, the table of processes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from smg_core.hooks import ProcessSampled, WorkerSampled
from smg_core.server.processes import ProcessTable
from smg_core.server.runtime import Runtime

__all__ = ["sample", "sampled_beside"]


def sample(gateway: Runtime, processes: ProcessTable) -> ProcessSampled:
    """How this process is now."""
    workers = [WorkerSampled(each.name, each.state, each.in_flight, each.queued) for each in gateway.registry]
    return ProcessSampled(
        connections=processes.mine.connections,
        in_flight=gateway.in_flight,
        waiting=gateway.executor.waiting,
        models=len(gateway.models),
        workers=tuple(workers),
    )


@contextlib.asynccontextmanager
async def sampled_beside(gateway: Runtime, processes: ProcessTable, seconds: float) -> AsyncIterator[None]:
    """A context in which it is reported how this process is, every so many seconds."""
    sampling = asyncio.create_task(_sampled(gateway, processes, seconds), name="metrics sampling")
    try:
        yield
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)


async def _sampled(gateway: Runtime, processes: ProcessTable, seconds: float) -> None:
    while True:
        gateway.observer.report(sample(gateway, processes))
        await asyncio.sleep(seconds)
