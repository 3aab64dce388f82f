"""Which workers can meet what a request asks of its times, what is done where none can, and what was learned from the answer.

Pure: the time is an argument. Above: the choice of a worker (`pipeline.calls.selecting`), the queues. Below: `learning`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Literal, Protocol, TypeVar

import attrs

from smg_core.errors import InvalidRequest, Overloaded
from smg_core.hooks import AttemptEnded, FirstToken, Moment, Observer
from smg_core.limit_moments import ObjectiveKept, TimePredicted
from smg_core.objectives.learning import Latencies, WorkerState

__all__ = ["Objective", "Objectives", "TimedCall", "objective_of"]

FIRST, EACH = "x-slo-ttft-ms", "x-slo-tpot-ms"
"""The headers by which a request says within how many milliseconds its first token, and each further one, must come."""
_MOST_MS = 10**9
_NEAR = 2.0
"""Where no worker can meet an objective, those that miss it by up to so many times as much as the best are left to the policy:
who is late anyway must not take the quickest from those that are not."""

OnMissed = Literal["off", "late", "shed", "say"]


class _Rank(Protocol):
    @property
    def max_running(self) -> int: ...


class PredictedWorker(Protocol):
    """A worker, as far as it is predicted."""

    @property
    def name(self) -> str: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def others(self) -> int: ...

    @property
    def prefill_tokens(self) -> int: ...

    @property
    def ranks(self) -> "Iterable[_Rank]": ...


W = TypeVar("W", bound=PredictedWorker)


@attrs.frozen
class Objective:
    """What a request asks of its times, in seconds; endless where it says nothing."""

    first_s: float = inf
    each_s: float = inf


def objective_of(headers: Mapping[str, str]) -> Objective | None:
    """What a request's headers ask; None where they ask nothing. Raises InvalidRequest for what is no time."""
    if FIRST not in headers and EACH not in headers:
        return None
    return Objective(_seconds(headers, FIRST), _seconds(headers, EACH))


def _seconds(headers: Mapping[str, str], name: str) -> float:
    text = headers.get(name)
    if text is None:
        return inf
    whole, _, part = text.strip().partition(".")
    digits = whole + part
    if digits.isascii() and digits.isdecimal() and len(digits) <= 16 and whole and 0 < float(text) <= _MOST_MS:
        return float(text) / 1000
    raise InvalidRequest(f"The header {name} takes a number of milliseconds above 0.", param=name)


class TimedCall:
    """A call that was sent to a worker, of which is learned when its tokens come. `objective_words` is what its client is told of
    it."""

    __slots__ = ("_at", "_latencies", "_model", "_objectives", "_state", "_worker", "objective", "objective_words")

    def __init__(
        self,
        objectives: "Objectives",
        latencies: Latencies,
        model: str,
        worker: str,
        state: WorkerState,
        at: float,
        objective: Objective | None,
        cache_source: str,
    ) -> None:
        self._objectives, self._latencies, self._model = objectives, latencies, model
        self._worker, self._state, self._at = worker, state, at
        self.objective, self.objective_words = objective, cache_source

    def note(self, moment: Moment) -> None:
        """Learn from a moment of the request."""
        if isinstance(moment, FirstToken):
            if moment.worker == self._worker:
                self._came(moment)
        elif isinstance(moment, AttemptEnded) and moment.worker == self._worker and moment.outcome == "ok":
            self._ended(moment)

    def _came(self, moment: FirstToken) -> None:
        seconds, latencies = moment.at - self._at, self._latencies
        if latencies.known:
            self._objectives.predicted(self._model, "first", latencies.first(self._worker, self._state)[0], seconds)
        latencies.came(self._worker, self._state, seconds)
        if self.objective is not None and self.objective.first_s < inf:
            self._objectives.kept(self._model, "first", met=moment.seconds <= self.objective.first_s)

    def _ended(self, moment: AttemptEnded) -> None:
        further = moment.completion_tokens - 1
        if moment.first_seconds is None or further < 1:
            return
        seconds, latencies = (moment.seconds - moment.first_seconds) / further, self._latencies
        if latencies.known:
            self._objectives.predicted(self._model, "each", latencies.following(self._worker, self._state)[0], seconds)
        latencies.went_on(self._worker, self._state, seconds)
        if self.objective is not None and self.objective.each_s < inf:
            self._objectives.kept(self._model, "each", met=seconds <= self.objective.each_s)


class Objectives:
    """The objectives of a gateway's requests. `on_missed` says what is done where no worker can meet one; `observer` is told how
    good the predictions were. `most` models are remembered."""

    def __init__(self, observer: Observer, retry_after: Callable[[], float], most: int = 1024) -> None:
        self.on_missed: OnMissed = "late"
        self._observer, self._retry_after, self._most = observer, retry_after, most
        self._models: OrderedDict[str, Latencies] = OrderedDict()

    def meeting(
        self,
        headers: Mapping[str, str],
        model: str,
        workers: tuple[W, ...],
        tokens: int,
        cached: Callable[[], Sequence[int]],
        passed: float,
    ) -> tuple[tuple[W, ...], str]:
        """The workers that can meet the objective in a request's headers, of which so many seconds have passed; where none can,
        those that miss it least. And what the client is told. `cached` says how many of the prompt's `tokens` each worker is
        expected to have. Raises Overloaded where such a request is shed, and InvalidRequest for what is no objective."""
        objective, latencies = objective_of(headers), self._of(model)
        if objective is None or not latencies.known:
            return workers, ""
        missed = [
            _missed(objective, latencies, worker, state_of(worker, max(0, tokens - gain)), passed)
            for worker, gain in zip(workers, cached(), strict=True)
        ]
        least = min(missed)
        if least <= 1.0:
            return tuple([worker for worker, miss in zip(workers, missed, strict=True) if miss <= 1.0]), "met"
        if self.on_missed == "shed":
            raise Overloaded("No worker can meet the objectives of this request now.", retry_after=self._retry_after())
        near = least * _NEAR
        return tuple([worker for worker, miss in zip(workers, missed, strict=True) if miss <= near]), "late"

    def sent(
        self, headers: Mapping[str, str], model: str, worker: PredictedWorker, reads: int, at: float, cache_source: str
    ) -> TimedCall:
        """A request goes to a worker, which has to read so many tokens."""
        shown, objective = cache_source if self.on_missed == "say" else "", objective_of(headers)
        return TimedCall(self, self._of(model), model, worker.name, state_of(worker, reads), at, objective, shown)

    def due(
        self, headers: Mapping[str, str], model: str, workers: Iterable[PredictedWorker], prompt: int, now: float
    ) -> float:
        """Until when a request that comes now has to go to a worker, so that its first token comes in time; endless where that
        is not known. Raises InvalidRequest for what is no objective."""
        objective, latencies = objective_of(headers), self._of(model)
        if objective is None or objective.first_s == inf or not latencies.known:
            return inf
        times = [latencies.first(each.name, state_of(each, prompt)) for each in workers]
        quickest = min([seconds + error for seconds, error in times], default=0.0)
        return now + max(0.0, objective.first_s - quickest)

    def predicted(self, model: str, kind: str, expected: float, seconds: float) -> None:
        """Tell how good a prediction was."""
        self._observer.report(TimePredicted(model, kind, expected, seconds))

    def kept(self, model: str, kind: str, *, met: bool) -> None:
        """Tell whether an objective was met."""
        self._observer.report(ObjectiveKept(model, kind, "met" if met else "missed"))

    def _of(self, model: str) -> Latencies:
        found = self._models.get(model)
        if found is None:
            found = self._models[model] = Latencies()
            while len(self._models) > self._most:
                self._models.popitem(last=False)
        return found


def state_of(worker: PredictedWorker, reads: int) -> WorkerState:
    """What is known of a worker that is to read so many tokens of a prompt."""
    running = worker.in_flight + worker.others
    slots = [rank.max_running for rank in worker.ranks]
    over = max(0, running + 1 - sum(slots)) if slots and all(slots) else 0
    return WorkerState(worker.prefill_tokens, reads, running, over)


def _missed(
    objective: Objective, latencies: Latencies, worker: PredictedWorker, state: WorkerState, passed: float
) -> float:
    """How much of an objective a worker would take, of 1; both times with how far off they were of late."""
    found = 0.0
    if objective.first_s < inf:
        seconds, error = latencies.first(worker.name, state)
        left = objective.first_s - passed
        found = (seconds + error) / left if left > 0 else inf
    if objective.each_s < inf:
        seconds, error = latencies.following(worker.name, state)
        found = max(found, (seconds + error) / objective.each_s)
    return found
