"""Names of tools that every API takes: letters, digits, `_` and `-`, at most 64 characters, no two alike.

Above: `inventory`. Below: nothing. Pure: the same tools always get the same names, and a tool that comes later does not change
the name of one that has an alias.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["LONGEST_TOOL_NAME", "legal_name", "unique_names"]

LONGEST_TOOL_NAME = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_MARK = 9


def legal_name(text: str) -> str:
    """`text` as a legal name. Where characters had to go, or it was too long, it ends with a mark of the whole text, so that two
    texts do not become one name."""
    clean = _ILLEGAL.sub("_", text)
    if clean == text and 0 < len(text) <= LONGEST_TOOL_NAME:
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[: _MARK - 1]
    return f"{clean[: LONGEST_TOOL_NAME - _MARK]}_{mark}"


def unique_names(wanted: Sequence[tuple[str, str, str | None]]) -> list[str]:
    """A name for each (server, tool, alias), in order. An alias is kept. A tool whose name no other has (capitals make no
    difference) is called by it; the others are called server and tool. Takes time in proportion to their number."""
    names = [legal_name(alias or tool) for _, tool, alias in wanted]
    counts = Counter(name.lower() for name in names)
    free = _FreeNames(counts, {legal_name(alias).lower() for _, _, alias in wanted if alias})
    kept: set[str] = set()
    for index, (server, tool, alias) in enumerate(wanted):
        name = names[index].lower()
        if alias and name not in kept:
            kept.add(name)
        elif alias is not None or counts[name] > 1:
            names[index] = free.instead_of(name, server, tool)
    return names


class _FreeNames:
    """Finds names that nobody has: `counts` says how many are called by each at first, in small letters, and `taken` which are
    given to nobody else."""

    def __init__(self, counts: Mapping[str, int], taken: set[str]) -> None:
        self._in_use = Counter(counts)
        self._taken = taken
        self._tried: dict[str, int] = {}  # by server and tool: the last number that was looked at

    def instead_of(self, name: str, server: str, tool: str) -> str:
        """A name for a tool of a server that was to be called `name`."""
        first = legal_name(f"{server}_{tool}")
        number = self._tried.get(first, 0)
        found = ""
        while not found or found.lower() in self._taken or self._in_use[found.lower()]:
            number += 1
            found = first if number == 1 else legal_name(f"{server}_{tool}_{number}")
        self._tried[first] = number
        self._in_use[name] -= 1
        self._in_use[found.lower()] += 1
        return found
