"""The gateway as an MCP server: the official client in every version, and what of the wire is refused."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged
from tests.gateway.conftest import House, eventually, over_http
from tests.gateway.tool_server import ToolServer, tool_server
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.auth.settings import AuthConfig, OidcConfig
from smg_core.hooks import ToolCalled
from smg_core.http.settings import ServerConfig
from smg_core.pipeline.settings import McpConfig
from smg_core.sealing.shared import shared_sealer
from smg_core.wire.settings import LimitsConfig
from smg_mcp import McpTools, PythonTool, ToolContext, ToolProgress
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BOTH = {"accept": "application/json, text/event-stream"}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
SECRET = "sk-{}-0123456789abcdef"


def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return f"SUM-{a + b}"


def whose(context: ToolContext) -> str:
    context.progress(ToolProgress(1, 2, "half"))
    return f"TENANT-{context.tenant}"


def _more(server: MCPServer) -> None:
    @server.resource("memo://one")
    def one() -> str:
        return "MEMO-1"

    @server.resource("memo://of/{name}")
    def of(name: str) -> str:
        return f"MEMO-{name}"

    @server.tool()
    async def announce(context: Context) -> str:
        """Says that resources and prompts have changed."""
        await context.notify_resources_changed()
        await context.notify_prompts_changed()
        await context.request_context.session.send_resource_list_changed()
        await context.request_context.session.send_prompt_list_changed()
        return "SAID"

    @server.prompt()
    def greet(name: str) -> str:
        """Greets."""
        return f"HELLO-{name}"


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server(_more) as tools:
        yield tools


@asynccontextmanager
async def serving(
    folder: Path, servers: list[Any], *, serve: Any = "sessions", more: Any = None, functions: Any = (), **sections: Any
) -> AsyncIterator[House]:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"servers": servers, "egress": {"schemes": ["http", "https"]}, **(more or {})}))
    mcp = attrs.evolve(McpConfig(config=str(file), serve=serve, serve_watch_s=0.02), **sections.pop("mcp", {}))
    async with over_http(SimulatorConfig(seed=1), config=Config(mcp=mcp, **sections), tools=functions) as house:
        yield house


def at(tools: ToolServer, **fields: Any) -> dict[str, Any]:
    return {"name": "notes", "protocol": "streamable", "url": tools.url, **fields}


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    keys = (
        f"{SECRET.format('all')} name=all tenant=acme",
        f"{SECRET.format('some')} name=some tenant=acme tool=notes.add tool=functions.whose",
        f"{SECRET.format('other')} name=other tenant=globex",
    )
    policy = {"policy": {"tools": {"notes.fail": "deny", "notes.write": "ask"}}, "inventory": {"tool_ttl": 0.01}}
    async with serving(
        tmp_path_factory.mktemp("mcp"),
        [at(tools), at(tools, name="private", tenants=["acme"], allowed_tools=["look"])],
        more=policy,
        functions=[add, whose],
        auth=AuthConfig(keys=keys),
    ) as house:
        yield house


@asynccontextmanager
async def connected(house: House, key: str = "all", mode: Any = "auto", **others: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {SECRET.format(key)}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{house.url}/mcp", http_client=http)
        async with Client(transport, mode=mode, cache=None, **others) as client:
            yield client


async def rpc(house: House, method: str, params: Any = None, *, id: Any = 1, key: str = "all", **headers: str) -> Any:
    body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
    return await send(house, body, key=key, **headers)


async def send(house: House, body: Any, *, key: str = "all", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    all_headers = {**BOTH, "authorization": f"Bearer {SECRET.format(key)}", **named}
    return await house.http.post("/mcp", content=content, headers=all_headers)


async def session(house: House, key: str = "all") -> str:
    return (await rpc(house, "initialize", INITIALIZE, key=key)).headers["mcp-session-id"]


MODES = ("auto", "legacy")


# ------------------------------------------------------------------------------------------------------- the official client


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_and_calls_tools_of_servers_and_functions(house: House, mode: str) -> None:
    async with connected(house, mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"notes__add", "functions__add", "functions__whose", "private__look"} <= listed.keys()
        assert listed["functions__add"].description == "Adds two numbers."
        assert listed["notes__add"].annotations is not None
        for name in ("notes__add", "functions__add"):
            result = await client.call_tool(name, {"a": 2, "b": 3})
            assert (result.content[0].text, result.is_error) == ("SUM-5", False)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_tells_its_client_how_far_it_is(house: House, mode: str) -> None:
    told: list[Any] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    async with connected(house, mode=mode) as client:
        result = await client.call_tool("functions__whose", {}, progress_callback=progress)
    assert result.content[0].text == "TENANT-acme"  # type: ignore[union-attr]
    assert told == [(1, 2, "half")]


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
async def test_resources_and_prompts_of_servers_are_passed_on(house: House, mode: str) -> None:
    async with connected(house, mode=mode) as client:
        assert "mcp://notes/memo://one" in [str(each.uri) for each in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        assert "mcp://notes/memo://of/{name}" in [each.uri_template for each in templates]
        for uri, text in (("mcp://notes/memo://one", "MEMO-1"), ("mcp://notes/memo://of/ada", "MEMO-ada")):
            contents = (await client.read_resource(uri)).contents[0]
            assert (str(contents.uri), contents.text) == (uri, text)  # type: ignore[union-attr]
        assert "notes.greet" in [each.name for each in (await client.list_prompts()).prompts]
        prompt = await client.get_prompt("notes.greet", {"name": "ada"})
        assert prompt.messages[0].content.text == "HELLO-ada"  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", MODES)
async def test_a_permission_by_tool_bounds_what_is_listed_called_and_read(house: House, mode: str) -> None:
    async with connected(house, "some", mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"notes__add", "functions__whose"}
        with pytest.raises(MCPError, match="no tool 'notes__look'"):
            await client.call_tool("notes__look", {})
        assert (await client.list_resources()).resources == []
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="no resource"):
            await client.read_resource("mcp://notes/memo://one")


async def test_servers_of_other_tenants_are_unknown(house: House) -> None:
    async with connected(house, "other") as client:
        assert not [tool.name for tool in (await client.list_tools()).tools if tool.name.startswith("private")]
        with pytest.raises(MCPError, match="no tool 'private__look'"):
            await client.call_tool("private__look", {})


async def test_what_the_policy_denies_or_asks_about_is_not_offered_and_noted(
    house: House, tools: ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "smg.tools")
    tools.ran.clear()
    async with connected(house) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert not {"notes__fail", "notes__write"} & listed
        with pytest.raises(MCPError, match="no tool"):
            await client.call_tool("notes__write", {"note": "x"})
        await client.call_tool("notes__add", {"a": 1, "b": 1})
    assert tools.ran == ["add 1 1"]
    assert ["notes.write" in line and ": denied" in line for line in caplog.messages if "notes.write" in line] == [True]
    assert ["allowed" in line for line in caplog.messages if "notes.add" in line] == [True]


async def test_each_call_is_told_to_the_observer_by_its_server_and_tool(house: House) -> None:
    house.observer.moments.clear()
    for arguments in ({"a": 1, "b": 1}, {"a": "x", "b": 1}):
        await rpc(house, "tools/call", {"name": "functions__add", "arguments": arguments})
    told = [(each.server, each.tool, each.outcome, each.configured) for each in house.observer.of(ToolCalled)]
    assert told == [("functions", "add", "ok", True), ("functions", "add", "error", True)]


async def test_a_client_that_leaves_cancels_its_call(house: House, tools: ToolServer) -> None:
    tools.left.clear()
    call = asyncio.ensure_future(rpc(house, "tools/call", {"name": "notes__wait", "arguments": {"name": "gone"}}))
    await eventually(lambda: tools.at_once == 1)
    call.cancel()
    await eventually(lambda: tools.left == ["gone"])


async def test_a_client_cancels_a_call_of_its_session_by_its_id(house: House, tools: ToolServer) -> None:
    tools.left.clear()
    mine, other = await session(house), await session(house)
    params = {"name": "notes__wait", "arguments": {"name": "cut"}}
    call = asyncio.ensure_future(rpc(house, "tools/call", params, id=7, mcp_session_id=mine))
    await eventually(lambda: tools.at_once == 1)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert (await send(house, cancel, mcp_session_id=other)).status_code == 202
    assert tools.left == []
    assert (await send(house, cancel, mcp_session_id=mine)).status_code == 202
    assert (await call).json()["error"]["code"] == -32800
    await eventually(lambda: tools.left == ["cut"])


@pytest.mark.parametrize("id", [None, True, 1.5, [], 10**30, "x" * 10_000])
async def test_a_cancellation_of_what_does_not_run_is_taken_and_passed_over(house: House, id: Any) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
    assert (await send(house, cancel, mcp_session_id=await session(house))).status_code == 202


@pytest.mark.full
async def test_a_client_is_told_of_changes_in_every_version(house: House, tools: ToolServer) -> None:
    told: list[str] = []

    async def heard(message: Any) -> None:
        told.append(getattr(message, "method", ""))

    async with (
        connected(house, mode="legacy", message_handler=heard) as client,
        connected(house) as modern,
        modern.listen(tools_list_changed=True) as changes,
    ):
        await client.list_tools()
        tools.server.add_tool(lambda: "NEW", name="new", description="New.")
        try:
            async for _ in changes:
                break
            await eventually(lambda: "notifications/tools/list_changed" in told)
            assert "notes__new" in {tool.name for tool in (await modern.list_tools()).tools}
        finally:
            tools.server.remove_tool("new")


@pytest.mark.full
async def test_a_client_is_told_of_changes_of_resources_and_prompts(house: House) -> None:
    told: list[str] = []

    async def heard(message: Any) -> None:
        told.append(getattr(message, "method", ""))

    async with (
        connected(house, mode="legacy", message_handler=heard) as client,
        connected(house) as modern,
        modern.listen(resources_list_changed=True) as resources,
        modern.listen(prompts_list_changed=True) as prompts,
    ):
        await modern.call_tool("notes__announce", {})
        for changes, kind in ((resources, ResourcesListChanged), (prompts, PromptsListChanged)):
            async for change in changes:
                assert isinstance(change, kind)
                break
        wanted = {"notifications/resources/list_changed", "notifications/prompts/list_changed"}
        await eventually(lambda: wanted <= set(told))
        assert client.server_capabilities.prompts.list_changed  # type: ignore[union-attr]


async def test_our_own_client_reaches_the_gateway(house: House) -> None:
    server = {"name": "far", "protocol": "streamable", "url": f"{house.url}/mcp", "token": SECRET.format("some")}
    async with McpTools.from_config({"servers": [server]}) as tools:
        assert {tool.name for tool in await tools.tools()} == {"notes__add", "functions__whose"}
        assert (await tools.call("notes__add", {"a": 1, "b": 2})).text == "SUM-3"


# ---------------------------------------------------------------------------------------------------------------- the wire


@pytest.mark.parametrize("version", HANDSHAKES)
async def test_each_version_with_a_handshake_is_spoken(house: House, version: str) -> None:
    answer = await rpc(house, "initialize", {**INITIALIZE, "protocolVersion": version})
    assert answer.json()["result"]["protocolVersion"] == version
    mine = answer.headers["mcp-session-id"]
    headers = {"mcp_session_id": mine, "mcp_protocol_version": version}
    noted = await send(house, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
    assert (noted.status_code, noted.content) == (202, b"")
    assert (await rpc(house, "ping", **headers)).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    listed = (await rpc(house, "tools/list", **headers)).json()["result"]
    assert "functions__add" in {tool["name"] for tool in listed["tools"]}
    batch = [{"jsonrpc": "2.0", "id": at, "method": "ping"} for at in (1, 2)]
    many = await send(house, batch, **headers)
    if version in HANDSHAKES[:2]:
        assert [each["id"] for each in many.json()] == [1, 2]
    else:
        assert (many.status_code, many.json()["error"]["code"]) == (400, -32600)


async def test_an_unknown_version_is_answered_with_the_newest_of_ours(house: House) -> None:
    answer = await rpc(house, "initialize", {**INITIALIZE, "protocolVersion": "2031-01-01"})
    assert answer.json()["result"]["protocolVersion"] == HANDSHAKES[-1]
    later = await rpc(
        house, "tools/list", _meta("2031-01-01"), mcp_protocol_version="2031-01-01", mcp_method="tools/list"
    )
    assert (later.status_code, later.json()["error"]["code"]) == (400, -32022)
    assert later.json()["error"]["data"]["supported"][0] == "2026-07-28"
    bare = await rpc(
        house, "tools/list", mcp_protocol_version="1999-01-01"
    )  # said of the version, whatever else is missing
    assert (bare.status_code, bare.json()["error"]["code"]) == (400, -32022)


def _meta(version: str = "2026-07-28", **params: Any) -> dict[str, Any]:
    key = "io.modelcontextprotocol/"
    return {"_meta": {f"{key}protocolVersion": version, f"{key}clientCapabilities": {}}, **params}


MODERN = {"mcp_protocol_version": "2026-07-28"}


@pytest.mark.parametrize(
    ("params", "headers", "code", "status"),
    [
        ({}, {"mcp_method": "tools/call"}, -32602, 400),
        (_meta(name="functions__add"), {"mcp_method": "tools/list"}, -32020, 400),
        (_meta(name="functions__add"), {"mcp_method": "tools/call", "mcp_name": "notes__add"}, -32020, 400),
        (_meta(name="functions__add"), {"mcp_method": "tools/call"}, -32020, 400),
        (_meta("2025-11-25", name="functions__add"), {"mcp_method": "tools/call"}, -32020, 400),
        (_meta(name="none"), {"mcp_method": "tools/call", "mcp_name": "none"}, -32602, 400),
        (_meta(), {"mcp_method": "tools/call"}, -32602, 400),
    ],
)
async def test_a_request_that_contradicts_its_headers_is_refused(
    house: House, params: Any, headers: dict[str, str], code: int, status: int
) -> None:
    answer = await rpc(house, "tools/call", params, **MODERN, **headers)
    assert (answer.json()["error"]["code"], answer.status_code) == (code, status)


async def test_a_name_in_base64_is_the_name(house: House) -> None:
    params = _meta(name="functions__add", arguments={"a": 1, "b": 2})
    name = "=?base64?ZnVuY3Rpb25zX19hZGQ=?="
    answer = await rpc(house, "tools/call", params, **MODERN, mcp_method="tools/call", mcp_name=name)
    assert answer.json()["result"]["content"][0]["text"] == "SUM-3"
    assert answer.json()["result"]["resultType"] == "complete"


def _nested(depth: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"7",
        b'"x"',
        b"[]",
        b"[7]",
        b"{}",
        b"\xff\xfe",
        _nested(200_000),
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 7}',
        b'{"jsonrpc": "2.0", "id": 1, "method": ""}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}',
        json.dumps([{"jsonrpc": "2.0", "id": at, "method": "ping"} for at in range(33)]).encode(),
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
async def test_a_body_that_is_no_message_is_refused(house: House, body: bytes) -> None:
    answer = await send(house, body)
    assert answer.status_code == 400
    assert answer.json()["id"] is None
    assert answer.json()["error"]["code"] in (-32700, -32600, -32602)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 7}),
        ("tools/call", {"name": "functions__add", "arguments": [1]}),
        ("tools/list", {"cursor": "x"}),
        ("tools/list", {"cursor": 7}),
        ("tools/list", {"cursor": "-1"}),
        ("resources/read", {"uri": 7}),
        ("prompts/get", {"name": "notes.greet", "arguments": {"name": 7}}),
        ("initialize", {}),
    ],
)
async def test_parameters_of_the_wrong_kind_are_refused(house: House, method: str, params: Any) -> None:
    answer = await rpc(house, method, params)
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32602)


async def test_an_answer_of_the_client_is_taken_and_passed_over(house: House) -> None:
    assert (await send(house, {"jsonrpc": "2.0", "id": 1, "result": {}})).status_code == 202


async def test_a_long_list_comes_in_pages(tools: ToolServer, tmp_path: Path) -> None:
    functions = [PythonTool(add, name=f"f{at}") for at in range(5)]
    async with serving(tmp_path, [], functions=functions, mcp={"serve_page": 2}) as house:
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await rpc(house, "tools/list", cursor)).json()["result"]
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
    assert names == ["file_search", *(f"functions__f{at}" for at in range(5))]


# ---------------------------------------------------------------------------------------------------------------- who may


async def test_a_session_is_its_callers_alone_and_ends(house: House) -> None:
    mine = await session(house)
    assert (await rpc(house, "ping", mcp_session_id=mine)).status_code == 200
    for key in ("some", "other"):
        foreign = await rpc(house, "ping", key=key, mcp_session_id=mine)
        assert (foreign.status_code, foreign.json()["id"]) == (404, None)
    for token in ("", "x", mine[:-1], mine + "A", "gw1.AAAA", "\xe9"):
        headers = {**BOTH, "authorization": f"Bearer {SECRET.format('all')}", "mcp-session-id": token.encode("latin-1")}
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await house.http.post("/mcp", json=body, headers=headers)).status_code in (400, 404)
    headers = {"authorization": f"Bearer {SECRET.format('all')}", "mcp-session-id": mine}
    assert (await house.http.delete("/mcp", headers=headers)).status_code == 204
    assert (await rpc(house, "ping", mcp_session_id=mine)).status_code == 404
    assert (await house.http.get("/mcp", headers=headers)).status_code == 404


async def test_without_a_key_nothing_is_answered(house: House) -> None:
    answer = await house.http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=BOTH)
    assert answer.status_code == 401
    assert answer.json()["jsonrpc"] == "2.0"
    metadata = f"{house.url}/.well-known/oauth-protected-resource/mcp"
    assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'
    assert (await house.http.get(metadata)).json()["resource"] == f"{house.url}/mcp"


async def test_a_page_of_a_foreign_origin_is_refused(house: House) -> None:
    for origin, status in (("https://evil.example", 403), (house.url, 200), ("null", 403)):
        answer = await rpc(house, "ping", origin=origin)
        assert answer.status_code == status
        headers = {"authorization": f"Bearer {SECRET.format('all')}", "origin": "https://evil.example"}
        assert (await house.http.get("/mcp", headers=headers)).status_code == 403
        assert (await house.http.delete("/mcp", headers=headers)).status_code == 403


async def test_a_page_of_an_allowed_origin_is_answered(tmp_path: Path) -> None:
    server = ServerConfig(cors_origins=("https://good.example",))
    async with serving(tmp_path, [], server=server) as house:
        assert (await rpc(house, "ping", origin="https://good.example")).status_code == 200
        assert (await rpc(house, "ping", origin="https://evil.example")).status_code == 403


async def test_calls_of_tools_count_as_requests(tmp_path: Path) -> None:
    limits = LimitsConfig(rules=("2 requests/day per=tenant",))
    async with serving(tmp_path, [], functions=[add], limits=limits) as house:
        params = {"name": "functions__add", "arguments": {"a": 1, "b": 1}}
        answers = [(await rpc(house, "tools/call", params)).json() for _ in range(3)]
    assert ["result" in each for each in answers] == [True, True, False]
    assert answers[2]["error"]["data"]["status"] == 429


# -------------------------------------------------------------------------------------------------------------- the settings


@pytest.mark.full
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_it_is_off_by_default(method: str) -> None:
    async with over_http(SimulatorConfig(seed=1), tools=[add]) as house:
        answer = await house.http.request(method, "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status_code == 404
        assert "mcp.serve" in answer.json()["error"]["message"]
        assert (await house.http.get("/.well-known/oauth-protected-resource/mcp")).status_code == 404


@pytest.mark.full
async def test_without_sessions_every_request_stands_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, [], serve="stateless", functions=[add]) as house:
        answer = await rpc(house, "initialize", INITIALIZE)
        assert "mcp-session-id" not in answer.headers
        assert answer.json()["result"]["capabilities"]["tools"] == {"listChanged": False}
        assert (await house.http.get("/mcp")).status_code == 405
        listen = _meta(notifications={"toolsListChanged": True})
        refused = await rpc(house, "subscriptions/listen", listen, **MODERN, mcp_method="subscriptions/listen")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, -32601)
        for mode in MODES:
            async with connected(house, mode=mode) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert names == {"file_search", "functions__add"}


async def test_more_streams_than_there_may_be_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, [], functions=[add], mcp={"serve_streams": 1}) as house:
        headers = {"mcp-session-id": await session(house), "accept": "text/event-stream"}
        async with house.http.stream("GET", "/mcp", headers=headers) as first:
            assert first.status_code == 200
            assert (await house.http.get("/mcp", headers=headers)).status_code == 503
        await eventually(lambda: True)


async def test_the_metadata_names_the_issuer_of_tokens(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as house:
        live = house.gateway.services.live
        live.config = attrs.evolve(live.config, oidc=OidcConfig(issuer="https://issuer.example"))
        found = (await house.http.get("/.well-known/oauth-protected-resource")).json()
    assert found["authorization_servers"] == ["https://issuer.example"]


@asynccontextmanager
async def passed_on(port: list[int]) -> AsyncIterator[str]:
    """An address that leads to the port that `port` has by the time somebody connects."""

    open_now: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)

    async def passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        if (task := asyncio.current_task()) is not None:
            open_now.add(task)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port[0])
            writers.append(back)
            pumps = [asyncio.ensure_future(each) for each in (pump(reader, back), pump(there, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in pumps:
                    each.cancel()
        except (OSError, asyncio.CancelledError):  # what is there has ended, or the test
            pass
        finally:
            for end in writers:
                end.close()

    server = await asyncio.start_server(passing, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)


async def test_a_gateway_that_is_its_own_server_is_noticed(tools: ToolServer, tmp_path: Path) -> None:
    port: list[int] = []
    async with passed_on(port) as url:
        loop = {"name": "self", "protocol": "streamable", "url": url}
        async with serving(tmp_path, [loop, at(tools)], more={"pool": {"connect_tries": 1}}) as house:
            port.append(int(house.url.rpartition(":")[2]))
            listed = (await rpc(house, "tools/list")).json()["result"]
            assert {tool["name"].partition("__")[0] for tool in listed["tools"]} == {"file_search", "notes"}
            assert set(listed["_meta"]["smg/unavailable"]) == {"self"}


async def test_a_request_that_came_through_many_gateways_is_refused(tools: ToolServer, tmp_path: Path) -> None:
    async with serving(tmp_path, [at(tools)]) as house:
        services = house.gateway.services
        own = shared_sealer(services.live.config.sealing, services.running.sealer).key_id
        for hops in (own, f"beef,{own}", "a,b,c,d", "a,b,c,d,e", "", ",", "be ef", "beef;1"):
            answer = await rpc(house, "tools/list", smg_mcp_hops=hops)
            assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (409, "mcp_loop")
        assert (await rpc(house, "tools/list", smg_mcp_hops="beef,a")).status_code == 200
        assert tools.headers[-1]["smg-mcp-hops"] == f"beef,a,{own}"


@pytest.mark.full
async def test_a_ring_of_two_gateways_is_noticed_by_the_first(tmp_path: Path) -> None:
    ports: tuple[list[int], list[int]] = ([], [])
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    more = {"pool": {"connect_tries": 1}}
    async with passed_on(ports[0]) as to_one, passed_on(ports[1]) as to_two:
        far = {"name": "far", "protocol": "streamable", "url": to_two}
        back = {"name": "back", "protocol": "streamable", "url": to_one.replace("127.0.0.1", "localhost")}
        async with (
            serving(tmp_path / "one", [far], more=more, functions=[add]) as one,
            serving(tmp_path / "two", [back], more=more, functions=[add]) as two,
        ):
            for house, port in ((one, ports[0]), (two, ports[1])):
                port.append(int(house.url.rpartition(":")[2]))
            for house, server in ((one, "far"), (two, "back")):
                async with connected(house) as client:
                    names = {tool.name for tool in (await client.list_tools()).tools}
                    assert names == {
                        "file_search",
                        "functions__add",
                        *(f"{server}__{each}" for each in ("file_search", "functions__add")),
                    }
                    called: Any = await client.call_tool(f"{server}__functions__add", {"a": 1, "b": 2})
                    assert called.content[0].text == "SUM-3"
