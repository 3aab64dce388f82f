"""Opens the tools that run here, where the settings have any (edge): what speaks to MCP servers is loaded then.

Decides which kinds of tools these are. Above: `gateway.assembly`, which opens them at the start; the handlers, which ask for the
kinds. Below: `hosted` and smg_mcp.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from smg_core.clock import Clock
from smg_core.errors import ToolServerFailed
from smg_core.history.store.base import Store
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.calls import Takes, ToolCalling, ToolListing
from smg_core.pipeline.tools.hosted import CallTools, ListTools
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_mcp.functions.signature import PythonTool

__all__ = ["ToolFunctions", "hosted_kinds", "hosted_tools"]

ToolFunctions: TypeAlias = "Sequence[Callable[..., Any] | PythonTool]"
"""What a program gives as tools: functions, or records that say more of one."""


def hosted_kinds(settings: McpConfig, api: str = "", functions: ToolFunctions = ()) -> frozenset[str]:
    """The kinds of tools that run here by the settings, for requests of the API of this name. `functions` are those that the
    program gives."""
    if api == "chat" and not settings.chat:
        return frozenset()
    runs = settings.config is not None or settings.request_servers or bool(functions)
    return frozenset({"mcp"}) if runs else frozenset()


@asynccontextmanager
async def hosted_tools(
    settings: McpConfig, history: Store, clock: Clock, takes: Takes, functions: ToolFunctions = ()
) -> AsyncIterator[Mapping[type[Any], Any]]:
    """The performers of the steps of tools that run here, while they may be used; none where they are switched off. `functions`
    are tools that the program gives: Python functions, or records of smg_mcp of such. Raises
    ConfigError where the file cannot be read or says what cannot be, or where the extra is not installed, and ToolServerFailed
    where a server that is required cannot be reached."""
    if not hosted_kinds(settings, functions=functions):
        yield {}
        return
    import smg_mcp
    from smg_core.tools.hosted import HostedTools, noted
    from smg_mcp.records.errors import McpConfigError, McpError

    try:
        tools = smg_mcp.McpTools.from_config(settings.config or {"servers": []}, audit=noted, functions=functions)
        async with tools:
            service = HostedTools(tools, settings, history, clock)
            yield {
                ListTools: ToolListing(service),
                CallTools: ToolCalling(service, clock, settings, takes),
            }
    except ImportError as error:
        raise ConfigError(f"mcp: tools of MCP servers need the extra 'mcp' of this package ({error})") from error
    except McpConfigError as error:
        raise ConfigError(str(error)) from error
    except McpError as error:
        raise ToolServerFailed(str(error)) from error
