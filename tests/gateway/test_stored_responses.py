"""What is kept of responses and conversations: continued, read and deleted by the official SDK, and never across tenants."""

import asyncio
import json
import re
import threading
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import msgspec
import openai
import pytest
from tests.gateway.conftest import House, eventually, in_process, over_http

from smg_core import Config, Gateway
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.errors import StoreFailed
from smg_core.history.memory.store import MemoryStore
from smg_core.history.opening import guarded
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import ExtendExpiry, Lease, LeaseLost, PutResponse, StoredResponse
from smg_core.http.settings import ResponsesConfig
from smg_core.pipeline.calls.executor import INLINE
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import Caller
from smg_core.stored import expiry
from smg_core.testing import FakeClock
from smg_core.wire.base import Incoming
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SIMULATOR = SimulatorConfig(seed=1)


def client_of(house: House, **options: Any) -> openai.AsyncOpenAI:
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(api_key="x", base_url="http://gateway/v1", http_client=http, max_retries=0, **options)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with in_process(SIMULATOR) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(house) as client:
        yield client


# ---------------------------------------------------------------------------------------------------------- responses


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_is_retrieved_as_it_was_answered(client: openai.AsyncOpenAI, streamed: bool) -> None:
    if streamed:
        stream = await client.responses.create(model="sim", input="Hello", stream=True, max_output_tokens=400)
        events = [event async for event in stream]
        answered: Any = events[-1].response  # type: ignore[union-attr]
    else:
        answered = await client.responses.create(model="sim", input="Hello", max_output_tokens=400)
    assert (await client.responses.retrieve(answered.id)).to_dict() == answered.to_dict()


async def test_a_chain_has_every_turn_before_it_and_no_instructions(client: openai.AsyncOpenAI, house: House) -> None:
    previous: str | None = None
    for number in range(4):
        answer = await client.responses.create(
            model="sim",
            input=f"Turn {number}.",
            previous_response_id=previous,
            instructions="First only." if number == 0 else None,
            max_output_tokens=10,
        )
        previous = answer.id
    first = await client.responses.create(model="sim", input="Turn 0.", max_output_tokens=10)
    assert answer.usage is not None
    assert first.usage is not None
    assert answer.usage.input_tokens > 3 * first.usage.input_tokens
    assert answer.previous_response_id


@pytest.mark.full
async def test_a_chain_of_200_turns_is_whole_and_its_deleted_parent_is_named(
    client: openai.AsyncOpenAI, house: House
) -> None:
    ids: list[str] = []
    for _ in range(200):
        answer = await client.responses.create(
            model="sim", input="x", previous_response_id=ids[-1] if ids else None, max_output_tokens=1
        )
        ids.append(answer.id)
    first = await client.responses.create(model="sim", input="x", max_output_tokens=1)
    assert answer.usage is not None
    assert first.usage is not None
    assert answer.usage.input_tokens > 200 * (first.usage.input_tokens - 4)

    await client.responses.delete(ids[100])
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input="x", previous_response_id=ids[-1])
    assert refused.value.code == "previous_response_not_found"
    assert ids[100] in refused.value.message


async def test_a_turn_may_be_a_calls_output_alone(client: openai.AsyncOpenAI) -> None:
    tool: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    first = await client.responses.create(model="sim", input="Look!", tools=[tool], tool_choice="required")
    (call,) = [item for item in first.output if item.type == "function_call"]
    output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "Sun."}]
    second = await client.responses.create(model="sim", input=output, tools=[tool], previous_response_id=first.id)
    assert second.status in ("completed", "incomplete")
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        await client.responses.create(model="sim", input="Well?", tools=[tool], previous_response_id=first.id)


async def test_what_is_not_stored_is_not_found_and_not_continued(client: openai.AsyncOpenAI) -> None:
    answer = await client.responses.create(model="sim", input="Hello", store=False, max_output_tokens=5)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(answer.id)
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.create(model="sim", input="And?", previous_response_id=answer.id)
    assert (raised.value.code, raised.value.param) == ("previous_response_not_found", "previous_response_id")


async def test_a_chain_whose_parent_was_deleted_is_refused(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="sim", input="a", max_output_tokens=5)
    second = await client.responses.create(model="sim", input="b", previous_response_id=first.id, max_output_tokens=5)
    await client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.create(model="sim", input="c", previous_response_id=second.id)
    assert raised.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(first.id)


async def test_input_items_are_paged_and_have_ids(client: openai.AsyncOpenAI) -> None:
    turns: Any = [{"role": "user", "content": f"Turn {number}."} for number in range(7)]
    answer = await client.responses.create(model="sim", input=turns, max_output_tokens=5)
    pages = client.responses.input_items.list(answer.id, limit=3, order="asc")
    texts = [item.content[0].text async for item in pages]  # type: ignore[union-attr]
    assert texts == [f"Turn {number}." for number in range(7)]
    newest = await client.responses.input_items.list(answer.id, limit=2)
    assert newest.has_more
    assert [item.id for item in newest.data] == [newest.first_id, newest.last_id]  # type: ignore[attr-defined]


async def test_an_item_can_be_referred_to(client: openai.AsyncOpenAI) -> None:
    answer = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
    again: Any = [{"type": "item_reference", "id": answer.output[0].id}, {"role": "user", "content": "So?"}]
    assert (await client.responses.create(model="sim", input=again, max_output_tokens=5)).output
    with pytest.raises(openai.BadRequestError, match="not found"):
        await client.responses.create(model="sim", input=[{"type": "item_reference", "id": "msg_none"}])


async def test_a_response_that_was_not_made_in_the_background_is_not_cancelled(client: openai.AsyncOpenAI) -> None:
    answer = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(answer.id)


async def test_the_tokens_of_a_request_are_those_of_its_answer(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
    for asked in (
        {"input": "How many?"},
        {"input": "And now?", "previous_response_id": first.id, "instructions": "Hm."},
    ):
        count = await client.responses.input_tokens.count(model="sim", **asked)
        answer = await client.responses.create(model="sim", max_output_tokens=5, **asked)  # type: ignore[call-overload]
        assert answer.usage.input_tokens == count.input_tokens > 0


@pytest.mark.full
async def test_a_conversation_is_compacted_and_goes_on_from_that(client: openai.AsyncOpenAI) -> None:
    turns: Any = [{"role": "user", "content": "I am Ada. " * 50}, {"type": "compaction_trigger"}]
    compacted = await client.responses.create(model="sim", input=turns, store=False)
    (item,) = compacted.output
    assert item.type == "compaction"
    after: Any = [*turns[:1], item.to_dict(), {"role": "user", "content": "Who am I?"}]
    answer = await client.responses.create(model="sim", input=after, store=False, max_output_tokens=5)
    assert answer.usage is not None
    assert compacted.usage is not None
    assert answer.usage.input_tokens < compacted.usage.input_tokens
    after[1]["encrypted_content"] += "x"
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.create(model="sim", input=after, store=False)
    assert (raised.value.code, raised.value.param) == ("invalid_encrypted_content", "input[1].encrypted_content")


# ------------------------------------------------------------------------------------------------------ conversations


async def test_a_conversation_is_made_changed_and_deleted(client: openai.AsyncOpenAI) -> None:
    items: Any = [{"type": "message", "role": "user", "content": "I am Ada."}]
    made = await client.conversations.create(metadata={"a": "b"}, items=items)
    assert (await client.conversations.retrieve(made.id)).metadata == {"a": "b"}
    assert (await client.conversations.update(made.id, metadata={"x": "y"})).metadata == {"x": "y"}
    assert (await client.conversations.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(made.id)


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    "item",
    [
        {"type": "wizardry"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "compaction_trigger"},
        {"type": "compaction"},
        {"type": "function_call", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c"},
        {"type": "reasoning", "summary": "x"},
    ],
    ids=lambda item: item["type"],
)
async def test_what_no_turn_can_read_is_not_put_into_a_conversation(client: openai.AsyncOpenAI, item: Any) -> None:
    made = await client.conversations.create()
    for put in (
        lambda: client.conversations.items.create(made.id, items=[item]),
        lambda: client.conversations.create(items=[item]),
    ):
        with pytest.raises(openai.BadRequestError) as raised:
            await put()
        assert str(raised.value.param).startswith("items[0].")


async def test_the_turns_of_a_conversation_are_kept_in_it_in_order(client: openai.AsyncOpenAI) -> None:
    made = await client.conversations.create()
    for number in range(3):
        answer = await client.responses.create(
            model="sim", input=f"Turn {number}.", conversation=made.id, max_output_tokens=5
        )
        assert answer.conversation is not None
        assert answer.conversation.id == made.id
    found = [item async for item in client.conversations.items.list(made.id, order="asc", limit=2)]
    assert [item.role for item in found] == ["user", "assistant"] * 3  # type: ignore[union-attr]
    one = await client.conversations.items.retrieve(str(found[0].id), conversation_id=made.id)
    assert one.id == found[0].id
    await client.conversations.items.delete(str(found[0].id), conversation_id=made.id)
    added: Any = [{"type": "message", "role": "user", "content": "One more."}]
    await client.conversations.items.create(made.id, items=added)
    assert len([item async for item in client.conversations.items.list(made.id)]) == 6


async def test_two_writers_on_one_conversation_are_kept_apart(client: openai.AsyncOpenAI, house: House) -> None:
    made = await client.conversations.create()
    held = await house.gateway.history.acquire("", "conversation", made.id, "another", 60)
    assert held is not None
    with pytest.raises(openai.ConflictError) as raised:
        await client.responses.create(model="sim", input="Hello", conversation=made.id)
    assert raised.value.code == "conversation_locked"
    await house.gateway.history.release("", held)
    for _ in range(2):
        await client.responses.create(model="sim", input="Hello", conversation=made.id, max_output_tokens=5)


# ------------------------------------------------------------------------------------------------------------ tenants


async def by_key(head: Head) -> Caller:
    return Caller(head.headers["authorization"].removeprefix("Bearer "), "")


@pytest.mark.full
async def test_nothing_of_another_tenant_is_found(house: House) -> None:
    app = App(house.gateway, by_key)
    ours, theirs = (
        openai.AsyncOpenAI(api_key=name, base_url="http://g/v1", http_client=async_client(app, openai), max_retries=0)
        for name in ("ours", "theirs")
    )
    async with ours, theirs:
        answer = await ours.responses.create(model="sim", input="Hello", max_output_tokens=5)
        talk = await ours.conversations.create(items=[{"type": "message", "role": "user", "content": "x"}])
        (item,) = [each async for each in ours.conversations.items.list(talk.id)]
        for attempt in (
            theirs.responses.retrieve(answer.id),
            theirs.responses.delete(answer.id),
            theirs.responses.cancel(answer.id),
            theirs.conversations.retrieve(talk.id),
            theirs.conversations.update(talk.id, metadata={}),
            theirs.conversations.delete(talk.id),
            theirs.conversations.items.create(talk.id, items=[{"type": "message", "role": "user", "content": "x"}]),
            theirs.conversations.items.retrieve(str(item.id), conversation_id=talk.id),
            theirs.conversations.items.delete(str(item.id), conversation_id=talk.id),
            theirs.responses.create(model="sim", input="x", conversation=talk.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await attempt
        for pages in (theirs.responses.input_items.list(answer.id), theirs.conversations.items.list(talk.id)):
            with pytest.raises(openai.NotFoundError):
                await pages
        with pytest.raises(openai.BadRequestError):
            await theirs.responses.create(model="sim", input="x", previous_response_id=answer.id)
        reference: Any = [{"type": "item_reference", "id": answer.output[0].id}]
        with pytest.raises(openai.BadRequestError):
            await theirs.responses.create(model="sim", input=reference)
        assert (await ours.responses.retrieve(answer.id)).id == answer.id


async def test_a_tenant_of_which_nothing_is_kept_is_answered_as_if_it_had_asked_for_that() -> None:
    config = Config(history=HistoryConfig(zero_retention=("*",)))
    async with in_process(SIMULATOR, config=config) as house, client_of(house) as client:
        answer = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
        assert answer.to_dict()["store"] is False
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(answer.id)


# ------------------------------------------------------------------------------------------------------------ failures


class Failing(MemoryStore):
    """A store that cannot write."""

    async def write(self, *arguments: Any, **more: Any) -> None:
        raise StoreFailed("full", "no space left on device")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_store_that_fails_does_not_cost_the_answer(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(FakeClock(), most_bytes=1 << 20, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    async with in_process(SIMULATOR, history=failing) as house, client_of(house) as client:
        if streamed:
            stream = await client.responses.create(model="sim", input="Hello", stream=True, max_output_tokens=400)
            last = [event async for event in stream][-1]
            assert last.type in ("response.completed", "response.incomplete")
        else:
            assert (await client.responses.create(model="sim", input="Hello", max_output_tokens=5)).output
    assert "no space left on device" in caplog.text


async def test_a_client_that_leaves_leaves_what_was_said_as_incomplete() -> None:
    slow = attrs.evolve(SIMULATOR, timing=attrs.evolve(SIMULATOR.timing, decode_rate=40.0))
    async with (
        over_http(slow) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        stream = await client.responses.create(model="sim", input="Hello", stream=True, max_output_tokens=400)
        async for event in stream:
            if event.type == "response.created":
                id = event.response.id
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        await eventually(lambda: house.gateway.in_flight == 0)
        kept = await client.responses.retrieve(id)
    assert kept.status == "incomplete"
    assert kept.output[0].status == "incomplete"  # type: ignore[union-attr]
    assert kept.output_text


async def test_a_client_that_leaves_before_any_output_finds_the_response_that_it_was_told_of() -> None:
    silent = attrs.evolve(SIMULATOR, timing=attrs.evolve(SIMULATOR.timing, overhead=3600.0))
    async with (
        over_http(silent, config=Config(timeouts=TimeoutsConfig(commit_s=0.05))) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        talk = await client.conversations.create()
        stream = await client.responses.create(model="sim", input="Hello", stream=True, conversation=talk.id)
        async for event in stream:
            assert event.type == "response.created"
            id = event.response.id
            break
        await stream.close()
        await eventually(lambda: house.gateway.in_flight == 0)
        kept = await client.responses.retrieve(id)
        said = [item async for item in client.conversations.items.list(talk.id)]
    assert (kept.status, kept.output) == ("incomplete", [])
    assert [item.role for item in said] == ["user"]  # type: ignore[union-attr]


@pytest.mark.full
async def test_a_conversation_outlives_the_gateway(tmp_path: Path) -> None:
    config = Config(history=HistoryConfig(url=f"sqlite:///{tmp_path}/history.db"))
    async with in_process(SIMULATOR, config=config) as house, client_of(house) as client:
        first = await client.responses.create(model="sim", input="Hello", max_output_tokens=5)
    async with in_process(SIMULATOR, config=config) as house, client_of(house) as client:
        second = await client.responses.create(
            model="sim", input="And?", previous_response_id=first.id, max_output_tokens=5
        )
        assert second.previous_response_id == first.id
        assert (await client.responses.retrieve(first.id)).output_text == first.output_text


# ------------------------------------------------------------------------------------------------------------ bad input


async def test_a_writer_that_is_kept_out_is_told_the_setting_s_seconds() -> None:
    config = Config(limits=LimitsConfig(retry_after_s=7))
    async with in_process(SIMULATOR, config=config) as house, client_of(house) as client:
        made = await client.conversations.create()
        assert await house.gateway.history.acquire("", "conversation", made.id, "another", 60) is not None
        with pytest.raises(openai.ConflictError) as raised:
            await client.responses.create(model="sim", input="Hello", conversation=made.id)
    assert raised.value.response.headers["retry-after"] == "7"


async def test_a_page_behind_what_its_list_does_not_have_is_refused_by_every_list(
    client: openai.AsyncOpenAI, house: House
) -> None:
    first: Any = [{"type": "message", "role": "user", "content": text} for text in ("One.", "Two.")]
    talk = await client.conversations.create(items=first)
    one, two = [item.id async for item in client.conversations.items.list(talk.id, order="asc")]
    answer = await client.responses.create(model="sim", input="x", max_output_tokens=1)
    file = await client.files.create(file=("a", b"x"), purpose="user_data")
    items, files = f"/v1/conversations/{talk.id}/items", "/v1/files"
    for path, last in ((f"{items}?order=asc", two), (f"{files}?order=asc", file.id)):
        page = await house.http.get(f"{path}&after={last}")
        assert (page.status_code, page.json()["data"]) == (200, [])
    await client.conversations.items.delete(str(one), conversation_id=talk.id)
    await client.files.delete(file.id)
    refused = [
        (items, "after", one),
        (items, "after", "msg_none"),
        (f"/v1/responses/{answer.id}/input_items", "after", "msg_none"),
        (files, "after", file.id),
        (files, "after", "file-none"),
        ("/v1/batches", "after", "batch_none"),
        ("/v1/messages/batches", "after_id", "msgbatch_none"),
        ("/v1/messages/batches", "before_id", "msgbatch_none"),
    ]
    for path, param, id in refused:
        page = await house.http.get(f"{path}?{param}={id}")
        told = page.json()["error"]
        assert (page.status_code, told["type"]) == (400, "invalid_request_error"), path
        assert f"Nothing with id '{id}' is in this list." in told["message"]
        assert told.get("param", param) == param


async def test_a_query_takes_of_include_and_stream_what_creating_takes(
    client: openai.AsyncOpenAI, house: House
) -> None:
    talk = await client.conversations.create(items=[{"type": "message", "role": "user", "content": "One."}])
    (item,) = [each async for each in client.conversations.items.list(talk.id)]
    id = (await client.responses.create(model="sim", input="x", max_output_tokens=1)).id
    known: Any = ["message.output_text.logprobs", "reasoning.encrypted_content"]
    assert (await client.responses.retrieve(id, include=known, stream=False)).id == id
    assert (await client.responses.input_items.list(id, include=known)).data
    items = f"/v1/conversations/{talk.id}/items"
    refused = [(f"/v1/responses/{id}?stream={wrong}", "stream") for wrong in ("x", "True", "")]
    for path in (f"/v1/responses/{id}", f"/v1/responses/{id}/input_items", items, f"{items}/{item.id}"):
        refused += [(f"{path}?{name}=wizardry", "include[0]") for name in ("include", "include[]")]
    for path, param in refused:
        answer = await house.http.get(path)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), path


async def test_a_chain_that_leads_back_to_itself_is_refused(client: openai.AsyncOpenAI, house: House) -> None:
    first = await client.responses.create(model="sim", input="x", max_output_tokens=1)
    second = await client.responses.create(model="sim", input="x", previous_response_id=first.id, max_output_tokens=1)
    kept = await house.gateway.history.response("", first.id)
    assert kept is not None
    await house.gateway.history.write("", [PutResponse(attrs.evolve(kept, previous_id=second.id))])
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.create(model="sim", input="x", previous_response_id=second.id)
    assert raised.value.code == "previous_response_not_usable"
    assert "continues itself" in raised.value.message


async def test_of_two_that_write_at_once_one_is_told_and_the_items_of_the_other_are_whole() -> None:
    slow = attrs.evolve(SIMULATOR, timing=attrs.evolve(SIMULATOR.timing, decode_rate=100.0))
    async with in_process(slow) as house, client_of(house) as client:
        talk = await client.conversations.create()
        asked = [
            client.responses.create(model="sim", input=f"{n}", conversation=talk.id, max_output_tokens=20)
            for n in range(4)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        made = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert len(made) == 1
        assert {getattr(each, "code", None) for each in answers if isinstance(each, BaseException)} == {
            "conversation_locked"
        }
        items = [item async for item in client.conversations.items.list(talk.id, order="asc")]
        assert [item.id for item in items][-1] == made[0].output[-1].id
        assert [item.role for item in items] == ["user", "assistant"]  # type: ignore[union-attr]


async def test_a_lock_that_was_lost_costs_the_conversation_a_turn_and_not_the_client_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Losing(MemoryStore):
        """A store whose leases are somebody else's when something is written under them."""

        async def write(self, tenant: str, operations: Any, *, lease: Lease | None = None, principal: str = "") -> None:
            if lease is not None:
                raise LeaseLost(lease.id)
            await super().write(tenant, operations, principal=principal)

    losing = Losing(FakeClock(), most_bytes=1 << 20, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    async with in_process(SIMULATOR, history=losing) as house, client_of(house) as client:
        talk = await client.conversations.create()
        answer = await client.responses.create(model="sim", input="x", conversation=talk.id, max_output_tokens=5)
        assert (await client.responses.retrieve(answer.id)).to_dict() == answer.to_dict()
        assert [item async for item in client.conversations.items.list(talk.id)] == []
    assert "could not be kept in its conversation" in caplog.text


async def test_an_item_that_stands_in_the_conversation_already_is_not_put_into_it_again(
    client: openai.AsyncOpenAI,
) -> None:
    talk = await client.conversations.create(items=[{"type": "message", "role": "user", "content": "I am Ada."}])
    (item,) = [each async for each in client.conversations.items.list(talk.id)]
    again: Any = [{"type": "item_reference", "id": item.id}, {"role": "user", "content": "Who?"}]
    answer = await client.responses.create(model="sim", input=again, conversation=talk.id, max_output_tokens=5)
    items = [each async for each in client.conversations.items.list(talk.id, order="asc")]
    assert [each.role for each in items] == ["user", "user", "assistant"]  # type: ignore[union-attr]
    assert (await client.responses.retrieve(answer.id)).id == answer.id


@pytest.mark.full
async def test_a_conversation_that_is_deleted_meanwhile_leaves_the_response_kept() -> None:
    slow = attrs.evolve(SIMULATOR, timing=attrs.evolve(SIMULATOR.timing, decode_rate=100.0))
    async with in_process(slow) as house, client_of(house) as client:
        talk = await client.conversations.create()
        asked = asyncio.create_task(
            client.responses.create(model="sim", input="x", conversation=talk.id, max_output_tokens=40)
        )
        await eventually(lambda: house.engine.active)
        await client.conversations.delete(talk.id)
        answer = await asked
        assert (await client.responses.retrieve(answer.id)).to_dict() == answer.to_dict()


@pytest.mark.full
async def test_no_long_text_is_read_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every route that reads what is kept, over objects that take longer than a millisecond to read."""
    here, read = threading.get_ident(), msgspec.json.decode
    long: list[str] = []

    def decode(data: Any, *arguments: Any, **named: Any) -> Any:
        if len(data) > INLINE and threading.get_ident() == here:
            long.append("".join(traceback.format_stack(limit=4)))
        return read(data, *arguments, **named)

    text = "A long story. " * 4_000
    large: Any = [{"type": "message", "role": "user", "content": text}]
    told = {str(number): "x" * 500 for number in range(16)}
    config = Config(responses=ResponsesConfig(poll_s=0.02))
    context = attrs.evolve(SIMULATOR, context_length=200_000)
    async with in_process(context, config=config) as house, client_of(house) as client:
        monkeypatch.setattr(msgspec.json, "decode", decode)
        asked: Any = {"model": "sim", "max_output_tokens": 5, "metadata": told, "instructions": text}
        talk = await client.conversations.create(items=large)
        await client.conversations.items.create(talk.id, items=large)
        items = [item async for item in client.conversations.items.list(talk.id)]
        await client.conversations.items.retrieve(str(items[0].id), conversation_id=talk.id)
        await client.conversations.update(talk.id, metadata={"a": "b"})
        await client.conversations.items.delete(str(items[0].id), conversation_id=talk.id)
        first = await client.responses.create(input=large, conversation=talk.id, **asked)
        await client.responses.retrieve(first.id)
        given = [item async for item in client.responses.input_items.list(first.id)]
        await client.responses.create(input="x", previous_response_id=first.id, **asked)
        referred: Any = [{"type": "item_reference", "id": given[0].id}]
        await client.responses.create(input=referred, **asked)
        await client.responses.compact(model="sim", previous_response_id=first.id)
        await client.responses.input_tokens.count(model="sim", previous_response_id=first.id)
        stream = await client.responses.create(input=large, background=True, stream=True, **asked)
        events: list[Any] = [event async for event in stream]
        id = events[0].response.id
        assert [event.type async for event in await client.responses.retrieve(id, stream=True)]
        await client.responses.cancel(id)
        await client.responses.delete(id)
        waiting = await client.responses.create(input=large, background=True, **asked)
        await client.responses.cancel(waiting.id)
    assert long == []


@pytest.mark.parametrize("most", [20, 150, None])
async def test_the_tokens_of_a_request_that_is_shortened_are_those_of_its_answer(most: int | None) -> None:
    simulator = attrs.evolve(SIMULATOR, context_length=400)
    async with in_process(simulator) as house:
        turns: Any = [{"role": "user", "content": f"{name} " * 100} for name in ("one", "two", "three", "four")]
        body: dict[str, Any] = {"model": "sim", "input": turns, "truncation": "auto"}
        if most is not None:
            body["max_output_tokens"] = most
        answer = await house.http.post("/v1/responses", json=body)
        count = await house.http.post("/v1/responses/input_tokens", json=body)
        assert count.json()["input_tokens"] == answer.json()["usage"]["input_tokens"] > 0

        whole = await house.http.post("/v1/responses/input_tokens", json=body | {"truncation": "disabled"})
        assert whole.json()["input_tokens"] > count.json()["input_tokens"]
        long = body | {"input": "one " * 500}
        assert (await house.http.post("/v1/responses/input_tokens", json=long)).json()["input_tokens"] > 400


@pytest.mark.parametrize("summary", [None, "auto"])
async def test_the_reasoning_of_a_response_is_told_sealed_where_a_client_asks_for_that_later(summary: Any) -> None:
    simulator = SimulatorConfig(rules=(Rule((), Reply("Yes.", "I think so.")),))
    async with in_process(simulator) as house, client_of(house) as client:
        made = await client.responses.create(model="sim", input="Hello", reasoning={"summary": summary})
        plain: Any = await client.responses.retrieve(made.id)
        sealed: Any = await client.responses.retrieve(made.id, include=["reasoning.encrypted_content"])
        assert plain.output[0].encrypted_content is None
        token = sealed.output[0].encrypted_content
        assert token
        assert sealed.to_dict()["output"][1:] == plain.to_dict()["output"][1:]
        thought = {"type": "reasoning", "id": sealed.output[0].id, "summary": [], "encrypted_content": token}
        again: Any = [{"role": "user", "content": "Hello"}, thought]
        opened: Any = await client.responses.create(model="sim", input=again)
        broken_one: Any = {**thought, "encrypted_content": token[:-4] + "AAAA"}
        broken: Any = await client.responses.create(model="sim", input=[again[0], broken_one])
        assert ["input_transformations" in each.to_dict() for each in (opened, broken)] == [False, True]
        seals = house.gateway.models["sim"].seals
        assert seals is not None
        kept = decode_responses(Incoming(json.dumps({"model": "sim", "input": again}).encode(), "r_1"))
        texts = [part.text for each in seals.opened(kept.generation)[0].messages for part in each.parts]  # type: ignore[union-attr]
        assert [text.strip() for text in texts] == ["Hello", "I think so."]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("api", ["responses", "interactions"])
async def test_all_that_an_answer_continues_is_kept_for_as_long_as_the_answer(
    api: str, background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "chain_is_due", lambda *times: True)
    config = Config(history=HistoryConfig(responses_s=1000.0, events_s=600.0), responses=ResponsesConfig(poll_s=0.02))
    async with in_process(SIMULATOR, config=config) as house:
        ids: list[str] = []
        name = "previous_response_id" if api == "responses" else "previous_interaction_id"
        for number in range(4):
            body = {
                "model": "sim",
                "input": f"Turn {number}.",
                name: ids[-1] if ids else None,
                "background": background,
            }
            answer = await house.http.post(f"/v1/{api}", json={**body, "stream": True})
            assert answer.status_code == 200
            ids.append(re.findall(r'"id": ?"((?:resp|v1)_\w+)"', answer.text)[0])
            kept = [await house.gateway.history.response("", id) for id in ids]
            until = [each.expires_at for each in kept if each is not None and each.expires_at is not None]
            assert len(until) == len(ids)
            assert min(until) == until[-1]


async def test_a_store_that_keeps_nothing_longer_does_not_cost_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(MemoryStore):
        async def write(self, tenant: str, operations: Any, **more: Any) -> None:
            if all(isinstance(each, ExtendExpiry) for each in operations):
                raise StoreFailed("failed", "it is read alone")
            await super().write(tenant, operations, **more)

    clock = FakeClock()
    store = Stubborn(clock, most_bytes=1 << 24, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    gateway = Gateway(config=Config(history=HistoryConfig(responses_s=16.0)), clock=clock)
    gateway.services.running.history = guarded(store, gateway.config.history, clock)
    kept = StoredResponse(
        id="resp_1", body=b"{}", created_at=clock.time(), input=b"[]", output=b"[]", status="completed", model="sim"
    )
    await gateway.history.write("", [PutResponse(kept)])
    clock.advance(8)
    chain = await gateway.history.chain("", "resp_1")
    assert chain is not None
    await expiry.ChainTimes(gateway.services).keep("", "", chain)
    assert "what leads to resp_1 could not be kept longer: it is read alone" in caplog.text
