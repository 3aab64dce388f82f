"""One client suite for every real engine, through a gateway over each transport. Run by `make test-engines`."""

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from tests.engines.conftest import client_of
from tests.engines.running import COMES_UP_S, Running
from tests.gateway.conftest import eventually

from smg_core import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
GREETING = "Hello! How can I help you today?"
ENDLESS: dict[str, Any] = {"max_tokens": 1500, "stream": True, "extra_body": {"ignore_eos": True}}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "maximum": 9, "minimum": 0}},
    "required": ["x"],
    "additionalProperties": False,
}
TOOL = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


async def test_text_streamed_and_whole(
    engine: Running, gateway: Gateway, client: openai.AsyncOpenAI, model: str
) -> None:
    (worker,) = gateway.registry
    whole = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    stream = await client.chat.completions.create(
        model=model, messages=HELLO, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    assert worker.facts.dialect == engine.engine.name
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (GREETING, "stop")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == GREETING
    assert whole.usage is not None
    assert chunks[-1].usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (20, 10)
    assert chunks[-1].usage.completion_tokens == 10


async def test_stop_strings(client: openai.AsyncOpenAI, model: str) -> None:
    cut = await client.chat.completions.create(model=model, messages=HELLO, temperature=0, stop=["help"])
    stream = await client.chat.completions.create(
        model=model, messages=HELLO, temperature=0, stop=["help"], stream=True
    )
    streamed = [chunk.choices[0] async for chunk in stream]

    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("Hello! How can I ", "stop")
    assert "".join(choice.delta.content or "" for choice in streamed) == "Hello! How can I "
    assert streamed[-1].finish_reason == "stop"


async def test_several_choices(client: openai.AsyncOpenAI, model: str) -> None:
    sampled = await client.chat.completions.create(
        model=model, messages=HELLO, temperature=1.5, n=3, max_tokens=12, extra_body={"ignore_eos": True}
    )
    greedy = await client.chat.completions.create(model=model, messages=HELLO, temperature=0, n=2)

    assert [choice.index for choice in sampled.choices] == [0, 1, 2]
    assert sampled.usage is not None
    assert sampled.usage.completion_tokens == 36
    assert [choice.message.content for choice in greedy.choices] == [GREETING] * 2


async def test_a_seed_repeats_an_answer_where_the_engine_can_or_is_refused_by_name(
    engine: Running, gateway: Gateway, client: openai.AsyncOpenAI, model: str
) -> None:
    (worker,) = gateway.registry
    asked: dict[str, Any] = {"model": model, "messages": HELLO, "temperature": 1.5, "max_tokens": 12, "seed": 4}
    if worker.facts.seed:
        texts = [(await client.chat.completions.create(**asked)).choices[0].message.content for _ in range(2)]
        assert all(texts)
        assert texts[0] == texts[1] or not engine.engine.repeats
    else:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**asked)
        assert caught.value.param == "seed"


async def test_logprobs(client: openai.AsyncOpenAI, model: str) -> None:
    for alternatives in (0, 3):
        answer = await client.chat.completions.create(
            model=model, messages=HELLO, temperature=0, logprobs=True, top_logprobs=alternatives, max_tokens=4
        )
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert [len(each.top_logprobs) for each in logprobs.content or ()] == [alternatives] * 4
        spelt = b"".join(bytes(each.bytes or ()) for each in logprobs.content or ())
        assert spelt.decode() == answer.choices[0].message.content


async def test_a_tool_is_called(client: openai.AsyncOpenAI, model: str) -> None:
    asked: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [{"type": "function", "function": TOOL}],
        "temperature": 0,
    }
    answer = await client.chat.completions.create(**asked)
    streamed = [chunk.choices[0] async for chunk in await client.chat.completions.create(stream=True, **asked)]
    calls: Any = answer.choices[0].message.tool_calls
    names = [call.function.name for each in streamed for call in each.delta.tool_calls or () if call.function]

    assert [call.function.name for call in calls] == ["get_weather"]
    assert [name for name in names if name] == ["get_weather"]
    assert answer.choices[0].finish_reason == streamed[-1].finish_reason == "tool_calls"


async def test_messages(gateway: Gateway, model: str) -> None:
    http: Any = gateway.http_client(anthropic)
    asked: dict[str, Any] = {"model": model, "max_tokens": 40, "messages": HELLO, "extra_body": {"temperature": 0}}
    async with anthropic.AsyncAnthropic(http_client=http, base_url="http://gateway", api_key="-") as client:
        answer: Any = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()

    assert (answer.content[0].text, answer.stop_reason) == (GREETING, "end_turn")
    assert [(each.type, each.text) for each in streamed.content if each.type == "text"] == [("text", GREETING)]
    assert streamed.stop_reason == "end_turn"


async def test_a_schema_is_held_or_refused_by_name(gateway: Gateway, client: openai.AsyncOpenAI, model: str) -> None:
    (worker,) = gateway.registry
    asked: Any = {
        "model": model,
        "messages": HELLO,
        "response_format": {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": POINT}},
        "max_tokens": 60,
        "temperature": 0,
    }
    if worker.facts.constraints:
        answer = await client.chat.completions.create(**asked)
        assert (answer.choices[0].message.content or "").replace(" ", "").startswith('{"x":')
    else:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**asked)
        assert (caught.value.param or "").startswith("response_format")


async def test_what_the_engine_would_refuse_or_die_of_is_refused_by_name(
    client: openai.AsyncOpenAI, model: str
) -> None:
    for fields, param in (
        ({"logit_bias": {"99999": 1}}, "logit_bias"),
        ({"extra_body": {"stop_token_ids": [99999]}}, "stop_token_ids"),
        ({"max_tokens": 100_000}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"messages": [{"role": "user", "content": "far too long " * 4000}]}, "messages"),
    ):
        asked: Any = {"model": model, "messages": HELLO, **fields}
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**asked)
        assert (caught.value.param or "").startswith(param)

    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    assert answer.choices[0].message.content == GREETING


async def test_a_client_that_leaves_ends_the_engines_work(
    gateway: Gateway, client: openai.AsyncOpenAI, model: str
) -> None:
    (worker,) = gateway.registry
    stream = await client.chat.completions.create(model=model, messages=HELLO, **ENDLESS)
    async for _ in stream:
        break
    await stream.close()

    await eventually(lambda: worker.in_flight == 0)
    while (load := await worker.engine.loads()) is not None and load.running:  # bounded by the test's own time
        await asyncio.sleep(0.1)
    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    assert answer.choices[0].message.content == GREETING


async def test_an_engine_killed_under_load_leaves_no_request_open_and_serves_again_when_it_is_back(
    engine: Running, tmp_path: Path
) -> None:
    async def ask(name: str, number: int) -> str:
        client, text = clients[name], ""
        model = next(iter(engine.gateways[name].models))
        try:
            async for chunk in await client.chat.completions.create(model=model, messages=HELLO, **ENDLESS):
                text += chunk.choices[0].delta.content or "" if chunk.choices else ""
                streaming.add((name, number))
        except openai.APIError:
            return "error"
        return text

    clients = {name: client_of(gateway) for name, gateway in engine.gateways.items()}
    streaming: set[tuple[str, int]] = set()
    asked = [asyncio.create_task(ask(name, number)) for name in clients for number in range(4)]
    await eventually(lambda: len(streaming) == 8, 120)
    engine.kill()
    async with asyncio.timeout(60):
        assert await asyncio.gather(*asked) == ["error"] * 8
    await eventually(lambda: all(worker.state == "unreachable" for worker in engine.workers), 60)

    await engine.start_again(tmp_path / "engine.log")
    for name, client in clients.items():
        model = next(iter(engine.gateways[name].models))
        answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
        assert answer.choices[0].message.content == GREETING
