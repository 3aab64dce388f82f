"""Runs a flow: hands each step to the performer of its kind, and the outcome back to the flow (edge).

A step that fails is thrown into the flow as its error. So is a cancellation that has a reason: when the client has left, or the
gateway shuts down, `Run.interrupted` names the error, and the flow may still ask for further steps (save, settle) before it
ends. A second cancellation ends the flow at once. When the time of the whole request is up (`Run.timeouts`), the engine call
under way is ended, so that its output so far still reaches the client; if there is none, the task is cancelled. Decides nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from smg_core.clock import CallLater, Clock, Handle, SystemClock
from smg_core.errors import ClientGone, DeadlineExceeded, SmgError
from smg_core.pipeline.answer.answer import Answer
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.steps import Finish, Flow, Step, Tell, Wait
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.workers.worker import ProbeCall

__all__ = ["Driver", "Performer", "Run", "loop_call_later"]

T = TypeVar("T")


def _uninterrupted() -> SmgError | None:
    return None


def loop_call_later(seconds: float, callback: Callable[[], None]) -> Handle:
    """The `CallLater` of the event loop that runs."""
    return asyncio.get_running_loop().call_later(seconds, callback)


class Run(Struct, eq=False):
    """One request under way, as performers see it. `trace` has what happened so far, `timeouts` how long each part may take.
    `interrupted` says why the task was cancelled, None when that is not known here: then CancelledError is raised on. `calls`
    counts the calls of engines, `tool_turns` the turns that were made with tools that run here. `given_up` is the outcome of a
    call of an engine that is cancelled: "abandoned", or "outrun" by another call for the same answer. `probes` are those of the
    workers that were chosen for it: what none has told of in the end is given back."""

    answer: Answer
    trace: Trace
    timeouts: Timeouts
    interrupted: Callable[[], SmgError | None] = _uninterrupted
    calls: int = 0
    tool_turns: int = 0
    given_up: Literal["abandoned", "outrun"] = "abandoned"
    probes: list[ProbeCall] = field(default_factory=list)


Performer = Callable[[Any, Run], Awaitable[Any]]
"""`await performer(step, run)` does what `step` asks and returns its outcome. Raises SmgError when that cannot be done."""


async def finish(step: Finish, run: Run) -> None:
    """The performer of `Finish`."""
    await run.answer.finish(step.turn.finishes if step.turn.held else ())


async def tell(step: Tell, run: Run) -> None:
    """The performer of `Tell`."""
    run.answer.tell(step.events)


async def wait(step: Wait, run: Run) -> None:
    """The performer of `Wait`."""
    await asyncio.sleep(step.seconds)


class _Deadline:
    """The deadline of one request. Made by the task that drives the request. `passed`: once the time is up, the error that is
    thrown into the flow."""

    __slots__ = ("_answer", "_handle", "_seconds", "_task", "passed")

    def __init__(self, seconds: float, left: float, answer: Answer, call_later: CallLater) -> None:
        self.passed: DeadlineExceeded | None = None
        self._seconds = seconds
        self._answer = answer
        self._task = asyncio.current_task()
        self._handle = call_later(max(left, 0.0), self._pass)

    def _pass(self) -> None:
        self.passed = DeadlineExceeded(f"The request was not complete within {self._seconds:g} seconds.")
        if not self._answer.expire(self.passed) and self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """The request is over, or ends for another reason."""
        self._handle.cancel()


class Driver:
    """One driver serves all requests; `performers` maps a kind of step to what performs it. `clock` and `call_later` are those
    of the machine unless a test hands in its own."""

    def __init__(
        self,
        performers: Mapping[type[Step[object]], Performer],
        *,
        clock: Clock | None = None,
        call_later: CallLater = loop_call_later,
    ) -> None:
        self._performers = dict(performers)
        self._clock = clock or SystemClock()
        self._call_later = call_later

    def learn(self, performers: Mapping[type[Step[Any]], Performer]) -> None:
        """Take in the performers of further kinds of steps."""
        self._performers.update(performers)

    async def drive(self, flow: Flow[T], run: Run) -> T:
        """Run `flow` to its end and return what it returns; raise what it raises. What waits for the client is written before
        each step, unless the flow was interrupted: then nobody may be there to read it, and the step must not depend on that."""
        interrupted, answer, deadline = False, run.answer, self._deadline(run)
        try:
            step = next(flow)
            while True:
                try:
                    if answer.unwritten and type(step) is not Finish and not interrupted:
                        await answer.flush()
                    outcome = await self._performers[type(step)](step, run)
                except SmgError as error:
                    step = flow.throw(error)
                except asyncio.CancelledError:
                    reason = None if interrupted else _reason(run, deadline)
                    if reason is None:
                        raise
                    interrupted = True
                    if deadline is not None:
                        deadline.stop()
                    _take_back_cancellation()
                    step = flow.throw(reason)
                else:
                    step = flow.send(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            if deadline is not None:
                deadline.stop()
            flow.close()
            for each in run.probes:
                each.give_back()

    def _deadline(self, run: Run) -> _Deadline | None:
        seconds = run.timeouts.request
        if seconds is None:
            return None
        left = run.trace.started + seconds - self._clock.monotonic()
        return _Deadline(seconds, left, run.answer, self._call_later)


def _reason(run: Run, deadline: _Deadline | None) -> SmgError | None:
    """Why the task was cancelled. Of several reasons the first counts: the client has left, the deadline, the shutdown."""
    reason = run.interrupted()
    if deadline is None or deadline.passed is None or isinstance(reason, ClientGone):
        return reason
    return deadline.passed


def _take_back_cancellation() -> None:
    """Undo the task's cancellation, since the task goes on; otherwise a time-out around it would believe it cancelled."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
