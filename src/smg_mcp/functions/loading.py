"""Finds the functions that a configuration names: by module and attribute, or by the entry point of a package (edge).

Above: `tools`. Below: `signature`. Their modules are imported here, so that the code of whoever wrote them runs.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from typing import Any

from smg_mcp.functions.signature import PythonTool, ReadFunction, read_function
from smg_mcp.records.errors import McpConfigError

__all__ = ["ENTRY_POINTS", "checked_functions", "functions_of"]

ENTRY_POINTS = "smg.tools"
"""The group of the entry points of packages that bring tools."""


def checked_functions(given: Iterable[Callable[..., Any] | PythonTool], place: str) -> tuple[ReadFunction, ...]:
    """The functions that a program gives. Raises McpConfigError for one that can be no tool, and for two of one name."""
    found: dict[str, ReadFunction] = {}
    for each in given:
        try:
            read = read_function(each)
        except ValueError as error:
            raise McpConfigError(f"{place}: {error}") from error
        if read.name in found:
            raise McpConfigError(f"{place}: two functions are named {read.name!r}")
        found[read.name] = read
    return tuple(found.values())


def functions_of(sources: Sequence[str], place: str) -> list[Callable[..., Any] | PythonTool]:
    """What `sources` name: MODULE:ATTRIBUTE, or the name of an entry point of the group `smg.tools`. Each is a function, a
    `PythonTool` or a list of these. Raises McpConfigError."""
    found: list[Callable[..., Any] | PythonTool] = []
    for index, source in enumerate(sources):
        try:
            named = _named(source)
        except McpConfigError as error:
            raise McpConfigError(f"{place}[{index}]: {error}") from error
        except Exception as error:
            raise McpConfigError(f"{place}[{index}]: {source[:160]!r} cannot be imported: {error!r:.300}") from error
        found += named if isinstance(named, list | tuple) else [named]
    return found


def _named(source: str) -> Any:
    module, colon, attribute = source.partition(":")
    if colon:
        value: Any = importlib.import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
        return value
    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if source not in installed:
        names = ", ".join(sorted(installed)) or "none"
        raise McpConfigError(
            f"neither MODULE:ATTRIBUTE nor an entry point of the group {ENTRY_POINTS} (there are: {names}): {source[:160]!r}"
        )
    return installed[source].load()
