"""Offers the tools that run here to the server of a session that is passed through (edge).

What a client says of tools is told to the server with functions in place of the operator's servers of tools, which are asked what
they offer; calls, and their outputs, are the session's. A session that names no such server costs one look at its updates. Above:
the session that is passed through. Below: the tools of the session, and what lists tools.
"""

import msgspec

from smg_core.apis.realtime.merged import ClientsView
from smg_core.apis.realtime.session_tools import AskedTools, SessionTools, asked_tools
from smg_core.apis.realtime.wire.events import SessionIds, written
from smg_core.apis.responses.wire.mcp import closed_item
from smg_core.errors import InvalidRequest
from smg_core.events import HostedEnd
from smg_core.http.websocket import WebSocket
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.calls import ToolListing
from smg_core.pipeline.tools.hosted import ListedServer, ListTools
from smg_core.pipeline.tools.offers import listing
from smg_core.request import Tool
from smg_core.serving.services import Services

__all__ = ["InjectedResponse", "ToolInjection"]

_NAMES = b'"mcp"'


class InjectedResponse(msgspec.Struct, frozen=True):
    """What a client has asked of a response: its fields as the server is told them, and the tools of the request that it is."""

    fields: JsonObject = {}
    tools: tuple[Tool, ...] = ()


_PLAIN = InjectedResponse()


class ToolInjection:
    """The tools that run here of one session of `socket`, whose ids `names` makes."""

    def __init__(self, services: Services, socket: WebSocket, names: SessionIds) -> None:
        self._services, self._socket, self.names = services, socket, names
        listing = services.running.tools.performers.get(ListTools)
        self._listing = listing if isinstance(listing, ToolListing) and "mcp" in services.hosted("realtime") else None
        self.tools = SessionTools()
        self.view = ClientsView(self.tools)

    def concerns(self, data: bytes) -> bool:
        """Whether an event of the client may have to do with tools that run here."""
        return self.tools.used or (self._listing is not None and _NAMES in data)

    async def session(self, fields: JsonObject) -> tuple[JsonObject, list[bytes]]:
        """The settings of a session as its server is told them, and the events that tell the client of what servers offer. Raises
        SmgError, where they cannot be had."""
        sent, asked, listed = await self._injected(fields, "session")
        new = [each for each in listed if asked is not None and each.server.label not in self.tools.listed]
        self.tools.listed |= {each.server.label for each in new}
        return sent, [line for each in new for line in self._list(each)]

    async def response(self, fields: JsonObject) -> InjectedResponse:
        """A response with these fields. Raises SmgError, where it cannot be asked for."""
        if fields.get("conversation") == "none":
            if asked_tools(fields.get("tools"), self._bounds, "response.tools") is not None:
                raise InvalidRequest(
                    "The tools of this server are not for responses outside of the conversation.",
                    param="response.tools",
                    code="unsupported_value",
                )
            if self.tools.offered and "tools" not in fields:
                fields = {**fields, "tools": self.tools.passed_on}
            return InjectedResponse(fields)
        sent, asked, _ = await self._injected(fields, "response")
        return InjectedResponse(sent, self.tools.of_response(asked, fields))

    def begun(self) -> InjectedResponse:
        """A response that the server begins by itself."""
        return InjectedResponse({}, self.tools.of_response(None, {})) if self.tools.offered else _PLAIN

    @property
    def _bounds(self) -> McpConfig:
        return self._services.live.config.mcp

    async def _injected(
        self, fields: JsonObject, at: str
    ) -> tuple[JsonObject, AskedTools | None, tuple[ListedServer, ...]]:
        asked = asked_tools(fields.get("tools"), self._bounds, f"{at}.tools")
        listed: tuple[ListedServer, ...] = ()
        sent: dict[str, Json] = dict(fields)
        self.tools.claim(fields.get("tools"))
        if asked is not None and self._listing is not None:
            step = ListTools(asked.servers, self._socket.caller, self._socket.headers)
            listed = await self._listing.listed(step)
            sent["tools"] = self.tools.offer(asked, listed, self._bounds, lasting=at == "session")
        if "tool_choice" in sent:
            sent["tool_choice"] = self.tools.choice(sent["tool_choice"], f"{at}.tool_choice")
        return sent, asked, listed

    def _list(self, listed: ListedServer) -> list[bytes]:
        """What is told of the tools of a server, once in a session."""
        *_, end = listing(listed)
        item: JsonObject = {
            "id": self.names("item_"),
            "type": "mcp_list_tools",
            "server_label": listed.server.label,
            "tools": [],
        }
        lines = [
            self._line("conversation.item.added", previous_item_id=None, item=item),
            self._line("mcp_list_tools.in_progress", item_id=item["id"]),
        ]
        if isinstance(end, HostedEnd):
            item["tools"] = closed_item(item, end)["tools"]
        lines.append(self._line("conversation.item.done", previous_item_id=None, item=item))
        return [*lines, self._line("mcp_list_tools.completed", item_id=item["id"])]

    def _line(self, kind: str, **fields: object) -> bytes:
        return written(kind, self.names("event_"), **fields)
