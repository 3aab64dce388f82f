"""Opens the tools that run here, where the settings have any (edge): what speaks to MCP servers is loaded then.

Decides which kinds of tools these are. Above: `gateway.assembly`, which opens them at the start; the handlers, which ask for the
kinds. Below: `hosted` and smg_mcp.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from smg_core.clock import Clock
from smg_core.errors import ToolServerFailed
from smg_core.extras import missing
from smg_core.history.store.base import Store
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.calls import Takes, ToolCalling, ToolListing
from smg_core.pipeline.tools.hosted import CallTools, ListTools
from smg_core.settings import ConfigError

__all__ = ["hosted_kinds", "hosted_tools"]


def hosted_kinds(settings: McpConfig, api: str = "") -> frozenset[str]:
    """The kinds of tools that run here by the settings, for requests of the API of this name."""
    if api == "chat" and not settings.chat:
        return frozenset()
    return frozenset({"mcp"}) if settings.config is not None or settings.request_servers else frozenset()


@asynccontextmanager
async def hosted_tools(
    settings: McpConfig, history: Store, clock: Clock, takes: Takes
) -> AsyncIterator[Mapping[type[Any], Any]]:
    """The performers of the steps of tools that run here, while they may be used; none where they are switched off. Raises
    ConfigError where the file cannot be read or says what cannot be, or where the extra is not installed, and ToolServerFailed
    where a server that is required cannot be reached."""
    if not hosted_kinds(settings):
        yield {}
        return
    try:
        import smg_mcp
        from smg_core.tools.hosted import HostedTools, noted
        from smg_mcp.records.errors import McpConfigError, McpError

        _ = smg_mcp.McpTools  # loads what its packages need
    except ModuleNotFoundError as error:
        raise ConfigError(missing("mcp", error, "mcp")) from None
    try:
        tools = smg_mcp.McpTools.from_config(settings.config or {"servers": []}, audit=noted)
        async with tools:
            service = HostedTools(tools, settings, history, clock)
            yield {
                ListTools: ToolListing(service),
                CallTools: ToolCalling(service, clock, settings, takes),
            }
    except McpConfigError as error:
        raise ConfigError(str(error)) from error
    except McpError as error:
        raise ToolServerFailed(str(error)) from error
