"""A fleet under more requests than it can take, with the gateway's queue before it or without: who is served, when, and who is
refused.

Requests come by chance from sources, each a tenant in a band, and go to the engine with the least work, as the policy least_load
has it, of those that the queue leaves to them. The clock is virtual, so a run is the same every time. Pure. Above: bench, tests.
Below: engine, the gateway's queue.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any

import attrs

from smg_core.queueing.bands import BANDS
from smg_core.queueing.capacity import capacity_of
from smg_core.queueing.model_queue import ModelQueue, QueueBounds
from smg_core.queueing.reading import PEOPLE_S, read_aside, read_first
from smg_core.queueing.ticket import QueuedRequest
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.work import Work
from smg_simulator.fleet.engine import EngineSpeed, FleetEngine, Task
from smg_simulator.fleet.trace import FleetRequest

__all__ = ["OverloadSettings", "RequestSource", "ServedRequest", "overload"]

_LOOK_S = 0.05
_OUTPUT_WEIGHT = 2.0
_BLOCK = 16


@attrs.frozen
class RequestSource:
    """Requests of one tenant in one band: `rate` of them in a second, from `since` to `until`, with lengths between the fewest
    and the most tokens."""

    tenant: str
    band: int
    rate: float
    weight: float = 1.0
    prompt: tuple[int, int] = (64, 1024)
    output: tuple[int, int] = (64, 256)
    since: float = 0.0
    until: float = 1e9


@attrs.frozen
class OverloadSettings:
    """The fleet, what waits before it (None: nothing, all goes on), and for how long requests come."""

    engines: int = 4
    speed: EngineSpeed = attrs.field(factory=lambda: EngineSpeed(running=32))
    bounds: QueueBounds | None = attrs.field(factory=QueueBounds)
    seconds: float = 120.0
    seed: int = 0


@attrs.define(eq=False)
class ServedRequest:
    """One request: when it came, when it went to an engine, had its first and its last token; `refused` says why it was, `tokens`
    are those that it cost, an answer's counted twice."""

    source: RequestSource
    came: float
    request: FleetRequest
    went: float | None = None
    first: float | None = None
    done: float | None = None
    refused: str = ""
    task: Task | None = None
    ticket: QueuedRequest | None = None

    @property
    def tokens(self) -> float:
        """What it costs a fleet."""
        return self.request.prompt_tokens + _OUTPUT_WEIGHT * self.request.output_tokens

    @property
    def first_token(self) -> float:
        """Seconds from its coming to its first token; endless where there was none."""
        return float("inf") if self.first is None else self.first - self.came


@attrs.frozen
class _Rank:
    max_running: int


@attrs.define
class _Seen:
    """An engine as the gateway sees it."""

    name: str
    in_flight: int
    queued: int
    kv_usage: float
    kv_tokens: int
    ranks: tuple[Any, ...]
    others: int = 0
    prefill_tokens: int = 0
    running: int = 0
    weight: float = 1.0
    rank_count: int = 1
    ranks_out: tuple[int, ...] = ()


def overload(sources: Sequence[RequestSource], settings: OverloadSettings) -> list[ServedRequest]:
    """What became of each request of these sources, in the order of their coming, once all were answered or refused."""
    return _Overload(sources, settings).run()


class _Overload:
    def __init__(self, sources: Sequence[RequestSource], settings: OverloadSettings) -> None:
        self._settings = settings
        self._engines = [FleetEngine(f"engine-{at}", settings.speed, _BLOCK) for at in range(settings.engines)]
        self._counts = [0] * settings.engines
        self._unread = [0] * settings.engines
        self._work = Work(RoutingConfig())
        self._rng = random.Random(settings.seed)
        weights = {each.tenant: each.weight for each in sources}
        self._queue = ModelQueue(settings.bounds or QueueBounds(), lambda tenant: weights.get(tenant, 1.0))
        self._heap: list[tuple[float, int, Callable[[object], None], object]] = []
        self._order, self._now, self._looked, self._people = 0, 0.0, -1.0, -inf
        self._outcomes: list[ServedRequest] = []
        self._by_ticket: dict[QueuedRequest, ServedRequest] = {}
        self._by_task: dict[Task, ServedRequest] = {}
        self._chosen: dict[Task, int] = {}
        for source in sources:
            self._plan(source.since + self._rng.expovariate(source.rate), self._on_coming, source)

    def run(self) -> list[ServedRequest]:
        while self._heap:
            self._now, _, happens, what = heappop(self._heap)
            happens(what)
        return self._outcomes

    def _plan(self, at: float, happens: Callable[[object], None], what: object) -> None:
        self._order += 1
        heappush(self._heap, (at, self._order, happens, what))

    def _on_coming(self, what: object) -> None:
        source = what
        if not isinstance(source, RequestSource) or self._now > min(source.until, self._settings.seconds):
            return
        self._plan(self._now + self._rng.expovariate(source.rate), self._on_coming, source)
        prompt, output = self._rng.randint(*source.prompt), self._rng.randint(*source.output)
        outcome = ServedRequest(source, self._now, FleetRequest(self._now, prompt, output))
        self._outcomes.append(outcome)
        if self._settings.bounds is None:
            self._go(outcome)
            return
        mean = sum(source.output) // 2
        ticket = QueuedRequest(source.tenant, source.band, prompt + _OUTPUT_WEIGHT * mean, prompt + mean)
        outcome.ticket = ticket
        self._by_ticket[ticket] = outcome
        self._look()
        for each, refusal in self._queue.offer(ticket, self._now):
            self._by_ticket.pop(each).refused = refusal.why
        if ticket.state == "running":
            self._go(outcome)
        elif ticket.state == "waiting" and self._queue.waiting == 1:
            self._plan(self._now + _LOOK_S, self._on_look, None)

    def _on_look(self, _: object) -> None:
        self._look()
        for each, refusal in self._queue.expired(self._now):
            self._by_ticket.pop(each).refused = refusal.why
        self._pump()
        if self._queue.waiting:
            self._plan(self._now + _LOOK_S, self._on_look, None)

    def _look(self) -> None:
        if self._now - self._looked < _LOOK_S:
            return
        self._looked = self._now
        self._queue.capacity = capacity_of(self._seen(), self._queue.running)

    def _seen(self) -> Iterator[_Seen]:
        speed = self._settings.speed
        for at, engine in enumerate(self._engines):
            yield _Seen(
                engine.name,
                self._counts[at],
                engine.waiting,
                engine.cache_use,
                speed.cache_tokens,
                (_Rank(speed.running),),
                prefill_tokens=self._unread[at],
            )

    def _pump(self) -> None:
        for ticket in self._queue.pump(self._now):
            self._go(self._by_ticket[ticket])

    def _go(self, outcome: ServedRequest) -> None:
        outcome.went = self._now
        at = self._with_least_work(outcome)
        task = Task(self._order, outcome.request, outcome.request.output_tokens)
        self._order += 1
        outcome.task = task
        self._by_task[task], self._chosen[task] = outcome, at
        self._counts[at] += 1
        self._unread[at] += outcome.request.prompt_tokens
        before = self._engines[at].ends
        self._engines[at].arrive(task, self._now)
        self._follow(at, before)

    def _with_least_work(self, outcome: ServedRequest) -> int:
        """The engine with the least work by what was sent there: what it reports comes later. With queues it is one of those that
        the gateway leaves to such a request."""
        known = tuple([attrs.evolve(each, queued=0, kv_usage=0.0, ranks=()) for each in self._seen()])
        found, bounds = known, self._settings.bounds
        if bounds is not None:
            if BANDS[outcome.source.band].quick:
                self._people = self._now
            reads = [outcome.request.prompt_tokens] * len(known)
            narrowed = read_first if BANDS[outcome.source.band].quick else read_aside
            found = narrowed(known, reads) if self._now - self._people < PEOPLE_S else known
        return known.index(min(found, key=self._work.of))

    def _follow(self, at: int, before: float | None) -> None:
        after = self._engines[at].ends
        if after is not None and after != before:
            self._plan(after, self._on_step, (at, after))

    def _on_step(self, what: object) -> None:
        if not isinstance(what, tuple):
            return
        at, ends = what
        engine = self._engines[at]
        if engine.ends != ends:
            return  # a request came meanwhile, and the steps end sooner
        over = engine.finish(self._now)
        for task in engine.begun:
            self._unread[at] -= task.request.prompt_tokens
        for task in over:
            outcome = self._by_task.pop(task)
            outcome.first, outcome.done = task.first, self._now
            self._counts[self._chosen.pop(task)] -= 1
            if outcome.ticket is not None:
                self._by_ticket.pop(outcome.ticket, None)
                self._queue.leave(outcome.ticket, outcome.tokens, self._now)
        self._follow(at, None)
        if self._settings.bounds is not None:
            self._pump()
