"""The MCP connector of Messages: servers of tools in a request, and the blocks of calls that ran here.

Decides which servers and tools a request names, in the form of today (`mcp_servers` with an `mcp_toolset` for each) and in the
earlier one (`tool_configuration` in the server). A toolset of a name that `mcp_servers` does not have is a server of the
operator. The API has no approvals: a call that needs one, by the operator's policy or the toolset's `permission_policy`, is not
run, and the model is told so.

Pure. Above: messages, messages_encode. Below: the wire types, request.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from smg_core.apis.messages import types as wire
from smg_core.errors import InvalidRequest
from smg_core.events import HostedEnd, HostedStart
from smg_core.json_types import Json, JsonObject
from smg_core.request import HostedTool
from smg_core.wire.decoding import brief, explained

__all__ = ["ServerOfTools", "result_block", "servers_of_tools", "use_block"]

TOOLSET = "mcp_toolset"


class ServerOfTools(Struct, frozen=True):
    """A server of tools and the place of its toolset among the tools; None for one without a toolset."""

    tool: HostedTool
    place: int | None


def servers_of_tools(
    listed: Sequence[JsonObject] | None, tools: Sequence[wire.ToolWire] | None
) -> tuple[ServerOfTools, ...]:
    """The servers that a request names. Raises InvalidRequest, naming the field."""
    servers: dict[str, wire.McpServerWire] = {}
    for order, each in enumerate(listed or ()):
        at = f"mcp_servers[{order}]"
        server = explained(each, wire.McpServerWire, at)
        if server.name in servers:
            raise InvalidRequest(f"{at}.name: two servers are named '{brief(server.name)}'", param=f"{at}.name")
        servers[server.name] = server
    found: list[ServerOfTools] = []
    used: set[str] = set()
    for place, toolset in enumerate(tools or ()):
        if toolset.type != TOOLSET:
            continue
        name = toolset.mcp_server_name
        if name is None or name in used:
            what = "Field required" if name is None else f"two toolsets are of the server '{brief(name)}'"
            raise InvalidRequest(what, param=f"tools[{place}].mcp_server_name")
        used.add(name)
        found.append(ServerOfTools(_server(name, servers.get(name), *_of_toolset(toolset, place)), place))
    for order, (name, server) in enumerate(servers.items()):
        if name in used:
            continue
        if server.tool_configuration is None and used:
            raise InvalidRequest(
                f"The server '{brief(name)}' has no toolset: tools need one of type {TOOLSET} for it.",
                param=f"mcp_servers[{order}].name",
            )
        found.append(ServerOfTools(_server(name, server, _of_configuration(server), _AT_ONCE), None))
    return tuple(found)


_AT_ONCE: JsonObject = {"approval": "never"}
"""All calls run at once, unless the operator's policy says otherwise."""


def _server(
    name: str, server: wire.McpServerWire | None, allowed: JsonObject | None, approval: JsonObject
) -> HostedTool:
    config: dict[str, Json] = {"label": name, "allowed": allowed, **approval}
    if server is not None:
        config |= {"url": server.url, "authorization": server.authorization_token}
    return HostedTool("mcp", config)


def _of_toolset(toolset: wire.ToolWire, place: int) -> tuple[JsonObject, JsonObject]:
    """Which tools a toolset enables, and which of them run at once."""
    at = f"tools[{place}]"
    default = explained(toolset.default_config or {}, wire.McpToolConfig, f"{at}.default_config")
    on, asks = default.enabled is not False, _asks(default)
    enabled: dict[str, bool] = {}
    asked: dict[str, bool] = {}
    for name, each in (toolset.configs or {}).items():
        tool_config = explained(each, wire.McpToolConfig, f"{at}.configs.{name}")
        enabled[name] = on if tool_config.enabled is None else tool_config.enabled
        asked[name] = asks if tool_config.permission_policy is None else _asks(tool_config)
    return _but(on, enabled), {"never": _but(not asks, {name: not each for name, each in asked.items()})}


def _asks(config: wire.McpToolConfig) -> bool:
    return config.permission_policy is not None and config.permission_policy.type == "always_ask"


def _but(default: bool, named: Mapping[str, bool]) -> JsonObject:
    """The filter that takes all tools (`default`) or none, but those that are named as it says there."""
    others: list[Json] = [name for name, taken in named.items() if taken is not default]
    return {"without": others} if default else {"names": others}


def _of_configuration(server: wire.McpServerWire) -> JsonObject | None:
    configuration = server.tool_configuration
    if configuration is None:
        return None
    if configuration.enabled is False:
        return {"names": []}
    return None if configuration.allowed_tools is None else {"names": list(configuration.allowed_tools)}


# -------------------------------------------------------------------------------------------------------------- the encoder


def use_block(event: HostedStart, message_id: str, order: int) -> tuple[JsonObject, str]:
    """The block of a call that begins with `event`, and its arguments as JSON text; `order` is the block's index."""
    payload = _object(event.payload)
    suffix = message_id.partition("_")[2] or message_id
    block: JsonObject = {
        "type": "mcp_tool_use",
        "id": f"mcptoolu_{suffix}{order}",
        "name": payload.get("name"),
        "server_name": payload.get("server"),
        "input": {},
    }
    return block, str(payload.get("arguments") or "{}")


def result_block(event: HostedEnd, use_id: str) -> JsonObject:
    """The block of the result of the call `use_id`."""
    text = str(_object(event.payload).get("text") or "")
    content: list[Json] = [{"type": "text", "text": text, "citations": None}]
    return {"type": "mcp_tool_result", "tool_use_id": use_id, "is_error": event.failed, "content": content}


def _object(payload: bytes) -> Mapping[str, Json]:
    return msgspec.json.decode(payload, type=dict[str, Json]) if payload else {}
