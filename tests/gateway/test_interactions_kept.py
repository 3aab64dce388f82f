"""Interactions that are kept: made in the background, run again after a crash, cancelled, deleted, cut; tenants are apart."""

import asyncio
import json
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import House, eventually, in_process, over_http
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.apis.interactions.grammar import END, InteractionGrammar
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.errors import StoreFailed
from smg_core.history.memory.store import MemoryStore
from smg_core.history.settings import HistoryConfig
from smg_core.http.settings import ResponsesConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import Caller
from smg_core.sse import SseReader
from smg_core.testing import FakeClock
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

LONG = "A rather long answer that takes its time, word by word, until all of it is said. " * 4
PACED = SimulatorConfig(rules=(Rule((), Reply(LONG)),), timing=Timing(decode_rate=100))
ENDLESS = SimulatorConfig(rules=(Rule((), Reply("word " * 3000)),), timing=Timing(decode_rate=100))
QUICK = SimulatorConfig(rules=(Rule((), Reply("Yes.")),))
BRISK = ResponsesConfig(poll_s=0.02, lease_s=60.0, batch_s=0.01)
ENDED = ("completed", "incomplete", "failed", "cancelled")
STEPS, LEGACY = "/v1/interactions", "/v1beta/interactions"
ASKED: dict[str, Any] = {"model": "sim", "input": "Hello"}
Events = list[dict[str, Any]]


async def some_events(house: House, body: dict[str, Any], delta: str, path: str = STEPS) -> Events:
    """The events of a stream up to the first delta; then its client leaves."""
    reader, seen = SseReader(), Events()
    async with house.http.stream("POST", path, json={**body, "stream": True}) as answer:
        async for piece in answer.aiter_bytes():
            for event in reader.feed(piece):
                seen.append(json.loads(event.data))
                if seen[-1]["event_type"] == delta:
                    return seen
    raise AssertionError("the stream ended before its client left")


async def read_again(house: House, id: str, last: str = "", path: str = STEPS) -> Events:
    answer = await house.http.get(
        f"{path}/{id}", params={"stream": "true", **({"last_event_id": last} if last else {})}
    )
    assert answer.status_code == 200, answer.text
    data = [event.data for event in SseReader().feed(answer.content)]
    return [json.loads(each) for each in data if each != "[DONE]"]


async def polled(house: House, id: str, path: str = STEPS) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while (found := (await house.http.get(f"{path}/{id}")).json())["status"] not in ENDED:
            await asyncio.sleep(0.02)
    return dict(found)


def followed(events: Events) -> InteractionGrammar:
    grammar = InteractionGrammar()
    for place, event in enumerate(events):
        assert grammar.take(event) is None, (place, event)
    assert grammar.state == END
    return grammar


@pytest.mark.full
async def test_a_client_that_leaves_does_not_end_it_and_goes_on_behind_any_event() -> None:
    async with over_http(PACED, config=Config(responses=BRISK)) as house:
        seen = await some_events(house, {**ASKED, "background": True}, "step.delta")
        id = seen[0]["interaction"]["id"]
        rest = await read_again(house, id, seen[-1]["event_id"])
        whole = await read_again(house, id)
        for place in range(0, len(whole), 7):
            assert await read_again(house, id, whole[place]["event_id"]) == whole[place + 1 :]
        kept = (await house.http.get(f"{STEPS}/{id}")).json()

    grammar = followed(whole)
    assert whole == [*seen, *rest]
    assert kept["steps"] == grammar.steps
    assert kept["steps"][0]["content"][0]["text"] == LONG
    assert kept["status"] == "completed"


@pytest.mark.full
@pytest.mark.parametrize(("path", "delta"), [(STEPS, "step.delta"), (LEGACY, "content.delta")])
async def test_a_gateway_that_stops_gives_up_its_interactions_and_the_next_goes_on(
    tmp_path: Any, path: str, delta: str
) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    config = Config(responses=BRISK, history=history)
    async with over_http(ENDLESS, config=config) as house:
        seen = await some_events(house, {**ASKED, "background": True}, delta, path)
        id = seen[0]["interaction"]["id"]
    async with in_process(QUICK, config=config) as house:
        found = await polled(house, id)
        events = await read_again(house, id, path=path)

    grammar = followed(events)
    assert events[: len(seen)] == seen
    assert sum(each["event_type"] == seen[0]["event_type"] for each in events) == 1
    assert found["steps"] == grammar.steps
    assert found["steps"][-1]["content"][0]["text"] == "Yes."
    assert len(found["steps"]) == 2


@pytest.mark.full
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_interaction_stops_its_engine_and_stays_cancelled(streamed: bool) -> None:
    async with over_http(ENDLESS, config=Config(responses=BRISK)) as house:
        if streamed:
            seen = await some_events(house, {**ASKED, "background": True}, "step.delta")
            id = seen[0]["interaction"]["id"]
        else:
            id = (await house.http.post(STEPS, json={**ASKED, "background": True})).json()["id"]
            await eventually(lambda: house.engine.active)
        waits = {**ASKED, "previous_interaction_id": id}
        early = await house.http.post(STEPS, json=waits)
        cancelled = (await house.http.post(f"{STEPS}/{id}/cancel")).json()
        again = (await house.http.post(f"{STEPS}/{id}/cancel")).json()
        await eventually(lambda: not house.engine.active and not house.gateway.in_flight)
        kept = (await house.http.get(f"{STEPS}/{id}")).json()
        events = await read_again(house, id) if streamed else []

    assert (early.status_code, early.json()["error"]["status"]) == (409, "ABORTED")
    assert cancelled == again == kept
    assert cancelled["status"] == "cancelled"
    if streamed:
        assert followed(events).status == "cancelled"


async def test_a_deleted_interaction_is_run_no_longer() -> None:
    async with over_http(ENDLESS, config=Config(responses=BRISK)) as house:
        seen = await some_events(house, {**ASKED, "background": True}, "step.delta")
        id = seen[0]["interaction"]["id"]
        gone = await house.http.delete(f"{STEPS}/{id}")
        await eventually(lambda: not house.engine.active and not house.gateway.in_flight)
        missing = await house.http.get(f"{STEPS}/{id}?stream=true")

    assert (gone.status_code, gone.json()) == (200, {})
    assert missing.status_code == 404


async def test_a_client_that_leaves_leaves_what_was_said_as_incomplete_and_its_events() -> None:
    async with over_http(ENDLESS, config=Config(responses=BRISK)) as house:
        seen = await some_events(house, ASKED, "step.delta")
        id = seen[0]["interaction"]["id"]
        await eventually(lambda: not house.gateway.in_flight)
        kept = await polled(house, id)
        events = await read_again(house, id)

    grammar = followed(events)
    assert events[: len(seen)] == seen
    assert kept["status"] == grammar.status == "incomplete"
    assert kept["steps"] == grammar.steps


async def test_a_client_that_leaves_before_any_output_finds_the_interaction_that_it_was_told_of() -> None:
    silent = SimulatorConfig(timing=Timing(overhead=3600.0))
    async with over_http(silent, config=Config(responses=BRISK, timeouts=TimeoutsConfig(commit_s=0.05))) as house:
        (seen,) = await some_events(house, ASKED, "interaction.created")
        await eventually(lambda: not house.gateway.in_flight)
        kept = await polled(house, seen["interaction"]["id"])
        events = await read_again(house, kept["id"])

    assert (kept["status"], kept["steps"]) == ("incomplete", [])
    assert events[0] == seen
    assert followed(events).status == "incomplete"


@pytest.mark.full
async def test_an_interaction_over_the_bound_of_its_events_fails_and_its_stream_is_whole() -> None:
    bounds = attrs.evolve(BRISK, log_bytes=5000)
    async with in_process(ENDLESS, config=Config(responses=bounds)) as house:
        made = await house.http.post(STEPS, json={**ASKED, "background": True, "stream": True})
        events = [json.loads(each.data) for each in SseReader().feed(made.content) if each.data != "[DONE]"]
        kept = (await house.http.get(f"{STEPS}/{events[0]['interaction']['id']}")).json()

    followed(events)
    assert events[-1]["event_type"] == "error"
    assert kept["status"] == "failed"
    assert kept["errors"][0]["code"] == "INTERNAL"


async def test_the_events_of_an_interaction_that_was_not_streamed_are_not_kept() -> None:
    async with in_process(QUICK) as house:
        id = (await house.http.post(STEPS, json=ASKED)).json()["id"]
        answer = await house.http.get(f"{STEPS}/{id}?stream=true")

    assert answer.status_code == 400
    assert answer.json()["error"]["details"][0]["fieldViolations"][0]["field"] == "stream"


async def by_key(head: Head) -> Caller:
    return Caller(head.headers["x-goog-api-key"], "")


@pytest.mark.full
async def test_nothing_of_another_tenant_is_found() -> None:
    async with in_process(QUICK) as house:
        app = App(house.gateway, by_key)
        async with async_client(app, httpx) as http:
            ours, theirs = ({"x-goog-api-key": name} for name in ("ours", "theirs"))
            id = (await http.post(f"http://g{STEPS}", json=ASKED, headers=ours)).json()["id"]
            at = f"http://g{STEPS}/{id}"
            continued = {**ASKED, "previous_interaction_id": id}
            attempts = [
                await http.get(at, headers=theirs),
                await http.get(f"{at}?stream=true", headers=theirs),
                await http.delete(at, headers=theirs),
                await http.post(f"{at}/cancel", headers=theirs),
                await http.post(f"http://g{STEPS}", json=continued, headers=theirs),
            ]
            kept = await http.get(at, headers=ours)

    assert [each.status_code for each in attempts] == [404] * len(attempts)
    assert kept.json()["id"] == id


async def test_a_tenant_of_which_nothing_is_kept_is_answered_and_can_make_nothing_in_the_background() -> None:
    async with in_process(QUICK, config=Config(history=HistoryConfig(zero_retention=("*",)))) as house:
        made = (await house.http.post(STEPS, json=ASKED)).json()
        read = await house.http.get(f"{STEPS}/{made['id']}")
        refused = await house.http.post(STEPS, json={**ASKED, "background": True})

    assert made["status"] == "completed"
    assert (read.status_code, refused.status_code) == (404, 400)


class Failing(MemoryStore):
    """A store that cannot write."""

    async def write(self, *arguments: Any, **more: Any) -> None:
        raise StoreFailed("full", "no space left on device")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_store_that_fails_does_not_cost_the_answer(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(FakeClock(), most_bytes=1 << 20, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    async with in_process(QUICK, history=failing) as house:
        answer = await house.http.post(STEPS, json={**ASKED, "stream": streamed})

    assert answer.status_code == 200
    assert '"status":"completed"' in answer.text
    assert "no space left on device" in caplog.text
