"""The hosted tools offered to the model of a response, and its calls answered here.

A tool is offered under `flat_name` of its server and its own name, a built-in one under its own. Where there are many, a search
is offered in place of those of some servers (`pipeline.tools.search`), and a tool that was found is offered from then on.
Pure. Above: pipeline.tools.loop. Below: the steps of pipeline.tools.hosted.
"""

import json
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import InvalidRequest
from smg_core.events import Event, HostedEnd, HostedStart
from smg_core.json_types import JsonObject
from smg_core.pipeline.answer.turn import CalledTool
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.built_in import built_in_fault
from smg_core.pipeline.tools.hosted import HostedCall, HostedResult, ListedServer, ServerTool, ToolServer
from smg_core.pipeline.tools.search import search_tool, searched_servers
from smg_core.request import FunctionTool, GenerationRequest, HostedTool, Message, ToolCall, ToolChoice, ToolKey
from smg_core.tool_names import flat_name
from smg_core.wire.json_text import encode_object

__all__ = [
    "HOSTED_KIND",
    "HostedNames",
    "Offer",
    "argument_fault",
    "checked_calls",
    "hosted_names",
    "listing",
    "server_place",
    "servers_of",
    "with_found",
    "with_offers",
]

HOSTED_KIND = "mcp"
"""The kind of the hosted tools that this flow runs."""


class Offer(Struct, frozen=True):
    """One hosted tool as the model is offered it; `within` has the tools that it searches."""

    server: ToolServer
    tool: ServerTool
    within: Mapping[str, ServerTool] | None = None

    @property
    def asks(self) -> bool:
        """Whether the user has to approve its calls."""
        return self.tool.verdict == "ask" or self.server.asks(self.tool)


class HostedNames(Struct, frozen=True):
    """The names of calls that are answered here: those of the tools that are offered, and every other name that begins as those
    of a server do, unless it is of a tool of the client. A model may call what it was not offered: it makes a name up, or has
    seen it in the conversation. The client has no such tool."""

    offers: Mapping[str, Offer]
    servers: Mapping[str, ToolServer]
    """By how the names of their tools begin."""
    own: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (
            name in self.offers or (name not in self.own and name.startswith(tuple(self.servers)))
        )

    def asks(self, call: CalledTool) -> bool:
        """Whether the user has to approve the call. Nobody is asked about one that cannot be run."""
        offer = self.offers.get(call.name)
        return offer is not None and offer.asks and argument_fault(call.arguments, call.complete) is None

    def question(self, call: CalledTool) -> HostedCall:
        """The call as the user is asked about it; it is one that `asks`."""
        offer = self.offers[call.name]
        return HostedCall(call.id, offer.server, offer.tool.name, call.arguments)

    def call(self, call: CalledTool) -> HostedCall:
        """The call as it is run, or answered with what is wrong with it."""
        if (offer := self.offers.get(call.name)) is not None:
            return _call(call, offer)
        begins = max((each for each in self.servers if call.name.startswith(each)), key=len)
        fault = "This server offers no tool of this name here, so nothing was run."
        name = call.name[len(begins) :]
        return HostedCall(call.id, self.servers[begins], name, call.arguments, fault, denied=True, known=False)


def servers_of(request: GenerationRequest, bounds: McpConfig) -> tuple[ToolServer, ...]:
    """The servers that the request names. Raises InvalidRequest for too many, and for two of one label."""
    found: dict[tuple[str, bool], ToolServer] = {}
    for place, tool in enumerate(request.tools):
        if not isinstance(tool, HostedTool) or tool.kind != HOSTED_KIND:
            continue
        server = msgspec.convert(tool.config, ToolServer)
        known = (server.label, server.built_in is not None)
        if known in found:
            raise InvalidRequest(f"Two servers of tools have the name '{server.label}'.", param=f"tools[{place}]")
        found[known] = replace(server, at=f"tools[{place}]")
        if len(found) > bounds.servers:
            most = bounds.servers
            raise InvalidRequest(f"A request may name at most {most} servers of tools.", param=f"tools[{place}]")
    return tuple(found.values())


def hosted_names(request: GenerationRequest, servers: Sequence[ToolServer], offers: Mapping[str, Offer]) -> HostedNames:
    """The names of calls that are answered here."""
    own = frozenset(tool.name for tool in request.tools if not isinstance(tool, HostedTool))
    named = {flat_name(server.label, ""): server for server in servers if server.built_in is None}
    return HostedNames(offers, named, own)


def with_offers(
    request: GenerationRequest, listed: Sequence[ListedServer], bounds: McpConfig
) -> tuple[Mapping[str, Offer], GenerationRequest]:
    """The hosted tools by the names that the model knows them by, and the request with functions in their place."""
    own = [tool for tool in request.tools if not isinstance(tool, HostedTool)]
    taken = {tool.name for tool in own}
    offers: dict[str, Offer] = {}
    for each in listed:
        offers |= {_free(each.server, tool, taken): Offer(each.server, tool) for tool in each.tools}
    if len(offers) > bounds.tools:
        most = bounds.tools
        raise InvalidRequest(
            f"The servers of tools offer {len(offers)} tools, and at most {most} are taken; name those that are needed.",
            param="tools",
        )
    choice = _choice(request.tool_choice, offers)
    offered = _offered(request, listed, choice, offers, bounds)
    for each in listed:
        within = {
            name: offer.tool for name, offer in offers.items() if offer.server is each.server and name not in offered
        }
        if within:
            tool = search_tool(each.server.label, len(within))
            offers[_free(each.server, tool, taken)] = Offer(replace(each.server, approval="never"), tool, within)
    functions = [
        _function(name, offer) for name, offer in offers.items() if name in offered or offer.within is not None
    ]
    if choice.mode == "required" and not own and not functions:
        raise InvalidRequest("A call is demanded, and the servers offer no tool.", param="tool_choice")
    return offers, replace(request, tools=(*own, *functions), tool_choice=choice)


def _offered(
    request: GenerationRequest,
    listed: Sequence[ListedServer],
    choice: ToolChoice,
    offers: Mapping[str, Offer],
    bounds: McpConfig,
) -> frozenset[str]:
    """The names of the tools that the model sees from the beginning: of servers that are not searched, and of the others those
    that are demanded or were called before in the conversation."""
    counts = {each.server.label: len(each.tools) for each in listed if each.server.built_in is None}
    searched = searched_servers(counts, bounds.search_from)
    used = {key.name for key in choice.names}
    if searched:
        used |= {part.name for message in request.messages for part in message.parts if isinstance(part, ToolCall)}
    return frozenset(
        name
        for name, offer in offers.items()
        if offer.server.built_in is not None or offer.server.label not in searched or name in used
    )


def _free(server: ToolServer, tool: ServerTool, taken: set[str]) -> str:
    """The name that the model knows a tool by, which is taken from now on."""
    name = flat_name(server.label, tool.name) if server.built_in is None else tool.name
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _function(name: str, offer: Offer) -> FunctionTool:
    return FunctionTool(name, offer.tool.description, offer.tool.schema)


def server_place(current: GenerationRequest, offers: Mapping[str, Offer], place: int) -> str:
    """The place in the client's request of the server that offers the tool in `place` of `current`."""
    tool = current.tools[place]
    return offers[tool.name].server.at if isinstance(tool, FunctionTool) and tool.name in offers else "tools"


def with_found(
    current: GenerationRequest, results: Sequence[HostedResult], offers: Mapping[str, Offer]
) -> GenerationRequest:
    """The request that also offers the tools that searches have found."""
    there = {tool.name for tool in current.tools if isinstance(tool, FunctionTool)}
    found = dict.fromkeys(name for result in results for name in result.found if name not in there)
    if not found:
        return current
    return replace(current, tools=(*current.tools, *(_function(name, offers[name]) for name in found)))


def _choice(choice: ToolChoice, offers: Mapping[str, Offer]) -> ToolChoice:
    """The choice with the names that the model knows the hosted tools by. Raises InvalidRequest for a tool that is not there."""
    keys: list[ToolKey] = []
    for place, key in enumerate(choice.names):
        if key.kind != HOSTED_KIND:
            keys.append(key)
            continue
        found = [
            ToolKey(name)
            for name, offer in offers.items()
            if offer.server.label == key.namespace and key.name in ("", offer.tool.name)
        ]
        if not found:
            raise InvalidRequest(
                f"The server '{key.namespace}' offers no tool '{key.name}'.", param=f"tool_choice.names[{place}]"
            )
        keys += found
    return replace(choice, names=tuple(keys))


def listing(listed: ListedServer) -> tuple[Event, ...]:
    """What the client is told of a server's tools; nothing of a built-in one."""
    if listed.server.built_in is not None:
        return ()
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.schema),
            "annotations": None if tool.annotations is None else dict(tool.annotations),
        }
        for tool in listed.tools
    ]
    label = listed.server.label
    start = HostedStart(0, label, "mcp_list_tools", encode_object({"server": label}))
    payload: JsonObject = {"tools": tools}
    for name, faults in (("left_out", listed.left_out), ("unconstrained", listed.unconstrained)):
        if faults:
            payload[name] = [{"name": tool, "reason": reason} for tool, reason in faults.items()]
    return start, HostedEnd(0, encode_object(payload))


def checked_calls(calls: Sequence[HostedCall], messages: Sequence[Message], used: dict[str, int]) -> list[HostedCall]:
    """The calls as they are run: one of a built-in tool that may not be made has its fault. `used` counts those of each such tool
    in this response, and is counted on."""
    checked = []
    for call in calls:
        asked = call.server.built_in
        if asked is not None and call.fault is None:
            before = used.get(asked.kind, 0)
            fault = built_in_fault(asked, call.name, call.arguments, before, messages)
            if fault is None:
                used[asked.kind] = before + 1
            else:
                call = replace(call, fault=fault[0], code=fault[1])
        elif asked is not None:
            call = replace(call, code="invalid_input")
        checked.append(call)
    return checked


def _call(call: CalledTool, offer: Offer) -> HostedCall:
    fault = argument_fault(call.arguments, call.complete)
    denied = fault is None and offer.asks
    if denied:
        fault = "This tool needs the user's approval, which cannot be asked for here, so it was not run."
    return HostedCall(call.id, offer.server, offer.tool.name, call.arguments, fault, within=offer.within, denied=denied)


def argument_fault(arguments: str, complete: bool = True) -> str | None:
    """Why the arguments of a call are none; None if they are a JSON object without a key that is there twice: a user who is
    shown the text, and a tool that gets one of the two values, would not see the same call."""
    if not complete:
        return "The arguments of this call are no valid JSON."
    try:
        read = msgspec.json.decode(arguments or "{}")
        if not isinstance(read, dict):
            return "The arguments of this call are no JSON object."
        json.loads(arguments or "{}", object_pairs_hook=_without_repeats, parse_int=str, parse_float=str)
    except _RepeatedKey as error:
        return f"The arguments of this call have the key '{str(error)[:80]}' twice in an object."
    except (msgspec.DecodeError, RecursionError) as error:
        return f"The arguments of this call are no valid JSON: {error}."
    return None


class _RepeatedKey(Exception):
    """An object has this key more than once."""


def _without_repeats(pairs: list[tuple[str, object]]) -> None:
    """The hook of `json.loads` that raises _RepeatedKey; what was read is not needed."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _RepeatedKey(key)
        seen.add(key)
