"""Runs a flow: hands each step to the performer of its kind, and the outcome back to the flow (edge).

A step that fails is thrown into the flow as its error. So is a cancellation that has a reason: when the client has left, or the
gateway shuts down, `Run.interrupted` names the error, and the flow may still ask for what must be done (save, settle) before it
ends. A second cancellation ends the flow for good. Decides nothing; knows no step.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import attrs

from smg_core.errors import SmgError
from smg_core.pipeline.answer import Answer
from smg_core.pipeline.steps import Finish, Flow, Step
from smg_core.pipeline.trace import Trace

__all__ = ["Driver", "Performer", "Run"]

T = TypeVar("T")


def _uninterrupted() -> SmgError | None:
    return None


@attrs.define(eq=False)
class Run:
    """One request under way, as performers see it. `trace` has what happened so far. `interrupted` says why the task was
    cancelled, None when it is not known here: then the cancellation goes its way. `calls` counts the calls of engines."""

    answer: Answer
    trace: Trace
    interrupted: Callable[[], SmgError | None] = _uninterrupted
    calls: int = 0


Performer = Callable[[Any, Run], Awaitable[Any]]
"""`await performer(step, run)` does what `step` asks and returns its outcome. Raises SmgError when that cannot be done."""


async def finish(step: Finish, run: Run) -> None:
    """The performer of `Finish`."""
    await run.answer.finish(step.turn.finishes if step.turn.held else ())


async def wait(step: Any, run: Run) -> None:
    """The performer of `Wait`."""
    await asyncio.sleep(step.seconds)


class Driver:
    """One driver serves all requests; `performers` maps a kind of step to what performs it."""

    def __init__(self, performers: Mapping[type[Step[Any]], Performer]) -> None:
        self._performers = dict(performers)

    async def drive(self, flow: Flow[T], run: Run) -> T:
        """Run `flow` to its end and return what it returns; raise what it raises. What waits for the client is written before
        each step, unless the flow was interrupted: then nobody may be there to read it, and the step must not depend on that."""
        interrupted, answer = False, run.answer
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
                    reason = None if interrupted else run.interrupted()
                    if reason is None:
                        raise
                    interrupted = True
                    _take_back_cancellation()
                    step = flow.throw(reason)
                else:
                    step = flow.send(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            flow.close()


def _take_back_cancellation() -> None:
    """The task goes on: it is not to be thought cancelled by the time-outs it waits in."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
