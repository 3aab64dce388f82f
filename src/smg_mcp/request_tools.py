"""The tools of one request: which servers its tenant may use, with whose credentials, by which names (edge).

Above: `tools`, which makes these; a gateway's tool loop. Below: `sessions.pool`, `sessions.session`, `catalogue.inventory`,
`policy.approval`, `policy.audit`, `catalogue.search`. A call is decided on, noted and made here and nowhere else, so that no
way leads around the policy.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import attrs

from smg_mcp.catalogue.arguments import arguments_for
from smg_mcp.catalogue.catalogue import Catalogue, CatalogueCache, Listed, made_catalogue
from smg_mcp.catalogue.inventory import ListedTool
from smg_mcp.catalogue.search import FOUND
from smg_mcp.policy.approval import Approval, stricter
from smg_mcp.policy.audit import AuditEntry, AuditTrail
from smg_mcp.records.base import CallFacts, Decision, ListFaults, McpTool, OnProgress, ServerInventory, ToolOutcome
from smg_mcp.records.errors import McpBadArguments, McpDenied, McpError, McpNeedsApproval, McpUnknownTool
from smg_mcp.records.settings import McpLimits, McpServer, ToolSettings

__all__ = ["Reachable", "RequestTools", "ToolSession"]

_PLAIN = ToolSettings()
_MADE_HERE = 50
"""Tools whose catalogue is made on the event loop, within a millisecond."""


class ToolSession(Protocol):
    """What a request asks of a server: `sessions.session` speaks to one, `functions.session` runs functions here."""

    faults: ListFaults

    async def tools(self) -> Sequence[ListedTool]: ...
    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, twice: bool, timeout_s: float, progress: OnProgress | None
    ) -> ToolOutcome: ...
    async def listed(self, what: str) -> list[dict[str, Any]]: ...
    async def read(self, uri: str) -> list[dict[str, Any]]: ...
    async def prompt(self, name: str, arguments: Mapping[str, str]) -> dict[str, Any]: ...
    async def facts(self) -> tuple[str, str, str]: ...
    def news(self, what: str) -> tuple[int, int]: ...


@attrs.frozen
class Reachable:
    """A server that a request may use, and the session it uses it with. `known_as` is its name to the policy and the audit."""

    server: McpServer
    known_as: str
    session: Callable[[], AbstractAsyncContextManager[ToolSession]] = attrs.field(repr=False)


class RequestTools:
    """The tools of one request, as `McpTools.for_request` gives them. Cheap to make; the names are those of the first look at the
    servers."""

    def __init__(
        self,
        reachable: Sequence[Reachable],
        *,
        tenant: str,
        request_id: str,
        approval: Approval,
        audit: AuditTrail,
        limits: McpLimits,
        catalogues: CatalogueCache,
        wall: Callable[[], float],
    ) -> None:
        self._reachable = {each.server.name: each for each in reachable}
        self._tenant, self._request_id = tenant, request_id
        self._approval, self._audit, self._limits, self._wall = approval, audit, limits, wall
        self._catalogues = catalogues
        self._catalogue: asyncio.Future[Catalogue] | None = None

    @property
    def servers(self) -> Sequence[str]:
        """The names of the servers that this request may use."""
        return list(self._reachable)

    async def catalogue(self) -> Catalogue:
        """All tools of all servers, and which servers could not be asked. The servers are asked side by side, once."""
        if self._catalogue is None or self._catalogue.cancelled():
            self._catalogue = asyncio.ensure_future(self._looked(list(self._reachable.values())))
        return await asyncio.shield(self._catalogue)

    async def tools(self) -> Sequence[McpTool]:
        """All tools of all servers. Raises the first server's error where one could not be asked: a server that refuses the
        credentials is not a server without tools."""
        catalogue = await self.catalogue()
        for error in catalogue.failed.values():
            raise error
        return catalogue.tools

    async def search(self, query: str, limit: int = FOUND) -> Sequence[McpTool]:
        """The tools that fit a query, best first."""
        index = (await self.catalogue()).index
        if not index.built:
            await asyncio.to_thread(index.build)
        return index.search(query, limit)

    async def decide(self, name: str) -> Decision:
        """The policy's decision about a call of this tool, without making it."""
        tool, _ = await self._tool(name)
        return self.decision(tool)

    def decision(self, tool: McpTool) -> Decision:
        """The policy's decision about a call of this tool."""
        return self._approval.decide(self._facts(tool))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        progress: OnProgress | None = None,
        approved: bool = False,
        decision: Decision | None = None,
    ) -> ToolOutcome:
        """Call a tool by the name it is offered by, or by "server.tool".

        `approved` says that somebody has approved this call; `decision` is the caller's own, which can be stricter than the
        policy's and not looser. Raises McpUnknownTool, McpDenied, McpNeedsApproval, and what a session raises; a tool's own
        failure is an outcome with `is_error`."""
        if not isinstance(arguments, Mapping):
            raise McpBadArguments("the arguments are no object")
        tool, listed = await self._tool(name)
        facts = self._facts(tool)
        decided = self._approval.decide(facts)
        if decision is not None:
            decided = stricter(decided, decision)
        self._audit.note(AuditEntry(self._wall(), facts, decided, approved, self._request_id))
        if decided.verdict == "deny":
            raise McpDenied(f"{tool.qualified} may not be called: {decided.reason}")
        if decided.verdict == "ask" and not approved:
            raise McpNeedsApproval(f"{tool.qualified} needs approval: {decided.reason}")
        reachable = self._reachable[tool.server]
        settings = reachable.server.tools.get(tool.tool, _PLAIN)
        sent = arguments_for(arguments, settings.arg_mapping, listed.schema)
        async with reachable.session() as session:
            return await session.call(
                tool.tool,
                sent,
                twice=tool.hints.may_run_twice,
                timeout_s=settings.timeout_s or self._limits.call_timeout,
                progress=progress,
            )

    async def note(self, server: str, tool: str, not_made: Literal["asked", "refused", "denied"]) -> None:
        """Note what the caller has decided of a call that it does not make: called before a person is asked about it, and where
        it is refused or denied. The tool need not be there. Raises McpUnknownTool where this tenant has no such server."""
        known_as, known = self._server(server).known_as, True
        try:
            found, _ = await self._tool(tool if len(self._reachable) == 1 else f"{server}.{tool}")
            facts = self._facts(found)
        except McpError:  # no such tool, or a server that cannot be asked now: decided on all the same
            facts, known = CallFacts(known_as, tool[:160], tenant=self._tenant), False
        decided = self._approval.decide(facts)
        self._audit.note(AuditEntry(self._wall(), facts, decided, False, self._request_id, not_made, known))

    async def inventory(self, server: str) -> ServerInventory:
        """Everything that one server offers. Raises McpUnknownTool where this tenant has no such server."""
        reachable = self._server(server)
        async with reachable.session() as session:
            listed = await session.tools()
            catalogue = await self._catalogue_of([(reachable.server, listed)])
            resources, templates, prompts = [
                await session.listed(each) for each in ("resources", "templates", "prompts")
            ]
            title, instructions, protocol = await session.facts()
            faults = session.faults
            reasons = {**catalogue.left_out[server], **faults.left_out}
        return ServerInventory(
            *(server, catalogue.tools, resources, templates, prompts, title, instructions, protocol),
            left_out=reasons,
            unconstrained=faults.unconstrained,
        )

    async def listed(self, server: str, what: str) -> Sequence[Mapping[str, Any]]:
        """The "resources", "templates" or "prompts" of one server, as it describes them."""
        async with self._server(server).session() as session:
            return await session.listed(what)

    async def news(self, server: str, what: str) -> tuple[int, int]:
        """A mark that is another one once the server's "resources" or "prompts" have changed."""
        async with self._server(server).session() as session:
            await session.tools()  # it is connected then, and hears of changes
            return session.news(what)

    async def read(self, server: str, uri: str) -> Sequence[Mapping[str, Any]]:
        """The contents of a server's resource."""
        async with self._server(server).session() as session:
            return await session.read(uri)

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        """A server's prompt, filled in."""
        async with self._server(server).session() as session:
            return await session.prompt(name, arguments)

    def _server(self, name: str) -> Reachable:
        found = self._reachable.get(name)
        if found is None:
            raise McpUnknownTool(f"there is no server {name[:80]!r}")
        return found

    def _facts(self, tool: McpTool) -> CallFacts:
        return CallFacts(self._reachable[tool.server].known_as, tool.tool, tool.hints, self._tenant)

    async def _tool(self, name: str) -> tuple[McpTool, ListedTool]:
        server, dot, _ = name.partition(".")
        if self._catalogue is None and len(self._reachable) == 1:
            catalogue = await self._looked(list(self._reachable.values()))
        elif self._catalogue is None and dot and server in self._reachable:
            catalogue = await self._looked([self._reachable[server]])
        else:
            catalogue = await self.catalogue()
        tool = catalogue.found(name)
        if tool is None:
            for failed, error in catalogue.failed.items():
                if failed == server or not dot:
                    raise error
            raise McpUnknownTool(f"there is no tool {name[:160]!r}")
        return tool, catalogue.listed[tool.server][tool.tool]

    async def _looked(self, reachable: Sequence[Reachable]) -> Catalogue:
        answers = (
            [await _listed(reachable[0])]
            if len(reachable) == 1
            else await asyncio.gather(*(_listed(each) for each in reachable))
        )
        listed: list[tuple[McpServer, Sequence[ListedTool]]] = []
        failed: dict[str, McpError] = {}
        faults: dict[str, ListFaults] = {}
        for each, answer in zip(reachable, answers, strict=True):
            if isinstance(answer, McpError):
                failed[each.server.name] = answer
            else:
                found, faults[each.server.name] = answer
                listed.append((each.server, found))
        return attrs.evolve(await self._catalogue_of(listed), failed=failed, faults=faults)

    async def _catalogue_of(self, listed: Listed) -> Catalogue:
        """The catalogue of these lists, made in a thread where they are long."""
        found = self._catalogues.find(listed)
        if found is None:
            many = sum(len(tools) for _, tools in listed) > _MADE_HERE
            found = await asyncio.to_thread(made_catalogue, listed) if many else made_catalogue(listed)
            self._catalogues.keep(listed, found)
        return found


async def _listed(reachable: Reachable) -> tuple[Sequence[ListedTool], ListFaults] | McpError:
    try:
        async with reachable.session() as session:
            return await session.tools(), session.faults
    except McpError as error:
        return error
