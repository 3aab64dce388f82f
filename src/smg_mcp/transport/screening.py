"""The messages that may pass between a server and the mcp package: every message is looked at before the package acts on it.

Above: `stdio`, which reads bytes; `streams`, which passes messages. Below: `catalogue.inventory`, `records.settings`. Pure:
time is an argument. A breach ends the connection; an entry with a fault is taken out of its list, so that one bad tool does not
hide the others. Schemas are kept here. Those of outputs are taken out, since a validator that ran on a server's pattern could
run for ever; those of arguments are where the package would refuse the whole list for them.
"""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from pydantic import BaseModel, ValidationError

from smg_mcp.catalogue.inventory import fault_of_tool, plain_tool
from smg_mcp.records.settings import InventorySettings, McpLimits

__all__ = ["ProtocolBreach", "Screen"]


_LISTS = frozenset({"tools", "resources", "prompts"})
_ENTRIES: Mapping[str, tuple[str, type[BaseModel]]] = {
    "resources/list": ("resources", types.Resource),
    "resources/templates/list": ("resourceTemplates", types.ResourceTemplate),
    "prompts/list": ("prompts", types.Prompt),
}
"""By the method that lists: the field of its result, and what an entry of it is."""


class ProtocolBreach(ValueError):
    """The server broke the protocol or a bound; the text says how."""


class Screen:
    """One connection's messages. Not shared between connections."""

    def __init__(self, limits: McpLimits, inventory: InventorySettings) -> None:
        self._limits = limits
        self._inventory = inventory
        self._asked: dict[object, str] = {}
        self._credit = float(limits.notifications_burst)
        self._filled_at: float | None = None
        self.left_out: dict[str, str] = {}
        self.input_schemas: dict[str, Mapping[str, Any]] = {}
        self.output_schemas: dict[str, Mapping[str, Any]] = {}
        self.changed: set[str] = set()
        """Kinds of lists ("tools", "resources", "prompts") that the server said have changed."""
        self.news: dict[str, int] = dict.fromkeys(_LISTS, 0)
        """By kind, how often it has said so."""

    def asked(self, request_id: object, method: str) -> None:
        """A request goes out."""
        self._asked[_id(request_id)] = method
        if len(self._asked) > self._limits.requests_remembered:
            del self._asked[next(iter(self._asked))]

    def answered(self, request_id: object, result: dict[str, Any] | None) -> None:
        """An answer comes in; a list of tools is changed in place. Raises ProtocolBreach for one to what was never asked."""
        method = self._asked.get(_id(request_id))
        if method is None:
            raise ProtocolBreach("the server answered a request that it was not sent")
        if result is None:
            return
        if method == "tools/list":
            self._screen_tools(result)
        elif method in _ENTRIES:
            field, kind = _ENTRIES[method]
            if isinstance(entries := result.get(field), list):
                result[field] = [each for each in entries if _is_a(kind, each)]
        if method.endswith("/list") and not isinstance(result.get("nextCursor"), str):
            result.pop("nextCursor", None)

    def notified(self, method: str, now: float) -> None:
        """A notification (or a request of the server) comes in at `now`. Raises ProtocolBreach when there are too many."""
        if self._filled_at is not None:
            gained = (now - self._filled_at) * self._limits.notifications_per_s
            self._credit = min(float(self._limits.notifications_burst), self._credit + gained)
        self._filled_at = now
        self._credit -= 1
        if self._credit < 0:
            raise ProtocolBreach(f"the server sent more than {self._limits.notifications_per_s} notifications a second")
        kind, _, event = method.removeprefix("notifications/").partition("/")
        if event == "list_changed" and kind in _LISTS:
            self.heard_of(kind)

    def heard_of(self, kind: str) -> None:
        """The server says that a list of this kind has changed."""
        self.changed.add(kind)
        self.news[kind] += 1

    def _screen_tools(self, result: dict[str, Any]) -> None:
        tools = result.get("tools")
        if not isinstance(tools, list):
            return
        kept: list[dict[str, Any]] = []
        names: set[str] = set()
        for tool in tools:
            fault = fault_of_tool(tool, self._inventory)
            if fault is None and tool["name"] in names:
                fault = "another tool of the list has its name"
            if fault is not None:
                if len(self.left_out) < self._inventory.max_tools:
                    self.left_out[_rendered(tool)] = fault
                continue
            names.add(tool["name"])
            schema = tool.get("outputSchema")
            if isinstance(schema, Mapping):
                self.output_schemas[tool["name"]] = schema
            else:
                self.output_schemas.pop(tool["name"], None)
            plain = plain_tool(tool)
            self.input_schemas[tool["name"]] = plain["inputSchema"]
            if not _is_passed_on(plain["inputSchema"]):
                plain["inputSchema"] = {"type": "object"}
            kept.append(plain)
        result["tools"] = kept


def _is_a(kind: type[BaseModel], entry: Any) -> bool:
    try:
        kind.model_validate(entry, by_name=False)
    except ValidationError:
        return False
    return True


def _is_passed_on(schema: Mapping[str, Any]) -> bool:
    """Whether the package takes the schema of a tool's arguments, whatever the version of the protocol."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    named = isinstance(properties, Mapping) and all(isinstance(each, Mapping) for each in properties.values())
    listed = isinstance(required, list) and all(isinstance(each, str) for each in required)
    return named and listed and isinstance(schema.get("$schema", ""), str)


def _rendered(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name[:128].encode("utf-8", "replace").decode() if isinstance(name, str) and name else "(no name)"


def _id(request_id: object) -> object:
    """An id as it is compared: a number that comes back as text is the same id."""
    return (
        int(request_id) if isinstance(request_id, str) and request_id.isascii() and request_id.isdigit() else request_id
    )
