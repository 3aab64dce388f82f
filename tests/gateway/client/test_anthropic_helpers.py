"""What the official SDK of the Messages API does by itself: retries, the events and snapshots of its streams, and leaving."""

from typing import Any

import anthropic
import attrs
import pytest
from anthropic import AsyncAnthropic
from tests.gateway.client.test_anthropic_sdk import CALLS, HELLO, KEYS, SAYS, WEATHER, here, told
from tests.gateway.conftest import eventually, in_process, settled

from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.errors import RateLimited
from smg_core.hooks import RequestFinished
from smg_core.request import Caller
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SOON = attrs.evolve(KEYS, limits=LimitsConfig(retry_after_s=0.01))
FULL = Fault("refuse", status="RESOURCE_EXHAUSTED")


@pytest.mark.full
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_an_overloaded_gateway_is_asked_again_as_often_as_the_sdk_was_told(streams: bool) -> None:
    simulator = attrs.evolve(SAYS, faults=(FULL, FULL, None))
    async with here(simulator, retries=2, config=SOON) as talk:
        if streams:
            async with talk.stream() as stream:
                message = await stream.get_final_message()
        else:
            message = await talk.create()
        observer = talk.house.observer
        await eventually(lambda: len(observer.of(RequestFinished)) == 3)
    assert told(message.content) == [("text", "Hello to you.")]


async def test_a_caller_over_its_rate_is_asked_to_wait_and_the_sdk_does() -> None:
    refusals = [RateLimited("This key sends too many requests.", retry_after=0.01) for _ in range(2)]
    tries: list[str] = []

    async def limited(head: Head) -> Caller:
        tries.append(head.headers["x-stainless-retry-count"])
        if refusals:
            raise refusals.pop()
        return Caller()

    async with in_process(SAYS, config=KEYS) as house:
        app = App(house.gateway, limited)
        async with AsyncAnthropic(
            base_url="http://gateway", api_key="-", max_retries=2, http_client=async_client(app, anthropic)
        ) as sdk:
            message = await sdk.messages.create(model="sim", max_tokens=50, messages=HELLO)
            refusals.extend(RateLimited("This key sends too many requests.", retry_after=0.01) for _ in range(3))
            with pytest.raises(anthropic.RateLimitError) as error:
                await sdk.messages.create(model="sim", max_tokens=50, messages=HELLO)

    assert told(message.content) == [("text", "Hello to you.")]
    assert tries == ["0", "1", "2"] * 2
    assert error.value.response.headers["retry-after"] == "1"
    body: Any = error.value.body
    assert body["error"]["type"] == "rate_limit_error"


async def test_the_streams_helpers_give_each_piece_and_its_snapshot() -> None:
    async with here(attrs.evolve(SAYS, replies=(CALLS,))) as talk, talk.stream(tools=[WEATHER]) as stream:
        events = [event async for event in stream]
        message = await stream.get_final_message()

    def of(kind: str) -> list[Any]:
        return [event for event in events if event.type == kind]

    thinking, text, *calls = message.content
    assert "".join(event.thinking for event in of("thinking")) == of("thinking")[-1].snapshot == thinking.thinking
    assert [event.signature for event in of("signature")] == [thinking.signature]
    assert "".join(event.text for event in of("text")) == of("text")[-1].snapshot == text.text
    assert of("input_json")[-1].snapshot == calls[-1].input == {"city": "Rome"}
    assert [event.content_block.type for event in of("content_block_stop")] == [each.type for each in message.content]
    assert of("message_stop")[-1].message == message
    assert message.usage.output_tokens > 1


async def test_the_final_text_is_that_of_the_last_message() -> None:
    async with here() as talk, talk.stream() as stream:
        assert (await stream.get_final_text()).strip() == "Hello to you."


@pytest.mark.full
async def test_a_client_that_leaves_between_two_blocks_leaves_nothing_behind() -> None:
    slow = Timing(decode_rate=50, prefill_rate=None)
    long = Reply("word " * 4000, "Is it so?")
    simulator = SimulatorConfig(replies=(long,), timing=slow)
    async with here(simulator) as talk:
        async with talk.stream(max_tokens=8000) as stream:
            async for event in stream:
                if event.type == "content_block_stop":
                    break
        house = talk.house
        await eventually(lambda: house.engine.aborted)
        await settled(house)
    assert event.content_block.type == "thinking"
    assert house.engine.counters["finished"] == 0
