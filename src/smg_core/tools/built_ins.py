"""Runs the APIs' built-in tools: the web by servers of the configuration, searches of files, code, pictures (edge).

Decides who may use which, what of a result the request's domains let pass, and what a failure is called. The permission of a
search or a page is that of the tool that does it (`tool:SERVER.TOOL`). Above: `tools.hosted`. Below: smg_mcp;
`tools.file_search`, `tools.code_calls`, `tools.pictures`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import get_args

import msgspec

from smg_core.built_in import BuiltIn, FaultCode
from smg_core.clock import Clock
from smg_core.errors import PermissionDenied
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.tools.built_in import CODE, IMAGE, built_in_functions
from smg_core.pipeline.tools.hosted import HostedCall, ListedServer, OnToolProgress, ToolAnswer, ToolServer
from smg_core.request import Caller, Text
from smg_core.sources import between_marks
from smg_core.tools.code_calls import CodeCalls, answer_of_server
from smg_core.tools.domains import in_query, may_be_used
from smg_core.tools.file_search import FileSearches, log_own_call
from smg_core.tools.pictures import PictureMaker, made_by_model, picture_of_server
from smg_core.tools.web_results import excerpts, page_read, results_in
from smg_mcp.built_in import BuiltInTool
from smg_mcp.records.base import ToolOutcome

__all__ = ["BuiltIns", "CallServer"]

CallServer = Callable[[str, str, JsonObject], Awaitable[ToolOutcome]]
"""Calls a tool of a server of the configuration, for the request that is answered: the server, the tool, its arguments. Raises
SmgError."""

_RESULTS = 5
_MOST_RESULTS = 20
"""Results that a search of the web is asked for where most of them may be of other domains than are wanted."""


class BuiltIns:
    """The built-in tools of one gateway. `configured` gives those of the configuration that a tenant may use. Where there are no
    containers for `code`, a server of the configuration that stands for it runs code. `pictures` asks served models for them."""

    def __init__(
        self,
        configured: Callable[[str], Sequence[BuiltInTool]],
        files: FileSearches,
        clock: Clock,
        code: CodeCalls,
        pictures: PictureMaker | None = None,
    ) -> None:
        self._configured = configured
        self._files, self._code, self._pictures = files, code, pictures
        self._clock = clock

    def kinds(self, caller: Caller) -> frozenset[str]:
        """The kinds of built-in tools that the caller may use."""
        found = {each.kind for each in self._configured(caller.tenant) if _may_use(caller, each)}
        if self._code.of(caller) is not None:
            found.add("code")
        return self._files.kinds(caller) | found

    def own_kinds(self, caller: Caller) -> frozenset[str]:
        """Those of them that are no tool of a server, which would offer it itself."""
        found = set(self._files.kinds(caller))
        if self._code.of(caller) is not None:
            found.add("code")
        painters = (each for each in self._configured(caller.tenant) if each.kind == "image" and _may_use(caller, each))
        painter = next(painters, None)
        if self._pictures is not None and painter is not None and painter.server.model is not None:
            found.add("image")
        return frozenset(found)

    async def listed(self, server: ToolServer, asked: BuiltIn, caller: Caller) -> ListedServer:
        """What the model is offered. Raises PermissionDenied, and StoreUnknown for a vector store that is not there."""
        if asked.kind == "file_search":
            return await self._files.listed(server, asked, caller)
        if asked.kind == "code" and (runs := self._code.of(caller)) is not None:
            await self._code.check(runs, server, asked, caller)
        else:
            self._tool(asked.kind, caller)
        return ListedServer(server, built_in_functions(asked))

    async def call(
        self,
        call: HostedCall,
        asked: BuiltIn,
        arguments: JsonObject,
        caller: Caller,
        ask: CallServer,
        request_id: str,
        progress: OnToolProgress,
    ) -> ToolAnswer:
        """Run one call, of the request of this id. Raises SmgError."""
        if asked.kind == "image":
            return await self._picture(asked, arguments, caller, ask, progress, request_id)
        if asked.kind == "code":
            return await self._ran(asked, str(arguments.get("code")), caller, ask, request_id)
        if asked.kind == "file_search":
            log_own_call(call.name, caller, request_id)
            return await self._files.call(asked, str(arguments.get("query")), caller)
        if call.name == "web_search":
            return await self._search(asked, str(arguments.get("query")), caller, ask)
        pattern = arguments.get("pattern")
        return await self._page(
            asked, str(arguments.get("url")), pattern if isinstance(pattern, str) else "", caller, ask
        )

    async def _ran(self, asked: BuiltIn, code: str, caller: Caller, ask: CallServer, request_id: str) -> ToolAnswer:
        if (runs := self._code.of(caller)) is not None:
            log_own_call(CODE, caller, request_id)
            return await self._code.run(runs, asked, code, caller, request_id)
        tool = self._tool("code", caller)
        return answer_of_server(tool.server.name, await ask(tool.server.name, tool.tool, {"code": code}))

    async def _picture(
        self,
        asked: BuiltIn,
        arguments: JsonObject,
        caller: Caller,
        ask: CallServer,
        progress: OnToolProgress,
        request_id: str,
    ) -> ToolAnswer:
        tool = self._tool("image", caller)
        if self._pictures is not None and (model := tool.server.model) is not None:
            log_own_call(IMAGE, caller, request_id)
            return await made_by_model(self._pictures, model, asked, arguments, caller, progress)
        prompt = str(arguments.get("prompt"))
        return picture_of_server(await ask(tool.server.name, tool.tool, {"prompt": prompt}), prompt)

    # ------------------------------------------------------------------------------------------------------------ the web

    async def _search(self, asked: BuiltIn, query: str, caller: Caller, ask: CallServer) -> ToolAnswer:
        tool = self._tool("web_search", caller)
        web = tool.server.web
        usual = web.search.results if web is not None and web.search is not None else _RESULTS
        wanted = asked.results or usual
        bounded = bool(asked.allowed or asked.blocked)
        sent: dict[str, Json] = {"query": in_query(query, asked.allowed, asked.blocked)[:1000]}
        if tool.own:
            sent["count"] = _MOST_RESULTS if bounded else min(wanted, _MOST_RESULTS)
        outcome = await ask(tool.server.name, tool.tool, sent)
        if outcome.is_error:
            return ToolAnswer((Text(outcome.text),), is_error=True, code="failed")
        found = results_in(outcome)
        kept = [each for each in found if may_be_used(each.id, asked.allowed, asked.blocked)][:wanted]
        if not kept and not found and outcome.text and not bounded:
            return ToolAnswer((Text(between_marks(outcome.text, "results of a search")),))
        return ToolAnswer((Text("Nothing was found."),), sources=tuple(kept))

    async def _page(self, asked: BuiltIn, url: str, pattern: str, caller: Caller, ask: CallServer) -> ToolAnswer:
        tool = self._tool("web_fetch", caller)
        forbidden = ToolAnswer((Text("Pages of this host may not be read here."),), is_error=True, code="not_allowed")
        if not may_be_used(url, asked.allowed, asked.blocked):
            return forbidden
        outcome = await ask(tool.server.name, tool.tool, {"url": url})
        if outcome.is_error:
            return ToolAnswer((Text(outcome.text),), is_error=True, code=_code(outcome))
        page = page_read(outcome, url)
        if not may_be_used(page.id, asked.allowed, asked.blocked):
            return forbidden
        text = page.text if asked.characters is None else page.text[: asked.characters]
        if pattern and not (text := excerpts(text, pattern)):
            return ToolAnswer((Text(f"The page has nowhere the words {pattern[:200]!r}."),), sources=())
        page = msgspec.structs.replace(page, text=text)
        quoted = Text(between_marks(f"{page.title}\n{page.id}\n{text}", "a page of the web"))
        return ToolAnswer((quoted,), False, {"at": self._clock.time()}, sources=(page,), cites=asked.cites)

    def _tool(self, kind: str, caller: Caller) -> BuiltInTool:
        for each in self._configured(caller.tenant):
            if each.kind == kind and _may_use(caller, each):
                return each
        raise PermissionDenied(f"The tool {kind} may not be used here.")


def _may_use(caller: Caller, tool: BuiltInTool) -> bool:
    return caller.grants.may_call(f"{tool.server.name}.{tool.tool}")


def _code(outcome: ToolOutcome) -> FaultCode:
    """Why a page could not be had, by what its reader says."""
    code = outcome.structured.get("code") if isinstance(outcome.structured, Mapping) else None
    return next((each for each in get_args(FaultCode) if each == code), "unreachable")
