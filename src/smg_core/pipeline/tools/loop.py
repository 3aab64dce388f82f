"""The flow of a response whose tools run here: turns of the model, and between them the calls that it makes.

    ListTools, Tell what is offered
    CallTools                           the calls that the user was asked about in an earlier response
    turn, CallTools, turn, CallTools ... turn

A turn without calls ends the response. So does a turn with a call of one of the client's own tools: what runs here is run first,
and the client answers its own. A call that the user has to approve is told to the client, not run, and ends the response. When a
bound is reached (calls, turns, seconds, tokens), the response ends incomplete with what there is.

What a result has that can be cited is numbered on behind what was found before (`sources`). Pure. Above: the flows of the APIs.
Below: pipeline.flow.flow, the steps of pipeline.tools.hosted; what is offered is decided by pipeline.tools.offers.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import EngineRejected, InvalidRequest, PromptTooLong, UnsupportedParameter
from smg_core.events import NO_USAGE, Event, Finished, FinishReason, HostedEnd, HostedStart, Usage
from smg_core.pipeline.answer.turn import CalledTool, Turn, TurnOutput
from smg_core.pipeline.flow.flow import Terms, generate, respond
from smg_core.pipeline.flow.steps import Finish, Flow, Prepare, Tell, ask
from smg_core.pipeline.prompt.media_notes import all_noted, noted_answer
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.pipeline.tools.built_in import cited_text
from smg_core.pipeline.tools.hosted import (
    Called,
    CallTools,
    HostedCall,
    HostedResult,
    ListTools,
    ToolServer,
)
from smg_core.pipeline.tools.offers import (
    HOSTED_KIND,
    Offer,
    argument_fault,
    checked_calls,
    hosted_names,
    listing,
    server_place,
    servers_of,
    with_found,
    with_offers,
)
from smg_core.request import (
    AskedCall,
    GenerationRequest,
    HostedTool,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from smg_core.sources import CitableSource
from smg_core.wire.json_text import encode_object

__all__ = ["MakeTurn", "has_hosted_tools", "looped", "respond_with_tools", "without_hosted_tools"]

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


class _Spent(Struct):
    """What the response has used so far."""

    usage: Usage = NO_USAGE
    calls: int = 0
    seconds: float = 0.0
    uses: dict[str, int] = {}


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
    servers = servers_of(request, terms.tools)
    listed = yield from ask(ListTools(servers, request.caller, request.headers))
    offers, current = with_offers(request, listed, terms.tools)
    if listings := [event for each in listed if each.server.label not in known for event in listing(each)]:
        yield from ask(Tell(tuple(listings)))
    spent = _Spent()
    if approved or refused:
        calls = [_approved_call(call, offers, current) for call in approved]
        refusals = [_refused_call(call, server) for call in refused for server in servers if server.label == call.label]
        with naming_places_of(request, partial(server_place, current, offers)):
            current = yield from _with_answers(request, current, calls, refusals, terms)
        spent.calls += len(calls)
    names = hosted_names(request, servers, offers)
    while True:
        with naming_places_of(request, partial(server_place, current, offers)):
            turn, current = yield from _turn_on_answers(current, terms, len(request.messages), names, make_turn)
        spent.usage += turn.usage
        ending = turn.finishes[0]
        if not turn.output.calls or ending.reason not in _ENDS or ending.stopped_by(request.sampling.stop):
            return turn
        hosted = [call for call in turn.output.calls if call.name in names]
        if not hosted:
            return turn
        left = _calls_left(request, terms, spent)
        asked = [call for call in hosted[:left] if can_ask and names.asks(call)]
        made = [names.call(call) for call in hosted[:left] if call not in asked]
        run = checked_calls(made, current.messages, spent.uses)
        spent.calls += len(run) + len(asked)
        called = Called(())
        if run or asked:
            called = yield from ask(_called(request, run, terms, asked=[names.question(call) for call in asked]))
            spent.seconds = called.seconds
        if asked:
            yield from ask(Tell(tuple(event for call in asked for event in _question(call, offers[call.name]))))
        if asked or len(hosted) < len(turn.output.calls):
            return _ended(turn, "tool_calls")
        if len(hosted) > left or _is_over(terms, spent):
            return _ended(turn, "pause")
        current = with_found(current, called.results, offers)
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


# -------------------------------------------------------------------------------------------------------------------- calls


def _approved_call(call: AskedCall, offers: Mapping[str, Offer], request: GenerationRequest) -> HostedCall:
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
    return HostedCall(call.id, offer.server, call.name, call.arguments, argument_fault(call.arguments), call.id)


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


def _question(call: CalledTool, offer: Offer) -> tuple[Event, ...]:
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
    parts = list(output.parts) or _turn_parts(output)
    returned, sources = _returned(results, current.sources)
    choice = current.tool_choice
    if choice.mode == "required":
        choice = replace(choice, mode="auto", names=())
    messages = (*current.messages, Message("assistant", tuple(parts)), *returned)
    return replace(current, messages=messages, tool_choice=choice, sampling=sampling, sources=sources)


def _turn_parts(output: TurnOutput) -> list[Part]:
    """What the model has said, as the parts of a turn."""
    parts: list[Part] = []
    if output.reasoning:
        parts.append(Reasoning(output.reasoning))
    if output.text:
        parts.append(Text(output.text))
    return [*parts, *(ToolCall(call.id, call.name, call.arguments or "{}") for call in output.calls)]


def _returned(
    results: Sequence[HostedResult], sources: tuple[CitableSource, ...]
) -> tuple[list[Message], tuple[CitableSource, ...]]:
    """The messages of results, and the sources that can be cited from now on: these are behind those that were there."""
    messages = []
    for result in results:
        if result.sources:
            text = Text(cited_text(result, len(sources)))
            sources += result.sources
            result = replace(result, content=(text,))
        messages.append(_result(result))
    return messages, sources


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
