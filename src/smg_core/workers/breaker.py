"""The workers that get no requests for a while after failed calls.

    state        signal     next         what the worker gets
    closed       tripped    open         every request
    open         cooled     half_open    none
    half_open    passed     closed       a few requests as probes
    half_open    failed     open

Each worker has a window that slides with time, in slices: its calls and those of them that failed. It trips when failures reach
a count and a share of the calls. A worker that says when to come again (Retry-After) rests until then. A failure is the
engine's (`WorkerError`): what a request does wrong, and an engine that is full, are none. A call that was given up before
anything came of it is not counted. If no other worker is left, all are asked: an answer of a worker that may fail is better than
none. Pure: the time is an argument. Above: the registry has the breakers, pipeline.calls.selecting asks who may be chosen, the
monitor tells how calls ended. Below: settings.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeVar

from smg_core.errors import SmgError, WorkerBusy, WorkerError
from smg_core.workers.breaker_table import BreakerStanding, BreakerState, BreakerTable
from smg_core.workers.settings import BreakerConfig

__all__ = ["TRANSITIONS", "Breaker", "Breakers"]

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

    @property
    def rank_count(self) -> int: ...


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

    @property
    def standing(self) -> BreakerStanding:
        """How it stands, for other processes."""
        return BreakerStanding(self.state, self._until, self._period, self._probes, self._good, self.resting)

    def stand(self, standing: BreakerStanding) -> None:
        """Stand as another process says."""
        if standing.state != self.state:
            self._slices.clear()
        self.state, self.resting = standing.state, standing.resting
        self._until, self._period = standing.until, standing.period
        self._probes, self._good = standing.probes, standing.good

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

    def chosen(self) -> bool:
        """Called when the worker was chosen: a half-open one has that probe less in this period. Whether it is a probe."""
        if self.state == "half_open":
            self._probes += 1
        return self.state == "half_open"

    def given_up(self) -> None:
        """Called when a probe was given up before anything came of it: it says nothing, and another one may be made for it."""
        if self.state == "half_open":
            self._probes = max(0, self._probes - 1)

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
    """The breakers of all workers, by name, and of the data-parallel ranks of those that have such, as far as a call names its
    rank. Only what had calls has one; those of workers that are gone are forgotten. `table` is shared with other processes, so
    that what one of them learns holds for all. `tripped` has the keys of those that do not let everything through,
    `ranks_tripped` the workers of which a rank may be left alone: `ranks_out` says which."""

    def __init__(self, settings: BreakerConfig, table: BreakerTable | None = None) -> None:
        self._settings = settings
        self._table = table
        self._version: int | None = None  # of the table as it was read last
        self._breakers: dict[str, Breaker] = {}
        self.tripped: set[str] = set()
        self.ranks_tripped: dict[str, set[int]] = {}  # worker to those of its ranks that are tripped
        self._in_table: set[str] = set()  # those that are in the table

    def adopt(self, settings: BreakerConfig) -> None:
        """Go by these settings from now on; other ones than before close all breakers."""
        if settings != self._settings:
            self._settings = settings
            for key in [*self.tripped]:
                self._forget(key)
            self._breakers.clear()

    def ended(self, name: str, error: SmgError | None, now: float, rank: int | None = None) -> BreakerState | None:
        """Called when a call of the worker `name`, or of this rank of it, has ended. The breaker's new state if that has changed,
        else None."""
        if not self._settings.failures:
            return None
        key = name if rank is None else _key(name, rank)
        breaker = self._breakers.get(key) or self._of(key)
        before = breaker.state
        if key in self.tripped:
            with self._newest(key, breaker):
                before = breaker.state
                breaker.ended(error, now)
        else:
            breaker.ended(error, now)
            if error is not None and not breaker.quiet:
                self._note(key, breaker)
                self._tell(key, breaker.standing)
        return breaker.state if breaker.state != before else None

    def admitted(self, workers: tuple[W, ...], now: float, *, at_least_one: bool = True) -> tuple[W, ...]:
        """Those of `workers` that may be chosen now; all of them if none may and there is to be one."""
        if self._table is not None:
            self._look()
        if not self.tripped:
            return workers
        found = tuple(each for each in workers if self._admits(each.name, now) and not self._all_out(each, now))
        return found if found or not at_least_one else workers

    def ranks_out(self, name: str, count: int, now: float) -> tuple[int, ...]:
        """The ranks of a worker with `count` of them that may not be chosen now; none where that would leave no rank."""
        tripped = self.ranks_tripped.get(name)
        if not tripped:
            return ()
        out = tuple(rank for rank in sorted(tripped) if not self._admits(name, now, rank))
        return out if len(out) < count else ()

    def chosen(self, name: str, rank: int | None = None) -> bool:
        """Called when the worker `name`, or this rank of it, was chosen. Whether the call is a probe."""
        probe = False
        for key in {_key(name), _key(name, rank)} & self.tripped if self.tripped else ():
            breaker = self._breakers[key]
            with self._newest(key, breaker):
                probe |= breaker.chosen()
        return probe

    def given_up(self, name: str, rank: int | None = None) -> None:
        """Called when a call that was a probe of the worker `name`, or of this rank of it, was given up before anything came."""
        for key in {_key(name), _key(name, rank)} & self.tripped:
            breaker = self._breakers[key]
            with self._newest(key, breaker):
                breaker.given_up()

    def forget(self, name: str, *, alone: bool = False) -> None:
        """Forget the breakers of a worker that has left, or is not ready any more. `alone`: here, and not for the other
        processes, since it is this process that leaves."""
        if not alone:
            self._look()  # a process that has left may have written what nobody here has needed yet
        for key in (_key(name), *(_key(name, rank) for rank in tuple(self.ranks_tripped.get(name, ())))):
            self._forget(key, alone=alone)
        if self._breakers:
            ranks = f"{name}{_OF}"
            for key in [each for each in self._breakers if each.startswith(ranks)]:
                del self._breakers[key]

    def doubt(self, name: str, now: float) -> None:
        """Called when another gateway's breaker of this worker has opened: the next call here is a probe, and says how it is."""
        if not self._settings.failures or self.state(name) != "closed":
            return
        key, spent = _key(name), self._settings.probes - 1
        breaker = self._of(key)
        with self._newest(key, breaker):
            if breaker.state == "closed":
                period = now + self._settings.open_s
                breaker.stand(BreakerStanding("half_open", 0.0, period, spent, spent, breaker.resting))

    def seconds_open(self, name: str, now: float) -> float:
        """For how much longer the breaker of a worker is open; 0 where it is not."""
        self._look()  # another process may have opened it
        breaker = self._breakers.get(_key(name))
        if breaker is None or breaker.state != "open":
            return 0.0
        return max(0.0, breaker.standing.until - now)

    def state(self, name: str) -> BreakerState:
        """The state of a worker's breaker."""
        breaker = self._breakers.get(_key(name))
        return "closed" if breaker is None else breaker.state

    # ------------------------------------------------------------------------------------------------------ of one breaker

    def _of(self, key: str) -> Breaker:
        found = self._breakers.get(key)
        if found is None:
            found = self._breakers[key] = Breaker(self._settings)
        return found

    def _admits(self, name: str, now: float, rank: int | None = None) -> bool:
        key = _key(name, rank)
        if key not in self.tripped:
            return True
        breaker = self._breakers[key]
        before = breaker.standing
        if breaker.state == "closed" and now < breaker.resting:
            return False
        if before.state == "open" and now < before.until:
            return False
        with self._newest(key, breaker):
            return breaker.admits(now)

    def _all_out(self, worker: W, now: float) -> bool:
        tripped = self.ranks_tripped.get(worker.name, ())
        if not tripped or len(tripped) < worker.rank_count:
            return False
        return not any(self._admits(worker.name, now, rank) for rank in tuple(tripped))

    def _note(self, key: str, breaker: Breaker) -> None:
        """Keep which breakers do not let everything through."""
        name, _, rank = key.partition(_OF)
        if breaker.quiet:
            self.tripped.discard(key)
            if rank and name in self.ranks_tripped:
                self.ranks_tripped[name].discard(int(rank))
                if not self.ranks_tripped[name]:
                    del self.ranks_tripped[name]
        else:
            self.tripped.add(key)
            if rank:
                self.ranks_tripped.setdefault(name, set()).add(int(rank))

    def _forget(self, key: str, *, alone: bool = False) -> None:
        breaker = self._breakers.pop(key, None)
        if breaker is not None and not breaker.quiet:
            breaker.stand(BreakerStanding())
            self._note(key, breaker)
        if key in self._in_table and alone:
            self._in_table.discard(key)
            self._version = None
        elif key in self._in_table:
            self._tell(key, BreakerStanding())

    # ------------------------------------------------------------------------------------------------ with other processes

    @contextmanager
    def _newest(self, key: str, breaker: Breaker) -> Iterator[None]:
        """The breaker as all processes have left it; what becomes of it is written while nobody else changes it."""
        table = self._table
        if table is None:
            yield
            self._note(key, breaker)
            return
        with table.lock:
            before = table.find(key)
            if before is not None:
                breaker.stand(before)
            elif key in self._in_table:  # another process has closed it
                breaker.stand(BreakerStanding())
            yield
            if breaker.standing != before:
                self._put(table, key, breaker.standing)
            self._note(key, breaker)

    def _tell(self, key: str, standing: BreakerStanding) -> None:
        if self._table is not None:
            with self._table.lock:
                self._put(self._table, key, standing)

    def _put(self, table: BreakerTable, key: str, standing: BreakerStanding) -> None:
        change = table.put(key, standing)
        (self._in_table.add if change and not standing.quiet else self._in_table.discard)(key)

    def _look(self) -> None:
        """Take over what other processes have written, if anything was since the last look."""
        if self._table is not None and self._table.version != self._version:
            self._learn(self._table)

    def _learn(self, table: BreakerTable) -> None:
        """Take over what other processes have written."""
        with table.lock:
            self._version, rows = table.version, table.read()
        for key in self._in_table - rows.keys():
            breaker = self._of(key)
            breaker.stand(BreakerStanding())
            self._note(key, breaker)
        for key, standing in rows.items():
            breaker = self._of(key)
            breaker.stand(standing)
            self._note(key, breaker)
        self._in_table = set(rows)


_OF = "\0"
"""Between a worker's name and its rank, in the key of a breaker."""


def _key(name: str, rank: int | None = None) -> str:
    return name if rank is None else f"{name}{_OF}{rank}"
