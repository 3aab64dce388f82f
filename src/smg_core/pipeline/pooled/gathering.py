"""The inputs of one pooled request under way: has calls made until every input has its vector (edge).

As many tasks as calls may be under way take inputs until none is left; the first error that ends the request cancels the others,
and so does a client that leaves. What begins next and what a failure means is decided by `spread`. Of each worker that served the
request one `AttemptEnded` is told, and one of each call that failed. Above: pooling, which knows the workers.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs
from msgspec import Struct

from smg_core.engines.pooling import PoolCall, Vector
from smg_core.errors import (
    EngineGarbled,
    EngineStalled,
    EngineTimeout,
    InternalError,
    InvalidRequest,
    NoWorker,
    Overloaded,
    ReadingFailed,
    SmgError,
    UnsupportedParameter,
)
from smg_core.events import Usage
from smg_core.hooks import AttemptEnded, WorkerPicked
from smg_core.observability.trace_context import Outgoing
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.pooled.next_token import pooling_engine
from smg_core.pipeline.pooled.scoring import Method
from smg_core.pipeline.pooled.spread import Spread
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import PoolingConfig
from smg_core.request import PoolInput, PoolRequest
from smg_core.routing.retry_budget import RetryBudgets
from smg_core.tokens import TokenIds
from smg_core.workers.worker import ProbeCall, Worker, WorkerPlace

if TYPE_CHECKING:
    from smg_core.workers.rates import WorkerRate

__all__ = ["EMBEDDING", "Gathering", "PoolAttempt", "PoolChoice", "PoolItem", "PoolTerms", "PoolWorkers", "Pooled"]

EMBEDDING = "embedding"
"""The role of pooled work in routing. How likely tokens are to come next is asked of workers as any text is."""


class Pooled(Struct, frozen=True):
    """The numbers for a request's inputs or pairs, in order, the model that made them, the tokens that the engines counted, and
    how pairs were judged."""

    model: ServedModel
    vectors: Sequence[Vector]
    prompt_tokens: int
    method: Method = ""

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt_tokens, 0)


@attrs.frozen
class PoolTerms:
    """What bounds one request, and through which API it came. `retries`: how often one input may be tried elsewhere;
    `number_bytes`: what a number takes in the answer, which is of `answer_bytes` at most; `of_guardrail`: a guardrail asks, which
    no other one is shown."""

    settings: PoolingConfig
    timeouts: Timeouts
    retries: int
    budgets: RetryBudgets
    number_bytes: int
    answer_bytes: int
    api: str = ""
    of_guardrail: bool = False


class PoolItem(Struct, frozen=True):
    """One input: what the client gave, its ids (None: only its engine encodes it), and its tokens, reckoned without ids. Of a
    pair `given` is the document, `query` the other text, and `types` are those of the ids. `place` is that of the input in the
    request."""

    given: PoolInput
    ids: TokenIds | None
    tokens: int
    place: int = 0
    query: PoolInput = ""
    types: Sequence[int] = ()

    @property
    def text(self) -> str:
        """The text, where there are no ids."""
        return self.given if self.ids is None and isinstance(self.given, str) else ""


class PoolAttempt:
    """One call of one worker, and the task that waits for the engine. `elsewhere` says how much room other workers have for such
    inputs, none where they may not be tried again. `left`: the worker no longer answers, so that they are."""

    def __init__(
        self,
        worker: Worker,
        task: "asyncio.Task[Sequence[Vector]]",
        model: str,
        elsewhere: Callable[[], tuple[float, float]],
    ) -> None:
        self.worker, self.task, self.model, self.elsewhere = worker, task, model, elsewhere
        self.probe: ProbeCall | None = None
        self.left = False


class PoolChoice(Struct, frozen=True):
    """A worker for an input, the policy that chose it, and why. `probe` as in `Chosen`."""

    worker: Worker
    policy: str
    why: str
    probe: ProbeCall | None = None


class PoolWorkers(Protocol):
    """Who knows the workers."""

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def pick(
        self, request: PoolRequest, model: ServedModel, item: PoolItem, exclude: frozenset[str], api: str, whole: int
    ) -> PoolChoice:
        """The worker for one input; `whole` is how many tokens the request has, 0 once it has begun. Raises
        UnsupportedParameter, Overloaded where none has room, NoWorker."""
        ...

    def room(
        self, request: PoolRequest, model: ServedModel, item: PoolItem, exclude: frozenset[str], api: str
    ) -> tuple[float, float]:
        """How many requests, and tokens, the workers take together that could be picked for one input."""
        ...

    def begin(self, call: PoolAttempt) -> None:
        """A call is under way."""
        ...

    def begin_rate(self, worker: Worker, model: str, tokens: int) -> "WorkerRate | None":
        """Charge a call that begins to what the entry of its worker allows in a minute; None where that says nothing."""
        ...

    def lost_with(self, worker: Worker, error: SmgError, began: float) -> bool:
        """Whether a call that began at `began` and failed with `error` was lost with all the calls that its worker had."""
        ...

    def end(self, call: PoolAttempt, error: SmgError | None, seconds: float, *, counts: bool) -> None:
        """A call is over. `counts` False: it was given up, which says nothing of its worker."""
        ...

    def abort(self, worker: Worker, request_id: str) -> None:
        """Tell an engine that nobody waits for a call any more."""
        ...


@attrs.define
class _Served:
    """What one worker has done for a request: its calls that have not failed, the first of which began at `began`. All of them
    are one span of the request's trace."""

    picked: PoolChoice
    began: float
    outgoing: Outgoing
    calls: int = 0


class Gathering:
    """The inputs of one request under way."""

    def __init__(
        self,
        pooling: PoolWorkers,
        request: PoolRequest,
        model: ServedModel,
        terms: PoolTerms,
        trace: Trace,
        items: Sequence[PoolItem],
        method: Method = "",
    ) -> None:
        self._method = method
        self._role = "regular" if request.kind == "next_token" else EMBEDDING
        self._pooling, self._request, self._model = pooling, request, model
        self._terms, self._trace, self._items = terms, trace, items
        budget = terms.budgets.of(model.name)
        budget.pay()
        self._spread = Spread(
            [each.tokens for each in items],
            calls=terms.settings.calls_at_once,
            tokens=terms.settings.tokens_at_once,
            retries=terms.retries,
            budget=budget,
        )
        self._found: list[Vector | None] = [None] * len(items)
        self._failures: dict[int, SmgError] = {}
        self._served: dict[str, _Served] = {}
        self._attempts = self._calls = self._dimensions = 0
        self._changed = asyncio.Event()

    async def run(self) -> Pooled:
        lanes = min(len(self._items), self._terms.settings.calls_at_once)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(lanes):
                    group.create_task(self._lane())
        except* SmgError as errors:
            raise _first(errors) from None
        finally:
            self._spread.give_back()
            self._report_served()
        vectors = [each for each in self._found if each is not None]
        return Pooled(self._model, vectors, sum(each.tokens for each in vectors), self._method)

    async def _lane(self) -> None:
        """Take inputs until all are done."""
        while not self._spread.over:
            place = self._spread.next
            if place is None or not await self._one(place):
                self._changed.clear()
                await self._changed.wait()

    async def _one(self, place: int) -> bool:
        """Have one call made that begins with this input. False if every worker is full with calls of this request, and it has to
        wait for one of them."""
        whole = 0 if self._calls else max(1, sum(each.tokens for each in self._items))
        try:
            picked = self._pooling.pick(
                self._request, self._model, self._items[place], self._spread.tried(place), self._terms.api, whole
            )
        except NoWorker as error:
            raise self._at(self._failures.get(place, error), place) from None
        except Overloaded as error:
            if self._spread.calls:
                return False
            raise self._at(error, place) from None
        group = self._spread.take(picked.worker.facts.pool_inputs)
        await self._call(picked, group)
        self._changed.set()
        return True

    async def _call(self, picked: PoolChoice, group: tuple[int, ...]) -> None:
        worker, began = picked.worker, self._pooling.now
        served = self._note(picked, began)
        self._calls += 1
        call_id = f"{self._request.id}-{self._calls}"
        tokens = sum(self._items[each].tokens for each in group)
        place, rate = WorkerPlace(worker, tokens), self._pooling.begin_rate(worker, self._model.name, tokens)
        error: SmgError | None = None
        call: PoolAttempt | None = None
        answered = False
        try:
            engine = pooling_engine(worker, self._request, self._model, self._terms.settings)
            asked = engine.pool(
                self._asked(call_id, group, worker),
                metadata=served.outgoing.metadata,
                timeout=self._terms.timeouts.first_token,
            )
            call = PoolAttempt(
                worker, asyncio.ensure_future(asked), self._model.name, lambda: self._elsewhere(group, worker)
            )
            call.probe = picked.probe
            self._pooling.begin(call)
            self._take(group, await call.task)
            answered = True
        except EngineTimeout as late:
            error = EngineStalled(
                "The engine did not answer in time.", detail=late.detail or late.message, outside_text=late.outside_text
            )
        except Exception as fault:  # noqa: BLE001  # what is none of our errors is a fault of whoever read the answer
            error = ReadingFailed.of(fault)
        except asyncio.CancelledError:
            if call is None or not call.left:
                raise
            error = EngineStalled("The engine did not answer in time.", detail=f"{worker.name} is {worker.reason}")
        finally:
            place.leave()
            if rate is not None:
                rate.end(self._used(group), begun=answered)
            if call is not None:
                reportable = None if self._terms.timeouts.impatient(error) else error
                counts = answered or (reportable is not None and not isinstance(reportable, InternalError))
                self._pooling.end(call, reportable, self._pooling.now - began, counts=counts)
            if picked.probe is not None:
                picked.probe.give_back()
            if not answered and not isinstance(error, InvalidRequest):
                self._pooling.abort(worker, call_id)
        if error is None:
            self._spread.done(group)
            return
        served.calls -= 1
        self._report(served, type(error).__name__, self._pooling.now - began, error)
        self._failures.update(dict.fromkeys(group, error))
        lost = (call is not None and call.left) or self._pooling.lost_with(worker, error, began)
        if not self._spread.failed(group, worker.name, error, lost=lost):
            raise self._at(error, group[0])

    def _elsewhere(self, group: tuple[int, ...], worker: Worker) -> tuple[float, float]:
        """How much room other workers have for inputs such as these; none where they may not be tried again."""
        if not self._spread.may_fail(group):
            return 0, 0
        exclude = self._spread.tried(group[0]) | {worker.name}
        return self._pooling.room(self._request, self._model, self._items[group[0]], exclude, self._terms.api)

    def _asked(self, call_id: str, group: tuple[int, ...], worker: Worker) -> PoolCall:
        """What a worker is sent for these inputs."""
        items, request = [self._items[place] for place in group], self._request
        if worker.facts.takes_ids:
            if request.kind == "embed" and request.activation is False:
                raise UnsupportedParameter("This engine's protocol cannot ask for raw vectors.", param="activation")
            return PoolCall(
                call_id,
                [each.ids for each in items if each.ids is not None],
                kind=request.kind,
                types=[each.types for each in items] if items[0].types else (),
                activation=request.activation,
            )
        pairs, context = request.kind == "score", worker.facts.context_length
        most = request.truncate or request.document_tokens
        return PoolCall(
            call_id,
            (),
            () if pairs else [each.given for each in items],
            -1 if context and most is not None and most >= context else most,
            request.truncate_side,
            request.kind,
            pairs=[(each.query, each.given) for each in items] if pairs else (),
            activation=request.activation,
        )

    def _take(self, group: tuple[int, ...], vectors: Sequence[Vector]) -> None:
        """Keep what an engine has answered. Raises EngineGarbled for another number of vectors than inputs, or of another length
        than those before, InvalidRequest for more dimensions than the model has, and for an answer that would be too large."""
        if len(vectors) != len(group):
            raise EngineGarbled("The engine sent another number of vectors than it was asked for.")
        size = self._dimensions or len(vectors[0].values)
        if any(len(each.values) != size for each in vectors):
            raise EngineGarbled("The engine sent vectors of different lengths.")
        if not self._dimensions:
            self._dimensions = size
            self._check_size(size)
        for place, vector in zip(group, vectors, strict=True):
            self._found[place] = vector

    def _used(self, group: tuple[int, ...]) -> Usage:
        """What the engine says that the inputs of a call had."""
        found = (self._found[place] for place in group)
        return Usage(sum(each.tokens for each in found if each is not None), 0)

    def _check_size(self, size: int) -> None:
        asked = self._request.dimensions
        if asked is not None and asked > size:
            raise InvalidRequest(
                f"Invalid 'dimensions': the vectors of the model '{self._model.name}' have {size}.", param="dimensions"
            )
        total = len(self._items) * (asked or size) * self._terms.number_bytes
        if total > self._terms.answer_bytes:
            raise InvalidRequest(
                f"This answer could take {total} bytes, and at most {self._terms.answer_bytes} are kept: send fewer inputs, "
                "ask for fewer dimensions, or for base64.",
                param="inputs",
                code="answer_too_large",
            )

    def _note(self, picked: PoolChoice, now: float) -> _Served:
        """What a worker has done for this request. Tells that it serves it, once for each."""
        served = self._served.get(picked.worker.name)
        if served is None:
            served = self._served[picked.worker.name] = _Served(picked, now, self._trace.outgoing())
            self._attempts += 1
            self._trace.report(
                WorkerPicked(
                    self._request.id,
                    picked.worker.name,
                    picked.policy,
                    self._attempts,
                    now,
                    self._role,
                    None,
                    self._model.primary or self._model.name,
                    picked.worker.facts.transport,
                    picked.why,
                )
            )
        served.calls += 1
        return served

    def _at(self, error: SmgError, place: int) -> SmgError:
        """The error with the input that it belongs to, unless it names another field."""
        if error.param is None:
            error.param = f"inputs[{self._items[place].place}]"
        return error

    def _report_served(self) -> None:
        """Tell how the calls of each worker ended that have not failed."""
        for served in self._served.values():
            if served.calls:
                self._report(served, "ok" if self._spread.over else "abandoned", self._pooling.now - served.began)

    def _report(self, served: _Served, outcome: str, seconds: float, error: SmgError | None = None) -> None:
        worker = served.picked.worker
        self._trace.report(
            AttemptEnded(
                request_id=self._request.id,
                worker=worker.name,
                attempt=self._attempts,
                outcome=outcome,
                completion_tokens=0,
                finish=(),
                first_seconds=None,
                seconds=seconds,
                at=self._pooling.now,
                detail="" if error is None else error.detail or error.message,
                outside_text="" if error is None else error.outside_text,
                client_id=self._trace.client_id,
                trace_id=self._trace.trace_id,
                role=self._role,
                model=self._model.primary or self._model.name,
                transport=worker.facts.transport,
                dialect=worker.facts.dialect,
                span_id=served.outgoing.span_id,
            )
        )


def _first(errors: BaseExceptionGroup[SmgError]) -> SmgError:
    """The error of the lane that failed first: it cancelled the others."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
