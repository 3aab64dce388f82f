"""The gateway before a real MLX, which `Gateway.launch` starts. Run by `make test-engines`."""

import asyncio
import os
import signal
from typing import Any

import anthropic
import openai
import pytest
from tests.engines.conftest import MODEL, PYTHON, QUIET
from tests.gateway.conftest import eventually

from smg_core import Gateway
from smg_core.server.launched import COMMANDS, LaunchedGateway

pytestmark = [pytest.mark.anyio, pytest.mark.engines]

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
GREETING = "Hello! How can I help you today?"


async def test_text_streamed_and_whole(gateway: Gateway, client: openai.AsyncOpenAI, model: str) -> None:
    (worker,) = gateway.registry
    whole = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    stream = await client.chat.completions.create(
        model=model, messages=HELLO, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    assert worker.facts.dialect == "mlx"
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (GREETING, "stop")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == GREETING
    assert whole.usage is not None
    assert chunks[-1].usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (20, 10)
    assert chunks[-1].usage.completion_tokens == 10


async def test_stop_strings_and_choices_which_the_engine_lacks(client: openai.AsyncOpenAI, model: str) -> None:
    cut = await client.chat.completions.create(model=model, messages=HELLO, temperature=0, stop=["help"])
    several = await client.chat.completions.create(
        model=model, messages=HELLO, temperature=1.5, n=3, seed=4, max_tokens=12, extra_body={"ignore_eos": True}
    )

    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("Hello! How can I ", "stop")
    assert [choice.index for choice in several.choices] == [0, 1, 2]
    assert several.usage is not None
    assert several.usage.completion_tokens == 36


async def test_logprobs(client: openai.AsyncOpenAI, model: str) -> None:
    for alternatives in (0, 3):
        answer = await client.chat.completions.create(
            model=model, messages=HELLO, temperature=0, logprobs=True, top_logprobs=alternatives, max_tokens=4
        )
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert [len(each.top_logprobs) for each in logprobs.content or ()] == [alternatives] * 4


async def test_a_tool_is_called(client: openai.AsyncOpenAI, model: str) -> None:
    tool: Any = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    answer = await client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "What is the weather in Paris?"}],
        tools=[{"type": "function", "function": tool}],
        temperature=0,
    )
    calls: Any = answer.choices[0].message.tool_calls

    assert [call.function.name for call in calls] == ["get_weather"]
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_messages(gateway: Gateway, model: str) -> None:
    http: Any = gateway.http_client(anthropic)
    async with anthropic.AsyncAnthropic(http_client=http, base_url="http://gateway", api_key="-") as client:
        answer: Any = await client.messages.create(
            model=model, max_tokens=40, messages=HELLO, extra_body={"temperature": 0}
        )

    assert (answer.content[0].text, answer.stop_reason) == (GREETING, "end_turn")


async def test_what_the_engine_lacks_or_would_die_of_is_refused(client: openai.AsyncOpenAI, model: str) -> None:
    for fields, param in (
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"extra_body": {"min_tokens": 3}}, "min_tokens"),
        ({"seed": -1}, "seed"),
        ({"logit_bias": {"99999": 1}}, "logit_bias"),
        ({"extra_body": {"stop_token_ids": [99999]}}, "stop_token_ids"),
        ({"max_tokens": 100_000}, "max_tokens"),
    ):
        asked: Any = {"model": model, "messages": HELLO, **fields}
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**asked)
        assert (caught.value.param or "").startswith(param)

    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    assert answer.choices[0].message.content == GREETING


async def test_a_client_that_leaves_ends_the_engines_work(client: openai.AsyncOpenAI, model: str) -> None:
    stream = await client.chat.completions.create(
        model=model, messages=HELLO, max_tokens=1500, stream=True, extra_body={"ignore_eos": True}
    )
    async for _ in stream:
        break
    await stream.close()

    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    assert answer.choices[0].message.content == GREETING


async def test_an_engine_killed_under_load_leaves_no_request_open_and_serves_again_when_it_is_back(
    gateway: LaunchedGateway, client: openai.AsyncOpenAI, model: str
) -> None:
    async def ask() -> str:
        text = ""
        try:
            stream = await client.chat.completions.create(
                model=model, messages=HELLO, max_tokens=1500, stream=True, extra_body={"ignore_eos": True}
            )
            async for chunk in stream:
                text += chunk.choices[0].delta.content or "" if chunk.choices else ""
                streaming.add(id(stream))
        except openai.APIError:
            return "error"
        return text

    streaming: set[int] = set()
    (worker,) = gateway.registry
    asked = [asyncio.create_task(ask()) for _ in range(8)]
    await eventually(lambda: len(streaming) == 8, 60)
    assert gateway.process is not None
    os.kill(gateway.process.pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        assert await asyncio.gather(*asked) == ["error"] * 8
    await eventually(lambda: worker.state == "unreachable", 30)

    port = worker.spec.url.rpartition(":")[2]
    words = [each.format(port=port, model=MODEL, python=PYTHON) for each in COMMANDS["mlx"]]
    quiet = asyncio.subprocess.DEVNULL
    again = await asyncio.create_subprocess_exec(*words, env={**os.environ, **QUIET}, stdout=quiet, stderr=quiet)
    try:
        await eventually(lambda: worker.state == "ready", 60)
        answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    finally:
        again.terminate()
        await again.wait()
    assert answer.choices[0].message.content == GREETING
