"""The trace of each request: which one it belongs to, whether it is recorded, and what its spans are made of.

Decides whether a request is recorded, draws its ids, and hands it to the exporter once it has ended. Nothing is done for single
tokens. Pure: time and randomness are handed in. Above: the app and the handlers. Below: trace_context, hooks.
"""

from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Literal

from msgspec import Struct

from smg_core.clock import Clock
from smg_core.hooks import ExchangeEnded, Moment, Observer, StoreCalled, TracesDropped
from smg_core.observability.trace_context import Outgoing, RemoteSpan, remote_span, traceparent
from smg_core.observability.tracing.content import TracedContent
from smg_core.observability.tracing.sampling import Sampler
from smg_core.request import GenerationRequest, Sampling

__all__ = ["RequestKind", "SpanQueue", "Stored", "TracedRequest", "Tracer"]

RequestKind = Literal["server", "consumer"]
"""A request that a client waits for, or one that runs later: of a batch, or in the background."""

Bits = Callable[[int], int]
"""So many random bits, as an integer."""


class Stored(Struct, frozen=True):
    """A call of the history that was made for a request; `at` is its end in monotonic seconds."""

    call: StoreCalled
    at: float


class TracedRequest(Struct):
    """One request of a gateway that makes spans. The `Propagation` of its calls of engines.

    `parent` is the span that it belongs to, `link` one that it only names since clients are not trusted; `name` is its own
    span's, "" for that of its route. `moments` are those of its `pipeline.answer.trace.Trace`, `stored` its calls of the history.
    `content` keeps its texts, None where they are not recorded. `epoch` is what has to be added to monotonic seconds for those
    since the epoch.
    """

    bits: Bits
    trace_id: str
    span_id: str
    sampled: bool
    started: float
    kind: RequestKind
    name: str = ""
    state: str = ""
    parent: RemoteSpan | None = None
    link: RemoteSpan | None = None
    moments: list[Moment] = []
    stored: list[Stored] = []
    sampling: Sampling | None = None
    content: TracedContent | None = None
    exchange: ExchangeEnded | None = None
    ended: float | None = None
    epoch: float = 0.0

    def asks(self, request: GenerationRequest) -> None:
        """Note what is asked for, once the request is admitted."""
        self.sampling = request.sampling
        if self.content is not None:
            self.content.asked(request)

    def outgoing(self) -> Outgoing:
        """The headers of one call of an engine. One that is not recorded names the request's span: its own is never seen."""
        if not self.sampled:
            return Outgoing("", self.naming(self.span_id))
        span_id = f"{self.bits(64) or 1:016x}"
        return Outgoing(span_id, self.naming(span_id))

    def naming(self, span_id: str) -> tuple[tuple[str, str], ...]:
        """The headers that name a span of this trace."""
        header = ("traceparent", traceparent(self.trace_id, span_id, sampled=self.sampled))
        return (header, ("tracestate", self.state)) if self.state else (header,)


class SpanQueue:
    """Recorded requests that have ended, until their spans are sent: at most `most`. `wake` is called when there are `many`; it
    must return at once. `waiting` may be emptied by another thread."""

    __slots__ = ("_many", "_most", "dropped", "waiting", "wake")

    def __init__(self, most: int, many: int) -> None:
        self._most = most
        self._many = many
        self.dropped = 0
        self.waiting: deque[TracedRequest] = deque()
        self.wake: Callable[[], None] | None = None

    def put(self, request: TracedRequest) -> bool:
        """False where there is no room, and the request is dropped."""
        size = len(self.waiting)
        if size >= self._most:
            self.dropped += 1
            return False
        self.waiting.append(request)
        if size + 1 == self._many and self.wake is not None:
            self.wake()
        return True


_current: ContextVar[TracedRequest | None] = ContextVar("smg_traced_request", default=None)
"""The recorded request that the task works on: a call of the history does not say whose it is."""


class Tracer:
    """Begins and ends the traces of requests; `report` takes in the calls of the history. `keep` is how many characters of a
    request's texts are recorded (0: none), `calls` how many calls of the history; `observer` is told what is dropped."""

    __slots__ = ("_bits", "_calls", "_clock", "_keep", "_observer", "_queue", "_sampler")

    hears = frozenset({StoreCalled})

    def __init__(
        self, sampler: Sampler, queue: SpanQueue, *, clock: Clock, bits: Bits, observer: Observer, keep: int, calls: int
    ) -> None:
        self._sampler = sampler
        self._queue = queue
        self._clock = clock
        self._bits = bits
        self._observer = observer
        self._keep = keep
        self._calls = calls

    def begin(
        self,
        headers: Mapping[str, str],
        started: float,
        kind: RequestKind = "server",
        name: str = "",
        *,
        ours: bool = False,
    ) -> TracedRequest:
        """The trace of a request with these headers (names in lower case) that began at `started`, in monotonic seconds. `ours`:
        the headers were written here, so that they are trusted."""
        remote = remote_span(headers) if "traceparent" in headers else None
        parent = remote if ours or self._sampler.trusting else None
        ids = f"{self._bits(192):048x}"
        trace_id = ids[:32] if parent is None else parent.trace_id
        sampled = self._sampler.samples(trace_id, parent)
        made = TracedRequest(
            self._bits,
            trace_id,
            ids[32:],
            sampled,
            started,
            kind,
            name,
            "" if parent is None else parent.state,
            parent,
            None if remote is parent else remote,
        )
        if sampled:
            made.content = TracedContent(self._keep) if self._keep else None
            _current.set(made)
        elif _current.get() is not None:
            _current.set(None)
        return made

    def end(self, request: TracedRequest, exchange: ExchangeEnded | None = None) -> None:
        """The request has ended. `exchange` is its HTTP exchange, where it has one of its own. Called again, it does nothing."""
        if request.ended is not None:
            return
        request.ended = self._clock.monotonic()
        if not request.sampled:
            return
        request.exchange = exchange
        request.epoch = self._clock.time() - request.ended
        if not self._queue.put(request):
            self._observer.report(TracesDropped(1, "queue_full"))

    def report(self, moment: Moment) -> None:
        """Note a call of the history with the request that it is made for."""
        if not isinstance(moment, StoreCalled):
            return
        request = _current.get()
        if request is not None and request.ended is None and len(request.stored) < self._calls:
            request.stored.append(Stored(moment, self._clock.monotonic()))
