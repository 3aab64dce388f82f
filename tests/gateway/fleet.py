"""Gateways before engines of several dialects, joined in an order and chosen as a test says."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import attrs
import httpx
from tests.gateway.conftest import House
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.routing import Candidate, Observing, Pick, RequestEnded, RoutingContext
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

ALERT = Config(workers=WorkersConfig(health_interval_s=0.1))
CALM = Config(workers=WorkersConfig(health_interval_s=3600.0, loads_interval_s=3600.0))
"""No engine is asked how it is, or how busy, while a test runs."""


class Prefer:
    """Chooses the worker called `wanted` where it is a candidate, else the first; `shown` has who the candidates were."""

    name = "prefer"

    def __init__(self, wanted: str = "") -> None:
        self.wanted = wanted
        self.shown: list[tuple[str, ...]] = []

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self.shown.append(tuple(each.name for each in candidates))
        return Pick(next((each for each in candidates if each.name == self.wanted), candidates[0]))


class Watching(Prefer, Observing):
    """Keeps what it is told of workers."""

    def __init__(self, wanted: str = "") -> None:
        super().__init__(wanted)
        self.left: list[str] = []
        self.ended: list[RequestEnded] = []

    def worker_left(self, worker: str) -> None:
        self.left.append(worker)

    def request_ended(self, ended: RequestEnded) -> None:
        self.ended.append(ended)


@attrs.frozen
class Member:
    """One engine of a fleet and the worker it is."""

    name: str
    dialect: str = "vllm"
    engine: SimulatorConfig = attrs.field(factory=SimulatorConfig)
    more: dict[str, Any] = attrs.field(factory=dict)

    def spec(self, engine: SimulatedEngine) -> WorkerSpec:
        return WorkerSpec(engine.target, name=self.name, dialect=self.dialect, **self.more)


@asynccontextmanager
async def fleet(*members: Member, config: Config = CALM, **arguments: Any) -> AsyncIterator[House]:
    """A gateway before these engines, each of which has joined before the next is added."""
    observer = MemoryObserver()
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(SimulatedEngine(each.engine)) for each in members]
        gateway = Gateway(config=config, observer=observer, **arguments)
        await gateway.start()
        stack.push_async_callback(gateway.stop)
        for member, engine in zip(members, engines, strict=True):
            await joined(gateway, gateway.add_worker(member.spec(engine)).name)
        http = await stack.enter_async_context(gateway.http_client(httpx, base_url="http://gateway"))
        yield House(gateway, http, observer, own=tuple(engines))


async def joined(gateway: Gateway, name: str) -> None:
    """Return once the worker is ready."""
    worker = gateway.registry.get(name)
    assert worker is not None
    async with asyncio.timeout(PATIENCE):
        while worker.state != "ready":
            await asyncio.sleep(0.002)


@contextmanager
def removed_from(house: House, *names: str) -> Iterator[None]:
    """Take the candidates away that are called so, as if they could not be reached."""
    for name in names:
        worker = house.gateway.registry.get(name)
        assert worker is not None
        house.gateway.services.running.monitor.signal(worker, "failing", "told so")
    yield
    for name in names:
        worker = house.gateway.registry.get(name)
        assert worker is not None
        house.gateway.services.running.monitor.signal(worker, "healthy", "told so")
