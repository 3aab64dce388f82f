"""Runs the embedded engine until a signal ends it (edge). Above: the command line. Below: server."""

import asyncio
import signal
from collections.abc import Callable

from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

__all__ = ["run_simulator"]


async def run_simulator(
    config: SimulatorConfig,
    listen: str = "127.0.0.1:0",
    *,
    listen_http: str | None = None,
    ready: Callable[[SimulatedEngine], None] | None = None,
) -> None:
    """Serve, over HTTP too at `listen_http`, until SIGINT or SIGTERM. Calls in flight then have 5 seconds to finish. `ready` is
    called once it listens."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    engine = SimulatedEngine(
        config, listen, http_server=None if listen_http is None else engine_http_server(listen_http)
    )
    await engine.start()
    if ready is not None:
        ready(engine)
    await stop.wait()
    await engine.stop(grace=5.0)
