"""A worker whose breaker is half-open gets a few calls as probes: each is told of or given back once, however a request ends."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import House, eventually
from tests.gateway.test_encode_workers import TALL, WIDE, all_idle, ask, three
from tests.gateway.test_prefill_decode import engine, settings
from tests.gateway.vision_models import image_part, qwen2_vl

from smg_core.errors import EngineFailed, WorkerGone
from smg_core.pipeline.calls import streaming
from smg_core.pipeline.calls.engine_call import EngineCall
from smg_core.pipeline.flow import flow
from smg_core.workers.settings import BreakerConfig
from smg_simulator.answers.faults import Fault

pytestmark = pytest.mark.anyio
CONFIG = attrs.evolve(settings(), breaker=BreakerConfig(failures=2, open_s=60.0, probes=30))
Ways = dict[str, Callable[[House, pytest.MonkeyPatch], Awaitable[object]]]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("qwen") / "model"))


async def two_pictures(house: House, **fields: Any) -> httpx.Response:
    return await ask(house, image_part(WIDE), image_part(TALL), n=3, **fields)


def leaving(name: str, calls: int) -> Callable[[House, pytest.MonkeyPatch], Awaitable[object]]:
    async def left(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        engine(house, name).inject(*[Fault("stall")] * calls)
        asked = asyncio.create_task(two_pictures(house))
        await eventually(lambda: engine(house, name).counters["stalled"] == calls)
        asked.cancel()

    return left


def failing(name: str, kind: Any) -> Callable[[House, pytest.MonkeyPatch], Awaitable[object]]:
    async def failed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        engine(house, name).inject(Fault(kind))
        await two_pictures(house)

    return failed


def raising(owner: Any, method: str, error: Exception) -> Callable[[House, pytest.MonkeyPatch], Awaitable[object]]:
    def fail(*arguments: object, **named: object) -> None:
        raise error

    async def raised(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(owner, method, fail)
        await two_pictures(house)

    return raised


async def well(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await two_pictures(house)).status_code == 200


async def explained(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"model": "sim", "messages": [{"role": "user", "content": [image_part(WIDE)]}]}
    await house.gateway.explain(body)


WAYS: Ways = {
    "well": well,
    "explained": explained,
    **{f"left at {name}": leaving(name, calls) for name, calls in (("e", 6), ("p", 3), ("d", 3))},
    **{f"{kind} at {name}": failing(name, kind) for name in "epd" for kind in ("cut", "error")},
    "adapter gone": raising(EngineCall, "_request", WorkerGone("gone")),
    "media failed": raising(EngineCall, "_media", WorkerGone("gone")),
    "nothing left": raising(EngineCall, "_rest", EngineFailed("no")),
    "not begun": raising(streaming, "EngineCall", EngineFailed("no")),
    "not gone on with": raising(flow, "_go_on", EngineFailed("no")),
}


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("way", WAYS)
async def test_a_probe_is_told_of_or_given_back_once(folder: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with three(folder, config=CONFIG) as house:
        breakers, monitor = house.gateway.registry.breakers, house.gateway.services.running.monitor
        for name in "epd":
            for _ in range(2):
                breakers.ended(name, WorkerGone("gone"), time.monotonic() - 100.0)
        taken, told = Counter[str](), Counter[str]()
        chosen, given_up, outcome = breakers.chosen, breakers.given_up, monitor.outcome

        def choose(name: str, rank: int | None = None) -> bool:
            probe = chosen(name, rank)
            taken[name] += probe
            return probe

        def give_up(name: str, rank: int | None = None) -> None:
            told[name] += 1
            given_up(name, rank)

        def tell(worker: Any, *arguments: Any) -> None:
            told[worker.name] += 1
            outcome(worker, *arguments)

        monkeypatch.setattr(breakers, "chosen", choose)
        monkeypatch.setattr(breakers, "given_up", give_up)
        monkeypatch.setattr(monitor, "outcome", tell)
        await WAYS[way](house, monkeypatch)
        await all_idle(house)

        assert set(taken) == set("epd")
        assert told == taken
