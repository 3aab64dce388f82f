"""Real engines that are started for the tests (`make test-engines`), and the report of what they gave, docs/engines.md."""

import os
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from tests.engines.real_engines import ENGINES, HERE
from tests.engines.report import Report
from tests.engines.running import Running, running

from smg_core import Gateway

CHOSEN = os.environ.get("SMG_ENGINES", "mlx").split()
ONE_ENGINES = {
    "test_http_ids.py": "vllm",
    "test_mlx.py": "mlx",
    "test_pictures.py": "vllm",
    "test_pooling.py": "vllm",
    "test_prefill_decode.py": "vllm",
    "test_scoring.py": "vllm",
    "test_vllm_bench.py": "vllm",
}
collect_ignore = [file for file, name in ONE_ENGINES.items() if name not in CHOSEN]


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("SMG_ENGINES_REPORT"):
        config.pluginmanager.register(Report())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell the report in which section each test belongs: of the engine that it is given, or that its module is about."""
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        given = getattr(item, "callspec", None)
        name = given and given.params.get("engine")
        title = ENGINES[name].title if name else item.module.TITLE  # type: ignore[attr-defined]
        item.user_properties.append(("section", title))


@pytest.fixture(scope="session", params=CHOSEN)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """Each of the engines of this run, one after the other."""
    async with running(ENGINES[request.param]) as started:
        yield started


@pytest.fixture(params=["h2", "grpcio"])
def gateway(request: pytest.FixtureRequest, engine: Running) -> Gateway:
    """A gateway before the engine, over each transport."""
    return engine.gateways[request.param]


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(gateway) as client:
        yield client


def client_of(gateway: Gateway) -> openai.AsyncOpenAI:
    """OpenAI's SDK before this gateway, without its own second tries."""
    http: Any = gateway.http_client(openai)
    return openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)


@pytest.fixture
def model(gateway: Gateway) -> str:
    return next(iter(gateway.models))
