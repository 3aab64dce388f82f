"""The built-in search of files: a model searches the vector stores that a request names (edge).

The permission is `tool:file_search`. Runs without any server of tools: then `FilesAlone` is the gateway's `ToolService`. Above:
`tools.opening`, `tools.built_ins`. Below: the role of who searches vector stores.
"""

import logging
from collections.abc import Mapping, Sequence

from smg_core.built_in import BuiltIn
from smg_core.errors import InvalidRequest, PermissionDenied, SmgError
from smg_core.json_types import JsonObject
from smg_core.pipeline.tools.built_in import built_in_functions
from smg_core.pipeline.tools.hosted import (
    HostedCall,
    ListedServer,
    NotMade,
    OnToolProgress,
    ServerTool,
    ToolAnswer,
    ToolServer,
)
from smg_core.request import Caller, Text
from smg_core.retrieval.filters import read_filter
from smg_core.retrieval.searching import Found, Ranking, StoreSearch, StoreUnknown
from smg_core.sources import CitableSource

__all__ = ["FILE_SEARCH", "FileSearches", "FilesAlone", "log_own_call"]

log = logging.getLogger("smg.tools")

FILE_SEARCH = "file_search"
"""The kind of the tool, and the permission for it."""
_RESULTS = 10
"""Results of a search where the request does not say how many."""


class FileSearches:
    """Searches the vector stores of one gateway for models; None where it has none."""

    def __init__(self, stores: StoreSearch | None) -> None:
        self._stores = stores

    def kinds(self, caller: Caller) -> frozenset[str]:
        """The tool's kind, if the caller may use it."""
        may = self._stores is not None and caller.grants.may_call(FILE_SEARCH)
        return frozenset({FILE_SEARCH}) if may else frozenset()

    async def listed(self, server: ToolServer, asked: BuiltIn, caller: Caller) -> ListedServer:
        """What the model is offered. Raises PermissionDenied, and StoreUnknown for a store that is not there."""
        try:
            await self._search_of(caller).search(caller, asked.stores, (), max_results=1)
        except StoreUnknown as error:
            place = asked.stores.index(error.id) if error.id in asked.stores else 0
            error.param = f"{server.at}.{asked.stores_at}[{place}]"
            raise
        return ListedServer(server, built_in_functions(asked))

    async def call(self, asked: BuiltIn, query: str, caller: Caller) -> ToolAnswer:
        """Search once. Raises SmgError."""
        words, vectors = (1.0, 1.0) if asked.weights is None else (asked.weights[1], asked.weights[0])
        findings = await self._search_of(caller).search(
            caller,
            asked.stores,
            (query,),
            max_results=asked.results or _RESULTS,
            filters=None if asked.filters is None else read_filter(dict(asked.filters)),
            ranking=Ranking(asked.threshold, words, vectors),
        )
        return ToolAnswer((Text("Nothing in the files fits."),), sources=tuple(map(_source, findings.found)))

    def _search_of(self, caller: Caller) -> StoreSearch:
        if self._stores is None or not caller.grants.may_call(FILE_SEARCH):
            raise PermissionDenied("The tool file_search may not be used here.")
        return self._stores


class FilesAlone:
    """The `ToolService` of a gateway without servers of tools: what it runs is the search of files."""

    def __init__(self, files: FileSearches) -> None:
        self._files = files

    async def tools(self, server: ToolServer, caller: Caller, headers: Mapping[str, str]) -> ListedServer:
        if server.built_in is None:
            raise InvalidRequest("No servers of tools are configured here.", param=server.at)
        return await self._files.listed(server, server.built_in, caller)

    async def call(
        self,
        call: HostedCall,
        arguments: JsonObject,
        caller: Caller,
        headers: Mapping[str, str],
        progress: OnToolProgress,
        request_id: str,
    ) -> ToolAnswer:
        if call.server.built_in is None:
            raise InvalidRequest("No servers of tools are configured here.", param=call.server.at)
        log_own_call(FILE_SEARCH, caller, request_id)
        return await self._files.call(call.server.built_in, str(arguments.get("query")), caller)

    async def search(self, tools: Mapping[str, ServerTool], query: str, limit: int) -> tuple[str, ...]:
        return ()

    async def claim(self, approvals: Sequence[str], request_id: str, caller: Caller) -> SmgError | None:
        return None

    async def note(
        self, call: HostedCall, why: NotMade, caller: Caller, headers: Mapping[str, str], request_id: str
    ) -> None:
        """Nothing: no call of a search of files needs anybody's approval."""


def log_own_call(tool: str, caller: Caller, request_id: str) -> None:
    """Write down a call of a tool that no server of tools runs, as those of servers are: its permission has allowed it."""
    log.info("tool %s for tenant %r in %s: allowed (permission)", tool, caller.tenant, request_id or "no request")


def _source(found: Found) -> CitableSource:
    text = "\n".join(each.text for each in found.texts)
    return CitableSource(
        *("file", found.file_id, found.filename, text),
        score=found.score,
        attributes=found.attributes,
        store=found.store_id,
    )
