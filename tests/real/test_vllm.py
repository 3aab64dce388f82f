"""The gateway before a real vLLM: run by `make test-real ENGINE=grpc://host:port` (any chat model; a tiny one on CPU will do).

What is asserted holds for every model: lengths, reasons, formats and errors, not what it says.
"""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from smg_core import Config, Gateway
from smg_core.workers.settings import WorkersConfig

pytestmark = [pytest.mark.anyio, pytest.mark.real]

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
        },
    },
}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "maximum": 9, "minimum": 0}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.fixture(params=["h2", "grpcio"])
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    config = Config(workers=WorkersConfig(transport=request.param))
    async with Gateway([os.environ["SMG_REAL_ENGINE"]], config=config) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> openai.AsyncOpenAI:
    http = gateway.http_client(openai)
    return openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)


@pytest.fixture
def model(gateway: Gateway) -> str:
    return next(iter(gateway.models))


async def test_a_stream_adds_up_to_the_whole_answer(client: openai.AsyncOpenAI, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "messages": HELLO, "temperature": 0, "max_tokens": 40}
    whole = await client.chat.completions.create(**asked)
    stream = await client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked)
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


async def test_max_tokens_cuts_the_answer(client: openai.AsyncOpenAI, model: str) -> None:
    answer = await client.chat.completions.create(
        model=model, messages=HELLO, max_tokens=3, extra_body={"ignore_eos": True}
    )

    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_several_choices_come(client: openai.AsyncOpenAI, model: str, temperature: float) -> None:
    answer = await client.chat.completions.create(
        model=model, messages=HELLO, n=3, temperature=temperature, max_tokens=20
    )

    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert temperature or len({choice.message.content for choice in answer.choices}) == 1


async def test_logprobs_spell_the_answer(client: openai.AsyncOpenAI, model: str) -> None:
    answer = await client.chat.completions.create(
        model=model, messages=HELLO, logprobs=True, top_logprobs=2, temperature=0, max_tokens=12
    )
    (choice,) = answer.choices
    assert choice.logprobs is not None
    content = choice.logprobs.content or []

    assert b"".join(bytes(each.bytes or ()) for each in content).decode() == choice.message.content
    assert all(len(each.top_logprobs) == 2 for each in content)


async def test_a_stop_string_is_not_part_of_the_answer(client: openai.AsyncOpenAI, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "messages": HELLO, "temperature": 0, "max_tokens": 40}
    text = (await client.chat.completions.create(**asked)).choices[0].message.content or ""
    stop = text[len(text) // 2 :][:4]
    answer = await client.chat.completions.create(stop=[stop], **asked)

    assert answer.choices[0].message.content == text.partition(stop)[0]
    assert answer.choices[0].finish_reason == "stop"


async def test_a_schema_is_held(client: openai.AsyncOpenAI, model: str) -> None:
    schema = {"name": "point", "strict": True, "schema": POINT}
    answer = await client.chat.completions.create(
        model=model,
        messages=HELLO,
        response_format={"type": "json_schema", "json_schema": schema},  # type: ignore[typeddict-item]
        max_tokens=200,
        temperature=0,
    )

    assert json.loads(answer.choices[0].message.content or "")["x"] in range(10)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
async def test_a_call_that_must_be_made_ends_the_answer(client: openai.AsyncOpenAI, model: str, choice: Any) -> None:
    answer = await client.chat.completions.create(
        model=model, messages=HELLO, tools=[WEATHER], tool_choice=choice, temperature=0, max_tokens=300
    )
    calls: Any = answer.choices[0].message.tool_calls

    assert answer.choices[0].finish_reason == "tool_calls"
    assert set(json.loads(calls[0].function.arguments)) == {"city"}


async def test_what_an_engine_would_die_of_never_reaches_it(client: openai.AsyncOpenAI, model: str) -> None:
    long: list[Any] = [{"role": "user", "content": "word " * 400_000}]
    for asked in (
        {"messages": long},
        {"messages": HELLO, "max_tokens": 10_000_000},
        {"messages": []},
        {"messages": HELLO, "logit_bias": {"100000000": 1}},
        {"messages": HELLO, "extra_body": {"stop_token_ids": [100_000_000]}},
        {
            "messages": HELLO,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 3}}},
        },
    ):
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model=model, **asked)  # type: ignore[arg-type]
    answer = await client.chat.completions.create(model=model, messages=HELLO, max_tokens=2)

    assert answer.choices


async def test_a_repeated_prompt_is_found_in_the_engines_cache(client: openai.AsyncOpenAI, model: str) -> None:
    prompt: list[Any] = [{"role": "user", "content": "The same words again and again. " * 20}]
    for _ in range(2):
        answer = await client.chat.completions.create(model=model, messages=prompt, max_tokens=2)
    usage = answer.usage

    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens_details.cached_tokens or 0) > 0


async def test_the_engine_tells_of_itself(gateway: Gateway) -> None:
    (worker,) = gateway.registry
    loads = await worker.engine.loads()

    assert await worker.engine.health()
    assert loads.ranks
    assert (await worker.engine.describe())[1].block_size > 0
