"""Runs the APIs' built-in tools: a search of the web and its pages by servers of the configuration, a search of files by vector
stores, code in containers (edge).

Decides who may use which, what of a result the request's domains let pass, and what a failure is called. The permission of a
search or a page is that of the tool that does it (`tool:SERVER.TOOL`), that of a search of files is `tool:file_search`,
of code in containers `tool:code_interpreter`. Above:
`tools.hosted`. Below: smg_mcp, the roles of who searches vector stores and runs code.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import get_args

import msgspec

from smg_core.built_in import BuiltIn, FaultCode
from smg_core.clock import Clock
from smg_core.errors import NotFound, PermissionDenied
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.tools.built_in import tools_of
from smg_core.pipeline.tools.hosted import HostedCall, ListedServer, ToolAnswer, ToolServer
from smg_core.request import Caller, Text
from smg_core.retrieval.filters import read_filter
from smg_core.retrieval.searching import Found, Ranking, StoreSearch, StoreUnknown
from smg_core.sources import Source
from smg_core.tools.code_runs import CodeAnswer, CodeRuns
from smg_core.tools.domains import in_query, may_be_used
from smg_core.tools.web_results import excerpts, page_of, results_in
from smg_mcp.built_in import BuiltInTool
from smg_mcp.records.base import ToolOutcome
from smg_mcp.web.reading import foreign

__all__ = ["CODE_INTERPRETER", "FILE_SEARCH", "BuiltIns", "CallServer"]

CODE_INTERPRETER = "code_interpreter"
"""The permission to run code in containers by a tool."""
FILE_SEARCH = "file_search"
"""The permission to search vector stores by a tool."""

CallServer = Callable[[str, str, JsonObject], Awaitable[ToolOutcome]]
"""Calls a tool of a server of the configuration, for the request that is answered: the server, the tool, its arguments. Raises
SmgError."""

_RESULTS = 5
_RESULTS_OF_FILES = 10
_MOST_RESULTS = 20
"""Results that a search of the web is asked for where most of them may be of other domains than are wanted."""


class BuiltIns:
    """The built-in tools of one gateway. `configured` gives those of the configuration that a tenant may use, `stores` searches
    vector stores and `code` runs it in containers, where there are any. Where there are none, a server of the configuration
    that stands for it runs code."""

    def __init__(
        self,
        configured: Callable[[str], Sequence[BuiltInTool]],
        stores: StoreSearch | None,
        clock: Clock,
        code: CodeRuns | None = None,
    ) -> None:
        self._code = code
        self._configured = configured
        self._stores = stores
        self._clock = clock

    def kinds(self, caller: Caller) -> frozenset[str]:
        """The kinds of built-in tools that the caller may use."""
        found: set[str] = {each.kind for each in self._configured(caller.tenant) if _may_use(caller, each)}
        files = self._stores is not None and caller.grants.may_call(FILE_SEARCH)
        found |= {"file_search"} if files else set()
        found |= {"code"} if self._has_code(caller) else set()
        return frozenset(found)

    def _has_code(self, caller: Caller) -> bool:
        return self._code is not None and caller.grants.may_call(CODE_INTERPRETER)

    async def listed(self, server: ToolServer, asked: BuiltIn, caller: Caller) -> ListedServer:
        """What the model is offered. Raises PermissionDenied, and StoreUnknown for a vector store that is not there."""
        if asked.kind == "file_search":
            try:
                await self._search_of(caller).search(caller, asked.stores, (), max_results=1)
            except StoreUnknown as error:
                error.param = f"{server.at}.vector_store_ids"
                raise
        elif asked.kind == "code" and self._code is not None and self._has_code(caller):
            try:
                await self._code.check(caller, asked)
            except NotFound as error:
                error.param = f"{server.at}.container"
                raise
        else:
            self._tool(asked.kind, caller)
        return ListedServer(server, tools_of(asked))

    async def call(
        self, call: HostedCall, asked: BuiltIn, arguments: JsonObject, caller: Caller, ask: CallServer, request_id: str
    ) -> ToolAnswer:
        """Run one call, of the request of this id. Raises SmgError."""
        if asked.kind == "code":
            return await self._ran(asked, str(arguments.get("code")), caller, ask, request_id)
        if asked.kind == "file_search":
            return await self._files(asked, str(arguments.get("query")), caller)
        if call.name == "web_search":
            return await self._search(asked, str(arguments.get("query")), caller, ask)
        pattern = arguments.get("pattern")
        return await self._page(
            asked, str(arguments.get("url")), pattern if isinstance(pattern, str) else "", caller, ask
        )

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
            return ToolAnswer((Text(foreign(outcome.text, "results of a search")),))
        return ToolAnswer((Text("Nothing was found."),), sources=tuple(kept))

    async def _page(self, asked: BuiltIn, url: str, pattern: str, caller: Caller, ask: CallServer) -> ToolAnswer:
        tool = self._tool("web_fetch", caller)
        forbidden = ToolAnswer((Text("Pages of this host may not be read here."),), is_error=True, code="not_allowed")
        if not may_be_used(url, asked.allowed, asked.blocked):
            return forbidden
        outcome = await ask(tool.server.name, tool.tool, {"url": url})
        if outcome.is_error:
            return ToolAnswer((Text(outcome.text),), is_error=True, code=_code(outcome))
        page = page_of(outcome, url)
        if not may_be_used(page.id, asked.allowed, asked.blocked):
            return forbidden
        text = page.text if asked.characters is None else page.text[: asked.characters]
        if pattern and not (text := excerpts(text, pattern)):
            return ToolAnswer((Text(f"The page has nowhere the words {pattern[:200]!r}."),), sources=())
        page = msgspec.structs.replace(page, text=text)
        shown = Text(foreign(f"{page.title}\n{page.id}\n{text}", "a page of the web"))
        return ToolAnswer((shown,), False, {"at": self._clock.time()}, sources=(page,), cites=asked.cites)

    def _tool(self, kind: str, caller: Caller) -> BuiltInTool:
        for each in self._configured(caller.tenant):
            if each.kind == kind and _may_use(caller, each):
                return each
        raise PermissionDenied(f"The tool {kind} may not be used here.")

    # ----------------------------------------------------------------------------------------------------------- the code

    async def _ran(self, asked: BuiltIn, code: str, caller: Caller, ask: CallServer, request_id: str) -> ToolAnswer:
        if self._code is not None and self._has_code(caller):
            try:
                ran = await self._code.run(caller, asked, code, request_id)
            except NotFound as error:
                return ToolAnswer((Text(error.message),), is_error=True, code="container_gone")
            failed = ran.stopped is not None
            return ToolAnswer((Text(ran.text),), failed, ran.told, code=ran.stopped or "")
        tool = self._tool("code", caller)
        outcome = await ask(tool.server.name, tool.tool, {"code": code})
        told = outcome.structured if isinstance(outcome.structured, Mapping) else {}
        out, err = (told.get(name) for name in ("stdout", "stderr"))
        if not isinstance(out, str):
            out, err = ("", outcome.text) if outcome.is_error else (outcome.text, "")
        ran = CodeAnswer(
            f"mcp_{tool.server.name}",
            out,
            err if isinstance(err, str) else "",
            error=outcome.text if outcome.is_error else None,
        )
        return ToolAnswer((Text(outcome.text or ran.text),), False, ran.told)

    # ---------------------------------------------------------------------------------------------------------- the files

    async def _files(self, asked: BuiltIn, query: str, caller: Caller) -> ToolAnswer:
        words, vectors = (1.0, 1.0) if asked.weights is None else (asked.weights[1], asked.weights[0])
        findings = await self._search_of(caller).search(
            caller,
            asked.stores,
            (query,),
            max_results=asked.results or _RESULTS_OF_FILES,
            filters=None if asked.filters is None else read_filter(dict(asked.filters)),
            ranking=Ranking(asked.threshold, words, vectors),
        )
        sources = tuple([_source(each) for each in findings.found])
        return ToolAnswer((Text("Nothing in the files fits."),), sources=sources)

    def _search_of(self, caller: Caller) -> StoreSearch:
        if self._stores is None or not caller.grants.may_call(FILE_SEARCH):
            raise PermissionDenied("The tool file_search may not be used here.")
        return self._stores


def _may_use(caller: Caller, tool: BuiltInTool) -> bool:
    return caller.grants.may_call(f"{tool.server.name}.{tool.tool}")


def _source(found: Found) -> Source:
    text = "\n".join(each.text for each in found.texts)
    return Source(
        *("file", found.file_id, found.filename, text),
        score=found.score,
        attributes=found.attributes,
        store=found.store_id,
    )


def _code(outcome: ToolOutcome) -> FaultCode:
    """Why a page could not be had, by what its reader says."""
    told = outcome.structured.get("code") if isinstance(outcome.structured, Mapping) else None
    return next((each for each in get_args(FaultCode) if each == told), "unreachable")
