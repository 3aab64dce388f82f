"""One open connection to one server: the mcp package's client over our transport (edge).

Above: `sessions.session`, whose owner task enters and leaves it. Below: `stdio`, `wire`, `plain_http`, `oauth`, `streams`; mcp
itself. Everything that the package raises becomes one of our errors here.
"""

import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import attrs
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from smg_mcp.records.base import AskUser, OnProgress, SampleModel, ToolProgress
from smg_mcp.records.errors import McpBadAnswer, McpConfigError, McpError, McpForbidden, McpRefused, McpUnavailable
from smg_mcp.records.settings import McpServer, McpSettings
from smg_mcp.transport.egress import McpUrlRules
from smg_mcp.transport.oauth import Authorize, tokens_for
from smg_mcp.transport.plain_http import plain_streams, sse_streams
from smg_mcp.transport.screening import Screen
from smg_mcp.transport.stdio import stdio_streams
from smg_mcp.transport.streams import ScreenedStreams
from smg_mcp.transport.wire import GuardedTransport

__all__ = ["ConnectionLost", "McpConnection", "Peers", "ServerRefusedCall", "open_connection"]


class _Quiet(logging.Filter):
    """The package writes session ids, messages and URLs to its log; of that, only that something went wrong is let through."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info, record.exc_text = None, None
        if record.levelno < logging.WARNING:
            return False
        record.msg, record.args = f"the mcp package: {str(record.msg).partition(':')[0].partition('{')[0][:80]}", ()
        return True


_TALKERS = (
    *("client", "httpx2", "mcp.client.auth.oauth2", "mcp.client.client", "mcp.client.streamable_http"),
    *("mcp.shared.dispatcher", "mcp.shared.jsonrpc_dispatcher"),
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)
_quiet = _Quiet()
for _name in _TALKERS:
    logging.getLogger(_name).addFilter(_quiet)


_KEYS = {"tools": "name", "resources": "uri", "templates": "uriTemplate", "prompts": "name"}
"""By what is listed: the field that no two of a list have alike."""


_CHANGES: Mapping[type, str] = {
    ToolsListChanged: "tools",
    ResourcesListChanged: "resources",
    PromptsListChanged: "prompts",
}


class ConnectionLost(McpUnavailable):
    """The connection ended. `never_sent` says that the server cannot have seen the request."""

    def __init__(self, message: str, *, never_sent: bool = False) -> None:
        super().__init__(message, may_have_run=not never_sent)
        self.never_sent = never_sent


class ServerRefusedCall(McpError):
    """The server answered a request with a JSON-RPC error: for a call, the tool's failure."""

    code = "mcp_error_answer"

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


@attrs.frozen
class Peers:
    """Who answers what servers ask back, for which tenant; and who shows a person where to authorize this program."""

    tenant: str = ""
    ask_user: AskUser | None = None
    sample: SampleModel | None = None
    authorize: Authorize | None = None


class McpConnection:
    """An open connection. `streams.ended` is set when it has ended. One that is `retired` takes no new requests, and ends when
    none is `under_way` over it any more."""

    def __init__(self, server: McpServer, client: Client, streams: ScreenedStreams, mark: str) -> None:
        self.server, self.streams, self._client, self._mark = server, streams, client, mark
        self.under_way = 0
        self.retired = False

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Have a request under way for as long as the block runs."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            if self.retired and not self.under_way:
                self.streams.end()

    @property
    def modern(self) -> bool:
        """Whether the server speaks the protocol's generation without a handshake."""
        return self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def facts(self) -> tuple[str, str, str]:
        """The server's own name, its instructions, and the protocol's version."""
        info = self._client.server_info
        return (info.title or info.name if info else "", self._client.instructions or "", self._client.protocol_version)

    async def call(self, tool: str, arguments: Mapping[str, Any], progress: OnProgress | None) -> dict[str, Any]:
        """The result of a call as JSON. Raises our errors; ServerRefusedCall where the server answers with one of JSON-RPC."""
        report: Any = None
        if progress is not None:

            async def report(done: float, total: float | None, message: str | None) -> None:
                progress(ToolProgress(done, total, message))

        with self._errors():
            result = await self._client.call_tool(tool, dict(arguments), progress_callback=report)
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def listed(self, what: str, most: int, pages: int) -> list[dict[str, Any]]:
        """All of "tools", "resources", "templates" or "prompts", page by page, at most `most`, each once; none where the server
        has none. The walk ends at a cursor that was seen before."""
        capabilities = self._client.server_capabilities
        if getattr(capabilities, "resources" if what == "templates" else what) is None and what != "tools":
            return []
        ask = getattr(self._client, {"templates": "list_resource_templates"}.get(what, f"list_{what}"))
        field = {"templates": "resource_templates"}.get(what, what)
        key = _KEYS[what]
        found: dict[Any, dict[str, Any]] = {}
        cursor: str | None = None
        seen: set[str | None] = {None}
        for _ in range(pages):
            with self._errors():
                page = await ask(cursor=cursor)
            for each in getattr(page, field):
                listed = each.model_dump(by_alias=True, mode="json", exclude_none=True)
                found.setdefault(listed[key], listed)
            cursor = page.next_cursor
            if cursor in seen or len(found) >= most:
                break
            seen.add(cursor)
        return list(found.values())[:most]

    async def read(self, uri: str) -> list[dict[str, Any]]:
        """The contents of a resource."""
        with self._errors():
            result = await self._client.read_resource(uri)
            return [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in result.contents]

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """A prompt, filled in."""
        with self._errors():
            result = await self._client.get_prompt(name, dict(arguments))
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def ping(self) -> None:
        """Whether the server answers; raises as a call does."""
        with self._errors():
            if self.modern:
                await self._client.session.send_discover(self._client.protocol_version)
            else:
                await self._client.session.send_ping()

    async def follow_changes(self) -> None:
        """Wait for news of changed lists, where the server sends them on request only (modern servers)."""
        offered = self._client.server_capabilities
        tells = {
            kind: capability is not None and bool(capability.list_changed)
            for kind, capability in (
                ("tools", offered.tools),
                ("resources", offered.resources),
                ("prompts", offered.prompts),
            )
        }
        if not self.modern or not any(tells.values()):
            return
        screen = self.streams.screen
        try:
            async with self._client.listen(
                tools_list_changed=tells["tools"],
                resources_list_changed=tells["resources"],
                prompts_list_changed=tells["prompts"],
            ) as changes:
                if tells["tools"]:
                    screen.heard_of("tools")  # what changed before the server listened was not told
                async for event in changes:
                    if (kind := _CHANGES.get(type(event))) is not None:
                        screen.heard_of(kind)
        except (MCPError, RuntimeError, TimeoutError):
            return  # then the lists' time to live is what refreshes them

    @contextlib.contextmanager
    def _errors(self) -> Any:
        try:
            yield
        except MCPError as error:
            raise self._ours(error) from None
        except ValidationError:
            raise McpBadAnswer("the server's result is not what the protocol says") from None
        except (RuntimeError, KeyError) as error:
            if self.streams.breach is not None or self.streams.ended.is_set():
                raise self._ended() from None
            raise McpBadAnswer(f"the server's result cannot be used ({type(error).__name__})") from None

    def fault_of_start(self, error: BaseException) -> McpError:
        """Our error for one that the package raised while it connected."""
        if isinstance(error, MCPError):
            return self._ours(error)
        if self.streams.breach is None and self.streams.ended.is_set():
            return ConnectionLost("the server ended before it could be asked anything", never_sent=True)
        return McpBadAnswer(self.streams.breach or f"the server does not speak MCP ({type(error).__name__})")

    def _ended(self) -> McpError:
        if self.streams.breach is not None:
            return McpBadAnswer(self.streams.breach)
        return ConnectionLost("the connection to the server was lost")

    def _ours(self, error: MCPError) -> McpError:
        data = error.error.data
        fault = data.get(self._mark) if isinstance(data, dict) else None
        if isinstance(fault, dict):
            return _of_fault(fault)
        code, server_words = error.error.code, str(error.error.message)
        # Servers use these codes as well: only the package's own words, or an end that was seen, say what it means by them.
        if code == types.CONNECTION_CLOSED and (self.streams.ended.is_set() or server_words.startswith("SSE stream")):
            return self._ended()
        if code == types.REQUEST_TIMEOUT and server_words.endswith(" timed out"):
            return ConnectionLost("the server did not answer")
        if code == types.PARSE_ERROR and server_words.startswith("Failed to parse"):
            return McpBadAnswer("the server's answer is no JSON-RPC message")
        return ServerRefusedCall(server_words[:2000], code)


_FOREIGN = (MCPError, ValidationError, RuntimeError, KeyError)
"""What the package raises where a server does not speak the protocol."""


def _first_foreign(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """The first of these in a group, however deep: the package's task groups wrap what is raised in them."""
    for error in group.exceptions:
        found = _first_foreign(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, _FOREIGN):
            return found
    return None


def _of_fault(fault: Mapping[str, Any]) -> McpError:
    kind, message, status = fault["kind"], str(fault["message"]), int(fault["status"])
    if kind == "forbidden":
        return McpForbidden(message)
    if kind in ("unreachable", "forgotten"):
        return ConnectionLost(message, never_sent=True)
    if kind == "lost":
        return ConnectionLost(message)
    if kind == "unauthorized" or status in (401, 403):
        return McpRefused(message, status or 401, fault.get("challenge"))
    if kind == "status":
        # An answer to one request: the connection, and what else is asked over it, goes on. A server that says 404, 429 or 503
        # took nothing on.
        return McpUnavailable(message, may_have_run=status not in (404, 429, 503))
    return McpBadAnswer(message)


@contextlib.asynccontextmanager
async def open_connection(
    server: McpServer,
    settings: McpSettings,
    rules: McpUrlRules | None,
    headers: Mapping[str, str],
    peers: Peers,
    clock: Callable[[], float],
    wall: Callable[[], float] = time.time,
) -> AsyncIterator[McpConnection]:
    """Connect, agree on the protocol's version, give the connection, and close it. To be entered and left by one task.
    `wall` gives seconds since the epoch, by which tokens expire.

    Raises our errors only."""
    mark = f"smg-{secrets.token_hex(16)}"
    screen = Screen(settings.limits, settings.inventory)
    async with contextlib.AsyncExitStack() as stack:
        read, write = await stack.enter_async_context(
            _streams(server, settings, rules, headers, peers, clock, wall, mark)
        )
        streams = ScreenedStreams(read, write, screen, clock)
        client = _client(server, settings, streams, peers)
        connection = McpConnection(server, client, streams, mark)
        try:
            await stack.enter_async_context(client)
        except _FOREIGN as error:
            raise connection.fault_of_start(error) from None
        except BaseExceptionGroup as group:
            found = _first_foreign(group)
            if found is None:
                raise
            raise connection.fault_of_start(found) from None
        if server.generation == "modern" and not connection.modern:
            raise McpBadAnswer(f"the server speaks the protocol of {client.protocol_version} only")
        yield connection


@contextlib.asynccontextmanager
async def _streams(
    server: McpServer,
    settings: McpSettings,
    rules: McpUrlRules | None,
    headers: Mapping[str, str],
    peers: Peers,
    clock: Callable[[], float],
    wall: Callable[[], float],
    mark: str,
) -> AsyncIterator[tuple[Any, Any]]:
    if server.protocol == "stdio":
        async with stdio_streams(server, settings.limits) as pair:
            yield pair
        return
    if server.url is None or rules is None:
        raise McpConfigError(f"the server {server.name} has no url")
    transport = GuardedTransport(
        rules,
        settings.limits,
        mark=mark,
        clock=clock,
        egress=settings.egress,
        connect_s=settings.pool.connect_timeout,
        proxy=server.proxy or settings.proxy,
        # A caller's own token is sent as it is: the operator's authorization is not for this caller.
        tokens=None if "authorization" in headers else tokens_for(server, peers.authorize, wall, settings.pool.backoff),
        session_in_url=server.protocol == "sse",
    )
    longest = settings.limits.message_bytes
    async with httpx2.AsyncClient(transport=transport, headers=dict(headers), trust_env=False) as client:
        if server.protocol == "streamable":
            opened: Any = streamable_http_client(server.url, http_client=client, max_sse_event_size=longest)
        elif server.protocol == "sse":
            opened = sse_streams(client, server.url, settings.pool.connect_timeout, longest)
        else:
            opened = plain_streams(client, server.url)
        async with opened as pair:
            yield pair


class _Given:
    """Streams that are open already, as the package's client takes a transport."""

    def __init__(self, streams: ScreenedStreams) -> None:
        self._streams = streams

    async def __aenter__(self) -> tuple[Any, Any]:
        return self._streams.read, self._streams.write

    async def __aexit__(self, *_: object) -> None:
        return None


def _client(server: McpServer, settings: McpSettings, streams: ScreenedStreams, peers: Peers) -> Client:
    async def elicited(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        if server.elicitation != "ask" or peers.ask_user is None:
            return types.ElicitResult(action="cancel" if server.elicitation == "cancel" else "decline")
        schema = getattr(params, "requested_schema", None) or {}
        answer = await peers.ask_user(server.name, peers.tenant, params.message, schema)
        if answer is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=dict(answer))

    async def sampled(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        refusal = types.ErrorData(code=types.INVALID_REQUEST, message="this client lets no model answer servers")
        if server.sampling != "ask" or peers.sample is None:
            return refusal
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        answer = await peers.sample(server.name, peers.tenant, asked)
        if answer is None:
            return refusal
        text, model = answer
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text=text), model=model
        )

    async def rooted(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in server.roots])  # type: ignore[arg-type]

    return Client(
        _Given(streams),
        mode="legacy" if server.protocol == "sse" or server.generation == "legacy" else "auto",
        client_info=types.Implementation(name="smg", version="1"),
        elicitation_callback=elicited,
        sampling_callback=sampled if server.sampling == "ask" and peers.sample is not None else None,
        list_roots_callback=rooted if server.roots else None,
        input_required_max_rounds=settings.limits.input_rounds,
        cache=None,
    )
