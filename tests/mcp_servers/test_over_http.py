"""Real servers over HTTP: both generations, the legacy transports, credentials, and what a server may not do to its client."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

import attrs
import pytest
import uvicorn
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from tests.mcp_servers.peers import eventually
from tests.peers import listening

from smg_mcp import (
    McpBadAnswer,
    McpBadArguments,
    McpBusy,
    McpDenied,
    McpForbidden,
    McpRefused,
    McpTools,
    McpUnavailable,
    McpUnknownTool,
    RequestServer,
    ToolImage,
    ToolProgress,
)
from smg_mcp.catalogue.schemas import fault_of_schema

pytestmark = pytest.mark.anyio

PIXEL = b"\x89PNG\r\n\x1a\n fake"


class Colour(BaseModel):
    colour: str


async def which() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


def colours() -> MCPServer:
    """A server of the official package, with a tool of each kind."""
    server = MCPServer("colours", instructions="Ask for colours.")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def picture() -> Image:
        """A picture."""
        return Image(data=PIXEL, format="png")

    @server.tool()
    async def count(steps: int, ctx: Context) -> str:
        """Count, and say so."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, "counted")
        return "counted"

    @server.tool()
    async def favourite(asked: Annotated[ElicitationResult[Colour], Resolve(which)]) -> str:
        """Ask for the favourite colour."""
        return asked.data.colour if asked.action == "accept" else asked.action

    @server.tool()
    def headers(ctx: Context) -> dict[str, str]:
        """The headers of the request."""
        return dict(ctx.headers or {})

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Have one tool more."""
        server.add_tool(lambda: "new", name="fresh", description="New.")
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"

    @server.resource("colour://red")
    def red() -> str:
        """Red."""
        return "#f00"

    @server.prompt()
    def paint(thing: str) -> str:
        """How to paint."""
        return f"Paint the {thing}."

    return server


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[int]:
    """An ASGI app on a free port of the loopback."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on", timeout_graceful_shutdown=1))
    task = asyncio.ensure_future(server.serve())
    await eventually(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


def config(port: int, path: str = "/mcp", protocol: str = "streamable", **more: Any) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}{path}"
    settings = more.pop("settings", {})
    return {"servers": [{"name": "colours", "protocol": protocol, "url": url, **more}], **settings}


@asynccontextmanager
async def using(app: Any, **more: Any) -> AsyncIterator[McpTools]:
    options = more.pop("options", {})
    async with serving(app) as port, McpTools.from_config(config(port, **more), **options) as tools:
        yield tools


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("generation", ["legacy", "modern", "auto"])
@pytest.mark.parametrize("json_response", [True, False])
async def test_a_server_is_used_over_streamable_http(generation: str, json_response: bool) -> None:
    app = colours().streamable_http_app(json_response=json_response)
    async with using(app, generation=generation) as tools:
        outcome = await tools.call("colours.add", {"a": "2", "b": 3})
        assert outcome.structured == {"result": 5}
        inventory = await tools.list("colours")
        assert inventory.protocol == ("2025-11-25" if generation == "legacy" else "2026-07-28")
        assert [each["uri"] for each in inventory.resources] == ["colour://red"]
        assert [each["name"] for each in inventory.prompts] == ["paint"]
        assert inventory.instructions == "Ask for colours."
        request = tools.for_request()
        assert (await request.read("colours", "colour://red"))[0]["text"] == "#f00"
        prompt = await request.prompt("colours", "paint", {"thing": "door"})
        assert prompt["messages"][0]["content"]["text"] == "Paint the door."
        picture = (await tools.call("colours.picture", {})).content[0]
        assert isinstance(picture, ToolImage)
        assert picture.mime == "image/png"


async def test_a_server_is_used_over_legacy_sse() -> None:
    async with using(colours().sse_app(), path="/sse", protocol="sse") as tools:
        assert (await tools.call("colours.add", {"a": 2, "b": 3})).structured == {"result": 5}


async def test_a_server_is_used_over_plain_json_rpc() -> None:
    app = colours().streamable_http_app(json_response=True, stateless_http=True)
    async with using(app, protocol="http") as tools:
        assert (await tools.call("colours.add", {"a": 2, "b": 3})).structured == {"result": 5}


async def test_progress_comes_over_http() -> None:
    seen: list[ToolProgress] = []
    async with using(colours().streamable_http_app()) as tools:
        assert (await tools.call("colours.count", {"steps": 3}, progress=seen.append)).text == "counted"
        await eventually(lambda: len(seen) == 3)
    assert [each.progress for each in seen] == [1, 2, 3]


@pytest.mark.full
@pytest.mark.parametrize("generation", ["legacy", "modern"])
async def test_what_a_server_asks_the_user_is_answered_by_policy(generation: str) -> None:
    asked: list[tuple[str, str, str]] = []

    async def answer(server: str, tenant: str, message: str, schema: Any) -> dict[str, Any] | None:
        asked.append((server, tenant, message))
        return {"colour": "blue"}

    app = colours().streamable_http_app
    options = {"ask_user": answer}
    async with using(app(), generation=generation, options=options) as tools:
        assert (await tools.call("colours.favourite", {})).text == "decline"
    async with using(app(), generation=generation, elicitation="cancel", options=options) as tools:
        assert (await tools.call("colours.favourite", {})).text == "cancel"
    assert not asked
    async with using(app(), generation=generation, elicitation="ask", options=options) as tools:
        assert (await tools.call("colours.favourite", {}, tenant="t")).text == "blue"
    assert asked == [("colours", "t", "Which colour?")]


async def test_only_the_headers_of_the_allow_list_are_forwarded_and_the_caller_s_token_is_used() -> None:
    more = {"forward_headers": ["X-User"], "headers": {"X-Fixed": "f"}, "token": "of-the-gateway"}
    async with using(colours().streamable_http_app(), **more) as tools:
        given = {"x-user": "ada", "cookie": "secret", "authorization": "Bearer of-the-client"}
        seen = (await tools.call("colours.headers", {}, headers=given)).structured
        assert (seen["x-user"], seen["x-fixed"], seen["authorization"]) == ("ada", "f", "Bearer of-the-gateway")
        assert "cookie" not in seen
        own = {"colours": "of-ada"}
        seen = (await tools.call("colours.headers", {}, headers=given, credentials=own)).structured
        assert seen["authorization"] == "Bearer of-ada"
        assert len(tools.pool) == 2


async def test_headers_of_the_transport_cannot_be_set() -> None:
    for name in ("Host", "Content-Length", "MCP-Session-Id", "a b"):
        tools = McpTools.from_config(config(1, headers={name: "x"}))
        with pytest.raises(McpBadArguments):
            await tools.call("colours.add", {})
    with pytest.raises(McpBadArguments):
        await McpTools.from_config(config(1, headers={"x-ok": "a\r\nb: c"})).call("colours.add", {})


# ------------------------------------------------------------------------------------------------------ servers that go wrong

Reply = Callable[[dict[str, Any]], tuple[int, Sequence[tuple[str, str]], bytes]]
JSON = ("content-type", "application/json")


def result(message: dict[str, Any], value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": value}).encode()


TOOL_SCHEMA = {"inputSchema": {"type": "object"}}
TOOL = {"name": "add", **TOOL_SCHEMA}
START = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    },
    "tools/list": {"tools": [TOOL], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
}


@asynccontextmanager
async def replying(reply: Reply, first: bool = False) -> AsyncIterator[tuple[int, list[dict[str, Any]]]]:
    """A server whose answer to a call (with `first`, to everything) is what `reply` says."""
    seen: list[dict[str, Any]] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
            body = await reader.readexactly(length)
            message = json.loads(body) if body else {}
            seen.append(message)
            method = message.get("method")
            if method in START and not first:
                status, headers, content = 200, [JSON], result(message, START[method])
            else:
                status, headers, content = reply(message)
            lines = [f"HTTP/1.1 {status} So", *(f"{name}: {value}" for name, value in headers)]
            lines += [f"content-length: {len(content)}", "", ""]
            writer.write("\r\n".join(lines).encode() + content)
            await writer.drain()
        writer.close()

    async with listening(take) as port:
        yield port, seen


@asynccontextmanager
async def wrong(reply: Reply, first: bool = False, **more: Any) -> AsyncIterator[McpTools]:
    async with replying(reply, first) as (port, _), McpTools.from_config(config(port, **more)) as tools:
        yield tools


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("first", [True, False])
async def test_a_refusal_of_the_credentials_reaches_the_caller_as_such(status: int, first: bool) -> None:
    challenge = ("www-authenticate", 'Bearer realm="colours"')
    async with wrong(lambda message: (status, [challenge], b"no"), first) as tools:
        for ask in (
            (tools.call("colours.add", {}), tools.list("colours"), tools.tools())
            if first
            else (tools.call("colours.add", {}),)
        ):
            with pytest.raises(McpRefused) as caught:
                await ask
            assert caught.value.status == status
            assert caught.value.challenge == 'Bearer realm="colours"'


async def test_an_answer_with_another_request_s_id_is_no_answer() -> None:
    async with wrong(lambda message: (200, [JSON], result({"id": 99}, {"content": []}))) as tools:
        with pytest.raises(McpBadAnswer, match="another request's id"):
            await tools.call("colours.add", {})


async def test_an_event_with_another_request_s_id_is_no_answer() -> None:
    event = b"event: message\r\ndata: " + result({"id": 99}, {"content": []}) + b"\r\n\r\n"
    async with wrong(lambda message: (200, [("content-type", "text/event-stream")], event)) as tools:
        with pytest.raises(McpBadAnswer, match="another request's id"):
            await tools.call("colours.add", {})


async def test_the_answer_to_one_tenant_never_reaches_another() -> None:
    asked: dict[str, Any] = {}

    def reply(message: dict[str, Any]) -> tuple[int, Sequence[tuple[str, str]], bytes]:
        """The result of the first call for every call, under that call's id."""
        other = asked.setdefault("first", message)
        return 200, [JSON], result(other, {"content": [{"type": "text", "text": "SECRET"}], "resultType": "complete"})

    async with wrong(reply) as tools:
        assert (await tools.call("colours.add", {}, tenant="a")).text == "SECRET"
        asked["first"] = {"id": "77"}
        with pytest.raises(McpBadAnswer, match="another request's id"):
            await tools.call("colours.add", {}, tenant="b")


async def test_events_without_an_end_over_http_end_the_session() -> None:
    note = b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}\n\n'
    settings = {"limits": {"notifications_per_s": 1, "notifications_burst": 50}}
    flood = (200, [("content-type", "text/event-stream")], note * 500)
    async with wrong(lambda message: flood, settings=settings) as tools:
        with pytest.raises(McpBadAnswer, match="notifications a second"):
            await tools.call("colours.add", {})


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("pair", ['"name": "a", "name": "b"', '"name": "a", "Name": "b"'])
async def test_a_tool_with_an_ambiguous_name_is_never_offered(kind: str, pair: str) -> None:
    def reply(message: dict[str, Any]) -> tuple[int, Sequence[tuple[str, str]], bytes]:
        if message.get("method") == "server/discover":
            return 200, [JSON], result(message, START["server/discover"])
        tools = f'{{"tools": [{{{pair}, "inputSchema": {{"type": "object"}}}}]}}'
        text = f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": {tools}}}'
        return 200, [("content-type", kind)], (f"data: {text}\n\n" if "event" in kind else text).encode()

    async with wrong(reply, True) as tools:
        with pytest.raises(McpBadAnswer, match=r"key twice|but for capitals"):
            await tools.tools()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_half_a_character_costs_no_tool_but_the_one_that_is_named_with_it(kind: str) -> None:
    half = {"inputSchema": {"type": "object", "properties": {"\ud83d": {}}}}
    listed = [{**TOOL, "description": "cut \ud83d"}, {**TOOL, "name": "\ud83d"}, {"name": "half", **half}]

    def reply(message: dict[str, Any]) -> tuple[int, Sequence[tuple[str, str]], bytes]:
        if message.get("method") == "server/discover":
            return 200, [JSON], result(message, START["server/discover"])
        text = result(message, {**START["tools/list"], "tools": listed})
        return 200, [("content-type", kind)], b"data: " + text + b"\n\n" if "event" in kind else text

    async with wrong(reply, True) as tools:
        (tool,) = await tools.tools()
    assert (tool.tool, tool.description) == ("add", "cut \ufffd")


async def test_twenty_megabytes_over_http_are_not_kept() -> None:
    bounds = {"limits": {"message_bytes": 100_000}}
    async with wrong(lambda message: (200, [JSON], b"x" * 20_000_000), settings=bounds) as tools:
        with pytest.raises(McpBadAnswer, match="more than 100000 bytes"):
            await tools.call("colours.add", {})


async def test_a_compressed_answer_is_not_inflated() -> None:
    async with wrong(lambda message: (200, [JSON, ("content-encoding", "gzip")], b"bomb")) as tools:
        with pytest.raises(McpBadAnswer, match="compressed"):
            await tools.call("colours.add", {})


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest", "http://127.0.0.2:1/mcp", "https://example.com/"]
)
async def test_a_redirect_to_another_place_is_not_followed(location: str) -> None:
    async with wrong(lambda message: (307, [("location", location)], b"")) as tools:
        with pytest.raises(McpForbidden):
            await tools.call("colours.add", {})


async def test_a_server_that_cannot_be_reached_is_said_to_be_so() -> None:
    async with listening(lambda reader, writer: asyncio.sleep(0)) as port:
        pass
    pool = {"pool": {"connect_tries": 1}}
    async with McpTools.from_config(config(port, settings=pool)) as tools:
        with pytest.raises(McpUnavailable) as caught:
            await tools.call("colours.add", {})
        assert not caught.value.may_have_run


async def test_a_call_whose_connection_is_lost_is_made_once() -> None:
    seen: list[str] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:"))
        message = json.loads(await reader.readexactly(length))
        seen.append(message["method"])
        if message["method"] in START:
            content = result(message, START[message["method"]])
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n" % len(content) + content)
            await writer.drain()
        writer.close()

    async with listening(take) as port, McpTools.from_config(config(port)) as tools:
        with pytest.raises(McpUnavailable) as caught:
            await tools.call("colours.add", {})
        assert caught.value.may_have_run
    assert seen.count("tools/call") == 1


async def test_nothing_of_a_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with using(colours().streamable_http_app(), token="s3cret-token", generation="legacy") as tools:
        await tools.call("colours.add", {"a": 424242, "b": 1})
    async with wrong(lambda message: (200, [JSON], b'{"jsonrpc": "2.0", "s3cret": 1}')) as tools:
        with pytest.raises(McpBadAnswer):
            await tools.call("colours.add", {"a": 424242})
    mine = [
        record for record in caplog.records if not record.name.startswith(("mcp.server", "sse_starlette", "asyncio"))
    ]
    told = "\n".join(record.getMessage() + (record.exc_text or "") for record in mine)
    assert "s3cret" not in told
    assert "424242" not in told


# --------------------------------------------------------------------------------------- servers that a request brings along


@pytest.mark.full
async def test_a_request_may_bring_a_server_where_the_rules_allow_it() -> None:
    async with serving(colours().streamable_http_app()) as port:
        egress = {"schemes": ["http"], "ports": [port], "private": ["127.0.0.1"]}
        async with McpTools.from_config({"egress": egress}) as tools:
            url = f"http://127.0.0.1:{port}/mcp"
            mine = RequestServer("mine", url, authorization="tok", allowed_tools=frozenset({"headers"}))
            request = tools.for_request(tenant="t", extra=[mine])
            assert [tool.name for tool in await request.tools()] == ["headers"]
            seen = (await request.call("headers", {})).structured
            assert seen["authorization"] == "Bearer tok"
            with pytest.raises(McpUnknownTool):
                await request.call("mine.add", {"a": 1, "b": 2})
            other = RequestServer("mine", url, authorization="tok2")
            assert (await tools.for_request(tenant="t", extra=[other]).call("headers", {})).structured[
                "authorization"
            ] == "Bearer tok2"
            assert (await tools.for_request(tenant="u", extra=[mine]).call("headers", {})).structured
            assert len(tools.pool) == 3


async def test_a_request_s_server_is_not_trusted_for_its_label() -> None:
    async with serving(colours().streamable_http_app()) as port:
        origin = f"http://127.0.0.1:{port}"
        policy = {
            "default": "deny",
            "servers": {"colours": {"trust_level": "trusted"}},
            "tools": {"colours.add": "allow"},
            "rules": [{"decision": "allow", "server": "http://127.0.0.1:*", "tool": "headers"}],
        }
        egress = {"schemes": ["http"], "ports": [port], "private": ["127.0.0.1"]}
        trusted = {"name": "colours", "protocol": "streamable", "url": "https://colours.example/mcp"}
        async with McpTools.from_config({"servers": [trusted], "egress": egress, "policy": policy}) as tools:
            request = tools.for_request(servers=[], extra=[RequestServer("colours", f"{origin}/mcp")])
            with pytest.raises(McpDenied):
                await request.call("colours.add", {"a": 1, "b": 2})
            await request.call("colours.headers", {})
            assert [(entry.facts.server, entry.decision.verdict) for entry in tools.audit.entries()] == [
                (origin, "deny"),
                (origin, "allow"),
            ]


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://example.com:8443/",
        "stdio://x",
    ],
)
async def test_a_request_s_server_is_held_to_the_egress_rules(url: str) -> None:
    async with McpTools.from_config({}) as tools:
        with pytest.raises(McpForbidden):
            await tools.for_request(extra=[RequestServer("mine", url)]).tools()


async def test_a_tenant_does_not_know_of_another_tenant_s_server() -> None:
    async with McpTools.from_config(config(1, tenants=["a"])) as tools:
        assert list(await tools.tools(tenant="b")) == []
        with pytest.raises(McpUnknownTool):
            await tools.call("colours.add", {}, tenant="b")
        with pytest.raises(McpUnknownTool):
            await tools.list("colours", tenant="b")


# ------------------------------------------------------------------------------------------------------- sessions and proxies


async def test_a_session_that_its_server_has_forgotten_is_opened_again_and_the_call_made_once_more() -> None:
    sessions: list[Any] = []

    class Restarting:
        """The same server, whose sessions are lost when it is told so."""

        def __init__(self) -> None:
            self.lost = False

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            headers = dict(scope.get("headers", ()))
            if scope["type"] == "http" and self.lost and headers.get(b"mcp-session-id") in sessions:
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b"gone"})
                return
            if scope["type"] == "http" and b"mcp-session-id" in headers and not self.lost:
                sessions.append(headers[b"mcp-session-id"])
            await app(scope, receive, send)

    app, restarting = colours().streamable_http_app(), Restarting()
    async with using(restarting, generation="legacy") as tools:
        assert (await tools.call("colours.add", {"a": 1, "b": 1})).structured == {"result": 2}
        restarting.lost = True
        assert (await tools.call("colours.add", {"a": 1, "b": 2})).structured == {"result": 3}


class Limiting:
    """The same server, which answers calls of one tool with a status. Another tool is under way until `let_go` is set."""

    def __init__(self, tool: str, status: int) -> None:
        self.tool, self.status = tool, status
        self.refused: list[dict[str, Any]] = []
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.initialized = 0
        server = colours()
        server.add_tool(self.held, name="held")
        self._app = server.streamable_http_app()

    async def held(self) -> str:
        """Wait."""
        self.begun.set()
        await self.let_go.wait()
        return "done"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        message = json.loads(body)
        self.initialized += message.get("method") == "initialize"
        if (message.get("params") or {}).get("name") == self.tool:
            self.refused.append(message)
            await Response("no", self.status)(scope, receive, send)
            return
        parts = [{"type": "http.request", "body": body}]

        async def read() -> Any:
            return parts.pop() if parts else await receive()

        await self._app(scope, read, send)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(("status", "may_have_run"), [(429, False), (503, False), (500, True), (413, True)])
async def test_a_status_that_answers_one_call_fails_that_call_alone_and_is_not_asked_for_again(
    status: int, may_have_run: bool
) -> None:
    limiting = Limiting("add", status)
    async with using(limiting, generation="legacy", tools={"add": {"idempotent": True}}) as tools:
        held = asyncio.ensure_future(tools.call("colours.held", {}))
        await limiting.begun.wait()
        with pytest.raises(McpUnavailable, match=f"answered {status}") as caught:
            await tools.call("colours.add", {"a": 1, "b": 2})
        assert caught.value.may_have_run is may_have_run
        assert len(limiting.refused) == 1
        limiting.let_go.set()
        assert (await held).text == "done"
    assert limiting.initialized == 1


async def test_a_ping_that_is_answered_with_a_status_does_not_end_the_session() -> None:
    def reply(message: dict[str, Any]) -> tuple[int, Sequence[tuple[str, str]], bytes]:
        if message.get("method") == "ping":
            return 429, [], b""
        if message.get("method") == "initialize":
            told = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }
            return 200, [JSON], result(message, told)
        return (202, [], b"") if "id" not in message else (200, [JSON], result(message, {"content": []}))

    async with replying(reply) as (port, seen), McpTools.from_config(config(port, generation="legacy")) as tools:
        await tools.call("colours.add", {})
        async with tools.for_request()._reachable["colours"].session() as session:
            assert await session.ping()
        await tools.call("colours.add", {})
    asked = [message.get("method") for message in seen]
    assert (asked.count("ping"), asked.count("initialize")) == (1, 1)


async def test_a_server_is_reached_by_its_proxy_and_hosts_of_no_proxy_directly() -> None:
    seen: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        seen.append(head)
        writer.write(b"HTTP/1.1 502 So\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with listening(proxy) as port, serving(colours().streamable_http_app()) as there:
        told = {"http": f"http://127.0.0.1:{port}", "username": "u", "password": "p"}
        pool = {"pool": {"connect_tries": 1}}
        async with McpTools.from_config(config(there, proxy=told, settings=pool)) as tools:
            with pytest.raises(McpUnavailable):
                await tools.tools()
        assert seen[0].startswith(f"POST http://127.0.0.1:{there}/mcp ")
        assert "proxy-authorization: basic " in seen[0].lower()
        seen.clear()
        direct = {**told, "no_proxy": ["127.0.0.1"]}
        async with McpTools.from_config(config(there, proxy=direct)) as tools:
            assert await tools.tools()
        assert not seen


async def test_a_pool_whose_sessions_are_all_in_use_says_so_and_an_idle_one_makes_room() -> None:
    app = colours().streamable_http_app()
    async with using(app, settings={"pool": {"max_connections": 1}}) as tools:
        assert (await tools.call("colours.add", {"a": 1, "b": 1}, tenant="a")).structured == {"result": 2}
        assert (await tools.call("colours.add", {"a": 1, "b": 1}, tenant="b")).structured == {"result": 2}
        assert len(tools.pool) == 1
        reachable = tools.for_request(tenant="b")._reachable["colours"]
        async with reachable.session():
            with pytest.raises(McpBusy):
                await tools.call("colours.add", {"a": 1, "b": 1}, tenant="a")


async def test_a_tenant_whose_sessions_are_all_in_use_leaves_some_to_others() -> None:
    app = colours().streamable_http_app()
    async with using(app, settings={"pool": {"max_connections": 4}}) as tools:
        async with AsyncExitStack() as stack:
            for number in range(3):
                mine = tools.for_request(tenant="a", credentials={"colours": f"tok-{number}"})
                await stack.enter_async_context(mine._reachable["colours"].session())
            fourth = tools.for_request(tenant="a", credentials={"colours": "tok-4"})._reachable["colours"]
            with pytest.raises(McpBusy, match="one tenant"):
                await stack.enter_async_context(fourth.session())
            other = await tools.call("colours.add", {"a": 1, "b": 1}, tenant="b")
        await tools.call("colours.add", {"a": 1, "b": 1}, tenant="a", credentials={"colours": "tok-4"})

        assert other.structured == {"result": 2}
        assert sorted(key.tenant for key in tools.pool._sessions) == ["a", "a", "a", "b"]


@pytest.mark.parametrize(
    "path",
    ["/team-a/../team-b/mcp", "/team-a/%2e%2e/team-b", "/team-a/x%2f..%2f..%2fteam-b", "/./mcp", "/a/..;x/b", "/a/.."],
)
def test_a_request_s_server_is_asked_at_the_path_that_is_written(path: str) -> None:
    with pytest.raises(ValueError, match="no segments"):
        RequestServer("mine", f"https://tools.example{path}")
    assert RequestServer("mine", "https://tools.example/a.b/..c/mcp?x=/../y").label == "mine"


async def test_a_required_server_that_cannot_be_used_keeps_the_program_from_starting() -> None:
    async with replying(lambda message: (401, [], b""), True) as (port, _):
        with pytest.raises(McpRefused, match="the server colours, which is required") as refused:
            async with McpTools.from_config(config(port, required=True)):
                pass
        assert refused.value.status == 401


async def test_a_server_that_refuses_does_not_hide_the_tools_of_another() -> None:
    async with (
        replying(lambda message: (403, [], b""), True) as (port, _),
        serving(colours().streamable_http_app()) as there,
    ):
        servers = [*config(there)["servers"], {**config(port)["servers"][0], "name": "closed"}]
        async with McpTools.from_config({"servers": servers}) as tools:
            catalogue = await tools.for_request().catalogue()
            assert {tool.server for tool in catalogue.tools} == {"colours"}
            assert list(catalogue.failed) == ["closed"]
            with pytest.raises(McpRefused):
                await tools.tools()
            assert (await tools.for_request().call("add", {"a": 1, "b": 1})).structured == {"result": 2}


@pytest.mark.full
@pytest.mark.parametrize("generation", ["legacy", "modern"])
async def test_news_of_changed_tools_come_over_http_in_both_generations(generation: str) -> None:
    async with using(colours().streamable_http_app(), generation=generation) as tools:
        await tools.tools()
        assert (await tools.call("colours.grow", {})).text == "grown"

        async def offered() -> bool:
            return "fresh" in {tool.name for tool in await tools.tools()}

        await eventually_async(offered)


async def eventually_async(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.01)


# ------------------------------------------------------------------------------------------------------- lists of several pages

LISTS = {
    "tools": ("tools", {"name": "NAME", "inputSchema": {"type": "object"}}),
    "resources": ("resources", {"uri": "x://NAME", "name": "NAME"}),
    "templates": ("resourceTemplates", {"uriTemplate": "x://NAME/{a}", "name": "NAME"}),
    "prompts": ("prompts", {"name": "NAME"}),
}
"""By what is listed: the field of a page, and an entry."""
METHODS = {"templates": "resources/templates/list"}


def entry(what: str, name: str) -> dict[str, Any]:
    told = json.dumps(LISTS[what][1]).replace("NAME", name)
    found: dict[str, Any] = json.loads(told)
    return found


@asynccontextmanager
async def paged(what: str, pages: Callable[[str | None, int], dict[str, Any]]) -> AsyncIterator[tuple[Any, list[Any]]]:
    """The session of a server whose list is what `pages` makes of a cursor and of how often it was asked; and the cursors."""
    cursors: list[Any] = []

    def reply(message: dict[str, Any]) -> tuple[int, Sequence[tuple[str, str]], bytes]:
        method = message.get("method")
        capabilities = {"tools": {}, "resources": {}, "prompts": {}}
        if method == "initialize":
            told = {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "serverInfo": {"name": "p", "version": "1"},
            }
            return 200, [JSON], result(message, told)
        if method == METHODS.get(what, f"{what}/list"):
            cursors.append((message.get("params") or {}).get("cursor"))
            return 200, [JSON], result(message, pages(cursors[-1], len(cursors)))
        return 202, [], b""

    async with (
        wrong(reply, True, generation="legacy") as tools,
        tools.for_request()._reachable["colours"].session() as session,
    ):
        yield session, cursors


@pytest.mark.parametrize("what", list(LISTS))
async def test_a_walk_over_pages_ends_at_a_cursor_that_was_seen_before(what: str) -> None:
    following = {None: "a", "a": "b", "b": "a"}

    def page(cursor: str | None, asked: int) -> dict[str, Any]:
        return {LISTS[what][0]: [entry(what, f"n{cursor}")], "nextCursor": following[cursor]}

    async with paged(what, page) as (session, cursors):
        found = await session.listed(what)
    assert cursors == [None, "a", "b"]
    assert found == [entry(what, name) for name in ("nNone", "na", "nb")]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("what", list(LISTS))
async def test_a_list_whose_cursors_never_end_has_each_entry_once(what: str) -> None:
    def page(cursor: str | None, asked: int) -> dict[str, Any]:
        return {LISTS[what][0]: [entry(what, "same"), entry(what, "same")], "nextCursor": str(asked)}

    async with paged(what, page) as (session, cursors):
        assert await session.listed(what) == [entry(what, "same")]
    assert len(cursors) == 100


WRONG_TOOLS: dict[str, dict[str, Any]] = {
    "a name that is a number": {"name": 7},
    "no name": {"name": ""},
    "a long name": {"name": "n" * 300},
    "half a character in the name": {"name": "a\ud800"},
    "no schema": {"inputSchema": None},
    "a schema that is a word": {"inputSchema": "any"},
    "properties that are a list": {"inputSchema": {"type": "object", "properties": []}},
    "a schema of a text": {"inputSchema": {"type": "string"}},
    "a schema from elsewhere": {"inputSchema": {"type": "object", "$ref": "http://127.0.0.1:9/x"}},
    "half a character in the schema": {"inputSchema": {"type": "object", "title": "\ud800"}},
}
"""What a tool may say that nothing can be made of."""
ODD_TOOLS: dict[str, dict[str, Any]] = {
    "a description that is a number": {"description": 5},
    "half a character in the description": {"description": "\ud83d broken"},
    "a title that is a list": {"title": []},
    "annotations that are a word": {"annotations": "safe"},
    "hints that are words": {"annotations": {"readOnlyHint": "yes", "destructiveHint": 3, "title": 4}},
    "icons that are a number": {"icons": 3},
    "_meta that is a list": {"_meta": []},
    "execution that is a word": {"execution": "later"},
    "a schema for its output that is a word": {"outputSchema": "any"},
}
"""What a tool may say wrongly and be offered all the same, with its schema."""
UNREADABLE: dict[str, dict[str, Any]] = {
    "a property that is a number": {"properties": {"a": 5}},
    "a type that is not known": {"properties": {"a": {"type": "strin"}}},
    "required that is a word": {"required": "a"},
    "a reference to nothing": {"properties": {"a": {"$ref": "#/$defs/none"}}},
    "a pattern that looks ahead": {"properties": {"a": {"type": "string", "pattern": "^(?!x)"}}},
}
"""Schemas that cannot be read."""


@asynccontextmanager
async def listing(tools: list[dict[str, Any]], **more: Any) -> AsyncIterator[McpTools]:
    """A server whose list has these tools; over stdio, where a message is any JSON."""
    program = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    told = {'tools/list': {'tools': json.loads(sys.argv[1]), 'nextCursor': 5}}\n"
        "    told['tools/call'] = {'content': [{'type': 'text', 'text': 'called'}]}\n"
        "    info = {'name': 'odd', 'version': '1'}\n"
        "    told['initialize'] = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}, 'serverInfo': info}\n"
        "    if 'id' in asked:\n"
        "        answer = {'jsonrpc': '2.0', 'id': asked['id'], 'result': told[asked['method']]}\n"
        "        print(json.dumps(answer), flush=True)\n"
    )
    command = {"command": sys.executable, "args": ["-c", program, json.dumps(tools)]}
    server = {"name": "odd", "protocol": "stdio", "generation": "legacy", **command}
    async with McpTools.from_config({"servers": [server], **more}) as found:
        yield found


async def test_whatever_one_tool_says_of_itself_the_others_are_offered(caplog: pytest.LogCaptureFixture) -> None:
    good = {"name": "good", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    wrong_ones = [{"name": f"w{at}", **TOOL_SCHEMA, **told} for at, told in enumerate(WRONG_TOOLS.values())]
    odd_ones = [{"name": f"o{at}", **TOOL_SCHEMA, **told} for at, told in enumerate(ODD_TOOLS.values())]
    unread = [
        {"name": f"u{at}", "inputSchema": {"type": "object", **told}} for at, told in enumerate(UNREADABLE.values())
    ]
    async with listing([*wrong_ones, *odd_ones, *unread, good, {**good, "description": "again"}, 7]) as tools:
        inventory = await tools.list("odd")
        offered = {tool.tool: tool for tool in inventory.tools}
        assert set(offered) == {"good", *(tool["name"] for tool in (*odd_ones, *unread))}
        assert set(inventory.unconstrained) == {tool["name"] for tool in unread}
        assert set(inventory.left_out) == {"(no name)", "good", "n" * 128, "a?", "w4", "w5", "w6", "w7", "w8", "w9"}
        for tool in offered.values():
            json.dumps(attrs.asdict(tool), ensure_ascii=False).encode()
            assert fault_of_schema(tool.schema) is None
        assert (await tools.call("odd.good", {"a": 1})).text == "called"
        assert (await tools.call("odd.u0", {"a": 1})).text == "called"
        await tools.list("odd")
    lines = [record.getMessage() for record in caplog.records if "lists tools" in record.getMessage()]
    assert len(lines) == 1
    assert "its patterns cannot be read" in lines[0]


@pytest.mark.parametrize("more", [{}, {"$schema": "http://nowhere.example/draft"}])
async def test_a_schema_of_an_older_draft_or_one_that_is_not_known_is_offered_whole(more: dict[str, Any]) -> None:
    older = {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}, **more}
    async with listing([{"name": "old", "inputSchema": older}]) as tools:
        inventory = await tools.list("odd")
    assert inventory.tools[0].schema["properties"] == older["properties"]
    assert not inventory.unconstrained


@pytest.mark.parametrize("what", ["resources", "templates", "prompts"])
async def test_an_entry_that_is_none_is_left_out_of_a_list(what: str) -> None:
    def page(cursor: str | None, asked: int) -> dict[str, Any]:
        broken = [{**entry(what, "b"), "name": 4}, {}, {**entry(what, "c"), "description": []}]
        return {LISTS[what][0]: [*broken, entry(what, "good")]}

    async with paged(what, page) as (session, _):
        assert await session.listed(what) == [entry(what, "good")]
