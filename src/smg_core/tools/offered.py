"""The operator's servers of tools, offered to a caller as one server: tools, resources and prompts (edge).

A tool has the name that models know it by in the APIs. A resource of the server S is `mcp://S/` and its own URI, a prompt `S.`
and its own name; they need a grant of all of that server (`S.*`). Built-in tools have their own names. Servers that cannot be
asked are left out of lists. Above: the gateway's own MCP server. Below: smg_mcp.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

import smg_mcp
from smg_core.errors import InvalidRequest, NotFound, Overloaded, SmgError, ToolServerFailed
from smg_core.request import Caller
from smg_core.tool_names import flat_name
from smg_core.tools.own_tools import OwnTools
from smg_core.tools.payments import PayForCall
from smg_mcp.catalogue.results import error_outcome
from smg_mcp.records.base import McpTool, OnProgress, ToolOutcome
from smg_mcp.records.errors import McpBadArguments, McpBusy, McpError, McpUnknownTool

__all__ = ["PublishedTool", "PublishedTools", "ToolAsker"]

T = TypeVar("T")

_SCHEME = "mcp://"
_LONGEST_QUOTE = 160  # characters of a client's text that an answer repeats


@attrs.frozen
class ToolAsker:
    """Who asks, by which request: `headers` are its own, of which a server is sent those that its configuration forwards, and
    `marks` are sent to every server. `session` is what the client's session is known by, "" without one."""

    caller: Caller
    headers: Mapping[str, str]
    request_id: str
    marks: Mapping[str, str]
    session: str = ""


@attrs.frozen
class PublishedTool:
    """A tool by the `name` that it is offered by; `permitted`: the caller may use it, and its calls need no approval, which
    cannot be asked for here. One without a `request` is no tool of a server but one of the gateway's own."""

    name: str
    tool: McpTool
    request: "smg_mcp.RequestTools | None" = attrs.field(repr=False)
    permitted: bool = True


class PublishedTools:
    """All servers of the configuration, all functions and the gateway's `own` tools, as one server."""

    def __init__(self, tools: "smg_mcp.McpTools", own: OwnTools, paid: PayForCall | None = None) -> None:
        self._tools, self._own, self._paid = tools, own, paid

    async def tools(self, asker: ToolAsker) -> tuple[list[PublishedTool], dict[str, str]]:
        """The tools that may be used, and the servers that could not be asked, with the reason."""
        found, failed = await self._found(asker, self._servers(asker))
        return [*self._owned(asker), *(each for each in found if each.permitted)], failed

    async def named(self, name: str, asker: ToolAsker) -> PublishedTool:
        """The tool of this name. Raises NotFound for one that is not there or may not be used, and what its server fails with."""
        if (own := next((each for each in self._owned(asker) if each.name == name), None)) is not None:
            return own
        servers = self._servers(asker)
        likely = [each for each in servers if name.startswith(flat_name(each, ""))] or servers
        found, failed = await self._found(asker, likely)
        tool = next((each for each in found if each.name == name), None)
        if tool is None and failed:
            raise NotFound("; ".join(failed.values()))
        if tool is None or not tool.permitted:
            if tool is not None and tool.request is not None:
                await tool.request.note(tool.tool.server, tool.tool.tool, "denied")
            raise NotFound(f"There is no tool '{name[:_LONGEST_QUOTE]}' here.", param="name")
        return tool

    async def call(
        self, tool: PublishedTool, arguments: Mapping[str, Any], asker: ToolAsker, progress: OnProgress
    ) -> ToolOutcome:
        """Run a call, and have it paid where it costs something; whatever it fails with is its outcome, so that a model sees it.
        Raises SmgError where a budget has no room for what it costs."""
        if (request := tool.request) is None:
            return await self._own.call(tool.name, arguments, asker.caller, asker.request_id, asker.session)
        server, own = tool.tool.server, tool.tool.tool
        dollars = self._tools.price(server, own)
        if self._paid is None or not dollars:
            return await _called(request, tool.tool.name, arguments, progress)
        async with self._paid(asker.caller, server, own, dollars) as paid:
            outcome = await _called(request, tool.tool.name, arguments, progress)
            paid.gave = not outcome.is_error
        return outcome

    async def listed(self, what: str, asker: ToolAsker) -> list[dict[str, Any]]:
        """All "resources", "templates" or "prompts" that may be used."""
        servers = [each for each in self._servers(asker) if _whole(asker, each)]
        key = {"resources": "uri", "templates": "uriTemplate", "prompts": "name"}[what]

        async def of(server: str) -> list[dict[str, Any]]:
            try:
                listed = await self._request(server, asker).listed(server, what)
            except McpError:
                return []
            before = f"{server}." if what == "prompts" else f"{_SCHEME}{server}/"
            return [{**each, key: before + str(each.get(key, ""))} for each in listed]

        return [each for found in await asyncio.gather(*(of(server) for server in servers)) for each in found]

    async def news(self, what: str, asker: ToolAsker) -> list[tuple[str, tuple[int, int]]]:
        """What is another one once a server of these has said that its "resources" or "prompts" have changed."""
        servers = [each for each in self._servers(asker) if _whole(asker, each)]
        found: list[tuple[str, tuple[int, int]]] = []
        for server in servers:
            try:
                found.append((server, await self._request(server, asker).news(server, what)))
            except McpError:
                continue  # one that cannot be asked now tells nothing
        return found

    async def read(self, uri: str, asker: ToolAsker) -> list[dict[str, Any]]:
        """The contents of a resource. Raises NotFound, and what its server fails with."""
        server, slash, own = uri.removeprefix(_SCHEME).partition("/")
        if not uri.startswith(_SCHEME) or not slash:
            raise NotFound(f"There is no resource '{uri[:_LONGEST_QUOTE]}' here.", param="uri")
        request = self._whole_server(server, asker, f"There is no resource '{uri[:_LONGEST_QUOTE]}' here.")
        found = await _answered(request.read(server, own))
        return [{**each, "uri": f"{_SCHEME}{server}/{each.get('uri', own)}"} for each in found]

    async def prompt(self, name: str, arguments: Mapping[str, str], asker: ToolAsker) -> Mapping[str, Any]:
        """A prompt, filled in. Raises NotFound, and what its server fails with."""
        server, _, own = name.partition(".")
        request = self._whole_server(server, asker, f"There is no prompt '{name[:_LONGEST_QUOTE]}' here.")
        return await _answered(request.prompt(server, own, arguments))

    # ------------------------------------------------------------------------------------------------------------------

    def _owned(self, asker: ToolAsker) -> list[PublishedTool]:
        return [PublishedTool(each.name, each, None) for each in self._own.offered(asker.caller)]

    def _servers(self, asker: ToolAsker) -> Sequence[str]:
        return self._tools.for_request(tenant=asker.caller.tenant).servers

    def _request(self, server: str, asker: ToolAsker) -> "smg_mcp.RequestTools":
        return self._tools.for_request(
            tenant=asker.caller.tenant,
            headers=asker.headers,
            servers=[server],
            request_id=asker.request_id,
            marks=asker.marks,
        )

    def _whole_server(self, server: str, asker: ToolAsker, missing: str) -> "smg_mcp.RequestTools":
        """A server of which the caller may use everything. Raises NotFound."""
        try:
            request = self._request(server, asker)
        except McpUnknownTool:
            raise NotFound(missing) from None
        if not _whole(asker, server):
            raise NotFound(missing)
        return request

    async def _found(self, asker: ToolAsker, servers: Sequence[str]) -> tuple[list[PublishedTool], dict[str, str]]:
        requests = [self._request(server, asker) for server in servers]
        catalogues = await asyncio.gather(*(request.catalogue() for request in requests))
        found: list[PublishedTool] = []
        taken: set[str] = set()
        failed: dict[str, str] = {}
        for request, catalogue in zip(requests, catalogues, strict=True):
            failed |= {server: str(error) for server, error in catalogue.failed.items()}
            for tool in catalogue.tools:
                name = flat_name(tool.server, tool.name)
                while name in taken:
                    name += "_"
                taken.add(name)
                granted = asker.caller.grants.may_call(f"{tool.server}.{tool.name}")
                found.append(PublishedTool(name, tool, request, granted and request.decision(tool).verdict == "allow"))
        return found, failed


async def _called(
    request: "smg_mcp.RequestTools", name: str, arguments: Mapping[str, Any], progress: OnProgress
) -> ToolOutcome:
    try:
        return await request.call(name, arguments, progress=progress)
    except McpError as error:
        return error_outcome(str(error))


def _whole(asker: ToolAsker, server: str) -> bool:
    return asker.caller.grants.may_call(f"{server}.")


async def _answered(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except McpError as error:
        raise _refusal(error) from error


def _refusal(error: McpError) -> SmgError:
    """What an error of a server is to our client. A server that refuses this gateway's credentials refuses nothing of the
    client's."""
    if isinstance(error, McpBusy):
        return Overloaded(str(error), retry_after=error.retry_after)
    if isinstance(error, McpBadArguments | McpUnknownTool):
        return InvalidRequest(str(error))
    return ToolServerFailed(str(error))
