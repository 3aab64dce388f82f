"""What a server offers, as models are offered it: checked, renamed, filtered by who asks.

Above: `session` (lists), `tools` (names across servers). Below: `arguments`, `naming`, `settings`. Pure.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from smg_mcp.arguments import schema_for
from smg_mcp.base import McpTool, ToolHints
from smg_mcp.naming import unique_names
from smg_mcp.settings import InventorySettings, McpServer, ToolSettings

__all__ = ["ListedTool", "fault_of_tool", "offered_tools", "server_serves", "tools_of"]

_PLAIN = ToolSettings()


@attrs.frozen
class ListedTool:
    """A tool as its server lists it. `schema` is the server's own."""

    tool: str
    description: str
    schema: Mapping[str, Any]
    title: str | None = None
    output_schema: Mapping[str, Any] | None = None
    hints: ToolHints = attrs.field(factory=ToolHints)


def fault_of_tool(raw: Any, settings: InventorySettings) -> str | None:
    """What is wrong with a tool of a server's list, so that it cannot be offered; None if nothing is."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str) or not raw["name"]:
        return "it has no name"
    if len(raw["name"]) > settings.name_chars:
        return f"its name has more than {settings.name_chars} characters"
    schema = raw.get("inputSchema")
    if not isinstance(schema, Mapping):
        return "its inputSchema is no object"
    if schema.get("type", "object") != "object":
        return "its inputSchema does not describe an object"
    for key in ("properties", "$defs", "definitions"):
        if not isinstance(schema.get(key, {}), Mapping):
            return f"{key} of its inputSchema is no object"
    for value in (schema, raw.get("outputSchema")):
        try:
            size = len(json.dumps(value))
        except (ValueError, RecursionError):
            return "its schema is nested too deeply"
        if size > settings.schema_bytes:
            return f"its schema has more than {settings.schema_bytes} bytes"
        if _deeper_than(value, settings.schema_depth):
            return f"its schema is nested more than {settings.schema_depth} deep"
        if _refers_elsewhere(value):
            return "its schema refers to another document"
    return None


def tools_of(raw: Iterable[Mapping[str, Any]], settings: InventorySettings) -> list[ListedTool]:
    """The records of a list without faults (`fault_of_tool`)."""
    found = []
    for each in raw:
        said = each.get("annotations")
        annotations: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
        found.append(
            ListedTool(
                each["name"],
                str(each.get("description") or "")[: settings.description_chars],
                {"type": "object", **each["inputSchema"]},
                each.get("title") if isinstance(each.get("title"), str) else None,
                each.get("outputSchema") if isinstance(each.get("outputSchema"), Mapping) else None,
                ToolHints(*(_said(annotations, f"{name}Hint") for name in _HINTS)),
            )
        )
    return found


_HINTS = ("readOnly", "destructive", "idempotent", "openWorld")


def _said(annotations: Mapping[str, Any], key: str) -> bool | None:
    value = annotations.get(key)
    return value if isinstance(value, bool) else None


def server_serves(server: McpServer, tenant: str) -> bool:
    """Whether this tenant may know of the server."""
    return server.tenants is None or tenant in server.tenants


def offered_tools(
    listed: Sequence[tuple[McpServer, Sequence[ListedTool]]],
) -> tuple[list[McpTool], dict[str, dict[str, str]]]:
    """The tools of several servers with legal, unique names; and those left out, by server and tool, with the reason."""
    left_out: dict[str, dict[str, str]] = {server.name: {} for server, _ in listed}
    kept: list[tuple[McpServer, ListedTool, ToolSettings]] = []
    for server, tools in listed:
        for tool in tools:
            told = server.tools.get(tool.tool, _PLAIN)
            reason = _reason_to_hide(server, tool, told)
            if reason is None:
                kept.append((server, tool, told))
            else:
                left_out[server.name][tool.tool] = reason
    names = unique_names([(server.name, tool.tool, told.alias) for server, tool, told in kept])
    offered = [
        McpTool(
            name,
            server.name,
            tool.tool,
            told.description if told.description is not None else tool.description,
            schema_for(tool.schema, told.arg_mapping),
            tool.title,
            tool.output_schema,
            tool.hints if told.idempotent is None else attrs.evolve(tool.hints, idempotent=told.idempotent),
        )
        for name, (server, tool, told) in zip(names, kept, strict=True)
    ]
    return offered, left_out


def _reason_to_hide(server: McpServer, tool: ListedTool, told: ToolSettings) -> str | None:
    if told.hidden:
        return "the configuration hides it"
    allowed = server.allowed_tools
    if allowed is not None and tool.tool not in allowed and told.alias not in allowed:
        return "it is not among the allowed tools"
    if server.read_only and not tool.hints.is_read_only:
        return "only tools that change nothing are allowed"
    return None


def _deeper_than(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for each in level
            if isinstance(each, Mapping | list)
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


def _refers_elsewhere(value: Any) -> bool:
    """Whether a `$ref` leads out of the schema: a validator that followed it would fetch what the server likes."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            refers = (each.get(key) for key in ("$ref", "$dynamicRef", "$recursiveRef"))
            if any(isinstance(target, str) and not target.startswith("#") for target in refers):
                return True
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
    return False
