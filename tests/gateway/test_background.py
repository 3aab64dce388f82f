"""Responses in the background: made without their client, followed from any number, cancelled, and run again after a crash."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest
from tests.gateway.conftest import House, eventually, in_process, over_http
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.background.store import PendingResponse
from smg_core.history.settings import HistoryConfig
from smg_core.hooks import RequestStarted, RunEnded, StoreCalled
from smg_core.http.settings import ResponsesConfig
from smg_core.observability.access_lines import access_fields
from smg_core.request import Caller
from smg_core.wire.settings import LimitsConfig
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


def client_of(house: House) -> openai.AsyncOpenAI:
    if house.url:
        return openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0)
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(api_key="x", base_url="http://gateway/v1", http_client=http, max_retries=0)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with over_http(PACED, config=Config(responses=BRISK)) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(house) as client:
        yield client


async def polled(client: openai.AsyncOpenAI, id: str) -> Any:
    """The response once it has ended."""
    async with asyncio.timeout(PATIENCE):
        while (found := await client.responses.retrieve(id)).status not in ENDED:
            await asyncio.sleep(0.02)
    return found


async def stream_of(client: openai.AsyncOpenAI, id: str, after: int | None = None) -> list[dict[str, Any]]:
    given: Any = {} if after is None else {"starting_after": after}
    return [event.to_dict() async for event in await client.responses.retrieve(id, stream=True, **given)]


@pytest.mark.full
async def test_a_response_is_made_while_its_client_polls(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="sim", input="Hello", background=True)
    assert (made.status, made.background, made.output) == ("queued", True, [])
    found = await polled(client, made.id)
    assert (found.status, found.output_text) == ("completed", LONG)
    assert found.created_at == made.created_at
    assert found.usage.output_tokens
    second = await client.responses.create(model="sim", input="And?", previous_response_id=made.id)
    assert second.output_text


@pytest.mark.full
async def test_a_client_that_leaves_does_not_end_it_and_goes_on_behind_any_number(client: openai.AsyncOpenAI) -> None:
    stream = await client.responses.create(model="sim", input="Hello", background=True, stream=True)
    seen: list[dict[str, Any]] = []
    async for event in stream:
        seen.append(event.to_dict())
        if event.type == "response.output_text.delta" and len(seen) > 8:
            break
    await stream.close()
    id = seen[0]["response"]["id"]
    rest = await stream_of(client, id, seen[-1]["sequence_number"])
    grammar = check_stream([*seen, *rest])
    assert [event["type"] for event in seen[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert grammar.items[0]["content"][0]["text"] == LONG  # type: ignore[index, call-overload]
    whole = await stream_of(client, id)
    assert whole == [*seen, *rest]
    for number in range(0, len(whole), 7):
        assert await stream_of(client, id, number) == whole[number + 1 :]
    assert await stream_of(client, id, 10_000) == []
    assert (await client.responses.retrieve(id)).to_dict() == whole[-1]["response"]


@pytest.mark.full
async def test_the_helper_of_the_sdk_follows_it_from_its_beginning(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="sim", input="Hello", background=True, stream=True)
    id = ""
    async for event in made:
        if event.type == "response.created":
            id = event.response.id
            break
    await made.close()
    async with client.responses.stream(response_id=id, starting_after=4) as stream:
        final = await stream.get_final_response()
    assert final.output_text == LONG


@pytest.mark.full
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_response_stops_its_engine_and_stays_cancelled(streamed: bool) -> None:
    async with over_http(ENDLESS, config=Config(responses=BRISK)) as house, client_of(house) as client:
        if streamed:
            stream = await client.responses.create(model="sim", input="Hi", background=True, stream=True)
            seen = []
            async for event in stream:
                seen.append(event.to_dict())
                if event.type == "response.output_text.delta":
                    break
            id = seen[0]["response"]["id"]
        else:
            id = (await client.responses.create(model="sim", input="Hi", background=True)).id
            await eventually(lambda: house.engine.active)
        cancelled = await client.responses.cancel(id)
        assert cancelled.status == "cancelled"
        assert (await client.responses.cancel(id)).to_dict() == cancelled.to_dict()
        await eventually(lambda: not house.engine.active)
        await eventually(lambda: not house.gateway.in_flight)
        assert (await client.responses.retrieve(id)).to_dict() == cancelled.to_dict()
        if streamed:
            events = await stream_of(client, id)
            grammar = check_stream(events)
            assert events[-1]["response"]["status"] == "cancelled"
            assert grammar.items[0]["status"] == "incomplete"
            assert [event async for event in stream][-1].to_dict() == events[-1]


@pytest.mark.full
async def test_a_deleted_response_is_run_no_longer(client: openai.AsyncOpenAI, house: House) -> None:
    made = await client.responses.create(model="sim", input="Hello", background=True, stream=True)
    async for event in made:
        if event.type == "response.output_text.delta":
            break
    (id,) = [owned.id for owned in await running(house)]
    await client.responses.delete(id)
    await eventually(lambda: not house.gateway.in_flight and not house.engine.active)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(id, stream=True)
    assert await house.gateway.history.events("", id) == ()


async def running(house: House) -> list[Any]:
    """Responses that are pending, by the ids of what is kept while they are."""
    return [each async for each in house.gateway.history.export("") if each.owner == "background"]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"store": False}, openai.BadRequestError, "background"),
        ({"model": "nobody"}, openai.NotFoundError, "model"),
        ({"max_output_tokens": 10**8}, openai.BadRequestError, "max_output_tokens"),
        ({"previous_response_id": "resp_none"}, openai.BadRequestError, "previous_response_id"),
    ],
)
async def test_what_cannot_be_run_is_refused_at_once(
    client: openai.AsyncOpenAI, fields: dict[str, Any], kind: type[openai.APIStatusError], param: str
) -> None:
    with pytest.raises(kind) as raised:
        await client.responses.create(**{"model": "sim", "input": "Hello", "background": True, **fields})
    assert raised.value.body["param"] == param  # type: ignore[index, call-overload]


@pytest.mark.full
async def test_the_events_of_a_response_that_was_not_streamed_are_not_kept(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="sim", input="Hello", background=True)
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.retrieve(made.id, stream=True)
    assert raised.value.body["param"] == "stream"  # type: ignore[index, call-overload]
    streamed = await client.responses.create(model="sim", input="Hello", background=True, stream=True)
    id = [event async for event in streamed][-1].response.id  # type: ignore[union-attr]
    for wrong in ("x", "-1", "1.5", ""):
        with pytest.raises(openai.BadRequestError):
            await client.get(f"/responses/{id}?stream=true&starting_after={wrong}", cast_to=object)


async def test_what_is_over_the_bound_of_a_tenant_waits_and_what_is_over_the_queue_is_refused() -> None:
    bounds = attrs.evolve(BRISK, background_tenant=1, queue=1)
    async with in_process(ENDLESS, config=Config(responses=bounds)) as house, client_of(house) as client:
        first = await client.responses.create(model="sim", input="1", background=True)
        await eventually(lambda: house.engine.active)
        second = await client.responses.create(model="sim", input="2", background=True)
        with pytest.raises(openai.InternalServerError) as raised:
            await client.responses.create(model="sim", input="3", background=True)
        assert raised.value.status_code == 503
        assert (await client.responses.retrieve(second.id)).status == "queued"
        assert (await client.responses.cancel(second.id)).status == "cancelled"
        await client.responses.cancel(first.id)


async def test_one_tenant_does_not_fill_the_queue_of_all() -> None:
    async def by_key(head: Head) -> Caller:
        return Caller(head.headers["authorization"].removeprefix("Bearer "), "")

    bounds = attrs.evolve(BRISK, background=1, queue=2, queue_tenant=1)
    async with in_process(ENDLESS, config=Config(responses=bounds)) as house:
        app = App(house.gateway, by_key)
        one, other, third = (
            openai.AsyncOpenAI(
                api_key=name, base_url="http://g/v1", http_client=async_client(app, openai), max_retries=0
            )
            for name in ("one", "other", "third")
        )
        async with one, other, third:
            await one.responses.create(model="sim", input="1", background=True)
            await eventually(lambda: house.engine.active)
            await one.responses.create(model="sim", input="2", background=True)
            with pytest.raises(openai.RateLimitError) as raised:
                await one.responses.create(model="sim", input="3", background=True)
            assert raised.value.response.headers["retry-after"]
            await other.responses.create(model="sim", input="4", background=True)
            with pytest.raises(openai.InternalServerError):
                await third.responses.create(model="sim", input="5", background=True)


@pytest.mark.full
async def test_a_response_over_the_bound_of_its_events_fails_and_its_stream_is_whole() -> None:
    bounds = attrs.evolve(BRISK, log_bytes=5000)
    async with in_process(ENDLESS, config=Config(responses=bounds)) as house, client_of(house) as client:
        stream = await client.responses.create(model="sim", input="1", background=True, stream=True)
        events = [event.to_dict() async for event in stream]
    check_stream(events)
    assert events[-1]["type"] == "response.failed"


@pytest.mark.full
async def test_turns_in_the_background_are_kept_in_their_conversation(client: openai.AsyncOpenAI) -> None:
    talk = await client.conversations.create()
    made = await client.responses.create(model="sim", input="Hello", conversation=talk.id, background=True)
    await polled(client, made.id)
    items = [item async for item in client.conversations.items.list(talk.id, order="asc")]
    assert [item.role for item in items] == ["user", "assistant"]  # type: ignore[union-attr]


@pytest.mark.full
async def test_a_gateway_that_stops_gives_up_its_responses_and_the_next_goes_on(tmp_path: Any) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    slow = attrs.evolve(BRISK, lease_s=3600.0)
    config = Config(responses=slow, history=history)
    async with in_process(ENDLESS, config=config) as house, client_of(house) as client:
        stream = await client.responses.create(model="sim", input="Hello", background=True, stream=True)
        seen = []
        async for event in stream:
            seen.append(event.to_dict())
            if event.type == "response.output_text.delta":
                break
        (id,) = [owned.id for owned in await running(house)]
        await stream.close()
    async with in_process(QUICK, config=config) as house, client_of(house) as client:
        found = await polled(client, id)
        events = await stream_of(client, id)
    assert events[: len(seen)] == seen
    check_stream(events)
    assert [event["type"] for event in events].count("response.created") == 1
    assert [item.status for item in found.output] == ["incomplete", "completed"]
    assert found.output[1].content[0].text == "Yes."
    assert found.to_dict() == events[-1]["response"]


async def test_what_was_taken_under_the_least_bounds_is_made_under_them() -> None:
    least = LimitsConfig(body_bytes=1024, media_body_bytes=1024, json_values=100)
    async with over_http(QUICK, config=Config(responses=BRISK, limits=least)) as house, client_of(house) as client:
        made = await client.responses.create(model="sim", input="Hi " * 280, background=True)
        assert (await polled(client, made.id)).output_text == "Yes."


@pytest.mark.full
async def test_a_request_that_is_over_a_bound_since_the_gateway_came_back_fails_once(tmp_path: Path) -> None:
    kept = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    turns: Any = [{"role": "user", "content": f"Turn {number}."} for number in range(5)]
    async with over_http(ENDLESS, config=Config(responses=BRISK, history=kept)) as house, client_of(house) as client:
        made = await client.responses.create(model="sim", input=turns, background=True)
        await eventually(lambda: house.engine.active)
    narrow = Config(responses=BRISK, history=kept, limits=LimitsConfig(messages=2))
    async with over_http(QUICK, config=narrow) as house, client_of(house) as client:
        found = await polled(client, made.id)
    assert found.status == "failed"
    assert "2" in found.error.message


# ---------------------------------------------------------------------------------------------------------- what is told of it


async def test_a_response_in_the_background_is_one_line_of_the_access_log_when_it_ends() -> None:
    async with over_http(QUICK, config=Config(responses=BRISK)) as house, client_of(house) as client:
        made = await client.responses.create(model="sim", input="Hello", background=True)
        await polled(client, made.id)
        await eventually(lambda: house.observer.of(RunEnded))
        (told,) = house.observer.of(RunEnded)
    fields = access_fields(told)

    assert (fields["method"], fields["path"], fields["status"]) == ("BACKGROUND", "/v1/responses", 200)
    assert (fields["outcome"], fields["request_id"]) == ("ok", made.id)
    assert (fields["api"], fields["model"], fields["worker"]) == ("responses", "sim", "simulator-0")
    assert fields["completion_tokens"]


@pytest.mark.full
async def test_a_response_that_is_cancelled_is_one_line_too() -> None:
    async with over_http(ENDLESS, config=Config(responses=BRISK)) as house, client_of(house) as client:
        made = await client.responses.create(model="sim", input="Hello", background=True)
        await eventually(lambda: house.engine.active == 1)
        await client.responses.cancel(made.id)
        await eventually(lambda: not house.engine.active)
        told = [(each.method, each.outcome, each.request_id) for each in house.observer.of(RunEnded)]

    assert told == [("BACKGROUND", "cancelled", made.id)]


@pytest.mark.full
@pytest.mark.parametrize("outcome", ["ok", "cancelled", "InternalError"])
async def test_its_line_names_whose_it_is_however_and_by_whomever_it_was_ended(outcome: str) -> None:
    async def by_key(head: Head) -> Caller:
        return Caller("acme", head.headers["authorization"].removeprefix("Bearer "))

    bounds = attrs.evolve(BRISK, log_bytes=5000) if outcome == "InternalError" else BRISK
    async with in_process(QUICK if outcome == "ok" else ENDLESS, config=Config(responses=bounds)) as house:
        app = App(house.gateway, by_key)
        one, other = (
            openai.AsyncOpenAI(
                api_key=name, base_url="http://g/v1", http_client=async_client(app, openai), max_retries=0
            )
            for name in ("one", "other")
        )
        async with one, other:
            stream = await one.responses.create(model="sim", input="Hello", background=True, stream=True)
            id = (await anext(stream)).response.id  # type: ignore[union-attr]
            if outcome == "cancelled":
                await eventually(lambda: house.engine.active == 1)
                await other.responses.cancel(id)
            await polled(one, id)
            await stream.close()
        await eventually(lambda: house.observer.of(RunEnded))
        told = house.observer.of(RunEnded)

    assert [(each.outcome, each.request_id) for each in told] == [(outcome, id)]
    fields = access_fields(told[0])
    assert (fields["tenant"], fields["principal"]) == ("acme", "one")


@pytest.mark.full
async def test_a_response_for_a_model_that_nobody_serves_is_not_a_request_for_each_time_that_it_waits(
    tmp_path: Path,
) -> None:
    config = Config(
        responses=attrs.evolve(BRISK, lease_s=0.3), history=HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    )
    async with in_process(ENDLESS, config=config) as house:
        made = await client_of(house).responses.create(model="sim", input="Hello", background=True)
        await eventually(lambda: house.engine.active == 1)
    async with in_process(attrs.evolve(QUICK, model="other"), config=config) as house:
        await eventually(lambda: sum(each.method == "acquire" for each in house.observer.of(StoreCalled)) >= 3)
        assert not house.observer.of(RequestStarted)
        assert not house.observer.of(RunEnded)
    async with in_process(QUICK, config=attrs.evolve(config, responses=BRISK)) as house:
        found = await polled(client_of(house), made.id)
        await eventually(lambda: house.observer.of(RunEnded))
        told = [(each.outcome, each.request_id) for each in house.observer.of(RunEnded)]

    assert found.status == "completed"
    assert told == [("ok", made.id)]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_that_meets_a_fault_of_the_server_is_not_begun_again(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Any, *given: Any) -> None:
        raise TypeError("nobody has foreseen it")

    monkeypatch.setattr(PendingResponse, "end", broken)
    async with in_process(QUICK, config=Config(responses=BRISK)) as house:
        client = client_of(house)
        request: Any = {"model": "sim", "input": "Hello", "background": True}
        if streamed:
            events = [event.to_dict() async for event in await client.responses.create(**request, stream=True)]
            check_stream(events)
            ended: Any = events[-1]["response"]
            found = await polled(client, ended["id"])
        else:
            found = await polled(client, (await client.responses.create(**request)).id)
        assert (found.status, found.error.code) == ("failed", "server_error")
        await eventually(lambda: house.observer.of(RunEnded))
        assert [each.status for each in house.observer.of(RunEnded)] == [500]
        assert len(house.engine.requests) == 1
