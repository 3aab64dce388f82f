"""The tools and the tool choice of a Messages request.

Tools with a schema are the client's. So are a few that the API names without a schema, since its models know them: they are
offered with the schema that its documentation gives. Tools that a server runs are taken and not offered, unless the choice
demands one: clients send them with every request.

A tool whose loading is deferred is not offered until a search has found it, where the client runs that search: it has a tool for
it, or the conversation has what was found. A search that a server runs is not run here, so that nothing would ever be found: then
all tools are offered at once.

Pure. Above: messages. Below: the wire types, request.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from smg_core.apis.messages import types as wire
from smg_core.apis.messages.built_in import built_in_kind, built_in_label, read_server_tool
from smg_core.apis.messages.content import mark_of
from smg_core.apis.messages.mcp import ServerOfTools
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.request import FunctionTool, HostedTool, ToolChoice, ToolKey
from smg_core.wire.decoding import brief, check_depth, too_many
from smg_core.wire.settings import LimitsConfig

__all__ = ["OfferedTools", "read_tool_choice", "read_tools", "with_servers"]


def _schema(required: list[str], **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required}


_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "integer"}
_RANGE: JsonObject = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
_BASH = _schema([], command=_TEXT, restart={"type": "boolean"})
_EDITOR = _schema(
    ["command", "path"],
    command={"type": "string", "enum": ["view", "str_replace", "create", "insert"]},
    path=_TEXT,
    view_range=_RANGE,
    old_str=_TEXT,
    new_str=_TEXT,
    file_text=_TEXT,
    insert_line=_NUMBER,
    insert_text=_TEXT,
)
_MEMORY = _schema(
    ["command"],
    command={"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
    path=_TEXT,
    view_range=_RANGE,
    file_text=_TEXT,
    old_str=_TEXT,
    new_str=_TEXT,
    insert_line=_NUMBER,
    insert_text=_TEXT,
    old_path=_TEXT,
    new_path=_TEXT,
)
_POINT: JsonObject = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
_COMPUTER = _schema(
    ["action"],
    action={
        "type": "string",
        "enum": [
            *("screenshot", "left_click", "right_click", "middle_click", "double_click", "triple_click"),
            *("left_click_drag", "left_mouse_down", "left_mouse_up", "mouse_move", "cursor_position", "scroll"),
            *("type", "key", "hold_key", "wait", "zoom"),
        ],
    },
    coordinate=_POINT,
    start_coordinate=_POINT,
    text=_TEXT,
    scroll_direction={"type": "string", "enum": ["up", "down", "left", "right"]},
    scroll_amount=_NUMBER,
    duration={"type": "number"},
    region={"type": "array", "items": _NUMBER, "minItems": 4, "maxItems": 4},
)
_CLIENT_TOOLS: Mapping[str, tuple[str, JsonObject]] = {
    "bash_": ("Run a command in a persistent bash shell, or restart the shell.", _BASH),
    "text_editor_": ("View, create and edit files.", _EDITOR),
    "computer_20": ("Act on the computer once; its screen is given back.", _COMPUTER),
    "memory_": ("View, create and edit files of the memory directory /memories.", _MEMORY),
}
"""By how their types begin: the tools that the client runs and gives no schema of."""
_SERVER_SEARCH = "tool_search_tool_"
_HOSTED = ("web_search_", "web_fetch_", "code_execution_", _SERVER_SEARCH, "mcp_toolset", "advisor_")
"""How the types of tools begin that a server runs."""
_SEARCH = re.compile(r"tools?[_-]?search|search[_-]?tools?", re.IGNORECASE)
"""What the names of tools have in them with which clients search for tools, such as `ToolSearch` of Claude Code. Where a name is
missed, more tools are offered than need be; where it is taken wrongly, deferred tools are out of reach."""


class OfferedTools(msgspec.Struct, frozen=True):
    """The tools of a request: those that are offered, the place of each in the body, and the names of those that a server
    runs; `servers` are those whose tools run here; `kinds` the types of all that a server runs, each once, and
    `built_in` the names of server tools that run here."""

    tools: tuple[FunctionTool, ...] = ()
    places: tuple[int, ...] = ()
    hosted: frozenset[str] = frozenset()
    servers: tuple[HostedTool, ...] = ()
    kinds: tuple[str, ...] = ()
    built_in: frozenset[str] = frozenset()

    def with_uploads(self, files: tuple[str, ...]) -> "OfferedTools":
        """The tools, of which that for code has these files in its container."""
        if "code" not in self.built_in:
            return self
        servers = [
            msgspec.structs.replace(each, config={**each.config, "built_in": {**asked, "files": [*files]}})
            if isinstance(asked := each.config.get("built_in"), dict) and asked["kind"] == "code"
            else each
            for each in self.servers
        ]
        return msgspec.structs.replace(self, servers=tuple(servers))

    @property
    def not_offered(self) -> tuple[str, ...]:
        """The types of tools that are not offered."""
        runs = len(self.servers) > len(self.built_in)
        return tuple(kind for kind in self.kinds if not (runs and kind == "mcp_toolset"))


def with_servers(offered: OfferedTools, servers: Sequence[ServerOfTools]) -> OfferedTools:
    """The tools with the servers whose tools run here behind them."""
    if not servers:
        return offered
    places = tuple(-1 if server.place is None else server.place for server in servers)
    return msgspec.structs.replace(
        offered,
        servers=(*offered.servers, *(server.tool for server in servers)),
        places=(*offered.places, *places),
    )


def read_tools(
    listed: Sequence[wire.ToolWire] | None,
    found: Collection[str],
    needed: Collection[str],
    limits: LimitsConfig,
    size: int,
    runs_here: frozenset[str] = frozenset(),
    container: str = "",
) -> OfferedTools:
    """The tools; `found` are the names that a search of the client has found in the conversation, `needed` those that were called
    in it or are demanded; `size` is the body's, in bytes; `runs_here` are the kinds of tools that run here,
    `container` is that of the request's code."""
    if not listed:
        return OfferedTools()
    if len(listed) > limits.tools:
        raise too_many("tools", len(listed), limits.tools, "tools")
    tools: list[FunctionTool] = []
    places: list[int] = []
    hosted: set[str] = set()
    kinds: dict[str, None] = {}
    names: set[str] = set()
    waits = bool(found) or _client_searches(listed)
    built_in: dict[int, HostedTool] = {}
    for place, tool in enumerate(listed):
        if tool.type is not None and tool.type.startswith(_HOSTED):
            at, runs = f"tools[{place}]", built_in_kind(tool.type) in runs_here
            server = read_server_tool(tool, at, container) if runs else None
            if server is not None:
                _take_name(tool.name or "", place, names)
                built_in[place] = server
                continue
            hosted.add(tool.name or tool.type)
            kinds[tool.type] = None
            continue
        made = _tool(tool, f"tools[{place}]")
        _take_name(made.name, place, names)
        if not (made.deferred and waits) or made.name in found or made.name in needed:
            tools.append(made)
            places.append(place)
    schemas = [tool.parameters for tool in tools]
    check_depth(schemas, limits.json_depth, "tools")
    if size > limits.schema_bytes and (taken := len(msgspec.json.encode(schemas))) > limits.schema_bytes:
        raise InvalidRequest(
            f"The schemas have {taken} bytes, and at most {limits.schema_bytes} are taken.", param="tools"
        )
    return OfferedTools(
        tuple(tools),
        (*places, *built_in),
        frozenset(hosted),
        tuple(built_in.values()),
        tuple(kinds),
        frozenset([str(server.config["label"]) for server in built_in.values()]),
    )


def _take_name(name: str, place: int, taken: set[str]) -> None:
    if name in taken:
        raise InvalidRequest("Tool names must be unique.", param=f"tools[{place}].name")
    taken.add(name)


def _client_searches(listed: Sequence[wire.ToolWire]) -> bool:
    """Whether one of the client's tools is to find those that are deferred, and none that a server runs."""
    if any(tool.type is not None and tool.type.startswith(_SERVER_SEARCH) for tool in listed):
        return False
    own = [tool.name for tool in listed if tool.type in (None, "custom") and not tool.defer_loading]
    return any(name is not None and _SEARCH.search(name) for name in own)


def _tool(tool: wire.ToolWire, at: str) -> FunctionTool:
    kind = tool.type or "custom"
    known = next((row for start, row in _CLIENT_TOOLS.items() if kind.startswith(start)), None)
    if kind != "custom" and known is None:
        raise UnsupportedParameter(f"Tools of type '{brief(kind)}' cannot be used on this server.", param=f"{at}.type")
    if not tool.name:
        raise InvalidRequest("Field required", param=f"{at}.name")
    description, parameters = tool.description, tool.input_schema
    if known is not None:
        description, parameters = description or known[0], parameters or known[1]
        if tool.display_width_px and tool.display_height_px:
            description += f" Its display has {tool.display_width_px} x {tool.display_height_px} pixels."
    elif parameters is None:
        raise InvalidRequest("Field required", param=f"{at}.input_schema")
    if tool.input_examples:
        examples = "\n".join(msgspec.json.encode(example).decode() for example in tool.input_examples)
        description = f"{description or ''}\n\nExamples of its input:\n{examples}".strip()
    return FunctionTool(
        tool.name,
        description,
        parameters,
        tool.strict,
        deferred=tool.defer_loading is True,
        cache=mark_of(tool.cache_control),
    )


def read_tool_choice(choice: wire.ToolChoiceWire | None, offered: OfferedTools) -> ToolChoice:
    """Which of the tools may or must be called."""
    if choice is None:
        return ToolChoice()
    parallel = None if choice.disable_parallel_tool_use is None else not choice.disable_parallel_tool_use
    if choice.type in ("auto", "none"):
        return ToolChoice("auto" if choice.type == "auto" else "none", (), parallel)
    if choice.type == "any":
        if not offered.tools and not offered.servers:
            raise _no_tool(offered)
        return ToolChoice("required", (), parallel)
    if (label := built_in_label(choice.name)) in offered.built_in:
        return ToolChoice("required", (ToolKey("", label, "mcp"),), parallel)
    if choice.name in offered.hosted:
        raise UnsupportedParameter(
            f"The tool '{brief(choice.name or '')}' is run by a server, and this one cannot.", param="tool_choice.name"
        )
    if not any(tool.name == choice.name for tool in offered.tools):
        raise InvalidRequest(f"Tool '{brief(choice.name or '')}' not found in provided tools", param="tool_choice.name")
    return ToolChoice("required", (ToolKey(choice.name or ""),), parallel)


def _no_tool(offered: OfferedTools) -> InvalidRequest:
    if offered.hosted:
        return UnsupportedParameter("None of these tools can be run by this server.", param="tool_choice.type")
    return InvalidRequest("tool_choice may only be specified while providing tools.", param="tool_choice")
