"""The tools of an Interactions request, and those that may be called.

Functions are offered to the model. Servers of tools are asked where such tools run here; other tools that servers run are taken
and not offered, since nothing here runs them. Pure. Above:
interactions. Below: the wire types, request.
"""

from collections.abc import Sequence

import msgspec

from smg_core.apis.google.mcp import MCP, interaction_server
from smg_core.apis.google.proto_json import proto_value, refuse_no_string
from smg_core.apis.interactions.types import (
    FunctionDeclarationTool,
    InteractionConfig,
)
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import FunctionTool, HostedTool, Tool, ToolChoice
from smg_core.wire.decoding import brief, check_depth, too_many
from smg_core.wire.named_elsewhere import refuse_named
from smg_core.wire.settings import LimitsConfig

__all__ = ["read_interaction_choice", "read_interaction_tools", "tools_not_offered"]

_HOSTED = frozenset(
    {
        "code_execution",
        "computer_use",
        "file_search",
        "google_maps",
        "google_search",
        "mcp_server",
        "retrieval",
        "tool_search",
        "url_context",
    }
)
_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


def read_interaction_tools(
    tools: Sequence[JsonObject],
    config: InteractionConfig,
    limits: LimitsConfig,
    size: int,
    hosted: frozenset[str] = frozenset(),
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The functions that are offered, in order, behind them the servers whose tools run here, and the field of the body for each;
    `size` is the body's, in bytes, `hosted` are the kinds of tools that run here."""
    strict = True if _mode(config)[0] == "validated" else None
    found: list[FunctionTool] = []
    places: list[str] = []
    servers: dict[str, HostedTool] = {}
    for order, tool in enumerate(tools):
        at, kind = f"tools[{order}]", tool.get("type")
        if kind == "mcp_server" and MCP in hosted:
            servers[at] = interaction_server(tool, at, tuple(servers.values()))
            continue
        if isinstance(kind, str) and kind in _HOSTED:
            if kind != "mcp_server":
                refuse_named(tool, at)
            continue
        refuse_no_string(tool, at)
        if kind != "function":
            known = ", ".join(map(repr, ("function", *sorted(_HOSTED))))
            raise InvalidRequest(
                f"Invalid value at '{at}.type': {brief(repr(kind))} is none of {known}.", param=f"{at}.type"
            )
        declared = proto_value(tool, FunctionDeclarationTool, at)
        check_depth([declared.parameters], limits.json_depth, f"{at}.parameters")
        parameters = declared.parameters if declared.parameters is not None else _NO_PARAMETERS
        found.append(FunctionTool(declared.name, declared.description, parameters, strict))
        places.append(at)
    if len(found) > limits.tools:
        raise too_many("tools", len(found), limits.tools, "functions")
    if found and size > limits.schema_bytes:
        _check_size([tool.parameters for tool in found], limits)
    return (*found, *servers.values()), (*places, *servers)


def tools_not_offered(tools: Sequence[JsonObject], hosted: frozenset[str]) -> tuple[str, ...]:
    """The kinds of tools that the model is not offered, each once; `hosted` as for `read_interaction_tools`."""
    kinds = dict.fromkeys(str(tool.get("type")) for tool in tools)
    return tuple(kind for kind in kinds if kind in _HOSTED and not (kind == "mcp_server" and MCP in hosted))


def _mode(config: InteractionConfig) -> tuple[str, Sequence[str]]:
    """The mode of the choice, and the names that it is bound to."""
    asked = config.tool_choice
    if asked is None or isinstance(asked, str):
        return asked or "auto", ()
    allowed = asked.allowed_tools
    return ("auto", ()) if allowed is None else (allowed.mode or "auto", allowed.tools or ())


def read_interaction_choice(config: InteractionConfig, tools: Sequence[Tool]) -> ToolChoice:
    """Which of `tools` may or must be called."""
    mode, names = _mode(config)
    at = "generation_config.tool_choice"
    if mode == "none":
        return ToolChoice("none")
    if mode == "any" and not tools:
        raise InvalidRequest(f"Invalid value at '{at}': any needs functions.", param=at)
    keys = {tool.name: tool.key for tool in tools if isinstance(tool, FunctionTool)}
    for order, name in enumerate(names):
        if name not in keys:
            param = f"{at}.allowed_tools.tools[{order}]"
            raise InvalidRequest(f"Invalid value at '{param}': no function is named \"{brief(name)}\".", param=param)
    return ToolChoice("required" if mode == "any" else "auto", tuple(keys[name] for name in dict.fromkeys(names)))


def _check_size(schemas: object, limits: LimitsConfig) -> None:
    found = len(msgspec.json.encode(schemas))
    if found > limits.schema_bytes:
        raise InvalidRequest(
            f"Invalid value at 'tools': {found} bytes, and at most {limits.schema_bytes} are taken.", param="tools"
        )
