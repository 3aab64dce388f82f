"""Tools that run in the gateway, for sessions that another server has: offered as functions, called here, told as MCP calls."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.realtime import SIMULATOR, in_order, respond, say, send, talk, until
from tests.gateway.test_realtime_relayed import LIVE, Peer, next_of, passing_to, response, speaking, tell
from tests.gateway.test_tool_loop import configured
from tests.gateway.tool_server import ToolServer, tool_server
from websockets.asyncio.server import ServerConnection

from smg_core.hooks import RequestFinished, ToolCalled
from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

NOTES = {"type": "mcp", "server_label": "notes", "require_approval": "never"}
MINE = {"type": "function", "name": "mine", "description": "Mine.", "parameters": {"type": "object", "properties": {}}}
ADD = Reply(tool_calls=(("notes__add", {"a": 2, "b": 3}),))
DONE = Reply("It is done.")


@pytest.fixture
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@asynccontextmanager
async def between(folder: Path, tools: ToolServer, url: str, **mcp: Any) -> AsyncIterator[House]:
    """A gateway with the server "notes", whose model `live` is at `url`."""
    config = configured(folder, tools)
    config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, **mcp))
    async with passing_to(url, config) as house:
        yield house


@asynccontextmanager
async def in_session(
    folder: Path, tools: ToolServer, *offered: Any, **mcp: Any
) -> AsyncIterator[tuple[House, House, Any]]:
    """The gateway with the session's own model, the one between, and a client whose session has these tools."""
    async with (
        over_http(SIMULATOR) as there,
        between(folder, tools, there.url, **mcp) as house,
        talk(house, LIVE) as socket,
    ):
        await until(socket, "conversation.created")
        await send(socket, "session.update", session={"type": "realtime", "tools": list(offered) or [NOTES]})
        yield there, house, socket


async def test_a_tool_is_called_here_within_one_response_of_the_client(tools: ToolServer, tmp_path: Path) -> None:
    async with in_session(tmp_path, tools, MINE, NOTES) as (there, house, socket):
        there.engine.say(ADD, DONE, Reply("Bye."))
        updated = (await until(socket, "session.updated"))[-1]
        await say(socket, "2 + 3?")
        events = in_order(await respond(socket))
        again = in_order(await respond(socket, instructions="Say goodbye."))
        await settled(house)
    done = events[-1]["response"]
    call, message = done["output"]
    assert [tool["type"] for tool in updated["session"]["tools"]] == ["function", "mcp"]
    assert (call["type"], call["name"], call["server_label"], call["output"]) == ("mcp_call", "add", "notes", "SUM-5")
    assert json.loads(call["arguments"]) == {"a": 2, "b": 3}
    assert (message["content"][0]["text"], done["status"]) == ("It is done.", "completed")
    assert {each["response_id"] for each in events if "response_id" in each} == {done["id"]}
    assert [each["output_index"] for each in events if each["type"] == "response.output_item.done"] == [0, 1]
    assert not any("function_call" in json.dumps(each) for each in events)
    assert tools.ran == ["add 2 3"]
    assert again[-1]["response"]["output"][0]["content"][0]["text"] == "Bye."
    finished = house.observer.of(RequestFinished)
    assert [each.outcome for each in finished] == ["ok", "ok"]
    assert done["usage"]["output_tokens"] == finished[0].completion_tokens
    assert [(each.server, each.tool, each.outcome) for each in house.observer.of(ToolCalled)] == [
        ("notes", "add", "ok")
    ]


@pytest.mark.full
async def test_what_servers_offer_is_told_once_and_what_lets_into_them_never(tools: ToolServer, tmp_path: Path) -> None:
    secret = {**NOTES, "authorization": "SECRET", "headers": {"x-key": "SECRET"}}
    async with in_session(tmp_path, tools, secret) as (there, _, socket):
        first = await until(socket, "mcp_list_tools.completed")
        await send(socket, "session.update", session={"type": "realtime", "tools": [secret], "instructions": "Again."})
        second = await until(socket, "session.updated")
        there.engine.say(DONE)
        third = await respond(socket, instructions="Hm.")
        prompts = there.engine.requests
    told = [each["type"] for each in (*first, *second, *third) if "mcp_list_tools" in each["type"]]
    (listed,) = [each["item"] for each in first if each["type"] == "conversation.item.done"]
    assert told == ["mcp_list_tools.in_progress", "mcp_list_tools.completed"]
    assert {tool["name"] for tool in listed["tools"]} == {"add", "write", "fail", "look", "wait"}
    assert second[-1]["session"]["tools"] == [NOTES]
    assert "SECRET" not in json.dumps([first, second, third])
    assert len(prompts) == 1


@pytest.mark.full
async def test_a_call_that_fails_is_told_and_the_model_goes_on(tools: ToolServer, tmp_path: Path) -> None:
    async with in_session(tmp_path, tools) as (there, _, socket):
        there.engine.say(Reply(tool_calls=(("notes__fail", {"why": "so"}), ("notes__made_up", {}))), DONE)
        await until(socket, "mcp_list_tools.completed")
        await say(socket, "Fail.")
        events = in_order(await respond(socket))
    failed, made_up, message = events[-1]["response"]["output"]
    assert "BROKEN-so" in failed["error"]["message"]
    assert "offers no tool of this name" in made_up["error"]["message"]
    assert message["content"][0]["text"] == "It is done."


@pytest.mark.full
async def test_a_call_of_the_clients_own_is_its_own_and_what_ran_here_is_in_the_conversation(
    tools: ToolServer, tmp_path: Path
) -> None:
    async with in_session(tmp_path, tools, NOTES, MINE) as (there, _, socket):
        there.engine.say(Reply(tool_calls=(("notes__add", {"a": 2, "b": 3}), ("mine", {}))), DONE)
        await until(socket, "mcp_list_tools.completed")
        await say(socket, "Both.")
        done = in_order(await respond(socket))[-1]["response"]
        mine = next(item for item in done["output"] if item["type"] == "function_call")
        output = {"type": "function_call_output", "call_id": mine["call_id"], "output": "MINE-DONE"}
        await send(socket, "conversation.item.create", item=output)
        added = (await until(socket, "conversation.item.done"))[-1]
        last = in_order(await respond(socket))[-1]["response"]
        prompt = there.engine.engine.vocabulary.decode(
            list(there.engine.requests[-1].input_ids), skip_special_tokens=False
        )
    assert sorted(item["type"] for item in done["output"]) == ["function_call", "mcp_call"]
    assert last["output"][0]["content"][0]["text"] == "It is done."
    assert "SUM-5" in prompt
    assert "MINE-DONE" in prompt
    assert added["previous_item_id"] in {item["id"] for item in done["output"]}


@pytest.mark.full
async def test_calls_over_the_bound_end_the_response_and_leave_no_call_open(tools: ToolServer, tmp_path: Path) -> None:
    async with in_session(tmp_path, tools, calls=1) as (there, house, socket):
        two = Reply(tool_calls=(("notes__add", {"a": 1, "b": 1}), ("notes__add", {"a": 2, "b": 2})))
        there.engine.say(two, DONE)
        await until(socket, "mcp_list_tools.completed")
        await say(socket, "Twice.")
        ended = in_order(await respond(socket))[-1]["response"]
        await settled(house)
        goes_on = in_order(await respond(socket))[-1]["response"]
    assert (ended["status"], ended["status_details"]["reason"]) == ("incomplete", "max_output_tokens")
    assert tools.ran == ["add 1 1"]
    assert goes_on["status"] == "completed"


@pytest.mark.parametrize(
    ("event", "fields", "param"),
    [
        (
            "session.update",
            {"session": {"type": "realtime", "tools": [{"type": "mcp", "server_label": "notes"}]}},
            "session.tools[0].require_approval",
        ),
        ("session.update", {"session": {"type": "realtime", "tools": [{**NOTES, "server_label": "none"}]}}, "tools[0]"),
        ("session.update", {"session": {"type": "realtime", "tools": [NOTES, NOTES]}}, "tools[1]"),
        (
            "session.update",
            {"session": {"type": "realtime", "tools": [{**NOTES, "allowed_tools": 5}]}},
            "session.tools[0]",
        ),
        ("response.create", {"response": {"conversation": "none", "tools": [NOTES]}}, "response.tools"),
    ],
)
async def test_what_cannot_be_offered_is_refused_by_name_and_told_to_no_server(
    tools: ToolServer, tmp_path: Path, event: str, fields: dict[str, Any], param: str
) -> None:
    async def quiet(connection: ServerConnection, peer: Peer) -> None:
        await tell(connection, "heard")

    async with (
        speaking(quiet) as peer,
        between(tmp_path, tools, peer.url) as house,
        talk(house, LIVE) as socket,
    ):
        await send(socket, event, event_id="mine", **fields)
        error = (await next_of(socket, "error"))["error"]
        await send(socket, "input_audio_buffer.clear")
        await next_of(socket, "heard")
    assert (error["event_id"], error["param"][: len(param)]) == ("mine", param)
    assert [each["type"] for each in peer.heard] == ["input_audio_buffer.clear"]


@pytest.mark.full
async def test_a_server_of_tools_with_an_address_is_the_servers_own_to_call(tools: ToolServer, tmp_path: Path) -> None:
    elsewhere = {**NOTES, "server_url": "https://tools.example/mcp"}

    async def quiet(connection: ServerConnection, peer: Peer) -> None:
        await tell(connection, "heard")

    async with (
        speaking(quiet) as peer,
        between(tmp_path, tools, peer.url) as house,
        talk(house, LIVE) as socket,
    ):
        await send(socket, "session.update", session={"type": "realtime", "tools": [elsewhere]})
        await next_of(socket, "heard")
    assert peer.heard[0]["session"]["tools"] == [elsewhere]


# ------------------------------------------------------------------------------------ while tools run, the server is idle


def call_item(tool: str, id: str, **arguments: Any) -> dict[str, Any]:
    return {
        "id": f"item_{id}",
        "type": "function_call",
        "call_id": f"call_{id}",
        "name": tool,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


async def calls(connection: ServerConnection, id: str, item: dict[str, Any]) -> None:
    """A response that is one call."""
    await tell(connection, "response.created", response=response(id))
    begun = {**item, "arguments": "", "status": "in_progress"}
    await tell(connection, "response.output_item.added", response_id=id, output_index=0, item=begun)
    await tell(connection, "conversation.item.added", previous_item_id="item_user", item=begun)
    await tell(connection, "response.output_item.done", response_id=id, output_index=0, item=item)
    await tell(connection, "conversation.item.done", previous_item_id="item_user", item=item)
    usage = {"total_tokens": 30, "input_tokens": 20, "output_tokens": 10}
    await tell(connection, "response.done", response=response(id, "completed", output=[item], usage=usage))


async def one_that_waits(connection: ServerConnection, peer: Peer) -> None:
    """Calls the tool that waits, answers what comes then, and says that it hears sound."""
    event = peer.heard[-1]
    if event["type"] == "response.create":
        count = len(peer.of("response.create"))
        if count == 1:
            await calls(connection, "resp_1", call_item("notes__wait", "1", name="it"))
        else:
            await tell(connection, "response.created", response=response(f"resp_{count}"))
            usage = {"total_tokens": 5, "input_tokens": 4, "output_tokens": 1}
            done = response(f"resp_{count}", "completed", usage=usage)
            await tell(connection, "response.done", response=done)
    elif event["type"] == "input_audio_buffer.append":
        await tell(connection, "input_audio_buffer.speech_started", item_id="item_speech", audio_start_ms=0)
    elif event["type"] == "session.update":
        await tell(connection, "session.updated", session={"type": "realtime", **event["session"]})


@asynccontextmanager
async def waiting_for_a_tool(folder: Path, tools: ToolServer) -> AsyncIterator[tuple[Peer, House, Any]]:
    async with (
        speaking(one_that_waits) as peer,
        between(folder, tools, peer.url) as house,
        talk(house, LIVE) as socket,
    ):
        await send(socket, "session.update", session={"type": "realtime", "tools": [NOTES]})
        await send(socket, "response.create")
        await next_of(socket, "response.mcp_call.in_progress")
        await eventually(lambda: tools.at_once)
        yield peer, house, socket


def outputs(peer: Peer) -> list[str]:
    """What the server was told of calls."""
    return [each["item"]["output"] for each in peer.of("conversation.item.create")]


@pytest.mark.parametrize("named", [True, False])
async def test_a_client_may_cancel_while_a_tool_runs(tools: ToolServer, tmp_path: Path, named: bool) -> None:
    async with waiting_for_a_tool(tmp_path, tools) as (peer, house, socket):
        await send(socket, "response.cancel", **({"response_id": "resp_1"} if named else {}))
        done = (await next_of(socket, "response.done"))["response"]
        await eventually(lambda: outputs(peer))
        await send(socket, "response.create")
        after = (await next_of(socket, "response.done"))["response"]
        await settled(house)
    assert (done["id"], done["status"], done["status_details"]["reason"]) == ("resp_1", "cancelled", "client_cancelled")
    assert outputs(peer) == ["This call has no result: it was interrupted."]
    assert tools.left == ["it"]
    assert (after["id"], after["status"]) == ("resp_2", "completed")
    assert not peer.of("response.cancel")


async def test_a_user_who_speaks_while_a_tool_runs_interrupts_the_response(tools: ToolServer, tmp_path: Path) -> None:
    async with waiting_for_a_tool(tmp_path, tools) as (peer, house, socket):
        await send(socket, "input_audio_buffer.append", audio="AAAA")
        done = (await next_of(socket, "response.done"))["response"]
        await eventually(lambda: outputs(peer))
        await settled(house)
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")
    assert len(peer.of("response.create")) == 1
    assert tools.left == ["it"]


async def test_another_response_meanwhile_is_refused_and_the_one_under_way_is_told_once(
    tools: ToolServer, tmp_path: Path
) -> None:
    async with waiting_for_a_tool(tmp_path, tools) as (peer, house, socket):
        await send(socket, "response.create", event_id="early")
        refused = (await next_of(socket, "error"))["error"]
        tools.go.set()
        done = (await next_of(socket, "response.done"))["response"]
        await settled(house)
    assert (refused["event_id"], refused["code"]) == ("early", "conversation_already_has_active_response")
    assert (done["id"], done["status"]) == ("resp_1", "completed")
    assert done["usage"] == {"total_tokens": 35, "input_tokens": 24, "output_tokens": 11}
    assert [item["output"] for item in done["output"]] == ["WAITED-it"]
    assert outputs(peer) == ["WAITED-it"]
    assert house.observer.of(RequestFinished)[0].completion_tokens == 11


@pytest.mark.full
async def test_a_server_that_is_lost_while_a_tool_runs_fails_the_response(tools: ToolServer, tmp_path: Path) -> None:
    lost: list[ServerConnection] = []

    async def dies(connection: ServerConnection, peer: Peer) -> None:
        lost.append(connection)
        await one_that_waits(connection, peer)

    async with (
        speaking(dies) as peer,
        between(tmp_path, tools, peer.url) as house,
        talk(house, LIVE) as socket,
    ):
        await send(socket, "session.update", session={"type": "realtime", "tools": [NOTES]})
        await send(socket, "response.create")
        await next_of(socket, "response.mcp_call.in_progress")
        await eventually(lambda: tools.at_once)
        lost[0].transport.abort()
        done = (await next_of(socket, "response.done"))["response"]
        await socket.wait_closed()
        await settled(house)
    assert (done["id"], done["status"]) == ("resp_1", "failed")
    assert socket.close_code == 1011
    assert tools.left == ["it"]


@pytest.mark.full
async def test_a_client_that_leaves_while_a_tool_runs_ends_the_call(tools: ToolServer, tmp_path: Path) -> None:
    async with waiting_for_a_tool(tmp_path, tools) as (_, house, socket):
        await socket.close()
        await eventually(lambda: tools.left)
        await settled(house)
    assert house.observer.of(RequestFinished)[0].outcome == "client_gone"


@pytest.mark.full
async def test_a_server_that_does_not_go_on_behind_a_call_fails_the_response_and_its_words_are_not_told(
    tools: ToolServer, tmp_path: Path
) -> None:
    async def refuses(connection: ServerConnection, peer: Peer) -> None:
        if len(peer.of("response.create")) < 2 or peer.heard[-1]["type"] != "response.create":
            await one_that_waits(connection, peer)
            return
        about = {
            "type": "invalid_request_error",
            "code": "busy",
            "message": "No.",
            "event_id": peer.heard[-1]["event_id"],
        }
        await tell(connection, "error", error=about)

    tools.go.set()
    async with (
        speaking(refuses) as peer,
        between(tmp_path, tools, peer.url) as house,
        talk(house, LIVE) as socket,
    ):
        await send(socket, "session.update", session={"type": "realtime", "tools": [NOTES]})
        await send(socket, "response.create")
        events = []
        while not events or events[-1]["type"] != "response.done":
            events.append(json.loads(await socket.recv()))
        await settled(house)
    assert events[-1]["response"]["status"] == "failed"
    assert "error" not in [each["type"] for each in events]


# ------------------------------------------------------------------------------------------- where else tools are named


async def test_a_response_may_have_tools_of_its_own_and_demand_one(tools: ToolServer, tmp_path: Path) -> None:
    tools.go.set()
    async with (
        speaking(one_that_waits) as peer,
        between(tmp_path, tools, peer.url) as house,
        talk(house, LIVE) as socket,
    ):
        choice = {"type": "mcp", "server_label": "notes", "name": "wait"}
        await send(socket, "response.create", response={"tools": [MINE, NOTES], "tool_choice": choice, "input": []})
        done = (await next_of(socket, "response.done"))["response"]
        await send(socket, "response.create")
        await next_of(socket, "response.done")
        await settled(house)
    first, second, third = peer.of("response.create")
    call, output = [item["id"] for item in done["output"]], peer.of("conversation.item.create")[0]["item"]
    assert {tool["name"] for tool in first["response"]["tools"]} > {"mine", "notes__add", "notes__wait"}
    assert first["response"]["tool_choice"] == {"type": "function", "name": "notes__wait"}
    assert second["response"]["tool_choice"] == "auto"
    assert second["response"]["input"] == [{"type": "item_reference", "id": id} for id in (*call, output["id"])]
    assert (output["call_id"], output["output"]) == ("call_1", "WAITED-it")
    assert "response" not in third


async def test_a_name_that_the_client_gives_its_own_function_is_the_clients(tools: ToolServer, tmp_path: Path) -> None:
    async def calls_add(connection: ServerConnection, peer: Peer) -> None:
        if peer.heard[-1]["type"] == "response.create":
            await calls(connection, "resp_1", call_item("notes__add", "1", a=1, b=2))
        elif peer.heard[-1]["type"] == "session.update":
            await tell(connection, "session.updated", session={"type": "realtime", **peer.heard[-1]["session"]})

    own = {**MINE, "name": "notes__add"}
    async with (
        speaking(calls_add) as peer,
        between(tmp_path, tools, peer.url) as house,
        talk(house, LIVE) as socket,
    ):
        for offered in ([NOTES], [own, NOTES]):
            await send(socket, "session.update", session={"type": "realtime", "tools": offered})
            updated = await next_of(socket, "session.updated")
        await send(socket, "response.create")
        done = (await next_of(socket, "response.done"))["response"]
        await settled(house)
    assert updated["session"]["tools"] == [own, NOTES]
    assert [item["type"] for item in done["output"]] == ["function_call"]
    assert tools.ran == []


async def test_a_session_that_takes_its_tools_away_has_none(tools: ToolServer, tmp_path: Path) -> None:
    async with waiting_for_a_tool(tmp_path, tools) as (_, house, socket):
        tools.go.set()
        await next_of(socket, "response.done")
        await send(socket, "session.update", session={"type": "realtime", "tools": []})
        updated = await next_of(socket, "session.updated")
        await send(socket, "response.create")
        await next_of(socket, "response.done")
        await settled(house)
    assert updated["session"]["tools"] == []
    assert len(house.observer.of(ToolCalled)) == 1


@pytest.mark.full
async def test_a_client_secret_may_bring_tools_that_run_here(tools: ToolServer, tmp_path: Path) -> None:
    async with over_http(SIMULATOR) as there, between(tmp_path, tools, there.url) as house:
        session = {"type": "realtime", "model": "live", "tools": [NOTES]}
        made = await house.http.post("/v1/realtime/client_secrets", json={"session": session})
        bearer = {"authorization": f"Bearer {made.json()['value']}"}
        there.engine.say(ADD, DONE)
        async with talk(house, "/v1/realtime", additional_headers=bearer) as socket:
            updated = await next_of(socket, "session.updated")
            await next_of(socket, "mcp_list_tools.completed")
            await say(socket, "2 + 3?")
            events = in_order(await respond(socket))
    assert updated["session"]["tools"] == [NOTES]
    assert events[-1]["response"]["output"][0]["output"] == "SUM-5"


@pytest.mark.full
@pytest.mark.parametrize(
    "event",
    [
        '{"type": "response.create", "response": {"tool_choice": {"type": "mcp", "server_label": ["notes"]}}}',
        '{"type": "session.update", "session": {"type": "realtime", "tool_choice": {"type": "mcp", "server_label": {}}}}',
        '{"type": "response.cancel", "response_id": 1e999}',
        '{"type": "conversation.item.delete", "item_id": 1e999}',
    ],
)
async def test_what_is_wrong_is_an_error_event_where_tools_run_here_too(
    event: str, tools: ToolServer, tmp_path: Path
) -> None:
    async with in_session(tmp_path, tools) as (there, _, socket):
        there.engine.say(DONE)
        await until(socket, "mcp_list_tools.completed")
        await socket.send(event)
        assert (await until(socket, "error"))[-1]["error"]["type"] == "invalid_request_error"
        assert (await respond(socket, instructions="Hm."))[-1]["response"]["status"] == "completed"
