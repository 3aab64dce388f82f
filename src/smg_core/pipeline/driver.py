"""Performs the steps of a flow (edge).

The driver owns what flows must not: the thread pool for long encodings, the engine's call and its cancellation, the place a
request takes on a worker's board, time-outs and sleeps. It decides nothing but what runs on the event loop and what does
not. One driver serves all requests of a gateway; `drive` runs one flow in the caller's task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar

import attrs

from smg_core.clock import Clock
from smg_core.engines.client import EngineClient
from smg_core.errors import ModelNotFound, NoWorker, SmgError
from smg_core.hooks import EncodeDone, Observer, WorkerPicked
from smg_core.pipeline.answer import Answer
from smg_core.pipeline.media import MediaItem, PlacedMedia
from smg_core.pipeline.output import OutputProcessor
from smg_core.pipeline.prepare import Prepared, assemble, encode, render, take_media
from smg_core.pipeline.served import ServedModel
from smg_core.pipeline.steps import Flow, Prepare, Select, Step, Stream, Wait
from smg_core.request import GenerationRequest, Text
from smg_core.routing.base import Policy, RoutingContext
from smg_core.tokenizer.base import EncodeReport, Prompt
from smg_core.tokens import TokenIds
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker

__all__ = ["Driver", "Trace"]

T = TypeVar("T")


@attrs.define
class Trace:
    """What happened to one request, for whoever asked to have it explained. Times are monotonic seconds."""

    started: float
    rendered: float = 0.0
    encoded: float = 0.0
    loaded: float = 0.0
    selected: float = 0.0
    first: float = 0.0
    ended: float = 0.0
    workers: tuple[str, ...] = ()
    worker: str = ""
    policy: str = ""
    prepared: Prepared | None = None


class Driver:
    """Steps to deeds. `render_inline` is how many characters of messages may be rendered inside the event loop (about a
    millisecond's worth), as each model's `encode_inline` is for encoding; what is longer goes to `pool`."""

    def __init__(
        self,
        *,
        registry: Registry,
        models: Mapping[str, ServedModel],
        policy: Policy,
        observer: Observer,
        clock: Clock,
        pool: Executor,
        request_timeout: float,
        on_worker_error: Callable[[Worker, SmgError], None],
        render_inline: int = 200_000,
    ) -> None:
        self._registry = registry
        self._models = models
        self._policy = policy
        self._observer = observer
        self._clock = clock
        self._pool = pool
        self._timeout = request_timeout
        self._on_worker_error = on_worker_error
        self._render_inline = render_inline
        self._aborts: set[asyncio.Task[None]] = set()

    async def drive(self, flow: Flow[T], answer: Answer, trace: Trace) -> T:
        """Run `flow` to its end and return what it returns; raise what it raises."""
        perform: dict[type[Step[Any]], Callable[[Any, Answer, Trace], Awaitable[Any]]] = {
            Prepare: self._prepare,
            Select: self._select,
            Stream: self._stream,
            Wait: self._wait,
        }
        try:
            step = next(flow)
            while True:
                try:
                    outcome = await perform[type(step)](step, answer, trace)
                except SmgError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            flow.close()

    async def prepare(self, request: GenerationRequest, trace: Trace) -> Prepared:
        """Render, encode and check one request; what is long runs in the pool."""
        model = self._models.get(request.model)
        if model is None:
            self._registry.candidates(request.model)  # says which of the two ways of having no worker it is
            raise NoWorker(f"The model '{request.model}' is still being loaded.", retry_after=1.0)
        items = take_media(request, model)
        prompt = await self._render(request, model)
        trace.rendered = self._clock.monotonic()
        encoded = await self._encode(prompt, model, request.cache_salt or "")
        trace.encoded = self._clock.monotonic()
        placed = await self._place(request, model, items, encoded.ids, trace) if model.media is not None else None
        if placed is not None:
            encoded = attrs.evolve(encoded, ids=placed.ids)
        text = prompt.text if isinstance(prompt, Prompt) else ""
        self._observer.report(
            EncodeDone(
                request.id,
                encoded.characters,
                encoded.cached_characters,
                len(encoded.ids),
                trace.encoded - trace.rendered,
            )
        )
        trace.prepared = prepared = assemble(request, model, text, encoded, placed)
        return prepared

    async def _place(
        self, request: GenerationRequest, model: ServedModel, items: list[MediaItem], ids: TokenIds, trace: Trace
    ) -> PlacedMedia | None:
        """Bring the media and expand the prompt for them. It takes what it takes: a client that goes cancels it."""
        media = model.media
        if media is None:
            return None
        if not items:
            if request.prompt is not None or not model.protect_control:
                media.refuse_strays(ids)
            return None
        placed = await media.place(ids, await media.load(items))
        trace.loaded = self._clock.monotonic()
        return placed

    async def rehearse(self, request: GenerationRequest, trace: Trace) -> None:
        """Do all that comes before the engine is asked, and note it in `trace`."""
        prepared = await self.prepare(request, trace)
        self._choose(Select(prepared, frozenset(), 1), trace)

    async def _prepare(self, step: Prepare, answer: Answer, trace: Trace) -> Prepared:
        return await self.prepare(step.request, trace)

    async def _render(self, request: GenerationRequest, model: ServedModel) -> Prompt | TokenIds:
        if _characters(request) <= self._render_inline:
            return render(request, model)
        return await asyncio.get_running_loop().run_in_executor(self._pool, render, request, model)

    async def _encode(self, prompt: Prompt | TokenIds, model: ServedModel, salt: str) -> EncodeReport:
        if isinstance(prompt, TokenIds) or sum(map(len, prompt.pieces)) <= model.encode_inline:
            return encode(prompt, model, salt)
        known = model.tokenizer.recall(prompt, salt=salt)
        if known is not None:
            return known
        return await asyncio.get_running_loop().run_in_executor(self._pool, encode, prompt, model, salt)

    async def _select(self, step: Select, answer: Answer, trace: Trace) -> Worker:
        return self._choose(step, trace)

    def _choose(self, step: Select, trace: Trace) -> Worker:
        request = step.prepared.request
        candidates = self._registry.candidates(request.model, step.exclude)
        context = RoutingContext(
            request_id=request.id,
            model=request.model,
            input_ids=step.prepared.engine.input_ids,
            headers=request.headers,
            cache_key=request.cache_key,
            cache_salt=request.cache_salt,
            media_keys=step.prepared.media_keys,
        )
        chosen = self._policy.pick(candidates, context)
        worker = next((each for each in candidates if each is chosen), None)
        if worker is None:
            raise ModelNotFound(request.model)
        trace.selected, trace.worker, trace.policy = self._clock.monotonic(), worker.name, self._policy.name
        trace.workers += (worker.name,)
        self._observer.report(WorkerPicked(request.id, worker.name, self._policy.name, step.attempt))
        return worker

    async def _stream(self, step: Stream, answer: Answer, trace: Trace) -> None:
        worker, prepared = step.worker, step.prepared
        engine: EngineClient = worker.engine
        request = prepared.engine
        if step.attempt > 1:
            request = attrs.evolve(request, id=f"{request.id}-{step.attempt}")
        loan = None
        answer.begin(OutputProcessor(prepared.plan))
        worker.board.add(worker.row, 1)
        try:
            if request.multimodal is not None and prepared.model.media is not None:
                loan = await prepared.model.media.lend(request.multimodal, worker.memory)
                request = request if loan is None else attrs.evolve(request, multimodal=loan.inputs)
            answer.reads_from(await engine.generate(request, answer, timeout=self._timeout))
            await answer.deliver()
        except SmgError as error:
            self._on_worker_error(worker, error)
            raise
        finally:
            worker.board.add(worker.row, -1)
            if loan is not None:
                loan.release()
            if answer.let_go():
                self._tell(engine, request.id)

    def _tell(self, engine: EngineClient, request_id: str) -> None:
        """Abort by name too: a servicer may not notice a stream that was reset while it waits for its engine."""
        task = asyncio.ensure_future(engine.abort(request_id))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _wait(self, step: Wait, answer: Answer, trace: Trace) -> None:
        await asyncio.sleep(step.seconds)


def _characters(request: GenerationRequest) -> int:
    return sum(len(part.text) for message in request.messages for part in message.parts if isinstance(part, Text))
