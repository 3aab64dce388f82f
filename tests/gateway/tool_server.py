"""A real server of tools for the tests of the tool loop: the official package over Streamable HTTP, in this process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from tests.gateway.conftest import eventually

RED_DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)
"""A PNG of one red pixel."""


@attrs.define(eq=False)
class ToolServer:
    """The server and what its tools have seen: `ran` has the names of calls that ran, in order; `left` those that were
    cancelled; a call of `wait` returns when `go` is set. `headers` has those of each request."""

    url: str
    ran: list[str] = attrs.field(factory=list)
    left: list[str] = attrs.field(factory=list)
    go: asyncio.Event = attrs.field(factory=asyncio.Event)
    headers: list[dict[str, str]] = attrs.field(factory=list)
    at_once: int = 0
    most_at_once: int = 0
    server: Any = None


def _tools(state: ToolServer) -> MCPServer:
    server = MCPServer("notes", log_level="ERROR")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def add(a: int, b: int) -> str:
        """Adds two numbers."""
        state.ran.append(f"add {a} {b}")
        return f"SUM-{a + b}"

    @server.tool()
    async def write(note: str) -> str:
        """Keeps a note."""
        state.ran.append(f"write {note}")
        return f"KEPT-{note}"

    @server.tool()
    async def fail(why: str) -> str:
        """Fails."""
        raise ToolError(f"BROKEN-{why}")

    @server.tool()
    async def look() -> Image:
        """A picture."""
        return Image(data=RED_DOT, format="png")

    @server.tool()
    async def wait(name: str, context: Context) -> str:
        """Waits, and tells how far it is."""
        state.at_once += 1
        state.most_at_once = max(state.most_at_once, state.at_once)
        try:
            await context.report_progress(1, 2, "half")
            await state.go.wait()
        except asyncio.CancelledError:
            state.left.append(name)
            raise
        finally:
            state.at_once -= 1
        state.ran.append(f"wait {name}")
        return f"WAITED-{name}"

    return server


@asynccontextmanager
async def tool_server(more: Callable[[MCPServer], None] | None = None) -> AsyncIterator[ToolServer]:
    """A server that runs while the block does; `more` adds to what it has."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    state = ToolServer(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
    state.server = _tools(state)
    if more is not None:
        more(state.server)
    tools = state.server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            state.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await tools(scope, receive, send)

    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await eventually(lambda: server.started or running.done())
    try:
        yield state
    finally:
        state.go.set()
        server.should_exit = True
        await running
