"""The workers that can meet a request's objectives, the steps without any, and learning from answers.

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
    def role(self) -> str: ...

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

    def of_role(self, role: str) -> "Objective":
        """What of it a worker in this role decides: of two that share a request, the first token is up to the one that reads the
        prompt, the others to the one that answers."""
        if role == "prefill":
            return Objective(first_s=self.first_s)
        return Objective(each_s=self.each_s) if role == "decode" else self


_NONE = Objective()


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


@attrs.frozen
class _Part:
    """A worker of a call, and what was known of it when the call was sent."""

    worker: str
    state: WorkerState


class TimedCall:
    """A call that was sent to a worker, of which is learned when its tokens come: of the `reader` until the first, then of the
    `answerer`, which may be the same. `objective_words` is what its client is told of it."""

    __slots__ = ("_answerer", "_at", "_latencies", "_model", "_objectives", "_reader", "objective", "objective_words")

    def __init__(
        self,
        objectives: "Objectives",
        latencies: Latencies,
        model: str,
        reader: _Part,
        answerer: _Part,
        at: float,
        objective: Objective | None,
        cache_source: str,
    ) -> None:
        self._objectives, self._latencies, self._model = objectives, latencies, model
        self._reader, self._answerer, self._at = reader, answerer, at
        self.objective, self.objective_words = objective, cache_source

    def note(self, moment: Moment) -> None:
        """Learn from a moment of the request."""
        answers = self._answerer.worker
        if isinstance(moment, FirstToken):
            if moment.worker == answers:
                self._came(moment)
        elif isinstance(moment, AttemptEnded) and moment.worker == answers and moment.outcome == "ok":
            self._ended(moment)

    def _came(self, moment: FirstToken) -> None:
        seconds, latencies, part = moment.at - self._at, self._latencies, self._reader
        if latencies.known:
            self._objectives.predicted(self._model, "first", latencies.first(part.worker, part.state)[0], seconds)
        latencies.came(part.worker, part.state, seconds)
        if self.objective is not None and self.objective.first_s < inf:
            self._objectives.kept(self._model, "first", met=moment.seconds <= self.objective.first_s)

    def _ended(self, moment: AttemptEnded) -> None:
        further = moment.completion_tokens - 1
        if moment.first_seconds is None or further < 1:
            return
        seconds, latencies, part = (moment.seconds - moment.first_seconds) / further, self._latencies, self._answerer
        if latencies.known:
            self._objectives.predicted(self._model, "each", latencies.following(part.worker, part.state)[0], seconds)
        latencies.went_on(part.worker, part.state, seconds)
        if self.objective is not None and self.objective.each_s < inf:
            self._objectives.kept(self._model, "each", met=seconds <= self.objective.each_s)


class Objectives:
    """The objectives of a gateway's requests. `on_missed` says what is done where no worker can meet one; `observer` is told how
    good the predictions were. `most` models are remembered."""

    def __init__(self, observer: Observer, retry_after: Callable[[], float], most: int = 1024) -> None:
        self.on_missed: OnMissed = "late"
        self._observer, self._retry_after, self._most = observer, retry_after, most
        self._models: OrderedDict[tuple[str, bool], Latencies] = OrderedDict()

    def meeting(
        self,
        headers: Mapping[str, str],
        model: str,
        workers: tuple[W, ...],
        tokens: int,
        cached: Callable[[], Sequence[int]],
        passed: float,
        role: str = "regular",
    ) -> tuple[W, ...]:
        """The workers that can meet the objective in a request's headers, of which so many seconds have passed, as far as it is
        up to a worker in this role; where none can, those that miss it least. `cached` says how many of the prompt's `tokens`
        each worker is expected to have. Raises Overloaded where such a request is shed, and InvalidRequest for what is no
        objective."""
        objective, latencies = objective_of(headers), self._of(model, role)
        if objective is None or not latencies.known:
            return workers
        own = objective.of_role(role)
        if own == _NONE:
            return workers
        missed = [
            _missed(own, latencies, worker, state_of(worker, max(0, tokens - gain)), passed)
            for worker, gain in zip(workers, cached(), strict=True)
        ]
        least = min(missed)
        if least <= 1.0:
            return tuple([worker for worker, miss in zip(workers, missed, strict=True) if miss <= 1.0])
        if self.on_missed == "shed":
            raise Overloaded("No worker can meet the objectives of this request now.", retry_after=self._retry_after())
        near = least * _NEAR
        return tuple([worker for worker, miss in zip(workers, missed, strict=True) if miss <= near])

    def sent(
        self,
        headers: Mapping[str, str],
        model: str,
        worker: PredictedWorker,
        reads: int,
        at: float,
        passed: float = 0.0,
        reader: PredictedWorker | None = None,
    ) -> TimedCall:
        """A request, of which so many seconds have passed, goes to a worker that answers, and that reads so many tokens of its
        prompt, unless another one, `reader`, does that for it."""
        objective, latencies = objective_of(headers), self._of(model, "regular" if reader is None else "prefill")
        answers = _Part(worker.name, state_of(worker, reads if reader is None else 0))
        reading = answers if reader is None else _Part(reader.name, state_of(reader, reads))
        cache_source = ""
        if self.on_missed == "say" and objective is not None and latencies.known:
            missed = _missed_first(objective, latencies, reading.worker, reading.state, passed)
            missed = max(missed, _missed_each(objective, latencies, answers.worker, answers.state))
            cache_source = "met" if missed <= 1.0 else "late"
        return TimedCall(self, latencies, model, reading, answers, at, objective, cache_source)

    def due(
        self, headers: Mapping[str, str], model: str, workers: Iterable[PredictedWorker], prompt: int, now: float
    ) -> float:
        """Until when a request that comes now has to go to one of these workers, which read prompts, so that its first token
        comes in time; endless where that is not known. Raises InvalidRequest for what is no objective."""
        objective = objective_of(headers)
        if objective is None or objective.first_s == inf:
            return inf
        times = []
        for each in workers:
            latencies = self._of(model, each.role)
            if not latencies.known:
                return inf
            times.append(latencies.first(each.name, state_of(each, prompt)))
        quickest = min([seconds + error for seconds, error in times], default=0.0)
        return now + max(0.0, objective.first_s - quickest)

    def predicted(self, model: str, kind: str, expected: float, seconds: float) -> None:
        """Tell how good a prediction was."""
        self._observer.report(TimePredicted(model, kind, expected, seconds))

    def kept(self, model: str, kind: str, *, met: bool) -> None:
        """Tell whether an objective was met."""
        self._observer.report(ObjectiveKept(model, kind, "met" if met else "missed"))

    def _of(self, model: str, role: str) -> Latencies:
        """What is known of a model's workers: of those that share requests apart from the others."""
        key = model, role != "regular"
        found = self._models.get(key)
        if found is None:
            found = self._models[key] = Latencies()
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
    first = _missed_first(objective, latencies, worker.name, state, passed)
    return max(first, _missed_each(objective, latencies, worker.name, state))


def _missed_first(objective: Objective, latencies: Latencies, worker: str, state: WorkerState, passed: float) -> float:
    if objective.first_s == inf:
        return 0.0
    seconds, error = latencies.first(worker, state)
    left = objective.first_s - passed
    return (seconds + error) / left if left > 0 else inf


def _missed_each(objective: Objective, latencies: Latencies, worker: str, state: WorkerState) -> float:
    if objective.each_s == inf:
        return 0.0
    seconds, error = latencies.following(worker, state)
    return (seconds + error) / objective.each_s
