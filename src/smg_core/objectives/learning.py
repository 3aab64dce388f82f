"""A worker's times to its first token and between tokens: learned from each answer.

Recursive least squares over what is known when a request is sent, with the past forgotten slowly. A worker that is new is
predicted by what all have in common. Memory is a few numbers a worker. Pure. Above: `objectives`, bench. Below: nothing.
"""

from collections import OrderedDict
from collections.abc import Sequence

import attrs

__all__ = ["Latencies", "Latency", "WorkerState"]

_FORGETS = 0.998
"""What an answer counts beside the next one."""
_DOUBT = 100.0
"""How far off a model may be that has seen nothing, as a variance."""
_MOST_DOUBT = 1e4
_KNOWN = 8
"""Answers after which a model is thought to know something."""
_SMOOTH = 0.05
_ODD = 8.0
"""Errors beyond so many usual ones teach no more than that: one stall is not the way of a worker."""


@attrs.frozen
class WorkerState:
    """What is known of a worker when a request is sent there: prompt tokens that wait at it (`waiting`), those of the request's
    own prompt that it has to read (`uncached`), the sequences there (`running`), and how many of them are more than it runs at
    once (`over`)."""

    waiting: float
    uncached: float
    running: float
    over: float = 0.0

    @property
    def first(self) -> tuple[float, ...]:
        """What the time to the first token depends on, each about 1 where it counts."""
        return (1.0, (self.waiting + self.uncached) / 1000, self.uncached / 1000, self.running / 10, self.over / 10)

    @property
    def next(self) -> tuple[float, ...]:
        """What the time from token to token depends on."""
        return (1.0, (self.running + 1) / 10, self.waiting / 1000)


class Latency:
    """One learned time in seconds, of `size` inputs. `error` is how far off it was of late, in seconds; `count` how many it has
    learned from."""

    def __init__(self, size: int, weights: Sequence[float] = ()) -> None:
        self.weights = list(weights) or [0.0] * size
        self._doubt = [[_DOUBT if row == column else 0.0 for column in range(size)] for row in range(size)]
        self.error = 0.0
        self.count = 0

    def predict(self, inputs: Sequence[float]) -> float:
        """The time to expect; never less than none."""
        return max(0.0, sum([weight * each for weight, each in zip(self.weights, inputs, strict=True)]))

    def learn(self, inputs: Sequence[float], seconds: float) -> float:
        """It was this long. Returns how far off the prediction was, more being positive."""
        off = seconds - self.predict(inputs)
        self.count += 1
        usual, self.error = self.error, self.error + (abs(off) - self.error) * max(_SMOOTH, 1 / self.count)
        bounded = off if self.count <= _KNOWN else max(-_ODD * usual, min(_ODD * usual, off))
        doubt = self._doubt
        spread = [sum([each * one for each, one in zip(row, inputs, strict=True)]) for row in doubt]
        scale = _FORGETS + sum([each * one for each, one in zip(spread, inputs, strict=True)])
        gain = [each / scale for each in spread]
        self.weights = [weight + each * bounded for weight, each in zip(self.weights, gain, strict=True)]
        for row, each in enumerate(gain):
            for column, other in enumerate(spread):
                found = (doubt[row][column] - each * other) / _FORGETS
                doubt[row][column] = max(-_MOST_DOUBT, min(_MOST_DOUBT, found))
        return off


class _Worker:
    def __init__(self, first: Latency, following: Latency) -> None:
        self.first, self.following = first, following


class Latencies:
    """The times of all workers of one model, of which the `most` that were used last are kept."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._shared = _fresh()
        self._workers: OrderedDict[str, _Worker] = OrderedDict()

    @property
    def known(self) -> bool:
        """Whether enough was seen for a first token to be predicted."""
        return self._shared.first.count >= _KNOWN

    def first(self, worker: str, state: WorkerState) -> tuple[float, float]:
        """Seconds to a first token, and how far off that was of late."""
        found = self._of(worker, "first")
        return found.predict(state.first), found.error

    def following(self, worker: str, state: WorkerState) -> tuple[float, float]:
        """Seconds from one token to the next, and how far off that was of late."""
        found = self._of(worker, "following")
        return found.predict(state.next), found.error

    def came(self, worker: str, state: WorkerState, seconds: float) -> None:
        """A first token came after so long."""
        self._shared.first.learn(state.first, seconds)
        self._own(worker).first.learn(state.first, seconds)

    def went_on(self, worker: str, state: WorkerState, seconds: float) -> None:
        """The tokens behind it came so far apart."""
        self._shared.following.learn(state.next, seconds)
        self._own(worker).following.learn(state.next, seconds)

    def _of(self, worker: str, kind: str) -> Latency:
        found = self._workers.get(worker)
        own: Latency | None = None if found is None else getattr(found, kind)
        shared: Latency = getattr(self._shared, kind)
        return shared if own is None or own.count < _KNOWN else own

    def _own(self, worker: str) -> _Worker:
        found = self._workers.get(worker)
        if found is None:
            shared = self._shared
            found = self._workers[worker] = _Worker(
                Latency(len(shared.first.weights), shared.first.weights),
                Latency(len(shared.following.weights), shared.following.weights),
            )
            while len(self._workers) > self._most:
                self._workers.popitem(last=False)
        else:
            self._workers.move_to_end(worker)
        return found


def _fresh() -> _Worker:
    state = WorkerState(0, 0, 0)
    return _Worker(Latency(len(state.first)), Latency(len(state.next)))
