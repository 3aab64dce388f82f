"""Compaction: by its own route, and before a turn whose prompt is over the client's threshold; what it says holds from then."""

from collections.abc import AsyncIterator
from typing import Any

import attrs
import openai
import pytest
from tests.gateway.conftest import House, in_process

from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.clock import SystemClock
from smg_core.history.memory.store import MemoryStore
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SUMMARY = "Ada has asked about a lighthouse."
TOLD = "Told by the summary."
PAST = "The keeper of the lighthouse wrote every day. " * 40
RULES = (
    Rule(("write a summary of this conversation",), Reply(SUMMARY)),
    Rule((SUMMARY, "be brief", "what next?"), Reply(TOLD)),
    Rule((SUMMARY,), Reply("Without the rest.")),
    Rule((), Reply("Of all.")),
)
SIMULATOR = SimulatorConfig(rules=RULES)
MANAGED: Any = [{"type": "compaction", "compact_threshold": 200}]
TURNS: Any = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": PAST},
    {"role": "assistant", "content": "So it was."},
    {"role": "user", "content": "What next?"},
]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with in_process(SIMULATOR) as house:
        yield house


def sdk(house: House) -> openai.AsyncOpenAI:
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(api_key="x", base_url="http://g/v1", http_client=http, max_retries=0)


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with sdk(house) as client:
        yield client


@pytest.mark.full
async def test_the_route_gives_the_users_messages_and_one_sealed_item_to_go_on_from(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.compact(model="sim", input=TURNS)
    assert made.object == "response.compaction"
    assert [item.type for item in made.output] == ["message", "message", "compaction"]
    assert [item.content[0].text for item in made.output[:2]] == [PAST, "What next?"]  # type: ignore[union-attr]
    assert made.usage.output_tokens > 0
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)
    after: Any = [
        *(item.to_dict(warnings=False) for item in made.output),
        {"role": "user", "content": "Be brief. What next?"},
    ]
    answer = await client.responses.create(model="sim", input=after, store=False)
    assert answer.output_text == TOLD
    assert answer.usage is not None
    assert answer.usage.input_tokens < made.usage.input_tokens


@pytest.mark.full
async def test_the_route_compacts_a_chain_that_is_kept(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="sim", input=PAST)
    second = await client.responses.create(model="sim", input="And?", previous_response_id=first.id)
    made = await client.responses.compact(model="sim", previous_response_id=second.id, instructions="Be kind.")
    texts = [item.content[0].text for item in made.output[:-1]]  # type: ignore[union-attr]
    assert texts == [PAST, "And?"]
    assert made.output[-1].type == "compaction"


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": True}, "stream"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"max_output_tokens": 5}, "max_output_tokens"),
        ({"input": None}, "input"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
        ({"context_management": MANAGED}, "context_management"),
    ],
)
async def test_what_the_route_does_not_have_is_refused_by_name(
    client: openai.AsyncOpenAI, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        await client.post("/responses/compact", body={"model": "sim", "input": "Hi", **fields}, cast_to=object)
    assert raised.value.param == param


async def test_a_model_that_writes_no_summary_fails_the_request() -> None:
    silent = SimulatorConfig(rules=(Rule((), Reply("")),))
    async with in_process(silent) as house:
        answer = await house.http.post("/v1/responses/compact", json={"model": "sim", "input": "Hi"})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "The model wrote no summary."


async def test_a_summary_that_was_cut_off_replaces_nothing() -> None:
    """By every way to a compaction: a trigger under a bound, the route, and a turn over the threshold in a full context."""
    asked: Any = [*TURNS[1:], {"type": "compaction_trigger"}]
    long = attrs.evolve(SIMULATOR, rules=(Rule(RULES[0].words, Reply("word " * 3000)), *RULES[1:]), context_length=2000)
    async with in_process(long) as house, sdk(house) as client:
        bounded = await client.responses.create(model="sim", input=asked, max_output_tokens=5)
        with pytest.raises(openai.InternalServerError) as raised:
            await client.responses.compact(model="sim", input=TURNS)
        managed = await client.responses.create(model="sim", input=TURNS, context_management=MANAGED)
        kept = await client.responses.create(model="sim", input="And?", previous_response_id=bounded.id)
    assert (bounded.status, bounded.output) == ("incomplete", [])
    assert bounded.incomplete_details is not None
    assert bounded.incomplete_details.reason == "max_output_tokens"
    assert "The model's summary was cut off." in raised.value.message
    assert [item.type for item in managed.output] == ["message"]
    assert managed.output_text == "Of all."
    assert kept.output_text == "Of all."


async def test_a_prompt_over_the_threshold_is_compacted_before_its_turn(client: openai.AsyncOpenAI) -> None:
    answer = await client.responses.create(model="sim", input=TURNS, context_management=MANAGED)
    assert [item.type for item in answer.output] == ["compaction", "message"]
    assert answer.output_text == TOLD
    assert answer.usage is not None
    counted = await client.responses.input_tokens.count(model="sim", input=TURNS)
    assert answer.usage.input_tokens > counted.input_tokens  # both turns are paid for
    assert (await client.responses.retrieve(answer.id)).to_dict() == answer.to_dict()


async def test_the_stream_of_a_compaction_has_the_same_items_in_the_grammar_of_the_api(
    client: openai.AsyncOpenAI,
) -> None:
    stream = await client.responses.create(model="sim", input=TURNS, context_management=MANAGED, stream=True)
    events = [event.to_dict() async for event in stream]
    grammar = check_stream(events)
    assert [item["type"] for item in grammar.items] == ["compaction", "message"]
    assert grammar.items[0]["encrypted_content"]
    assert "summary of this conversation" not in str(events)
    assert SUMMARY not in str(events)


@pytest.mark.parametrize("kept", [True, False])
async def test_later_turns_are_told_the_summary_the_developers_word_and_the_users(
    client: openai.AsyncOpenAI, kept: bool
) -> None:
    first = await client.responses.create(model="sim", input=TURNS, context_management=MANAGED, store=kept)
    if kept:
        second = await client.responses.create(model="sim", input="Yes?", previous_response_id=first.id)
    else:
        items: Any = [*(item.to_dict() for item in first.output), {"role": "user", "content": "Yes?"}]
        second = await client.responses.create(model="sim", input=items, store=False)
    assert second.output_text == TOLD
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens < 200


async def test_a_prompt_under_the_threshold_is_left_as_it_is(client: openai.AsyncOpenAI) -> None:
    large: Any = [{"type": "compaction", "compact_threshold": 100_000}]
    answer = await client.responses.create(model="sim", input=TURNS, context_management=large)
    assert [item.type for item in answer.output] == ["message"]
    assert answer.output_text == "Of all."


@pytest.mark.full
async def test_what_is_no_past_is_not_compacted(client: openai.AsyncOpenAI) -> None:
    answer = await client.responses.create(model="sim", input=PAST, context_management=MANAGED)
    assert [item.type for item in answer.output] == ["message"]


async def test_a_response_in_the_background_is_compacted_alike(client: openai.AsyncOpenAI) -> None:
    stream = await client.responses.create(
        model="sim", input=TURNS, context_management=MANAGED, background=True, stream=True
    )
    grammar = check_stream([event.to_dict() async for event in stream])
    assert [item["type"] for item in grammar.items] == ["compaction", "message"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("entry", "param"),
    [
        ({"type": "forgetting"}, "context_management[0].type"),
        ({"type": "compaction"}, "context_management[0].compact_threshold"),
        ({"type": "compaction", "compact_threshold": 0}, "context_management[0].compact_threshold"),
    ],
)
async def test_a_management_that_is_none_is_refused_by_name(client: openai.AsyncOpenAI, entry: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.create(model="sim", input="Hi", context_management=[entry])
    assert raised.value.param == param


@pytest.mark.parametrize("way", ["previous_response_id", "conversation"])
async def test_a_response_that_only_compacted_is_continued_from_its_summary(
    client: openai.AsyncOpenAI, way: str
) -> None:
    kept: Any = {"conversation": (await client.conversations.create()).id} if way == "conversation" else {}
    asked: Any = [*TURNS[1:], {"type": "compaction_trigger"}]
    compacted = await client.responses.create(model="sim", input=asked, **kept)
    assert [item.type for item in compacted.output] == ["compaction"]
    before: Any = kept or {"previous_response_id": compacted.id}
    answer = await client.responses.create(model="sim", input="Be brief. What next?", **before)
    assert answer.output_text == TOLD


@pytest.mark.full
@pytest.mark.parametrize("way", ["previous_response_id", "conversation"])
async def test_what_is_kept_goes_on_without_the_key_of_its_compaction(way: str) -> None:
    store = MemoryStore(SystemClock(), most_bytes=10**8, most_links=100, most_link_bytes=10**8, most_page_bytes=10**8)
    kept: Any = {}
    async with in_process(SIMULATOR, history=store) as house, sdk(house) as client:
        if way == "conversation":
            kept = {"conversation": (await client.conversations.create()).id}
        first = await client.responses.create(model="sim", input=TURNS, context_management=MANAGED, **kept)
        assert [item.type for item in first.output] == ["compaction", "message"]
    before: Any = kept or {"previous_response_id": first.id}
    async with in_process(SIMULATOR, history=store) as house, sdk(house) as client:  # a new process draws another key
        answer = await client.responses.create(model="sim", input="And then?", **before)
        assert answer.usage is not None
        assert answer.usage.input_tokens > MANAGED[0]["compact_threshold"]  # all that the summary stood for
        own: Any = [first.output[0].to_dict(), {"role": "user", "content": "And then?"}]
        with pytest.raises(openai.BadRequestError) as raised:
            await client.responses.create(model="sim", input=own, store=False)
        assert (raised.value.code, raised.value.param) == ("invalid_encrypted_content", "input[0].encrypted_content")
