"""Tools that run in the gateway, by the Responses API: real MCP servers, a scripted model, the official SDK as client."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import Agent, HostedMCPTool, OpenAIResponsesModel, Runner, set_tracing_disabled
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.tool_server import ToolServer, tool_server
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.history.settings import HistoryConfig
from smg_core.observability.settings import ObservabilityConfig
from smg_core.pipeline.settings import McpConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

set_tracing_disabled(True)

NOTES: Any = {"type": "mcp", "server_label": "notes", "require_approval": "never"}
LOOK: Any = {"type": "function", "name": "mine", "parameters": {"type": "object", "properties": {}}}


def calls(*made: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    return Reply(text, tool_calls=tuple((f"notes__{name}", arguments) for name, arguments in made))


ADD = calls(("add", {"a": 2, "b": 3}))
DONE = Reply("It is done.")


@asynccontextmanager
async def gateway_with(
    folder: Path, tools: ToolServer, forward_headers: Sequence[str] = (), **sections: Any
) -> AsyncIterator[House]:
    """A gateway whose operator has configured the server "notes"."""
    config = configured(folder, tools, forward_headers, **sections)
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


def configured(folder: Path, tools: ToolServer, forward_headers: Sequence[str] = (), **sections: Any) -> Config:
    """The configuration of a gateway with the server "notes"."""
    file = folder / "mcp.json"
    servers = [{"name": "notes", "protocol": "streamable", "url": tools.url, "forward_headers": list(forward_headers)}]
    file.write_text(json.dumps({"servers": servers, "egress": {"schemes": ["http", "https"]}}))
    sections = {"observability": ObservabilityConfig(explain=True), **sections}
    return Config(mcp=McpConfig(config=str(file)), **sections)


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with gateway_with(tmp_path_factory.mktemp("mcp"), tools) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


def says(house: House, *replies: Reply) -> None:
    """What the model says to the next prompts."""
    house.engine.say(*replies)


def prompt(house: House) -> str:
    """The newest prompt of the engine."""
    seen = house.engine.requests[-1]
    return house.engine.engine.vocabulary.decode(list(seen.input_ids), skip_special_tokens=False)


async def streamed(client: openai.AsyncOpenAI, **fields: Any) -> list[Any]:
    stream = await client.responses.create(model="sim", stream=True, **fields)
    events = [event async for event in stream]
    check_stream([event.to_dict(mode="json") for event in events])
    return events


async def test_the_model_calls_a_tool_and_answers_with_its_result(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, ADD, DONE)
    response = await client.responses.create(model="sim", input="2 + 3?", tools=[NOTES])
    listed, call, _ = response.output
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert {tool.name for tool in listed.tools} == {"add", "write", "fail", "look", "wait"}
    assert (call.name, call.server_label, call.output, call.status) == ("add", "notes", "SUM-5", "completed")
    assert json.loads(call.arguments) == {"a": 2, "b": 3}
    assert (response.status, response.output_text) == ("completed", "It is done.")
    assert "SUM-5" in prompt(house)


async def test_the_stream_has_every_event_in_order_and_the_items_of_the_whole_answer(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, ADD, DONE)
    events = await streamed(client, input="2 + 3?", tools=[NOTES])
    kinds = [event.type for event in events if event.type.startswith("response.mcp")]
    assert kinds == [
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
    ]
    assert [item.type for item in events[-1].response.output] == ["mcp_list_tools", "mcp_call", "message"]


async def test_calls_of_one_turn_run_side_by_side_and_keep_their_order(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    says(house, calls(("wait", {"name": "a"}), ("wait", {"name": "b"}), ("add", {"a": 1, "b": 1})), DONE)
    tools.go.clear()
    asked = asyncio.create_task(client.responses.create(model="sim", input="All!", tools=[NOTES]))
    await eventually(lambda: tools.at_once == 2 and "add 1 1" in tools.ran)
    tools.go.set()
    response = await asked
    assert [item.output for item in response.output if item.type == "mcp_call"] == ["WAITED-a", "WAITED-b", "SUM-2"]


async def test_progress_of_a_tool_is_told_while_it_runs(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    says(house, calls(("wait", {"name": "a"})), DONE)
    tools.go.clear()
    stream = await client.responses.create(model="sim", input="Wait!", tools=[NOTES], stream=True)
    async for event in stream:
        if event.type == "response.mcp_call.in_progress" and event.to_dict().get("progress") is not None:
            tools.go.set()
            assert event.to_dict()["message"] == "half"
    assert event.type == "response.completed"


async def test_a_clients_own_function_goes_to_the_client_while_hosted_calls_ran(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, Reply(tool_calls=(("mine", {}), ("notes__add", {"a": 4, "b": 4}))), DONE)
    first = await client.responses.create(model="sim", input="Both!", tools=[NOTES, LOOK])
    assert [item.type for item in first.output] == ["mcp_list_tools", "function_call", "mcp_call"]
    output: Any = [{"type": "function_call_output", "call_id": first.output[1].call_id, "output": "MINE-1"}]
    second = await client.responses.create(
        model="sim", input=output, previous_response_id=first.id, tools=[NOTES, LOOK]
    )
    assert [item.type for item in second.output] == ["message"]  # the tools are not listed twice
    assert "SUM-8" in prompt(house)
    assert "MINE-1" in prompt(house)


async def test_a_tools_failure_goes_back_to_the_model(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, calls(("fail", {"why": "x"})), DONE)
    response = await client.responses.create(model="sim", input="Fail!", tools=[NOTES])
    call = response.output[1]
    assert (call.status, call.output) == ("failed", None)
    assert "BROKEN-x" in str(call.error.content)
    assert "BROKEN-x" in prompt(house)
    assert response.status == "completed"


async def test_headers_of_a_configured_server_reach_it_where_its_configuration_forwards_them(
    tools: ToolServer, tmp_path: Path
) -> None:
    tools.headers.clear()
    async with gateway_with(tmp_path, tools, forward_headers=["x-user"]) as house:
        says(house, DONE)
        told = NOTES | {"headers": {"X-User": "ada", "x-other": "no"}}
        answered = await house.http.post("/v1/responses", json={"model": "sim", "input": "Go!", "tools": [told]})
        assert answered.status_code == 200
    assert {seen.get("x-user") for seen in tools.headers} == {"ada"}
    assert not any("x-other" in seen for seen in tools.headers)


async def test_a_call_that_lacks_an_argument_is_an_error_for_the_model(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, calls(("add", {"a": 1})), DONE)
    response = await client.responses.create(model="sim", input="Add!", tools=[NOTES])
    assert response.output[1].status == "failed"
    assert response.output_text == "It is done."


async def test_a_result_that_the_model_cannot_see_is_told_in_words(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, calls(("look", {})), DONE)
    await client.responses.create(model="sim", input="Look!", tools=[NOTES])
    assert "kind image, which this model does not take" in prompt(house)


async def test_more_calls_than_max_tool_calls_end_the_response_incomplete(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    says(house, ADD, calls(("write", {"note": "over"})))
    response = await client.responses.create(model="sim", input="Go!", tools=[NOTES], max_tool_calls=1)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_tool_calls"
    assert "write over" not in tools.ran


async def test_the_tokens_of_all_turns_are_bounded_together(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, ADD, Reply("word " * 300))
    response = await client.responses.create(model="sim", input="Go!", tools=[NOTES], max_output_tokens=120)
    assert (response.status, response.usage.output_tokens) == ("incomplete", 120)


async def test_only_the_allowed_tools_are_offered(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, DONE)
    only: Any = NOTES | {"allowed_tools": {"read_only": True}}
    response = await client.responses.create(model="sim", input="Go!", tools=[only])
    assert [tool.name for tool in response.output[0].tools] == ["add"]
    assert "notes__write" not in prompt(house)


async def test_a_demanded_server_is_called_in_the_first_turn_only(house: House, client: openai.AsyncOpenAI) -> None:
    chosen: Any = {"type": "mcp", "server_label": "notes", "name": "look"}
    says(house, calls(("look", {})), DONE)
    response = await client.responses.create(model="sim", input="Go!", tools=[NOTES], tool_choice=chosen)
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]


async def test_a_server_that_a_request_names_by_its_url_is_refused_unless_a_setting_allows_it(
    client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    own: Any = NOTES | {"server_label": "own", "server_url": tools.url}
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input="Go!", tools=[LOOK, own])
    assert refused.value.param == "tools[1]"


async def test_an_unknown_server_is_refused_by_its_field(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input="Go!", tools=[NOTES | {"server_label": "none"}])
    assert refused.value.param == "tools[0]"


async def test_credentials_for_a_server_are_neither_told_nor_kept(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, DONE)
    secret: Any = NOTES | {"authorization": "SECRET-1", "headers": {"x-key": "SECRET-2"}}
    made = await client.responses.create(model="sim", input="Go!", tools=[secret])
    kept = await client.responses.retrieve(made.id)
    assert "SECRET" not in made.to_json()
    assert "SECRET" not in kept.to_json()


async def test_a_client_that_leaves_cancels_the_calls_that_run(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    says(house, calls(("wait", {"name": "gone"})))
    tools.go.clear()
    stream = await client.responses.create(model="sim", input="Wait!", tools=[NOTES], stream=True)
    async for event in stream:
        if event.type == "response.mcp_call_arguments.done":
            await eventually(lambda: tools.at_once == 1)
            break
    await stream.close()
    await eventually(lambda: "gone" in tools.left)
    await settled(house)


async def test_the_timeline_of_turns_and_tools_is_explained(house: House) -> None:
    says(house, ADD, DONE)
    asked = {"model": "sim", "input": "Go!", "tools": [NOTES]}
    answer = await house.http.post("/v1/responses", json=asked, headers={"x-smg-explain": "1"})
    told = json.loads(answer.headers["x-smg-explain"])["timeline"]
    assert [each.get("tool", "model") for each in told] == ["model", "notes.add", "model"]
    assert {each["outcome"] for each in told} == {"ok"}
    assert [each["ended_ms"] for each in told] == sorted(each["ended_ms"] for each in told)


@pytest.mark.full
async def test_a_real_server_over_stdio_answers_an_agent(tmp_path: Path) -> None:
    file = tmp_path / "mcp.yaml"
    command = Path(sys.executable).with_name("mcp-server-time")
    file.write_text(f"servers: [{{name: time, protocol: stdio, command: '{command}', args: [--local-timezone, UTC]}}]")
    convert = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}
    async with (
        over_http(SimulatorConfig(seed=1), config=Config(mcp=McpConfig(config=str(file)))) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        says(house, Reply(tool_calls=(("time__convert_time", convert),)), Reply("It is three."))
        server: Any = {"type": "mcp", "server_label": "time", "require_approval": "never"}
        model = OpenAIResponsesModel(model="sim", openai_client=client)
        agent: Agent[Any] = Agent(name="Clock", model=model, tools=[HostedMCPTool(tool_config=server)])
        result = await Runner.run(agent, "What is noon of Tokyo in UTC?")
    assert result.final_output == "It is three."
    assert "T03:00:00" in prompt(house)


# ------------------------------------------------------------------------------------------------------------- approval

ASKS: Any = {"type": "mcp", "server_label": "notes", "require_approval": {"never": {"tool_names": ["add"]}}}


def answer(item: Any, approve: bool = True, **fields: Any) -> Any:
    return {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": approve, **fields}


async def asked_to_write(house: House, client: openai.AsyncOpenAI, note: str, **fields: Any) -> Any:
    says(house, calls(("write", {"note": note})))
    response = await client.responses.create(model="sim", input="Write!", tools=[ASKS], **fields)
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_approval_request"]
    return response


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_waits_for_approval_and_runs_once_it_is_given(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer, streams: bool
) -> None:
    note = f"approved-{streams}"
    first = await asked_to_write(house, client, note)
    assert (first.status, first.output[1].name) == ("completed", "write")
    assert f"write {note}" not in tools.ran
    says(house, DONE)
    fields: Any = {"previous_response_id": first.id, "input": [answer(first.output[1])], "tools": [ASKS]}
    if streams:
        second = (await streamed(client, **fields))[-1].response
    else:
        second = await client.responses.create(model="sim", **fields)
    call, message = second.output
    assert (call.output, call.approval_request_id) == (f"KEPT-{note}", first.output[1].id)
    assert message.type == "message"
    assert tools.ran.count(f"write {note}") == 1
    assert f"KEPT-{note}" in prompt(house)


async def test_an_approval_is_used_once(house: House, client: openai.AsyncOpenAI, tools: ToolServer) -> None:
    first = await asked_to_write(house, client, "once")
    says(house, DONE)
    again: Any = {"previous_response_id": first.id, "input": [answer(first.output[1])], "tools": [ASKS]}
    tried = [client.responses.create(model="sim", **again) for _ in range(3)]
    made = await asyncio.gather(*tried, return_exceptions=True)
    assert sorted(type(each).__name__ for each in made) == ["ConflictError", "ConflictError", "Response"]
    assert tools.ran.count("write once") == 1


async def test_an_approval_is_not_used_by_a_request_that_is_refused(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    says(house, calls(("write", {"note": "one"}), ("write", {"note": "two"})))
    first = await client.responses.create(model="sim", input="Write!", tools=[ASKS])
    one, two = first.output[1:]
    fields: Any = {"previous_response_id": first.id, "tools": [ASKS]}
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="not-there", input=[answer(one), answer(two)], **fields)
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(model="sim", input=[answer(one), answer(two)], max_tool_calls=1, **fields)
    long: Any = {"role": "user", "content": "word " * 40_000}
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(model="sim", input=[answer(one), answer(two), long], **fields)
    assert not {"write one", "write two"} & set(tools.ran)
    says(house, DONE)
    await client.responses.create(model="sim", input=[answer(one)], **fields)
    with pytest.raises(openai.ConflictError, match=one.id):
        await client.responses.create(model="sim", input=[answer(two), answer(one)], **fields)
    says(house, DONE)
    last = await client.responses.create(model="sim", input=[answer(two)], **fields)
    assert [item.type for item in last.output] == ["mcp_call", "message"]
    assert (tools.ran.count("write one"), tools.ran.count("write two")) == (1, 1)


async def test_a_call_that_is_not_approved_does_not_run_and_the_model_is_told_why(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    first = await asked_to_write(house, client, "no")
    says(house, DONE)
    said = [answer(first.output[1], False, reason="NOT-TODAY")]
    second = await client.responses.create(model="sim", input=said, previous_response_id=first.id, tools=[ASKS])
    assert [item.type for item in second.output] == ["message"]
    assert "write no" not in tools.ran
    assert "NOT-TODAY" in prompt(house)


async def test_an_approval_works_with_items_that_the_client_keeps(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    first = await asked_to_write(house, client, "kept here", store=False)
    says(house, DONE)
    turns: Any = [{"role": "user", "content": "Write!"}, *first.output, answer(first.output[1])]
    second = await client.responses.create(model="sim", input=turns, tools=[ASKS], store=False)
    assert tools.ran.count("write kept here") == 1
    third: Any = [*turns, *second.output, {"role": "user", "content": "And?"}]
    says(house, DONE)
    await client.responses.create(model="sim", input=third, tools=[ASKS], store=False)
    assert tools.ran.count("write kept here") == 1
    assert prompt(house).count("KEPT-kept here") == 1


async def test_an_approval_of_nothing_that_was_asked_is_refused(client: openai.AsyncOpenAI) -> None:
    unknown: Any = [{"type": "mcp_approval_response", "approval_request_id": "mcpr_none", "approve": True}]
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input=unknown, tools=[ASKS])
    assert refused.value.param == "input[0].approval_request_id"


@pytest.mark.parametrize("approve", [True, False])
async def test_an_answer_without_a_server_that_could_run_the_call_is_refused_by_its_field(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer, approve: bool
) -> None:
    first = await asked_to_write(house, client, "no server")
    for offered in ([], [LOOK]):
        with pytest.raises(openai.BadRequestError, match=first.output[1].id) as refused:
            await client.responses.create(
                model="sim", previous_response_id=first.id, input=[answer(first.output[1], approve)], tools=offered
            )
        assert refused.value.param == "input[0].approval_request_id"
    assert "write no server" not in tools.ran
    says(house, DONE)
    replayed: Any = [*first.output, answer(first.output[1], approve), {"role": "assistant", "content": "So be it."}]
    await client.responses.create(model="sim", input=[*replayed, {"role": "user", "content": "And?"}])


async def test_a_refusal_answers_the_question_for_good(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    first = await asked_to_write(house, client, "no, yes")
    fields: Any = {"model": "sim", "tools": [ASKS]}
    says(house, DONE)
    no, yes = answer(first.output[1], False), answer(first.output[1])
    second = await client.responses.create(input=[no], previous_response_id=first.id, **fields)
    for before in (first.id, second.id):
        with pytest.raises(openai.ConflictError) as refused:
            await client.responses.create(input=[yes], previous_response_id=before, **fields)
        assert refused.value.code == "approval_already_used"
    with pytest.raises(openai.BadRequestError, match="More than one answer"):
        await client.responses.create(input=[*first.output, no, yes], **fields)
    said: Any = [*first.output, no, *second.output, {"role": "user", "content": "And?"}]
    says(house, DONE)
    await client.responses.create(input=said, **fields)
    assert "write no, yes" not in tools.ran


async def test_of_a_yes_and_a_no_at_the_same_time_one_counts(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    first = await asked_to_write(house, client, "both")
    says(house, DONE)
    tried = [
        client.responses.create(
            model="sim", previous_response_id=first.id, input=[answer(first.output[1], approve)], tools=[ASKS]
        )
        for approve in (False, True, False, True)
    ]
    made = await asyncio.gather(*tried, return_exceptions=True)
    assert sorted(type(each).__name__ for each in made) == ["ConflictError"] * 3 + ["Response"]
    ran = any(item.type == "mcp_call" for each in made if not isinstance(each, BaseException) for item in each.output)
    assert tools.ran.count("write both") == ran


async def test_an_approval_beside_a_refusal_that_was_given_before_runs_nothing(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    says(house, calls(("write", {"note": "left"}), ("write", {"note": "right"})))
    first = await client.responses.create(model="sim", input="Write!", tools=[ASKS])
    left, right = first.output[1:]
    fields: Any = {"model": "sim", "previous_response_id": first.id, "tools": [ASKS]}
    says(house, DONE)
    await client.responses.create(input=[answer(left, False)], **fields)
    with pytest.raises(openai.ConflictError, match=left.id):
        await client.responses.create(input=[answer(right), answer(left, False)], **fields)
    assert not {"write left", "write right"} & set(tools.ran)
    says(house, DONE)
    await client.responses.create(input=[answer(right)], **fields)
    assert tools.ran.count("write right") == 1


@pytest.mark.parametrize("server", [ASKS, NOTES], ids=["asked", "allowed"])
@pytest.mark.parametrize(
    "arguments", ['{"note": "shown", "note": "sent"}', '{"note": "shown", "more": [{"a": 1, "\\u0061": 2}]}']
)
async def test_arguments_with_a_key_twice_are_an_error_for_the_model(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer, server: Any, arguments: str
) -> None:
    ran = len(tools.ran)
    text = f'<tool_call>\n{{"name": "notes__write", "arguments": {arguments}}}\n</tool_call>'
    says(house, Reply(text), DONE)
    response = await client.responses.create(model="sim", input="Write!", tools=[server])
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert "twice in an object" in str(response.output[1].error)
    assert "twice in an object" in prompt(house)
    assert len(tools.ran) == ran


def decided(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The decisions that the log has, in order: the tool, and what came of it."""
    lines = [each.getMessage() for each in caplog.records if each.name == "smg.tools"]
    caplog.clear()
    return [f"{line.split()[1]} {line.split(': ', 1)[1].split(' (')[0]}" for line in lines]


async def test_every_decision_about_a_call_is_one_line_of_the_audit(
    house: House, client: openai.AsyncOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "smg.tools")
    fields: Any = {"model": "sim", "tools": [ASKS]}
    twice = ("write", {"note": "audit-yes"}), ("write", {"note": "audit-no"})
    says(house, calls(("add", {"a": 1, "b": 1}), *twice, ("made\nup", {})))
    first = await client.responses.create(input="Write!", **fields)
    yes, no = [item for item in first.output if item.type == "mcp_approval_request"]
    assert sorted(decided(caplog)) == [
        "notes.(unknown) denied",
        "notes.add allowed",
        "notes.write asked",
        "notes.write asked",
    ]
    says(house, DONE)
    answers = [answer(yes), answer(no, False)]
    await client.responses.create(input=answers, previous_response_id=first.id, **fields)
    assert sorted(decided(caplog)) == ["notes.write approved", "notes.write refused"]
    with pytest.raises(openai.ConflictError):
        await client.responses.create(input=answers, previous_response_id=first.id, **fields)
    assert decided(caplog) == []


async def test_every_call_needs_approval_unless_the_client_says_otherwise(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, ADD)
    response = await client.responses.create(model="sim", input="Go!", tools=[{"type": "mcp", "server_label": "notes"}])
    assert response.output[-1].type == "mcp_approval_request"


@pytest.mark.full
async def test_an_approval_is_given_after_a_restart(tools: ToolServer, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    async with (
        gateway_with(tmp_path, tools, history=HistoryConfig(url=url)) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1") as client,
    ):
        first = await asked_to_write(house, client, "restart")
    async with (
        gateway_with(tmp_path, tools, history=HistoryConfig(url=url)) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        says(house, DONE)
        again: Any = {"previous_response_id": first.id, "input": [answer(first.output[1])], "tools": [ASKS]}
        await client.responses.create(model="sim", **again)
        with pytest.raises(openai.ConflictError):
            await client.responses.create(model="sim", **again)
    assert tools.ran.count("write restart") == 1


# ------------------------------------------------------------------------------------------------- other ways to be answered


@pytest.mark.full
@pytest.mark.parametrize("streams", [False, True])
async def test_a_response_in_the_background_runs_its_tools(
    house: House, client: openai.AsyncOpenAI, streams: bool
) -> None:
    says(house, ADD, DONE)
    if streams:
        events = await streamed(client, input="Go!", tools=[NOTES], background=True)
        response = events[-1].response
    else:
        made = await client.responses.create(model="sim", input="Go!", tools=[NOTES], background=True)
        response = made
        async with asyncio.timeout(PATIENCE):
            while response.status in ("queued", "in_progress"):
                response = await client.responses.retrieve(made.id)
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert response.output[1].output == "SUM-5"


@pytest.mark.full
async def test_the_responses_socket_runs_tools(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, ADD, DONE)
    async with client.responses.connect() as socket:
        await socket.response.create(model="sim", input="Go!", tools=[NOTES])
        events = []
        async for event in socket:
            events.append(event)
            if event.type == "response.completed":
                break
    assert [item.type for item in events[-1].response.output] == ["mcp_list_tools", "mcp_call", "message"]
