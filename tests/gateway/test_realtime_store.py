"""Conversations of Realtime sessions that are kept: other sessions and other APIs find them, after a kill too."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.realtime import SIMULATOR, in_order, receive, respond, say, send, talk, until
from tests.gateway.test_default_store import ports, served, state
from tests.gateway.test_realtime_life import configured
from websockets.exceptions import InvalidStatus

from smg_core.app.app import App
from smg_core.auth.base import Head
from smg_core.errors import StoreFailed
from smg_core.request import Caller

pytestmark = pytest.mark.anyio

__all__ = ["ports", "state"]
STORE = "/v1/realtime?model=sim&store=true"


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[House]:
    async with over_http(SIMULATOR) as house:
        yield house


def again(id: str) -> str:
    return f"/v1/realtime?model=sim&conversation={id}"


async def begun(socket: Any) -> str:
    """The id of the conversation of a session that has begun."""
    return str((await until(socket, "conversation.created"))[-1]["conversation"]["id"])


async def told(socket: Any, count: int) -> list[Any]:
    """The items that a session tells of at its beginning."""
    events = [await receive(socket) for _ in range(2 * count)]
    return [event["item"] for event in events if event["type"] == "conversation.item.done"]


async def listed(house: House, id: str) -> list[Any]:
    items: list[Any] = (await house.http.get(f"/v1/conversations/{id}/items?order=asc")).json()["data"]
    return items


def texts(items: list[Any]) -> list[str]:
    return [part["text"] for item in items for part in item.get("content", ()) if "text" in part]


async def test_another_session_goes_on_with_a_conversation_that_was_kept(shared: House) -> None:
    async with talk(shared, STORE) as socket:
        id = await begun(socket)
        first = await say(socket, "FIRST-WORDS")
        answer = in_order(await respond(socket, max_output_tokens=5))[-1]["response"]["output"][0]
        items = await listed(shared, id)
    async with talk(shared, again(id)) as socket:
        assert await begun(socket) == id
        known = await told(socket, 2)
        second = await say(socket, "Second words")
        await respond(socket, max_output_tokens=2)
    async with talk(shared, again(id)) as socket:
        await begun(socket)
        assert len(await told(socket, 4)) == 4
    assert [each["id"] for each in known] == [each["id"] for each in items] == [first["id"], answer["id"]]
    assert texts(known) == texts(items) == ["FIRST-WORDS", *texts([answer])]
    assert known[1]["status"] == "incomplete"
    assert second["id"] not in {first["id"], answer["id"]}
    prompt = shared.engine.requests[-1]
    decode = shared.engine.engine.vocabulary.decode
    assert "FIRST-WORDS" in decode(list(prompt.input_ids), skip_special_tokens=False)


async def test_responses_go_on_with_a_session_and_a_session_with_them(shared: House) -> None:
    async with talk(shared, STORE) as socket:
        id = await begun(socket)
        await say(socket, "By voice")
    body = {"model": "sim", "input": "By Responses", "conversation": id, "max_output_tokens": 20}
    answer = await shared.http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    async with talk(shared, again(id)) as socket:
        await begun(socket)
        items = await told(socket, 3)
    assert texts(items)[:2] == ["By voice", "By Responses"]
    assert items[2]["role"] == "assistant"


async def test_what_is_put_between_deleted_and_called_is_kept_in_its_order(shared: House) -> None:
    def message(text: str, **fields: Any) -> dict[str, Any]:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], **fields}

    async with talk(shared, STORE) as socket:
        id = await begun(socket)
        for item, previous in (
            (message("b", id="b"), None),
            (message("a", id="a"), "root"),
            (message("d", id="d"), None),
            (message("c", id="c"), "b"),
            ({"type": "function_call", "id": "call", "call_id": "c1", "name": "f", "arguments": "{}"}, None),
            ({"type": "function_call_output", "id": "out", "call_id": "c1", "output": "42"}, None),
        ):
            place = {"previous_item_id": previous} if previous else {}
            await send(socket, "conversation.item.create", item=item, **place)
            assert (await until(socket, "conversation.item.done"))[-1]["type"] != "error"
        await send(socket, "conversation.item.delete", item_id="d")
        await until(socket, "conversation.item.deleted")
        ids = [each["id"] for each in await listed(shared, id)]
    async with talk(shared, again(id)) as socket:
        await begun(socket)
        items = await told(socket, 5)
    assert ids == [each["id"] for each in items] == ["a", "b", "c", "call", "out"]
    assert (items[3]["name"], items[4]["output"]) == ("f", "42")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("model=sim&conversation=conv_none", 404, "conversation_not_found"),
        ("model=sim&store=maybe", 400, "invalid_value"),
        ("intent=transcription&store=true", 400, "invalid_value"),
    ],
)
async def test_a_handshake_for_a_conversation_that_cannot_be_had_is_refused(
    shared: House, query: str, status: int, code: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with talk(shared, f"/v1/realtime?{query}"):
            pass
    response = refused.value.response
    assert (response.status_code, json.loads(response.body)["error"]["code"]) == (status, code)


async def test_a_client_secret_opens_no_conversation_that_others_have(shared: House) -> None:
    async with talk(shared, STORE) as socket:
        id = await begun(socket)
        await say(socket, "Of another user")
    asked = {"session": {"type": "realtime", "model": "sim"}}
    secret = (await shared.http.post("/v1/realtime/client_secrets", json=asked)).json()["value"]
    bearer = {"authorization": f"Bearer {secret}"}
    with pytest.raises(InvalidStatus) as refused:
        async with talk(shared, again(id), additional_headers=bearer):
            pass
    assert refused.value.response.status_code == 403


async def test_a_conversation_with_what_a_session_cannot_have_is_refused_by_name(shared: House) -> None:
    item = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_file", "file_data": "data:text/plain;base64,YQ=="}],
    }
    made = await shared.http.post("/v1/conversations", json={"items": [item]})
    assert made.status_code == 200, made.text
    with pytest.raises(InvalidStatus) as refused:
        async with talk(shared, again(made.json()["id"])):
            pass
    assert (refused.value.response.status_code, b"'input_file'" in refused.value.response.body) == (400, True)


async def test_a_conversation_is_its_tenants_alone() -> None:
    async def identify(head: Head) -> Caller:
        return Caller(head.headers.get("authorization", ""), "key")

    async with over_http(SIMULATOR, wrap=lambda app: App(app._gateway, identify)) as house:
        async with talk(house, STORE, additional_headers={"authorization": "Bearer one"}) as socket:
            id = await begun(socket)
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, again(id), additional_headers={"authorization": "Bearer other"}):
                pass
    assert refused.value.response.status_code == 404


async def test_a_conversation_longer_than_a_session_is_refused() -> None:
    async with over_http(SIMULATOR, config=configured(items=2)) as house:
        items = [{"type": "message", "role": "user", "content": "a"}] * 3
        made = await house.http.post("/v1/conversations", json={"items": items})
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, again(made.json()["id"])):
                pass
    assert json.loads(refused.value.response.body)["error"]["code"] == "session_too_large"


async def test_a_store_that_fails_is_told_once_and_is_given_all_of_it_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with over_http(SIMULATOR) as house, talk(house, STORE) as socket:
        id = await begun(socket)
        history = house.gateway.services.running.history
        with monkeypatch.context() as patched:

            async def fails(*arguments: Any, **named: Any) -> None:
                raise StoreFailed("unreachable", "away")

            patched.setattr(type(history), "write", fails)
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
            for _ in range(2):
                await send(socket, "conversation.item.create", item=item)
            kinds = [(await receive(socket))["type"] for _ in range(5)]
        await say(socket, "b")
        kept = await listed(house, id)
    assert sorted(kinds) == ["conversation.item.added"] * 2 + ["conversation.item.done"] * 2 + ["error"]
    assert texts(kept) == ["a", "a", "b"]


async def test_what_other_apis_have_kept_is_there_once_whatever_a_session_changes(shared: House) -> None:
    items = [
        {"type": "message", "role": "user", "content": "One"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Two"}]},
        {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "So."}]},
    ]
    made = await shared.http.post("/v1/conversations", json={"items": items})
    assert made.status_code == 200, made.text
    id = made.json()["id"]
    before = [each["id"] for each in await listed(shared, id)]
    async with talk(shared, again(id)) as socket:
        await begun(socket)
        first, _ = await told(socket, 2)
        await send(socket, "conversation.item.delete", item_id=first["id"])
        await until(socket, "conversation.item.deleted")
        new = await say(socket, "Three")
    after = [each["id"] for each in await listed(shared, id)]
    assert after == [*before[1:], new["id"]]


async def test_a_session_that_asks_for_nothing_keeps_nothing(shared: House) -> None:
    async with talk(shared) as socket:
        id = await begun(socket)
        await say(socket, "Hello")
    assert (await shared.http.get(f"/v1/conversations/{id}")).status_code == 404


@pytest.mark.slow
async def test_a_client_finds_its_conversation_after_the_gateway_was_killed(
    state: Path,
    ports: tuple[int, int],  # the fixtures
) -> None:
    async with served(state, ports[0]) as gateway:
        house = attrs.evolve(HOUSE, url=f"http://127.0.0.1:{ports[0]}")
        async with talk(house, STORE) as socket:
            id = await begun(socket)
            asked = await say(socket, "Before the end")
            answer = (await respond(socket, max_output_tokens=4))[-1]["response"]["output"][0]
            gateway.process.send_signal(signal.SIGKILL)
            await socket.wait_closed()
    async with served(state, ports[0]), talk(house, again(id)) as socket:
        assert await begun(socket) == id
        items = await told(socket, 2)
        await say(socket, "And after it")
        events = in_order(await respond(socket, max_output_tokens=4))
    assert [each["id"] for each in items] == [asked["id"], answer["id"]]
    assert texts(items) == ["Before the end", *texts([answer])]
    assert events[-1]["response"]["status"] == "incomplete"


HOUSE: Any = House(None, None, None)  # type: ignore[arg-type]  # a gateway of another process, of which its URL is known
