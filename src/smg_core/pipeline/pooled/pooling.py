"""Answers a pooled request: makes the ids of its inputs, and has their vectors gathered from the workers of its model (edge).

What an input becomes is decided by `pool_inputs` and `pair_inputs`, how pairs are judged by `scoring`, which worker gets it by
the policy of the model for the role "embedding", what is under way at a time by `pool_gathering` and `spread`. Above: the
handler in `apis.pooling.inference`. Below: these, routing, workers.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from smg_core.clock import Clock
from smg_core.errors import SmgError, WorkerGone
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.calls.streaming import OnOutcome
from smg_core.pipeline.flow.steps import Chosen
from smg_core.pipeline.pooled.encoding import PoolEncoding
from smg_core.pipeline.pooled.gathering import (
    EMBEDDING,
    Gathering,
    PoolAttempt,
    PoolChoice,
    Pooled,
    PoolItem,
    PoolTerms,
)
from smg_core.pipeline.pooled.inputs import check_count
from smg_core.pipeline.pooled.scoring import can_do, judged, no_such_work
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import PoolRequest
from smg_core.routing import Policies, RoutingContext
from smg_core.tokens import TokenIds
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker

if TYPE_CHECKING:
    from smg_core.guardrails.guards import Guards
    from smg_core.placement.placing import Placing
    from smg_core.workers.rates import WorkerRate

__all__ = ["Pooling", "WakingFor"]


class WakingFor(Protocol):
    """Has engines wake that sleep."""

    async def awake_for(
        self, model: str, exclude: frozenset[str], fits: Callable[[tuple[Worker, ...]], tuple[Worker, ...]]
    ) -> str:
        """Return when a worker of the model is awake, with what had to be done for that in words. Raises SmgError."""
        ...


class Pooling:
    """Does pooled work with the workers of one gateway. `on_outcome` is told how each call ended. `placement` narrows the workers
    by their labels first, where there are rules for that; `sleeping` has workers woken where none is awake; `guarding` is shown
    the inputs first."""

    def __init__(
        self,
        *,
        registry: Registry,
        policies: Policies,
        clock: Clock,
        executor: FairExecutor,
        on_outcome: OnOutcome,
    ) -> None:
        self._registry = registry
        self._policies = policies
        self._clock = clock
        self._encoding = PoolEncoding(clock, executor)
        self._on_outcome = on_outcome
        self.placement: Placing | None = None
        self.sleeping: WakingFor | None = None
        self.guarding: Guards | None = None
        self._running: dict[str, set[PoolAttempt]] = {}
        self._aborts: set[asyncio.Task[None]] = set()

    async def __call__(self, request: PoolRequest, model: ServedModel, terms: PoolTerms, trace: Trace) -> Pooled:
        """The numbers for `request` of `model`. Raises what is wrong with the request, and the error of an engine; its `param` is
        then the input."""
        settings = terms.settings
        check_count(request, settings)
        if self.guarding is not None and not terms.of_guardrail:
            request = await self.guarding.pooled(request, model.tokenizer, trace.report)
        if self._registry.any_asleep and self.sleeping is not None:
            await self._woken(request, model, terms.api, self.sleeping)
        if request.kind == "score":
            self._registry.candidates(model.name)  # raises where nobody is there to judge anything
        request, method = judged(request, model, [each.facts for each in self._registry.of(model.name)], settings)
        items = await self._encoding.items(request, model, settings, trace, method)
        return await Gathering(self, request, model, terms, trace, items, method).run()

    async def _woken(self, request: PoolRequest, model: ServedModel, api: str, sleeping: "WakingFor") -> None:
        """Return when a worker is awake that such work may be sent to."""
        placing = self.placement
        wishes = None if placing is None else placing.wishes(request.caller, model, api, request.headers)

        def fits(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
            return workers if placing is None or wishes is None else placing.fitting(wishes, workers)

        await sleeping.awake_for(model.name, frozenset(), fits)

    def pick(
        self,
        request: PoolRequest,
        model: ServedModel,
        item: PoolItem,
        exclude: frozenset[str],
        api: str,
        whole: int,
    ) -> "PoolChoice":
        """The worker for one input, by the policy; `whole` as of `PoolWorkers.pick`. Raises UnsupportedParameter where no engine
        of the model does such work, Overloaded where none has room, NoWorker."""
        name, now = model.name, self._clock.monotonic()
        able = self._able(request, model, item, exclude, api)
        begun = not whole and not exclude
        found = self._registry.admitted(self._registry.with_room(able, whole or item.tokens or 1, begun=begun), now)
        wishes = None
        if self.placement is not None:
            wishes = self.placement.wishes(request.caller, model, api, request.headers)
            found, _ = self.placement.favoured(wishes, found)
        role = "regular" if request.kind == "next_token" else EMBEDDING
        context = RoutingContext(
            request_id=request.id,
            model=name,
            input_ids=item.ids or TokenIds(),
            text=item.text,
            headers=request.headers,
            role=role,
            now=now,
            part="" if wishes is None else wishes.part,
        )
        seen = tuple([each.record for each in found])
        if wishes is not None and wishes.weighed:
            seen = wishes.weigh(found, seen)
        choice = self._policies.choose(model.primary or name, role, seen, context)
        worker = found[choice.at]
        probe = self._registry.probe(worker)
        return PoolChoice(worker, choice.policy, choice.pick.why, probe)

    def _able(
        self, request: PoolRequest, model: ServedModel, item: PoolItem, exclude: frozenset[str], api: str
    ) -> tuple[Worker, ...]:
        """The ready workers of the model that can do such work. Raises UnsupportedParameter, NoWorker."""
        name = model.name
        known = self._registry.candidates(name, exclude)
        if self.placement is not None:
            wishes = self.placement.wishes(request.caller, model, api, request.headers)
            known = self.placement.placed(wishes, name, known, "regular", self._registry)
        found = tuple(each for each in known if can_do(each.facts, request, has_ids=item.ids is not None))
        if not found and request.kind == "score":  # the operator says that servers can which do not say it themselves
            found = tuple(each for each in known if not each.facts.takes_ids)
        if not found:
            raise no_such_work(name, request, [each.facts for each in known])
        return found

    def room(
        self, request: PoolRequest, model: ServedModel, item: PoolItem, exclude: frozenset[str], api: str = ""
    ) -> tuple[float, float]:
        """How many requests, and tokens, the workers take together that could be picked for one input."""
        try:
            return self._registry.room(self._able(request, model, item, exclude, api))
        except SmgError:
            return 0, 0

    def begin_rate(self, worker: Worker, model: str, tokens: int) -> "WorkerRate | None":
        """Charge a call that begins to what the entry of its worker allows in a minute; None where that says nothing."""
        rates = self._registry.rates if worker.spec.rated else None
        return None if rates is None else rates.begin(worker, model, max(1, tokens))

    def lost_with(self, worker: Worker, error: SmgError, began: float) -> bool:
        """Whether a call that began at `began` and failed with `error` was lost with all the calls that its worker had."""
        return isinstance(error, WorkerGone) and self._registry.lost_with(worker, began, self._clock.monotonic())

    def begin(self, call: PoolAttempt) -> None:
        """A call is under way."""
        self._running.setdefault(call.worker.name, set()).add(call)

    def end(self, call: PoolAttempt, error: SmgError | None, seconds: float, *, counts: bool) -> None:
        """A call is over. `counts` False: it was given up, which says nothing of its worker."""
        running = self._running.get(call.worker.name, set())
        running.discard(call)
        if not running:
            self._running.pop(call.worker.name, None)
        self._on_outcome(Chosen(call.worker, probe=call.probe), error, seconds, counts)

    def move(self, worker: Worker) -> None:
        """Called each time that a worker does not answer a health check, and when it is to be left: its calls are tried elsewhere
        as far as other workers have room for them."""
        moved: dict[str, int] = {}
        for call in list(self._running.get(worker.name, ())):
            (requests, tokens), before = call.elsewhere(), moved.get(call.model, 0)
            if not call.left and before < requests and tokens:
                moved[call.model] = before + 1
                call.left = True
                call.task.cancel()

    def abort(self, worker: Worker, request_id: str) -> None:
        """Tell an engine that nobody waits for a call any more: it may not notice that its stream was reset."""
        if worker.reached is None:
            return
        task = asyncio.ensure_future(worker.reached.abort(request_id))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    @property
    def now(self) -> float:
        return self._clock.monotonic()
