"""Replays a trace over a fleet: who is asked, what each engine does, and when every token comes.

The clock is virtual: the next thing that happens is taken from a heap, ties in the order in which they were planned, so a run is
the same every time. Pure. Above: the command line, bench. Below: engine, pools, view.
"""

import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from math import isnan, nan

import attrs

from smg_core.engines.handover import stays
from smg_core.engines.kv_events import KvEvent
from smg_simulator.fleet.engine import FleetEngine, Task
from smg_simulator.fleet.pools import FleetSettings
from smg_simulator.fleet.trace import FleetRequest, FleetTrace
from smg_simulator.fleet.view import Chooser, context_of, events_of

__all__ = ["FleetRun", "MakeChooser", "replay"]

MakeChooser = Callable[[Sequence[FleetEngine], random.Random], Chooser]
"""Makes what one replica chooses the engines of one pool with, from all engines of the fleet and a source of randomness."""


@attrs.define(eq=False)
class FleetRun:
    """What happened. By the request's number in the trace: `first` and `done` are seconds from its coming to its first and to its
    last token, not a number where it was refused since no engine could hold it; `hit` are prompt tokens that a cache had. By
    engine: `work` (`FleetEngine.work`) and `down`, both in seconds. `retries` counts calls that an engine's death ended or that
    found it dead, `seconds` is when the last request was over."""

    trace: FleetTrace
    settings: FleetSettings
    first: "array[float]"
    done: "array[float]"
    hit: "array[int]"
    work: list[float]
    down: list[float]
    retries: int = 0
    refused: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, trace: FleetTrace, settings: FleetSettings) -> "FleetRun":
        """Before anything has happened."""
        count, engines = len(trace.requests), settings.all_engines
        unknown = array("d", [nan]) * count
        return cls(trace, settings, unknown, unknown[:], array("q", [0]) * count, [0.0] * engines, [0.0] * engines)


def replay(
    trace: FleetTrace,
    settings: FleetSettings,
    choosers: MakeChooser,
    prefill: MakeChooser | None = None,
    come: Callable[[int], None] | None = None,
) -> FleetRun:
    """Run the trace to its end. `choosers` makes what chooses among the engines, `prefill` what chooses where prompts are
    computed, if the fleet has such a pool; both are called once for each replica. `come` is told how many requests have come,
    each time that another hundredth of them has. Raises ValueError for a broken trace."""
    trace.check()
    return _Run(trace, settings, choosers, prefill or choosers).run(come)


class _Call:
    """A request under way: of which replica, where its prompt and where its answer are computed, and since when. `alone`: both by
    one engine."""

    __slots__ = ("alone", "decode", "key", "prefill", "replica", "request", "since")

    def __init__(self, key: int, request: FleetRequest, replica: "_Replica") -> None:
        self.key = key
        self.request = request
        self.replica = replica
        self.prefill = self.decode = -1
        self.alone = True
        self.since = 0.0

    @property
    def choosers(self) -> "list[Chooser]":
        """What chose its engines: for the answer, and for the prompt where that is another one."""
        return self.replica.choosers[:1] if self.alone else self.replica.choosers


class _Replica:
    """One gateway: its choosers, the engines that it knows to be dead, and the KV events that were lost on the way."""

    def __init__(self, decode: Chooser, prefill: Chooser | None, settings: FleetSettings) -> None:
        self.choosers = [decode] if prefill is None else [decode, prefill]
        self._settings = settings
        self._avoided: set[int] = set()
        self.missed: dict[int, list[KvEvent]] = {}  # by engine: fetched when the next event shows the gap
        self.ready: list[list[int]] = []
        self._sort()

    def avoid(self, engine: int) -> None:
        """The engine was found dead."""
        if engine not in self._avoided:
            self._avoided.add(engine)
            self.missed.pop(engine, None)
            self._sort()
            for chooser in self.choosers:
                chooser.left(engine)

    def welcome(self, engine: int) -> None:
        """The engine was found alive."""
        self._avoided.discard(engine)
        self._sort()

    def choose(self, call: _Call, block: int) -> bool:
        """Choose where the request is computed; False where no engine is ready."""
        if not all(self.ready):
            return False
        context = context_of(call.key, call.request, block)
        decode = self.choosers[0]
        found = [decode.choose(self.ready[0], call.request, context)]
        call.alone = len(self.choosers) == 1 or self._stays(found[0])
        if not call.alone:
            found.append(self.choosers[1].choose(self.ready[1], call.request, context))
        for chooser, engine in zip(call.choosers, found, strict=True):
            chooser.sent(engine, call.key)
        call.decode, call.prefill = found[0], found[-1]
        return True

    def _stays(self, engine: int) -> bool:
        """Whether the engine that was chosen to decode reads the prompt too."""
        decode, prefill = self.choosers
        least = min(map(prefill.waiting, self.ready[1]))
        settings = self._settings
        return stays(decode.unread, settings.local_tokens, settings.local_queue_tokens, least, decode.waiting(engine))

    def _sort(self) -> None:
        engines, all_engines = self._settings.engines, self._settings.all_engines
        pools = [range(engines), range(engines, all_engines)][: len(self.choosers)]
        self.ready = [[at for at in pool if at not in self._avoided] for pool in pools]


class _Run:
    """The state of one run. Methods named `_on_...` are what can happen at a time that was planned."""

    def __init__(self, trace: FleetTrace, settings: FleetSettings, decode: MakeChooser, prefill: MakeChooser) -> None:
        self._trace = trace
        self._settings = settings
        self._rng = random.Random(settings.seed)
        self._engines = [self._engine(at) for at in range(settings.all_engines)]
        self._replicas = [self._replica(decode, prefill) for _ in range(settings.replicas)]
        if settings.events != "none" and any(each.listens for each in self._choosers()):
            for engine in self._engines:
                engine.record()
        self._dead: dict[int, float] = {}
        self._held_up: list[_Call] = []
        self._calls: dict[int, _Call] = {}
        self._heap: list[tuple[float, int, Callable[..., None], object]] = []
        self._order = 0
        self._now = 0.0
        self._open = len(trace.requests)
        self._out = FleetRun.of(trace, settings)

    def _engine(self, at: int) -> FleetEngine:
        settings = self._settings
        factor = settings.factors[at % len(settings.factors)]
        return FleetEngine(f"engine-{at}", settings.speed, self._trace.block, factor)

    def _choosers(self) -> Iterator[Chooser]:
        for replica in self._replicas:
            yield from replica.choosers

    def _replica(self, decode: MakeChooser, prefill: MakeChooser) -> _Replica:
        made = decode(self._engines, random.Random(self._rng.random()))
        first = prefill(self._engines, random.Random(self._rng.random())) if self._settings.prefill else None
        return _Replica(made, first, self._settings)

    # ------------------------------------------------------------------------------------------------------- the clock

    def run(self, come: Callable[[int], None] | None = None) -> FleetRun:
        """Until every request is over."""
        requests, at = self._trace.requests, 0
        hundredth = max(1, len(requests) // 100)
        for outage in self._settings.outages:
            self._plan(outage.at, self._on_death, outage.engine)
            self._plan(outage.until, self._on_return, outage.engine)
        self._plan(self._settings.loads_s, self._on_loads, None)
        if self._settings.words_s:
            self._plan(self._settings.words_s, self._on_words, None)
        while self._open:
            if at < len(requests) and (not self._heap or requests[at].at <= self._heap[0][0]):
                self._now = requests[at].at
                self._come(_Call(at, requests[at], self._replicas[at % len(self._replicas)]))
                at += 1
                if come is not None and at % hundredth == 0:
                    come(at)
            else:
                self._now, _, happens, what = heappop(self._heap)
                happens(what)
        self._out.seconds = self._now
        self._out.work = [engine.work for engine in self._engines]
        for engine, since in self._dead.items():
            self._out.down[engine] += self._now - since
        return self._out

    def _plan(self, when: float, happens: Callable[..., None], what: object) -> None:
        self._order += 1
        heappush(self._heap, (when, self._order, happens, what))

    # -------------------------------------------------------------------------------------------------------- requests

    def _come(self, call: _Call) -> None:
        if not self._engines[0].could_hold(call.request):
            self._out.refused += 1
            self._open -= 1
            return
        self._calls[call.key] = call
        self._dispatch(call)

    def _dispatch(self, call: _Call) -> None:
        """Choose, and again where what was chosen is dead. Where nothing is ready the request waits until something is."""
        while call.replica.choose(call, self._trace.block):
            call.since = self._now
            if call.prefill not in self._dead:
                output = call.request.output_tokens if call.alone else 1
                self._arrive(call.prefill, Task(call.key, call.request, output))
                return
            self._give_up(call, call.prefill)
        self._held_up.append(call)

    def _arrive(self, engine: int, task: Task) -> None:
        before = self._engines[engine].ends
        self._engines[engine].arrive(task, self._now)
        after = self._engines[engine].ends
        if after is not None and after != before:
            self._plan(after, self._on_step, engine)
        self._tell(engine)

    def _give_up(self, call: _Call, dead: int) -> None:
        """A call is lost with its engine; its replica knows it."""
        self._out.retries += 1
        self._part(call, call.choosers, failed=True)
        call.replica.avoid(dead)

    def _part(self, call: _Call, choosers: Sequence[Chooser], *, failed: bool) -> None:
        seconds = self._now - call.since
        for chooser, engine in zip(choosers, (call.decode, call.prefill), strict=False):
            chooser.ended(engine, call.key, seconds, failed=failed)

    def _on_handover(self, call: _Call) -> None:
        """A prompt's cache has come to the engine that makes the answer."""
        if call.decode in self._dead:
            self._out.retries += 1
            self._part(call, call.replica.choosers[:1], failed=True)
            call.replica.avoid(call.decode)
            self._dispatch(call)
            return
        self._arrive(call.decode, Task(call.key, call.request, call.request.output_tokens - 1, handed_over=True))

    def _over(self, task: Task) -> None:
        call, out, request = self._calls[task.key], self._out, task.request
        if not task.handed_over and task.first is not None:
            out.hit[task.key] = task.hit
        if not call.alone and not task.handed_over and request.output_tokens > 1:
            call.replica.choosers[1].ended(call.prefill, call.key, self._now - call.since, failed=False)
            self._plan(self._now + request.prompt_tokens * self._settings.transfer_token_s, self._on_handover, call)
            return
        out.done[task.key] = self._now - request.at
        self._part(call, call.replica.choosers[:1] if task.handed_over else call.choosers, failed=False)
        del self._calls[task.key]
        self._open -= 1

    # --------------------------------------------------------------------------------------------------------- engines

    def _on_step(self, engine: int) -> None:
        at = self._engines[engine]
        if at.ends != self._now:
            return  # it was shortened when a request came, or the engine has died
        over = at.finish(self._now)
        for task in at.begun:
            call = self._calls[task.key]
            call.choosers[-1].answered(engine, task.key)
            if isnan(self._out.first[task.key]):  # else it has come before, from an engine that died
                self._out.first[task.key] = self._now - task.request.at
        if at.ends is not None:
            self._plan(at.ends, self._on_step, engine)
        self._tell(engine)
        for task in over:
            self._over(task)

    def _on_death(self, engine: int) -> None:
        self._dead[engine] = self._now
        self._plan(self._now + self._settings.probe_s, self._on_probe, engine)
        for task in self._engines[engine].clear():
            call = self._calls[task.key]
            if task.handed_over:
                self._out.retries += 1
                self._part(call, call.replica.choosers[:1], failed=True)
                call.replica.avoid(engine)
            else:
                self._give_up(call, engine)
            self._dispatch(call)

    def _on_return(self, engine: int) -> None:
        self._out.down[engine] += self._now - self._dead.pop(engine)
        self._plan(self._now + self._settings.probe_s, self._on_probe, engine)

    def _on_probe(self, engine: int) -> None:
        """Every gateway finds out whether the engine is there."""
        for replica in self._replicas:
            if engine in self._dead:
                replica.avoid(engine)
            else:
                replica.welcome(engine)
        waiting, self._held_up = self._held_up, []
        for call in waiting:
            self._dispatch(call)

    def _on_loads(self, _: object) -> None:
        for chooser in self._choosers():
            chooser.loads(self._engines)
        self._plan(self._now + self._settings.loads_s, self._on_loads, None)

    def _on_words(self, _: object) -> None:
        """The gateways tell each other what they have in flight."""
        for number in range(2 if self._settings.prefill else 1):
            choosers = [replica.choosers[number] for replica in self._replicas]
            loads = [chooser.in_flight for chooser in choosers]
            whole = [sum(each) for each in zip(*loads, strict=True)]
            for chooser, own in zip(choosers, loads, strict=True):
                chooser.note_elsewhere([total - mine for total, mine in zip(whole, own, strict=True)])
        self._plan(self._now + self._settings.words_s, self._on_words, None)

    # -------------------------------------------------------------------------------------------------------- KV events

    def _tell(self, engine: int) -> None:
        """Bring the engine's cache changes to all replicas, as `FleetSettings.events` says."""
        cache, settings = self._engines[engine].cache, self._settings
        if not cache.changes:
            return
        events, cache.changes = events_of(cache.changes, self._trace.block), []
        for replica in self._replicas:
            if settings.events == "late":
                self._plan(self._now + settings.events_late_s, self._on_events, (replica, engine, events))
            elif settings.events == "lost" and self._rng.random() < settings.events_lost:
                replica.missed.setdefault(engine, []).extend(events)
            else:
                self._on_events((replica, engine, [*replica.missed.pop(engine, ()), *events]))

    def _on_events(self, message: tuple[_Replica, int, list[KvEvent]]) -> None:
        replica, engine, events = message
        for chooser in replica.choosers:
            chooser.changed(engine, events, self._now)
