"""Tools that run in the gateway, by the MCP connector of Messages: real servers, the official SDK as client."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import attrs
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import ADD, DONE, calls, configured, gateway_with, prompt, says
from tests.gateway.tool_server import ToolServer, tool_server

from smg_core.sse import SseReader
from smg_simulator.answers.replies import Reply
from smg_simulator.conform.messages_stream import MessagesGrammar
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TOOLSET: Any = {"type": "mcp_toolset", "mcp_server_name": "notes"}
MINE: Any = {"name": "mine", "input_schema": {"type": "object", "properties": {}}}
ASKED: Any = {
    "model": "sim",
    "max_tokens": 400,
    "messages": [{"role": "user", "content": "2 + 3?"}],
    "tools": [TOOLSET],
}


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with gateway_with(tmp_path_factory.mktemp("mcp"), tools) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0) as client:
        yield client


async def test_the_model_calls_a_tool_and_answers_with_its_result(
    house: House, client: anthropic.AsyncAnthropic
) -> None:
    says(house, ADD, DONE)
    message = await client.beta.messages.create(**ASKED)
    use, result, text = message.content
    assert [block.type for block in message.content] == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert (use.name, use.server_name, use.input) == ("add", "notes", {"a": 2, "b": 3})
    assert (result.tool_use_id, result.is_error, result.content[0].text) == (use.id, False, "SUM-5")
    assert (text.text, message.stop_reason) == ("It is done.", "end_turn")
    assert "SUM-5" in prompt(house)


async def test_a_stream_has_the_blocks_of_the_whole_answer(house: House, client: anthropic.AsyncAnthropic) -> None:
    says(house, ADD, DONE)
    async with client.beta.messages.stream(**ASKED) as stream:
        message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert message.content[0].input == {"a": 2, "b": 3}
    assert message.content[1].content[0].text == "SUM-5"


async def test_a_stream_keeps_the_order_of_the_api(house: House) -> None:
    says(house, ADD, DONE)
    grammar, reader = MessagesGrammar(), SseReader()
    answer = await house.http.post("/v1/messages", json=ASKED | {"stream": True})
    faults = [fault for event in reader.feed(answer.content) for fault in grammar.take(event)]
    assert faults == []
    assert grammar.blocks == ["mcp_tool_use", "mcp_tool_result", "text"]


async def test_a_tool_of_the_client_gets_its_call_while_hosted_ones_ran(
    house: House, client: anthropic.AsyncAnthropic
) -> None:
    says(house, Reply(tool_calls=(("mine", {}), ("notes__add", {"a": 4, "b": 4}))), DONE)
    message = await client.beta.messages.create(**ASKED | {"tools": [TOOLSET, MINE]})
    assert [block.type for block in message.content] == ["tool_use", "mcp_tool_use", "mcp_tool_result"]
    assert message.stop_reason == "tool_use"
    turns: Any = [*ASKED["messages"], {"role": "assistant", "content": message.content}]
    turns.append(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": message.content[0].id, "content": "MINE-1"}],
        }
    )
    second = await client.beta.messages.create(**ASKED | {"tools": [TOOLSET, MINE], "messages": turns})
    assert [block.type for block in second.content] == ["text"]
    assert "SUM-8" in prompt(house)
    assert "MINE-1" in prompt(house)


async def test_a_tools_failure_is_a_result_that_says_so(house: House, client: anthropic.AsyncAnthropic) -> None:
    says(house, calls(("fail", {"why": "x"})), DONE)
    message = await client.beta.messages.create(**ASKED)
    assert message.content[1].is_error
    assert "BROKEN-x" in message.content[1].content[0].text
    assert message.content[2].type == "text"


@pytest.mark.full
async def test_a_paused_answer_that_is_sent_back_as_it_came_is_gone_on_with(tools: ToolServer, tmp_path: Path) -> None:
    config = configured(tmp_path, tools)
    config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, turns=2))
    async with (
        over_http(SimulatorConfig(seed=1), config=config) as house,
        anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0) as client,
    ):
        for thinking in ({}, {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}}):
            says(house, ADD, ADD, DONE)
            paused = await client.beta.messages.create(**ASKED | thinking)
            turns: Any = [*ASKED["messages"], {"role": "assistant", "content": paused.content}]
            message = await client.beta.messages.create(**ASKED | thinking | {"messages": turns})
            assert paused.stop_reason == "pause_turn"
            assert (message.stop_reason, message.content[-1].text.strip()) == ("end_turn", "It is done.")
            assert prompt(house).count("SUM-5") == 2


@pytest.mark.parametrize(
    ("config", "offered"),
    [
        ({"configs": {"write": {"enabled": False}}}, {"add", "fail", "look", "wait"}),
        ({"default_config": {"enabled": False}, "configs": {"add": {"enabled": True}}}, {"add"}),
    ],
)
async def test_a_toolset_says_which_tools_are_offered(
    house: House, client: anthropic.AsyncAnthropic, config: Any, offered: set[str]
) -> None:
    says(house, DONE)
    await client.beta.messages.create(**ASKED | {"tools": [TOOLSET | config]})
    names = {name for name in ("add", "write", "fail", "look", "wait") if f"notes__{name}" in prompt(house)}
    assert names == offered


ASKS: Any = {"permission_policy": {"type": "always_ask"}}
AT_ONCE: Any = {"permission_policy": {"type": "always_allow"}}


@pytest.mark.parametrize(
    ("config", "runs"),
    [
        ({"default_config": ASKS}, set()),
        ({"default_config": ASKS, "configs": {"add": AT_ONCE}}, {"add"}),
        ({"configs": {"add": ASKS}}, {"write"}),
        ({"default_config": AT_ONCE, "configs": {"write": {"enabled": True}}}, {"add", "write"}),
    ],
)
async def test_a_call_that_the_client_wants_to_be_asked_about_does_not_run(
    house: House, client: anthropic.AsyncAnthropic, tools: ToolServer, config: Any, runs: set[str]
) -> None:
    tools.ran.clear()
    says(house, calls(("add", {"a": 2, "b": 3}), ("write", {"note": "n"})), DONE)
    await client.beta.messages.create(**ASKED | {"tools": [TOOLSET | config]})
    assert {each.partition(" ")[0] for each in tools.ran} == runs
    assert prompt(house).count("needs the user's approval") == 2 - len(runs)


async def test_a_permission_that_does_not_exist_is_refused_by_its_field(house: House) -> None:
    unknown = TOOLSET | {"configs": {"add": {"permission_policy": {"type": "sometimes"}}}}
    answer = await house.http.post("/v1/messages", json=ASKED | {"tools": [unknown]})
    assert answer.status_code == 400
    assert "permission_policy" in answer.json()["error"]["message"]


async def test_servers_by_url_are_refused_by_their_field_unless_a_setting_allows_them(
    client: anthropic.AsyncAnthropic, tools: ToolServer
) -> None:
    own: Any = {"type": "url", "name": "own", "url": tools.url}
    toolset = TOOLSET | {"mcp_server_name": "own"}
    with pytest.raises(anthropic.BadRequestError):
        await client.beta.messages.create(**ASKED | {"mcp_servers": [own], "tools": [toolset]})
