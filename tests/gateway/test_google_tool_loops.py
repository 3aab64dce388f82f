"""Tools that run in the gateway, by generateContent and Interactions: real servers of tools, Google's SDK as client."""

import warnings
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
from google import genai
from google.genai import errors, types
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.test_interactions import LEGACY, STEPS, check_interaction, client, events_of
from tests.gateway.test_tool_loop import ADD, DONE, calls, configured, prompt, says
from tests.gateway.tool_server import ToolServer, tool_server

from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SERVER: Any = {"type": "mcp_server", "name": "notes"}
MINE: Any = {"type": "function", "name": "mine", "parameters": {"type": "object", "properties": {}}}
NOTES = types.Tool(mcp_servers=[types.McpServer(name="notes")])
SHOWN = types.ToolConfig(include_server_side_tool_invocations=True)


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    config = configured(tmp_path_factory.mktemp("mcp"), tools)
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


@pytest.fixture
async def google(house: House) -> AsyncIterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Interactions is experimental, the SDK says
        async with client(house).aio as made:
            yield made


# -------------------------------------------------------------------------------------------------------- Interactions


async def test_an_interaction_has_a_step_for_the_call_and_one_for_its_result(
    house: House, google: genai.client.AsyncClient
) -> None:
    says(house, ADD, DONE)
    made = await google.interactions.create(model="sim", input="2 + 3?", tools=[SERVER])
    call, result, _ = made.steps
    assert [step.type for step in made.steps] == ["mcp_server_tool_call", "mcp_server_tool_result", "model_output"]
    assert (call.server_name, call.name, call.arguments) == ("notes", "add", {"a": 2, "b": 3})
    assert (result.call_id, result.result, result.server_name) == (call.id, "SUM-5", "notes")
    assert (made.status, made.output_text) == ("completed", "It is done.")
    assert "SUM-5" in prompt(house)


async def test_a_streamed_interaction_has_the_same_steps(house: House, google: genai.client.AsyncClient) -> None:
    says(house, ADD, DONE)
    stream: Any = await google.interactions.create(model="sim", input="2 + 3?", tools=[SERVER], stream=True)
    events = [event async for event in stream]
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    assert [delta.type for delta in deltas][:2] == ["mcp_server_tool_call", "mcp_server_tool_result"]
    assert (deltas[0].arguments, deltas[1].result) == ({"a": 2, "b": 3}, "SUM-5")
    kept = await google.interactions.get(events[0].interaction.id)
    assert [step.type for step in kept.steps] == ["mcp_server_tool_call", "mcp_server_tool_result", "model_output"]


@pytest.mark.parametrize("path", [STEPS, LEGACY])
async def test_both_revisions_keep_the_order_of_events_with_tools(house: House, path: str) -> None:
    says(house, calls(("fail", {"why": "x"})), DONE)
    body = {"model": "sim", "input": "Go", "stream": True, "tools": [SERVER]}
    answer = await house.http.post(path, json=body)
    grammar = check_interaction(events_of(answer.content))
    kept = (await house.http.get(f"{STEPS}/{grammar.interaction_id}")).json()
    assert grammar.steps == kept["steps"]
    assert kept["steps"][1]["is_error"] is True
    assert "BROKEN-x" in kept["steps"][1]["result"]


async def test_the_next_interaction_has_the_call_and_its_result_in_its_prompt(
    house: House, google: genai.client.AsyncClient
) -> None:
    says(house, ADD, DONE, DONE, DONE)
    first = await google.interactions.create(model="sim", input="2 + 3?", tools=[SERVER])
    await google.interactions.create(model="sim", input="And?", previous_interaction_id=first.id, tools=[SERVER])
    assert prompt(house).index("SUM-5") < prompt(house).index("And?")
    steps: Any = [{"type": "user_input", "content": [{"type": "text", "text": "2 + 3?"}]}]
    steps += [step.model_dump(exclude_none=True) for step in first.steps]
    await google.interactions.create(
        model="sim", input=[*steps, {"type": "user_input", "content": [{"type": "text", "text": "Then?"}]}]
    )
    assert prompt(house).index("SUM-5") < prompt(house).index("Then?")


async def test_a_clients_own_function_waits_for_it_while_hosted_calls_ran(
    house: House, google: genai.client.AsyncClient
) -> None:
    says(house, Reply(tool_calls=(("mine", {}), ("notes__add", {"a": 4, "b": 4}))), DONE)
    first = await google.interactions.create(model="sim", input="Both!", tools=[SERVER, MINE])
    assert first.status == "requires_action"
    own = next(step for step in first.steps if step.type == "function_call")
    given: Any = [{"type": "function_result", "call_id": own.id, "name": "mine", "result": "MINE-1"}]
    second = await google.interactions.create(
        model="sim", input=given, previous_interaction_id=first.id, tools=[SERVER, MINE]
    )
    assert second.output_text == "It is done."
    assert "SUM-8" in prompt(house)
    assert "MINE-1" in prompt(house)


async def test_only_the_allowed_tools_of_an_interaction_are_offered(house: House) -> None:
    says(house, DONE)
    tool = SERVER | {"allowed_tools": [{"mode": "auto", "tools": ["add"]}]}
    await house.http.post(STEPS, json={"model": "sim", "input": "Go", "tools": [tool]})
    offered = {name for name in ("add", "write", "fail", "look", "wait") if f"notes__{name}" in prompt(house)}
    assert offered == {"add"}


async def test_headers_of_an_interactions_server_are_neither_told_nor_kept(house: House) -> None:
    says(house, DONE)
    tool = SERVER | {"headers": {"x-key": "SECRET-1"}}
    answer = await house.http.post(STEPS, json={"model": "sim", "input": "Go", "tools": [tool]})
    kept = await house.http.get(f"{STEPS}/{answer.json()['id']}")
    assert answer.json()["tools"] == kept.json()["tools"] == [SERVER]
    assert "SECRET" not in answer.text + kept.text


async def test_an_interaction_in_the_background_runs_its_tools(house: House, google: genai.client.AsyncClient) -> None:
    says(house, ADD, DONE)
    stream: Any = await google.interactions.create(
        model="sim", input="2 + 3?", tools=[SERVER], background=True, stream=True
    )
    events = [event async for event in stream]
    assert events[-1].interaction.status == "completed"
    found = await google.interactions.get(events[-1].interaction.id)
    assert [step.type for step in found.steps] == ["mcp_server_tool_call", "mcp_server_tool_result", "model_output"]


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ({"type": "mcp_server"}, "tools[0].name"),
        (SERVER | {"name": "none"}, "tools[0]"),
        (SERVER | {"url": "https://tools.example/mcp"}, "tools[0]"),
        (SERVER | {"allowed_tools": [{"mode": "any"}]}, "tools[0].allowed_tools[0].mode"),
        (SERVER | {"token": "x"}, "tools[0].token"),
    ],
)
async def test_a_faulty_server_of_an_interaction_is_refused_by_its_field(house: House, tool: Any, field: str) -> None:
    answer = await house.http.post(STEPS, json={"model": "sim", "input": "Go", "tools": [tool]})
    assert answer.status_code == 400
    assert field in {each["field"] for each in answer.json()["error"]["details"][0]["fieldViolations"]}


# ---------------------------------------------------------------------------------------------------- generateContent


async def asked(google: Any, contents: Any, streams: bool, **config: Any) -> list[Any]:
    """The parts of the answer's content, in order."""
    settings = types.GenerateContentConfig(**config)
    if not streams:
        answer = await google.models.generate_content(model="sim", contents=contents, config=settings)
        return list(answer.candidates[0].content.parts)
    stream = await google.models.generate_content_stream(model="sim", contents=contents, config=settings)
    return [part async for chunk in stream for part in chunk.candidates[0].content.parts]


async def test_the_prompts_behind_the_results_of_tools_stand_apart_from_the_clients(house: House, google: Any) -> None:
    body = {"contents": [{"parts": [{"text": "2 + 3?"}]}], "tools": [{"mcpServers": [{"name": "notes"}]}]}
    says(house, ADD, ADD, DONE, ADD, ADD, DONE)
    answered = (await house.http.post("/v1/models/sim:generateContent", json=body)).json()["usageMetadata"]
    made = await google.interactions.create(model="sim", input="2 + 3?", tools=[SERVER])
    first, *rest = [len(seen.input_ids) for seen in list(house.engine.requests)[-6:-3]]

    assert (answered["promptTokenCount"], answered["toolUsePromptTokenCount"]) == (first, sum(rest))
    assert answered["promptTokensDetails"] == [{"modality": "TEXT", "tokenCount": first}]
    assert answered["totalTokenCount"] == first + sum(rest) + answered["candidatesTokenCount"]
    assert answered.get("cachedContentTokenCount", 0) <= first
    assert (made.usage.total_input_tokens, made.usage.total_tool_use_tokens) == (first, sum(rest))
    assert [(each.modality, each.tokens) for each in made.usage.input_tokens_by_modality] == [("text", first)]
    assert made.usage.total_cached_tokens <= first


@pytest.mark.parametrize("streams", [False, True])
async def test_generate_content_runs_the_tools_of_a_server(house: House, google: Any, streams: bool) -> None:
    says(house, ADD, DONE)
    parts = await asked(google, "2 + 3?", streams, tools=[NOTES])
    assert "".join(part.text for part in parts) == "It is done."
    assert "SUM-5" in prompt(house)


@pytest.mark.parametrize("streams", [False, True])
async def test_calls_are_shown_and_taken_back_where_the_client_includes_them(
    house: House, google: Any, streams: bool
) -> None:
    says(house, ADD, DONE, DONE)
    parts = await asked(google, "2 + 3?", streams, tools=[NOTES], tool_config=SHOWN)
    call, response = parts[0].tool_call, parts[1].tool_response
    assert call.args == {"serverName": "notes", "name": "add", "arguments": {"a": 2, "b": 3}}
    assert (response.id, response.response) == (call.id, {"output": "SUM-5"})
    said = types.Content(role="model", parts=[part for part in parts if part.text != ""])
    turns = [types.Content(role="user", parts=[types.Part(text="2 + 3?")]), said]
    await asked(google, [*turns, types.Content(role="user", parts=[types.Part(text="And?")])], streams, tools=[NOTES])
    text = prompt(house)
    assert text.index("SUM-5") < text.index("It is done.") < text.index("And?")


async def test_a_function_of_the_client_gets_its_call_while_hosted_ones_ran(house: House, google: Any) -> None:
    says(house, Reply(tool_calls=(("mine", {}), ("notes__add", {"a": 4, "b": 4}))))
    own = types.Tool(function_declarations=[types.FunctionDeclaration(name="mine")])
    parts = await asked(google, "Both!", False, tools=[NOTES, own], tool_config=SHOWN)
    assert [part.function_call.name for part in parts if part.function_call] == ["mine"]
    assert [part.tool_response.response for part in parts if part.tool_response] == [{"output": "SUM-8"}]


async def test_a_demanded_call_may_be_of_a_servers_tool(house: House, google: Any) -> None:
    says(house, ADD, DONE)
    calling = types.ToolConfig(
        function_calling_config=types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY)
    )
    parts = await asked(google, "2 + 3?", False, tools=[NOTES], tool_config=calling)
    assert parts[-1].text == "It is done."


@pytest.mark.full
async def test_bounds_end_the_answers_with_the_words_of_each_api(tools: ToolServer, tmp_path: Any) -> None:
    config = configured(tmp_path, tools)
    config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, turns=2))
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        says(house, ADD, ADD, ADD, ADD)
        body = {"contents": [{"parts": [{"text": "Go"}]}], "tools": [{"mcpServers": [{"name": "notes"}]}]}
        answer = await house.http.post("/v1/models/sim:generateContent", json=body)
        made = await house.http.post(STEPS, json={"model": "sim", "input": "Go", "tools": [SERVER]})
    assert answer.json()["candidates"][0]["finishReason"] == "TOO_MANY_TOOL_CALLS"
    assert made.json()["status"] == "incomplete"


@pytest.mark.parametrize(
    ("server", "field"),
    [
        ({}, "tools[0].mcpServers[0].name"),
        ({"name": "none"}, "tools[0].mcpServers[0]"),
        ({"name": "a", "streamableHttpTransport": {"url": "https://tools.example/mcp"}}, "tools[0].mcpServers[0]"),
        (
            {"name": "a", "streamableHttpTransport": {"url": "https://tools.example/mcp", "timeout": "3s"}},
            "tools[0].mcpServers[0].streamableHttpTransport.timeout",
        ),
    ],
)
async def test_a_faulty_server_of_generate_content_is_refused_by_its_field(
    house: House, google: Any, server: Any, field: str
) -> None:
    tool = types.Tool(mcp_servers=[types.McpServer(**server)])
    with pytest.raises(errors.ClientError) as refused:
        await asked(google, "Go", False, tools=[tool])
    violations = refused.value.details["error"]["details"][0]["fieldViolations"]
    assert (refused.value.code, violations[0]["field"]) == (400, field)


async def test_the_tokens_of_a_prompt_with_servers_are_counted_without_asking_them(house: House, google: Any) -> None:
    body = {"contents": [{"parts": [{"text": "Go"}]}]}
    plain = await house.http.post(
        "/v1/models/sim:countTokens", json={"generateContentRequest": {"model": "models/sim", **body}}
    )
    asked = {"model": "models/sim", **body, "tools": [{"mcpServers": [{"name": "notes"}]}]}
    counted = await house.http.post("/v1/models/sim:countTokens", json={"generateContentRequest": asked})
    assert counted.json() == plain.json()


@pytest.mark.full
async def test_a_client_that_leaves_a_stream_of_google_cancels_the_calls_that_run(
    house: House, google: Any, tools: ToolServer
) -> None:
    says(house, calls(("wait", {"name": "google"})))
    tools.go.clear()
    body = {"model": "sim", "input": "Wait!", "tools": [SERVER], "stream": True}
    async with house.http.stream("POST", STEPS, json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and "step.stop" in line:
                await eventually(lambda: tools.at_once == 1)
                break
    await eventually(lambda: "google" in tools.left)
    await settled(house)
