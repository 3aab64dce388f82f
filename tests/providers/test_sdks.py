"""Official SDKs: each reads its own provider's fake as the script says, and the gateway before every fake."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai
from tests.providers.answers import FORMATS, KEY, SIGNATURE, script
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.client_apis import SCHEMA
from tests.providers.fake import FakeProvider, providing
from tests.providers.houses import House, before

pytestmark = pytest.mark.anyio

CALL = ("get_weather", {"city": "Paris"})


# ------------------------------------------------------------------------------------- an SDK before its provider's fake


@pytest.fixture
async def fake(request: pytest.FixtureRequest) -> AsyncIterator[tuple[FakeProvider, str]]:
    form = FORMATS[request.param]
    async with providing(script(form, "thinking_tool")) as provider:
        yield provider, form.model


@pytest.mark.parametrize("fake", ["anthropic"], indirect=True)
async def test_anthropics_sdk_reads_the_fake_of_messages(fake: tuple[FakeProvider, str]) -> None:
    provider, model = fake
    async with anthropic.AsyncAnthropic(base_url=provider.url, api_key=KEY, max_retries=0) as client:
        asked: Any = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        async with client.messages.stream(**asked) as stream:
            message = await stream.get_final_message()

        thought, call = message.content
        assert (thought.type, thought.signature) == ("thinking", SIGNATURE)
        assert (call.name, call.input) == CALL
        assert message.stop_reason == "tool_use"
        assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 9)
        assert (await client.models.retrieve(model)).max_tokens == 64_000
        assert (await client.messages.count_tokens(model=model, messages=asked["messages"])).input_tokens == 14
        provider.script = script(FORMATS["anthropic"], "limited")
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**asked)


@pytest.mark.parametrize("fake", ["gemini"], indirect=True)
async def test_googles_sdk_reads_the_fake_of_generate_content(fake: tuple[FakeProvider, str]) -> None:
    provider, model = fake
    options = genai.types.HttpOptions(base_url=provider.url)
    async with genai.Client(api_key=KEY, http_options=options).aio as client:
        chunks = [each async for each in await client.models.generate_content_stream(model=model, contents="Hi")]

        call = chunks[-1].candidates[0].content.parts[0]
        assert (call.function_call.name, call.function_call.args) == CALL
        assert call.thought_signature is not None
        assert chunks[-1].usage_metadata.thoughts_token_count == 5
        assert (await client.models.get(model=model)).input_token_limit == 1_000_000
        assert (await client.models.count_tokens(model=model, contents="Hi")).total_tokens == 14
        provider.script = script(FORMATS["gemini"], "limited")
        with pytest.raises(genai.errors.ClientError, match="429"):
            await client.models.generate_content(model=model, contents="Hi")


@pytest.mark.parametrize("fake", ["openai-responses"], indirect=True)
async def test_openais_sdk_reads_the_fake_of_responses(fake: tuple[FakeProvider, str]) -> None:
    provider, model = fake
    async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key=KEY, max_retries=0) as client:
        async with client.responses.stream(model=model, input="Hi") as stream:
            response = await stream.get_final_response()

        thought, call = response.output
        assert thought.encrypted_content == SIGNATURE
        assert (call.name, call.arguments) == ("get_weather", '{"city":"Paris"}')
        assert response.usage.input_tokens_details.cached_tokens == 3
        assert (await client.models.retrieve(model)).id == model
        assert (await client.responses.input_tokens.count(model=model, input="Hi")).input_tokens == 14
        provider.script = script(FORMATS["openai-responses"], "limited")
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model=model, input="Hi")


# -------------------------------------------------------------------------------- every SDK at the gateway before each fake


@pytest.fixture(scope="module", params=[kind for kind, form in ALL_FORMATS.items() if form.signs])
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(ALL_FORMATS[request.param]) as found:
        yield found


async def test_openais_sdk_speaks_chat_to_every_provider(house: House) -> None:
    async with openai.AsyncOpenAI(
        base_url="http://gateway/v1", api_key="k", http_client=house.gateway.http_client(openai), max_retries=0
    ) as client:
        house.says("parallel")
        tool: Any = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
        messages: Any = [{"role": "user", "content": "Hi"}]
        async with client.chat.completions.stream(model="m", messages=messages, tools=[tool]) as stream:
            answer = await stream.get_final_completion()
        calls = answer.choices[0].message.tool_calls or []
        assert [each.function.arguments for each in calls] == ['{"city":"Paris"}', '{"city":"Rome"}']

        house.says("text")
        results = [{"role": "tool", "tool_call_id": each.id, "content": "sunny"} for each in calls]
        turns = [*messages, answer.choices[0].message.model_dump(exclude_none=True), *results]
        again = await client.chat.completions.create(model="m", messages=turns, tools=[tool])
        assert again.choices[0].message.content == "Hello"
        sent = house.provider.asked[0].body.decode()
        assert sent.count("sunny") == 2
        assert (SIGNATURE in sent) == (house.form.kind == "gemini")  # which has signed the first call

        house.says("limited")
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="m", messages=messages)


@pytest.mark.full
async def test_openais_sdk_speaks_responses_to_every_provider(house: House) -> None:
    async with openai.AsyncOpenAI(
        base_url="http://gateway/v1", api_key="k", http_client=house.gateway.http_client(openai), max_retries=0
    ) as client:
        house.says("thinking")
        fields: Any = {"model": "m", "store": False, "include": ["reasoning.encrypted_content"]}
        effort: Any = {"effort": "medium"}
        async with client.responses.stream(input="Hi", reasoning=effort, **fields) as stream:
            answer = await stream.get_final_response()
        assert answer.output_text == "Hello"
        assert answer.usage is not None
        assert answer.usage.input_tokens == 12

        house.says("failed")
        with pytest.raises(openai.InternalServerError):
            await client.responses.create(input="Hi", **fields)


async def test_anthropics_sdk_speaks_messages_to_every_provider(house: House) -> None:
    async with anthropic.AsyncAnthropic(
        base_url="http://gateway", api_key="k", http_client=house.gateway.http_client(anthropic), max_retries=0
    ) as client:
        house.says("thinking_tool")
        body: Any = {
            "model": "m",
            "max_tokens": 4096,
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
        }
        turns: Any = [{"role": "user", "content": "Hi"}]
        async with client.messages.stream(messages=turns, **body) as stream:
            message = await stream.get_final_message()
        call = next(each for each in message.content if each.type == "tool_use")
        assert (call.name, call.input) == CALL
        assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 0

        house.says("text")
        spoken = {"role": "assistant", "content": [each.model_dump(exclude_none=True) for each in message.content]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]}
        again = await client.messages.create(messages=[*turns, spoken, result], **body)
        assert again.content[-1].text == "Hello"
        assert SIGNATURE in house.provider.asked[0].body.decode()

        house.says("overloaded")
        with pytest.raises(anthropic.APIStatusError) as raised:
            await client.messages.create(messages=turns, **body)
        assert raised.value.status_code == 529


async def test_googles_sdk_speaks_generate_content_to_every_provider(house: House) -> None:
    transport = house.gateway.http_client(httpx, base_url="http://gateway")
    options = genai.types.HttpOptions(base_url="http://gateway", httpx_async_client=transport)
    client = genai.Client(api_key="-", http_options=options).aio
    house.says("thinking_tool")
    declared = {"name": "get_weather", "description": "The weather", "parameters_json_schema": SCHEMA}
    config: Any = {
        "tools": [{"function_declarations": [declared]}],
        "thinking_config": {"include_thoughts": True, "thinking_budget": 2048},
        "automatic_function_calling": {"disable": True},
    }
    answer = await client.models.generate_content(model="m", contents="Hi", config=config)
    parts = answer.candidates[0].content.parts
    call = next(each for each in parts if each.function_call)
    assert (call.function_call.name, call.function_call.args) == CALL

    house.says("text")
    result = genai.types.Part.from_function_response(name="get_weather", response={"output": "sunny"})
    result.function_response.id = call.function_call.id
    turns: Any = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        answer.candidates[0].content,
        {"role": "user", "parts": [result]},
    ]
    texts = [
        each.text
        async for each in await client.models.generate_content_stream(model="m", contents=turns, config=config)
    ]
    assert "".join(text or "" for text in texts) == "Hello"
    assert SIGNATURE in house.provider.asked[0].body.decode()

    house.says("no_model")
    with pytest.raises(genai.errors.ClientError, match="404"):
        await client.models.generate_content(model="m", contents="Hi")
    await transport.aclose()
