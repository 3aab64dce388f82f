"""The moments of a gateway as frozen records, and the role of an observer of them.

Logs and metrics are observers: `serving.request_traces` adds the gateway's `FailureLog` to the one that it was made with
(`processes.serve`: `AccessLog`). No room imports a metrics library. A record is made per request or per turn, never per token.
Observers must not raise and must not wait; one with slow work needs a queue of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from smg_core.fleet_moments import MeshSampled, SourceAnswered, SourceChanged, SourceSampled
from smg_core.limit_moments import AnswerLookedUp, BudgetLow, ObjectiveKept, QueueLeft, TimePredicted
from smg_core.pool_sample import PoolSampled, WorkerSampled

__all__ = [
    "AttemptEnded",
    "BreakerChanged",
    "ConceptsLost",
    "EncodeDone",
    "ExchangeEnded",
    "FellBack",
    "FirstToken",
    "FormatViolation",
    "GuardrailAsked",
    "Hedged",
    "JoinEnded",
    "LedgerDropped",
    "MediaLoaded",
    "Migrating",
    "Moment",
    "Observer",
    "Observers",
    "PluginActed",
    "PluginChanged",
    "PluginCounted",
    "PolicyFailed",
    "ProcessSampled",
    "ReasoningLeftOut",
    "Rendered",
    "Reporter",
    "RequestFinished",
    "RequestStarted",
    "Retrying",
    "RunEnded",
    "SettlementsDropped",
    "Shadowed",
    "SilentObserver",
    "StoreCalled",
    "ToolCalled",
    "TracesDropped",
    "WorkerPicked",
    "WorkerStateChanged",
    "fan_out",
]


class RequestStarted(Struct, frozen=True):
    """A request was decoded and admitted, at `admitted`. `api` is "chat", "responses", ...; `at` is when its work began; both are
    monotonic seconds."""

    request_id: str
    api: str
    model: str
    stream: bool
    at: float
    admitted: float = 0.0


class ReasoningLeftOut(Struct, frozen=True):
    """Sealed reasoning of the request did not open, for these reasons, one for each piece; it is not in the prompt."""

    request_id: str
    reasons: tuple[str, ...]
    at: float


class ConceptsLost(Struct, frozen=True):
    """An outside provider was not told these concepts of the request, or was told them in another way."""

    request_id: str
    worker: str
    concepts: tuple[str, ...]


class Rendered(Struct, frozen=True):
    """The chat template was rendered: the prompt's text is known."""

    request_id: str
    at: float


class MediaLoaded(Struct, frozen=True):
    """The `count` media of the request were fetched, processed and placed in the prompt."""

    request_id: str
    count: int
    at: float


class EncodeDone(Struct, frozen=True):
    """The prompt was tokenized. `cached_characters` of `characters` came from the tokenizer cache; `seconds` is the time since it
    was rendered; `prompt_tokens` includes the tokens that stand for media. Reported once these are known."""

    request_id: str
    characters: int
    cached_characters: int
    prompt_tokens: int
    seconds: float
    at: float


class WorkerPicked(Struct, frozen=True):
    """A policy chose `worker` (its name, not its address) on try number `attempt`, from 1. `role`: what it is to compute of the
    turn, "regular" for all of it; `rank`: the data-parallel rank of its engine, None where that chooses; `model`: the served
    model; `transport`: how the engine is called, "grpc" or "http"; `why`: the policy's reason, "" where it gives none; `cached`:
    how many tokens of the prompt the worker's cache is expected to have, and whether that is "exact" (the engine tells) or
    "approximate" (by what was sent there), None where the policy does not look."""

    request_id: str
    worker: str
    policy: str
    attempt: int
    at: float
    role: str = "regular"
    rank: int | None = None
    model: str = ""
    transport: str = ""
    why: str = ""
    cached: tuple[int, str] | None = None


class FirstToken(Struct, frozen=True):
    """The first output came, `seconds` after the request started. Reported once per request, whatever the number of attempts, and
    not where the engine was asked for its answer in one piece."""

    request_id: str
    worker: str
    seconds: float
    at: float


class Retrying(Struct, frozen=True):
    """A worker failed before the first byte went to the client; another one is tried after `delay` seconds."""

    request_id: str
    worker: str
    error: str
    delay: float


class FellBack(Struct, frozen=True):
    """`model` could not answer a request, of which nothing has gone out, for `reason` ("no_worker", "overloaded", "failed" or
    "context"); the model `to` is asked next."""

    request_id: str
    model: str
    to: str
    reason: str


class Hedged(Struct, frozen=True):
    """The answer of `worker` was late, after `delay` seconds, and the worker `to` was asked too. `outcome` is "won" (its answer
    was used), "lost" (the first one's was), "failed" (its call failed, the first one's did not), "both_failed"; or, where nobody
    was asked, "no_worker" or "no_budget"."""

    request_id: str
    model: str
    worker: str
    to: str
    delay: float
    outcome: str


class Shadowed(Struct, frozen=True):
    """A copy of a request for `model` was sent to the model `shadow` too, and its answer was thrown away. `outcome` is "ok", the
    error's class name, "abandoned" (the gateway shuts down), or "dropped": not sent, since as many are under way as may be.
    `first_seconds` is the time from its start to its first output, None without one; `finish` has the reason of each choice.
    `agrees`: both answers have the same number of tokens and ended for the same reasons; None where one of them is not whole."""

    request_id: str
    model: str
    shadow: str
    outcome: str
    worker: str = ""
    first_seconds: float | None = None
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish: tuple[str, ...] = ()
    agrees: bool | None = None


class Migrating(Struct, frozen=True):
    """An answer of which `tokens` have come goes on with another engine: `worker` was lost with `error`, `to` is asked next. The
    rest could differ from what the first engine would have said if `inexact` names why ("constraint", "seed", "penalties")."""

    request_id: str
    worker: str
    to: str
    error: str
    tokens: int
    inexact: tuple[str, ...] = ()


class AttemptEnded(Struct, frozen=True):
    """One call of a worker's engine ended, successfully or not. `outcome` is "ok", "abandoned" (the client left, or the gateway
    shuts down), "outrun" (another call for the same answer was faster) or the error's class name; `detail` says why, for the
    operator alone, and `outside_text` is the part of it that is the engine's own text, which may repeat what it was sent;
    `finish` has the reason of each choice, in the order in which they ended; `first_seconds` is the time from the call's start to
    its first output, None without output and where the engine was asked for its answer in one piece. `client_id` is the client's
    own name for the request, "" when it gave none. `role` and `model` as in WorkerPicked: a turn of two workers has two such
    moments. `transport` is how the engine was called, "grpc" or "http", `dialect` the engine's. `span_id` is that of the call in
    a trace that is recorded, "" without one; `trace_id` that of the trace of the request."""

    request_id: str
    worker: str
    attempt: int
    outcome: str
    completion_tokens: int
    finish: tuple[str, ...]
    first_seconds: float | None
    seconds: float
    at: float
    detail: str = ""
    client_id: str = ""
    role: str = "regular"
    model: str = ""
    transport: str = ""
    dialect: str = ""
    span_id: str = ""
    outside_text: str = ""
    trace_id: str = ""


class FormatViolation(Struct, frozen=True):
    """The text of choice `index` breaks the format that was asked for; `violation` says how. With `mended`, the text was repaired
    and is valid now. Reported when the engine's call is over, for streams and whole answers alike."""

    request_id: str
    worker: str
    index: int
    violation: str
    mended: bool = False


class ToolCalled(Struct, frozen=True):
    """One call of a tool that runs here ended. `server` is the label of its server; `outcome` is "ok", "error" (the tool's own),
    "bad_arguments" or the error's class name; `seconds` is how long it ran. `configured`: the server is the operator's, whose
    names are few; otherwise client and request have named it. `tool` is "" where the server offers none of the name that the
    model wrote."""

    request_id: str
    server: str
    tool: str
    outcome: str
    seconds: float
    at: float
    configured: bool = False


class GuardrailAsked(Struct, frozen=True):
    """A guardrail was asked about a text in a `place` ("input", "output", "arguments"): `outcome` is "passed", "masked",
    "blocked" or "failed"; `seconds` is how long it took."""

    request_id: str
    guardrail: str
    place: str
    outcome: str
    seconds: float
    at: float


class RequestFinished(Struct, frozen=True):
    """The response ended. `outcome` is "ok", "client_gone", the error's class name, or "error" for an unexpected exception in
    the gateway; token counts are those of the whole response. `worker` is the last one that was called ("" when none was),
    `attempts` the number of engine calls, `first_seconds` the time to the first output (None where no FirstToken was reported),
    `finish` the reason of each choice, in the order in which they ended, `violations` the number of choices that broke their
    format, mended ones included. `served` is the first name of the served model that `model` means, "" where the gateway serves
    none for this caller: unlike `model`, which is text from the client, there are few of them. `transport` is how the engine was
    called ("grpc", "http", "" when none was). `tenant` is the caller's. `reported`: an engine's call has told of the failure."""

    request_id: str
    api: str
    model: str
    outcome: str
    status: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    seconds: float
    worker: str = ""
    attempts: int = 0
    first_seconds: float | None = None
    finish: tuple[str, ...] = ()
    detail: str = ""
    client_id: str = ""
    violations: int = 0
    served: str = ""
    transport: str = ""
    stream: bool = False
    reasoning_tokens: int = 0
    tenant: str = ""
    trace_id: str = ""
    sampled: bool = True
    outside_text: str = ""
    reported: bool = False


class ExchangeEnded(Struct, frozen=True):
    """An HTTP request on any route, known or not, was answered or given up. `peer` is the client's address, `sent` the bytes of
    the answer's body, `outcome` as in RequestFinished, `finished` that moment when the request was one to a model. `tenant`
    and `principal` are those of its caller, "" where none was found. `route` is the pattern of the route, "" where there is none.
    `trace_id` and `sampled` as in RequestFinished. `method`, `path` and `client_id` are text from the client:
    an observer that writes them must escape them."""

    peer: str
    method: str
    path: str
    status: int
    sent: int
    seconds: float
    outcome: str
    request_id: str = ""
    client_id: str = ""
    finished: RequestFinished | None = None
    tenant: str = ""
    principal: str = ""
    route: str = ""
    trace_id: str = ""
    sampled: bool = True


class RunEnded(Struct, frozen=True, kw_only=True):
    """A request that was answered without a client who waits has ended, and its answer is kept: a line of the batch `batch_id`
    (`method` "BATCH"), or a response in the background ("BACKGROUND"), with all its tries. `tenant` and `principal` are those of
    who asked for it, whoever has ended it. The other fields are as in ExchangeEnded; `seconds` are those since it was first
    tried, or was asked for."""

    method: str
    path: str
    status: int
    sent: int
    seconds: float
    outcome: str
    request_id: str
    tenant: str
    principal: str
    client_id: str = ""
    finished: RequestFinished | None = None
    trace_id: str = ""
    batch_id: str = ""
    peer: str = ""


class WorkerStateChanged(Struct, frozen=True):
    """A worker went from one state to another, for example "ready" to "unreachable"."""

    worker: str
    before: str
    after: str
    reason: str


class JoinEnded(Struct, frozen=True):
    """A worker tried to join. `outcome` is "ok" or the error's class name; `seconds` is how long it took."""

    worker: str
    outcome: str
    seconds: float


class StoreCalled(Struct, frozen=True):
    """One call of the history ended. `method` is that of `history.store.base.Store`; `outcome` is "ok" or the error's class."""

    method: str
    outcome: str
    seconds: float


class ProcessSampled(Struct, frozen=True):
    """How one process of the gateway is, reported at an interval (`admin.metrics.sampling`). `connections` are open ones,
    `in_flight` requests under way, `waiting` pieces of work that wait for a thread, `models` those that it serves. Since the
    last sample: `lag` is the most seconds that the event loop was late, `blocked` how often it was blocked for longer than the
    watchdog allows, `collections` of garbage by generation, which took `collecting_s` seconds. `pools`: of workers."""

    connections: int
    in_flight: int
    waiting: int
    models: int
    workers: tuple[WorkerSampled, ...]
    lag: float = 0.0
    blocked: int = 0
    collections: tuple[int, ...] = ()
    collecting_s: float = 0.0
    pools: tuple[PoolSampled, ...] = ()


class TracesDropped(Struct, frozen=True):
    """The spans of so many `requests` were not sent to the collector. `why` is "queue_full", "export_failed", or
    "rejected": the collector took a part of them alone, and as many requests are counted as it rejected spans, at most all."""

    requests: int
    why: str


class SettlementsDropped(Struct, frozen=True):
    """What so many requests took is not counted by the limits: their store was away for too long."""

    requests: int


class LedgerDropped(Struct, frozen=True):
    """What so many `requests` took is in no account of the ledger, with these tokens: its store failed for too long."""

    requests: int
    prompt_tokens: int
    completion_tokens: int


class BreakerChanged(Struct, frozen=True):
    """The breaker of a worker, or of one `rank` of its engine, changed its `state` to "open" (it gets no requests), "half_open"
    (a few), or "closed"."""

    worker: str
    state: str
    rank: int | None = None


class PolicyFailed(Struct, frozen=True):
    """A routing policy raised `error`, the name of an exception ("WrongPick": it chose what cannot be), in its method `call`. A
    choice was then made by the fewest requests."""

    policy: str
    call: str
    error: str


class PluginActed(Struct, frozen=True):
    """A plugin did more than look on in its `hook` ("request_head", "response", "end"): `outcome` is "changed", "rejected" or
    "failed". Pieces of a stream that it changes are not told one by one."""

    plugin: str
    hook: str
    outcome: str


class PluginCounted(Struct, frozen=True):
    """A component added `by` to a `counter` of its own."""

    plugin: str
    counter: str
    by: float


class PluginChanged(Struct, frozen=True):
    """The plugins of a process changed: this one was "loaded", "replaced", "removed", or "refused", so that what was there before
    stays."""

    plugin: str
    outcome: str


_OfPrompts = RequestStarted | ReasoningLeftOut | ConceptsLost | Rendered | MediaLoaded | EncodeDone | WorkerPicked
_OfCalls = FirstToken | AttemptEnded | FormatViolation | Retrying | FellBack | Hedged | Shadowed | GuardrailAsked
Moment = (
    _OfPrompts
    | _OfCalls
    | Migrating
    | ToolCalled
    | RequestFinished
    | ExchangeEnded
    | RunEnded
    | WorkerStateChanged
    | JoinEnded
    | StoreCalled
    | ProcessSampled
    | BreakerChanged
    | PolicyFailed
    | PluginActed
    | PluginCounted
    | PluginChanged
    | SourceAnswered
    | SourceChanged
    | MeshSampled
    | SourceSampled
    | TracesDropped
    | LedgerDropped
    | SettlementsDropped
    | BudgetLow
    | QueueLeft
    | AnswerLookedUp
    | TimePredicted
    | ObjectiveKept
)


class Observer(Protocol):
    """Receives every moment of a gateway. One with an attribute `hears`, a collection of classes of moments, is only sure to get
    those: a gateway with several observers spares it the others. One with a method `reporter_of` is asked, once for each class,
    what takes its moments in place of `report`."""

    def report(self, moment: Moment) -> None:
        """Called once for each moment; must return at once and never raise."""


class SilentObserver:
    """Ignores every moment; the default."""

    __slots__ = ()

    def report(self, moment: Moment) -> None: ...


Reporter = Callable[[Any], None]
"""Takes the moments of one class, for one observer."""


class _Reporters(dict[type, tuple[Reporter, ...]]):
    """For each class of moments who is told of them, found when the first one comes."""

    __slots__ = ("_observers",)

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        super().__init__()
        self._observers = observers

    def __missing__(self, kind: type) -> tuple[Reporter, ...]:
        hearing = [each for each in self._observers if kind in getattr(each, "hears", (kind,))]
        found = self[kind] = tuple([_reporter_of(each, kind) for each in hearing])
        return found


def _reporter_of(observer: Observer, kind: type) -> Reporter:
    """What takes an observer's moments of one class."""
    asked: Callable[[type], Reporter] | None = getattr(observer, "reporter_of", None)
    return observer.report if asked is None else asked(kind)


class Observers:
    """Passes moments on to all of `observers` that hear them, in order. `reporters` has, for each class of moments, what is to be
    called with each one: whoever reports many looks there."""

    __slots__ = ("observers", "reporters")

    def __init__(self, *observers: Observer) -> None:
        heard: list[Observer] = []
        for each in observers:
            if isinstance(each, Observers):
                heard += each.observers
            elif not isinstance(each, SilentObserver):
                heard.append(each)
        self.observers: tuple[Observer, ...] = tuple(heard)
        self.reporters: Mapping[type, tuple[Reporter, ...]] = _Reporters(self.observers)

    def report(self, moment: Moment) -> None:
        for report in self.reporters[type(moment)]:
            report(moment)


def fan_out(*observers: Observer) -> Observer:
    """One observer that passes every moment to all of `observers` that hear it, in order; silent ones are left out."""
    found = Observers(*observers)
    if not found.observers:
        return SilentObserver()
    return found.observers[0] if len(found.observers) == 1 else found
