"""Ids of items as clients choose them, on every route that takes items: none costs a turn, an answer, or a list its end."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, in_process

from smg_core.apis.responses.wire.items import _AS_TEXT, _LEFT_OUT
from smg_core.apis.responses.wire.stored_items import _PREFIXES
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

BAD: list[Any] = [{"a": 1}, [1], 5, True, 0, "", "x" * 256, "a\x00b", "a\nb"]
KINDS = sorted({*_PREFIXES, *_LEFT_OUT, *_AS_TEXT, "item_reference"})
SHORT = {"model": "sim", "max_output_tokens": 3}
SAID = {"role": "user", "content": "Hello"}


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with in_process(SimulatorConfig(seed=1)) as house:
        yield house


async def conversation(house: House) -> str:
    return str((await house.http.post("/v1/conversations", json={})).json()["id"])


async def texts(house: House, id: str) -> list[str]:
    """What the user has said in a conversation."""
    found = (await house.http.get(f"/v1/conversations/{id}/items?order=asc&limit=100")).json()["data"]
    return [item["content"][0]["text"] for item in found if item.get("role") == "user"]


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_id_that_is_none_is_refused_for_every_kind_of_item_on_every_route(house: House, kind: str) -> None:
    kept = await conversation(house)
    for id in BAD:
        items = [SAID, {"type": kind, "id": id}]
        bodies: list[tuple[str, dict[str, Any], str]] = [
            ("/v1/responses", {**SHORT, "input": items}, "input[1].id"),
            ("/v1/responses", {**SHORT, "input": items, "stream": True}, "input[1].id"),
            ("/v1/responses", {**SHORT, "input": items, "background": True}, "input[1].id"),
            ("/v1/responses", {**SHORT, "input": items, "conversation": kept}, "input[1].id"),
            ("/v1/responses/compact", {"model": "sim", "input": items}, "input[1].id"),
            ("/v1/responses/input_tokens", {"model": "sim", "input": items}, "input[1].id"),
            ("/v1/conversations", {"items": items}, "items[1].id"),
            (f"/v1/conversations/{kept}/items", {"items": items}, "items[1].id"),
        ]
        for path, body, param in bodies:
            answer = await house.http.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), (path, id)
    assert await texts(house, kept) == []
    assert not house.engine.requests


@pytest.mark.parametrize("name", ["id", "call_id"])
async def test_a_step_of_a_server_s_tool_has_texts_as_its_ids(house: House, name: str) -> None:
    for id in ({"a": 1}, [1], 5, True):
        steps = [{"type": "user_input", "content": "Hello"}, {"type": "google_search_call", name: id}]
        answer = await house.http.post("/v1/interactions", json={"model": "sim", "input": steps})
        assert answer.status_code == 400
        assert f"input[1].{name}" in answer.text


async def test_two_items_of_one_id_are_refused_on_every_route(house: House) -> None:
    kept = await conversation(house)
    items = [{**SAID, "id": "msg_1"}, SAID, {"role": "user", "content": "Again", "id": "msg_1"}]
    references = [{"type": "item_reference", "id": "msg_1"}, SAID, {"type": "item_reference", "id": "msg_1"}]
    for given in (items, references):
        for more in ({}, {"conversation": kept}, {"background": True}, {"store": False}):
            answer = await house.http.post("/v1/responses", json={**SHORT, "input": given, **more})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input[2].id")
    for path in ("/v1/conversations", f"/v1/conversations/{kept}/items"):
        answer = await house.http.post(path, json={"items": items})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "items[2].id")
    assert await texts(house, kept) == []


@pytest.mark.parametrize("background", [False, True])
async def test_a_turn_under_a_used_id_is_refused_and_none_is_dropped(house: House, background: bool) -> None:
    kept = await conversation(house)
    body = {**SHORT, "conversation": kept, "background": background, "stream": True}

    async def say(*input: Any) -> Any:
        return await house.http.post("/v1/responses", json={**body, "input": list(input)})

    mine = {"type": "message", "role": "user", "content": "one", "id": "msg_u"}
    assert (await say(mine)).status_code == 200
    refused = await say({**mine, "content": "two"})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "input[0].id"
    assert refused.json()["error"]["message"].startswith("Duplicate item found with id msg_u.")
    assert (await say({**mine, "content": "two", "id": "msg_w"})).status_code == 200
    assert await texts(house, kept) == ["one", "two"]
    # one that is sent again as it was, and one that is only named, stand there once
    assert (await say(mine, {"type": "item_reference", "id": "msg_w"}, {"role": "user", "content": "three"})).is_success
    assert await texts(house, kept) == ["one", "two", "three"]


async def test_the_whole_conversation_may_be_sent_back_as_the_sdk_has_read_it(house: House) -> None:
    kept = await conversation(house)
    http = house.gateway.http_client(openai)
    async with openai.AsyncOpenAI(api_key="x", base_url="http://gateway/v1", http_client=http, max_retries=0) as client:
        await client.responses.create(model="sim", conversation=kept, input="one", max_output_tokens=5)
        listed = [item async for item in await client.conversations.items.list(kept, order="asc", limit=1)]
        assert len(listed) == 2
        again: Any = [item.model_dump() for item in listed]
        two: Any = {"role": "user", "content": "two"}
        await client.responses.create(model="sim", conversation=kept, input=[*again, two], max_output_tokens=5)
    assert await texts(house, kept) == ["one", "two"]
