"""The calls of a lost worker that are ended, so that they go on elsewhere.

A call is ended only where something may follow it: a try is left, and another worker could be chosen now and has room. Any other
is left running, since its engine may only be late: it is looked at again with each further health check that fails. What
`streaming` and `pooling` keep of their calls is theirs. Pure. Above: streaming. Below: selecting, tries.
"""

from collections.abc import Callable
from typing import Protocol

from smg_core.errors import SmgError, WorkerGone
from smg_core.pipeline.answer.attempt import AnyAttempt
from smg_core.pipeline.fit.fit import FitForIds, fitted, request_for
from smg_core.pipeline.flow.steps import Commitment, Select, Stream
from smg_core.pipeline.flow.tries import may_differ
from smg_core.pipeline.output.continuing import inexact
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.workers.worker import Worker

__all__ = ["Move", "Moving", "Taken"]


class Taken:
    """The room that the calls take which are moved together, by model: they are counted nowhere else before they are placed."""

    def __init__(self) -> None:
        self._models: dict[str, tuple[int, int]] = {}

    def of(self, model: str) -> tuple[int, int]:
        """How many requests, with how many tokens of prompts."""
        return self._models.get(model, (0, 0))

    def add(self, model: str, tokens: int) -> None:
        requests, before = self.of(model)
        self._models[model] = requests + 1, before + tokens


class Move:
    """One call that may have to be moved: `attempt` of `step`, a part of `answer`. `needs` says whether it cannot go on without
    the worker of a name, of those that it was made with."""

    __slots__ = ("answer", "attempt", "needs", "step")

    def __init__(
        self, step: Stream, attempt: AnyAttempt, answer: Commitment, needs: Callable[[str], bool] = lambda _: True
    ) -> None:
        self.step, self.attempt, self.answer, self.needs = step, attempt, answer, needs

    @property
    def resumable(self) -> bool:
        """Whether what has come of it could go on elsewhere."""
        return isinstance(self.attempt.reader, OutputProcessor) and self.attempt.reader.resumable

    @property
    def seen(self) -> int:
        """The tokens of the turn that have come, of which the client may have seen something."""
        reader = self.attempt.reader
        return reader.tokens_received if isinstance(reader, OutputProcessor) and self.answer.committed else 0


class KnowsWorkers(Protocol):
    """Who knows which workers could be chosen; `Selecting` does."""

    def room(self, step: Select) -> tuple[float, float]:
        """How many requests, and tokens, the workers take together of which one could be chosen for `step` now."""
        ...

    def lost_with(self, worker: Worker, began: float, now: float) -> bool:
        """Whether a call that began at `began` and has lost its worker at `now` was lost with all the calls of the worker."""
        ...


class Moving:
    """Decides for the calls of one gateway. `selecting` knows who could be chosen."""

    def __init__(self, selecting: KnowsWorkers) -> None:
        self._selecting = selecting

    def may(self, move: Move, lost: Worker, taken: Taken) -> bool:
        """Whether a call is to be ended since `lost` was lost. It then has its room, beside those that are in `taken` already."""
        step, after = move.step, move.step.after
        left = after.migrations if move.attempt.pushes else after.retries
        if not left or not move.needs(lost.name) or not self._may_differ(move):
            return False
        select = Select(step.prompted, after.exclude | {lost.name}, received=move.seen or None, suspects=after.suspects)
        (most_requests, most_tokens), model = self._selecting.room(select), step.prompted.request.model
        requests, tokens = taken.of(model)
        if requests >= most_requests or tokens >= most_tokens:
            return False
        taken.add(model, step.prompted.ids.size)
        return True

    def lost_with(self, worker: Worker, error: SmgError | None, began: float, now: float) -> bool:
        """Whether a call that began at `began` and failed with `error` at `now` was lost with all the calls that `worker` had.
        Times are monotonic seconds."""
        return isinstance(error, WorkerGone) and self._selecting.lost_with(worker, began, now)

    def _may_differ(self, move: Move) -> bool:
        """Whether what the client has seen of an answer may go on, also where the rest could be another one."""
        if not move.seen:
            return True
        facts, reader = move.step.chosen.worker.facts, move.attempt.reader
        fit = fitted(move.step.prompted, facts)
        reasons = inexact(request_for(fit, reader), facts, reader) if isinstance(fit, FitForIds) else ()
        return may_differ(reasons, move.step.after.settings)
