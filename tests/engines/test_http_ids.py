"""Gateways before a real vLLM that takes token ids over HTTP, by each of its two calls: the client suite, and what is of HTTP
alone. For `make test-engines`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import attrs
import httpx
import openai
import pytest
from tests.engines.real_engines import VLLM_HTTP, RealEngine
from tests.engines.running import COMES_UP_S, config_of, own_server
from tests.engines.test_client_suite import (  # noqa: F401  # what every engine is asked
    ENDLESS,
    GREETING,
    HELLO,
    test_a_client_that_leaves_ends_the_engines_work,
    test_a_schema_is_held_or_refused_by_name,
    test_a_seed_repeats_an_answer_where_the_engine_can_or_is_refused_by_name,
    test_a_tool_is_called,
    test_logprobs,
    test_messages,
    test_several_choices,
    test_stop_strings,
    test_what_the_engine_would_refuse_or_die_of_is_refused_by_name,
)
from tests.gateway.conftest import eventually

from smg_core import Gateway
from smg_core.workers.worker import WorkerSpec

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]
TITLE = VLLM_HTTP.title
DIALECTS = ("vllm-http", "vllm-tokens-http")


@attrs.frozen
class Served:
    """The server's own client, and a gateway before it by each dialect."""

    engine: RealEngine
    far: httpx.AsyncClient
    gateways: Mapping[str, Gateway]

    async def running(self) -> float:
        """How many requests the server says that it computes."""
        lines = (await self.far.get("/metrics")).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running"))


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(own_server(VLLM_HTTP, tmp_path_factory.mktemp("vllm") / "log"))
        far = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=60, trust_env=False))
        gateways = {name: Gateway([WorkerSpec(url, dialect=name)], config=config_of("h2")) for name in DIALECTS}
        for each in gateways.values():
            await stack.enter_async_context(each)
            await each.ready()
        yield Served(VLLM_HTTP, far, gateways)


@pytest.fixture(params=DIALECTS, ids=("completions", "generate"))
def gateway(request: pytest.FixtureRequest, engine: Served) -> Gateway:
    return engine.gateways[request.param]


async def test_an_answer_is_that_of_the_server_with_its_own_counts(
    engine: Served, client: openai.AsyncOpenAI, model: str
) -> None:
    asked: dict[str, Any] = {"model": model, "messages": HELLO, "temperature": 0}
    theirs = (await engine.far.post("/v1/chat/completions", json=asked)).json()
    ours = await client.chat.completions.create(**asked)
    stream = await client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    (choice,) = theirs["choices"]

    assert (choice["message"]["content"], choice["finish_reason"]) == (GREETING, "stop")
    assert (ours.choices[0].message.content, ours.choices[0].finish_reason) == (GREETING, "stop")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == GREETING
    for usage in (ours.usage, chunks[-1].usage):
        assert usage is not None
        counts = usage.prompt_tokens, usage.completion_tokens
        assert counts == (theirs["usage"]["prompt_tokens"], theirs["usage"]["completion_tokens"])


async def test_tokens_of_the_prompt_that_the_server_had_are_counted(client: openai.AsyncOpenAI, model: str) -> None:
    """Whole blocks of 32 tokens are kept; the last token is always computed."""
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "A sheep and a dog. " * 20}]}
    used = [(await client.chat.completions.create(**asked, max_tokens=2)).usage for _ in range(2)]
    again = used[1]
    assert again is not None
    assert again.prompt_tokens_details is not None
    assert again.prompt_tokens_details.cached_tokens == (again.prompt_tokens - 1) // 32 * 32


async def test_an_answer_that_is_cut_by_its_length_says_so(client: openai.AsyncOpenAI, model: str) -> None:
    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0, max_tokens=3)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


async def test_both_calls_give_the_same_logprobs(engine: Served) -> None:
    found = []
    for gateway in engine.gateways.values():
        http: Any = gateway.http_client(httpx, base_url="http://gateway")
        asked = {"model": "tiny", "messages": HELLO, "temperature": 0, "logprobs": True, "top_logprobs": 3}
        async with http:
            answer = (await http.post("/v1/chat/completions", json=asked)).json()
        rows = answer["choices"][0]["logprobs"]["content"]
        found.append([(row["token"], [each["token"] for each in row["top_logprobs"]]) for row in rows])
        assert all(row["logprob"] == row["top_logprobs"][0]["logprob"] for row in rows)
    assert found[0] == found[1]


async def test_a_client_that_leaves_has_the_server_stop_at_once(
    engine: Served, client: openai.AsyncOpenAI, model: str
) -> None:
    stream = await client.chat.completions.create(model=model, messages=HELLO, **ENDLESS)
    async for _ in stream:
        break
    assert await engine.running() > 0
    await stream.close()

    while await engine.running():  # bounded by the test's own time
        pass
    await eventually(
        lambda: all(worker.in_flight == 0 for each in engine.gateways.values() for worker in each.registry)
    )
