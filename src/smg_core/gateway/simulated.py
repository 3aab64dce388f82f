"""A gateway in front of embedded engines: no GPU and no port, but real gRPC over Unix sockets (edge).

`Gateway.simulated` makes one; `gateway.assembly` knows nothing of it. Its engines start before the gateway's workers are
watched and stop when it stops.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from smg_core.gateway.arguments import GatewayArguments
from smg_core.gateway.gateway import READY_S, Gateway
from smg_core.settings import ConfigError
from smg_core.simulator_package import require_simulator
from smg_core.workers.worker import WorkerSpec

if TYPE_CHECKING:
    from smg_simulator.engine.engine import SimulatorConfig
    from smg_simulator.server.grpc_server import SimulatedEngine

__all__ = ["SimulatedGateway"]


class SimulatedGateway(Gateway):
    """`simulators`: for each engine its configuration, or an engine that is not started yet. The other arguments are `Gateway`'s;
    the workers in its configuration are ignored. Raises ValueError without a simulator, ConfigError without smg_simulator."""

    on_trial = True

    def __init__(
        self, simulators: "list[SimulatorConfig | SimulatedEngine]", **arguments: Unpack[GatewayArguments]
    ) -> None:
        if not simulators:
            raise ValueError("a simulated gateway needs at least one engine")
        require_simulator("a simulated gateway")
        for each in simulators:
            if isinstance(each, dict | str | type):
                raise ConfigError(f"simulator: expected SimulatorConfig(...), not {type(each).__name__}")
        super().__init__(**arguments)
        self._simulators = simulators
        self._engines: list[SimulatedEngine] = []

    @property
    def engines(self) -> "tuple[SimulatedEngine, ...]":
        """The embedded engines of a running gateway, so that tests can inspect and break them."""
        return tuple(self._engines)

    async def ready(self, timeout: float | None = READY_S) -> None:
        """Return once all of its engines are in use or kept from it, and one is ready. Raises TimeoutError as Gateway does."""
        await super().ready(timeout)
        async with asyncio.timeout(timeout):
            await self.services.running.monitor.settled()

    async def _first_workers(self, stack: AsyncExitStack, scratch: Path) -> list[WorkerSpec]:
        from smg_simulator.engine.engine import SimulatorConfig
        from smg_simulator.server.grpc_server import SimulatedEngine

        self._engines.clear()
        specs = []
        for number, simulator in enumerate(self._simulators):
            if isinstance(simulator, SimulatorConfig):
                simulator = SimulatedEngine(simulator, listen=f"unix://{scratch}/{number}.sock")
            engine = await stack.enter_async_context(simulator)
            self._engines.append(engine)
            specs.append(WorkerSpec(engine.target, name=f"simulator-{number}"))
        return specs
