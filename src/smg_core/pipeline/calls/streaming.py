"""Performs `Stream`: makes one call of one engine, passes its output to the answer, and reports how the call ended (edge).

Owns what a call must give back however it ends: the worker's place on the load board, the tensors in shared memory, the engine's
stream. The outcome of every call is reported with its worker: success or error, before and after the first byte.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from smg_core.clock import CallLater, Clock
from smg_core.engines.base import Engine
from smg_core.errors import EngineStalled, InternalError, SmgError, WorkerGone
from smg_core.hooks import AttemptEnded, FormatViolation
from smg_core.pipeline.answer.attempt import AnyAttempt
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.calls.chat_calls import ChatCalls
from smg_core.pipeline.calls.engine_call import EngineCall
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.calls.silence import Watch
from smg_core.pipeline.calls.worker_loss import KnowsWorkers, Move, Moving, Taken
from smg_core.pipeline.flow.driver import Run, loop_call_later
from smg_core.pipeline.flow.steps import Chosen, Stream
from smg_core.pipeline.pairs.pairing import OnHandover, Pairs, says_something, untold
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.workers.worker import Worker, WorkerPlace

if TYPE_CHECKING:
    from smg_core.workers.rates import WorkerRate

__all__ = ["OnOutcome", "Streaming"]


_REASON_OF = attrgetter("reason")


class OnOutcome(Protocol):
    """Called after each engine call, with the outcome (`gateway.assembly` passes it to the health of workers)."""

    def __call__(self, chosen: Chosen, error: SmgError | None, seconds: float, counts: bool, /) -> None:
        """`chosen` is whose call it was. `error` is None if the call ended well, and if the client gave it up, by leaving or by
        its own time-outs. `counts` False: it says nothing of the worker, since it was given up for another one, or before
        anything came of it."""
        ...


class ChargesRates(KnowsWorkers, Protocol):
    """Who also charges calls to what the entries of workers allow in a minute; `Selecting` does."""

    def begin_rate(self, prompted: Prompted, worker: Worker) -> "WorkerRate | None":
        """Charge a call that begins; None where the entry of its worker says nothing of that."""
        ...


class Streaming:
    """The performer of `Stream`. Time-outs of connecting and of silence are those of the request (`Run.timeouts`). `pairs` calls
    two engines for one request; `selecting` knows the workers that could take them; `call_later` is the event loop's unless
    a test passes its own. Long requests for engines that take them as they are are written in the threads of `executor`.
    `on_handover` is told of calls that have failed for want of a cache."""

    def __init__(
        self,
        *,
        clock: Clock,
        on_outcome: OnOutcome,
        selecting: ChargesRates,
        call_later: CallLater = loop_call_later,
        pairs: Pairs | None = None,
        executor: FairExecutor | None = None,
        on_handover: OnHandover = untold,
    ) -> None:
        self._clock = clock
        self._chat = ChatCalls(executor)
        self._pairs = pairs or Pairs(clock=clock, on_outcome=on_outcome, call_later=call_later)
        self._on_outcome = on_outcome
        self._on_handover = on_handover
        self._call_later = call_later
        self._moving, self._selecting = Moving(selecting), selecting
        self._running: dict[str, set[Move]] = {}
        self._aborts: set[asyncio.Task[None]] = set()

    def __call__(self, step: Stream, run: Run) -> Awaitable[Turn]:
        alone = step.prefill is None and not step.encoders
        return self._called(step, run) if alone and step.chosen.probe is None else self._probed(step, run)

    async def _probed(self, step: Stream, run: Run) -> Turn:
        try:
            return await self._called(step, run)
        finally:
            for each in step.parts:  # what was chosen and not asked
                each.give_back()

    async def _called(self, step: Stream, run: Run) -> Turn:
        call = EngineCall(step, run, self._clock.monotonic, self._chat)
        if step.prefill is not None:
            call.pairing = self._pairs.of(step, step.prefill, run, call.attempt, self._tell)
        worker, attempt = step.chosen.worker, call.attempt
        run.answer.begin(attempt)
        place = call.place = WorkerPlace(worker, step.chosen.reads)
        rated = worker.spec.requests_a_minute or worker.spec.tokens_a_minute
        rate = self._selecting.begin_rate(step.prompted, worker) if rated else None
        waits_for = _workers_of(step) if step.prefill is not None or step.encoders else {worker.name: worker}
        move = Move(step, attempt, run.answer, call.needs)
        for name in waits_for:
            self._running.setdefault(name, set()).add(move)
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
            self._forget(move, waits_for)
            place.leave()
            if rate is not None:
                rate.end(attempt.usage(), begun=attempt.pushes > 0)
            if call.shared:
                call.release_shared()
            if (attempt.release() or call.cut) and call.pairing is None:  # two legs are told by what holds them
                for request_id in call.ids:
                    self._tell(call.engine, request_id)
            if call.pairing is not None:
                call.pairing.close()
            self._report(call, attempt, run)
        turn = call.turn()
        if turn.error is not None and self._lost(turn, attempt, waits_for, call.began):
            turn = replace(turn, lost=True)
        if step.hosted and turn.error is None and not turn.cut_short:
            run.tool_turns += 1
        return turn

    def _lost(self, turn: Turn, attempt: AnyAttempt, workers: Mapping[str, Worker], began: float) -> bool:
        """Whether a call that failed was lost with all the calls that its worker had."""
        if attempt.blames:  # it was ended with all the others
            return True
        failed = turn.failed or next(iter(workers))
        return self._moving.lost_with(workers[failed], turn.error, began, self._clock.monotonic())

    def _forget(self, move: Move, names: Iterable[str]) -> None:
        for name in names:
            running = self._running.get(name, set())
            running.discard(move)
            if not running:
                self._running.pop(name, None)

    def move_waiting(self, worker: Worker, silence: float) -> None:
        """Called each time that a worker does not answer a probe: ends its calls that have no output yet, so that they are tried
        elsewhere, and those that can go on elsewhere if nothing comes of them for `silence` seconds more. Calls that no other
        worker can take now are left running."""
        begun: list[tuple[Move, int]] = []
        taken = Taken()
        for move in list(self._running.get(worker.name, ())):
            if move.attempt.pushes:
                begun += [(move, move.attempt.pushes)] if move.resumable else []
            elif self._moving.may(move, worker, taken):
                move.attempt.end(_stalled(worker), worker.name)
        if begun:
            self._call_later(silence, lambda: self._move_silent(worker, begun))

    def _move_silent(self, worker: Worker, begun: Sequence[tuple[Move, int]]) -> None:
        if not worker.failing:
            return
        taken = Taken()
        for move, pushes in begun:
            attempt = move.attempt
            if attempt.over or attempt.pushes != pushes or attempt.paused:
                continue
            if self._moving.may(move, worker, taken):
                attempt.end(_stalled(worker), worker.name)

    def move_all(self, worker: Worker) -> None:
        """Called when a worker is to be left: ends those of its calls that can go on elsewhere, so that they do."""
        taken = Taken()
        detail = f"{worker.name} is {worker.reason}"
        for move in list(self._running.get(worker.name, ())):
            movable = not move.attempt.pushes or move.resumable
            if movable and self._moving.may(move, worker, taken):
                move.attempt.end(WorkerGone("The engine is not available.", detail=detail), worker.name)

    def _tell(self, engine: Engine, request_id: str) -> None:
        """Send an Abort with the request's id: a server that waits for its engine may not notice that the stream was reset."""
        task = asyncio.ensure_future(engine.abort(request_id))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    def _report(self, call: EngineCall, attempt: AnyAttempt, run: Run) -> None:
        step, now = call.step, self._clock.monotonic()
        worker, seconds = step.chosen.worker, now - call.began
        detail = outside_text = ""
        outcome: str = "ok" if attempt.state == "complete" else run.given_up
        # that of the prefill worker is told already
        error = attempt.error if call.pairing is None or call.failed in (None, worker.name) else None
        if error is not None:
            outcome, detail, outside_text = type(error).__name__, error.detail or error.message, error.outside_text
        fault = None if error is None or run.timeouts.impatient(error) else error
        answered = attempt.state == "complete" or attempt.pushes > 0 or says_something(fault)
        if isinstance(attempt.error, InternalError):  # a fault on this side: neither for nor against the worker
            answered = False
        doubtful = step.prefill is not None and call.handed_nothing  # whose fault it was is not known yet
        self._on_outcome(step.chosen, fault, seconds, answered and outcome != "outrun" and not doubtful)
        if doubtful and step.prefill is not None and fault is not None:
            self._on_handover(step.prefill, step.chosen, fault, call.began)
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
                finish=tuple(map(_REASON_OF, finishes)),
                first_seconds=call.first_seconds,
                seconds=seconds,
                at=now,
                detail=detail,
                outside_text=outside_text,
                client_id=run.trace.client_id,
                trace_id=run.trace.trace_id,
                role=step.chosen.role,
                model=step.prompted.model.primary or step.prompted.request.model,
                transport=worker.facts.transport,
                dialect=worker.facts.dialect,
                span_id=call.outgoing.span_id,
            )
        )


def _workers_of(step: Stream) -> dict[str, Worker]:
    """The workers without which a call of several cannot go on, by name; the one that answers is the first."""
    return {each.worker.name: each.worker for each in step.parts}


def _stalled(worker: Worker) -> EngineStalled:
    return EngineStalled("The engine did not answer in time.", detail=f"{worker.name} is {worker.reason}")
