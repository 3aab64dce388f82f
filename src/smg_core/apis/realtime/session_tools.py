"""Tools that run here, within a session of another server: functions to the server, servers of tools (`mcp`) to the client.

A tool of type `mcp` that names an address or a connector is the server's own to call, and is passed on; one that names neither is
a server of the operator's, here. Which of them a session has is what its server says it has: an update may be refused. Pure.
Above: the edge that lists tools, the session that is passed through. Below: the offers of the pipeline, the items of Responses.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

import attrs

from smg_core.apis.responses.wire.mcp import HIDDEN, read_server
from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.hosted import ListedServer, ToolServer
from smg_core.pipeline.tools.offers import Offer, servers_of, with_offers
from smg_core.request import FunctionTool, GenerationRequest, HostedTool, Tool
from smg_core.tool_names import flat_name

__all__ = ["AskedTools", "SessionTools", "asked_tools", "runs_here"]

_KNOWN = 4096
"""Names of functions that are known to have been offered in a session: the newest."""


@attrs.frozen
class _Server:
    """A server of tools as the client is told of it, and as a request names it."""

    client_view: JsonObject
    tool: HostedTool


@attrs.frozen
class AskedTools:
    """The `tools` of a session or a response: those that are passed on as they are, and the `servers` of those that run here."""

    passed_on: list[Json]
    own: tuple[str, ...]
    client_views: tuple[JsonObject, ...]
    hosted: tuple[HostedTool, ...]
    servers: tuple[ToolServer, ...]

    @property
    def request(self) -> GenerationRequest:
        """A request that has these tools, and nothing else."""
        return _request(self.own, self.hosted)


def _request(own: Sequence[str], hosted: Sequence[HostedTool]) -> GenerationRequest:
    return GenerationRequest(id="", model="", messages=(), tools=_tools(own, hosted))


def _tools(own: Sequence[str], hosted: Sequence[HostedTool]) -> tuple[Tool, ...]:
    return (*[FunctionTool(name, None, {}) for name in own], *hosted)


def runs_here(tool: Json) -> bool:
    """Whether it is a server of tools of the operator's."""
    return (
        isinstance(tool, dict)
        and tool.get("type") == "mcp"
        and tool.get("server_url") is None
        and tool.get("connector_id") is None
    )


def asked_tools(tools: Json, bounds: McpConfig, at: str) -> AskedTools | None:
    """The tools that stand at `at`, where some of them run here. Raises InvalidRequest and UnsupportedParameter."""
    if not isinstance(tools, list) or not any(runs_here(each) for each in tools):
        return None
    hosted, client_views = [], []
    for place, tool in enumerate(tools):
        if isinstance(tool, dict) and runs_here(tool):
            hosted.append(read_server(tool, f"{at}[{place}]"))
            client_views.append({name: value for name, value in tool.items() if name not in HIDDEN})
    own = tuple(_function_names(tools))
    servers = servers_of(_request(own, hosted), bounds)
    for place, server in enumerate(servers):
        if server.approval != "never":
            raise InvalidRequest(
                f"Calls of the server '{server.label}' need approval, for which nobody can be asked in a session of another "
                "server: 'require_approval' has to be 'never'.",
                param=f"{at}[{place}].require_approval",
                code="unsupported_value",
            )
    passed_on = [each for each in tools if not runs_here(each)]
    return AskedTools(passed_on, own, tuple(client_views), tuple(hosted), servers)


def _function_names(tools: Sequence[Json]) -> list[str]:
    return [
        name
        for tool in tools
        if isinstance(tool, dict) and tool.get("type") == "function" and isinstance(name := tool.get("name"), str)
    ]


class SessionTools:
    """The tools that run here of one session. `used`: it has had some. `listed` are the labels of the servers whose tools the
    client knows."""

    def __init__(self) -> None:
        self._by_name: dict[str, _Server] = {}
        self._servers: dict[str, _Server] = {}
        self._passing: dict[str, _Server] = {}  # those of the newest response that had some of its own
        self._own: tuple[str, ...] = ()
        self._passed_on: list[Json] = []
        self._sent: list[Json] = []  # all tools, as the server knows them
        self._forced = False
        self.used = False
        self.listed: set[str] = set()

    @property
    def offered(self) -> bool:
        """Whether the session has any now."""
        return bool(self._servers)

    def __contains__(self, name: object) -> bool:
        """Whether a call of this name is answered here: also one of a name that begins as those of a server do, which a model may
        make up."""
        if not isinstance(name, str):
            return False
        here = {**self._passing, **self._servers}
        server = self._by_name.get(name)
        if server is not None:
            return str(server.tool.config["label"]) in here
        return name not in self._own and name.startswith(tuple([flat_name(label, "") for label in here]))

    def claim(self, tools: Json) -> None:
        """The client's own functions among these tools have their names from now on."""
        names = _function_names(tools) if isinstance(tools, list) else []
        self._own = (*self._own, *(name for name in names if name not in self._own))[-_KNOWN:]
        for name in names:
            self._by_name.pop(name, None)

    def offer(
        self, asked: AskedTools, listed: Sequence[ListedServer], bounds: McpConfig, *, lasting: bool
    ) -> list[Json]:
        """What the server is told in place of these tools, for the session where they are `lasting`, else for a response. Raises
        InvalidRequest for too many."""
        offers, current = with_offers(asked.request, listed, bounds)
        by_label = {
            server.label: _Server(client_view, tool)
            for server, client_view, tool in zip(asked.servers, asked.client_views, asked.hosted, strict=True)
        }
        self.used = True
        if lasting:
            self._servers |= by_label
        else:
            self._passing = by_label
        self._by_name |= {name: by_label[offer.server.label] for name, offer in offers.items()}
        for name in list(islice(self._by_name, max(0, len(self._by_name) - _KNOWN))):
            del self._by_name[name]
        return [*asked.passed_on, *(_as_function(tool) for tool in current.tools if _is_offered(tool, offers))]

    def choice(self, choice: Json, at: str) -> Json:
        """A choice of tools as the server is told it. Raises InvalidRequest for one of a server here that names no tool."""
        if not isinstance(choice, dict) or choice.get("type") != "mcp":
            return choice
        label, name = choice.get("server_label"), choice.get("name")
        if not isinstance(label, str) or label not in {**self._passing, **self._servers}:
            return choice
        if not isinstance(name, str) or (flat := flat_name(label, name)) not in self._by_name:
            raise InvalidRequest(
                f"The choice has to name a tool that the server '{label}' offers.", param=at, code="invalid_value"
            )
        return {"type": "function", "name": flat}

    def rendered(self, session: JsonObject) -> JsonObject:
        """The settings of a session that its server tells, as the client knows them; what they say holds from now on."""
        choice, tools = session.get("tool_choice"), session.get("tools")
        self._forced = choice == "required" or isinstance(choice, dict)
        if not isinstance(tools, list) or not self.used:
            return session
        found: dict[str, _Server] = {}
        for name in _function_names(tools):
            if (server := self._by_name.get(name)) is not None:
                found[str(server.tool.config["label"])] = server
        self._servers, self._sent = found, tools
        self._passed_on = [tool for tool in tools if not any(name in self._by_name for name in _function_names([tool]))]
        self._own = tuple(_function_names(self._passed_on))
        rendered = {**session, "tools": [*self._passed_on, *(server.client_view for server in found.values())]}
        chosen_name = choice.get("name") if isinstance(choice, dict) else None
        if isinstance(chosen_name, str) and (chosen := self._by_name.get(chosen_name)) is not None:
            label = str(chosen.tool.config["label"])
            own = chosen_name.removeprefix(flat_name(label, ""))
            rendered["tool_choice"] = {"type": "mcp", "server_label": label, "name": own}
        return rendered

    def of_response(self, asked: AskedTools | None, fields: JsonObject) -> tuple[Tool, ...]:
        """What a response with these fields has of tools, for the request that it is: all names, where some run here."""
        if "tools" in fields:
            return () if asked is None else _tools(asked.own, asked.hosted)
        if not self._servers:
            return ()
        return _tools(self._own, [server.tool for server in self._servers.values()])

    @property
    def passed_on(self) -> list[Json]:
        """The tools of the session that do not run here."""
        return self._passed_on

    def following(self, fields: JsonObject, request: GenerationRequest, items: Sequence[str]) -> JsonObject:
        """The fields of a response that goes on behind calls of the one with these: it reads their `items` too, and may call what
        searches have found, which `request` has. What was demanded to be called was called."""
        choice, read = fields.get("tool_choice"), fields.get("input")
        forced = self._forced if choice is None else choice == "required" or isinstance(choice, dict)
        made = {**fields, "tool_choice": "auto"} if forced else dict(fields)
        if isinstance(read, list):
            made["input"] = [*read, *({"type": "item_reference", "id": id} for id in items)]
        before = fields.get("tools", self._sent)
        names = set(_function_names(before if isinstance(before, list) else []))
        functions = [tool for tool in request.tools if isinstance(tool, FunctionTool) and tool.name in self._by_name]
        if found := [_as_function(tool) for tool in functions if tool.name not in names]:
            made["tools"] = [*(before if isinstance(before, list) else []), *found]
        return made


def _is_offered(tool: Tool, offers: Mapping[str, Offer]) -> bool:
    return isinstance(tool, FunctionTool) and tool.name in offers


def _as_function(tool: Tool) -> JsonObject:
    """A function as servers of Realtime take it."""
    if not isinstance(tool, FunctionTool):
        return {}
    schema: JsonObject = dict(tool.parameters) if tool.parameters else {"type": "object", "properties": {}}
    return {"type": "function", "name": tool.name, "description": tool.description or "", "parameters": schema}
