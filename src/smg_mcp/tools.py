"""MCP servers as tools: the package's front (edge).

    async with McpTools.from_config("mcp.yaml") as tools:
        outcome = await tools.call("time.get_current_time", {"timezone": "UTC"})

Above: applications, a gateway, the command line. Below: `request_tools`, `sessions.pool`, `transport.connection`,
`config.mapping`. Knows no LLM API.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from smg_config_files.text import TextRefused, read_yaml
from smg_mcp.built_in import BuiltInTool, built_in_tools
from smg_mcp.catalogue.catalogue import CatalogueCache
from smg_mcp.catalogue.inventory import server_serves
from smg_mcp.config.mapping import settings_of
from smg_mcp.functions.loading import checked_functions, functions_of
from smg_mcp.functions.session import Functions, FunctionSession
from smg_mcp.functions.signature import PythonTool, ReadFunction
from smg_mcp.policy.approval import Approval
from smg_mcp.policy.audit import AuditEntry, AuditTrail
from smg_mcp.records.base import (
    AskUser,
    CallFacts,
    McpTool,
    OnProgress,
    RequestServer,
    SampleModel,
    ServerInventory,
    ToolOutcome,
)
from smg_mcp.records.errors import McpBadArguments, McpConfigError, McpError, McpUnknownTool
from smg_mcp.records.settings import IN_PROGRAM, McpServer, McpSettings, WebSettings
from smg_mcp.request_tools import Reachable, RequestTools
from smg_mcp.sessions.pool import SessionKey, SessionPool, digest_of_credentials
from smg_mcp.sessions.times import SessionTimes
from smg_mcp.transport.egress import McpUrlRules, rules_for_request, rules_for_server

if TYPE_CHECKING:
    from smg_mcp.sessions.session import Session
    from smg_mcp.transport.oauth import Authorize

__all__ = ["FUNCTIONS", "McpTools"]

FUNCTIONS = "functions"
"""The server whose tools are the functions that a program gives."""

_OWN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("last-event-id", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that the transport sets itself; nobody else may."""


class McpTools:
    """The tools of all servers of a configuration. Sessions open when they are first needed and are shared only by calls of the
    same tenant with the same credentials.

    `ask_user` and `sample` answer what servers ask back, where a server's settings let them; `authorize` takes a person to a
    server's authorization page; `audit` is called with every decision about a call. `functions` are Python functions that are
    tools of the server `functions`, beside those that the configuration names. The other arguments are for tests. Raises
    McpConfigError for a function that can be no tool."""

    def __init__(
        self,
        settings: McpSettings,
        *,
        functions: Sequence[Callable[..., Any] | PythonTool] = (),
        ask_user: AskUser | None = None,
        sample: SampleModel | None = None,
        authorize: "Authorize | None" = None,
        audit: Callable[[AuditEntry], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self.settings = settings = _with_functions(settings) if functions else settings
        self.audit = AuditTrail(settings.limits.audit_entries, audit)
        self.pool = SessionPool(settings.pool, clock)
        self._ask_user, self._sample, self._authorize = ask_user, sample, authorize
        self._times = SessionTimes(clock, sleep, random or Random())
        self._wall = wall
        self._approval = Approval(settings.policy)
        self._catalogues = CatalogueCache(settings.inventory.catalogues)
        self._servers = {server.name: server for server in settings.servers}
        self._rules = {
            server.name: rules_for_server(server, settings.egress)
            for server in settings.servers
            if server.protocol not in IN_PROGRAM and server.protocol != "stdio"
        }
        self._functions = {
            server.name: Functions(_functions_of(server, functions), settings.limits)
            for server in settings.servers
            if server.protocol in IN_PROGRAM
        }
        self._built_ins = built_in_tools(settings.servers)
        self._request_rules = rules_for_request(settings.egress)
        self._sweeping: asyncio.Task[None] | None = None

    @classmethod
    def from_config(cls, source: "str | os.PathLike[str] | Mapping[str, Any]", **others: Any) -> "McpTools":
        """From the path of a YAML (or JSON) file, or from a mapping. `others` are arguments of the class.

        Raises McpConfigError, whose text begins with the place of what is wrong."""
        mapping: Any = source
        if not isinstance(source, Mapping):
            mapping = _read(Path(source))
        return cls(settings_of(mapping, os.environ), **others)

    async def __aenter__(self) -> "McpTools":
        """Connects the servers that are required, whose errors are raised and name the server."""
        try:
            for server in self.settings.servers:
                if server.required:
                    await self._require(server)
        except BaseException:
            await self.pool.close()
            raise
        self._sweeping = asyncio.ensure_future(self._sweep())
        return self

    async def _require(self, server: McpServer) -> None:
        try:
            await self.list(server.name, tenant=server.tenants[0] if server.tenants else "")
        except McpError as error:
            error.args = (f"the server {server.name}, which is required: {error}",)
            raise

    async def __aexit__(self, *_: object) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self.pool.close()

    async def _sweep(self) -> None:
        while True:
            await self._times.sleep(self.settings.pool.sweep_interval)
            await self.pool.sweep()

    # -------------------------------------------------------------------------------------------------- what it is asked

    def for_request(
        self,
        *,
        tenant: str = "",
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        servers: Sequence[str] | None = None,
        extra: Sequence[RequestServer] = (),
        request_id: str = "",
        marks: Mapping[str, str] | None = None,
    ) -> RequestTools:
        """The tools as one request of `tenant` sees them.

        `credentials` are the caller's own bearer tokens by server; `headers` those of the request, of which each server is sent
        the ones in its `forward_headers`. `servers` names those to use (None: all that the tenant may use); `extra` are servers
        that the request brings, which must be where the egress settings allow; `marks` are headers of the program's own, which
        every server is sent. Raises McpUnknownTool and McpForbidden."""
        marks = marks or {}
        names = list(self._servers) if servers is None else list(servers)
        found = []
        for name in names:
            server = self._servers.get(name)
            if server is None or not server_serves(server, tenant):
                if servers is None:
                    continue
                raise McpUnknownTool(f"there is no server {name[:80]!r}")
            if server.protocol in IN_PROGRAM:
                found.append(self._functions_for(server, tenant, request_id))
                continue
            sent = _headers_for(server, (credentials or {}).get(name), headers or {}, marks)
            found.append(self._reachable(server, name, name, tenant, sent, self._rules.get(name)))
        for brought in extra:
            found.append(self._brought(brought, tenant, {each.server.name for each in found}, marks))
        return RequestTools(
            found,
            tenant=tenant,
            request_id=request_id,
            approval=self._approval,
            audit=self.audit,
            limits=self.settings.limits,
            catalogues=self._catalogues,
            wall=self._wall,
        )

    async def tools(
        self,
        *,
        tenant: str = "",
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Sequence[McpTool]:
        """All tools that a tenant may see, with unique names. Raises where a server cannot be asked."""
        return await self.for_request(tenant=tenant, credentials=credentials, headers=headers).tools()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        tenant: str = "",
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        progress: OnProgress | None = None,
        approved: bool = False,
    ) -> ToolOutcome:
        """Call a tool: "server.tool", or the name under which it is offered. See `RequestTools.call`."""
        request = self.for_request(tenant=tenant, credentials=credentials, headers=headers)
        return await request.call(name, arguments, progress=progress, approved=approved)

    async def list(
        self,
        server: str,
        *,
        tenant: str = "",
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerInventory:
        """Everything that one server offers: tools, resources, prompts."""
        request = self.for_request(tenant=tenant, credentials=credentials, headers=headers, servers=[server])
        return await request.inventory(server)

    def built_ins(self, tenant: str) -> Sequence[BuiltInTool]:
        """The tools for built-in ones, of those that the tenant may call without asking anybody."""
        return [
            each
            for each in self._built_ins
            if server_serves(each.server, tenant)
            and self._approval.decide(CallFacts(each.server.name, each.tool, each.hints, tenant)).verdict == "allow"
        ]

    def model(self, server: str) -> str | None:
        """The model that answers what a server of the configuration asks back; None for none."""
        known = self._servers.get(server)
        return None if known is None else known.model

    def price(self, server: str, tool: str) -> float:
        """The price of a call of a tool of the configuration, in dollars; 0 where nothing is said."""
        known = self._servers.get(server)
        settings = None if known is None else known.tools.get(tool)
        return 0.0 if settings is None else settings.price

    def charges(self, server: str) -> bool:
        """Whether a tool of this server of the configuration has a price."""
        known = self._servers.get(server)
        return known is not None and any(each.price for each in known.tools.values())

    # ------------------------------------------------------------------------------------------------------- how it is made

    def _functions_for(self, server: McpServer, tenant: str, request_id: str) -> Reachable:
        session = FunctionSession(self._functions[server.name], tenant, request_id)
        return Reachable(server, server.name, lambda: contextlib.nullcontext(session))

    def _brought(self, brought: RequestServer, tenant: str, taken: set[str], marks: Mapping[str, str]) -> Reachable:
        if brought.label in taken:
            raise McpBadArguments(f"two servers of this request are labelled {brought.label!r}")
        target = self._request_rules.target(brought.url)
        for name, value in brought.headers.items():
            _check_header(name, value)
        server = McpServer(
            name=brought.label,
            protocol="sse" if brought.url.partition("?")[0].rstrip("/").endswith("/sse") else "streamable",
            url=brought.url,
            token=brought.authorization,
            headers=dict(brought.headers),
            allowed_tools=None if brought.allowed_tools is None else tuple(sorted(brought.allowed_tools)),
            read_only=brought.read_only,
        )
        sent = _headers_for(server, None, {}, marks)
        # The request chose the label, which may be the name of a server that the operator trusts.
        origin = f"{target.scheme}://{target.authority}"
        return self._reachable(server, f"request {brought.url}", origin, tenant, sent, self._request_rules)

    def _reachable(
        self,
        server: McpServer,
        key: str,
        known_as: str,
        tenant: str,
        headers: Mapping[str, str],
        rules: McpUrlRules | None,
    ) -> Reachable:
        from smg_mcp.sessions.session import Session
        from smg_mcp.transport.connection import Peers, open_connection  # the mcp package, which functions do not need

        session_key = SessionKey(key, tenant, digest_of_credentials(headers.items()))
        peers = Peers(tenant, self._ask_user, self._sample, self._authorize)

        def connect() -> Any:
            return open_connection(server, self.settings, rules, headers, peers, self._times.clock, self._wall)

        def make() -> Session:
            return Session(server.name, connect, self.settings, self._times, operators=known_as == server.name)

        def session() -> "AbstractAsyncContextManager[Session]":
            return self.pool.session(session_key, make)

        return Reachable(server, known_as, session)


def _with_functions(settings: McpSettings) -> McpSettings:
    """The settings with a server for the functions that a program gives, unless they have it. Raises McpConfigError where another
    server has its name."""
    server = next((each for each in settings.servers if each.name.lower() == FUNCTIONS), None)
    if server is None:
        return msgspec.structs.replace(
            settings, servers=(*settings.servers, McpServer(name=FUNCTIONS, protocol="python"))
        )
    if server.protocol != "python":
        raise McpConfigError(f"mcp.servers.{server.name}: has the name of the server of the program's own functions")
    return settings


def _functions_of(server: McpServer, given: Sequence[Callable[..., Any] | PythonTool]) -> tuple[ReadFunction, ...]:
    place = f"mcp.servers.{server.name}.functions"
    if server.protocol == "web":
        place = f"mcp.servers.{server.name}.web"
        try:
            from smg_mcp.web.tools import web_tools  # loads an HTTP client
        except ModuleNotFoundError as error:
            if error.name != "httpx":
                raise
            sentence = "this needs the package httpx, which is not installed: pip install 'smg-mcp[web]'"
            raise McpConfigError(f"{place}: {sentence}") from None
        return checked_functions(web_tools(server.web or WebSettings()), place)
    own = given if server.name.lower() == FUNCTIONS else ()
    return checked_functions([*functions_of(server.functions, place), *own], place)


def _headers_for(
    server: McpServer, token: str | None, request: Mapping[str, str], marks: Mapping[str, str]
) -> dict[str, str]:
    """The headers of a session's every request: the server's own, those forwarded from the request, the bearer token, and the
    program's marks. A child over stdio is sent none, so that its session is one for all."""
    if server.protocol == "stdio":
        marks = {}
    allowed = {name.lower() for name in server.forward_headers}
    sent = {name.lower(): value for name, value in server.headers.items()}
    sent |= {name.lower(): value for name, value in request.items() if name.lower() in allowed}
    token = token if token is not None else server.token
    if token is not None:
        sent["authorization"] = token if token.lower().startswith(("bearer ", "basic ")) else f"Bearer {token}"
    sent |= marks
    for name, value in sent.items():
        _check_header(name, value)
    return sent


def _check_header(name: str, value: str) -> None:
    low = name.lower()
    legal = low.isascii() and bool(low) and all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in low)
    if not legal or low in _OWN_HEADERS or low.startswith("mcp-"):
        raise McpBadArguments(f"the header {name[:80]!r} may not be set for an MCP server")
    if not value.isascii() or any(each < " " and each != "\t" for each in value):
        raise McpBadArguments(f"the value of the header {name[:80]!r} is not legal")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise McpConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (TextRefused, UnicodeDecodeError) as error:
        raise McpConfigError(f"{path}: is no YAML: {str(error)[:300]}") from error
    if not isinstance(found, Mapping):
        raise McpConfigError(f"{path}: is no mapping")
    return found
