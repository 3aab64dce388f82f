"""Responses over real HTTP as the official SDK uses it: its helpers, iterators, retries and time-outs, synchronous and not."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from tests.clients.gateway import thoughtful_template
from tests.gateway.conftest import House, over_http, settled

from smg_core import Config
from smg_core.app.app import App
from smg_core.auth.base import Head
from smg_core.errors import RateLimited
from smg_core.hooks import ExchangeEnded
from smg_core.request import Caller
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK: Any = {"type": "function", "name": "look", "strict": None, "parameters": PARAMETERS}
CALL = Reply(reasoning="I must look.", tool_calls=(("look", {"city": "Paris"}),))
SOON = Config(limits=LimitsConfig(retry_after_s=0.01))
FULL = Fault("refuse", status="RESOURCE_EXHAUSTED")


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """One gateway for all tests here; its model is shown its earlier reasoning."""
    template = thoughtful_template(tmp_path_factory.mktemp("template"))
    config = Config(limits=SOON.limits, tokenizer=TokenizerConfig(chat_template=template))
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


def sdk(house: House, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", **options)


@pytest.fixture(scope="module")
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with sdk(house) as client:
        yield client


@contextmanager
def synchronous(house: House) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="x", base_url=f"{house.url}/v1") as client:
        yield client


def last_prompt(house: House) -> str:
    """What the engine was given by the newest request."""
    engine = house.engine.engine
    return engine.vocabulary.decode(list(house.engine.requests[-1].input_ids), skip_special_tokens=False)


def statuses(house: House, path: str = "/v1/responses") -> list[int]:
    return [each.status for each in house.observer.of(ExchangeEnded) if each.path == path]


# ------------------------------------------------------------------------------------------------------------- helpers


async def test_a_helper_gives_every_kind_of_event_and_the_final_response(
    house: House, client: openai.AsyncOpenAI
) -> None:
    house.engine.say(Reply("Yes.", reasoning="Let me see."))
    async with client.responses.stream(model="sim", input="Hello") as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert final.output_text.strip() == "Yes."
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert {"response.reasoning_text.delta", "response.output_text.delta"} < set(kinds)


async def test_a_helper_parses_what_it_streams(house: House, client: openai.AsyncOpenAI) -> None:
    asked: Any = {"model": "sim", "input": "Who?", "text_format": Person}
    async with client.responses.stream(**asked) as stream:
        final: Any = await stream.get_final_response()
    assert isinstance(final.output_parsed, Person)


async def test_the_arguments_of_a_streamed_call_are_parsed_by_its_model(
    house: House, client: openai.AsyncOpenAI
) -> None:
    class Look(BaseModel):
        city: str

    house.engine.say(CALL)
    tool: Any = openai.pydantic_function_tool(Look, name="look")["function"] | {"type": "function"}
    async with client.responses.stream(model="sim", input="How is the weather?", tools=[tool]) as stream:
        deltas = "".join([each.delta async for each in stream if each.type == "response.function_call_arguments.delta"])
        final: Any = await stream.get_final_response()
    (call,) = [item for item in final.output if item.type == "function_call"]
    assert call.arguments == deltas
    assert Look.model_validate(call.parsed_arguments) == Look(city="Paris")


async def test_the_synchronous_sdk_does_the_same(house: House) -> None:
    house.engine.say(Reply("One."), Reply("Two."))

    def use() -> tuple[str, str, Any]:
        with synchronous(house) as client:
            whole = client.responses.create(model="sim", input="Hello")
            with client.responses.stream(model="sim", input="And?", previous_response_id=whole.id) as stream:
                for _ in stream:
                    pass
                final = stream.get_final_response()
            parsed = client.responses.parse(model="sim", input="Who?", text_format=Person)
            return whole.output_text.strip(), final.output_text.strip(), parsed.output_parsed

    one, two, person = await asyncio.to_thread(use)
    assert (one, two) == ("One.", "Two.")
    assert isinstance(person, Person)


async def test_a_raw_response_has_the_requests_id_and_the_same_object(house: House, client: openai.AsyncOpenAI) -> None:
    raw = await client.responses.with_raw_response.create(model="sim", input="Hello")
    parsed = raw.parse()
    async with client.responses.with_streaming_response.create(model="sim", input="Hello") as lines:
        assert lines.headers["x-request-id"]
        await lines.read()
    assert parsed._request_id == raw.headers["x-request-id"]
    assert parsed.output_text


# --------------------------------------------------------------------------------------------------------------- turns


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("stored", [False, True])
async def test_reasoning_comes_back_to_the_model_with_a_tools_output(
    house: House, client: openai.AsyncOpenAI, stored: bool, streamed: bool
) -> None:
    """The client keeps the history, with sealed reasoning; or the gateway keeps it."""
    house.engine.say(CALL, Reply("It is sunny.", reasoning="Now I know."), Reply("Still."))
    asked: Any = {"model": "sim", "tools": [LOOK], "store": stored, "reasoning": {"summary": "auto"}}
    if not stored:
        asked["include"] = ["reasoning.encrypted_content"]
    turns: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    previous: str | None = None
    for said in ("", "It is sunny.", "Still."):
        if streamed:
            async with client.responses.stream(**asked, input=turns, previous_response_id=previous) as stream:
                answer: Any = await stream.get_final_response()
        else:
            answer = await client.responses.create(**asked, input=turns, previous_response_id=previous)
        assert answer.output_text.strip() == said
        new: list[Any] = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "Sun."}
            for item in answer.output
            if item.type == "function_call"
        ] or [{"role": "user", "content": "Still?"}]
        turns, previous = (new, answer.id) if stored else ([*turns, *map(_replayed, answer.output), *new], None)
    prompt = last_prompt(house)
    assert prompt.index("I must look.") < prompt.index("Sun.") < prompt.index("Now I know.")


def _replayed(item: Any) -> dict[str, Any]:
    """An item as a client sends it back that shows nobody what was thought: sealed, without text."""
    replayed: dict[str, Any] = item.to_dict()
    return replayed | {"summary": [], "content": None} if item.type == "reasoning" else replayed


# --------------------------------------------------------------------------------------------------------------- pages


async def test_pages_are_walked_to_their_end(house: House, client: openai.AsyncOpenAI) -> None:
    turns: Any = [{"role": "user", "content": f"Turn {number}."} for number in range(45)]
    answer = await client.responses.create(model="sim", input=turns, max_output_tokens=5)
    items: list[Any] = [each async for each in client.responses.input_items.list(answer.id)]
    first = await client.responses.input_items.list(answer.id, limit=20, order="asc")
    sizes = [len(page.data) async for page in first.iter_pages()]
    talk = await client.conversations.create(items=turns[:20])
    await client.conversations.items.create(talk.id, items=turns[20:40])
    kept: list[Any] = [each async for each in client.conversations.items.list(talk.id, order="asc", limit=7)]
    assert [item.content[0].text for item in items] == [f"Turn {number}." for number in reversed(range(45))]
    assert sizes == [20, 20, 5]
    assert [item.content[0].text for item in kept] == [f"Turn {number}." for number in range(40)]
    assert len({item.id for item in kept}) == 40


async def test_the_synchronous_sdk_walks_pages_too(house: House) -> None:
    turns: Any = [{"role": "user", "content": f"Turn {number}."} for number in range(5)]

    def use() -> list[Any]:
        with synchronous(house) as client:
            answer = client.responses.create(model="sim", input=turns, max_output_tokens=5)
            return list(client.responses.input_items.list(answer.id, limit=2, order="asc"))

    items = await asyncio.to_thread(use)
    assert [item.content[0].text for item in items] == [f"Turn {number}." for number in range(5)]


# ------------------------------------------------------------------------------------------------- retries, time-outs


async def test_an_engine_that_is_full_is_asked_again(house: House, client: openai.AsyncOpenAI) -> None:
    before = len(statuses(house))
    house.engine.inject(FULL, FULL)
    answer = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
    assert answer.output
    assert statuses(house)[before:] == [503, 503, 200]


async def test_a_refusal_is_not_asked_again_and_retries_have_an_end(house: House, client: openai.AsyncOpenAI) -> None:
    before = len(statuses(house))
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(model="sim", input="Hello", temperature=9)
    house.engine.inject(FULL, FULL, FULL)
    with pytest.raises(openai.InternalServerError) as raised:
        await client.responses.create(model="sim", input="Hello")
    assert statuses(house)[before:] == [400, 503, 503, 503]
    assert raised.value.code == "server_is_overloaded"
    assert raised.value.response.headers["retry-after-ms"] == "10"


async def test_a_caller_with_too_many_requests_comes_again_when_it_is_told_to() -> None:
    refusals = iter([RateLimited("Slower.", retry_after=0.01), RateLimited("Slower.", retry_after=0.02)])

    async def identify(head: Head) -> Caller:
        for refusal in refusals:
            raise refusal
        return Caller(tenant="")

    def wrap(app: Any) -> App:
        return App(app._gateway, identify)

    async with over_http(SimulatorConfig(seed=1), wrap=wrap) as house, sdk(house, max_retries=2) as client:
        answer = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
        seen = statuses(house)
    assert answer.output
    assert seen == [429, 429, 200]


@pytest.mark.full
async def test_a_client_that_waits_no_longer_has_its_response_cancelled() -> None:
    async with over_http(SimulatorConfig(seed=1, faults=(Fault("stall"),))) as house:
        async with sdk(house, max_retries=0) as client:
            with pytest.raises(openai.APITimeoutError):
                await client.responses.create(model="sim", input="Hello", timeout=0.2)
        await settled(house)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_time_out_of_the_gateway_has_its_status_before_the_first_token(
    house: House, client: openai.AsyncOpenAI, streamed: bool
) -> None:
    house.engine.inject(Fault("stall"))
    asked: Any = {"model": "sim", "input": "Hello", "extra_headers": {"x-smg-request-timeout": "0.2"}}
    with pytest.raises(openai.InternalServerError) as raised:
        await client.with_options(max_retries=0).responses.create(**asked, stream=streamed)
    assert raised.value.status_code == 504


async def test_a_time_out_within_a_stream_fails_its_response(house: House, client: openai.AsyncOpenAI) -> None:
    house.engine.inject(Fault("stall", after=1))
    headers = {"x-smg-token-timeout": "0.2"}
    stream = await client.responses.create(model="sim", input="Hello", stream=True, extra_headers=headers)
    events = [event async for event in stream]
    assert events[-1].type == "response.failed"
    assert events[-1].response.error is not None


async def test_a_stream_that_is_closed_early_ends_its_response(house: House, client: openai.AsyncOpenAI) -> None:
    house.engine.say(Reply("word " * 3000))
    stream = await client.responses.create(model="sim", input="Hello", stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    await settled(house)
    again = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
    assert again.output
