"""The tools of a configuration that stand for built-in tools of LLM APIs: for the web, for code, for pictures.

Above: `tools`. Below: the settings. Pure.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs

from smg_mcp.records.base import ToolHints
from smg_mcp.records.settings import McpServer, WebSettings

__all__ = ["BuiltInKind", "BuiltInTool", "built_in_tools"]

BuiltInKind: TypeAlias = Literal["web_search", "web_fetch", "code", "image"]
_READS = ToolHints(read_only=True, destructive=False, idempotent=True, open_world=True)


@attrs.frozen
class BuiltInTool:
    """The tool of a server that does what a built-in tool of this kind does. `own`: it is one of this package, whose arguments
    and results are known; `hints` are what is known of it before its server is asked."""

    kind: BuiltInKind
    server: McpServer
    tool: str
    own: bool = False
    hints: ToolHints = attrs.field(factory=ToolHints)


def built_in_tools(servers: Sequence[McpServer]) -> tuple[BuiltInTool, ...]:
    """All tools that stand for built-in ones, in the order of the configuration."""
    found: list[BuiltInTool] = []
    for server in servers:
        if server.protocol == "web":
            web = server.web or WebSettings()
            found += [BuiltInTool("web_search", server, "search", True, _READS)] if web.search is not None else []
            found += [BuiltInTool("web_fetch", server, "fetch", True, _READS)] if web.fetch is not None else []
        elif server.protocol == "model":
            found.append(BuiltInTool("image", server, "image_generation", own=True))
        elif server.builtin_type == "image_generation" and server.builtin_tool_name is not None:
            found.append(BuiltInTool("image", server, server.builtin_tool_name))
        elif server.builtin_type == "web_search_preview" and server.builtin_tool_name is not None:
            found.append(BuiltInTool("web_search", server, server.builtin_tool_name))
        elif server.builtin_type == "code_interpreter" and server.builtin_tool_name is not None:
            found.append(BuiltInTool("code", server, server.builtin_tool_name))
    return tuple(found)
