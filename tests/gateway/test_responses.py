"""The Responses API through a whole gateway, by the official SDK."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from tests.gateway.conftest import House, in_process, over_http, settled

from smg_core.apis.responses.wire.grammar import check_stream
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

LOOK: Any = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with over_http(SimulatorConfig(seed=1)) as house:
        yield house


def sdk(house: House, **options: Any) -> openai.AsyncOpenAI:
    if house.url:
        return openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", **options)
    client = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(api_key="x", base_url="http://gateway/v1", http_client=client, **options)


async def test_a_response_is_whole_and_the_same_as_its_stream(house: House) -> None:
    async with sdk(house) as client:
        whole = await client.responses.create(model="sim", input="Hello", max_output_tokens=50, temperature=0)
        async with client.responses.stream(model="sim", input="Hello", max_output_tokens=50, temperature=0) as stream:
            events = [event async for event in stream]
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")
    assert last.response.output_text == whole.output_text != ""
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prewarm_fills_the_cache_and_says_nothing(house: House, stream: bool) -> None:
    asked: Any = {"model": "sim", "instructions": "Be brief. " * 40, "input": "Hello", "max_output_tokens": 50}
    prewarm = {"prewarm": True, "comparison_response_id": "resp_0"}
    body = {**asked, "prompt_cache_options": prewarm, "stream": stream}
    warm = await house.http.post("/v1/responses", json=body)
    await settled(house)  # the engine counts a token when it has sent it
    made = house.engine.counters["tokens"]
    async with sdk(house) as client:
        answered = await client.responses.create(**asked)

    events = [event.partition("data: ")[2] for event in warm.text.split("\n\n") if event]
    told = json.loads(events[-1])["response"] if stream else warm.json()
    assert (told["status"], told["output"], made) == ("completed", [], 1)
    assert (told["usage"]["output_tokens"], told["prompt_cache_diagnostics"]) == (0, {"type": "unavailable"})
    assert answered.output_text
    assert answered.usage is not None
    assert answered.usage.input_tokens_details.cached_tokens > 0
    assert answered.usage.input_tokens == told["usage"]["input_tokens"]


async def test_the_streaming_helper_gives_the_final_response(house: House) -> None:
    async with (
        sdk(house) as client,
        client.responses.stream(model="sim", input="Hello", max_output_tokens=4000) as stream,
    ):
        text = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        final = await stream.get_final_response()
    assert (final.status, final.output_text) == ("completed", text)


async def test_an_answer_parses_into_a_type(house: House) -> None:
    class Person(BaseModel):
        name: str
        age: int

    async with sdk(house) as client:
        parsed = await client.responses.parse(model="sim", input="Who?", text_format=Person, max_output_tokens=500)
    assert isinstance(parsed.output_parsed, Person)


async def test_a_tools_call_goes_to_the_client_and_its_output_comes_back(house: House) -> None:
    async with sdk(house) as client:
        first = await client.responses.create(
            model="sim", input="Look!", tools=[LOOK], tool_choice="required", store=False
        )
        (call,) = [item for item in first.output if item.type == "function_call"]
        assert (first.status, call.name) == ("completed", "look")
        turns: Any = [{"role": "user", "content": "Look!"}, *first.output]
        turns.append({"type": "function_call_output", "call_id": call.call_id, "output": "Sun."})
        second = await client.responses.create(model="sim", input=turns, tools=[LOOK], tool_choice="none", store=False)
    assert second.output_text


async def test_every_stream_over_http_keeps_the_grammar(house: House) -> None:
    async with sdk(house) as client:
        for fields in ({}, {"tools": [LOOK], "tool_choice": "required"}, {"max_output_tokens": 3}):
            stream = await client.responses.create(model="sim", input="Hello", stream=True, **fields)  # type: ignore[call-overload]
            check_stream([event.to_dict() async for event in stream])


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("fields", "status", "param", "code"),
    [
        ({"model": "nobody"}, 404, "model", "model_not_found"),
        ({"input": [{"role": "wizard", "content": "x"}]}, 400, "input[0].role", "invalid_value"),
        ({"max_output_tokens": 10**8}, 400, "max_output_tokens", "context_length_exceeded"),
        ({"input": "x " * 200_000}, 400, "input", "context_length_exceeded"),
    ],
)
async def test_a_refusal_names_the_field_in_the_apis_envelope(
    house: House, fields: dict[str, Any], status: int, param: str, code: str
) -> None:
    async with sdk(house) as client:
        with pytest.raises(openai.APIStatusError) as raised:
            await client.responses.create(**{"model": "sim", "input": "Hello", **fields})
    error = raised.value
    assert (error.status_code, error.body["param"], error.code) == (status, param, code)  # type: ignore[index, call-overload]
    assert error.request_id


@pytest.mark.full
async def test_a_prompt_over_the_context_loses_its_oldest_turns_where_the_client_wants_that(house: House) -> None:
    turns: Any = []
    for number in range(300):
        turns += [{"role": "user", "content": f"{number} " + "word " * 200}, {"role": "assistant", "content": "yes"}]
    turns.append({"role": "user", "content": "And now?"})
    async with sdk(house) as client:
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="sim", input=turns, max_output_tokens=20)
        short = await client.responses.create(
            model="sim", input=turns, max_output_tokens=20, truncation="auto", instructions="Be brief."
        )
    assert short.truncation == "auto"
    assert short.usage is not None
    assert short.usage.input_tokens < 32768


async def test_a_gateway_without_a_worker_tells_a_stream_of_it_inside() -> None:
    async with in_process(SimulatorConfig(seed=1)) as house, sdk(house, max_retries=0) as client:
        house.gateway.drain_worker(next(iter(house.gateway.registry)).name)
        stream = await client.responses.create(model="sim", input="Hello", stream=True)
        events = [event.to_dict() async for event in stream]
        with pytest.raises(openai.InternalServerError) as raised:
            await client.responses.create(model="sim", input="Hello")
    check_stream(events)
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == "server_is_overloaded"  # type: ignore[index]
    assert (raised.value.status_code, raised.value.code) == (503, "server_is_overloaded")
    assert int(raised.value.response.headers["retry-after"]) >= 1
