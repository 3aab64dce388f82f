"""The tools, the tool choice and the text format of a Responses request.

Tools of namespaces are offered under one flat name each (`responses_names`). Tools that servers run are taken and echoed, and the
model is not offered them while nothing here can run them; a choice that demands one is refused by its name, and so is a named
tool that the request does not have. Pure. Above: responses. Below: the wire types, request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.responses.wire import types as wire
from smg_core.apis.responses.wire.built_in import BUILT_IN, earlier_container, read_built_in
from smg_core.apis.responses.wire.client_tools import CLIENT_ITEMS, client_function, is_client_tool
from smg_core.apis.responses.wire.mcp import read_server
from smg_core.apis.responses.wire.names import OfferedTool, ToolNames
from smg_core.apis.responses.wire.pictures import pictures_in
from smg_core.built_in import built_in_tool
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.request import (
    CustomTool,
    FunctionTool,
    HostedTool,
    JsonFormat,
    ResponseFormat,
    SchemaFormat,
    TextFormat,
    Tool,
    ToolChoice,
    ToolKey,
)
from smg_core.wire.decoding import brief, check_depth, explained, no_kind, too_many
from smg_core.wire.named_elsewhere import refuse_named
from smg_core.wire.settings import LimitsConfig

__all__ = ["HOSTED", "NO_TOOLS", "ReadTools", "read_format", "read_tool_choice", "read_tools"]

HOSTED = frozenset(
    {
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
        "file_search",
        "code_interpreter",
        "image_generation",
        "mcp",
        "programmatic_tool_calling",
        "shell",
    }
)
"""Types of tools that a server runs: where none here does, they are taken, echoed and not offered to the model. A shell is one
where it is in a container."""


class ReadTools(Struct, frozen=True):
    """`offered` is what the model is told of; `names` what their names stand for; `not_offered` the types that it is not;
    `servers` the servers whose tools run here."""

    offered: tuple[Tool, ...]
    names: ToolNames
    not_offered: tuple[str, ...] = ()
    servers: tuple[HostedTool, ...] = ()

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the servers whose tools run here."""
        return frozenset([str(server.config["label"]) for server in self.servers if not _is_built_in(server)])

    @property
    def built_in(self) -> frozenset[str]:
        """The kinds of built-in tools that run here."""
        return frozenset([str(server.config["label"]) for server in self.servers if _is_built_in(server)])

    def with_found(self, items: Sequence[JsonObject]) -> "ReadTools":
        """The tools, of which those for pictures and code have what earlier turns have left for them: pictures, a container."""
        finds: dict[str, Callable[[], JsonObject]] = {
            "image": lambda: {"pictures": [*pictures_in(items)]},
            "code": lambda: {"earlier": earlier_container(items)},
        }
        if self.built_in.isdisjoint(finds):
            return self
        servers = [
            replace(server, config={**server.config, "built_in": {**asked, **find()}})
            if isinstance(asked := server.config.get("built_in"), dict) and (find := finds.get(str(asked["kind"])))
            else server
            for server in self.servers
        ]
        return replace(self, servers=tuple(servers))

    @property
    def all(self) -> tuple[Tool, ...]:
        """What is offered, and the servers behind it."""
        return (*self.offered, *self.servers)


def _is_built_in(server: HostedTool) -> bool:
    return server.config.get("built_in") is not None


NO_TOOLS = ReadTools((), ToolNames())


def read_tools(
    tools: Iterable[tuple[str, JsonObject]], limits: LimitsConfig, size: int, hosted: frozenset[str] = frozenset()
) -> ReadTools:
    """`tools` with the field that each stands in; `size` is the body's, in bytes; `hosted` are the types that run here. Two
    tools of one name are refused, but one that an item brings takes the place of an earlier one, since items may bring tools
    again. Where the model can search for tools, those that are to be loaded later are offered once a search has found them."""
    tools = list(tools)
    searches = any(tool.get("type") == "tool_search" for _, tool in tools)
    names = ToolNames()
    found: dict[str, Tool] = {}
    left: dict[str, None] = {}
    servers: dict[str, HostedTool] = {}
    for at, tool in tools:
        kind = str(tool.get("type"))
        if not is_client_tool(tool) and (BUILT_IN.get(kind) in hosted or kind in hosted or kind in HOSTED):
            if _hosted_tool(kind, tool, at, servers, hosted):
                names.add_server(at)
            elif (kind != "mcp" or kind not in hosted) and f"built-in {BUILT_IN.get(kind)}" not in servers:
                left[kind] = None
            continue
        if kind == "namespace":
            group = explained(tool, wire.NamespaceTool, at)
            members = [(f"{at}.tools[{order}]", each, group.name) for order, each in enumerate(group.tools or ())]
        else:
            members = [(at, tool, "")]
        for where, each, namespace in members:
            if searches and each.get("defer_loading") is True and where.startswith("tools["):
                continue
            offered, made = _tool(each, where, namespace or None)
            flat = names.add(offered)
            if flat in found and where.startswith("tools["):
                raise InvalidRequest(
                    f"Invalid '{where}.name': two tools are named '{flat}', and a model calls tools by their names.",
                    param=f"{where}.name",
                    code="invalid_value",
                )
            found[flat] = made(flat)
    if len(found) > limits.tools:
        raise too_many("tools", len(found), limits.tools, "tools")
    schemas = [tool.grammar if isinstance(tool, CustomTool) else _parameters(tool) for tool in found.values()]
    check_depth(schemas, limits.json_depth, "tools")
    if size > limits.schema_bytes and (taken := len(msgspec.json.encode(schemas))) > limits.schema_bytes:
        raise _too_large("tools", taken, limits)
    return ReadTools(tuple(found.values()), names, tuple(left), tuple(servers.values()))


def _add_server(servers: dict[str, HostedTool], tool: JsonObject, at: str) -> bool:
    """Take in a server of tools; returns whether its label is new. Raises InvalidRequest for a second one of the same label,
    unless an item brings it again."""
    server = read_server(tool, at)
    label = str(server.config["label"])
    if label in servers and at.startswith("tools["):
        raise InvalidRequest(
            f"Invalid '{at}.server_label': two servers are named '{label}'.", param=f"{at}.server_label"
        )
    is_new = label not in servers
    servers[label] = server
    return is_new


def _hosted_tool(kind: str, tool: JsonObject, at: str, servers: dict[str, HostedTool], hosted: frozenset[str]) -> bool:
    """Take in a tool that a server runs; returns whether it runs here and is new. A built-in one that was listed before is taken
    as it was then."""
    if BUILT_IN.get(kind) in hosted:
        asked = read_built_in(tool, at, hosted)
        if asked is None or (key := f"built-in {asked.kind}") in servers:
            return False
        servers[key] = built_in_tool(asked)
        return True
    if kind in hosted:
        return _add_server(servers, tool, at)
    if kind != "mcp":
        refuse_named(tool, at)
    return False


def _parameters(tool: Tool) -> object:
    return tool.parameters if isinstance(tool, FunctionTool) else None


def _too_large(at: str, taken: int, limits: LimitsConfig) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid '{at}': {taken} bytes, and at most {limits.schema_bytes} are taken.",
        param=at,
        code="string_above_max_length",
    )


def _tool(tool: JsonObject, at: str, namespace: str | None) -> tuple[OfferedTool, Callable[[str], Tool]]:
    """What the tool is on the wire, and what makes the record of it, given its name before the model."""
    kind = tool.get("type")
    if kind == "function":
        function = explained(tool, wire.FunctionTool, at)
        if function.async_:
            raise _unsupported(f"{at}.async", " with the value true")
        if function.allowed_callers is not None and "direct" not in function.allowed_callers:
            raise _unsupported(f"{at}.allowed_callers", " without 'direct'")
        return OfferedTool(function.name, namespace, at=at), lambda flat: FunctionTool(
            flat, function.description, function.parameters, function.strict
        )
    if kind == "custom":
        custom = explained(tool, wire.CustomTool, at)
        grammar = _grammar(custom.format, f"{at}.format")
        return OfferedTool(custom.name, namespace, "custom", at), lambda flat: CustomTool(
            flat, custom.description, *grammar
        )
    if kind == "tool_search" and namespace is None:
        search = explained(tool, wire.ToolSearchTool, at)
        if search.execution != "client":
            raise _unsupported(f"{at}.execution", " with anything but 'client'")
        return OfferedTool("tool_search", None, "tool_search", at), lambda flat: FunctionTool(
            flat, search.description, search.parameters
        )
    if not isinstance(kind, str):
        raise no_kind(tool, at)
    if namespace is None and is_client_tool(tool):
        explained(tool, wire.BuiltInClientTool, at)
        return OfferedTool(CLIENT_ITEMS[kind].name, None, kind, at), lambda flat: client_function(tool, flat)
    known = ", ".join(
        map(repr, ["function", "custom", "namespace", "tool_search", *sorted(HOSTED | set(CLIENT_ITEMS))])
    )
    raise InvalidRequest(
        f"Invalid value for '{at}.type': {brief(repr(kind))}. Supported values are: {known}.",
        param=f"{at}.type",
        code="invalid_value",
    )


def _grammar(asked: wire.GrammarSyntax | None, at: str) -> tuple[()] | tuple[str, str]:
    if asked is None or asked.type == "text":
        return ()
    if asked.syntax is None or asked.definition is None:
        missing = "syntax" if asked.syntax is None else "definition"
        raise InvalidRequest(
            f"Missing required parameter: '{at}.{missing}'.",
            param=f"{at}.{missing}",
            code="missing_required_parameter",
        )
    return asked.syntax, asked.definition


def _unsupported(param: str, how: str = "") -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported on this server{how}.", param=param)


# --------------------------------------------------------------------------------------------------------------- choices


def read_tool_choice(asked: str | JsonObject | None, parallel: bool | None, tools: ReadTools) -> ToolChoice:
    """Which tools may or must be called. Raises where one is demanded that the model is not offered."""
    if asked is None or asked in ("auto", "none"):
        return ToolChoice("none" if asked == "none" else "auto", (), parallel)
    if isinstance(asked, str):
        if not tools.all:
            _nothing_to_call(tools)
        return ToolChoice("required", (), parallel)
    if asked.get("type") == "allowed_tools":
        allowed = explained(asked, wire.AllowedTools, "tool_choice")
        keys = [
            key
            for order, one in enumerate(allowed.tools)
            if (key := _chosen(one, tools, f"tool_choice.tools[{order}]", demanded=False)) is not None
        ]
        if not keys:
            raise InvalidRequest("'tool_choice' allows no tool that can be called here.", param="tool_choice.tools")
        return ToolChoice(allowed.mode, tuple(keys), parallel)
    named = explained(asked, wire.NamedChoice, "tool_choice")
    key = _chosen(named, tools, "tool_choice", demanded=True)
    return ToolChoice("required", () if key is None else (key,), parallel)


def _nothing_to_call(tools: ReadTools) -> NoReturn:
    what = f": tools of type '{tools.not_offered[0]}' cannot be called here" if tools.not_offered else ""
    raise InvalidRequest(f"'tool_choice' demands a call, and there is no tool to call{what}.", param="tool_choice")


def _chosen(choice: wire.NamedChoice, tools: ReadTools, at: str, *, demanded: bool) -> ToolKey | None:
    if choice.type == "mcp" and choice.server_label in tools.labels:
        return ToolKey(choice.name or "", choice.server_label, "mcp")
    if (kind := BUILT_IN.get(choice.type, "")) in tools.built_in:
        return ToolKey("", kind, "mcp")
    if (client := tools.names.built_in(choice.type)) is not None:
        return ToolKey(client)
    if choice.type in HOSTED or choice.type in CLIENT_ITEMS:
        if demanded:
            raise _unsupported(f"{at}.type", f" with the value '{choice.type}': such a tool cannot be called here")
        return None
    if choice.type == "tool_search":
        name: str | None = "tool_search"
    elif choice.type in ("function", "custom"):
        name = choice.name
    else:
        raise InvalidRequest(f"Invalid value for '{at}.type': {brief(repr(choice.type))}.", param=f"{at}.type")
    if name is None:
        raise InvalidRequest(
            f"Missing required parameter: '{at}.name'.", param=f"{at}.name", code="missing_required_parameter"
        )
    flat = tools.names.flat(name, choice.namespace)
    for tool in tools.offered:
        if isinstance(tool, FunctionTool | CustomTool) and tool.name == flat:
            return tool.key
    raise InvalidRequest(
        f"Invalid value for '{at}.name': no tool is named '{brief(name)}'.", param=f"{at}.name", code="invalid_value"
    )


# --------------------------------------------------------------------------------------------------------------- formats

_FORMATS: Mapping[str, ResponseFormat] = {"text": TextFormat(), "json_object": JsonFormat()}


def read_format(asked: wire.JsonSchemaText | None, limits: LimitsConfig, size: int) -> ResponseFormat:
    """What `text.format` holds the answer to; `size` is the body's, in bytes."""
    if asked is None or asked.type != "json_schema":
        return _FORMATS["text" if asked is None else asked.type]
    at = "text.format"
    for name in ("name", "schema"):
        if getattr(asked, name) is None:
            raise InvalidRequest(
                f"Missing required parameter: '{at}.{name}'.", param=f"{at}.{name}", code="missing_required_parameter"
            )
    name = asked.name or ""
    if not (name.isascii() and name.replace("_", "x").replace("-", "x").isalnum()):
        raise InvalidRequest(
            f"Invalid '{at}.name': it may hold letters, digits, underscores and dashes only.",
            param=f"{at}.name",
            code="invalid_value",
        )
    schema = asked.schema or {}
    check_depth([schema], limits.json_depth, f"{at}.schema")
    if size > limits.schema_bytes and (taken := len(msgspec.json.encode(schema))) > limits.schema_bytes:
        raise _too_large(f"{at}.schema", taken, limits)
    strength: Literal["bound", "wished"] = "wished" if asked.strict is None else "bound"
    return SchemaFormat(schema, name, asked.description, asked.strict is not False, strength)
