"""The breakers that are not closed, in memory that the processes of a gateway share.

One row for each, found by the breaker's key. A process writes a row when a breaker of its own changes, and looks for the changes
of others when the table's version is another than before, which is one read of a number for each choice of a worker. Probes of
half-open workers are counted in the row, so that all processes together make as many as one would. Everything but the version is
read and written under a lock. Pure: memory and lock are arguments. Above: breaker, server.processes. Below: nothing.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from struct import Struct as Layout
from typing import Literal

from msgspec import Struct

__all__ = ["BreakerStanding", "BreakerState", "BreakerTable"]

BreakerState = Literal["closed", "open", "half_open"]

_STATES: tuple[BreakerState, ...] = ("closed", "open", "half_open")
_KEY_BYTES = 192
_ROW = Layout(f"<BBddddd{_KEY_BYTES}s")
_HEAD = 16
_FREE, _USED = 0, 1


class BreakerStanding(Struct, frozen=True):
    """How a breaker stands; times are monotonic seconds, which are the same in all processes of a machine. `until`: when an open
    one has cooled down. `period`: when the probes of a half-open one may begin anew; `probes`: those let through in it; `good`:
    those that went well since it cooled down. `resting`: until when the worker has asked to be left alone, 0 for not."""

    state: BreakerState = "closed"
    until: float = 0.0
    period: float = 0.0
    probes: int = 0
    good: int = 0
    resting: float = 0.0

    @property
    def quiet(self) -> bool:
        """Whether the breaker lets everything through."""
        return self.state == "closed" and not self.resting


class BreakerTable:
    """The rows in `memory`, all zero at first. `lock` keeps all other processes out."""

    def __init__(self, memory: memoryview, lock: AbstractContextManager[object]) -> None:
        self.lock = lock
        self._memory = memory.cast("B")
        self._numbers = self._memory[:_HEAD].cast("q")
        self._rows = (len(self._memory) - _HEAD) // _ROW.size

    @staticmethod
    def size(rows: int) -> int:
        """The bytes of a table of so many rows."""
        return _HEAD + rows * _ROW.size

    @property
    def version(self) -> int:
        """Another number after each change."""
        return self._numbers[0]

    def read(self) -> Mapping[str, BreakerStanding]:
        """All rows by key. To be called with the lock."""
        found = {}
        for row in range(self._numbers[1]):
            used, state, until, period, probes, good, resting, key = _ROW.unpack_from(self._memory, _at(row))
            if used == _USED:
                standing = BreakerStanding(_STATES[state], until, period, int(probes), int(good), resting)
                found[key.rstrip(b"\xff").decode()] = standing
        return found

    def find(self, key: str) -> BreakerStanding | None:
        """The row of a key. To be called with the lock."""
        row = self._row_of(_padded(key))
        if row is None:
            return None
        _, state, until, period, probes, good, resting, _ = _ROW.unpack_from(self._memory, _at(row))
        return BreakerStanding(_STATES[state], until, period, int(probes), int(good), resting)

    def put(self, key: str, standing: BreakerStanding) -> bool:
        """Write the row of a key; a quiet breaker has none. False where there is no room for it, or its key is too long: then
        only the process itself knows. To be called with the lock."""
        padded = _padded(key)
        row = self._row_of(padded)
        if standing.quiet:
            if row is not None:
                self._memory[_at(row)] = _FREE
                self._numbers[0] += 1
            return True
        row = self._free() if row is None else row
        if row is None or len(padded) > _KEY_BYTES:
            return False
        values = standing.until, standing.period, standing.probes, standing.good, standing.resting
        _ROW.pack_into(self._memory, _at(row), _USED, _STATES.index(standing.state), *values, padded)
        self._numbers[1] = max(self._numbers[1], row + 1)
        self._numbers[0] += 1
        return True

    def _row_of(self, padded: bytes) -> int | None:
        for row in range(self._numbers[1]):
            start = _at(row)
            key = self._memory[start + _ROW.size - _KEY_BYTES : start + _ROW.size]
            if self._memory[start] == _USED and key == padded:
                return row
        return None

    def _free(self) -> int | None:
        used: int = self._numbers[1]
        free = (row for row in range(used) if self._memory[_at(row)] == _FREE)
        return next(free, used if used < self._rows else None)


def _at(row: int) -> int:
    return _HEAD + row * _ROW.size


def _padded(key: str) -> bytes:
    """A key as it stands in a row; 0xff is in no text."""
    return key.encode().ljust(_KEY_BYTES, b"\xff")
