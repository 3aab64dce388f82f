"""Answers the requests of MCP clients: lists, calls of tools, resources, prompts (edge).

Above: `routes`. Below: `tools.offered`, `wire`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from typing import Any

from smg_core.apis.mcp.wire import (
    HANDSHAKES,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN,
    McpMessage,
    RpcError,
    list_page,
)
from smg_core.errors import NotFound, SmgError
from smg_core.hooks import ToolCalled
from smg_core.json_types import JsonObject
from smg_core.serving.services import Services
from smg_core.tools.offered import PublishedTool, PublishedTools, ToolAsker
from smg_mcp.catalogue.results import result_of
from smg_mcp.records.base import McpTool, ToolProgress

__all__ = ["McpAnswers", "OnCallProgress"]

OnCallProgress = Callable[[ToolProgress], None]

_LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "templates",
    "prompts/list": "prompts",
}
_KEYS = {"templates": "resourceTemplates"}
_CACHED = ("server/discover", "resources/read", *_LISTS)
"""Methods whose results say how long they hold, in the version without a handshake: ours are asked for anew each time."""


class McpAnswers:
    """Answers requests of one gateway's clients."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._version = metadata.version("smg-sdk")

    @property
    def _offered(self) -> PublishedTools | None:
        return self._services.running.tools.offered

    async def result(self, message: McpMessage, asker: ToolAsker, progress: OnCallProgress) -> JsonObject:
        """The result of a request. Raises RpcError and SmgError."""
        result = await self._result(message, asker, progress)
        if message.modern and message.method in _CACHED:
            return {**result, "ttlMs": 0, "cacheScope": "private"}
        return result

    async def _result(self, message: McpMessage, asker: ToolAsker, progress: OnCallProgress) -> JsonObject:
        match message.method:
            case "initialize" if not message.modern:
                return self._initialized(message)
            case "server/discover" if message.modern:
                return {"supportedVersions": [MODERN, *reversed(HANDSHAKES)], **self._about()}
            case "ping" if not message.modern:
                return {}
            case "tools/call":
                return await self._call(message, asker, progress)
            case "resources/read":
                contents: Any = await self._there().read(message.text("uri"), asker)
                return {"contents": contents}
            case "prompts/get":
                return await self._prompt(message, asker)
            case method if method in _LISTS:
                return await self._list(message, _LISTS[method], asker)
        raise RpcError(METHOD_NOT_FOUND, f"there is no method {message.method[:100]!r} here")

    def _initialized(self, message: McpMessage) -> JsonObject:
        asked = message.text("protocolVersion")
        return {"protocolVersion": asked if asked in HANDSHAKES else HANDSHAKES[-1], **self._about()}

    def _about(self) -> JsonObject:
        notifies = self._services.live.config.mcp.serve == "sessions"
        return {
            "capabilities": {kind: {"listChanged": notifies} for kind in ("tools", "resources", "prompts")},
            "serverInfo": {"name": "smg-gateway", "version": self._version},
        }

    def _there(self) -> PublishedTools:
        if self._offered is None:
            raise NotFound("This gateway has no tools of its own.")
        return self._offered

    async def tools(self, asker: ToolAsker) -> tuple[list[PublishedTool], dict[str, str]]:
        """The tools that are offered, and the servers that cannot be asked."""
        return ([], {}) if self._offered is None else await self._offered.tools(asker)

    async def state(self, kinds: Collection[str], asker: ToolAsker) -> dict[str, object]:
        """By kind ("tools", "resources", "prompts"), what is another one once the list of this kind has changed."""
        found: dict[str, object] = {}
        if "tools" in kinds:
            offered, _ = await self.tools(asker)
            found["tools"] = [(each.name, each.tool) for each in offered]
        for what in kinds:
            if what != "tools" and self._offered is not None:
                found[what] = await self._offered.news(what, asker)
        return found

    async def _list(self, message: McpMessage, what: str, asker: ToolAsker) -> JsonObject:
        failed: Mapping[str, str] = {}
        if what == "tools":
            offered, failed = await self.tools(asker)
            found: Sequence[Any] = offered
        else:
            found = [] if self._offered is None else await self._offered.listed(what, asker)
        begin, following = list_page(message, len(found), size := self._services.live.config.mcp.serve_page)
        page = found[begin : begin + size]
        result: JsonObject = {
            _KEYS.get(what, what): [_described(each) for each in page] if what == "tools" else list(page)
        }
        if following is not None:
            result["nextCursor"] = str(following)
        if failed:
            result["_meta"] = {"smg/unavailable": dict(failed)}
        return result

    async def _call(self, message: McpMessage, asker: ToolAsker, progress: OnCallProgress) -> JsonObject:
        name, arguments = message.text("name"), message.mapping("arguments")
        try:
            offered = await self._there().named(name, asker)
        except NotFound as error:
            raise RpcError(INVALID_PARAMS, error.message) from error
        clock = self._services.clock
        began, outcome = clock.monotonic(), "cancelled"
        try:
            found = await self._there().call(offered, arguments, asker, progress)
            outcome = "error" if found.is_error else "ok"
        except SmgError as error:
            outcome = type(error).__name__
            raise
        finally:
            now = clock.monotonic()
            record = ToolCalled(
                asker.request_id, offered.tool.server, offered.tool.name, outcome, now - began, now, True
            )
            self._services.observer.report(record)
        return result_of(found)

    async def _prompt(self, message: McpMessage, asker: ToolAsker) -> JsonObject:
        arguments = message.mapping("arguments")
        if not all(isinstance(value, str) for value in arguments.values()):
            raise RpcError(INVALID_PARAMS, "params.arguments: texts are expected")
        return dict(await self._there().prompt(message.text("name"), arguments, asker))


def _described(offered: PublishedTool) -> JsonObject:
    tool: McpTool = offered.tool
    hints = {
        "readOnlyHint": tool.hints.read_only,
        "destructiveHint": tool.hints.destructive,
        "idempotentHint": tool.hints.idempotent,
        "openWorldHint": tool.hints.open_world,
    }
    annotations: JsonObject = {name: value for name, value in hints.items() if value is not None}
    found: JsonObject = {"name": offered.name, "description": tool.description, "inputSchema": dict(tool.schema)}
    if tool.title is not None:
        found["title"] = tool.title
    if tool.output_schema is not None:
        found["outputSchema"] = dict(tool.output_schema)
    if annotations:
        found["annotations"] = annotations
    return found
