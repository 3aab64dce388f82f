"""Prefill and decode by two real vLLMs: one reads prompts, another answers from their caches. Run by `make test-engines`.

Both use vLLM's ExampleConnector, which keeps caches in a folder that the two share. It answers nothing that the gateway could
hand on: an engine finds a cache by its prompt.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest
from tests.engines.conftest import client_of
from tests.engines.real_engines import VLLM, RealEngine
from tests.engines.running import COMES_UP_S, config_of
from tests.engines.test_client_suite import ENDLESS, GREETING, HELLO
from tests.gateway.conftest import eventually

from smg_core import Gateway
from smg_core.server.launched import LaunchedGateway
from smg_core.workers.worker import WorkerSpec

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]
ENGINE = "vllm"
LONG: list[Any] = [{"role": "user", "content": "Hello. " * 60}]
"""More than a block of the cache: shorter prompts have nothing to hand over."""


def engine_of(role: str, folder: Path) -> RealEngine:
    """vLLM that hands caches over through the folder."""
    told = {
        "kv_connector": "ExampleConnector",
        "kv_role": role,
        "kv_connector_extra_config": {"shared_storage_path": str(folder)},
    }
    return attrs.evolve(VLLM, options=(*VLLM.options, "--kv-transfer-config", json.dumps(told)))


def launched(engine: RealEngine) -> LaunchedGateway:
    """A gateway that starts the engine, of which its own address is all that is used."""
    return Gateway.launch(
        engine.name,
        model=str(engine.model),
        python=engine.python,
        options=engine.options,
        environment=engine.environment_of_process(),
        timeout_s=COMES_UP_S,
        progress=None,
        config=config_of("h2"),
    )


@attrs.define
class Pair:
    """The two engines, and a gateway before both over each transport."""

    folder: Path
    prefill: LaunchedGateway
    decode: LaunchedGateway
    gateways: dict[str, Gateway]


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    folder = tmp_path_factory.mktemp("caches")
    async with AsyncExitStack() as stack:
        engines = [launched(engine_of(role, folder)) for role in ("kv_producer", "kv_consumer")]
        for engine in engines:
            await stack.enter_async_context(engine)
        urls = [next(iter(engine.registry)).spec.url for engine in engines]
        gateways = {}
        for transport in ("h2", "grpcio"):
            gateway = Gateway([WorkerSpec(url) for url in urls], config=config_of(transport))
            gateways[transport] = await stack.enter_async_context(gateway)
            await asyncio.wait_for(gateway.ready(None), COMES_UP_S)
            await eventually(lambda all_of=gateway: all(worker.state == "ready" for worker in all_of.registry))
        yield Pair(folder, engines[0], engines[1], gateways)


@pytest.fixture(params=["h2", "grpcio"])
def gateway(request: pytest.FixtureRequest, pair: Pair) -> Gateway:
    return pair.gateways[request.param]


async def test_the_roles_are_what_the_engines_say(gateway: Gateway) -> None:
    assert [worker.role for worker in gateway.registry] == ["prefill", "decode"]
    assert {worker.kv.connector for worker in gateway.registry} == {"ExampleConnector"}


async def test_decode_answers_from_the_cache_that_prefill_has_written(
    pair: Pair, gateway: Gateway, client: openai.AsyncOpenAI, model: str
) -> None:
    asked: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": 30}
    name = next(name for name, each in pair.gateways.items() if each is gateway)
    prompt = [*LONG, {"role": "assistant", "content": name}, *HELLO]
    before = {path.name for path in pair.folder.iterdir()}
    alone = await client_of(pair.prefill).chat.completions.create(messages=LONG, **asked)
    together = await client.chat.completions.with_raw_response.create(messages=prompt, **asked)
    streamed = await client.chat.completions.create(messages=LONG, stream=True, **asked)

    explained = json.loads(together.headers["x-smg-explain"])
    assert explained["role"] == "decode"
    assert explained["prefill_worker"] == next(iter(gateway.registry)).name
    assert {path.name for path in pair.folder.iterdir()} > before
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in streamed])
    assert text == alone.choices[0].message.content


async def test_a_prompt_shorter_than_a_block_is_answered_too(client: openai.AsyncOpenAI, model: str) -> None:
    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0, n=2)

    assert [choice.message.content for choice in answer.choices] == [GREETING] * 2


async def test_an_engine_killed_under_load_leaves_no_request_open(pair: Pair) -> None:
    async def ask(client: openai.AsyncOpenAI) -> str:
        try:
            async for chunk in await client.chat.completions.create(model=model, messages=LONG, **ENDLESS):
                streaming.add(chunk.id)
        except openai.APIError:
            return "error"
        return "whole"

    streaming: set[str] = set()
    model = next(iter(pair.gateways["h2"].models))
    asked = [asyncio.create_task(ask(client_of(gateway))) for gateway in pair.gateways.values() for _ in range(2)]
    await eventually(lambda: len(streaming) == 4, 300)
    assert pair.decode.process is not None
    os.killpg(pair.decode.process.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        assert await asyncio.gather(*asked) == ["error"] * 4
