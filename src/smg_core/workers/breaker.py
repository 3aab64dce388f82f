"""Which workers get no requests for a while, since too many of their calls failed.

    state        signal     next         what the worker gets
    closed       tripped    open         every request
    open         cooled     half_open    none
    half_open    passed     closed       a few requests as probes
    half_open    failed     open

Each worker has a window that slides with time, in slices: its calls and those of them that failed. It trips when failures reach
a count and a share of the calls. A worker that says when to come again (Retry-After) rests until then. A failure is the
engine's (`WorkerError`): what a request does wrong, and an engine that is full, are none. If no other worker is left, all are
asked: an answer of a worker that may fail is better than none. Pure: the time is an argument. Above: the registry has the
breakers, pipeline.selecting asks who may be chosen, the monitor tells how calls ended. Below: settings.
"""

from collections import deque
from typing import Literal, Protocol, TypeVar

from smg_core.errors import SmgError, WorkerBusy, WorkerError
from smg_core.workers.settings import BreakerConfig

__all__ = ["TRANSITIONS", "Breaker", "BreakerState", "Breakers"]

BreakerState = Literal["closed", "open", "half_open"]
BreakerSignal = Literal["tripped", "cooled", "passed", "failed"]

TRANSITIONS: dict[tuple[BreakerState, BreakerSignal], BreakerState] = {
    ("closed", "tripped"): "open",
    ("open", "cooled"): "half_open",
    ("half_open", "passed"): "closed",
    ("half_open", "failed"): "open",
}
"""(state, signal) to the next state; any other pair changes nothing."""

_SLICES = 10
"""Slices of the window: with so many, what is too old leaves it a tenth at a time."""


class Named(Protocol):
    """A worker, as far as its breaker knows it."""

    @property
    def name(self) -> str: ...


W = TypeVar("W", bound=Named)


class Breaker:
    """The breaker of one worker. Times are monotonic seconds."""

    __slots__ = ("_good", "_period", "_probes", "_settings", "_slices", "_until", "resting", "state")

    def __init__(self, settings: BreakerConfig) -> None:
        self.state: BreakerState = "closed"
        self.resting = 0.0  # until when the worker has asked to be left alone
        self._settings = settings
        self._slices: deque[list[int]] = deque(maxlen=_SLICES)  # number of the slice, calls, failures
        self._until = 0.0  # when an open one has cooled down
        self._good = 0  # probes that passed since it cooled down
        self._probes = 0  # probes that were let through in the period
        self._period = 0.0  # when the probes of a half-open one may begin anew

    @property
    def quiet(self) -> bool:
        """Whether it lets everything through, until a call fails."""
        return self.state == "closed" and not self.resting

    def ended(self, error: SmgError | None, now: float) -> None:
        """Called when a call of the worker has ended; `error` is None if it ended well."""
        if error is not None and error.retry_after:
            self.resting = now + min(error.retry_after, self._settings.rest_most_s)
        failed = isinstance(error, WorkerError) and not isinstance(error, WorkerBusy)
        if self.state == "half_open":
            self._good += not failed
            if failed:
                self._apply("failed", now)
            elif self._good >= self._settings.probes:
                self._apply("passed", now)
        elif self.state == "closed" and self._trips(failed, now):
            self._apply("tripped", now)

    def admits(self, now: float) -> bool:
        """Whether the worker may be chosen now."""
        if self.resting:
            if now < self.resting:
                return False
            self.resting = 0.0
        if self.state == "open" and now >= self._until:
            self._apply("cooled", now)
        if self.state == "half_open":
            if now >= self._period:
                self._period, self._probes = now + self._settings.open_s, 0
            return self._probes < self._settings.probes
        return self.state == "closed"

    def chosen(self) -> None:
        """Called when the worker was chosen: a half-open one has that probe less in this period."""
        if self.state == "half_open":
            self._probes += 1

    def _apply(self, signal: BreakerSignal, now: float) -> None:
        self.state = TRANSITIONS.get((self.state, signal), self.state)
        self._good = self._probes = 0
        self._period = 0.0
        self._until = now + self._settings.open_s
        self._slices.clear()

    def _trips(self, failed: bool, now: float) -> bool:
        """Count a call; whether its worker has failed too often."""
        number = int(now / (self._settings.window_s / _SLICES))
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append([number, 0, 0])
        self._slices[-1][1] += 1
        self._slices[-1][2] += failed
        if not failed:
            return False
        recent = [each for each in self._slices if each[0] > number - _SLICES]
        failures, calls = sum(each[2] for each in recent), sum(each[1] for each in recent)
        return failures >= self._settings.failures and failures >= self._settings.share * calls


class Breakers:
    """The breakers of all workers, by name. Only workers that had calls have one; those that are gone are forgotten."""

    def __init__(self, settings: BreakerConfig) -> None:
        self._settings = settings
        self._breakers: dict[str, Breaker] = {}
        self._tripped: set[str] = set()

    def adopt(self, settings: BreakerConfig) -> None:
        """Go by these settings from now on; other ones than before close all breakers."""
        if settings != self._settings:
            self._settings = settings
            self._breakers.clear()
            self._tripped.clear()

    def ended(self, name: str, error: SmgError | None, now: float) -> BreakerState | None:
        """Called when a call of the worker `name` has ended. The breaker's new state if that has changed, else None."""
        if not self._settings.failures:
            return None
        breaker = self._breakers.get(name)
        if breaker is None:
            breaker = self._breakers[name] = Breaker(self._settings)
        before = breaker.state
        breaker.ended(error, now)
        if breaker.quiet:
            self._tripped.discard(name)
        else:
            self._tripped.add(name)
        return breaker.state if breaker.state != before else None

    def admitted(self, workers: tuple[W, ...], now: float) -> tuple[W, ...]:
        """Those of `workers` that may be chosen now; all of them if none may."""
        if not self._tripped:
            return workers
        found = tuple(
            each for each in workers if each.name not in self._tripped or self._breakers[each.name].admits(now)
        )
        return found or workers

    def chosen(self, name: str) -> None:
        """Called when the worker `name` was chosen."""
        if name in self._tripped:
            self._breakers[name].chosen()

    def forget(self, name: str) -> None:
        """Forget the breaker of a worker that has left, or is not ready any more."""
        self._breakers.pop(name, None)
        self._tripped.discard(name)

    def state(self, name: str) -> BreakerState:
        """The state of a worker's breaker."""
        breaker = self._breakers.get(name)
        return "closed" if breaker is None else breaker.state
