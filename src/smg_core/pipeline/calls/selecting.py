"""Performs `Select`: finds a worker for each role a turn needs (edge).

Candidates are the ready workers of the model and role whose engines can do what the request asks; the policy of that model and
role picks one of them. Nothing waits here: where every worker is full, the request is refused. Above: performers. Below:
fit, routing, workers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from smg_core.clock import Clock
from smg_core.engines.handover import encoded_by, reads_alone, stays
from smg_core.errors import NoWorker, Overloaded, SmgError
from smg_core.hooks import WorkerPicked
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.routing_context import prompt_length, routing_context
from smg_core.pipeline.calls.two_ends import HeldBack, hand_over_costs, sparing, understand_each_other
from smg_core.pipeline.fit.fit import fitted
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.steps import Chosen, Placement, Select
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import DisaggregationConfig
from smg_core.routing import CandidateRecord, Decisions, Pick, Policies, RoutingContext
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.registry import Registry
from smg_core.workers.worker import ProbeCall, Worker, WorkerRole, records_of

if TYPE_CHECKING:
    from smg_core.objectives.objectives import Objectives, TimedCall
    from smg_core.placement.placing import Placing
    from smg_core.workers.rates import WorkerRate, WorkerRates

__all__ = ["AdapterHolder", "OnceReady", "Selecting", "Waking", "able"]

_DISAGGREGATION = DisaggregationConfig()


class Selecting:
    """The performer of `Select`: `registry` has the workers, `policies` choose; `disaggregation` says what becomes of a request
    that has no prefill worker; `prefix_tokens` is how much of a prompt policies compare; `decisions` keeps what they chose.
    `models` are looked at to refuse a prompt whose model was replaced after it was made. `placement` narrows the workers by their
    labels first, where there are rules for that; `adapters` has workers load those that requests ask for, where the settings name
    such."""

    def __init__(
        self,
        *,
        registry: Registry,
        models: Mapping[str, ServedModel],
        policies: Policies,
        clock: Clock,
        disaggregation: DisaggregationConfig = _DISAGGREGATION,
        prefix_tokens: int = RoutingConfig().prefix_tokens,
        decisions: Decisions | None = None,
    ) -> None:
        self._disaggregation = disaggregation
        self._prefix_tokens = prefix_tokens
        self._decisions = Decisions(0, 0) if decisions is None else decisions
        self._registry = registry
        self._models = models
        self._policies = policies
        self._clock = clock
        self.placement: Placing | None = None
        self.objectives: Objectives | None = None
        self.adapters: AdapterHolder | None = None
        self.sleeping: Waking | None = None
        self._turn = 0

    async def __call__(self, step: Select, run: Run) -> Placement:
        if self._registry.any_asleep and self.sleeping is not None:
            step = await self._once_ready(step, self.sleeping.awake)
        if self.adapters is not None and step.prompted.model.adapter:
            step = await self._once_ready(step, self.adapters.held)
        placement = self.choose(step, run.trace)
        if self.objectives is not None:
            run.trace.awaited = self._timed(self.objectives, step, placement, run.trace)
        for parts in (placement.chosen, placement.encoders):
            for each in parts:
                if each.probe is not None:
                    run.probes.append(each.probe)
        return placement

    async def _once_ready(self, step: Select, ready: "OnceReady") -> Select:
        """The step, once a worker is awake, or holds the adapter that is asked for."""
        prompted, placing = step.prompted, self.placement
        wishes = None if placing is None else placing.of(prompted)

        def fits(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
            return workers if placing is None or wishes is None else placing.fitting(wishes, workers)

        ready_words = await ready(prompted, step.exclude, fits)
        return replace(
            step, note=f"{step.note}; {ready_words}" if step.note and ready_words else step.note or ready_words
        )

    def choose(self, step: Select, trace: Trace) -> Placement:
        """A worker for each role. Where several arrangements of workers are ready, the first that can take the request. Raises
        ModelNotFound, NoWorker, or the refusal if no engine can do what is asked; where arrangements differ, the one that asking
        again can change."""
        if step.suspects:
            return self._without_suspects(step, trace)
        if not step.roles and not self._registry.any_split:
            return Placement((self._pick(step, "regular", trace, self._takers(step, "regular"), reads=True),))
        refusals: list[SmgError] = []
        for roles in (step.roles,) if step.roles else self._arrangements(step):
            try:
                return self._pair(step, trace) if "prefill" in roles else self._alone(step, roles[0], trace)
            except SmgError as error:
                refusals.append(error)
        raise next((each for each in refusals if isinstance(each, Overloaded)), refusals[0])

    def _without_suspects(self, step: Select, trace: Trace) -> Placement:
        """Workers of which none has failed with another; where that cannot be, none that has failed at one of the two ends, or
        two that have not failed together. Those that are to be left alone are worse than a suspect."""
        found = sparing(step)
        for each in () if step.spare else found:
            with suppress(SmgError):
                return self.choose(replace(each, spare=True), trace)
        refusals: list[SmgError] = []
        for each in found:
            try:
                return self.choose(each, trace)
            except SmgError as error:
                refusals.append(error)
        raise refusals[0]

    def _alone(self, step: Select, role: WorkerRole, trace: Trace) -> Placement:
        return Placement((self._pick(step, role, trace, self._takers(step, role), reads=True),))

    def lost_with(self, worker: Worker, began: float, now: float) -> bool:
        """Whether a call that began at `began` and has lost its worker at `now` was lost with all the calls that the worker had.
        Times are monotonic seconds."""
        return self._registry.lost_with(worker, began, now)

    def room(self, step: Select) -> tuple[float, float]:
        """How much room there is for requests such as the one of `step`, as a number of them and of tokens: what the workers have
        together of which one could be chosen for it now. Nothing is chosen."""
        found = (self._room(each) for each in sparing(step))
        return next((each for each in found if min(each) > 0), (0, 0))

    def _room(self, step: Select) -> tuple[float, float]:
        """The room for a step without suspects."""
        try:
            arrangements = (step.roles,) if step.roles else self._arrangements(step)
        except SmgError:
            return 0, 0
        for roles in arrangements:
            with suppress(SmgError):
                if "prefill" not in roles:
                    return self._registry.room(self._takers(step, roles[0]), self._tokens(step.prompted))
                try:
                    ends = self._ends(step)
                except Overloaded as full:
                    return self._registry.room(self._staying(step, full), self._tokens(step.prompted))
                (first, tokens), (last, _) = map(self._registry.room, ends)
                return min(first, last), tokens  # the second reads no prompt
        return 0, 0

    def _ends(self, step: Select) -> tuple[tuple[Worker, ...], tuple[Worker, ...]]:
        """The prefill workers for whom a decode worker and encode workers are found, and the decode workers. Raises NoWorker,
        Overloaded, and the refusal if no engine can do what is asked."""
        ends = self._takers(step, "decode")
        starts = tuple(
            worker
            for worker in self._takers(step, "prefill")
            if any(understand_each_other(worker, other) for other in ends)
        )
        if not starts:
            model = step.prompted.request.model
            raise NoWorker(
                f"No prefill and decode workers for the model '{model}' understand each other.", retry_after=1.0
            )
        return self._with_encoders(step, starts), ends

    def _pair(self, step: Select, trace: Trace) -> Placement:
        """A prefill and a decode worker, and the encode workers of the first. The prefill worker is one of those for whom
        the others are found too: nothing is chosen before all of them can be. Where one of them is not to be had all the same,
        those that were chosen are given back."""
        picked: list[Chosen] = []
        try:
            return self._picked_pair(step, trace, picked)
        except SmgError:
            for each in picked:
                each.give_back()
            raise

    def _picked_pair(self, step: Select, trace: Trace, picked: list[Chosen]) -> Placement:
        """As `_pair`; `picked` is filled with those that are chosen."""
        try:
            starts, ends = self._ends(step)
        except Overloaded as full:
            ends = self._staying(step, full)
            return Placement((self._pick(step, "decode", trace, ends, reads=True, may_read=True),))
        if step.spare:
            for each in (starts, ends):
                self._registry.check_spared(each, self._clock.monotonic())
        if self._disaggregation.local_tokens and step.prompted.media is None and reads_alone(ends[0].facts.dialect):
            return self._pair_or_alone(step, trace, starts, ends, picked)
        costs, doubted = self._hand_over(step, starts, ends), self._doubted(starts, ends)
        prefill = self._pick(step, "prefill", trace, starts, reads=True, costs=costs, doubted=doubted)
        picked.append(prefill)
        ready = self._encoders(step, prefill.worker)
        picked += (self._pick(step, "encode", trace, ready) for _ in step.prompted.items) if ready else ()
        encoders = tuple(picked[1:])
        ends = tuple(worker for worker in ends if understand_each_other(prefill.worker, worker))
        costs, doubted = self._hand_over(step, ends, (prefill.worker,)), self._doubted_with(prefill.worker, ends)
        return Placement((prefill, self._pick(step, "decode", trace, ends, costs=costs, doubted=doubted)), encoders)

    def _pair_or_alone(
        self,
        step: Select,
        trace: Trace,
        starts: tuple[Worker, ...],
        ends: tuple[Worker, ...],
        picked: list[Chosen],
    ) -> Placement:
        """The decode worker first, by what its cache has of the prompt; alone, where that is enough to read the rest there, else
        with a prefill worker that it understands."""
        ends = tuple(each for each in ends if any(understand_each_other(start, each) for start in starts))
        costs, doubted = self._hand_over(step, ends, starts), self._doubted_ends(starts, ends)
        held = HeldBack(trace)
        end = self._pick(step, "decode", held, ends, reads=True, costs=costs, doubted=doubted, may_read=True)
        picked.append(end)
        starts = tuple(each for each in starts if understand_each_other(each, end.worker))
        settings, waits = self._disaggregation, min(each.prefill_tokens / each.weight for each in starts)
        stay = stays(
            end.reads,
            settings.local_tokens,
            settings.local_queue_tokens,
            waits,
            end.worker.prefill_tokens / end.worker.weight,
        )
        if stay and reads_alone(end.worker.facts.dialect):
            held.tell(trace)
            return Placement((end,))
        picked[0] = end = replace(end, reads=0)
        costs, doubted = self._hand_over(step, starts, (end.worker,)), self._doubted(starts, (end.worker,))
        start = self._pick(step, "prefill", trace, starts, reads=True, costs=costs, doubted=doubted)
        held.tell(trace)  # who answers is told last, as ever
        return Placement((start, end))

    def _staying(self, step: Select, full: Overloaded) -> tuple[Worker, ...]:
        """The decode workers that would read the prompt themselves, where the prefill workers are `full`. Raises that where none
        would."""
        prompted, settings = step.prompted, self._disaggregation
        if not settings.local_tokens or prompted.media is not None:
            raise full
        ends, model = self._takers(step, "decode"), prompted.request.model
        context = routing_context(prompted, "decode", self._clock.monotonic(), self._prefix_tokens, may_read=True)
        gains = self._policies.expects(prompted.model.primary or model, "decode", records_of(ends), context)
        starts = self._registry.ready_of(model, "prefill")
        waits = min((each.prefill_tokens / each.weight for each in starts), default=0.0)
        local, queue = settings.local_tokens, settings.local_queue_tokens
        found = tuple(
            end
            for end, gain in zip(ends, gains, strict=True)
            if reads_alone(end.facts.dialect)
            and stays(context.tokens - gain, local, queue, waits, end.prefill_tokens / end.weight)
        )
        if not found:
            raise full
        return found

    def _doubted_ends(self, starts: Sequence[Worker], ends: Sequence[Worker]) -> frozenset[str]:
        """The names of the decode workers that are in doubt with each prefill worker that they understand."""
        if not self._registry.handovers.any_in_doubt:
            return frozenset()
        doubts = {each.name: self._doubted_with(each, ends) for each in starts}
        return frozenset(
            end.name
            for end in ends
            if all(end.name in doubts[each.name] for each in starts if understand_each_other(each, end))
        )

    def _doubted(self, starts: Sequence[Worker], ends: tuple[Worker, ...]) -> frozenset[str]:
        """The names of the prefill workers that are in doubt with each decode worker that they could be asked with now."""
        if not self._registry.handovers.any_in_doubt:
            return frozenset()
        ends = self._registry.breakers.admitted(ends, self._clock.monotonic())
        return frozenset(worker.name for worker in starts if self._doubted_with_all(worker, ends))

    def _doubted_with_all(self, start: Worker, ends: Sequence[Worker]) -> bool:
        """Whether a prefill worker is in doubt with each of `ends` that understands it."""
        doubted = self._doubted_with(start, ends)
        return bool(doubted) and all(each.name in doubted or not understand_each_other(start, each) for each in ends)

    def _doubted_with(self, start: Worker, ends: Sequence[Worker]) -> frozenset[str]:
        """The names of the decode workers that are in doubt with a prefill worker."""
        if not self._registry.handovers.any_in_doubt:
            return frozenset()
        doubted = self._registry.handovers.doubted_with(start.name, self._clock.monotonic())
        return frozenset(each.name for each in ends if each.name in doubted)

    def _with_encoders(self, step: Select, found: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """Those of these prefill workers whose encode workers are ready, or that need none. Raises NoWorker where none is."""
        if step.prompted.media is None:
            return found
        able, refusal = [], None
        for worker in found:
            try:
                self._encoders(step, worker)
            except NoWorker as error:
                refusal = error
            else:
                able.append(worker)
        if refusal is not None and not able:
            raise refusal
        return tuple(able)

    def _encoders(self, step: Select, prefill: Worker) -> tuple[Worker, ...]:
        """The encode workers that can encode the media of the prompt for `prefill`; () where that one does so itself. Raises
        NoWorker where it should not and nobody else can."""
        prompted = step.prompted
        model = prompted.model.primary or prompted.request.model  # an adapter's pictures are encoded as its model's are
        known = [
            each for each in self._registry.encoders(model) if encoded_by(prefill.facts.dialect, each.facts.dialect)
        ]
        if prompted.media is None or not known:
            return ()
        ready = tuple(each for each in known if each.state == "ready" and each.name not in step.exclude)
        if self.placement is not None:
            ready = self.placement.fitting(self.placement.of(prompted), ready)
        if not ready and self._disaggregation.without_encode != "prefill_alone":
            raise NoWorker(f"No encode worker for the model '{model}' is ready.", retry_after=1.0)
        return ready

    def _arrangements(self, step: Select) -> tuple[tuple[WorkerRole, ...], ...]:
        """The roles of the workers that may work on this turn, the best first. Raises NoWorker where a part of it has no
        worker."""
        model = step.prompted.request.model
        if not self._registry.split(model):
            return (("regular",),)

        def ready(role: WorkerRole) -> bool:
            if self.placement is None:
                return self._registry.some_ready(model, role, step.exclude)
            found = self._registry.ready_of(model, role)
            found = self.placement.fitting(self.placement.of(step.prompted), found)
            return any(each.name not in step.exclude for each in found)

        if ready("prefill") and ready("decode"):
            return (("prefill", "decode"), ("regular",)) if ready("regular") else (("prefill", "decode"),)
        if ready("regular"):
            return (("regular",),)
        if ready("decode"):
            if self._disaggregation.without_prefill == "decode_alone":
                return (("decode",),)
            raise NoWorker(f"No prefill worker for the model '{model}' is ready.", retry_after=1.0)
        if ready("prefill"):
            raise NoWorker(f"No decode worker for the model '{model}' is ready.", retry_after=1.0)
        return (("regular",),)

    def _takers(self, step: Select, role: WorkerRole) -> tuple[Worker, ...]:
        """The candidates whose engines can do what is asked and have room for it. Raises the refusal when there are none."""
        prompted = step.prompted
        request = prompted.request
        candidates = self._registry.candidates(request.model, step.exclude, role)
        if self.placement is not None:
            candidates = self.placement.taking(prompted, candidates, role, self._registry)
        if step.received is not None:
            candidates = tuple(worker for worker in candidates if can_go_on(prompted, step.received, worker))
            if not candidates:
                raise NoWorker(
                    f"No worker for the model '{request.model}' can go on with this answer.", retry_after=1.0
                )
        if self._models.get(request.model) is not prompted.model:
            self._refuse_outdated(prompted, candidates)
        try:
            if self._registry.uniform(request.model, role):
                fitted(prompted, candidates[0].facts)  # one speaks for all
            else:
                candidates = able(prompted, candidates)
        except SmgError:
            self._refuse_for_now(prompted, role)
            raise
        return self._registry.with_room(candidates, self._tokens(prompted) if self._registry.any_rated else 1)

    def _tokens(self, prompted: Prompted) -> int:
        """The tokens that a request may take with its answer, where entries allow so many a minute; else 1."""
        rates = self._registry.rates
        return 1 if rates is None else _tokens_asked(prompted, rates)

    def begin_rate(self, prompted: Prompted, worker: Worker) -> "WorkerRate | None":
        """Charge a call that begins to what the entry of its worker allows in a minute; None where that says nothing."""
        rates, sampling = self._registry.rates, prompted.request.sampling
        if rates is None or not worker.spec.rated:
            return None
        return rates.begin(worker, prompted.request.model, _tokens_asked(prompted, rates), max(1, sampling.n))

    def _hand_over(self, step: Select, found: Sequence[Worker], ends: Sequence[Worker]) -> Mapping[str, float]:
        """What handing the cache over costs each worker of `found` that shares a host with none at the other end."""
        cost = self._disaggregation.transfer_cost * step.prompted.ids.size
        return hand_over_costs(found, ends, cost) if cost else {}

    def _pick(
        self,
        step: Select,
        role: WorkerRole,
        trace: "Trace | HeldBack",
        candidates: tuple[Worker, ...],
        *,
        reads: bool = False,
        costs: Mapping[str, float] | None = None,
        doubted: frozenset[str] = frozenset(),
        may_read: bool = False,
    ) -> Chosen:
        """The candidate that the policy of the model and role chooses. `reads`: it is to compute the prompt's KV cache; `costs`:
        of handing it over; `may_read` as of `RoutingContext`; `doubted` are the names of those that it takes only where there is
        no other. A session's worker is the only candidate where it is one; so are those that take a request's reasoning back."""
        prompted, request = step.prompted, step.prompted.request
        now = self._clock.monotonic()
        candidates = self._registry.spared(candidates, now) if step.spare else self._registry.admitted(candidates, now)
        if doubted:
            candidates = tuple(each for each in candidates if each.name not in doubted) or candidates
        if request.home:
            candidates = tuple(each for each in candidates if each.name == request.home) or candidates
        if prompted.maker is not None:
            candidates = tuple(each for each in candidates if each.maker == prompted.maker) or candidates
        wishes, how_placed, part = None, "", ""
        if self.placement is not None:
            wishes = self.placement.of(prompted)
            candidates, how_placed = self.placement.favoured(wishes, candidates)
            part = wishes.part
        context = routing_context(prompted, role, now, self._prefix_tokens, costs, may_read=may_read, part=part)
        tokens, served = prompted.ids.size or context.tokens, prompted.model.primary or request.model
        if self.objectives is not None or trace.reading is not None:
            candidates = self._in_time(served, candidates, context, trace, reads=reads)
        ranks_tripped = self._registry.breakers.ranks_tripped
        seen = self._seen(candidates, now) if ranks_tripped else self._registry.records(candidates, request.model, role)
        if wishes is not None and wishes.weighed:
            seen = wishes.weigh(candidates, seen)
        choice = self._policies.choose(served, role, seen, context)
        pick, worker = choice.pick, candidates[choice.at]
        rank, probe = (pick.rank if worker.spec.rank is None else worker.spec.rank), None
        if self._registry.breakers.tripped or ranks_tripped:
            rank, probe = self._rank_asked(worker, pick, now)
        how_placed = "; ".join(filter(None, (how_placed, step.note))) if step.note else how_placed
        if self.adapters is not None and prompted.model.adapter:
            self.adapters.used(worker, prompted.model)
        self._decisions.note(seen, context, pick, choice.policy, step.attempt, self._clock.time(), how_placed)
        how, cached = worker.facts.transport, (pick.cached, pick.basis) if pick.basis != "none" else None
        trace.report(
            WorkerPicked(
                request.id,
                worker.name,
                choice.policy,
                step.attempt,
                self._clock.monotonic(),
                role,
                rank,
                served,
                how,
                pick.why,
                cached,
            )
        )
        return Chosen(worker, role, rank, max(0, tokens - pick.cached) if reads else 0, probe)

    def _in_time(
        self,
        served: str,
        candidates: tuple[Worker, ...],
        context: RoutingContext,
        trace: "Trace | HeldBack",
        *,
        reads: bool,
    ) -> tuple[Worker, ...]:
        """The candidates that a request may go to for its first token, or that of others, to come soon enough. Raises Overloaded
        where it is shed."""
        role, objectives = context.role, self.objectives
        if trace.reading is not None and reads and len(candidates) > 1 and self._policies.spreads(served, role):
            gains = self._policies.expects(served, role, records_of(candidates), context)
            candidates = trace.reading(candidates, [max(0, context.tokens - gain) for gain in gains])
        if objectives is not None and role != "encode":
            cached = partial(self._policies.expects, served, role, records_of(candidates), context)
            passed, tokens = context.now - trace.started, context.tokens
            candidates = objectives.meeting(context.headers, served, candidates, tokens, cached, passed, role)
        return candidates

    def _timed(self, objectives: "Objectives", step: Select, placement: Placement, trace: Trace) -> "TimedCall":
        """The call of these workers, of which objectives learn."""
        prompted, now, reader = step.prompted, self._clock.monotonic(), placement.prefill
        served, read = prompted.model.primary or prompted.request.model, (reader or placement.last).reads
        other = None if reader is None else reader.worker
        passed, headers = now - trace.started, prompted.request.headers
        return objectives.sent(headers, served, placement.last.worker, read, now, passed, other)

    def _rank_asked(self, worker: Worker, pick: Pick, now: float) -> tuple[int | None, ProbeCall | None]:
        """The rank of a worker that is asked, and the probe that the call is, where it is one."""
        rank = worker.spec.rank  # of a worker that is one rank
        if rank is None:
            rank = self._rank(worker, pick, now) if self._registry.breakers.ranks_tripped else pick.rank
        if not self._registry.breakers.tripped:
            return rank, None
        return rank, self._registry.probe(worker, rank if worker.spec.rank is None else None)

    def _seen(self, candidates: tuple[Worker, ...], now: float) -> tuple[CandidateRecord, ...]:
        return tuple([self._candidate(each, now) for each in candidates])

    def _candidate(self, worker: Worker, now: float) -> CandidateRecord:
        """A candidate as its policy is shown it, without the ranks that are left alone."""
        out = self._registry.breakers.ranks_out(worker.name, worker.rank_count, now)
        return replace(worker.record, ranks_out=out) if out else worker.record

    def _rank(self, worker: Worker, pick: Pick, now: float) -> int | None:
        """The rank that is asked: the one that was picked, unless it is left alone for a while; then the others in turn."""
        out = self._registry.breakers.ranks_out(worker.name, worker.rank_count, now)
        if not out or (pick.rank is not None and pick.rank not in out):
            return pick.rank
        self._turn += 1
        left = [rank for rank in range(worker.rank_count) if rank not in out]
        return left[self._turn % len(left)]

    def _refuse_outdated(self, prompted: Prompted, candidates: tuple[Worker, ...]) -> None:
        """Raise NoWorker if the model has another tokenizer by now than the one that made the ids: its workers left and others
        joined after the prompt was made."""
        model = self._models.get(prompted.request.model)
        if model is prompted.model or model is None or model.tokenizer is prompted.model.tokenizer:
            return
        if prompted.model.tokenizer is not None and any(each.facts.takes_ids for each in candidates):
            raise NoWorker(f"The model '{prompted.model.name}' was replaced meanwhile.", retry_after=1.0)

    def _refuse_for_now(self, prompted: Prompted, role: WorkerRole) -> None:
        """Raise NoWorker if a worker that is not reachable now could do what the ready ones cannot."""
        model = prompted.request.model
        roles = (role, "regular")  # what does everything does the part too
        away = [each for each in self._registry.of(model) if each.role in roles and each.state == "unreachable"]
        try:
            able(prompted, tuple(away))
        except SmgError:
            return
        if away:
            self._registry.refuse(model)


_Fits = Callable[[tuple[Worker, ...]], tuple[Worker, ...]]
OnceReady = Callable[[Prompted, frozenset[str], _Fits], Awaitable[str]]
"""Returns when a worker is ready for a request, with what had to be done for that in words."""


class Waking(Protocol):
    """Has engines wake that sleep."""

    async def awake(self, prompted: Prompted, exclude: frozenset[str], fits: _Fits) -> str:
        """Return when a worker is awake that the request may be sent to, with what had to be done for that in words. Raises
        SmgError."""
        ...


class AdapterHolder(Protocol):
    """Has workers load the adapters that requests ask for."""

    async def held(self, prompted: Prompted, exclude: frozenset[str], fits: _Fits) -> str:
        """Return when a worker holds the adapter of a request, with what had to be done for that in words. Raises SmgError."""
        ...

    def used(self, worker: Worker, model: ServedModel) -> None:
        """A request for the adapter of `model` goes to the worker."""
        ...


def _tokens_asked(prompted: Prompted, rates: "WorkerRates") -> int:
    request = prompted.request
    read, sampling = prompted.ids.size or prompt_length(request), request.sampling
    return rates.demand(request.model, read, sampling.max_tokens, max(1, sampling.n))


def can_go_on(prompted: Prompted, received: int, worker: Worker) -> bool:
    """Whether a worker's engine takes ids, and has room for `received` tokens and one more behind the prompt."""
    context = worker.facts.context_length
    return worker.facts.takes_ids and (not context or prompted.ids.size + received < context)


def able(prompted: Prompted, candidates: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """The candidates whose engines can do what is asked; raises the refusal when none can."""
    found, refusal = [], None
    for worker in candidates:
        try:
            fitted(prompted, worker.facts)
        except SmgError as error:
            refusal = refusal or error
        else:
            found.append(worker)
    if not found and refusal is not None:
        raise refusal
    return tuple(found)
