"""Searches the tools of a request's servers, with their lists cached between requests (edge).

An index takes about 60 ms for a thousand tools, so that it is made in a thread, once for each set of tools. It finds by words
(BM25); `make_index` is where another takes its place, such as one by embeddings. Above: `tools.hosted`. Below: smg_mcp.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from smg_core.json_types import JsonObject
from smg_core.pipeline.tools.hosted import ServerTool
from smg_mcp.catalogue.search import Bm25Index
from smg_mcp.records.base import Decision, McpTool, ToolIndex

__all__ = ["KnownTools", "ToolSearches"]

MakeIndex = Callable[[Sequence[McpTool]], ToolIndex]


class ToolSearches:
    """Indexes of the tools that were searched last, at most `most`. A set of tools is known by its names and the identity of its
    records, which `KnownTools` gives again for as long as the servers' lists stay the same."""

    def __init__(self, most: int, make_index: MakeIndex = Bm25Index) -> None:
        self._most, self._make_index = most, make_index
        self._kept: OrderedDict[tuple[tuple[str, int], ...], tuple[tuple[ServerTool, ...], ToolIndex]] = OrderedDict()

    async def search(self, tools: Mapping[str, ServerTool], query: str, limit: int) -> tuple[str, ...]:
        """The names of the tools that fit the query, best first."""
        key = tuple([(name, id(tool)) for name, tool in tools.items()])
        kept = self._kept.get(key)
        if kept is None:
            index = await asyncio.to_thread(self._indexed, tools)
            self._kept[key] = tuple(tools.values()), index  # the records are held, so that their identities stay theirs
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        else:
            index = kept[1]
            self._kept.move_to_end(key)
        found = await asyncio.to_thread(index.search, query, limit)
        return tuple([tool.name for tool in found])

    def _indexed(self, tools: Mapping[str, ServerTool]) -> ToolIndex:
        return self._make_index(
            [McpTool(name, "", tool.name, tool.description or "", tool.schema) for name, tool in tools.items()]
        )


class KnownTools:
    """The tools of servers' lists as the pipeline knows them, of the last `most` lists and tenants. A list is known by its
    identity: smg_mcp gives the same one until the server was asked again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, str], tuple[Sequence[McpTool], tuple[ServerTool, ...]]] = OrderedDict()

    async def of(
        self, tools: Sequence[McpTool], tenant: str, decide: Callable[[McpTool], Decision]
    ) -> tuple[ServerTool, ...]:
        """The tools of a list, with what the policy says of each for this tenant."""
        key = (id(tools), tenant)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept[1]
        made = await asyncio.to_thread(lambda: tuple([_server_tool(tool, decide(tool)) for tool in tools]))
        self._kept[key] = tools, made
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return made


def _server_tool(tool: McpTool, decision: Decision) -> ServerTool:
    hints = {
        "readOnlyHint": tool.hints.read_only,
        "destructiveHint": tool.hints.destructive,
        "idempotentHint": tool.hints.idempotent,
        "openWorldHint": tool.hints.open_world,
        "title": tool.title,
    }
    annotations: JsonObject = {name: value for name, value in hints.items() if value is not None}
    return ServerTool(tool.name, tool.description or None, tool.schema, annotations or None, decision.verdict)
