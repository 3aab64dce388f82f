"""The spans of one request, made of its moments.

A request has one span, with a span for each stage and each call of an engine below it. Texts of clients are cut; prompts, answers
and engines' own texts are in no span, unless the settings ask for the first two. A client's fault and a client that leaves set no
error status, as the conventions for servers have it. Pure: random bits are handed in. Above: `exporting`. Below: `requests`,
`attributes`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    ExchangeEnded,
    FirstToken,
    FormatViolation,
    GuardrailAsked,
    Hedged,
    MediaLoaded,
    Migrating,
    Moment,
    ReasoningLeftOut,
    Rendered,
    RequestFinished,
    RequestStarted,
    Retrying,
    ToolCalled,
    WorkerPicked,
)
from smg_core.observability.trace_context import RemoteSpan
from smg_core.observability.tracing.requests import TracedRequest

__all__ = ["Attributes", "SpanEvent", "TraceSpan", "spans_of"]

Attribute = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Attribute]

LONGEST_TEXT = 256  # characters of a text from a client
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "QUERY"})
_FAILED = 500  # the lowest status that is the server's fault
_NO_FAULT = frozenset({"ok", "abandoned", "outrun", "client_gone", "cancelled"})
_CALLED = frozenset({AttemptEnded, ToolCalled})
_OF_A_STAGE = frozenset({Rendered, EncodeDone, MediaLoaded, WorkerPicked, GuardrailAsked}) | _CALLED
"""The moments that end a stage."""
_OF_THE_REQUEST = frozenset({RequestStarted, RequestFinished})
"""The moments that no prompt has of its own."""
_IDS = 16  # span ids that are drawn at once
_NO_ATTRIBUTES: Attributes = {}


class SpanEvent(Struct, frozen=True):
    """Something that happened while a span was open, at `at` in nanoseconds since the epoch."""

    name: str
    at: int
    attributes: Attributes


class TraceSpan(Struct):
    """One span. `start` and `end` are nanoseconds since the epoch, ids hexadecimal digits; `parent_id` is "" for a span without
    a parent, `remote` whether the parent is another service's. `error` is the class of what failed, "" where nothing did; `state`
    is the trace's `tracestate`; `links` are spans of other traces."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    start: int
    end: int
    attributes: Attributes
    error: str = ""
    events: Sequence[SpanEvent] = ()
    remote: bool = False
    state: str = ""
    links: Sequence[RemoteSpan] = ()


def spans_of(
    request: TracedRequest, bits: Callable[[int], int], most: int, operations: Mapping[str, str]
) -> list[TraceSpan]:
    """The spans of a request that has ended, its own first, at most `most`. `bits` gives random bits, for ids; `operations` are
    what the conventions of GenAI call the work of an API, where that is not "chat"."""
    making = _Making(request, bits, most, operations)
    root = making.root()
    begun = request.started
    if making.started is not None:
        begun = max(begun, making.started.admitted)
        making.span("queue", root, request.started, begun)
    of_prompts = _prompts(request.moments)
    for number, moments in enumerate(of_prompts, 1):
        parent = root
        if len(of_prompts) > 1:
            parent = making.span("prompt", root, begun, _last(moments, begun), {"smg.turn": number})
        making.turns(moments, parent, begun)
    for each in request.stored:
        call = each.call
        attributes: Attributes = {"smg.store.method": call.method, **_outcome(call.outcome)}
        error = "" if call.outcome in _NO_FAULT else call.outcome
        making.span(f"store {call.method}", root, each.at - call.seconds, each.at, attributes, error=error)
    if making.dropped:
        root.attributes = {**root.attributes, "smg.spans.dropped": making.dropped}
    return making.spans


def _prompts(moments: Sequence[Moment]) -> list[list[Moment]]:
    """The moments of each prompt, in order: a request may have several, which are worked on at the same time."""
    found: dict[str, list[Moment]] = {}
    for each in moments:
        if type(each) not in _OF_THE_REQUEST:
            found.setdefault(getattr(each, "request_id", ""), []).append(each)
    return list(found.values())


def _turns(moments: Sequence[Moment]) -> list[list[Moment]]:
    """The moments of each turn: a prompt is made for every one, and nothing is prepared twice within one."""
    turns: list[list[Moment]] = [[]]
    called = False
    for each in moments:
        if called and type(each) is Rendered:
            turns.append([])
            called = False
        called = called or type(each) in _CALLED
        turns[-1].append(each)
    return turns


def _last(moments: Sequence[Moment], begun: float) -> float:
    """When the last of them happened."""
    return max([begun, *(getattr(each, "at", begun) for each in moments)])


class _Making:
    """The spans of one request as they are made. `dropped` counts those that there is no room for; `started` is its beginning,
    None for one that was not admitted."""

    def __init__(
        self, request: TracedRequest, bits: Callable[[int], int], most: int, operations: Mapping[str, str]
    ) -> None:
        self._operations = operations
        self.spans: list[TraceSpan] = []
        self.dropped = 0
        self._request = request
        self._bits = bits
        self._most = most
        self._epoch = round(request.epoch * 1e9)
        self._ids: list[str] = []
        self.started: RequestStarted | None = None
        for each in request.moments:
            if type(each) is RequestStarted:
                self.started = each
                break

    def _id(self) -> str:
        """A new id of a span. Several are drawn at once, since most requests have some."""
        if not self._ids:
            drawn = f"{self._bits(64 * _IDS):0{16 * _IDS}x}"
            self._ids = [drawn[at : at + 16] for at in range(0, 16 * _IDS, 16)]
        found = self._ids.pop()
        return found if found.strip("0") else f"{1:016x}"

    def ns(self, at: float) -> int:
        """Monotonic seconds as nanoseconds since the epoch."""
        return self._epoch + round(at * 1e9)

    def span(
        self,
        name: str,
        parent: TraceSpan,
        start: float,
        end: float,
        attributes: Attributes | None = None,
        *,
        kind: str = "internal",
        span_id: str = "",
        error: str = "",
    ) -> TraceSpan:
        """A span below `parent`, from `start` to `end` in monotonic seconds. It does not end before it starts."""
        request = self._request
        begin = self.ns(start)
        made = TraceSpan(
            request.trace_id,
            span_id or self._id(),
            parent.span_id,
            name,
            kind,
            begin,
            max(begin, self.ns(end)),
            _NO_ATTRIBUTES if attributes is None else attributes,
            error,
            state=request.state,
        )
        if len(self.spans) < self._most:
            self.spans.append(made)
        else:
            self.dropped += 1
        return made

    def root(self) -> TraceSpan:
        """The request's own span."""
        request, exchange = self._request, self._request.exchange
        finished: RequestFinished | None = None
        for each in reversed(request.moments):
            if type(each) is RequestFinished:
                finished = each
                break
        ended = request.started if request.ended is None else request.ended
        attributes: dict[str, Attribute] = {} if exchange is None else _of_exchange(exchange)
        if finished is not None:
            attributes |= _of_request(finished, request, self._operations.get(finished.api, "chat"))
        outcome = finished.outcome if finished is not None else "" if exchange is None else exchange.outcome
        status = finished.status if finished is not None else 0 if exchange is None else exchange.status
        if outcome:
            attributes |= _outcome(outcome)
        made = TraceSpan(
            request.trace_id,
            request.span_id,
            "" if request.parent is None else request.parent.span_id,
            request.name or _name_of(exchange),
            request.kind,
            self.ns(request.started),
            self.ns(ended),
            attributes,
            outcome if status >= _FAILED and outcome not in _NO_FAULT else "",
            remote=request.parent is not None,
            state=request.state,
            links=() if request.link is None else (request.link,),
        )
        self.spans.append(made)
        return made

    def turns(self, moments: Sequence[Moment], parent: TraceSpan, begun: float) -> None:
        """The stages of one prompt, which began to be worked on at `begun`; each turn of several has a span of its own."""
        turns = _turns(moments)
        if len(turns) == 1:
            self._stages(moments, parent, begun)
            return
        for number, turn in enumerate(turns, 1):
            end = _last(turn, begun)
            self._stages(turn, self.span("turn", parent, begun, end, {"smg.turn": number}), begun)
            begun = end

    def _stages(self, moments: Sequence[Any], parent: TraceSpan, before: float) -> None:
        """The stages of one turn, in order; `before` is when the one before ended."""
        delay = 0.0
        for each in moments:
            kind = type(each)  # compared, since asking each of these classes whether a moment is one of it takes long
            if kind is Rendered:
                self.span("render", parent, before, each.at)
            elif kind is EncodeDone:
                self.span("encode", parent, each.at - each.seconds, each.at, _of_encoding(each))
            elif kind is MediaLoaded:
                self.span("media", parent, before, each.at, {"smg.media.count": each.count})
            elif kind is WorkerPicked:
                self.span("select", parent, min(before + delay, each.at), each.at, _of_pick(each))
                delay = 0.0
            elif kind is AttemptEnded:
                self._call(each, parent)
            elif kind is ToolCalled:
                self._tool(each, parent)
            elif kind is GuardrailAsked:
                self._guardrail(each, parent)
            elif kind is not FirstToken:
                self._note(each, parent, before)
                delay = each.delay if kind is Retrying else delay
            if kind in _OF_A_STAGE:
                before = max(before, each.at)

    def _note(self, moment: Moment, span: TraceSpan, now: float) -> None:
        """What has no span is an event of the one that it happened in."""
        match moment:
            case Retrying():
                self._event(span, "retry", now, {"smg.retry.delay": moment.delay, **_failure(moment)})
            case Migrating():
                self._event(span, "migration", now, _of_migration(moment))
            case Hedged() if moment.to:
                of = {"smg.worker": moment.worker, "smg.to": moment.to, "smg.outcome": moment.outcome}
                self._event(span, "hedge", now, {"smg.delay": moment.delay, **of})
            case FormatViolation():
                attributes: Attributes = {
                    "smg.choice": moment.index,
                    "smg.mended": moment.mended,
                    "smg.worker": moment.worker,
                }
                self._event(span, "format_violation", now, attributes)
            case ReasoningLeftOut():
                self._event(span, "reasoning_left_out", moment.at, {"smg.reasons": moment.reasons})

    def _call(self, ended: AttemptEnded, parent: TraceSpan) -> None:
        """The span of a call of an engine, with the time to its first output and the time after it."""
        start, error = ended.at - ended.seconds, "" if ended.outcome in _NO_FAULT else ended.outcome
        operation = self._operation
        verb = ended.role if ended.role in ("prefill", "encode") else operation
        call = self.span(
            f"{verb} {ended.model}",
            parent,
            start,
            ended.at,
            _of_call(ended, operation),
            kind="client",
            span_id=ended.span_id,
            error=error,
        )
        if ended.first_seconds is not None:
            first = start + ended.first_seconds
            self.span("first_token", call, start, first)
            self.span("decode", call, first, ended.at)

    def _tool(self, called: ToolCalled, parent: TraceSpan) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            **({"gen_ai.tool.name": _cut(called.tool)} if called.tool else {}),
            "smg.server": _cut(called.server),
            **_outcome(called.outcome),
        }
        error = "" if called.outcome in _NO_FAULT else called.outcome
        name = f"execute_tool {_cut(called.tool)}".rstrip()
        self.span(name, parent, called.at - called.seconds, called.at, attributes, error=error)

    def _guardrail(self, asked: GuardrailAsked, parent: TraceSpan) -> None:
        attributes: Attributes = {"smg.guardrail.place": asked.place, "smg.guardrail.outcome": asked.outcome}
        name, error = f"guardrail {asked.guardrail}", asked.outcome if asked.outcome == "failed" else ""
        self.span(name, parent, asked.at - asked.seconds, asked.at, attributes, error=error)

    def _event(self, span: TraceSpan, name: str, at: float, attributes: Attributes) -> None:
        span.events = (*span.events, SpanEvent(name, self.ns(at), attributes))

    @property
    def _operation(self) -> str:
        return self._operations.get(self.started.api if self.started is not None else "", "chat")


# ------------------------------------------------------------------------------------------------------------- attributes


def _cut(text: str) -> str:
    """At most `LONGEST_TEXT` characters of a text from a client."""
    return text[:LONGEST_TEXT]


def _present(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """The attributes that are known."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def _outcome(outcome: str) -> dict[str, Attribute]:
    if outcome in _NO_FAULT:
        return {"smg.outcome": outcome}
    return {"smg.outcome": outcome, "error.type": outcome}


def _name_of(exchange: ExchangeEnded | None) -> str:
    """The name of a request's span: method and route. A path that a client made up is none."""
    if exchange is None:
        return "request"
    method = exchange.method if exchange.method in _METHODS or exchange.method == "WEBSOCKET" else "HTTP"
    return f"{method} {exchange.route}" if exchange.route else method


def _of_exchange(ended: ExchangeEnded) -> dict[str, Attribute]:
    return _present(
        {
            "http.request.method": ended.method if ended.method in _METHODS else "_OTHER",
            "url.path": _cut(ended.path),
            "http.route": ended.route,
            "http.response.status_code": ended.status,
            "http.response.body.size": ended.sent,
            "client.address": ended.peer.rpartition(":")[0] or ended.peer,
            "smg.request_id": ended.request_id,
            "smg.client_request_id": ended.client_id,
            "smg.tenant": _cut(ended.tenant),
        }
    )


def _of_request(done: RequestFinished, request: TracedRequest, operation: str) -> dict[str, Attribute]:
    sampling, content = request.sampling, request.content
    known = _present(
        {
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": _cut(done.model),
            "gen_ai.response.model": done.served,
            "gen_ai.response.id": done.request_id,
            "gen_ai.request.stream": done.stream,
            "gen_ai.response.time_to_first_chunk": done.first_seconds,
            "smg.request_id": done.request_id,
            "smg.client_request_id": done.client_id,
            "smg.tenant": _cut(done.tenant),
            "smg.api": done.api,
            "smg.attempts": done.attempts,
            "smg.worker": done.worker,
            "smg.transport": done.transport,
        }
    )
    if done.attempts:
        known |= {
            "gen_ai.usage.input_tokens": done.prompt_tokens,
            "gen_ai.usage.output_tokens": done.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": done.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": done.reasoning_tokens,
        }
    if done.finish:
        known["gen_ai.response.finish_reasons"] = done.finish
    if sampling is not None:
        known |= _present(
            {
                "gen_ai.request.max_tokens": sampling.max_tokens,
                "gen_ai.request.temperature": sampling.temperature,
                "gen_ai.request.top_p": sampling.top_p,
                "gen_ai.request.top_k": sampling.top_k,
                "gen_ai.request.seed": sampling.seed,
                "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
                "gen_ai.request.presence_penalty": sampling.presence_penalty,
                "gen_ai.request.choice.count": sampling.n if sampling.n > 1 else None,
            }
        )
    if content is not None:
        attributes = {"gen_ai.input.messages": content.inputs, "gen_ai.output.messages": content.outputs}
        known |= _present(attributes)
    return known


def _of_encoding(done: EncodeDone) -> Attributes:
    return {"gen_ai.usage.input_tokens": done.prompt_tokens, "smg.cached_characters": done.cached_characters}


def _of_pick(picked: WorkerPicked) -> Attributes:
    tokens, basis = picked.cached or (None, "")
    return _present(
        {
            "smg.worker": picked.worker,
            "smg.policy": picked.policy,
            "smg.role": picked.role,
            "smg.rank": picked.rank,
            "smg.call.attempt": picked.attempt,
            "smg.cached_tokens.expected": tokens,
            "smg.cached_tokens.basis": basis,
        }
    )


def _of_call(ended: AttemptEnded, operation: str) -> Attributes:
    known = _present(
        {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": ended.dialect,
            "gen_ai.request.model": _cut(ended.model),
            "gen_ai.response.time_to_first_chunk": ended.first_seconds,
            "smg.worker": ended.worker,
            "smg.role": ended.role,
            "smg.call.attempt": ended.attempt,
            "smg.transport": ended.transport,
        }
    )
    if ended.role not in ("prefill", "encode"):
        known["gen_ai.usage.output_tokens"] = ended.completion_tokens
    if ended.finish:
        known["gen_ai.response.finish_reasons"] = ended.finish
    return known | _outcome(ended.outcome)


def _of_migration(moved: Migrating) -> Attributes:
    attributes: dict[str, Attribute] = {"smg.worker.next": moved.to, "smg.tokens": moved.tokens, **_failure(moved)}
    if moved.inexact:
        attributes["smg.inexact"] = moved.inexact
    return attributes


def _failure(moment: Retrying | Migrating) -> Attributes:
    return {"smg.worker": moment.worker, "error.type": moment.error}
