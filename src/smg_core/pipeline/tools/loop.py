"""The flow of a response whose tools run here: turns of the model, and between them the calls that it makes.

    ListTools, Tell what is offered
    CallTools                           the calls that the user was asked about in an earlier response
    turn, CallTools, turn, CallTools ... turn

A turn without calls ends the response. So does a turn with a call of one of the client's own tools: what runs here is run first,
and the client answers its own. A call that the user has to approve is told to the client, not run, and ends the response. When a
bound is reached (calls, turns, seconds, tokens), the response ends incomplete with what there is.

A tool is offered under `flat_name` of its server and its own name. Where there are many, a search is offered in place of those
of some servers (`pipeline.tools.search`), and a tool that was found is offered from the next turn on. Pure. Above: the flows of
the APIs. Below: pipeline.flow.flow, the steps of pipeline.tools.hosted.
"""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import EngineRejected, InvalidRequest, PromptTooLong, UnsupportedParameter
from smg_core.events import NO_USAGE, Event, Finished, FinishReason, HostedEnd, HostedStart, Usage
from smg_core.json_types import JsonObject
from smg_core.pipeline.answer.turn import CalledTool, Turn, TurnOutput
from smg_core.pipeline.flow.flow import Terms, generate, respond
from smg_core.pipeline.flow.steps import Finish, Flow, Prepare, Tell, ask
from smg_core.pipeline.prompt.media_notes import all_noted, noted_answer
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.pipeline.tools.hosted import (
    Called,
    CallTools,
    HostedCall,
    HostedResult,
    ListedServer,
    ListTools,
    ServerTool,
    ToolServer,
)
from smg_core.pipeline.tools.search import search_tool, searched_servers
from smg_core.request import (
    AskedCall,
    FunctionTool,
    GenerationRequest,
    HostedTool,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
)
from smg_core.tool_names import flat_name
from smg_core.wire.json_text import encode_object

__all__ = ["HOSTED_KIND", "MakeTurn", "has_hosted_tools", "looped", "respond_with_tools", "without_hosted_tools"]

HOSTED_KIND = "mcp"
"""The kind of the hosted tools that this flow runs."""

MakeTurn = Callable[[GenerationRequest, Container[str]], Flow[Turn]]
"""Makes the flow of one turn, kept and not ended, for a request and the names of the tools that run here."""
_ENDS: frozenset[FinishReason] = frozenset({"stop", "tool_calls"})
"""The ends of a turn after which its calls are run; after any other the turn is incomplete."""


def respond_with_tools(
    request: GenerationRequest,
    terms: Terms,
    *,
    approved: Sequence[AskedCall] = (),
    refused: Sequence[AskedCall] = (),
    can_ask: bool = False,
) -> Flow[object]:
    """The response to `request`: of one turn, or of as many as its hosted tools take. `approved`, `refused` and `can_ask` as
    for `looped`."""
    if not request.tools or not has_hosted_tools(request):
        return respond(request, terms)
    if not request.generate:
        return _rehearsed(request, terms)
    return _respond(request, terms, approved=approved, refused=refused, can_ask=can_ask)


def _rehearsed(request: GenerationRequest, terms: Terms) -> Flow[None]:
    """The response to a request that fills the engine's cache, without asking any server of tools."""
    with naming_places_of(request):
        yield from respond(without_hosted_tools(request), terms)


def _respond(
    request: GenerationRequest,
    terms: Terms,
    *,
    approved: Sequence[AskedCall],
    refused: Sequence[AskedCall],
    can_ask: bool,
) -> Flow[None]:
    def turn(asked: GenerationRequest, hosted: Container[str]) -> Flow[Turn]:
        return generate(asked, terms, ends=False, keep=True, hosted=hosted)

    last = yield from looped(request, terms, turn, approved=approved, refused=refused, can_ask=can_ask)
    yield from ask(Finish(last))


def has_hosted_tools(request: GenerationRequest) -> bool:
    """Whether the request names servers whose tools run here."""
    return bool(request.tools) and any(
        isinstance(tool, HostedTool) and tool.kind == HOSTED_KIND for tool in request.tools
    )


def without_hosted_tools(request: GenerationRequest) -> GenerationRequest:
    """The request as it is counted and rehearsed, without asking any server of tools."""
    if not has_hosted_tools(request):
        return request
    tools = tuple(tool for tool in request.tools if not isinstance(tool, HostedTool))
    names = tuple(key for key in request.tool_choice.names if key.kind != HOSTED_KIND)
    mode = "auto" if not tools or names != request.tool_choice.names else request.tool_choice.mode
    return replace(request, tools=tools, tool_choice=replace(request.tool_choice, mode=mode, names=names))


class _Offer(Struct, frozen=True):
    """One hosted tool as the model is offered it; `within` has the tools that it searches."""

    server: ToolServer
    tool: ServerTool
    within: Mapping[str, ServerTool] | None = None

    @property
    def asks(self) -> bool:
        """Whether the user has to approve its calls."""
        return self.tool.verdict == "ask" or self.server.asks(self.tool)


class _Hosted(Struct, frozen=True):
    """The names of calls that are answered here: those of the tools that are offered, and every other name that begins as those
    of a server do, unless it is of a tool of the client. A model may call what it was not offered: it makes a name up, or has
    seen it in the conversation. The client has no such tool."""

    offers: Mapping[str, _Offer]
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
        return offer is not None and offer.asks and _fault(call.arguments, call.complete) is None

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


class _Spent(Struct):
    """What the response has used so far."""

    usage: Usage = NO_USAGE
    calls: int = 0
    seconds: float = 0.0


def looped(
    request: GenerationRequest,
    terms: Terms,
    make_turn: MakeTurn,
    *,
    approved: Sequence[AskedCall] = (),
    refused: Sequence[AskedCall] = (),
    known: frozenset[str] = frozenset(),
    can_ask: bool = True,
) -> Flow[Turn]:
    """The turns of a response with hosted tools; returns the last, whose `Finished` are to be sent by `Finish`.

    `approved` are calls that the user has agreed to, `refused` those that the user has not; `known` are the labels of
    the servers whose tools the client has been told already. `can_ask`: the API has a way to ask for approval; without one, a
    call that needs it is refused to the model."""
    if request.sampling.n > 1:
        raise UnsupportedParameter("Tools that run on this server need n = 1.", param="sampling.n")
    servers = _servers(request, terms)
    listed = yield from ask(ListTools(servers, request.caller, request.headers))
    offers, current = _offered(request, listed, terms)
    if told := [event for each in listed if each.server.label not in known for event in _listing(each)]:
        yield from ask(Tell(tuple(told)))
    spent = _Spent()
    if approved or refused:
        calls = [_approved_call(call, offers, current) for call in approved]
        refusals = [_refused_call(call, server) for call in refused for server in servers if server.label == call.label]
        with naming_places_of(request, partial(_server_place, current, offers)):
            current = yield from _with_answers(request, current, calls, refusals, terms)
        spent.calls += len(calls)
    names = _hosted(request, servers, offers)
    while True:
        with naming_places_of(request, partial(_server_place, current, offers)):
            turn, current = yield from _turn_on_answers(current, terms, len(request.messages), names, make_turn)
        spent.usage += turn.usage
        ending = turn.finishes[0]
        if not turn.output.calls or ending.reason not in _ENDS or ending.stopped_by(request.sampling.stop):
            return turn
        hosted = [call for call in turn.output.calls if call.name in names]
        mine = len(hosted) < len(turn.output.calls)
        if not hosted:
            return turn
        left = _calls_left(request, terms, spent)
        asked = [call for call in hosted[:left] if can_ask and names.asks(call)]
        run = [names.call(call) for call in hosted[:left] if call not in asked]
        spent.calls += len(run) + len(asked)
        called = Called(())
        if run or asked:
            called = yield from ask(_called(request, run, terms, asked=[names.question(call) for call in asked]))
            spent.seconds = called.seconds
        if asked:
            yield from ask(Tell(tuple(event for call in asked for event in _question(call, offers[call.name]))))
        if asked or mine:
            return _ended(turn, "tool_calls")
        if len(hosted) > left or _is_over(terms, spent):
            return _ended(turn, "pause")
        current = _with_found(current, called.results, offers)
        following = _following(request, current, turn.output, called.results, spent)
        if following is None:
            return _ended(turn, "length")
        current = following


def _turn_on_answers(
    request: GenerationRequest, terms: Terms, first: int, names: Container[str], make_turn: MakeTurn
) -> Flow[tuple[Turn, GenerationRequest]]:
    """A turn, and the request that it was made for: with a note in place of each medium that cannot be read and that a tool
    answered with, in the messages from `first` on. It is no fault of the client's request."""
    while True:
        try:
            return (yield from make_turn(request, names)), request
        except InvalidRequest as error:
            noted = noted_answer(request, error, first)
            if noted is None and isinstance(error, EngineRejected) and not terms.answer.committed:
                noted = all_noted(request, first)  # an engine does not say which one it rejects
            if noted is None:
                raise
            request = noted


def _with_answers(
    request: GenerationRequest,
    current: GenerationRequest,
    calls: Sequence[HostedCall],
    refusals: Sequence[HostedCall],
    terms: Terms,
) -> Flow[GenerationRequest]:
    """Run the calls that the user has agreed to, and keep that the user has refused `refusals`; returns the request with the
    results. A question is answered once, so whatever the request can be refused for is found out before: its model, and its
    prompt as far as it is known. Raises that refusal, InvalidRequest for more calls than one response may have, and Conflict."""
    if len(calls) > (most := _calls_left(request, terms, _Spent())):
        raise InvalidRequest(f"A response has at most {most} calls, and {len(calls)} are approved.", param="messages")
    try:
        yield from ask(Prepare(replace(current, truncation=None, compact=None)))
    except PromptTooLong:
        if request.truncation != "auto":
            raise
    called = yield from ask(_called(request, calls, terms, refused=refusals))
    return _with_results_of(current, called.results)


# ------------------------------------------------------------------------------------------------------------ what is offered


def _servers(request: GenerationRequest, terms: Terms) -> tuple[ToolServer, ...]:
    """The servers that the request names. Raises InvalidRequest for too many, and for two of one label."""
    found: dict[str, ToolServer] = {}
    for place, tool in enumerate(request.tools):
        if not isinstance(tool, HostedTool) or tool.kind != HOSTED_KIND:
            continue
        server = msgspec.convert(tool.config, ToolServer)
        if server.label in found:
            raise InvalidRequest(f"Two servers of tools have the name '{server.label}'.", param=f"tools[{place}]")
        found[server.label] = replace(server, at=f"tools[{place}]")
        if len(found) > terms.tools.servers:
            most = terms.tools.servers
            raise InvalidRequest(f"A request may name at most {most} servers of tools.", param=f"tools[{place}]")
    return tuple(found.values())


def _hosted(request: GenerationRequest, servers: Sequence[ToolServer], offers: Mapping[str, _Offer]) -> _Hosted:
    """The names of calls that are answered here."""
    own = frozenset(tool.name for tool in request.tools if not isinstance(tool, HostedTool))
    return _Hosted(offers, {flat_name(server.label, ""): server for server in servers}, own)


def _offered(
    request: GenerationRequest, listed: Sequence[ListedServer], terms: Terms
) -> tuple[Mapping[str, _Offer], GenerationRequest]:
    """The hosted tools by the names that the model knows them by, and the request with functions in their place."""
    own = [tool for tool in request.tools if not isinstance(tool, HostedTool)]
    taken = {tool.name for tool in own}
    offers: dict[str, _Offer] = {}
    for each in listed:
        offers |= {_free(each.server, tool, taken): _Offer(each.server, tool) for tool in each.tools}
    if len(offers) > terms.tools.tools:
        most = terms.tools.tools
        raise InvalidRequest(
            f"The servers of tools offer {len(offers)} tools, and at most {most} are taken; name those that are needed.",
            param="tools",
        )
    choice = _choice(request.tool_choice, offers)
    shown = _shown(request, listed, choice, offers, terms)
    for each in listed:
        within = {
            name: offer.tool for name, offer in offers.items() if offer.server is each.server and name not in shown
        }
        if within:
            tool = search_tool(each.server.label, len(within))
            offers[_free(each.server, tool, taken)] = _Offer(replace(each.server, approval="never"), tool, within)
    functions = [_function(name, offer) for name, offer in offers.items() if name in shown or offer.within is not None]
    if choice.mode == "required" and not own and not functions:
        raise InvalidRequest("A call is demanded, and the servers offer no tool.", param="tool_choice")
    return offers, replace(request, tools=(*own, *functions), tool_choice=choice)


def _shown(
    request: GenerationRequest,
    listed: Sequence[ListedServer],
    choice: ToolChoice,
    offers: Mapping[str, _Offer],
    terms: Terms,
) -> frozenset[str]:
    """The names of the tools that the model sees from the beginning: of servers that are not searched, and of the others those
    that are demanded or were called before in the conversation."""
    counts = {each.server.label: len(each.tools) for each in listed}
    searched = searched_servers(counts, terms.tools.search_from)
    used = {key.name for key in choice.names}
    if searched:
        used |= {part.name for message in request.messages for part in message.parts if isinstance(part, ToolCall)}
    return frozenset(name for name, offer in offers.items() if offer.server.label not in searched or name in used)


def _free(server: ToolServer, tool: ServerTool, taken: set[str]) -> str:
    """The name that the model knows a tool by, which is taken from now on."""
    name = flat_name(server.label, tool.name)
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _function(name: str, offer: _Offer) -> FunctionTool:
    return FunctionTool(name, offer.tool.description, offer.tool.schema)


def _server_place(current: GenerationRequest, offers: Mapping[str, _Offer], place: int) -> str:
    """The place in the client's request of the server that offers the tool in `place` of `current`."""
    tool = current.tools[place]
    return offers[tool.name].server.at if isinstance(tool, FunctionTool) and tool.name in offers else "tools"


def _with_found(
    current: GenerationRequest, results: Sequence[HostedResult], offers: Mapping[str, _Offer]
) -> GenerationRequest:
    """The request that also offers the tools that searches have found."""
    there = {tool.name for tool in current.tools if isinstance(tool, FunctionTool)}
    found = dict.fromkeys(name for result in results for name in result.found if name not in there)
    if not found:
        return current
    return replace(current, tools=(*current.tools, *(_function(name, offers[name]) for name in found)))


def _choice(choice: ToolChoice, offers: Mapping[str, _Offer]) -> ToolChoice:
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


def _listing(listed: ListedServer) -> tuple[Event, ...]:
    """What the client is told of a server's tools."""
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
    told: JsonObject = {"tools": tools}
    for name, faults in (("left_out", listed.left_out), ("unconstrained", listed.unconstrained)):
        if faults:
            told[name] = [{"name": tool, "reason": reason} for tool, reason in faults.items()]
    return start, HostedEnd(0, encode_object(told))


# -------------------------------------------------------------------------------------------------------------------- calls


def _call(call: CalledTool, offer: _Offer) -> HostedCall:
    fault = _fault(call.arguments, call.complete)
    denied = fault is None and offer.asks
    if denied:
        fault = "This tool needs the user's approval, which cannot be asked for here, so it was not run."
    return HostedCall(call.id, offer.server, offer.tool.name, call.arguments, fault, within=offer.within, denied=denied)


def _fault(arguments: str, complete: bool = True) -> str | None:
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


def _approved_call(call: AskedCall, offers: Mapping[str, _Offer], request: GenerationRequest) -> HostedCall:
    """The call that the user has agreed to. Raises InvalidRequest where the request does not have its tool any more."""
    offer = next(
        (each for each in offers.values() if (each.server.label, each.tool.name) == (call.label, call.name)), None
    )
    if offer is None:
        place = next((place for place, message in enumerate(request.messages) if _answers(message) == call.id), 0)
        raise InvalidRequest(
            f"The approved call is of the tool '{call.name}' of the server '{call.label}', which this request does not have.",
            param=f"messages[{place}]",
        )
    return HostedCall(call.id, offer.server, call.name, call.arguments, _fault(call.arguments), call.id)


def _refused_call(call: AskedCall, server: ToolServer) -> HostedCall:
    """The call that the user has refused; its tool may be gone."""
    return HostedCall(call.id, server, call.name, call.arguments, approval=call.id)


def _called(
    request: GenerationRequest,
    calls: Sequence[HostedCall],
    terms: Terms,
    *,
    asked: Sequence[HostedCall] = (),
    refused: Sequence[HostedCall] = (),
) -> CallTools:
    at_once = 1 if request.tool_choice.parallel is False else terms.tools.at_once
    caller, headers = request.caller, request.headers
    return CallTools(
        request.id, request.model, tuple(calls), caller, headers, at_once, asked=tuple(asked), refused=tuple(refused)
    )


def _question(call: CalledTool, offer: _Offer) -> tuple[Event, ...]:
    """What asks the user to approve a call."""
    asked = {"server": offer.server.label, "name": offer.tool.name, "arguments": call.arguments or "{}"}
    return HostedStart(0, call.id, "mcp_approval_request", encode_object(asked)), HostedEnd(0)


# ---------------------------------------------------------------------------------------------------------- the next turn


def _following(
    request: GenerationRequest,
    current: GenerationRequest,
    output: TurnOutput,
    results: Sequence[HostedResult],
    spent: _Spent,
) -> GenerationRequest | None:
    """The request of the next turn: the conversation with the calls and their results, and the tokens that are left; None where
    none are left. What the client demands to be called was called, so the model is free from now on."""
    sampling = current.sampling
    if (most := request.sampling.max_tokens) is not None:
        left = most - spent.usage.completion_tokens
        if left <= 0:
            return None
        sampling = replace(sampling, max_tokens=left, min_tokens=None)
    said = list(output.parts) or _said(output)
    returned = [_result(result) for result in results]
    choice = current.tool_choice
    if choice.mode == "required":
        choice = replace(choice, mode="auto", names=())
    messages = (*current.messages, Message("assistant", tuple(said)), *returned)
    return replace(current, messages=messages, tool_choice=choice, sampling=sampling)


def _said(output: TurnOutput) -> list[Part]:
    """What the model has said, as the parts of a turn."""
    said: list[Part] = []
    if output.reasoning:
        said.append(Reasoning(output.reasoning))
    if output.text:
        said.append(Text(output.text))
    return [*said, *(ToolCall(call.id, call.name, call.arguments or "{}") for call in output.calls)]


def _result(result: HostedResult) -> Message:
    only_text = len(result.content) == 1 and isinstance(result.content[0], Text)
    part = ToolResult(result.call.id, result.content, result.is_error)
    return Message("tool", (part,), content_is_text=only_text)


def _with_results_of(request: GenerationRequest, results: Sequence[HostedResult]) -> GenerationRequest:
    """The request with the results of approved calls, for which its messages have empty ones."""
    found = {result.call.id: result for result in results}
    messages = tuple(
        _result(found[call_id]) if (call_id := _answers(message)) in found else message for message in request.messages
    )
    return replace(request, messages=messages)


def _answers(message: Message) -> str:
    """The id of the call whose result the message is; "" for one that is none."""
    part = message.parts[0] if len(message.parts) == 1 else None
    return part.call_id if isinstance(part, ToolResult) else ""


def _calls_left(request: GenerationRequest, terms: Terms, spent: _Spent) -> int:
    most = terms.tools.calls if request.max_tool_calls is None else min(request.max_tool_calls, terms.tools.calls)
    return max(0, most - spent.calls)


def _is_over(terms: Terms, spent: _Spent) -> bool:
    """Whether no further turn may begin."""
    most = terms.tools.loop_s
    return spent.usage.rounds >= terms.tools.turns or (most is not None and spent.seconds >= most)


def _ended(turn: Turn, reason: FinishReason) -> Turn:
    """The last turn, with the reason for which the response ends."""
    return replace(turn, finishes=(Finished(0, reason),), held=True)
