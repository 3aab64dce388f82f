"""Tools that a model finds by searching, where their schemas would fill its prompt.

Decides for which servers a search takes the place of their tools, what the model is told of the search, and what it gets of a
search's result. Pure. Above: pipeline.tools.loop, which offers the search, and pipeline.tools.calls, which has it done. Below:
the records of pipeline.tools.hosted; the name and the schema of smg_mcp.catalogue.search.
"""

from collections.abc import Mapping, Sequence

from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.tools.hosted import ServerTool, ToolAnswer
from smg_core.request import Text
from smg_core.wire.json_text import encode_object

__all__ = ["search_answer", "search_of", "search_tool", "searched_servers"]

_LONGEST_DESCRIPTION = 300  # characters of a description in the result of a search; the whole of it comes with the tool


def searched_servers(counts: Mapping[str, int], most: int | None) -> frozenset[str]:
    """The labels of the servers whose tools are found by searching, given how many tools each has: those with the most tools, so
    that fewer than `most` tools are left; none for `most` None."""
    left, searched = sum(counts.values()), set[str]()
    for label, count in sorted(counts.items(), key=lambda each: -each[1]):
        if most is None or left < most:
            break
        searched.add(label)
        left -= count
    return frozenset(searched)


def search_tool(label: str, count: int) -> ServerTool:
    """The tool that searches `count` tools of the server of this label."""
    from smg_mcp.catalogue.search import (  # there are such tools only where it is installed
        TOOL_SEARCH,
        TOOL_SEARCH_SCHEMA,
    )

    description = (
        f"Finds tools of '{label}', which has {count} that are not listed here. Call it with what a tool should do, in a few "
        "words; the tools that it finds can be called afterwards."
    )
    return ServerTool(TOOL_SEARCH, description, TOOL_SEARCH_SCHEMA, {"readOnlyHint": True})


def search_of(arguments: JsonObject) -> tuple[str, int] | str:
    """The query of a search and how many tools it may find; or what is wrong with the arguments."""
    from smg_mcp.catalogue.search import FOUND, MOST_FOUND

    query, limit = arguments.get("query"), arguments.get("limit", FOUND)
    if not isinstance(query, str) or not query.strip():
        return "The argument 'query' has to be a text that says what a tool should do."
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_FOUND:
        return f"The argument 'limit' has to be a number from 1 to {MOST_FOUND}."
    return query, limit


def search_answer(within: Mapping[str, ServerTool], found: Sequence[str]) -> ToolAnswer:
    """What the model gets of a search: the tools' names and the beginnings of their descriptions."""
    if not found:
        return ToolAnswer((Text("No tool fits; search with other words."),))
    tools: list[Json] = [
        {"name": name, "description": (within[name].description or "")[:_LONGEST_DESCRIPTION]} for name in found
    ]
    return ToolAnswer((Text(encode_object({"tools": tools}).decode()),), found=tuple(found))
