"""The engines of the matrix, and gateways before them, started once for each module of tests."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import in_process, over_http
from tests.gateway.vision_models import qwen2_audio, qwen2_vl

from smg_core import Config, Gateway
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

Served = tuple[Gateway, SimulatedEngine]

MODELS: dict[str, Callable[[Path], Path]] = {"picture": qwen2_vl, "clip": qwen2_vl, "recording": qwen2_audio}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The folder of a model that takes such media, made when it is first asked for."""
    made: dict[str, str] = {}

    def folder(kind: str) -> str:
        if kind not in MODELS:
            return ""
        name = MODELS[kind].__name__
        if name not in made:
            made[name] = str(MODELS[kind](tmp_path_factory.mktemp("models") / name))
        return made[name]

    return folder


def _grpc(dialect: Any, transport: Any) -> Callable[..., Any]:
    @asynccontextmanager
    async def engine(simulator: SimulatorConfig, **sections: Any) -> AsyncIterator[Served]:
        config = Config(workers=WorkersConfig(dialect=dialect, transport=transport), **sections)
        async with in_process(simulator, config=config) as house:
            yield house.gateway, house.engine

    return engine


def _http(dialect: str) -> Callable[..., Any]:
    @asynccontextmanager
    async def engine(simulator: SimulatorConfig, **sections: Any) -> AsyncIterator[Served]:
        """A gateway whose worker takes token ids over HTTP."""
        config = Config(workers=WorkersConfig(dialect=dialect), **sections)
        async with (
            SimulatedEngine(simulator, http_server=engine_http_server("127.0.0.1:0")) as simulated,
            Gateway([simulated.http_target], config=config) as gateway,
        ):
            await gateway.ready()
            yield gateway, simulated

    return engine


@asynccontextmanager
async def chat_server(simulator: SimulatorConfig, **sections: Any) -> AsyncIterator[Served]:
    """A gateway whose worker is a server of the Chat Completions API: another gateway before an engine."""
    async with over_http(simulator) as far, Gateway([far.url], config=Config(**sections)) as gateway:
        yield gateway, far.engine


ENGINES: dict[str, Callable[..., Any]] = {
    "vLLM": _grpc("vllm", "h2"),
    "vLLM, grpcio": _grpc("vllm", "grpcio"),
    "MLX": _grpc("mlx", "h2"),
    "MLX, grpcio": _grpc("mlx", "grpcio"),
    "SGLang": _grpc("sglang", "h2"),
    "TensorRT-LLM": _grpc("trtllm", "h2"),
    "TokenSpeed": _grpc("tokenspeed", "h2"),
    "neutral": _grpc("neutral", "h2"),
    "vLLM, HTTP": _http("vllm-http"),
    "vLLM, HTTP tokens": _http("vllm-tokens-http"),
    "SGLang, HTTP": _http("sglang-http"),
    "llama.cpp, HTTP": _http("llamacpp-http"),
    "chat server": chat_server,
}


@pytest.fixture(scope="module")
async def called_by() -> AsyncIterator[Callable[[Gateway], httpx.AsyncClient]]:
    """The HTTP client of a gateway, made once: a client takes longer to make than most cells."""
    made: dict[int, httpx.AsyncClient] = {}

    def find(gateway: Gateway) -> httpx.AsyncClient:
        if id(gateway) not in made:
            made[id(gateway)] = gateway.http_client(httpx, base_url="http://gateway")
        return made[id(gateway)]

    yield find
    for each in made.values():
        await each.aclose()


@pytest.fixture(scope="module")
async def served(folders: Callable[[str], str]) -> AsyncIterator[Callable[[str, str], Any]]:
    """A gateway before an engine with a model, and the engine; each is started once."""
    made: dict[tuple[str, str], Served] = {}

    async with AsyncExitStack() as stack:

        async def find(engine: str, model: str) -> Served:
            folder = folders(model)
            if (engine, folder) not in made:
                context = ENGINES[engine](SimulatorConfig(model_folder=folder, seed=1))
                made[engine, folder] = await stack.enter_async_context(context)
            return made[engine, folder]

        yield find
