"""Tools of MCP servers that run in the gateway: every API on every engine, streamed and whole, with a real server of tools.

A cell works if the call has run, its result stands in the next prompt and the answer has the call in the API's own words.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.test_tool_loop import ADD, DONE, NOTES, configured
from tests.gateway.tool_server import ToolServer, tool_server
from tests.matrix.conftest import ENGINES, Served

from smg_core import Gateway
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

USER = {"role": "user", "content": "2 + 3?"}


@attrs.frozen
class Asked:
    """How an API is asked: its path, whole and streamed, and its body. `told` are the words that its answer has for the call."""

    path: str
    body: dict[str, Any]
    told: tuple[str, ...]
    stream_path: str = ""


APIS = {
    "Chat Completions": Asked("/v1/chat/completions", {"messages": [USER], "tools": [NOTES]}, ("mcp_calls", "SUM-5")),
    "Responses": Asked("/v1/responses", {"input": "2 + 3?", "tools": [NOTES]}, ("mcp_list_tools", "mcp_call", "SUM-5")),
    "Messages": Asked(
        "/v1/messages",
        {"messages": [USER], "max_tokens": 400, "tools": [{"type": "mcp_toolset", "mcp_server_name": "notes"}]},
        ("mcp_tool_use", "mcp_tool_result", "SUM-5"),
    ),
    "generateContent": Asked(
        "/v1/models/sim:generateContent",
        {
            "contents": [{"parts": [{"text": "2 + 3?"}]}],
            "tools": [{"mcpServers": [{"name": "notes"}]}],
            "toolConfig": {"includeServerSideToolInvocations": True},
        },
        ("toolCall", "toolResponse", "SUM-5"),
        "/v1/models/sim:streamGenerateContent?alt=sse",
    ),
    "Interactions": Asked(
        "/v1/interactions",
        {"input": "2 + 3?", "tools": [{"type": "mcp_server", "name": "notes"}]},
        ("mcp_server_tool_call", "mcp_server_tool_result", "SUM-5"),
    ),
}


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture(scope="module")
async def with_tools(
    tools: ToolServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Callable[[str], Any]]:
    """A gateway with the server "notes" before an engine, and the engine; each is started once."""
    made: dict[str, Served] = {}
    mcp = attrs.evolve(configured(tmp_path_factory.mktemp("mcp"), tools).mcp, chat=True)
    async with AsyncExitStack() as stack:

        async def find(engine: str) -> Served:
            if engine not in made:
                made[engine] = await stack.enter_async_context(ENGINES[engine](SimulatorConfig(seed=1), mcp=mcp))
            return made[engine]

        yield find


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("engine", ENGINES)
async def test_tools_of_a_server_run_in_every_api_on_every_engine(
    engine: str,
    api: str,
    way: str,
    with_tools: Callable[[str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Tools of MCP servers, by API", api, engine, way))
    gateway, simulated = await with_tools(engine)
    asked, streams = APIS[api], way == "stream"
    simulated.say(ADD, DONE)
    body = asked.body if api == "generateContent" else {"model": "sim", "stream": streams, **asked.body}
    answer = await called_by(gateway).post(
        asked.stream_path if streams and asked.stream_path else asked.path, json=body
    )
    assert answer.status_code == 200, answer.text
    prompt = simulated.engine.vocabulary.decode(list(simulated.requests[-1].input_ids), skip_special_tokens=False)
    assert "SUM-5" in prompt
    assert [word for word in asked.told if word not in answer.text] == []
    assert "It is done." in (_joined(answer.text) if streams else answer.text)
    record_property("result", "yes")


def _joined(stream: str) -> str:
    """The texts of a stream's deltas, one behind the other, whatever its API calls them."""
    datas = [line[6:] for line in stream.splitlines() if line.startswith("data: {")]
    return "".join(text for data in datas for text in _texts(json.loads(data)))


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in ("text", "content", "delta") if isinstance(value.get(name), str)]
    return own + [text for each in value.values() for text in _texts(each)]
