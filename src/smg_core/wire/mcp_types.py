"""The common types of Responses and the extension of Chat for a server of tools: which of its tools are meant, and which need
approval.

Keys that a type does not have are passed over, as in the tools of Responses. Above: the wire types of both APIs. Below: msgspec.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from smg_core.errors import UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.request import HostedTool

__all__ = ["HostedServerFields", "McpApproval", "McpToolFilter", "hosted_server"]


class McpToolFilter(Struct, gc=False):
    """Tools of these names, and of them those that only read (True) or that may write (False)."""

    tool_names: list[str] | None = None
    read_only: bool | None = None


class McpApproval(Struct, gc=False):
    """The tools whose calls always need approval, and those whose calls never do."""

    always: McpToolFilter | None = None
    never: McpToolFilter | None = None


class HostedServerFields(Protocol):
    """The fields of a server of tools, in Responses and in the extension of Chat."""

    @property
    def server_label(self) -> str: ...
    @property
    def server_url(self) -> str | None: ...
    @property
    def connector_id(self) -> str | None: ...
    @property
    def authorization(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str] | None: ...
    @property
    def allowed_tools(self) -> list[str] | McpToolFilter | None: ...
    @property
    def require_approval(self) -> Literal["always", "never"] | McpApproval | None: ...


def hosted_server(server: HostedServerFields, at: str) -> HostedTool:
    """The server of tools that was read at `at`. Raises UnsupportedParameter."""
    if server.connector_id is not None:
        raise UnsupportedParameter(
            f"Unsupported parameter: '{at}.connector_id' is not supported on this server.", param=f"{at}.connector_id"
        )
    config: dict[str, Json] = {
        "label": server.server_label,
        "url": server.server_url,
        "authorization": server.authorization,
        "headers": dict(server.headers or {}),
    }
    if isinstance(server.allowed_tools, list):
        config["allowed"] = {"names": list(server.allowed_tools)}
    elif server.allowed_tools is not None:
        config["allowed"] = _filter(server.allowed_tools)
    asked = server.require_approval
    if isinstance(asked, McpApproval):
        config["always"] = _filter(asked.always)
        config["never"] = _filter(asked.never)
    else:
        config["approval"] = asked or "always"
    return HostedTool("mcp", config)


def _filter(asked: McpToolFilter | None) -> JsonObject | None:
    if asked is None:
        return None
    return {"names": None if asked.tool_names is None else list(asked.tool_names), "read_only": asked.read_only}
