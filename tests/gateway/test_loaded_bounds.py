"""What a request has loaded from the history is bounded as what it brings: in bytes, JSON values, items and depth."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest
from tests.gateway.conftest import in_process

from smg_core import Config
from smg_core.history.guard import GuardedStore
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import DeleteItem, Page, StoredItem
from smg_core.settings import MIB
from smg_core.wire.settings import LimitsConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SIMULATOR = SimulatorConfig(seed=1)


@asynccontextmanager
async def asked(history: HistoryConfig | None = None, **limits: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client of a gateway with these bounds."""
    config = attrs.evolve(Config(), history=history or HistoryConfig(), limits=LimitsConfig(**limits))
    async with in_process(SIMULATOR, config=config) as house:
        http = house.gateway.http_client(openai)
        async with openai.AsyncOpenAI(
            api_key="x", base_url="http://gateway/v1", http_client=http, max_retries=0
        ) as client:
            yield client


def turn(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def unread(size: int) -> Any:
    """An item of about that many bytes that is kept and is no part of the prompt."""
    action = {"type": "search", "query": "x" * size}
    return {"type": "web_search_call", "status": "completed", "action": action}


async def first_refusal(ask: Any, most: int) -> tuple[int, openai.BadRequestError]:
    """How many requests were answered before one was refused."""
    for answered in range(most):
        try:
            await ask(answered)
        except openai.BadRequestError as refused:
            return answered, refused
    raise AssertionError(f"none of {most} requests was refused")


async def test_the_values_of_a_chain_are_counted_together() -> None:
    async with asked(json_values=400) as client:
        previous: list[str | None] = [None]

        async def ask(number: int) -> None:
            items = [turn("Hi") for _ in range(20)]
            answer = await client.responses.create(
                model="sim", input=items, previous_response_id=previous[-1], max_output_tokens=3
            )
            previous.append(answer.id)

        answered, refused = await first_refusal(ask, 20)
    assert 1 < answered < 8
    assert refused.param == "previous_response_id"
    assert "400 values" in refused.message


async def test_the_values_of_a_conversation_are_counted_together() -> None:
    async with asked(json_values=400) as client:
        conversation = (await client.conversations.create()).id

        async def ask(number: int) -> None:
            await client.conversations.items.create(conversation, items=[turn("Hi") for _ in range(15)])
            await client.responses.create(model="sim", input="Hi", conversation=conversation, max_output_tokens=3)

        answered, refused = await first_refusal(ask, 20)
    assert 1 < answered < 10
    assert refused.param == "conversation"


async def test_a_conversation_is_bounded_in_bytes() -> None:
    async with asked(HistoryConfig(chain_bytes=MIB)) as client:
        conversation = (await client.conversations.create()).id

        async def ask(number: int) -> None:
            await client.conversations.items.create(conversation, items=[unread(300_000)])
            await client.responses.create(
                model="sim", input="Hi", conversation=conversation, store=False, max_output_tokens=3
            )

        answered, refused = await first_refusal(ask, 10)
    assert (answered, refused.param) == (3, "conversation")
    assert "1,048,576 bytes" in refused.message


@pytest.mark.full
async def test_a_conversation_is_bounded_in_items() -> None:
    async with asked(messages=50) as client:
        conversation = (await client.conversations.create()).id

        async def ask(number: int) -> None:
            await client.conversations.items.create(conversation, items=[turn("Hi") for _ in range(20)])
            await client.responses.create(
                model="sim", input="Hi", conversation=conversation, store=False, max_output_tokens=3
            )

        answered, refused = await first_refusal(ask, 10)
    assert (answered, refused.param) == (2, "conversation")


async def test_items_are_found_in_several_responses_whatever_their_sizes() -> None:
    async with asked(HistoryConfig(page_bytes=1024)) as client:
        answers = [
            await client.responses.create(model="sim", input="x" * size, max_output_tokens=3)
            for size in (10, 3000, 10, 2000)
        ]
        references: Any = [{"type": "item_reference", "id": answer.output[0].id} for answer in answers]
        told = await client.responses.create(model="sim", input=[*references, turn("So?")], max_output_tokens=3)
        items = [item.id async for item in client.responses.input_items.list(told.id, order="asc")]
    assert items[:4] == [answer.output[0].id for answer in answers]  # type: ignore[union-attr]


async def test_references_load_no_more_than_a_chain_may() -> None:
    async with asked(HistoryConfig(chain_bytes=MIB, page_bytes=1024)) as client:
        answers = [
            await client.responses.create(model="sim", input=[unread(300_000), turn("Hi")], max_output_tokens=3)
            for _ in range(5)
        ]
        references: Any = [{"type": "item_reference", "id": answer.output[0].id} for answer in answers]
        await client.responses.create(model="sim", input=references[:3], max_output_tokens=3, store=False)
        with pytest.raises(openai.BadRequestError, match="1,048,576 bytes") as refused:
            await client.responses.create(model="sim", input=references, max_output_tokens=3)
    assert refused.value.param == "input"


async def test_the_items_of_a_conversation_are_listed_once_each_on_pages_of_any_bytes() -> None:
    async with asked(HistoryConfig(page_bytes=1024)) as client:
        conversation = (await client.conversations.create()).id
        for size in (1, 500, 2000, 1, 1, 900, 900):
            await client.conversations.items.create(conversation, items=[turn("x" * size)])
        listed = client.conversations.items.list(conversation, order="asc", limit=100)
        sizes = [len(item.content[0].text) async for item in listed]  # type: ignore[union-attr]
    assert sizes == [1, 500, 2000, 1, 1, 900, 900]


async def test_items_that_are_deleted_while_a_conversation_is_read_hide_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each item is deleted when the page that it ends was read."""
    async with asked(HistoryConfig(page_bytes=1024)) as client:
        conversation = (await client.conversations.create()).id
        for _ in range(5):
            await client.conversations.items.create(conversation, items=[turn("word " * 100)])

        async def tokens() -> int:
            answer = await client.responses.create(
                model="sim", input="Hi", conversation=conversation, store=False, max_output_tokens=3
            )
            assert answer.usage is not None
            return answer.usage.input_tokens

        whole, read, deleted = await tokens(), GuardedStore.items, []

        async def overtaken(store: GuardedStore, tenant: str, conversation_id: str, **page: Any) -> Page[StoredItem]:
            found = await read(store, tenant, conversation_id, **page)
            deleted.append(found.data[-1].id)
            await store.write(tenant, [DeleteItem(conversation_id, found.data[-1].id)])
            return found

        monkeypatch.setattr(GuardedStore, "items", overtaken)
        assert await tokens() == whole
        assert len(deleted) == 5


@pytest.mark.full
async def test_what_was_kept_under_a_wider_bound_of_depth_is_refused_under_a_narrower_one(tmp_path: Path) -> None:
    kept = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    deep: Any = "x"
    for _ in range(45):
        deep = {"a": deep}
    search: Any = {"type": "tool_search_call", "execution": "client", "call_id": "c", "arguments": deep}
    async with asked(kept) as client:
        made = await client.conversations.create(items=[search])
    async with asked(kept, json_depth=4) as client:
        with pytest.raises(openai.BadRequestError, match="nested more than") as refused:
            await client.responses.create(model="sim", input="Hi", conversation=made.id)
        again = await client.conversations.items.list(made.id)
    assert refused.value.param == "conversation"
    assert len(again.data) == 1
