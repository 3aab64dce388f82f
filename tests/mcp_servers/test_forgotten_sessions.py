"""Sessions that their server has forgotten, and servers that are started anew under calls, over every transport."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args, get_type_hints

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from starlette.requests import Request
from starlette.responses import Response
from tests.mcp_servers.peers import Faulty, eventually

from smg_mcp import McpTools, McpUnavailable
from smg_mcp.records.settings import IN_PROGRAM, McpServer

pytestmark = pytest.mark.anyio


class Numbers:
    """What the tools of one server process know: how often it was asked, and whether calls that wait may go on."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_go = asyncio.Event()

    def server(self) -> MCPServer:
        server = MCPServer("numbers")

        @server.tool()
        async def once() -> str:
            """What may not be done twice."""
            return await self.held()

        @server.tool(annotations=ToolAnnotations(idempotentHint=True))
        async def again() -> str:
            """What may be done twice."""
            return await self.held()

        return server

    async def held(self) -> str:
        self.begun += 1
        await self.let_go.wait()
        return "done"

    def app(self, protocol: str, json_response: bool = False) -> Any:
        if protocol == "sse":
            return self.server().sse_app()
        return self.server().streamable_http_app(json_response=json_response)


class Served:
    """An ASGI app on a port of the loopback that can be cut off as a process that is killed is."""

    def __init__(self, app: Any, port: int = 0) -> None:
        config = uvicorn.Config(app, port=port, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._task: asyncio.Future[None] | None = None

    async def start(self) -> int:
        self._task = asyncio.ensure_future(self._server.serve())
        await eventually(lambda: self._server.started)
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    async def kill(self) -> None:
        if self._task is None:
            return
        for listener in self._server.servers:
            listener.close()
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        self._server.should_exit = self._server.force_exit = True
        await self._task
        self._task = None


def settings(port: int, protocol: str, generation: str = "legacy", **more: Any) -> dict[str, Any]:
    path = "/sse" if protocol == "sse" else "/mcp"
    server = {"name": "numbers", "protocol": protocol, "url": f"http://127.0.0.1:{port}{path}"}
    return {"servers": [{**server, "generation": generation, **more}], "pool": {"backoff": 0.01}}


# ---------------------------------------------------------------------------------------------------- what is no session any more


def rpc_error(rpc_id: Any, text: str, code: int = -32001) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "error": {"code": code, "message": text}}).encode()


Body = Callable[[Any], bytes]
FORGOTTEN: dict[str, tuple[int, str, Body]] = {
    "404 with nothing": (404, "", lambda _: b""),
    "404 with a page": (404, "text/html", lambda _: b"<h1>Not here</h1>"),
    "404 without an id": (404, "application/json", lambda _: rpc_error(None, "Session not found")),
    "404 with another id": (404, "application/json", lambda _: rpc_error("server-error", "gone")),
    "404 with our id": (404, "application/json", lambda rpc_id: rpc_error(rpc_id, "Unknown")),
    "404 with what is no JSON": (404, "application/json", lambda _: b"{"),
    "404 with too much": (404, "application/json", lambda _: b"x" * 2_000_000),
    "404 with events": (404, "text/event-stream", lambda _: b"data: {}\n\n"),
    "400 with words": (400, "text/plain", lambda _: b"Invalid or expired Mcp-Session-Id"),
    "400 without an id": (400, "application/json", lambda _: rpc_error(None, "No valid session ID provided", -32000)),
    "400 with another id": (400, "application/json", lambda _: rpc_error("server-error", "Missing session ID")),
    "400 of a server that was restarted": (
        400,
        "application/json",
        lambda _: rpc_error(None, "Bad Request: Server not initialized", -32000),
    ),
    "410 with nothing": (410, "", lambda _: b""),
    "410 with words": (410, "text/plain", lambda _: b"the session has ended"),
}


class Forgetting:
    """The server of the package, which forgets every session that it had when it is told so."""

    def __init__(self, protocol: str) -> None:
        numbers = Numbers()
        numbers.let_go.set()
        self._app = numbers.app(protocol)
        self._sse = protocol == "sse"
        self._known: set[str] = set()
        self._forgotten: set[str] = set()
        self.answer: tuple[int, str, Body] = FORGOTTEN["404 with nothing"]
        self.methods: list[str] = []
        self.forget_all = False

    def forget(self) -> None:
        self._forgotten |= self._known

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        message = json.loads(body)
        self.methods.append(message.get("method"))
        session = request.query_params.get("session_id") if self._sse else request.headers.get("mcp-session-id")
        if session in self._forgotten or (self.forget_all and session is not None):
            status, kind, content = self.answer
            headers = {"content-type": kind} if kind else {}
            await Response(content(message.get("id")), status, headers)(scope, receive, send)
            return
        if session is not None:
            self._known.add(session)
        parts = [{"type": "http.request", "body": body}]

        async def read() -> Any:
            return parts.pop() if parts else await receive()

        await self._app(scope, read, send)


@asynccontextmanager
async def forgetting(protocol: str, **limits: Any) -> AsyncIterator[tuple[Forgetting, McpTools]]:
    server = Forgetting(protocol)
    served = Served(server)
    port = await served.start()
    try:
        async with McpTools.from_config({**settings(port, protocol), "limits": limits}) as tools:
            yield server, tools
    finally:
        await served.kill()


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["streamable", "sse"])
async def test_a_forgotten_session_is_opened_anew_whatever_the_server_says(protocol: str) -> None:
    async with forgetting(protocol, message_bytes=1_000_000) as (server, tools):
        await tools.tools()
        for number, (words, answer) in enumerate(FORGOTTEN.items(), 1):
            server.answer = answer
            server.forget()
            assert (await tools.call("numbers.once", {})).text == "done", words
            assert server.methods.count("initialize") == 1 + number, words


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["streamable", "sse"])
async def test_calls_that_find_their_session_forgotten_at_one_time_open_one_new_one(protocol: str) -> None:
    async with forgetting(protocol) as (server, tools):
        await tools.tools()
        server.forget()
        outcomes = await asyncio.gather(*(tools.call("numbers.once", {}) for _ in range(20)))
    assert [outcome.text for outcome in outcomes] == ["done"] * 20
    assert server.methods.count("initialize") == 2


@pytest.mark.full
async def test_lists_resources_and_pings_find_a_forgotten_session_as_calls_do() -> None:
    async with forgetting("streamable") as (server, tools):
        request = tools.for_request()
        await request.inventory("numbers")
        server.forget()
        assert {tool.tool for tool in (await request.inventory("numbers")).tools} == {"once", "again"}
        server.forget()
        async with tools.for_request()._reachable["numbers"].session() as session:
            assert not await session.ping()
        assert (await tools.call("numbers.once", {})).text == "done"


async def test_a_server_that_forgets_every_session_at_once_is_asked_twice_and_said_to_be_so() -> None:
    async with forgetting("streamable") as (server, tools):
        await tools.tools()
        server.methods.clear()
        server.forget_all = True
        with pytest.raises(McpUnavailable, match="the server has forgotten the session") as caught:
            await tools.call("numbers.once", {})
        assert not caught.value.may_have_run
        assert server.methods.count("tools/call") <= 2


@pytest.mark.full
@pytest.mark.parametrize(
    ("status", "code", "text"),
    [(400, -32602, "there is no session named 'x'"), (400, -32000, "too many items"), (410, -32601, "no session/new")],
)
async def test_a_refusal_that_is_not_of_the_session_keeps_it(status: int, code: int, text: str) -> None:
    async with forgetting("streamable") as (server, tools):
        await tools.tools()
        server.answer = (status, "application/json", lambda rpc_id: rpc_error(rpc_id, text, code))
        server.forget()
        outcome = await tools.call("numbers.once", {})
        assert outcome.is_error
        assert outcome.text == text
    assert server.methods.count("initialize") == 1


@pytest.mark.full
@pytest.mark.parametrize("code", [-32000, -32001, -32700])
async def test_a_server_s_error_with_a_code_that_the_package_uses_itself_is_the_server_s(code: int) -> None:
    async with forgetting("streamable") as (server, tools):
        await tools.tools()
        server.answer = (200, "application/json", lambda rpc_id: rpc_error(rpc_id, "the disk is full", code))
        server.forget()
        for tool in ("once", "again"):
            assert (await tools.call(f"numbers.{tool}", {})).text == "the disk is full"
    assert server.methods.count("tools/call") == 2
    assert server.methods.count("initialize") == 1


async def test_an_error_of_http_with_another_id_is_told_by_its_status() -> None:
    async with forgetting("streamable") as (server, tools):
        await tools.tools()
        server.answer = (400, "application/json", lambda _: rpc_error("server-error", "Bad Request: no such version"))
        server.forget()
        with pytest.raises(McpUnavailable, match="the server answered 400"):
            await tools.call("numbers.once", {})
    assert server.methods.count("initialize") == 1


# ------------------------------------------------------------------------------------------------- servers that are started anew

KINDS = {
    "streamable": {"protocol": "streamable"},
    "streamable, whole answers": {"protocol": "streamable", "json_response": True},
    "streamable, modern": {"protocol": "streamable", "generation": "modern"},
    "sse": {"protocol": "sse"},
}


def until(started: asyncio.Event) -> Callable[[float], Awaitable[None]]:
    """A sleep that lasts until a server is there, where it is a pause between two tries to reach it."""

    async def sleep(seconds: float) -> None:
        await (started if seconds < 1 else asyncio.Event()).wait()

    return sleep


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("kind", list(KINDS))
async def test_a_server_started_anew_under_calls_runs_again_what_may_run_twice_and_nothing_else(kind: str) -> None:
    told: dict[str, Any] = {"json_response": False, "generation": "legacy", **KINDS[kind]}
    first, second, started = Numbers(), Numbers(), asyncio.Event()
    second.let_go.set()
    old = Served(first.app(told["protocol"], told["json_response"]))
    port = await old.start()
    new = Served(second.app(told["protocol"], told["json_response"]), port)
    try:
        configured = settings(port, told["protocol"], told["generation"])
        async with McpTools.from_config(configured, sleep=until(started)) as tools:
            calls = [asyncio.ensure_future(tools.call(f"numbers.{name}", {})) for name in ("once", "again", "again")]
            await eventually(lambda: first.begun == 3)
            await old.kill()
            await new.start()
            started.set()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(results[0], McpUnavailable)
            assert results[0].may_have_run
            assert [getattr(each, "text", each) for each in results[1:]] == ["done", "done"]
            assert (await tools.call("numbers.once", {})).text == "done"
        assert second.begun == 3
    finally:
        await old.kill()
        await new.kill()


async def test_a_child_that_ends_under_calls_runs_again_what_may_run_twice_and_nothing_else(faulty: Faulty) -> None:
    async with faulty.tools({"tools": {"hang": {"timeout_s": 30}}}) as tools:
        once = asyncio.ensure_future(tools.call("bad.hang", {}))
        await eventually(lambda: '"hang"' in faulty.sent)
        assert (await tools.call("bad.retried", {})).text == "at the second try"
        with pytest.raises(McpUnavailable) as caught:
            await once
        assert caught.value.may_have_run
    assert len(faulty.pids) == 2


def test_a_server_is_started_anew_over_every_transport() -> None:
    known = {told["protocol"] for told in KINDS.values()} | {"stdio", "http"}  # http has no sessions
    assert set(get_args(get_type_hints(McpServer)["protocol"])) - set(IN_PROGRAM) == known
