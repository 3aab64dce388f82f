"""Tools that run in the gateway for Realtime sessions: listed once, called, asked about, approved and refused."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import House
from tests.gateway.realtime import in_order, opened, receive, respond, say, send, talk, until
from tests.gateway.test_tool_loop import gateway_with
from tests.gateway.tool_server import ToolServer, tool_server

from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

NOTES = {"type": "mcp", "server_label": "notes", "require_approval": "never"}
ASKING = {**NOTES, "require_approval": "always"}
ADD = Reply(tool_calls=(("notes__add", {"a": 2, "b": 3}),))
FAIL = Reply(tool_calls=(("notes__fail", {"why": "so"}),))
DONE = Reply("It is done.")


@pytest.fixture
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture
async def house(tools: ToolServer, tmp_path: Path) -> AsyncIterator[House]:
    async with gateway_with(tmp_path, tools) as house:
        yield house


async def with_tools(socket: Any, *tools: Any) -> Any:
    await opened(socket)
    await send(socket, "session.update", session={"type": "realtime", "tools": list(tools)})
    updated = await receive(socket)
    await say(socket, "2 + 3?")
    return updated


def prompt(house: House) -> str:
    seen = house.engine.requests[-1]
    return house.engine.engine.vocabulary.decode(list(seen.input_ids), skip_special_tokens=False)


async def answer(socket: Any, question: str, *, approve: bool) -> None:
    item = {"type": "mcp_approval_response", "approval_request_id": question, "approve": approve}
    await send(socket, "conversation.item.create", item=item)
    await until(socket, "conversation.item.done")


@pytest.mark.full
async def test_a_tool_is_listed_once_and_called_within_the_response(house: House, tools: ToolServer) -> None:
    house.engine.say(ADD, DONE, DONE)
    async with talk(house) as socket:
        await with_tools(socket, NOTES)
        events = in_order(await respond(socket))
        await say(socket, "Thanks.")
        again = in_order(await respond(socket))

    kinds = [event["type"] for event in events]
    listed = kinds.index("mcp_list_tools.in_progress")
    assert kinds[listed - 1 : listed + 3] == [
        "conversation.item.added",
        "mcp_list_tools.in_progress",
        "conversation.item.done",
        "mcp_list_tools.completed",
    ]
    call, message = events[-1]["response"]["output"]
    assert (call["type"], call["output"], call["error"]) == ("mcp_call", "SUM-5", None)
    assert json.loads(call["arguments"]) == {"a": 2, "b": 3}
    assert message["content"][0]["text"] == "It is done."
    assert [kind for kind in kinds if kind.startswith("response.mcp_call")] == [
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
    ]
    assert not any(event["type"].startswith("mcp_list_tools") for event in again)
    assert "SUM-5" in prompt(house)
    assert tools.ran == ["add 2 3"]


@pytest.mark.full
async def test_a_call_that_fails_is_told_and_the_model_goes_on(house: House) -> None:
    house.engine.say(FAIL, DONE)
    async with talk(house) as socket:
        await with_tools(socket, NOTES)
        events = in_order(await respond(socket))
    call, _ = events[-1]["response"]["output"]
    assert "response.mcp_call.failed" in [event["type"] for event in events]
    assert call["error"]["type"] == "tool_execution_error"
    assert "BROKEN-so" in call["error"]["message"]


@pytest.mark.full
@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_that_needs_approval_waits_for_the_users_answer(
    house: House, tools: ToolServer, approve: bool
) -> None:
    house.engine.say(ADD, DONE, DONE)
    async with talk(house) as socket:
        await with_tools(socket, ASKING)
        asked = in_order(await respond(socket))[-1]["response"]
        (question,) = asked["output"]
        ran_before = list(tools.ran)
        await answer(socket, question["id"], approve=approve)
        events = in_order(await respond(socket))
        await say(socket, "Thanks.")
        last = in_order(await respond(socket))
    assert (question["type"], question["name"], asked["status"]) == ("mcp_approval_request", "add", "completed")
    assert ran_before == []
    assert tools.ran == (["add 2 3"] if approve else [])
    calls = [item for item in events[-1]["response"]["output"] if item["type"] == "mcp_call"]
    assert [call["approval_request_id"] for call in calls] == ([question["id"]] if approve else [])
    assert last[-1]["response"]["status"] == "completed"
    assert ("SUM-5" in prompt(house)) is approve


@pytest.mark.full
async def test_an_approval_in_the_midst_of_a_response_is_acted_on_by_the_next_one_and_once(
    house: House, tools: ToolServer
) -> None:
    house.engine.say(ADD, Reply("Shall I?"), DONE, DONE)
    async with talk(house) as socket:
        await with_tools(socket, ASKING)
        (question,) = in_order(await respond(socket))[-1]["response"]["output"]
        item = {"type": "mcp_approval_response", "approval_request_id": question["id"], "approve": True}
        await send(socket, "response.create")
        await send(socket, "conversation.item.create", item=item)
        await until(socket, "response.done")
        ran_before = list(tools.ran)
        acted = in_order(await respond(socket))
        after = in_order(await respond(socket))
    assert ran_before == []
    assert tools.ran == ["add 2 3"]
    assert [each["type"] for each in acted[-1]["response"]["output"]] == ["mcp_call", "message"]
    assert [each["type"] for each in after[-1]["response"]["output"]] == ["message"]


@pytest.mark.full
async def test_a_question_that_nobody_asked_cannot_be_answered_nor_one_twice(house: House) -> None:
    house.engine.say(ADD)
    async with talk(house) as socket:
        await with_tools(socket, ASKING)
        (question,) = in_order(await respond(socket))[-1]["response"]["output"]
        await answer(socket, question["id"], approve=True)
        errors = []
        for id in (question["id"], "none"):
            item = {"type": "mcp_approval_response", "approval_request_id": id, "approve": True}
            await send(socket, "conversation.item.create", item=item)
            errors.append((await receive(socket))["error"])
    assert [error["param"] for error in errors] == ["item.approval_request_id"] * 2


async def test_what_lets_into_a_server_of_tools_is_not_told(house: House) -> None:
    secret = {**NOTES, "authorization": "SECRET", "headers": {"x-key": "SECRET"}}
    async with talk(house) as socket:
        updated = await with_tools(socket, secret)
    assert "SECRET" not in json.dumps(updated)
    assert updated["session"]["tools"] == [NOTES]
