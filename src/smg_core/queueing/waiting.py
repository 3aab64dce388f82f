"""Has requests wait before their model until it is their turn: the queues of a gateway (edge).

One queue for each model that is served. What a request will cost is estimated when it comes, and put right at its end. A gateway
without `queue.enabled` never loads this module. Above: the handlers, through `Live.queueing`. Below: `model_queue`, workers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import inf

import attrs

from smg_core.clock import CallLater, Clock
from smg_core.errors import DeadlineExceeded, InvalidRequest, Overloaded, RateLimited, SmgError
from smg_core.events import Usage
from smg_core.hooks import FellBack, Observer
from smg_core.lease import RequestLease
from smg_core.limit_moments import QueueLeft
from smg_core.limits.demand import Estimates
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.queueing.bands import BANDS, BATCH, PRIORITY, band_of
from smg_core.queueing.capacity import AdaptiveLimit, capacity_of
from smg_core.queueing.model_queue import ModelQueue, QueueBounds
from smg_core.queueing.queues import NO_HEADERS, HeaderRows
from smg_core.queueing.reading import PEOPLE_S, read_aside, read_first
from smg_core.queueing.settings import QueueConfig
from smg_core.queueing.ticket import QueuedRequest, QueueRefusal, Stage
from smg_core.request import Caller, GenerationRequest, PoolRequest
from smg_core.workers.registry import Registry
from smg_core.workers.room import WorkersFull
from smg_core.workers.settings import WorkersConfig

__all__ = ["DEADLINE", "DueBy", "Preempted", "QueuePlace", "Queueing", "refusal_error"]


DEADLINE = "x-smg-deadline-ms"
"""The header by which a request says within how many milliseconds it has to be its turn."""
PLACE, WAIT = b"x-smg-queue-place", b"x-smg-queue-wait-ms"
"""The headers that tell a client which place its request had, and how long it waited or would have had to."""

_TICK_S = 0.05
"""How often the workers are looked at while requests wait, and those are refused that have waited too long."""
_SAMPLED_TICKS, _MEMORY_TICKS = 20, 20
_LATE_S = 0.5
"""How late the event loop runs when a process is full."""
_OUTPUT_WEIGHT, _CACHED_WEIGHT = 2.0, 0.1
"""What a token of an answer costs, and one of a prompt that an engine had in its cache, beside one of a prompt."""
_LONGEST_PROMPT = 1 << 20
"""Tokens of a prompt that are reckoned with at most where a model does not say how many it takes."""
_LONGEST_RETRY_S = 60.0
_MOST_MS = 10**10

_WORDS: Mapping[str, str] = {
    "full": "As many requests as may wait for this model.",
    "late": "It would take too long until it is this request's turn.",
    "waited": "The request has waited for this model for as long as it may.",
    "displaced": "The request gave its place in the queue to one of a higher band.",
}


DueBy = Callable[[Mapping[str, str], str, int], float]
"""Until when a request with these headers, for this model and with so many tokens of prompt, has to go to be in time for its
objectives, in monotonic seconds."""


class Preempted(Overloaded):
    """The request was stopped for one of a higher band before its client had anything of its answer."""


@attrs.define(eq=False)
class _Model:
    """The queue of one model, and what is known of its engines. `people`: when somebody asked last who sits before the answer;
    `reported`: how many of each band wait, as observers were told last."""

    queue: ModelQueue
    limit: AdaptiveLimit = attrs.field(factory=AdaptiveLimit)
    looked: float = -inf
    reported: list[int] = attrs.field(factory=lambda: [0] * len(BANDS))
    people: float = -inf
    places: dict[QueuedRequest, "QueuePlace"] = attrs.field(factory=dict)


class Queueing:
    """The queues of a gateway. `models` are those that it serves, `name_of` finds a model's own name, `models_of` those that a
    request may get, one after the other, and `goes_on` says why the next is asked after an error; `resident` says how many bytes
    of memory the process has."""

    def __init__(
        self,
        clock: Clock,
        call_later: CallLater,
        registry: Registry,
        models: Mapping[str, ServedModel],
        name_of: Callable[[str, Caller], str],
        models_of: Callable[[GenerationRequest], Sequence[str]],
        goes_on: Callable[[GenerationRequest, str, SmgError], str],
        observer: Observer,
        resident: Callable[[], int],
    ) -> None:
        self._clock, self._call_later, self._observer = clock, call_later, observer
        self._registry, self._models, self._name_of, self._resident = registry, models, name_of, resident
        self._models_of, self._goes_on = models_of, goes_on
        self._known: dict[str, _Model] = {}
        self.due: DueBy | None = None
        self._settings, self._workers = QueueConfig(), WorkersConfig()
        self._bounds, self._retry_after = QueueBounds(), 1.0
        self._weights: Mapping[str, float] = {}
        self._estimates = Estimates()
        self._ticking, self._ticks, self._due = False, 0, 0.0
        self._lag = self._filled = 0.0

    def adopt(
        self, settings: QueueConfig, workers: WorkersConfig, weights: Mapping[str, float], retry_after: float
    ) -> None:
        """Go by these settings from the next request on."""
        self._settings, self._workers, self._weights, self._retry_after = settings, workers, weights, retry_after
        self._bounds = QueueBounds(
            settings.requests, settings.bytes, settings.tenant_share, settings.wait_s, settings.absent_s
        )
        for each in self._known.values():
            each.queue.bounds = self._bounds

    def let_all_go(self) -> None:
        """Nothing waits any more: the queues are switched off, or the gateway stops."""
        for model in self._known.values():
            self._let_go(model)

    def _let_go(self, model: _Model) -> None:
        for ticket in model.queue.all_waiting():
            model.queue.leave(ticket, None, self.now)
            model.places.pop(ticket).go()

    # -------------------------------------------------------------------------------------------------------- coming

    def begin_generation(
        self,
        request: GenerationRequest,
        prompts: int,
        lease: RequestLease,
        trace: Trace,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        always: HeaderRows | None = None,
        deadline: float = inf,
        started: Callable[[], bool] | None = None,
    ) -> Awaitable[None] | None:
        """As `ModelQueues.begin_generation`."""
        chain, first = self._models_of(request), None
        until, headers_out = min(deadline, self._deadline(headers)), [] if always is None else always
        before = len(headers_out)
        for at, (model, following) in enumerate(zip(chain, (*chain[1:], ""), strict=True)):
            try:
                place = self._place(request, model, prompts, lease, trace, headers, started)
                if place is None:
                    break
                place.refused, place.ticket.deadline = at, min(until, place.ticket.deadline)
                return self._enter(place, lease, headers_out)
            except (Overloaded, RateLimited) as error:
                first = first or error
                reason = self._goes_on(request, model, error) if following else ""
                if not reason:
                    break
                del headers_out[before:]
                trace.report(FellBack(request.id, model, following, reason))
        if first is not None:
            raise first
        return None

    def _place(
        self,
        request: GenerationRequest,
        model: str,
        prompts: int,
        lease: RequestLease,
        trace: Trace,
        headers: Mapping[str, str],
        started: Callable[[], bool] | None,
    ) -> "QueuePlace | None":
        """The place of a request before one model of its chain; None where that is none."""
        sampling, found = request.sampling, self._found(model, request.caller)
        if found is None:
            return None
        name, known = found
        choices = max(1, sampling.n) * prompts
        output = self._estimates.output(request.caller.tenant, name, sampling.max_tokens, choices)
        ticket = self._ticket(name, request.caller, lease, headers, output, choices)
        ticket.session, ticket.priority = request.session_key or "", request.priority
        if self.due is not None:
            ticket.due = self.due(headers, name, max(1, ticket.tokens - output))
        if BANDS[ticket.band].quick:
            known.people, trace.reading = self.now, read_first
        else:
            trace.reading = read_aside if self.now - known.people < PEOPLE_S else None
        place = QueuePlace(self, known, name, ticket, trace, choices)
        if started is not None and self._settings.preempt:
            place.again = lease.kind != "batch"
            ticket.stage = partial(place.stage, started)
        return place

    def begin_pooled(
        self,
        request: PoolRequest,
        lease: RequestLease,
        trace: Trace,
        headers: Mapping[str, str],
        always: HeaderRows,
        *,
        unattended: bool = False,
    ) -> Awaitable[None] | None:
        """The same for a request for vectors or scores. `unattended`: nobody waits for it."""
        found = self._found(request.model, request.caller)
        if found is None:
            return None
        name, model = found
        ticket = self._ticket(name, request.caller, lease, headers, 0, 1)
        ticket.deadline = min(ticket.deadline, self._deadline(headers))
        if unattended:
            ticket.band = BATCH
        return self._enter(QueuePlace(self, model, name, ticket, trace, 0), lease, always)

    def _found(self, name: str, caller: Caller) -> tuple[str, _Model] | None:
        """The model that is meant, by its own name; None where there is none, which others tell the client."""
        own = self._name_of(name, caller)
        if not own:
            return None
        found = self._known.get(own)
        if found is None:
            self._forget_unused()
            found = self._known[own] = _Model(ModelQueue(self._bounds, self._weight_of))
        return own, found

    def _weight_of(self, tenant: str) -> float:
        return self._weights.get(tenant, 1.0)

    def _forget_unused(self) -> None:
        """Models that are served no more keep no queue."""
        for name in [
            name
            for name, each in self._known.items()
            if name not in self._models and not (each.queue.waiting or each.queue.running)
        ]:
            del self._known[name]

    def _ticket(
        self, name: str, caller: Caller, lease: RequestLease, headers: Mapping[str, str], output: int, choices: int
    ) -> QueuedRequest:
        unattended = lease.kind in ("batch", "background")
        band = BATCH if unattended else band_of(caller.grants, headers.get(PRIORITY))
        model, own = self._models.get(name), caller.grants.deadline_ms
        most = (model.context_length if model is not None else 0) or _LONGEST_PROMPT
        prompt = min(self._estimates.input(name, lease.weight), most)
        return QueuedRequest(
            caller.tenant,
            band,
            prompt + _OUTPUT_WEIGHT * output,
            prompt + output,
            choices,
            lease.weight,
            deadline=inf if unattended or not own else self._clock.monotonic() + own / 1000,
        )

    def _deadline(self, headers: Mapping[str, str]) -> float:
        text = headers.get(DEADLINE)
        if text is None:
            return inf
        if not (text.isascii() and text.isdecimal() and 0 < len(text) < 12 and 0 < int(text) <= _MOST_MS):
            raise InvalidRequest(f"The header {DEADLINE} takes a whole number of milliseconds above 0.", param=DEADLINE)
        return self._clock.monotonic() + int(text) / 1000

    def _enter(self, place: "QueuePlace", lease: RequestLease, always: HeaderRows) -> Awaitable[None] | None:
        waits = place.offer(always)
        lease.place = place
        return place.turn(always) if waits else None

    # ------------------------------------------------------------------------------------------------------ the turns

    def look(self, name: str, model: _Model, now: float) -> None:
        """Look at the workers of a model, unless that was done a moment ago."""
        if now - model.looked < _TICK_S:
            return
        model.looked = now
        ready = [each for each in self._registry.of(name) if each.state == "ready" and each.role != "prefill"]
        model.queue.capacity = capacity_of(
            ready,
            model.queue.running,
            most_in_flight=self._workers.most_in_flight,
            most_waiting_tokens=self._workers.most_waiting_tokens,
            limit=model.limit.limit,
            strain=max(self._lag / _LATE_S, self._filled),
        )

    def proceed(self, name: str, model: _Model) -> None:
        """Something has changed: have those go whose turn it is, and stop others for those of the first bands."""
        queue, now = model.queue, self._clock.monotonic()
        if not queue.waiting:
            return
        self.look(name, model, now)
        for ticket in queue.pump(now):
            model.places[ticket].go()
        if self._settings.preempt and queue.waiting:
            for ticket in queue.victims():
                model.places[ticket].stop()
        self.tick_later()

    def tick_later(self) -> None:
        """Look at the queues from time to time, while requests wait."""
        if not self._ticking:
            self._ticking, self._lag = True, 0.0
            self._due = self._clock.monotonic() + _TICK_S
            self._call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        now = self._clock.monotonic()
        self._ticking = False
        lag, self._ticks = max(0.0, now - self._due), self._ticks + 1
        before = self._lag
        if self._settings.strain_bytes and self._ticks % _MEMORY_TICKS == 1:
            self._filled = self._resident() / self._settings.strain_bytes
        waiting = False
        for name, model in list(self._known.items()):
            for ticket, refusal in model.queue.expired(now):
                model.places[ticket].refuse(refusal)
            if model.queue.waiting and name not in self._models:
                self._let_go(model)  # nobody serves it any more, which they are told where a worker is looked for
            if model.queue.waiting:
                waiting = True
                self.proceed(name, model)
            if self._ticks % _SAMPLED_TICKS == 0 or not model.queue.waiting:
                self._sample(name, model)
        if waiting:
            self.tick_later()
            self._lag = max(lag, before / 2)

    def _sample(self, name: str, model: _Model) -> None:
        for at, count in enumerate(model.queue.counts()):
            if model.reported[at] != count:
                model.reported[at] = count
                self._observer.report(QueueLeft(name, BANDS[at].name, "", 0.0, count))

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock.monotonic()

    @property
    def retry_after(self) -> float:
        """The seconds after which a client is told to come again while nobody knows better."""
        return self._retry_after

    def note(self, moment: QueueLeft) -> None:
        """Tell how a request has left a queue."""
        self._observer.report(moment)

    @property
    def estimates(self) -> Estimates:
        """How long prompts and answers are."""
        return self._estimates


class QueuePlace:
    """The place of one request before its model, and at its workers, until it is settled. `choices` is 0 for pooled work.
    `preempted`: it was stopped, and not begun anew yet; `again`: it is begun anew then, and not by others. `refused`: so
    many models of its chain have refused it before."""

    def __init__(
        self, queueing: Queueing, model: _Model, name: str, ticket: QueuedRequest, trace: Trace, choices: int
    ) -> None:
        self._queueing, self._model, self._name, self._trace = queueing, model, name, trace
        self._choices = choices
        self.ticket = ticket
        self.preempted, self.again, self.refused = False, True, 0
        self._future: asyncio.Future[None] | None = None
        self._task: asyncio.Task[object] | None = None
        self._gone_at = 0.0
        self._always: HeaderRows = []

    def offer(self, always: HeaderRows) -> bool:
        """Whether it has to wait. Raises what it is refused for, and says in the headers `always` which place it would have had
        and how long it would have waited, as far as that is known."""
        queueing, queue, ticket, now = self._queueing, self._model.queue, self.ticket, self._queueing.now
        self._always = always
        queueing.look(self._name, self._model, now)
        self._gone_at = now
        self._model.places[ticket] = self
        for each, refusal in queue.offer(ticket, now):
            if each is ticket:
                del self._model.places[ticket]
                ticket.state = "over"
                self._left(refusal.why, now)
                always.append((PLACE, b"%d" % refusal.place))
                if refusal.wait_s is not None:
                    always.append((WAIT, b"%d" % min(_MOST_MS, refusal.wait_s * 1000)))
                raise refusal_error(refusal, queueing.retry_after)
            self._model.places[each].refuse(refusal)
        return ticket.state == "waiting"

    async def turn(self, always: HeaderRows) -> None:
        """Wait until it is its turn. Raises Overloaded and DeadlineExceeded."""
        self._future = asyncio.get_running_loop().create_future()
        self._queueing.tick_later()
        always.append((PLACE, b"%d" % self.ticket.place))
        try:
            await self._future
        finally:
            self._future = None
            always.append((WAIT, b"%d" % max(0, int((self._queueing.now - self.ticket.entered) * 1000))))

    def go(self) -> None:
        """It is its turn."""
        now = self._gone_at = self._queueing.now
        self._left("went", now)
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def refuse(self, refusal: QueueRefusal) -> None:
        """It waits no longer."""
        self._model.places.pop(self.ticket, None)
        self._left(refusal.why, self._queueing.now)
        if self._future is not None and not self._future.done():
            self._future.set_exception(refusal_error(refusal, self._queueing.retry_after))

    # ------------------------------------------------------------------------------------------------------- stopping

    @property
    def stopped(self) -> SmgError | None:
        """Why it was cancelled, if for others that wait."""
        if not self.preempted:
            return None
        return Preempted("The request was stopped for one of a higher band.", retry_after=self._queueing.retry_after)

    async def driven(self, begin: Callable[[], Awaitable[object]]) -> None:
        """Drive the request to its end, as `begin` does; anew, once it is its turn again, where it was stopped for others, or
        another process has filled the workers meanwhile. Raises Preempted for a line of a batch that was stopped, which whoever
        works on the batch tries again."""
        until = self.ticket.expires
        while True:
            self._task = asyncio.current_task()
            try:
                return await self._begun(begin)
            except Preempted:
                if not self.again:
                    raise
            except WorkersFull as error:
                if self._trace.attempts or self._queueing.now >= until or not error.soon:
                    raise
                self._task = None  # until it is begun anew it cannot be stopped
                await asyncio.sleep(_TICK_S)
                self._model.looked = -inf
            finally:
                self._task = None
            self._requeue()
            headers = self._always
            headers[:] = [each for each in headers if each[0] not in (PLACE, WAIT)]
            if self.offer(headers):
                await self.turn(headers)

    @staticmethod
    async def _begun(begin: Callable[[], Awaitable[object]]) -> None:
        await begin()

    def stage(self, started: Callable[[], bool]) -> Stage:
        """How far its answer is, as far as that decides whether it may be stopped."""
        if self._task is None or started():
            return "sent"
        if self._trace.first is None:
            return "unbegun"
        return "sent" if self.again else "begun"

    def stop(self) -> None:
        """Stop it for others."""
        self.preempted = True
        if self._task is not None:
            self._task.cancel()

    def _requeue(self) -> None:
        self.preempted = False
        before, now = self.ticket, self._queueing.now
        self._model.places.pop(before, None)
        self._left("stopped", now)
        self._model.queue.leave(before, 0.0, now)
        self.ticket = attrs.evolve(before)
        self._queueing.proceed(self._name, self._model)

    # -------------------------------------------------------------------------------------------------------- the end

    def settle(self, usage: Usage | None, failure: SmgError | None = None) -> None:
        """The request has ended, in whatever state it was: its place is free."""
        ticket, model, queueing = self.ticket, self._model, self._queueing
        if ticket.state == "over":
            return
        now, waited = queueing.now, ticket.state == "waiting"
        cost = self._cost(usage, failed=failure is not None)
        model.places.pop(ticket, None)
        first = self._trace.first
        if first is not None and not waited:
            workers = max(1.0, model.queue.capacity.slots / max(1.0, model.limit.limit))
            model.limit.note(first.at - self._gone_at, model.queue.running / workers)
        model.queue.leave(ticket, cost, now)
        if waited:
            self._left("left", now)
        if failure is not None:
            model.looked = -inf  # its worker may be gone
        queueing.proceed(self._name, model)

    def _cost(self, usage: Usage | None, *, failed: bool) -> float | None:
        if usage is None or not usage.prompt_tokens:
            return None if self._trace.attempts else 0.0
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        if not failed:
            estimates, tenant = self._queueing.estimates, self.ticket.tenant
            if self._choices == 1:
                estimates.read(self._name, self.ticket.size, usage.prompt_tokens)
            if self._choices:
                estimates.answered(tenant, self._name, usage.completion_tokens, self._choices)
        return usage.prompt_tokens - cached * (1 - _CACHED_WEIGHT) + _OUTPUT_WEIGHT * usage.completion_tokens

    def _left(self, outcome: str, now: float) -> None:
        ticket, model = self.ticket, self._model
        waited, count = max(0.0, now - ticket.entered), model.queue.counts()[ticket.band]
        model.reported[ticket.band] = count
        self._queueing.note(QueueLeft(self._name, BANDS[ticket.band].name, outcome, waited, count))


def refusal_error(refusal: QueueRefusal, retry_after: float) -> SmgError:
    """The error of a request that a queue refuses, which says when to come again."""
    wait = retry_after if refusal.wait_s is None else min(_LONGEST_RETRY_S, max(1.0, refusal.wait_s))
    if refusal.why == "deadline":
        return DeadlineExceeded("The request's deadline passed before it was its turn.")
    if refusal.why == "tenant":
        return RateLimited("As many of your requests wait for this model as may.", retry_after=wait)
    return Overloaded(_WORDS[refusal.why], retry_after=wait)
