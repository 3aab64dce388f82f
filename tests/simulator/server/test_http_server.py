"""The HTTP doors of the embedded engine: what they leave behind when they close."""

import asyncio
import gc
import socket
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from tests.shared import PATIENCE

from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import EngineHttpServer, engine_http_server
from smg_simulator.server.kv_exchange import KvExchange

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


def doors() -> tuple[EngineHttpServer, Callable[[], int]]:
    made = EngineHttpServer(SimulatedEngine(SimulatorConfig()), "127.0.0.1:0")
    return made, lambda: int(made.url.rpartition(":")[2])


def exchange() -> tuple[KvExchange, Callable[[], int]]:
    made = KvExchange("NixlConnector", "kv_producer", "e")
    return made, lambda: made.port


@pytest.mark.full
@pytest.mark.parametrize("rounds", range(8))
@pytest.mark.parametrize("make", [doors, exchange])
async def test_a_connection_that_comes_while_it_stops_listening_is_not_left_open(
    make: Callable[[], tuple[Any, Callable[[], int]]], rounds: int
) -> None:
    server, port = make()
    await server.start()
    with socket.socket() as client, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        client.connect(("127.0.0.1", port()))
        for _ in range(rounds):
            await asyncio.sleep(0)
        await server.stop()
        for _ in range(5):  # a transport that was aborted closes its socket in a later round
            await asyncio.sleep(0)
        gc.collect()

    assert not [str(each.message) for each in warned]


def listens(url: str) -> bool:
    """Whether somebody takes connections there."""
    host, _, port = url.rpartition("/")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.sampled(keep=20)
@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 5, 8, 13, 21, 34])
@pytest.mark.parametrize("away", [0.0, 3600.0])
async def test_an_engine_that_is_stopped_while_it_restarts_is_gone_and_can_be_started_again(
    rounds: int, away: float
) -> None:
    engine = SimulatedEngine(SimulatorConfig(), http_server=engine_http_server("127.0.0.1:0"))
    await engine.start()
    places = engine.target, engine.http_target
    engine.restarts.begin(engine.restart(away))
    for _ in range(rounds):
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await engine.stop()

    assert not engine.serving
    assert [listens(place) for place in places] == [False, False]
    assert not [task for task in asyncio.all_tasks() if "restart" in task.get_name()]
    async with engine:
        assert [listens(place) for place in places] == [True, True]
