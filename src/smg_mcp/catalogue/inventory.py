"""The offers of a server, as models get them: checked, renamed, filtered by who asks.

Above: `sessions.session` (lists), `tools` (names across servers). Below: `arguments`, `naming`, `records.settings`. Pure.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from smg_mcp.catalogue.arguments import schema_for
from smg_mcp.catalogue.naming import unique_names
from smg_mcp.catalogue.schemas import readable_schema
from smg_mcp.records.base import McpTool, ToolHints
from smg_mcp.records.settings import InventorySettings, McpServer, ToolSettings

__all__ = ["ListedTool", "fault_of_tool", "offered_tools", "plain_tool", "server_serves", "tools_of"]

_PLAIN = ToolSettings()


@attrs.frozen
class ListedTool:
    """A tool as its server lists it. `schema` is the server's own where it can be read; `unconstrained` says what is wrong with
    one that cannot."""

    tool: str
    description: str
    schema: Mapping[str, Any]
    title: str | None = None
    output_schema: Mapping[str, Any] | None = None
    hints: ToolHints = attrs.field(factory=ToolHints)
    unconstrained: str | None = None


def fault_of_tool(raw: Any, settings: InventorySettings) -> str | None:
    """What is wrong with a tool of a server's list, so that it cannot be offered; None if nothing is."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str) or not raw["name"]:
        return "it has no name"
    if len(raw["name"]) > settings.name_chars:
        return f"its name has more than {settings.name_chars} characters"
    if not _is_text(raw["name"]):
        return "its name is no text"
    schema = raw.get("inputSchema")
    if not isinstance(schema, Mapping):
        return "its inputSchema is no object"
    if schema.get("type", "object") != "object":
        return "its inputSchema does not describe an object"
    for key in ("properties", "$defs", "definitions"):
        if not isinstance(schema.get(key, {}), Mapping):
            return f"{key} of its inputSchema is no object"
    return _fault_of_schema(schema, settings) or _fault_of_schema(raw.get("outputSchema"), settings)


def _fault_of_schema(schema: Any, settings: InventorySettings) -> str | None:
    try:
        size, text = len(json.dumps(schema)), json.dumps(schema, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "its schema is nested too deeply"
    if size > settings.schema_bytes:
        return f"its schema has more than {settings.schema_bytes} bytes"
    if _deeper_than(schema, settings.schema_depth):
        return f"its schema is nested more than {settings.schema_depth} deep"
    if not _is_text(text):
        return "its schema has what is no text"
    return "its schema refers to another document" if _refers_elsewhere(schema) else None


def tools_of(raw: Iterable[Mapping[str, Any]], settings: InventorySettings) -> list[ListedTool]:
    """The records of a list without faults (`fault_of_tool`). A thousand take some 50 ms, so this belongs in a thread."""
    found = []
    for each in raw:
        schema, fault = readable_schema({"type": "object", **each["inputSchema"]})
        stated = each.get("annotations")
        annotations: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
        found.append(
            ListedTool(
                each["name"],
                str(each.get("description") or "")[: settings.description_chars],
                schema,
                each.get("title") if isinstance(each.get("title"), str) else None,
                each.get("outputSchema") if isinstance(each.get("outputSchema"), Mapping) else None,
                ToolHints(*(_hint(annotations, f"{name}Hint") for name in _HINTS)),
                fault,
            )
        )
    return found


def plain_tool(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A tool without faults as it is handed on: what it says beside its name and its schema is left out where it is of the wrong
    type, and characters that are none are replaced."""
    found: dict[str, Any] = {"name": raw["name"], "inputSchema": {"type": "object", **raw["inputSchema"]}}
    for key in ("title", "description"):
        if isinstance(raw.get(key), str):
            found[key] = _as_text(raw[key])
    annotations = raw.get("annotations")
    if isinstance(annotations, Mapping):
        hints = {f"{name}Hint": _hint(annotations, f"{name}Hint") for name in _HINTS}
        found["annotations"] = {key: value for key, value in hints.items() if value is not None}
    return found


def _is_text(value: str) -> bool:
    """Whether a string has no half of a character, which no answer could carry, nor the sign that was put in place of one."""
    return value.isascii() or ("\ufffd" not in value and _as_text(value) == value)


def _as_text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


_HINTS = ("readOnly", "destructive", "idempotent", "openWorld")


def _hint(annotations: Mapping[str, Any], key: str) -> bool | None:
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
            settings = server.tools.get(tool.tool, _PLAIN)
            reason = _reason_to_hide(server, tool, settings)
            if reason is None:
                kept.append((server, tool, settings))
            else:
                left_out[server.name][tool.tool] = reason
    names = unique_names([(server.name, tool.tool, settings.alias) for server, tool, settings in kept])
    offered = [
        McpTool(
            name,
            server.name,
            tool.tool,
            settings.description if settings.description is not None else tool.description,
            schema_for(tool.schema, settings.arg_mapping),
            tool.title,
            tool.output_schema,
            tool.hints if settings.idempotent is None else attrs.evolve(tool.hints, idempotent=settings.idempotent),
        )
        for name, (server, tool, settings) in zip(names, kept, strict=True)
    ]
    return offered, left_out


def _reason_to_hide(server: McpServer, tool: ListedTool, settings: ToolSettings) -> str | None:
    if settings.hidden:
        return "the configuration hides it"
    allowed = server.allowed_tools
    if allowed is not None and tool.tool not in allowed and settings.alias not in allowed:
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
