"""Tools found by words: BM25 over names, descriptions and arguments.

Offered to a model as one tool, `tool_search`, in place of hundreds of schemas. Above: `tools`. Below: `records.base`. Pure. An
index by embeddings fills the same role, `records.base.ToolIndex`.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smg_mcp.records.base import McpTool

__all__ = ["FOUND", "MOST_FOUND", "TOOL_SEARCH", "TOOL_SEARCH_SCHEMA", "Bm25Index"]

FOUND = 5
"""How many tools a search gives where nothing is said."""

MOST_FOUND = 20
"""How many tools a model may ask a search for."""

TOOL_SEARCH = "tool_search"
"""The name of the tool that searches."""

TOOL_SEARCH_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What the tool should do, in a few words."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "description": "How many tools to return."},
    },
    "required": ["query"],
    "additionalProperties": False,
}

_WORDS = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SATURATION = 1.2
_LENGTH = 0.75
_NAME_WEIGHT = 3
_QUERY_WORDS = 64


class Bm25Index:
    """An index of some tools, made once. A search looks only at tools that share a word with the query."""

    def __init__(self, tools: "Sequence[McpTool]") -> None:
        self._tools = list(tools)
        counted = [Counter(_words_of(tool)) for tool in self._tools]
        lengths = [counts.total() for counts in counted]
        mean = sum(lengths) / len(lengths) if lengths else 1.0
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for index, counts in enumerate(counted):
            norm = _SATURATION * (1 - _LENGTH + _LENGTH * lengths[index] / (mean or 1.0))
            for word, count in counts.items():
                weight = count * (_SATURATION + 1) / (count + norm)
                self._postings.setdefault(word, []).append((index, weight))

    def __len__(self) -> int:
        return len(self._tools)

    def search(self, query: str, limit: int) -> "Sequence[McpTool]":
        """The best tools for a query, best first; those of the same score in the order in which they were given."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(_split(query)[:_QUERY_WORDS]):
            found = self._postings.get(word)
            if found is None:
                continue
            rarity = math.log(1 + (len(self._tools) - len(found) + 0.5) / (len(found) + 0.5))
            for index, weight in found:
                scores[index] = scores.get(index, 0.0) + rarity * weight
        best = heapq.nsmallest(max(0, limit), scores.items(), key=lambda entry: (-entry[1], entry[0]))
        return [self._tools[index] for index, _ in best]


def _split(text: str) -> list[str]:
    return [_stem(word.lower()) for word in _WORDS.findall(_HUMP.sub(" ", text))]


def _stem(word: str) -> str:
    """The word without a plural's s: enough to find "file" by "files"."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _words_of(tool: "McpTool") -> list[str]:
    words = (_split(tool.name) + _split(tool.tool) + _split(tool.title or "")) * _NAME_WEIGHT
    words += _split(tool.server) + _split(tool.description)
    properties = tool.schema.get("properties")
    if isinstance(properties, Mapping):
        for name, schema in properties.items():
            words += _split(str(name))
            if isinstance(schema, Mapping):
                words += _split(str(schema.get("description") or ""))
    return words
