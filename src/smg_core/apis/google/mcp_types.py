"""Servers of tools in the bodies of Google's APIs, as types for msgspec."""

from typing import Literal

from msgspec import Struct

__all__ = ["AllowedTools", "GeminiMcpServer", "InteractionMcpServer", "McpTransport"]


class McpTransport(Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    """How a server of tools is reached."""

    url: str | None = None
    headers: dict[str, str] | None = None
    timeout: str | None = None
    sse_read_timeout: str | None = None
    terminate_on_close: bool | None = None


class GeminiMcpServer(Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    """A server of tools."""

    name: str | None = None
    streamable_http_transport: McpTransport | None = None


class AllowedTools(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    mode: Literal["auto", "any", "none", "validated"] | None = None
    tools: list[str] | None = None


class InteractionMcpServer(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """A server of tools."""

    type: Literal["mcp_server"]
    name: str | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[AllowedTools] | None = None
