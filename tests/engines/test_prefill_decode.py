"""Prefill and decode by two real vLLMs: one reads prompts, another takes over their caches. For `make test-engines`."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import attrs
import openai
import pytest
from tests.engines.conftest import client_of
from tests.engines.real_engines import VLLM_PAIR, handing_over
from tests.engines.running import COMES_UP_S, config_of, launching
from tests.engines.test_client_suite import ENDLESS, GREETING, HELLO, TOOL
from tests.gateway.conftest import eventually

from smg_core import Gateway
from smg_core.gateway.launched import LaunchedGateway
from smg_core.workers.worker import WorkerSpec

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]
TITLE = VLLM_PAIR.title
WEATHER: dict[str, Any] = {
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [{"type": "function", "function": TOOL}],
    "temperature": 0,
}
"""A prompt of several blocks of the cache, and an answer that no engine gives that has not read it."""


@attrs.define
class Pair:
    """The two engines, and a gateway before both over each transport."""

    prefill: LaunchedGateway
    decode: LaunchedGateway
    gateways: dict[str, Gateway]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
async def pair() -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        prefill, decode = (launching(handing_over(role, free_port())) for role in ("kv_producer", "kv_consumer"))
        await asyncio.gather(stack.enter_async_context(prefill), stack.enter_async_context(decode))
        workers = [
            WorkerSpec(worker.spec.url, name=name)
            for name, engine in (("prefill", prefill), ("decode", decode))
            for worker in engine.registry
        ]
        gateways: dict[str, Gateway] = {}
        for transport in ("h2", "grpcio"):
            gateway = await stack.enter_async_context(Gateway(workers, config=config_of(transport)))
            gateways[transport] = gateway
            await eventually(lambda each=gateway: all(worker.state == "ready" for worker in each.registry), COMES_UP_S)
        yield Pair(prefill, decode, gateways)


@pytest.fixture(params=["h2", "grpcio"])
def gateway(request: pytest.FixtureRequest, pair: Pair) -> Gateway:
    return pair.gateways[request.param]


async def test_the_roles_and_the_connector_are_what_the_engines_say(gateway: Gateway) -> None:
    assert [worker.role for worker in gateway.registry] == ["prefill", "decode"]
    assert {worker.kv.connector for worker in gateway.registry} == {"NixlConnector"}


async def test_decode_answers_from_the_cache_of_prefill_streamed_and_whole(
    pair: Pair, client: openai.AsyncOpenAI, model: str
) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model=model, extra_headers={"x-smg-explain": "1"}, **WEATHER
    )
    streamed = [chunk async for chunk in await client.chat.completions.create(model=model, stream=True, **WEATHER)]
    calls: Any = raw.parse().choices[0].message.tool_calls
    names = [
        call.function.name for each in streamed for call in each.choices[0].delta.tool_calls or () if call.function
    ]
    explained = json.loads(raw.headers["x-smg-explain"])

    assert (explained["worker"], explained["role"], explained["prefill_worker"]) == ("decode", "decode", "prefill")
    assert [call.function.name for call in calls] == [name for name in names if name] == ["get_weather"]
    # vLLM logs now and then how many caches it has fetched from others.
    await eventually(lambda: "Num successful transfers" in pair.decode.last_words, 120)


async def test_choices_and_logprobs(client: openai.AsyncOpenAI, model: str) -> None:
    answer = await client.chat.completions.create(
        model=model, messages=HELLO, temperature=0, n=2, logprobs=True, top_logprobs=2
    )

    for choice in answer.choices:
        assert choice.message.content == GREETING
        assert choice.logprobs is not None
        assert {len(each.top_logprobs) for each in choice.logprobs.content or ()} == {2}


async def test_engines_killed_under_load_leave_no_request_open(pair: Pair) -> None:
    async def ask(client: openai.AsyncOpenAI) -> str:
        try:
            async for chunk in await client.chat.completions.create(model=model, messages=HELLO, **ENDLESS):
                streaming.add(chunk.id)
        except openai.APIError:
            return "error"
        return "whole"

    streaming: set[str] = set()
    model = next(iter(pair.gateways["h2"].models))
    clients = [client_of(gateway) for gateway in pair.gateways.values()]
    workers = [list(gateway.registry) for gateway in pair.gateways.values()]
    asked = [asyncio.create_task(ask(client)) for client in clients for _ in range(2)]
    await eventually(lambda: len(streaming) == 4, 300)

    kill(pair.prefill)
    await eventually(lambda: all(prefill.state == "unreachable" for prefill, _ in workers), 60)
    for client in clients:  # decode does not read prompts in prefill's place unless it is told to
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(model=model, messages=HELLO)
        assert caught.value.status_code == 503

    kill(pair.decode)
    async with asyncio.timeout(60):
        assert set(await asyncio.gather(*asked)) <= {"error", "whole"}
    assert {worker.in_flight for pair_of in workers for worker in pair_of} == {0}


def kill(gateway: LaunchedGateway) -> None:
    """Kill all processes of the engine that this gateway has started."""
    assert gateway.process is not None
    os.killpg(gateway.process.pid, signal.SIGKILL)
