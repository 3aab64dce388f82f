"""One worker: its configuration, what it serves, and its state.

The state machine is the table `TRANSITIONS`; only `Worker.apply` changes the state. Requests in flight are counted on a
`Board`, so that several processes can share the counts. Does no I/O: the engine's client is a value that the worker holds for
the pipeline. Above: registry, monitor, pipeline. Below: engines.base.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Literal, Protocol
from urllib.parse import urlsplit

import attrs

from smg_core.cards import card
from smg_core.engines.base import Engine, EngineFacts, KvFacts, ModelInfo
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.engines.handover import role_of
from smg_core.engines.loads import Loads, RankLoad
from smg_core.errors import WorkerGone
from smg_core.workers.breaker_table import BreakerTable
from smg_core.workers.candidate import LEAST_WEIGHT, MOST_RANK, MOST_WEIGHT, CandidateRecord
from smg_core.workers.polls import Polls
from smg_core.workers.process_identity import ProcessTracker

__all__ = [
    "AT_ONCE",
    "TRANSITIONS",
    "Board",
    "ClientCalls",
    "LocalBoard",
    "ProbeCall",
    "Signal",
    "State",
    "Worker",
    "WorkerPlace",
    "WorkerRole",
    "WorkerSpec",
    "needs_new_client",
    "records_of",
]

WorkerRole = Literal["regular", "prefill", "decode", "encode"]
"""What a worker computes of a turn: everything, only the prompt's KV cache ("prefill"), tokens from such a cache ("decode"), or
the embeddings of media for a prompt's cache ("encode")."""

State = Literal["joining", "ready", "unreachable", "draining", "gone"]
Signal = Literal["joined", "healthy", "failing", "drain", "undrain", "removed"]

TRANSITIONS: dict[tuple[State, Signal], State] = {
    ("joining", "joined"): "ready",
    ("ready", "failing"): "unreachable",
    ("unreachable", "healthy"): "ready",
    ("unreachable", "joined"): "ready",
    ("joining", "drain"): "draining",
    ("ready", "drain"): "draining",
    ("unreachable", "drain"): "draining",
    ("draining", "undrain"): "joining",  # its engine is asked first
    ("joining", "removed"): "gone",
    ("ready", "removed"): "gone",
    ("unreachable", "removed"): "gone",
    ("draining", "removed"): "gone",
}
"""(state, signal) to the next state; any other pair changes nothing."""

_WELL: dict[Signal, bool] = {"failing": False, "healthy": True, "joined": True}
"""What a signal says of the engine, whatever the worker's state."""

STATES: tuple[State, ...] = ("joining", "ready", "unreachable", "draining")
"""The states of a worker that has a row on the board, in the order of their numbers there."""


def _names_of(headers: tuple[tuple[str, str], ...]) -> str:
    """The headers for a log: their names alone."""
    return repr([name for name, _ in headers])


@attrs.frozen
class WorkerSpec:
    """A worker as configured. `url` is an engine target ("grpc://gpu-0:50051"); `name` what logs and metrics call it;
    `dialect` the engine protocol or "auto"; `model` overrides the name the engine gives its model; `role` is what it computes
    (None: what its engine says, else everything). `bootstrap_host` and `bootstrap_port` are where the other engine of a request
    finds the cache of this one; without them, the URL's host and the port that its engine says. With `rank`
    the worker is that data-parallel rank of the engine: every request that it gets goes there. `adapters` are the LoRA adapters
    of an engine that cannot list them, each with its name and the id by which the engine knows it. `labels` are an operator's
    own names and values, for people and programs that look at the workers; sorted by name. `kv_events` is where an engine that
    publishes its KV events on ZeroMQ does so ("tcp://gpu-0:5557"), `kv_events_replay` where it sends those again that were
    missed, and `kv_events_topic` what it publishes them under.

    `headers` are sent with every call of this worker's engine and of no other; names are lower-case, values may be secrets.
    `credential` is where the key or token of a provider comes from, `region` where it is asked, `vendor_model` what it calls the
    model, where clients know that by another name, and `api_version` which of its API's versions is asked, where it wants one.
    `tls` has the certificates for this worker, in place of those of the settings. `most_in_flight` and `most_waiting_tokens` are
    its own bounds, in place of those of the settings (0: none of its own), `requests_a_minute` and `tokens_a_minute` what its
    account allows (0: nobody counts), and `price` what a million of its tokens cost, by their kind, as decimals."""

    url: str
    name: str = ""
    dialect: str = "auto"
    model: str | None = None
    weight: float = attrs.field(
        default=1.0, validator=[attrs.validators.ge(LEAST_WEIGHT), attrs.validators.le(MOST_WEIGHT)]
    )
    role: WorkerRole | None = None
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=_names_of)
    tls: Tls | None = None
    bootstrap_host: str = ""
    bootstrap_port: int = 0
    rank: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional([attrs.validators.ge(0), attrs.validators.le(MOST_RANK)]),
    )
    adapters: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    kv_events: str = ""
    kv_events_replay: str = ""
    kv_events_topic: str = ""
    credential: CredentialSpec | None = None
    region: str = ""
    vendor_model: str = ""
    api_version: str = ""
    most_in_flight: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    most_waiting_tokens: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    price: tuple[tuple[str, str], ...] = ()
    requests_a_minute: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    tokens_a_minute: int = attrs.field(default=0, validator=attrs.validators.ge(0))

    @property
    def rated(self) -> bool:
        """Whether its entry allows so much a minute."""
        return bool(self.requests_a_minute or self.tokens_a_minute)

    @property
    def label(self) -> str:
        """The worker's name for people; a worker that is one data-parallel rank of its engine is "engine@rank"."""
        called = self.name or self.url
        return called if self.rank is None else f"{called}@{self.rank}"


AT_ONCE = frozenset(
    {
        *("name", "weight", "labels", "bootstrap_host", "bootstrap_port"),
        *("most_in_flight", "most_waiting_tokens", "price", "requests_a_minute", "tokens_a_minute"),
    }
)
"""The fields of a spec that are looked at whenever they are needed; a change of any other needs a new client of the engine."""


def needs_new_client(before: WorkerSpec, after: WorkerSpec) -> bool:
    """Whether what changed of a spec is of use only to a new client that joins anew."""
    names = (field.name for field in attrs.fields(WorkerSpec) if field.name not in AT_ONCE)
    return any(getattr(before, name) != getattr(after, name) for name in names)


class Board(Protocol):
    """Counts requests in flight, and the tokens of their prompts that no output has followed yet, in one row for each worker.
    `process`: the number of this process among all that count there, from 0, and how many these are. The registry claims a
    row for the name of each worker, which is then joining, and releases it when the worker is gone; `tell` says its state in this
    process meanwhile, and `states` has how many processes have said each. Requests that are counted there then stay counted
    until they end, and the row is given to no other name before. `breakers` is where processes tell each other of their
    breakers, and `polls` of what they have asked engines; both are None where there is one process."""

    process: tuple[int, int]
    breakers: BreakerTable | None
    polls: Polls | None

    def claim(self, name: str) -> int: ...

    def release(self, row: int) -> None: ...

    def tell(self, row: int, state: State) -> None: ...

    def states(self, row: int) -> dict[str, int]: ...

    shared: bool
    """Whether other processes count in it too."""

    changed: set[int]
    """Rows of workers that policies are to be shown in another way than before; whoever keeps records takes them out."""

    def add(self, row: int, change: int, tokens: int = 0) -> None:
        """Count `change` requests more, and so many tokens of prompts."""

    def total(self, row: int) -> int: ...

    def tokens(self, row: int) -> int: ...

    def counts(self, row: int) -> tuple[int, int]:
        """The requests and the tokens."""
        ...


class LocalBoard:
    """A board for one process."""

    shared = False

    __slots__ = ("_left", "_names", "_rows", "_states", "_tokens", "breakers", "changed", "polls", "process")

    def __init__(self) -> None:
        self.changed: set[int] = set()
        self.process = 0, 1
        self.breakers: BreakerTable | None = None
        self.polls: Polls | None = None
        self._names: list[str] = []  # by row
        self._left: set[int] = set()  # rows that were released
        self._states: dict[int, State] = {}
        self._rows: dict[int, int] = {}
        self._tokens: dict[int, int] = {}

    def claim(self, name: str) -> int:
        row = self._names.index(name) if name in self._names else self._unused()
        self._names[row] = name
        self._left.discard(row)
        self._states[row] = STATES[0]
        return row

    def release(self, row: int) -> None:
        self._left.add(row)
        self._states.pop(row, None)

    def tell(self, row: int, state: State) -> None:
        self._states[row] = state

    def states(self, row: int) -> dict[str, int]:
        return {self._states[row]: 1} if row in self._states else {}

    def _unused(self) -> int:
        """The first row that was released and has no requests left, else a new one."""
        free = [row for row in self._left if not self.total(row) and not self.tokens(row)]
        if free:
            return min(free)
        self._names.append("")
        return len(self._names) - 1

    def add(self, row: int, change: int, tokens: int = 0) -> None:
        self._rows[row] = self._rows.get(row, 0) + change
        self.changed.add(row)
        if tokens:
            self._tokens[row] = self._tokens.get(row, 0) + tokens

    def total(self, row: int) -> int:
        return self._rows.get(row, 0)

    def tokens(self, row: int) -> int:
        return self._tokens.get(row, 0)

    def counts(self, row: int) -> tuple[int, int]:
        return self._rows.get(row, 0), self._tokens.get(row, 0)


class ClientCalls:
    """The calls that go through one client of an engine in this process. A client in whose place another one has come is closed
    by `on_none`, once its last call has ended."""

    __slots__ = ("count", "on_none")

    def __init__(self) -> None:
        self.count = 0
        self.on_none: Callable[[], None] | None = None

    def when_none(self, done: Callable[[], None]) -> None:
        """Call `done` when no call is left: now, or when the last one ends."""
        if self.count:
            self.on_none = done
        else:
            done()


class WorkerPlace:
    """The place of one call at its worker, from when it is made until `leave` is called. The `tokens` of its prompt count as
    waiting there until `prompt_read` is called, at the call's first output, or it ends."""

    __slots__ = ("_calls", "_tokens", "_worker")

    def __init__(self, worker: "Worker", tokens: int) -> None:
        self._worker, self._calls, self._tokens = worker, worker.client_calls, tokens
        self._calls.count += 1
        worker.board.add(worker.row, 1, tokens)
        worker.kept_record = None

    def prompt_read(self) -> None:
        tokens, self._tokens = self._tokens, 0
        if tokens:
            self._worker.board.add(self._worker.row, 0, -tokens)
            self._worker.kept_record = None

    def leave(self) -> None:
        calls, tokens, self._tokens = self._calls, self._tokens, 0
        self._worker.board.add(self._worker.row, -1, -tokens)
        self._worker.kept_record = None
        self._worker.ended += 1
        calls.count -= 1
        if not calls.count and calls.on_none is not None:
            calls.on_none()


class ProbeCall:
    """One of the few calls that a worker gets while its breaker is half-open: told of once, or given back once by `give_back`, so
    that another one may be made for it. One that is lost leaves the worker alone for longer than it need be, and one that is
    given back twice gets it more calls than it should have."""

    __slots__ = ("_give_back", "_out")

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._out = True

    def take_outcome(self) -> bool:
        """Called when an outcome of it is told. Whether it is the first one: the calls of one request for several choices are one
        probe."""
        first, self._out = self._out, False
        return first

    def give_back(self) -> None:
        """Called when nothing comes of it any more, however often, and whether it was told or not."""
        if self.take_outcome():
            self._give_back()


_UNKNOWN = EngineFacts(dialect="")
_NO_KV = KvFacts()


@attrs.define(eq=False, repr=False)
class Worker:
    """A worker as the gateway knows it now. `source` says who brought it: the settings, an operator at the admin door, or a
    source of workers (`discovery`), which alone changes it then. `row` is its row on the board, `models` the model names that it
    serves, `facts` what its engine can do after the operator's settings and `stated_facts` what it said itself (None before it
    has joined), and `kv` what it says of the cache that it shares with others. `reached` is the client of its engine, None before
    it has joined and after it has left; `engine` is the same, or an error. `adapters` are the LoRA adapters that the engine
    holds, by name with the engine's id, and `adapter_names` the names by which clients ask for them. `evidence` has, by name,
    what its engine said of itself when it joined, and how its dialect is known. `reason` says, for people, why the worker is in
    its state; while it joins: what keeps it from joining. `pending` says what keeps a changed spec from being used; the client
    that was there before serves meanwhile. `client_calls` counts what goes through the client that is there now. `process` tells
    whether the engine is still the process that it was. `failing`: its health checks fail, in any state. `asleep`: its engine has
    given its memory free, and gets no requests. `ended` counts the calls of this process that have ended. `kept_record` is what
    policies are shown of it, None once that has changed. `since`: when this engine was added, in monotonic seconds."""

    spec: WorkerSpec
    row: int
    board: Board
    state: State = "joining"
    reached: Engine | None = None
    info: ModelInfo | None = None
    facts: EngineFacts = _UNKNOWN
    stated_facts: EngineFacts | None = None
    kv: KvFacts = _NO_KV
    models: tuple[str, ...] = ()
    adapters: Mapping[str, str] = attrs.field(factory=dict)
    adapter_names: tuple[str, ...] = ()
    load: Loads | None = None
    evidence: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    source: str = "program"
    pending: str = ""
    client_calls: ClientCalls = attrs.field(factory=ClientCalls)
    process: ProcessTracker = attrs.field(factory=ProcessTracker)
    failing: bool = False
    ended: int = 0
    asleep: bool = False
    since: float = 0.0
    _lost_at: float | None = attrs.field(default=None, init=False)
    _elsewhere: int = attrs.field(default=0, init=False)
    _doubted: bool = attrs.field(default=False, init=False)
    name: str = attrs.field(init=False)
    _host: tuple[WorkerSpec, str] | None = attrs.field(default=None, init=False)
    _named: tuple[tuple[str, ...], frozenset[str]] = attrs.field(default=((), frozenset()), init=False)
    kept_record: CandidateRecord | None = attrs.field(default=None, init=False)
    _last_record: CandidateRecord | None = attrs.field(default=None, init=False)  # but for its counts, it holds still

    @name.default
    def _label(self) -> str:
        return self.spec.label

    def __repr__(self) -> str:
        serves = ", ".join(self.serves) or "no model yet"
        return f"<Worker {self.name} {self.state}: {serves}; {self.in_flight} in flight>"

    def _repr_html_(self) -> str:
        """A card for a notebook."""
        names = ("worker", "state", "serves", "in flight", "why")
        return card(f"Worker {self.name}", [*zip(names, self.row_of_card(), strict=True), *self.evidence])

    def row_of_card(self) -> tuple[str, str, str, int, str]:
        """Its row in a card: name, state, models, requests in flight, and the reason of the state."""
        return self.name, self.state, ", ".join(self.serves), self.in_flight, self.reason

    @property
    def host(self) -> str:
        """Where its engine runs, by its address; looked for anew when its spec has changed."""
        if self._host is None or self._host[0] is not self.spec:
            self._host = self.spec, self.spec.bootstrap_host or urlsplit(self.spec.url).hostname or "localhost"
        return self._host[1]

    @property
    def serves(self) -> tuple[str, ...]:
        """The names that a request may ask for: of the model, and of its adapters."""
        return self.models + self.adapter_names

    def answers_to(self, name: str) -> bool:
        """Whether it serves what a request asks for by this name. There may be thousands of adapters."""
        if self._named[0] is not self.adapter_names:
            self._named = self.adapter_names, frozenset(self.adapter_names)
        return name in self.models or name in self._named[1]

    @property
    def engine(self) -> Engine:
        """The client of its engine. Raises WorkerGone before the worker has joined and after it has left."""
        if self.reached is None:
            raise WorkerGone("The worker is not available.", detail=f"worker {self.name} is {self.state}")
        return self.reached

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self.reached = engine

    @property
    def role(self) -> WorkerRole:
        return self.spec.role or role_of(self.kv) or "regular"

    @property
    def maker(self) -> tuple[str, str, str] | None:
        """The outside provider, account and model whose reasoning it takes back (`EngineFacts.maker`)."""
        return None if self.stated_facts is None else self.stated_facts.maker

    @property
    def weight(self) -> float:
        return self.spec.weight / 2 if self._doubted else self.spec.weight

    def take_load(self, load: Loads | None) -> None:
        """Take what its engine says of its load now; None: it says nothing."""
        self.load = load
        self.forget_record()

    def note_elsewhere(self, elsewhere: int, *, doubted: bool) -> None:
        """Other gateways have so many requests there, and whether most of them do not reach it: it then has half its weight until
        it is known here how it is."""
        if (elsewhere, doubted) != (self._elsewhere, self._doubted):
            self._elsewhere, self._doubted = elsewhere, doubted
            self.forget_record()

    @property
    def elsewhere(self) -> tuple[int, bool]:
        """What other gateways were last heard to say, as `note_elsewhere` takes it."""
        return self._elsewhere, self._doubted

    @property
    def in_flight(self) -> int:
        return self.board.total(self.row)

    @property
    def queued(self) -> int:
        return self.load.waiting if self.load is not None else 0

    @property
    def running(self) -> int:
        return self.load.running if self.load is not None else 0

    @property
    def others(self) -> int:
        return max(self.load.others, self._elsewhere) if self.load is not None else self._elsewhere

    @property
    def prefill_tokens(self) -> int:
        return self.board.tokens(self.row)

    @property
    def kv_usage(self) -> float:
        return self.load.kv_usage if self.load is not None else 0.0

    @property
    def kv_tokens(self) -> int:
        return self.load.kv_tokens if self.load is not None else 0

    @property
    def rank_count(self) -> int:
        return max(1, self.facts.ranks) if self.spec.rank is None else 1

    @property
    def ranks(self) -> tuple[RankLoad, ...]:
        return self.load.ranks if self.load is not None else ()

    @property
    def ranks_out(self) -> tuple[int, ...]:
        """None of its ranks: which of them are left alone is known by the breakers, and added where a policy is shown it."""
        return ()

    @property
    def record(self) -> CandidateRecord:
        """The worker as a routing policy is shown it now: one object as long as nothing of it has changed."""
        kept = self.kept_record
        if kept is not None and not self.board.shared:
            return kept
        in_flight, tokens = self.board.counts(self.row)
        last = self._last_record
        if last is None or last.in_flight != in_flight or last.prefill_tokens != tokens:
            last = self._last_record = self._seen(in_flight, tokens)
        self.kept_record = last
        return last

    def forget_record(self) -> None:
        """Something that policies are shown of it has changed, other than its counts."""
        self.kept_record = self._last_record = None
        self.board.changed.add(self.row)

    def see_facts(self) -> None:
        """Its engine's facts may be others than before; as far as policies are shown them, its record is made anew."""
        last = self._last_record
        if last is not None and last.rank_count != self.rank_count:
            self.forget_record()

    def _seen(self, in_flight: int, tokens: int) -> CandidateRecord:
        load = self.load
        if load is None:
            return CandidateRecord(
                self.name, in_flight, 0, self.weight, 0, tokens, 0.0, 0, self.rank_count, others=self._elsewhere
            )
        return CandidateRecord(
            self.name,
            in_flight,
            load.waiting,
            self.weight,
            load.running,
            tokens,
            load.kv_usage,
            load.kv_tokens,
            self.rank_count,
            load.ranks,
            others=max(load.others, self._elsewhere),
        )

    def become(self, spec: WorkerSpec) -> None:
        """Be what `spec` says, under the same name. Called by the registry."""
        self.spec = spec
        self.forget_record()

    def lost_with(self, began: float, now: float, again_s: float) -> bool:
        """Called when a call that began at `began` has lost the worker: whether the worker was lost with all the calls that it
        had, of which this is one. It is lost once each time that it is ready, and once more when `again_s` seconds have passed:
        a call that began after that has failed by itself. All times are monotonic seconds."""
        if self._lost_at is None or now - self._lost_at >= again_s:
            self._lost_at = now
        return began <= self._lost_at

    def apply(self, signal: Signal, reason: str = "") -> bool:
        """Change the state as `TRANSITIONS` says. True when it changed."""
        if signal in _WELL:
            self.failing = not _WELL[signal]
        after = TRANSITIONS.get((self.state, signal), self.state)
        changed = after != self.state
        self.state = after
        if changed and after == "ready":
            self._lost_at = None
        if changed:
            self.reason = reason
            if after != "gone":
                self.board.tell(self.row, after)
        return changed


def records_of(workers: tuple[Worker, ...]) -> tuple[CandidateRecord, ...]:
    """The workers as a routing policy is shown them now. Nearly all of many are as they were, and cost next to nothing."""
    if workers and workers[0].board.shared:
        return tuple([each.record for each in workers])
    if len(workers) == 1:
        return (workers[0].record,)
    found = tuple(map(_KEPT_RECORD, workers))
    if all(found):
        return found
    return tuple([each.record if kept is None else kept for each, kept in zip(workers, found, strict=True)])


_KEPT_RECORD = attrgetter("kept_record")
