"""Performs `Stream`: makes one call of one engine, passes its output to the answer, and reports how the call ended (edge).

Owns what a call must give back however it ends: the worker's place on the load board, the tensors in shared memory, the engine's
stream. The outcome of every call is reported with its worker: success or error, before and after the first byte.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from smg_core.clock import CallLater, Clock
from smg_core.engines.base import Call, ChatEngine, Engine, EngineOutput, EngineRequest, IdsEngine, RequestMedia
from smg_core.errors import EngineStalled, EngineTimeout, InternalError, SmgError, WorkerGone
from smg_core.hooks import AttemptEnded, FirstToken, FormatViolation
from smg_core.pipeline.attempt import AnyAttempt, AnyReader, Attempt, EventReceiver
from smg_core.pipeline.chat_reader import ChatReader
from smg_core.pipeline.driver import Run, loop_call_later
from smg_core.pipeline.fit import FitForChat, FitForIds, fitted, reader_for
from smg_core.pipeline.media import SharedInputs
from smg_core.pipeline.output import OutputProcessor
from smg_core.pipeline.pairing import Pairing, Pairs
from smg_core.pipeline.patience import Watch
from smg_core.pipeline.receivers import Recording, Unseen, WithoutCalls, without_finishes
from smg_core.pipeline.steps import Chosen, Stream
from smg_core.pipeline.turn import Transcript, Turn
from smg_core.workers.worker import Worker

__all__ = ["OnOutcome", "Streaming"]


class OnOutcome(Protocol):
    """Called after each engine call, with the outcome (`server.runtime` passes it to the health of workers)."""

    def __call__(self, worker: Worker, error: SmgError | None, seconds: float) -> None:
        """`error` is None if the call ended well, and if the client gave it up, by leaving or by its own time-outs."""
        ...


class Streaming:
    """The performer of `Stream`. Time-outs of connecting and of silence are those of the request (`Run.timeouts`). `pairs` calls
    two engines for one request; `call_later` is the event loop's unless a test passes its own."""

    def __init__(
        self,
        *,
        clock: Clock,
        on_outcome: OnOutcome,
        call_later: CallLater = loop_call_later,
        pairs: Pairs | None = None,
    ) -> None:
        self._clock = clock
        self._pairs = pairs or Pairs(clock=clock, on_outcome=on_outcome, call_later=call_later)
        self._on_outcome = on_outcome
        self._call_later = call_later
        self._running: dict[str, set[AnyAttempt]] = {}
        self._aborts: set[asyncio.Task[None]] = set()

    async def __call__(self, step: Stream, run: Run) -> Turn:
        call = _Call(step, run, self._clock)
        if step.prefill is not None:
            call.pairing = self._pairs.of(step, step.prefill, run, self._tell)
        worker, attempt = step.chosen.worker, call.attempt
        run.answer.begin(attempt)
        worker.board.add(worker.row, 1)
        waits_for = [worker.name] if step.prefill is None else [worker.name, step.prefill.worker.name]
        for name in waits_for:
            self._running.setdefault(name, set()).add(attempt)
        watch = Watch(attempt, run.timeouts, self._call_later)
        try:
            attempt.reads_from(await call.start(run.timeouts.connect))
            await run.answer.carry(attempt)
        except SmgError as error:
            attempt.end(error)
        finally:
            watch.stop()
            self._forget(attempt, waits_for)
            worker.board.add(worker.row, -1)
            call.release_shared()
            if attempt.release() and call.pairing is None:  # two legs are told by what holds them
                self._tell(call.engine, call.id)
            if call.pairing is not None:
                call.pairing.close()
            self._report(call, attempt, run)
        return call.turn()

    def _forget(self, attempt: AnyAttempt, names: Sequence[str]) -> None:
        for name in names:
            running = self._running.get(name, set())
            running.discard(attempt)
            if not running:
                self._running.pop(name, None)

    def move_waiting(self, worker: Worker) -> None:
        """Called when a worker no longer answers probes: ends its calls that have no output yet, so that they are tried
        elsewhere."""
        for attempt in list(self._running.get(worker.name, ())):
            if not attempt.pushes:
                attempt.end(
                    EngineStalled("The engine did not answer in time.", detail=f"{worker.name} is {worker.reason}")
                )

    def _tell(self, engine: Engine, request_id: str) -> None:
        """Send an Abort with the request's id: a server that waits for its engine may not notice that the stream was reset."""
        task = asyncio.ensure_future(engine.abort(request_id))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    def _report(self, call: "_Call", attempt: AnyAttempt, run: Run) -> None:
        step, now = call.step, self._clock.monotonic()
        worker, seconds = step.chosen.worker, now - call.began
        outcome, detail = "ok" if attempt.state == "complete" else "abandoned", ""
        error = attempt.error if call.failed in (None, worker.name) else None  # the prefill worker's is told already
        if error is not None:
            outcome, detail = type(error).__name__, error.detail or error.message
        impatient = run.timeouts.hasty and isinstance(error, EngineTimeout | WorkerGone)
        self._on_outcome(worker, None if impatient else error, seconds)
        for each in attempt.reader.finishes:
            if each.violation is not None:
                request_id = step.prompted.request.id
                broken = FormatViolation(request_id, worker.name, each.index, each.violation, each.mended)
                run.trace.report(broken)
        run.trace.report(
            AttemptEnded(
                request_id=step.prompted.request.id,
                worker=worker.name,
                attempt=step.attempt,
                outcome=outcome,
                completion_tokens=attempt.usage().completion_tokens,
                finish=tuple(each.reason for each in attempt.reader.finishes),
                first_seconds=call.first_seconds,
                seconds=seconds,
                at=now,
                detail=detail,
                client_id=run.trace.client_id,
                role=step.chosen.role,
            )
        )


class _Call:
    """One engine call, from the step to the engine's request."""

    def __init__(self, step: Stream, run: Run, clock: Clock) -> None:
        self.step = step
        self.engine: Engine = step.chosen.worker.engine
        self.began = clock.monotonic()
        self.first_seconds: float | None = None
        self.pairing: Pairing | None = None
        self._fit = fitted(step.prompted, step.chosen.worker.facts)
        self._shared: list[SharedInputs] = []
        self._opening: asyncio.Task[object] | None = None  # the task that opens the call, meanwhile
        self._gave_up = False
        self._answer = run.answer
        reader = self._reader()
        run.calls += 1
        request_id = step.prompted.request.id
        # engines refuse an id that they have seen
        self.id = request_id if run.calls == 1 else f"{request_id}-{run.calls}"
        self.transcript = self._transcript()
        # The gateway keeps the budget: the engine does not end the turn when it is used up.
        within_budget = isinstance(self._fit, FitForIds) and self._fit.budget is not None
        told_stops = step.chosen.worker.facts.stop_strings and not within_budget
        receiver: EventReceiver = without_finishes(run.answer) if not step.ends else run.answer
        if not step.shown:
            receiver = Unseen(run.answer)
        elif step.hosted:
            receiver = WithoutCalls(step.hosted, run.answer, receiver)
        receiver = Recording(self.transcript, receiver) if self.transcript is not None else receiver

        def on_first() -> None:
            now = clock.monotonic()
            self.first_seconds = now - self.began
            if run.trace.first is None:
                name = step.chosen.worker.name
                run.trace.report(FirstToken(step.prompted.request.id, name, now - run.trace.started, now))

        self.attempt: Attempt[Any] = Attempt(reader, receiver, on_first=on_first, tells_stops=told_stops)

    def _reader(self) -> OutputProcessor | ChatReader:
        if self.step.continues is not None:
            return self._continued(self.step.continues)
        if isinstance(self._fit, FitForChat):
            return ChatReader(self._fit.plan, self._answer.calls)
        return reader_for(self._fit, self._answer.calls, keep_ids=self.step.keep)

    def _continued(self, turn: Turn) -> OutputProcessor:
        """The reader of `turn`, for a call that continues it. This needs an engine that takes ids, and a turn of one choice that
        was kept; otherwise the error that the turn failed with is raised."""
        reader = turn.reader
        if not isinstance(reader, OutputProcessor) or not isinstance(self._fit, FitForIds):
            raise turn.error or InternalError("The gateway failed to go on with an answer.")
        reader.resume()
        return reader

    def _transcript(self) -> Transcript | None:
        if not self.step.keep:
            return None
        before = self.step.continues.transcript if self.step.continues is not None else None
        return Transcript() if before is None else before

    async def start(self, connect_timeout: float | None) -> Call | None:
        """Open the call. Returns None if no engine has to be asked, or if the attempt was ended meanwhile. Raises the error if
        the request could not be sent."""
        task = self._opening = asyncio.current_task()
        others = 0 if task is None else task.cancelling()
        self.attempt.on_end = self._give_up
        try:
            return await self._open(connect_timeout)
        except asyncio.CancelledError:
            if task is None or not self._gave_up or task.uncancel() > others:
                raise
            return None
        finally:
            self.attempt.on_end = self._opening = None

    def _give_up(self) -> None:
        """Called when the attempt is ended while its call is being opened. If the task itself ended it, it is about to return,
        so the cancellation waits for the next round of the event loop."""
        asyncio.get_running_loop().call_soon(self._cancel_opening)

    def _cancel_opening(self) -> None:
        if self._opening is not None:
            self._gave_up = True
            self._opening.cancel()

    async def _open(self, connect_timeout: float | None) -> Call | None:
        fit = self._fit
        if isinstance(fit, FitForChat):
            chat: ChatEngine = self.engine  # type: ignore[assignment]  # facts.door says which of the two it is
            return await chat.chat(replace(fit.request, id=self.id), self.attempt, connect_timeout=connect_timeout)
        if self.step.continues is not None and _tokens_left(fit.request, self.attempt.reader) == 0:
            # The first engine was lost after the last token that is allowed: there is nothing to ask another one for.
            self.attempt.push([EngineOutput(ids=(), finish="length")])
            return None
        engine: IdsEngine = self.engine  # type: ignore[assignment]
        request, prompted = self._request(fit), self.step.prompted
        if prompted.media is not None:
            request = replace(request, multimodal=await self._media(self.step.chosen))
        if self.pairing is not None and self.step.prefill is not None:
            media = None if prompted.media is None else await self._media(self.step.prefill)
            return await self.pairing.generate(
                request, self.attempt, prefill_media=media, connect_timeout=connect_timeout
            )
        return await engine.generate(request, self.attempt, connect_timeout=connect_timeout)

    def _request(self, fit: FitForIds) -> EngineRequest:
        step, request = self.step, fit.request
        changes: dict[str, object] = {}
        if self.id != request.id:
            changes["id"] = self.id
        if step.chosen.rank is not None:
            changes["data_parallel_rank"] = step.chosen.rank
        if step.continues is not None and step.continues.reader is not None:
            changes |= _remaining_request(request, step.continues.reader.kept_ids)
        return replace(request, **changes) if changes else request

    async def _media(self, chosen: Chosen) -> RequestMedia | None:
        prompted, facts = self.step.prompted, chosen.worker.facts
        service = prompted.model.media
        if service is None or prompted.media is None:
            return None
        if facts not in prompted.packed:
            prompted.packed[facts] = await service.pack(prompted.media.features, facts)
        inputs = prompted.packed[facts]
        shared = await service.share(inputs, facts)
        if shared is None:
            return inputs
        self._shared.append(shared)
        return shared.inputs

    def release_shared(self) -> None:
        """Free the shared memory of this call."""
        for shared in self._shared:
            shared.release()

    @property
    def failed(self) -> str | None:
        """Of two workers, the name of the one that failed; None where one does it all."""
        return None if self.pairing is None or self.attempt.error is None else self.pairing.failed

    def turn(self) -> Turn:
        """The result of the call, once it is over."""
        attempt, reader = self.attempt, self.attempt.reader
        resumable = isinstance(reader, OutputProcessor) and reader.resumable
        return Turn(
            finishes=tuple(reader.finishes),
            usage=attempt.usage(),
            calls=self._answer.calls,
            error=attempt.error,
            outputs=self.transcript.outputs() if self.transcript is not None else None,
            failed=self.failed,
            held=not self.step.ends,
            reader=reader if resumable else None,
            transcript=self.transcript,
            cut_short=isinstance(reader, OutputProcessor) and reader.cut_short,
        )


def _tokens_left(request: EngineRequest, reader: AnyReader) -> int | None:
    """How many tokens may follow those that `reader` has; None without a bound."""
    most = request.sampling.max_tokens
    return None if most is None else max(0, most - len(reader.kept_ids))


def _remaining_request(request: EngineRequest, ids: Sequence[int]) -> dict[str, object]:
    """The changed fields of a request that continues after `ids`: the longer prompt, and smaller bounds on tokens."""
    sampling, done = request.sampling, len(ids)
    changes: dict[str, object] = {}
    if sampling.max_tokens is not None:
        changes["max_tokens"] = sampling.max_tokens - done
    if sampling.min_tokens:
        changes["min_tokens"] = max(0, sampling.min_tokens - done)
    left = replace(sampling, **changes) if changes else sampling
    return {"input_ids": request.input_ids + type(request.input_ids)(ids), "sampling": left}
