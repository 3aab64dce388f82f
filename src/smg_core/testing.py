"""For the tests of users: a clock that moves when told, ids that can be foreseen, an observer that keeps what it is told.

Above: tests, and `pytest_plugin`, which offers the clock as a fixture. `smg_simulator.testing` has an engine with scripted
answers. docs/simulator.md shows how they are used.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import attrs

from smg_core.clock import IdSource
from smg_core.hooks import Moment

__all__ = ["FakeClock", "MemoryObserver", "counting_ids"]

M = TypeVar("M")


@attrs.define(order=True)
class _Alarm:
    """A scheduled call; `cancel` removes its callback."""

    moment: float
    number: int
    callback: Callable[[], None] | None = attrs.field(order=False)

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """A clock that moves only by `advance`. It is a `Clock`, and a SimulatedEngine takes it as its timer. `now` is its monotonic
    time at the start, `epoch` the same moment in seconds since the Unix epoch."""

    def __init__(self, now: float = 1000.0, epoch: float = 1_700_000_000.0) -> None:
        self._now = now
        self._offset = epoch - now
        self._alarms: list[_Alarm] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now + self._offset

    @property
    def next_alarm(self) -> float | None:
        """The monotonic time of the next scheduled call, None without one."""
        return min((alarm.moment for alarm in self._alarms if alarm.callback is not None), default=None)

    def call_at(self, moment: float, callback: Callable[[], None]) -> _Alarm:
        """Schedule `callback` for when the clock reaches `moment`, in monotonic seconds."""
        alarm = _Alarm(moment, next(self._numbers), callback)
        heapq.heappush(self._alarms, alarm)
        return alarm

    def advance(self, seconds: float) -> None:
        """Move the clock on. The calls scheduled for this time are made in order, each at its own moment."""
        end = self._now + seconds
        while self._alarms and self._alarms[0].moment <= end:
            alarm = heapq.heappop(self._alarms)
            self._now = max(self._now, alarm.moment)
            if alarm.callback is not None:
                alarm.callback()
        self._now = end


def counting_ids(start: int = 1) -> IdSource:
    """Ids that a test can foresee: "chatcmpl-1", "chatcmpl-2", ... All prefixes share one counter."""
    numbers = itertools.count(start)
    return lambda prefix: f"{prefix}{next(numbers)}"


class MemoryObserver:
    """An observer that keeps the last `limit` moments."""

    def __init__(self, limit: int = 10_000) -> None:
        self.moments: deque[Moment] = deque(maxlen=limit)

    def report(self, moment: Moment) -> None:
        self.moments.append(moment)

    def of(self, kind: type[M]) -> list[M]:
        """The kept moments of one class, oldest first."""
        return [moment for moment in self.moments if isinstance(moment, kind)]
