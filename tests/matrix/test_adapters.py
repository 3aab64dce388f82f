"""LoRA adapters on every engine: asked for by name, listed by the engine, loaded and unloaded at the admin door.

What comes of a cell: it works, as the check says; the worker does not join, since its engine cannot be asked for an adapter; the
engine does not list what it holds; or the admin door says 501.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from tests.gateway.conftest import eventually, over_http
from tests.gateway.test_adapters import Fleet, fleet

from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerSpec
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

Record = Callable[[str, object], None]

GRPC: dict[str, tuple[str, Literal["h2", "grpcio"]]] = {
    "vLLM": ("vllm", "h2"),
    "vLLM, grpcio": ("vllm", "grpcio"),
    "MLX": ("mlx", "h2"),
    "MLX, grpcio": ("mlx", "grpcio"),
    "SGLang": ("sglang", "h2"),
    "SGLang, grpcio": ("sglang", "grpcio"),
    "TensorRT-LLM": ("trtllm", "h2"),
    "TensorRT-LLM, grpcio": ("trtllm", "grpcio"),
    "TokenSpeed": ("tokenspeed", "h2"),
    "neutral": ("neutral", "h2"),
}
ENGINES = [*GRPC, "chat server"]
TITLE = "LoRA adapters"
HELD = (("7", "poet"),)
NAMED = (("poet", "7"),)
OTHER = SimulatorConfig(dialects=("vllm",), model="other")
"""An engine beside the one that is tried, so that the gateway is ready whatever becomes of that one."""


@asynccontextmanager
async def one(
    engine: str, *, held: tuple[tuple[str, str], ...] = (), named: tuple[tuple[str, str], ...] = ()
) -> AsyncIterator[tuple[Fleet, Worker, SimulatedEngine]]:
    """A gateway before this engine, which holds the adapters `held` and whose entry names `named`; its worker."""
    if engine == "chat server":
        async with over_http(SimulatorConfig(dialects=("sglang",), adapters=held)) as far:
            spec = WorkerSpec(far.url, "gpu")
            async with fleet(more=(spec,), ready=False, other=OTHER) as house:
                yield house, await settled(house), far.engine
        return
    dialect, transport = GRPC[engine]
    simulator = SimulatorConfig(dialects=(dialect,), adapters=held)
    workers = WorkersConfig(health_interval_s=3600.0, transport=transport)
    specs = {"gpu": {"adapters": named, "model": "sim"}}
    async with fleet(specs=specs, workers=workers, ready=False, gpu=simulator, other=OTHER) as house:
        yield house, await settled(house), house.named["gpu"]


async def settled(house: Fleet) -> Worker:
    """The worker that is tried, once it has joined, or it is kept out for its adapters; the other is ready."""
    worker, other = house.gateway.registry.get("gpu"), house.gateway.registry.get("other")
    assert worker is not None
    assert other is not None
    await eventually(lambda: other.state == "ready")
    await eventually(lambda: worker.state == "ready" or "adapters" in worker.reason)
    return worker


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_an_adapter_is_asked_of_the_engine_or_the_worker_does_not_join(
    engine: str, way: str, record_property: Record
) -> None:
    record_property("cell", (TITLE, "asked for by name", engine, way))
    async with one(engine, held=HELD, named=NAMED) as (house, worker, simulated):
        answer = await house.chat(model="poet", max_tokens=5, stream=way == "stream")
        told, state = [each.lora for each in simulated.requests], worker.state
    if state == "ready":
        assert answer.status_code == 200, answer.text
        assert told == ["7"]
        record_property("result", "yes")
    else:
        assert (answer.status_code, told) == (503, [])
        record_property("result", "does not join")


@pytest.mark.parametrize("engine", ENGINES)
async def test_adapters_that_an_engine_lists_are_models(engine: str, record_property: Record) -> None:
    record_property("cell", (TITLE, "listed by the engine", engine, "whole"))
    async with one(engine, held=HELD) as (house, _, _):
        listed, answer = await house.models(), await house.chat(model="poet", max_tokens=5)
    assert answer.status_code == (200 if "poet" in listed else 404), answer.text
    record_property("result", "yes" if "poet" in listed else "not listed")


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_engine_loads_and_unloads_an_adapter_or_the_door_says_that_it_cannot(
    engine: str, record_property: Record
) -> None:
    record_property("cell", (TITLE, "loaded and unloaded at the admin door", engine, "whole"))
    async with one(engine) as (house, _, simulated):
        asked: dict[str, Any] = {"name": "poet", "workers": ["gpu"]}
        loaded = await house.change("load_adapter", path="/adapters/poet", **asked)
        held = [each.name for each in simulated.engine.adapters]
        answer = await house.chat(model="poet", max_tokens=5)
        unloaded = await house.change("unload_adapter", **asked)
        left, after = list(simulated.engine.adapters), await house.chat(model="poet", max_tokens=5)
    statuses = {loaded["gpu"][0], unloaded["gpu"][0]}
    if 200 in statuses:
        assert (statuses, held, left) == ({200}, ["poet"], [])
        assert (answer.status_code, after.status_code) == (200, 404)
        record_property("result", "yes")
    else:
        assert (held, left, answer.status_code) == ([], [], 404)
        assert loaded["gpu"][0] == 501
        assert unloaded["gpu"][0] in (409, 501)  # of a dialect that has adapters, none is held
        record_property("result", "501")
