"""The tools of several servers at one time, by name; made once for each set of lists, since that takes time.

Above: `request_tools`. Below: `inventory`, `search`. Pure.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import attrs

from smg_mcp.catalogue.inventory import ListedTool, offered_tools
from smg_mcp.catalogue.search import Bm25Index
from smg_mcp.records.base import ListFaults, McpTool
from smg_mcp.records.errors import McpError
from smg_mcp.records.settings import McpServer

__all__ = ["Catalogue", "CatalogueCache", "LazyIndex", "Listed", "made_catalogue"]

Listed = Sequence[tuple[McpServer, Sequence[ListedTool]]]


class LazyIndex:
    """An index that is made when it is first searched: `build` takes a quarter of a second for a thousand tools, so that it
    belongs in a thread."""

    def __init__(self, tools: Sequence[McpTool]) -> None:
        self._tools = tools
        self._index: Bm25Index | None = None

    @property
    def built(self) -> bool:
        """Whether a search is quick."""
        return self._index is not None

    def build(self) -> Bm25Index:
        """Make the index, if it is not made yet."""
        if self._index is None:
            self._index = Bm25Index(self._tools)
        return self._index

    def search(self, query: str, limit: int) -> Sequence[McpTool]:
        """The tools that fit the query, best first."""
        return self.build().search(query, limit)


@attrs.frozen
class Catalogue:
    """The tools, and the servers that could not be asked, with the reason. `listed` has the tools as their servers list them;
    `faults` what is wrong with tools of a server's list."""

    tools: Sequence[McpTool]
    listed: Mapping[str, Mapping[str, ListedTool]] = attrs.field(repr=False)
    left_out: Mapping[str, Mapping[str, str]] = attrs.field(repr=False)
    index: LazyIndex = attrs.field(repr=False)
    names: Mapping[str, McpTool] = attrs.field(repr=False)
    failed: Mapping[str, McpError] = attrs.field(factory=dict)
    faults: Mapping[str, ListFaults] = attrs.field(factory=dict)

    def found(self, name: str) -> McpTool | None:
        """The tool of a name: as it is offered, or "server.tool"."""
        return self.names.get(name)


def made_catalogue(listed: Listed) -> Catalogue:
    """The catalogue of these lists. Takes some 10 microseconds a tool."""
    tools, left_out = offered_tools(listed)
    by_server = {server.name: {tool.tool: tool for tool in found} for server, found in listed}
    names = {tool.qualified: tool for tool in tools} | {tool.name: tool for tool in tools}
    return Catalogue(tools, by_server, left_out, LazyIndex(tools), names)


class CatalogueCache:
    """The catalogues of lists seen before, at most `most`. A list is known by its identity: a session gives the same list until
    the server was asked again. The server is compared by what is set of it, since one that a request brings is made anew for each
    request."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, ...], tuple[Listed, Catalogue]] = OrderedDict()

    def find(self, listed: Listed) -> Catalogue | None:
        """The catalogue that was made of these lists before, if it is still kept."""
        key = _key(listed)
        kept = self._kept.get(key)
        if kept is None or [server for server, _ in kept[0]] != [server for server, _ in listed]:
            return None
        self._kept.move_to_end(key)
        return kept[1]

    def keep(self, listed: Listed, made: Catalogue) -> None:
        """Keep what was made of these lists."""
        key = _key(listed)
        self._kept[key] = (listed, made)  # the lists are held, so that their identities stay theirs
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


def _key(listed: Listed) -> tuple[int, ...]:
    return tuple(id(tools) for _, tools in listed)
