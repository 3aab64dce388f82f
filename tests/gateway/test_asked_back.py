"""What servers of tools ask back is answered by a model of the gateway, where their rows let it: sampling and elicitation."""

import json
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel
from tests.gateway.conftest import House, over_http, settled
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.tool_server import ToolServer, tool_server

from smg_core import Config
from smg_core.hooks import RequestFinished
from smg_core.pipeline.settings import McpConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ROWS: dict[str, dict[str, Any]] = {
    "answered": {"elicitation": "ask", "sampling": "ask", "model": "sim"},
    "nobody": {"elicitation": "ask", "sampling": "ask"},
    "refused": {},
}


class Place(BaseModel):
    city: str
    days: int = 1


def _more(server: MCPServer) -> None:
    @server.tool()
    async def summarize(text: str, ctx: Context) -> str:
        """Has a model summarize."""
        asked = SamplingMessage(role="user", content=TextContent(type="text", text=f"Sum up {text}"))
        with warnings.catch_warnings():  # the newest version of the protocol has it no more
            warnings.simplefilter("ignore")
            made = await ctx.session.create_message(messages=[asked], max_tokens=50, system_prompt="Be brief.")
        said = made.content if not isinstance(made.content, list) else made.content[0]
        return f"SAID-{getattr(said, 'text', '')}-{made.model}"

    @server.tool()
    async def where(ctx: Context) -> str:
        """Asks the user."""
        made = await ctx.elicit("Which city, for how many days?", Place)
        return f"{made.action}-{getattr(made, 'data', None)}"


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server(_more) as tools:
        yield tools


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    file: Path = tmp_path_factory.mktemp("back") / "mcp.json"
    reached = {"protocol": "streamable", "url": tools.url, "generation": "legacy"}
    file.write_text(json.dumps({"servers": [{"name": name, **reached, **row} for name, row in ROWS.items()]}))
    config = Config(mcp=McpConfig(config=str(file), serve="stateless"))
    async with over_http(SimulatorConfig(), config=config) as house:
        yield house


async def call(house: House, tool: str, **arguments: Any) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    answer = await house.http.post("/mcp", json=message, headers={"accept": "application/json"})
    return str(answer.json()["result"]["content"][0]["text"])


@pytest.mark.full
async def test_a_model_answers_a_server_that_asks_one(house: House) -> None:
    says(house, Reply("In short: fjords."))
    assert await call(house, "answered__summarize", text="Norway") == "SAID-In short: fjords.-sim"
    told = prompt(house)
    assert "Sum up Norway" in told
    assert "Be brief." in told
    await settled(house)
    done = house.observer.of(RequestFinished)[-1]
    assert (done.api, done.model, done.outcome) == ("mcp", "sim", "ok")


async def test_a_model_fills_in_what_the_user_is_asked_for(house: House) -> None:
    says(house, Reply('{"city": "Oslo", "days": 2}'))
    assert await call(house, "answered__where") == "accept-city='Oslo' days=2"
    assert "Which city" in prompt(house)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    "said", ["I do not know.", "{}", '{"city": 5}', '{"city": "Oslo", "days": true}', "[", '{"x": 1}']
)
async def test_what_is_not_of_the_schema_declines(house: House, said: str) -> None:
    says(house, Reply(said))
    assert (await call(house, "answered__where")).startswith("decline")


@pytest.mark.full
@pytest.mark.parametrize("row", ["nobody", "refused"])
async def test_without_a_model_nobody_answers(house: House, row: str) -> None:
    before = len(house.engine.requests)
    assert (await call(house, f"{row}__where")).startswith("decline")
    assert "SAID" not in await call(house, f"{row}__summarize", text="x")
    assert len(house.engine.requests) == before
