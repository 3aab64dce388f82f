"""Tools that run here, by the package smg_mcp: the gateway's `ToolService` (edge).

Decides how a request's server becomes one of that package, what its errors are to a client, and how an approval is used once: it
is a record of the history that only the first can make. Above: `tools.opening`, which loads this where tools are switched on.
Below: smg_mcp; the history.
"""

import asyncio
import base64
import logging
from collections.abc import Mapping, Sequence

import smg_mcp
from smg_core.clock import Clock
from smg_core.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    Overloaded,
    PermissionDenied,
    SmgError,
    ToolServerFailed,
)
from smg_core.history.store.base import NotKept, PutRecord, StaleVersion, Store, StoredRecord
from smg_core.json_types import JsonObject
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.hosted import (
    HostedCall,
    ListedServer,
    NotMade,
    OnToolProgress,
    ServerTool,
    ToolAnswer,
    ToolServer,
)
from smg_core.request import Audio, Caller, Image, MediaSource, Part, Text
from smg_core.tools.built_ins import BuiltIns, CallServer
from smg_core.tools.code_calls import CodeCalls
from smg_core.tools.file_search import FileSearches
from smg_core.tools.payments import PayForCall
from smg_core.tools.pictures import PictureMaker
from smg_core.tools.search import KnownTools, ToolSearches
from smg_core.wire.json_text import encode_object
from smg_mcp.records.base import (
    ListFaults,
    OnProgress,
    RequestServer,
    ToolAudio,
    ToolImage,
    ToolLink,
    ToolOutcome,
    ToolPart,
    ToolProgress,
    ToolResource,
    ToolText,
)
from smg_mcp.records.errors import McpBadArguments, McpBusy, McpDenied, McpError, McpForbidden, McpUnknownTool

__all__ = ["HostedTools", "noted"]

log = logging.getLogger("smg.tools")

_DECODED_HERE = 64 * 1024
"""Characters of pictures and recordings, in base64, that are decoded on the event loop."""

_NO_FILES, _NO_CODE = FileSearches(None), CodeCalls(None)
_APPROVAL = "mcp_approval"
"""The kind of the records of approvals that were used."""


def noted(entry: "smg_mcp.AuditEntry") -> None:
    """Write a decision to the log: which call, for whom, and what was decided why. The name of a tool that the server does
    not have is a model's text, and is not written."""
    facts, decision = entry.facts, entry.decision
    log.info(
        "tool %s.%s for tenant %r in %s: %s (policy: %s, %s)",
        facts.server,
        ascii(facts.tool)[1:-1] if entry.known else "(unknown)",
        facts.tenant,
        entry.request_id or "no request",
        entry.outcome,
        decision.verdict,
        decision.source,
    )


class HostedTools:
    """The `ToolService` of one gateway. `marks` are headers that every server is sent; `files` searches vector stores,
    `code` runs code, `pictures` asks served models for some."""

    def __init__(
        self,
        tools: "smg_mcp.McpTools",
        settings: McpConfig,
        history: Store,
        clock: Clock,
        marks: Mapping[str, str] | None = None,
        files: FileSearches = _NO_FILES,
        code: CodeCalls = _NO_CODE,
        pictures: PictureMaker | None = None,
        paid: PayForCall | None = None,
    ) -> None:
        self._tools, self._marks, self._paid = tools, marks or {}, paid
        self.built_ins = BuiltIns(lambda tenant: tools.built_ins(tenant), files, clock, code, pictures)
        self._settings = settings
        self._history = history
        self._clock = clock
        self._known = KnownTools(settings.lists)
        self._searches = ToolSearches(settings.search_indexes)

    async def tools(self, server: ToolServer, caller: Caller, headers: Mapping[str, str]) -> ListedServer:
        if server.built_in is not None:
            return await self.built_ins.listed(server, server.built_in, caller)
        try:
            request = self._of(server, caller, headers)
            listed = await request.tools()
            faults = (await request.catalogue()).faults.get(server.label, ListFaults())
        except McpError as error:
            raise _refused(error, server) from error
        found = await self._known.of(listed, caller.tenant, request.decision)
        allowed = server.allowed
        offered = [tool for tool in found if tool.verdict != "deny" and (allowed is None or allowed.takes(tool))]
        permitted = tuple(tool for tool in offered if _permits(caller, server, tool.name))
        if offered and not permitted:
            raise PermissionDenied(
                f"This key may use none of the tools of the server '{server.label}'.", param=server.at
            )

        def named(found: Mapping[str, str]) -> Mapping[str, str]:
            names = [name for name in found if _may_be_named(caller, server, name)]
            return {name: found[name] for name in names[: self._settings.tools]}

        return ListedServer(server, permitted, named(faults.left_out), named(faults.unconstrained))

    async def call(
        self,
        call: HostedCall,
        arguments: JsonObject,
        caller: Caller,
        headers: Mapping[str, str],
        progress: OnToolProgress,
        request_id: str,
    ) -> ToolAnswer:
        if call.server.built_in is not None:
            ask = self._asking(call, caller, headers, request_id)
            asked = call.server.built_in
            return await self.built_ins.call(call, asked, arguments, caller, ask, request_id, progress)

        def report(news: ToolProgress) -> None:
            found = {"progress": news.progress, "total": news.total, "message": news.message}
            progress({name: value for name, value in found.items() if value is not None})

        if not _permits(caller, call.server, call.name):
            await self.note(call, "denied", caller, headers, request_id)
            raise PermissionDenied(f"This key may not use the tool '{call.name}'.", param=call.server.at)
        try:
            request = self._of(call.server, caller, headers, request_id)
            server = call.server.label if call.server.url is None else ""
            outcome = await self._made(
                caller, request, server, call.name, arguments, report, approved=call.approval is not None
            )
        except McpError as error:
            raise _refused(error, call.server) from error
        if sum(len(part.data) for part in outcome.content if isinstance(part, ToolImage | ToolAudio)) <= _DECODED_HERE:
            return _answer(outcome)
        return await asyncio.to_thread(_answer, outcome)

    def _asking(self, call: HostedCall, caller: Caller, headers: Mapping[str, str], request_id: str) -> CallServer:
        """What calls a server of the configuration for a built-in tool."""

        async def ask(server: str, tool: str, arguments: JsonObject) -> ToolOutcome:
            named = ToolServer(server, at=call.server.at)
            try:
                request = self._of(named, caller, headers, request_id)
                # it may be offered by another name
                return await self._made(caller, request, server, f"{server}.{tool}", arguments)
            except McpError as error:
                raise _refused(error, named) from error

        return ask

    async def _made(
        self,
        caller: Caller,
        request: "smg_mcp.RequestTools",
        server: str,
        name: str,
        arguments: JsonObject,
        progress: OnProgress | None = None,
        *,
        approved: bool = False,
    ) -> ToolOutcome:
        """Have a call made, and paid where the tool of that `server` of the configuration has a price; `name` may be one that the
        operator gave the tool."""
        dollars, own = 0.0, name
        if self._paid is not None and self._tools.charges(server):
            tool = (await request.catalogue()).found(name)
            own = name if tool is None else tool.tool
            dollars = self._tools.price(server, own)
        if self._paid is None or not dollars:
            return await request.call(name, arguments, progress=progress, approved=approved)
        async with self._paid(caller, server, own, dollars) as paid:
            outcome = await request.call(name, arguments, progress=progress, approved=approved)
            paid.gave = not outcome.is_error
        return outcome

    async def search(self, tools: Mapping[str, ServerTool], query: str, limit: int) -> tuple[str, ...]:
        return await self._searches.search(tools, query, limit)

    async def claim(self, approvals: Sequence[str], request_id: str, caller: Caller) -> SmgError | None:
        body, now = encode_object({"response": request_id}), self._clock.time()
        records = [StoredRecord(kind=_APPROVAL, id=each, body=body, created_at=now) for each in approvals]
        made = [PutRecord(record, if_version=0) for record in records]
        try:
            await self._history.write(caller.tenant, made, principal=caller.principal)
        except NotKept:
            return None  # nothing is kept of this tenant, so the client alone knows what it has approved
        except StaleVersion as error:
            return Conflict(
                f"The approval '{error.id[:80]}' was used before: its call was refused, was run, or is running.",
                code="approval_already_used",
            )
        except SmgError as error:
            return error
        return None

    async def note(
        self, call: HostedCall, why: NotMade, caller: Caller, headers: Mapping[str, str], request_id: str
    ) -> None:
        try:
            await self._of(call.server, caller, headers, request_id).note(call.server.label, call.name, why)
        except McpError as error:
            raise _refused(error, call.server) from error

    def _of(
        self, server: ToolServer, caller: Caller, headers: Mapping[str, str], request_id: str = ""
    ) -> "smg_mcp.RequestTools":
        """The tools of one server as the caller sees them. Raises McpError, and InvalidRequest for one that may not be named."""
        label, token = server.label, server.authorization
        if server.url is None:
            return self._tools.for_request(
                tenant=caller.tenant,
                credentials={} if token is None else {label: token},
                headers={**headers, **server.headers},
                servers=[label],
                request_id=request_id,
                marks=self._marks,
            )
        if not self._settings.request_servers:
            raise InvalidRequest(
                "This server reaches no servers of tools that a request names by their URL; it may name one that is configured "
                "here, by its label alone.",
                param=server.at,
            )
        try:
            brought = RequestServer(label, server.url, server.headers, token)
        except ValueError as error:
            raise InvalidRequest(f"Invalid server of tools: {error}.", param=server.at) from error
        return self._tools.for_request(
            tenant=caller.tenant,
            headers=headers,
            servers=[],
            extra=[brought],
            request_id=request_id,
            marks=self._marks,
        )


def _permits(caller: Caller, server: ToolServer, tool: str) -> bool:
    """Whether the caller's grants have the tool. A server that the request brings is known by its URL, since the request
    chose its label."""
    return caller.grants.may_call(f"{server.label}.{tool}" if server.url is None else server.url)


def _may_be_named(caller: Caller, server: ToolServer, tool: str) -> bool:
    """Whether the client is told of a tool that its server offers and that is not offered here as it is."""
    allowed = server.allowed
    wanted = allowed is None or ((allowed.names is None or tool in allowed.names) and tool not in allowed.without)
    return wanted and _permits(caller, server, tool)


def _refused(error: McpError, server: ToolServer) -> SmgError:
    """What an error of the package is to the client."""
    message = f"The server of tools '{server.label}' cannot be used: {error}"
    if isinstance(error, McpBusy):
        return Overloaded(message, retry_after=error.retry_after)
    if isinstance(error, McpForbidden | McpBadArguments | McpUnknownTool):
        return InvalidRequest(message, param=server.at)
    # The log has the cause for the operator's own servers; a request can name any number of others.
    detail = f"the server of tools {server.label}: {error}" if server.url is None else None
    if error.status == 401:
        code = "mcp_authentication"
        return AuthenticationFailed(message, param=server.at, code=code, detail=detail, outside_text=str(error))
    if isinstance(error, McpDenied):
        return PermissionDenied(message, param=server.at)
    if error.status == 403:
        return PermissionDenied(message, param=server.at, detail=detail, outside_text=str(error))
    return ToolServerFailed(message, param=server.at, detail=detail, outside_text=str(error))


def _answer(outcome: ToolOutcome) -> ToolAnswer:
    parts = _parts(outcome.content)
    if outcome.structured is not None and not any(isinstance(part, Text) for part in parts):
        parts = [*parts, Text(encode_object(outcome.structured).decode())]
    return ToolAnswer(tuple(parts), outcome.is_error, outcome.structured)


def _parts(content: Sequence[ToolPart]) -> list[Part]:
    found: list[Part] = []
    for part in content:
        match part:
            case ToolText():
                found.append(Text(part.text))
            case ToolImage() | ToolAudio():
                found.append(_medium(part))
            case ToolResource(text=str(text)):
                found.append(Text(text))
            case ToolResource():
                found.append(Text(f"[The tool returned the resource {part.uri}, which is no text.]"))
            case ToolLink():
                described = f": {part.description}" if part.description else ""
                found.append(Text(f"[{part.name}]({part.uri}){described}"))
    return found


def _medium(part: ToolImage | ToolAudio) -> Part:
    try:
        data = base64.b64decode(part.data, validate=True)
    except ValueError:  # also for characters that are no ASCII
        return Text(f"[The tool returned a part of the type {part.mime} that cannot be read.]")
    source = MediaSource(data=data, media_type=part.mime)
    return Image(source) if isinstance(part, ToolImage) else Audio(source, part.mime.rpartition("/")[2])
