"""A search in place of many tools, in every API that has the loop: a real MCP server, a scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import ADD, DONE, NOTES, calls, configured, says
from tests.gateway.tool_server import ToolServer, tool_server

from smg_core.pipeline.tools.hosted import ServerTool
from smg_core.pipeline.tools.search import search_of, searched_servers
from smg_core.tools.search import KnownTools, ToolSearches
from smg_mcp import Bm25Index, Decision, McpTool
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CHAT_USER: Any = {"role": "user", "content": "Go!"}
TOOLSET: Any = {"type": "mcp_toolset", "mcp_server_name": "notes"}
BODIES: dict[str, Any] = {
    "/v1/responses": {"model": "sim", "input": "Go!", "tools": [NOTES]},
    "/v1/messages": {"model": "sim", "max_tokens": 300, "messages": [CHAT_USER], "tools": [TOOLSET]},
    "/v1/chat/completions": {"model": "sim", "messages": [CHAT_USER], "tools": [NOTES]},
    "/v1beta/models/sim:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "Go!"}]}],
        "tools": [{"mcpServers": [{"name": "notes"}]}],
        "toolConfig": {"includeServerSideToolInvocations": True},
    },
    "/v1/interactions": {"model": "sim", "input": "Go!", "tools": [{"type": "mcp_server", "name": "notes"}]},
}
"""A request with the server "notes", by the path of each API that has the loop."""
FINDS = calls(("tool_search", {"query": "add two numbers", "limit": 1}))
every_api = pytest.mark.parametrize("path", list(BODIES))


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A gateway that offers a search from three tools on; its server has five."""
    async with searching_house(tmp_path_factory.mktemp("mcp"), tools, 3) as house:
        yield house


def searching_house(folder: Path, tools: ToolServer, most: int | None) -> Any:
    config = configured(folder, tools)
    config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, chat=True, search_from=most))
    return over_http(SimulatorConfig(seed=1), config=config)


async def prompts(house: House, path: str, **fields: Any) -> list[str]:
    """The prompts of the turns of one response."""
    before = {id(seen): seen for seen in house.engine.requests}
    answer = await house.http.post(path, json=BODIES[path] | fields)
    assert answer.status_code == 200, answer.text
    decode = house.engine.engine.vocabulary.decode
    new = [seen for seen in house.engine.requests if id(seen) not in before]
    return [decode(list(seen.input_ids), skip_special_tokens=False) for seen in new]


@pytest.mark.full
@every_api
async def test_a_tool_that_was_found_is_called_in_the_same_response(house: House, path: str) -> None:
    says(house, FINDS, ADD, DONE)
    first, second, third = await prompts(house, path)
    assert "notes__tool_search" in first
    assert "notes__add" not in first
    assert "notes__add" in second
    assert "notes__write" not in second
    assert "SUM-5" in third


@every_api
async def test_the_client_sees_what_was_searched(house: House, path: str) -> None:
    says(house, FINDS, ADD, DONE)
    answer = await house.http.post(path, json=BODIES[path])
    assert "tool_search" in answer.text
    assert "add two numbers" in answer.text


@every_api
async def test_a_search_with_wrong_arguments_is_an_error_for_the_model(house: House, path: str) -> None:
    says(house, calls(("tool_search", {"words": "add"})), calls(("tool_search", {"query": "zzz"})), DONE)
    _, second, third = await prompts(house, path)
    assert "The argument 'query'" in second
    assert "No tool fits" in third


@pytest.mark.sampled(keep=2)
@every_api
@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_of_a_tool_that_a_server_does_not_offer_goes_back_to_the_model(
    house: House, path: str, streams: bool
) -> None:
    says(house, calls(("made_up", {"x": 1}), ("add", {"a": 2, "b": 3})), DONE)
    body, query = BODIES[path], ""
    if streams and path.endswith("generateContent"):
        path, query = path.replace("generateContent", "streamGenerateContent"), "?alt=sse"
    elif streams:
        body = body | {"stream": True}
    answer = await house.http.post(path + query, json=body)
    assert answer.status_code == 200
    assert "notes__made_up" not in answer.text  # which the client would have to run, and does not have
    seen = house.engine.requests[-1]
    second = house.engine.engine.vocabulary.decode(list(seen.input_ids), skip_special_tokens=False)
    assert "offers no tool of this name" in second
    assert "SUM-5" in second


async def test_a_demanded_tool_is_there_without_a_search(house: House) -> None:
    says(house, ADD, DONE)
    chosen: Any = {"type": "mcp", "server_label": "notes", "name": "add"}
    first, second = await prompts(house, "/v1/responses", tool_choice=chosen)
    assert "notes__add" in first
    assert "SUM-5" in second


async def test_a_tool_that_the_conversation_has_called_is_there_without_a_search(house: House) -> None:
    says(house, FINDS, ADD, DONE)
    answer = await house.http.post("/v1/responses", json=BODIES["/v1/responses"])
    says(house, ADD, DONE)
    first, _ = await prompts(house, "/v1/responses", previous_response_id=answer.json()["id"])
    assert '"name": "notes__add"' in first.replace('"name":"', '"name": "')
    assert "notes__write" not in first


async def test_only_allowed_tools_are_found(house: House) -> None:
    says(house, calls(("tool_search", {"query": "note numbers picture waits fails", "limit": 20})), DONE)
    only: Any = NOTES | {"allowed_tools": ["add", "look", "wait"]}
    _, second = await prompts(house, "/v1/responses", tools=[only])
    assert "notes__look" in second
    assert "notes__write" not in second
    assert "notes__fail" not in second


@pytest.mark.full
async def test_few_tools_are_offered_themselves(tools: ToolServer, tmp_path: Path) -> None:
    for most in (6, None):
        async with searching_house(tmp_path, tools, most) as house:
            says(house, DONE)
            (only,) = await prompts(house, "/v1/responses")
            assert "notes__write" in only
            assert "tool_search" not in only


@given(st.dictionaries(st.text(max_size=4), st.integers(0, 50), max_size=6), st.integers(1, 100))
def test_the_servers_with_the_most_tools_are_searched_and_no_more_than_needed(
    counts: dict[str, int], most: int
) -> None:
    searched = searched_servers(counts, most)
    left = [count for label, count in counts.items() if label not in searched]
    assert sum(left) < most
    if searched:
        fewest = min(counts[label] for label in searched)
        assert sum(left) + fewest >= most
        assert all(count <= fewest for count in left)
    assert searched_servers(counts, None) == frozenset()


@pytest.mark.parametrize(
    "arguments",
    [{}, {"query": ""}, {"query": 3}, *({"query": "x", "limit": each} for each in (0, 21, "5", True, 1.5, None))],
)
def test_a_search_that_is_none_says_what_is_wrong(arguments: Any) -> None:
    assert isinstance(search_of(arguments), str)


def listed(count: int) -> list[McpTool]:
    return [McpTool(f"tool{each}", "s", f"tool{each}", f"Does the thing {each}.", {}) for each in range(count)]


async def test_an_index_is_made_once_for_the_same_tools_and_few_are_kept() -> None:
    made: list[int] = []

    def index(tools: Any) -> Bm25Index:
        made.append(len(tools))
        return Bm25Index(tools)

    searches = ToolSearches(2, index)
    sets = [{f"t{each}": ServerTool(f"t{each}", f"word{each}") for each in range(size)} for size in (3, 4, 5)]
    for _ in range(2):
        assert await searches.search(sets[0], "word2", 5) == ("t2",)
    assert made == [3]
    for tools in (*sets[1:], sets[0]):
        await searches.search(tools, "word1", 5)
    assert made == [3, 4, 5, 3]


@pytest.mark.full
async def test_a_list_of_tools_is_read_once_for_each_tenant_until_it_changes() -> None:
    asked: list[str] = []

    def decide(tool: McpTool) -> Decision:
        asked.append(tool.name)
        return Decision("allow")

    known, tools = KnownTools(2), listed(3)
    first = await known.of(tools, "a", decide)
    assert [tool.name for tool in first] == ["tool0", "tool1", "tool2"]
    assert await known.of(tools, "a", decide) is first
    assert len(asked) == 3
    assert await known.of(tools, "b", decide) is not first
    assert await known.of(listed(3), "a", decide) is not first
    assert len(asked) == 9
