"""For the tests of users (edge): an engine with scripted answers, a clock that moves when told, ids that can be foreseen.

Nothing here is a mock: `ScriptedEngine` is the embedded engine on a real port, with real gRPC. Above: tests, and `pytest_plugin`,
which offers these as fixtures. Below: simulator. docs/simulator.md shows how they are used.

    async with ScriptedEngine(["Hel", "lo"]) as engine:
        gateway = Gateway(workers=[engine.target])
"""

import asyncio
import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypedDict, TypeVar

import attrs

from smg_core.clock import IdSource
from smg_core.hooks import Moment
from smg_core.json_types import Json
from smg_core.simulator.engine import SimulatorConfig
from smg_core.simulator.faults import Fault
from smg_core.simulator.replies import Reply, Rule
from smg_core.simulator.server import SimulatedEngine
from smg_core.simulator.timer import Timer

__all__ = [
    "EngineSettings",
    "FakeClock",
    "Fault",
    "MemoryObserver",
    "Reply",
    "ScriptedEngine",
    "counting_ids",
    "in_thread",
    "tool_call",
]

M = TypeVar("M")
E = TypeVar("E", bound=SimulatedEngine)


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


def tool_call(
    name: str, arguments: Mapping[str, Json] | None = None, *, text: str = "", reasoning: str | None = None
) -> Reply:
    """A reply that calls one tool, after `text` and `reasoning` if given."""
    return Reply(text=text, reasoning=reasoning, tool_calls=((name, dict(arguments or {})),))


class EngineSettings(TypedDict, total=False):
    """The keyword arguments of `ScriptedEngine`."""

    faults: Sequence[Fault | None]
    config: SimulatorConfig | None
    listen: str
    timer: Timer | None


class ScriptedEngine(SimulatedEngine):
    """An engine with scripted answers.

    Each of `says` answers one request, in order; the last one answers all further requests. It is a string, a sequence of pieces
    (each is sent as one message), or a `Reply`. `faults` are applied to the requests in order; None means no fault. `config` has
    everything else; its own replies and rules are replaced.
    """

    def __init__(
        self,
        *says: str | Sequence[str] | Reply,
        faults: Sequence[Fault | None] = (),
        config: SimulatorConfig | None = None,
        listen: str = "127.0.0.1:0",
        timer: Timer | None = None,
    ) -> None:
        replies = [_reply(each) for each in says]
        config = attrs.evolve(config or SimulatorConfig(), faults=tuple(faults))
        if replies:
            config = attrs.evolve(config, replies=tuple(replies[:-1]), rules=(Rule((), replies[-1]),))
        super().__init__(config, listen, timer=timer)


def _reply(said: str | Sequence[str] | Reply) -> Reply:
    if isinstance(said, Reply):
        return said
    return Reply(text=said) if isinstance(said, str) else Reply(pieces=tuple(said))


@contextmanager
def in_thread(engine: E, timeout: float = 30.0) -> Iterator[E]:
    """Run an engine on an event loop of its own, for tests that have none. Start and stop each take at most `timeout` seconds."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded engine", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(engine.start(), loop).result(timeout)
        try:
            yield engine
        finally:
            asyncio.run_coroutine_threadsafe(engine.stop(), loop).result(timeout)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        loop.close()
