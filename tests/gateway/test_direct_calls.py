"""Tests of a gateway that is asked in process with dictionaries and records, without an HTTP client."""

import asyncio
import sys
from typing import Any

import msgspec
import pytest
from tests.gateway.conftest import eventually

from smg_core.app.direct import DirectCalls, RequestRefused
from smg_core.auth.settings import AuthConfig
from smg_core.config.config import Config
from smg_core.gateway.gateway import Gateway
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

KEY = "k" * 32
BODY = {"model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}

SLOW = SimulatorConfig(timing=Timing(decode_rate=20))


class ChatBody(msgspec.Struct, omit_defaults=True):
    """A record of the user's own, with the fields of a request."""

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int | None = None


RECORD = ChatBody("sim", [{"role": "user", "content": "hello"}], 5)


@pytest.mark.parametrize("body", [BODY, RECORD], ids=["dictionary", "record"])
async def test_a_whole_answer_is_a_dictionary_and_the_stream_of_it_says_the_same(body: Any) -> None:
    async with Gateway.simulated() as gateway:
        whole = await gateway.chat(body)
        chunks = [chunk async for chunk in gateway.stream(body)]

    said = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    assert whole["choices"][0]["message"]["content"] == said
    assert whole["usage"]["completion_tokens"] == 5


async def test_texts_are_embedded() -> None:
    async with Gateway.simulated(SimulatorConfig(generation_model=False)) as gateway:
        answer = await gateway.embed({"model": "sim", "input": ["one", "two"]})

    assert [each["index"] for each in answer["data"]] == [0, 1]


async def test_other_apis_are_asked_by_their_paths() -> None:
    async with Gateway.simulated() as gateway:
        answer = await DirectCalls(gateway.asgi()).answer("/v1/messages", BODY)

    assert answer["type"] == "message"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_refusal_is_raised_with_the_status_and_the_envelope(streamed: bool) -> None:
    async with Gateway.simulated() as gateway:
        asked = anext(gateway.stream({"model": "sim"})) if streamed else gateway.chat({"model": "sim"})
        with pytest.raises(RequestRefused, match="messages") as refused:
            await asked

    assert refused.value.status == 400
    assert refused.value.error["error"]["param"] == "messages"


async def test_a_key_is_a_header_and_who_has_none_is_refused() -> None:
    async with Gateway.simulated(config=Config(auth=AuthConfig(keys=(f"{KEY} tenant=acme",)))) as gateway:
        with pytest.raises(RequestRefused) as refused:
            await gateway.chat(BODY)
        answer = await gateway.chat(BODY, headers={"Authorization": f"Bearer {KEY}"})

    assert refused.value.status == 401
    assert answer["object"] == "chat.completion"


async def test_who_leaves_the_loop_stops_the_request() -> None:
    async with Gateway.simulated(SLOW) as gateway:
        stream = gateway.stream({**BODY, "max_tokens": 30_000, "ignore_eos": True})
        await anext(stream)
        assert gateway.in_flight == 1
        await stream.aclose()
        await eventually(lambda: gateway.in_flight == 0)


async def test_a_task_that_is_cancelled_while_it_waits_stops_the_request() -> None:
    async with Gateway.simulated(SLOW) as gateway:
        task = asyncio.ensure_future(gateway.chat({**BODY, "max_tokens": 30_000, "ignore_eos": True}))
        await eventually(lambda: gateway.in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually(lambda: gateway.in_flight == 0)


@pytest.mark.full
async def test_no_http_client_is_loaded_for_it() -> None:
    code = (
        "import asyncio, sys\nfrom smg_core import Gateway\n"
        "async def main():\n"
        "    async with Gateway.simulated() as gateway:\n"
        f"        await gateway.chat({BODY!r})\n"
        "asyncio.run(main())\nprint(sorted({'httpx', 'httpx2', 'openai', 'aiohttp'} & set(sys.modules)))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert said.decode().strip() == "[]"
