"""smg_mcp: MCP servers as tools, knowing nothing of any LLM API.

    async with McpTools.from_config("mcp.yaml") as tools:
        print([tool.name for tool in await tools.tools()])
        outcome = await tools.call("time.get_current_time", {"timezone": "UTC"})

Needs the extra `mcp` (the official package), which is loaded when a server is first reached; Python functions do without it.
Begin with `tools`, the front; `records` is what it hands over, `sessions` and `transport` reach the servers, `functions` are
functions of Python in their place, `catalogue` holds what they offer, `policy` decides.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smg_mcp.catalogue.catalogue import Catalogue as Catalogue
    from smg_mcp.catalogue.search import TOOL_SEARCH as TOOL_SEARCH
    from smg_mcp.catalogue.search import TOOL_SEARCH_SCHEMA as TOOL_SEARCH_SCHEMA
    from smg_mcp.catalogue.search import Bm25Index as Bm25Index
    from smg_mcp.functions.signature import PythonTool as PythonTool
    from smg_mcp.functions.signature import ToolContext as ToolContext
    from smg_mcp.policy.approval import Approval as Approval
    from smg_mcp.policy.approval import stricter as stricter
    from smg_mcp.policy.audit import AuditEntry as AuditEntry
    from smg_mcp.policy.audit import AuditTrail as AuditTrail
    from smg_mcp.records.base import AskUser as AskUser
    from smg_mcp.records.base import CallFacts as CallFacts
    from smg_mcp.records.base import Decision as Decision
    from smg_mcp.records.base import ListFaults as ListFaults
    from smg_mcp.records.base import McpTool as McpTool
    from smg_mcp.records.base import RequestServer as RequestServer
    from smg_mcp.records.base import SampleModel as SampleModel
    from smg_mcp.records.base import ServerInventory as ServerInventory
    from smg_mcp.records.base import ToolAudio as ToolAudio
    from smg_mcp.records.base import ToolHints as ToolHints
    from smg_mcp.records.base import ToolImage as ToolImage
    from smg_mcp.records.base import ToolIndex as ToolIndex
    from smg_mcp.records.base import ToolLink as ToolLink
    from smg_mcp.records.base import ToolOutcome as ToolOutcome
    from smg_mcp.records.base import ToolProgress as ToolProgress
    from smg_mcp.records.base import ToolResource as ToolResource
    from smg_mcp.records.base import ToolText as ToolText
    from smg_mcp.records.errors import McpBadAnswer as McpBadAnswer
    from smg_mcp.records.errors import McpBadArguments as McpBadArguments
    from smg_mcp.records.errors import McpBusy as McpBusy
    from smg_mcp.records.errors import McpConfigError as McpConfigError
    from smg_mcp.records.errors import McpDenied as McpDenied
    from smg_mcp.records.errors import McpError as McpError
    from smg_mcp.records.errors import McpForbidden as McpForbidden
    from smg_mcp.records.errors import McpNeedsApproval as McpNeedsApproval
    from smg_mcp.records.errors import McpRefused as McpRefused
    from smg_mcp.records.errors import McpTimeout as McpTimeout
    from smg_mcp.records.errors import McpUnavailable as McpUnavailable
    from smg_mcp.records.errors import McpUnknownTool as McpUnknownTool
    from smg_mcp.records.settings import McpPolicy as McpPolicy
    from smg_mcp.records.settings import McpServer as McpServer
    from smg_mcp.records.settings import McpSettings as McpSettings
    from smg_mcp.request_tools import RequestTools as RequestTools
    from smg_mcp.tools import McpTools as McpTools

_PLACES = {
    "functions.signature": ("PythonTool", "ToolContext"),
    "policy.approval": ("Approval", "stricter"),
    "policy.audit": ("AuditEntry", "AuditTrail"),
    "records.base": (
        *(
            "AskUser",
            "CallFacts",
            "Decision",
            "ListFaults",
            "McpTool",
            "RequestServer",
            "SampleModel",
            "ServerInventory",
        ),
        *("ToolAudio", "ToolHints", "ToolImage", "ToolIndex", "ToolLink", "ToolOutcome", "ToolProgress"),
        *("ToolResource", "ToolText"),
    ),
    "records.errors": (
        *("McpBadAnswer", "McpBadArguments", "McpBusy", "McpConfigError", "McpDenied", "McpError", "McpForbidden"),
        *("McpNeedsApproval", "McpRefused", "McpTimeout", "McpUnavailable", "McpUnknownTool"),
    ),
    "catalogue.catalogue": ("Catalogue",),
    "request_tools": ("RequestTools",),
    "catalogue.search": ("TOOL_SEARCH", "TOOL_SEARCH_SCHEMA", "Bm25Index"),
    "records.settings": ("McpPolicy", "McpServer", "McpSettings"),
    "tools": ("McpTools",),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    *_MODULE_OF,
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
