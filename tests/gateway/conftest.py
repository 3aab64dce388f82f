"""A gateway before embedded engines, in process or behind a real port, and a few ways to look at it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.shared import PATIENCE, patient_clients

from smg_core import Config, Gateway
from smg_core.server.http_server import HttpServer
from smg_core.testing import MemoryObserver
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

CHAT = "/v1/chat/completions"
JSON = {"content-type": "application/json"}


def body(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    """A chat request with one user message."""
    return {"model": "sim", "messages": [{"role": "user", "content": text}], **fields}


async def eventually(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Return once `condition` holds; for what other threads and processes bring about."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


@attrs.define
class House:
    """A running gateway with everything a test looks at; `url` and `server` where it is behind a port."""

    gateway: Gateway
    http: httpx.AsyncClient
    observer: MemoryObserver
    url: str = ""
    server: Any = None
    own: tuple[SimulatedEngine, ...] = ()  # engines that the test started itself

    @property
    def engines(self) -> tuple[SimulatedEngine, ...]:
        return self.own or getattr(self.gateway, "engines", ())

    @property
    def engine(self) -> SimulatedEngine:
        return self.engines[0]

    async def chat(self, text: str = "Hello", **fields: Any) -> httpx.Response:
        return await self.http.post(CHAT, json=body(text, **fields))


@asynccontextmanager
async def in_process(simulator: SimulatorConfig | None = None, **arguments: Any) -> AsyncIterator[House]:
    """A simulated gateway, called in process."""
    observer = MemoryObserver()
    async with (
        Gateway.simulated(simulator, observer=observer, **arguments) as gateway,
        gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http,
    ):
        yield House(gateway, http, observer)


@asynccontextmanager
async def over_http(
    simulator: SimulatorConfig | None = None,
    *,
    config: Config | None = None,
    wrap: Callable[[Any], Any] | None = None,
    workers: Sequence[Any] = (),
    **arguments: Any,
) -> AsyncIterator[House]:
    """A simulated gateway behind a real port, served as `smg-gateway serve` does. The kernel buffers little of what it
    sends, so that a client that does not read is soon felt. `wrap` puts ASGI middleware around its
    app. With `workers` these are its own, and none is simulated."""
    observer, config = MemoryObserver(), config or Config()
    if not config.server.allowed_hosts:
        config = attrs.evolve(config, server=attrs.evolve(config.server, allowed_hosts=("*",)))  # tests name any host
    if workers:
        gateway = Gateway(workers, observer=observer, config=config, **arguments)
    else:
        gateway = Gateway.simulated(simulator, observer=observer, config=config, **arguments)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = HttpServer(gateway, config)
    if wrap is not None:
        server.config.app = wrap(server.config.app)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await eventually(lambda: server.started or running.done(), PATIENCE)
    try:
        await gateway.ready()
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, headers=JSON) as http:
            yield House(gateway, http, observer, url, server)
    finally:
        server.should_exit = True
        await running


async def settled(house: House) -> None:
    """Nothing is under way any more: not here, not on the board, not at an engine."""
    gateway = house.gateway
    await eventually(lambda: not gateway.in_flight and not any(worker.in_flight for worker in gateway.registry))
    await eventually(lambda: not any(engine.active for engine in house.engines))
    assert [worker.in_flight for worker in gateway.registry] == [0] * len(gateway.registry)


async def held_back(house: House) -> int:
    """Wait until the engine makes no progress, and say how many tokens it was allowed."""
    engine = house.engine
    await eventually(lambda: engine.counters["tokens"])
    same, before = 0, 0
    async with asyncio.timeout(PATIENCE):
        while same < 50:
            now = engine.counters["tokens"]
            same = same + 1 if now == before else 0
            before = now
            await asyncio.sleep(0.002)
    assert engine.counters["finished"] == 0
    return before


@pytest.fixture(scope="session", autouse=True)
def clients_wait_for_a_busy_machine() -> Iterator[None]:
    with patient_clients():
        yield


@pytest.fixture(params=["in process", "http"])
def served(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Both ways of being served: a test that takes this runs once for each."""
    return in_process if request.param == "in process" else over_http
