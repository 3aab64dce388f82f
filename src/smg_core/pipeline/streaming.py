"""Performs `Stream`: makes one call of one engine, passes its output to the answer, and reports how the call ended (edge).

Owns what a call must give back however it ends: the worker's place on the load board, the tensors in shared memory, the engine's
stream. The outcome of every call is reported with its worker: success or error, before and after the first byte.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from smg_core.clock import CallLater, Clock
from smg_core.engines.base import Engine
from smg_core.errors import EngineStalled, SmgError, WorkerGone
from smg_core.hooks import AttemptEnded, FormatViolation
from smg_core.pipeline.attempt import AnyAttempt
from smg_core.pipeline.chat_calls import ChatCalls
from smg_core.pipeline.driver import Run, loop_call_later
from smg_core.pipeline.engine_call import EngineCall
from smg_core.pipeline.executor import FairExecutor
from smg_core.pipeline.output import OutputProcessor
from smg_core.pipeline.pairing import Pairs
from smg_core.pipeline.patience import Watch
from smg_core.pipeline.steps import Chosen, Stream
from smg_core.pipeline.turn import Turn
from smg_core.workers.worker import PrefillLoad, Worker, WorkerPlace

__all__ = ["OnOutcome", "Streaming"]


class OnOutcome(Protocol):
    """Called after each engine call, with the outcome (`server.runtime` passes it to the health of workers)."""

    def __call__(self, chosen: Chosen, error: SmgError | None, seconds: float, counts: bool, /) -> None:
        """`chosen` is whose call it was. `error` is None if the call ended well, and if the client gave it up, by leaving or by
        its own time-outs. `counts` False: it was given up for another one, which says nothing of the worker."""
        ...


class Streaming:
    """The performer of `Stream`. Time-outs of connecting and of silence are those of the request (`Run.timeouts`). `pairs` calls
    two engines for one request; `call_later` is the event loop's unless a test passes its own. Long requests for engines that
    take them as they are are written in the threads of `executor`."""

    def __init__(
        self,
        *,
        clock: Clock,
        on_outcome: OnOutcome,
        call_later: CallLater = loop_call_later,
        pairs: Pairs | None = None,
        executor: FairExecutor | None = None,
    ) -> None:
        self._clock = clock
        self._chat = ChatCalls(executor)
        self._pairs = pairs or Pairs(clock=clock, on_outcome=on_outcome, call_later=call_later)
        self._on_outcome = on_outcome
        self._call_later = call_later
        self._running: dict[str, set[AnyAttempt]] = {}
        self._aborts: set[asyncio.Task[None]] = set()

    async def __call__(self, step: Stream, run: Run) -> Turn:
        call = EngineCall(step, run, self._clock.monotonic, self._chat)
        if step.prefill is not None:
            call.pairing = self._pairs.of(step, step.prefill, run, call.attempt, self._tell)
        worker, attempt = step.chosen.worker, call.attempt
        run.answer.begin(attempt)
        place = WorkerPlace(worker)
        waiting = PrefillLoad(worker, step.chosen.reads)
        call.on_output = waiting.over
        waits_for = [worker.name] if step.prefill is None else [worker.name, step.prefill.worker.name]
        for name in waits_for:
            self._running.setdefault(name, set()).add(attempt)
        watch = Watch(attempt, run.timeouts, self._call_later)
        carrying = False
        try:
            attempt.reads_from(await call.start(run.timeouts.connect))
            carrying = True
            await run.answer.carry(attempt)
        except SmgError as error:
            attempt.end(error)
            if carrying:  # the answer was refused, also where the engine has come to a good end meanwhile
                raise
        finally:
            watch.stop()
            self._forget(attempt, waits_for)
            place.leave()
            waiting.over()
            call.release_shared()
            if (attempt.release() or call.cut) and call.pairing is None:  # two legs are told by what holds them
                for request_id in call.ids:
                    self._tell(call.engine, request_id)
            if call.pairing is not None:
                call.pairing.close()
            self._report(call, attempt, run)
        turn = call.turn()
        if step.hosted and turn.error is None and not turn.cut_short:
            run.tool_turns += 1
        return turn

    def _forget(self, attempt: AnyAttempt, names: Sequence[str]) -> None:
        for name in names:
            running = self._running.get(name, set())
            running.discard(attempt)
            if not running:
                self._running.pop(name, None)

    def move_waiting(self, worker: Worker, silence: float) -> None:
        """Called when a worker no longer answers probes: ends its calls that have no output yet, so that they are tried
        elsewhere, and those that can go on elsewhere if nothing comes of them for `silence` seconds more."""
        begun: list[tuple[AnyAttempt, int]] = []
        for attempt in list(self._running.get(worker.name, ())):
            if not attempt.pushes:
                attempt.end(_stalled(worker), worker.name)
            elif isinstance(attempt.reader, OutputProcessor) and attempt.reader.resumable:
                begun.append((attempt, attempt.pushes))
        if begun:
            self._call_later(silence, lambda: self._move_silent(worker, begun))

    def _move_silent(self, worker: Worker, begun: Sequence[tuple[AnyAttempt, int]]) -> None:
        if worker.state != "ready":
            for attempt, pushes in begun:
                if attempt.pushes == pushes and not attempt.paused:
                    attempt.end(_stalled(worker), worker.name)

    def move_all(self, worker: Worker) -> None:
        """Called when a worker is to be left: ends those of its calls that can go on elsewhere, so that they do."""
        for attempt in list(self._running.get(worker.name, ())):
            if not attempt.pushes or (isinstance(attempt.reader, OutputProcessor) and attempt.reader.resumable):
                attempt.end(
                    WorkerGone("The engine is not available.", detail=f"{worker.name} is {worker.reason}"), worker.name
                )

    def _tell(self, engine: Engine, request_id: str) -> None:
        """Send an Abort with the request's id: a server that waits for its engine may not notice that the stream was reset."""
        task = asyncio.ensure_future(engine.abort(request_id))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    def _report(self, call: EngineCall, attempt: AnyAttempt, run: Run) -> None:
        step, now = call.step, self._clock.monotonic()
        worker, seconds = step.chosen.worker, now - call.began
        detail = said = ""
        outcome: str = "ok" if attempt.state == "complete" else run.given_up
        error = attempt.error if call.failed in (None, worker.name) else None  # the prefill worker's is told already
        if error is not None:
            outcome, detail, said = type(error).__name__, error.detail or error.message, error.said
        self._on_outcome(step.chosen, None if run.timeouts.impatient(error) else error, seconds, outcome != "outrun")
        finishes = attempt.reader.finishes[call.finishes_before :]
        for each in finishes:
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
                completion_tokens=attempt.usage().completion_tokens - call.tokens_before,
                finish=tuple(each.reason for each in finishes),
                first_seconds=call.first_seconds,
                seconds=seconds,
                at=now,
                detail=detail,
                said=said,
                client_id=run.trace.client_id,
                trace_id=run.trace.trace_id,
                role=step.chosen.role,
                model=step.prompted.model.primary or step.prompted.request.model,
                transport=worker.facts.transport,
                dialect=worker.facts.dialect,
                span_id=call.outgoing.span_id,
            )
        )


def _stalled(worker: Worker) -> EngineStalled:
    return EngineStalled("The engine did not answer in time.", detail=f"{worker.name} is {worker.reason}")
