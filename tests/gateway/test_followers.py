"""Every stream of what is made in the background ends with an event that says so, also where the answer goes away meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import attrs
import httpx
import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.http.settings import ResponsesConfig
from smg_core.sse import SseReader
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ENDLESS = SimulatorConfig(rules=(Rule((), Reply("word " * 3000)),), timing=Timing(decode_rate=100))
QUICK = SimulatorConfig(rules=(Rule((), Reply("Yes.")),))
CONFIG = Config(responses=ResponsesConfig(poll_s=0.02, lease_s=60.0, batch_s=0.01))


@attrs.frozen
class Followed:
    """An API whose answers can be made in the background: where its ids and numbers are in events."""

    path: str
    type: str
    object: str
    number: str
    after: str

    def number_of(self, event: dict[str, Any]) -> int:
        return int(str(event[self.number]).rpartition(".")[2])


APIS = (
    Followed("/v1/responses", "type", "response", "sequence_number", "starting_after"),
    Followed("/v1beta/interactions", "event_type", "interaction", "event_id", "last_event_id"),
    Followed("/v1alpha/interactions", "event_type", "interaction", "event_id", "last_event_id"),
)
ASKED = {"model": "sim", "input": "Hello", "background": True, "stream": True}


async def events_of(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    reader = SseReader()
    async for piece in answer.aiter_bytes():
        for event in reader.feed(piece):
            if event.data != "[DONE]":
                yield json.loads(event.data)


async def follow(house: House, at: str, began: asyncio.Event) -> list[dict[str, Any]]:
    """The events of an answer to the end of the stream. `began` is set once there is one."""
    found = []
    async with house.http.stream("GET", at, params={"stream": "true"}) as answer:
        async for event in events_of(answer):
            found.append(event)
            began.set()
    return found


@pytest.mark.full
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.path)
async def test_who_follows_an_answer_that_is_deleted_is_told_by_one_error(api: Followed) -> None:
    async with (
        over_http(ENDLESS, config=CONFIG) as house,
        asyncio.timeout(PATIENCE),
        house.http.stream("POST", api.path, json=ASKED) as answer,
    ):
        own = events_of(answer)
        seen = [await anext(own)]
        at = f"{api.path}/{seen[0][api.object]['id']}"
        began = [asyncio.Event() for _ in range(3)]
        others = [asyncio.create_task(follow(house, at, each)) for each in began]
        for each in began:
            await each.wait()
        assert (await house.http.delete(at)).status_code == 200
        streams = [[*seen, *[event async for event in own]], *await asyncio.gather(*others)]
    for events in streams:
        assert [event[api.type] for event in events].index("error") == len(events) - 1
        assert [api.number_of(event) for event in events] == list(range(len(events)))
        assert "deleted" in json.dumps(events[-1])


@pytest.mark.full
async def test_the_sdk_reads_the_error_of_a_response_that_is_deleted() -> None:
    async with (
        over_http(ENDLESS, config=CONFIG) as house,
        asyncio.timeout(PATIENCE),
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        stream = await client.responses.create(model="sim", input="Hello", background=True, stream=True)
        first = await anext(stream)
        assert first.type in ("response.queued", "response.created")
        await client.responses.delete(first.response.id)
        *_, last = [event async for event in stream]
    assert last.type == "error"
    assert "deleted" in last.message


@pytest.mark.full
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.path)
async def test_who_goes_on_behind_the_end_of_an_answer_is_told_nothing_more(api: Followed) -> None:
    async with over_http(QUICK, config=CONFIG) as house, asyncio.timeout(PATIENCE):
        async with house.http.stream("POST", api.path, json=ASKED) as answer:
            events = [event async for event in events_of(answer)]
        at = f"{api.path}/{events[0][api.object]['id']}"
        last = str(events[-1][api.number])
        again = await house.http.get(at, params={"stream": "true", api.after: last})
    assert (again.status_code, again.content) == (200, b"")
