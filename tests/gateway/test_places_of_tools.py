"""Errors name the place in the client's own request where its servers of tools were taken out, or replaced by their tools."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import House, over_http
from tests.gateway.test_chat_tool_loop import chat_config
from tests.gateway.tool_server import ToolServer, tool_server

from smg_core.errors import InvalidRequest
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.request import FunctionTool, GenerationRequest, HostedTool, Message, Tool
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PLAIN: dict[str, Any] = {"type": "object", "properties": {}}
SERVER = {"type": "mcp", "server_label": "notes", "require_approval": "never"}


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    config = chat_config(tmp_path_factory.mktemp("mcp"), tools)
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


def chat(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": PLAIN}}


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": PLAIN}


def messages(name: str) -> dict[str, Any]:
    return {"name": name, "input_schema": PLAIN}


SAID = [{"role": "user", "content": "Go!"}]
GOOGLE = {"contents": [{"role": "user", "parts": [{"text": "Go!"}]}]}
DECLARED = [{"name": name, "parameters": {"type": "OBJECT", "properties": {}}} for name in ("a", "b", "a")]
MESSAGES = {"model": "sim", "messages": SAID, "max_tokens": 9}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "notes"}
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": (
        "/v1/chat/completions",
        {"model": "sim", "messages": SAID, "tools": [SERVER, chat("a"), chat("b"), chat("a")]},
        "tools[3].function.name",
    ),
    "chat, the server in the middle": (
        "/v1/chat/completions",
        {"model": "sim", "messages": SAID, "tools": [chat("a"), SERVER, chat("a")]},
        "tools[2].function.name",
    ),
    "responses": (
        "/v1/responses",
        {"model": "sim", "input": "Go!", "tools": [SERVER, custom := {"type": "custom", "name": "c"}, function("c")]},
        "tools[2]",
    ),
    "responses, a grammar": (
        "/v1/responses",
        {
            "model": "sim",
            "input": "Go!",
            "tools": [
                SERVER,
                function("a"),
                {**custom, "format": {"type": "grammar", "syntax": "regex", "definition": "(["}},
            ],
        },
        "tools[2].format.definition",
    ),
    "responses, in the background": (
        "/v1/responses",
        {
            "model": "sim",
            "input": "Go!",
            "background": True,
            "tools": [SERVER, {**custom, "format": {"type": "grammar", "syntax": "regex", "definition": "(["}}],
        },
        "tools[1].format.definition",
    ),
    "generateContent": (
        "/v1beta/models/sim:generateContent",
        {**GOOGLE, "tools": [{"mcpServers": [{"name": "notes"}]}, {"functionDeclarations": DECLARED}]},
        "tools[1].functionDeclarations[2]",
    ),
    "interactions": (
        "/v1beta/interactions",
        {
            "model": "sim",
            "input": "Go!",
            "tools": [{"type": "mcp_server", "name": "notes"}, function("a"), function("a")],
        },
        "tools[2]",
    ),
    "messages": ("/v1/messages", {**MESSAGES, "tools": [TOOLSET, messages("a"), messages("a")]}, "tools.2.name"),
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("case", list(CASES))
async def test_an_error_of_a_tool_names_its_place_in_the_request(house: House, case: str) -> None:
    path, body, place = CASES[case]
    answer = await house.http.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert place in answer.text
    told = answer.json()["error"]
    assert told.get("param") is None or told["param"].startswith(place)


@st.composite
def requests(draw: st.DrawFn) -> tuple[GenerationRequest, list[str]]:
    """A request, and the place of each of its own tools."""
    kinds = draw(st.lists(st.booleans(), max_size=8))
    tools: list[Tool] = [FunctionTool(f"t{at}") if own else HostedTool("mcp", {}) for at, own in enumerate(kinds)]
    said = tuple([Message("user", ())] * draw(st.integers(0, 3)))
    own = [f"tools[{at}]" for at, mine in enumerate(kinds) if mine]
    return GenerationRequest("id", "m", messages=said, tools=tuple(tools)), own


@pytest.mark.full
@given(found=requests(), place=st.integers(0, 12), rest=st.sampled_from(["", ".name", ".parameters"]))
def test_every_place_becomes_one_of_the_request(
    found: tuple[GenerationRequest, list[str]], place: int, rest: str
) -> None:
    request, own = found
    for field in ("tools", "messages"):
        error = InvalidRequest(f"Bad '{field}[{place}]{rest}'.", param=f"{field}[{place}]{rest}")
        with pytest.raises(InvalidRequest), naming_places_of(request, lambda _: "tools[server]"):
            raise error
        if field == "tools":
            wanted = own[place] + rest if place < len(own) else "tools[server]"
        else:
            wanted = f"messages[{place}]{rest}" if place < len(request.messages) else "messages"
        assert (error.param, error.message) == (wanted, f"Bad '{wanted}'.")
