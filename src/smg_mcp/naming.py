"""Names of tools that every API takes: letters, digits, `_` and `-`, at most 64 characters, no two alike.

Above: `inventory`. Below: nothing. Pure: the same tools always get the same names, and a tool that comes later does not change
the name of one that has an alias.
"""

import hashlib
import re
from collections.abc import Sequence

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
    difference) is called by it; the others are called server and tool."""
    names = [legal_name(alias or tool) for _, tool, alias in wanted]
    counts: dict[str, int] = {}
    for name in names:
        counts[name.lower()] = counts.get(name.lower(), 0) + 1
    taken = {legal_name(alias).lower() for _, _, alias in wanted if alias}
    kept: set[str] = set()
    for index, (server, tool, alias) in enumerate(wanted):
        if alias and names[index].lower() not in kept:
            kept.add(names[index].lower())
            continue
        if alias is None and counts[names[index].lower()] == 1:
            continue
        names[index] = _free(server, tool, taken | kept | {name.lower() for name in names})
        taken.add(names[index].lower())
    return names


def _free(server: str, tool: str, taken: set[str]) -> str:
    name, number = legal_name(f"{server}_{tool}"), 2
    while name.lower() in taken:
        name, number = legal_name(f"{server}_{tool}_{number}"), number + 1
    return name
