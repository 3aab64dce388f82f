"""Holds the counters of several processes of one machine in one block of memory, under one lock.

Pure: memory and lock are arguments. A row has a counter by the hash of its scope, and a cell for each process: what the requests
of that process have reserved in a window of the calendar, or how many it has at once. The cells of a process that is gone are
emptied (`forget`), so what it had reserved is free again. A rate has no reservations of its own: what is taken comes back by
itself. Where no row is free nearby, the one that was used longest ago goes. Above: `gateway.limits`. Below: the decision.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from hashlib import blake2b

from smg_core.limits.counters import Counter, Instant, added
from smg_core.limits.decision import LimitClaim, LimitRefusal, claimed, in_window

__all__ = ["SharedCounters", "forget"]

_HASH, _USED, _FIRST, _SECOND, _CELLS = range(5)
_NEARBY = 16  # rows that are looked at for one scope
_HEAD = 1  # numbers before the rows: whether any row is in use


@lru_cache(maxsize=4096)
def _hash(scope: tuple[str, ...]) -> int:
    """A number of 63 bits for a scope, the same in every process, and never 0."""
    digest = blake2b("\0".join(scope).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 1) or 1


class SharedCounters:
    """The counters in `cells`, of the process with this number of so many; `zone` is that of the calendar's windows."""

    def __init__(
        self, cells: memoryview, lock: AbstractContextManager[object], number: int, processes: int, zone: str
    ) -> None:
        self._cells, self._lock, self._own, self._zone = cells, lock, _CELLS + number, zone
        self._width = _CELLS + processes
        self._rows = (len(cells) - _HEAD) // self._width

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of."""
        with self._lock:
            return [self._read(self._row(claim.scope, 0), claim) for claim in claims]

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""
        with self._lock:
            rows = [self._row(claim.scope, at.monotonic_us) for claim in claims]
            before = [self._read(row, claim) for row, claim in zip(rows, claims, strict=True)]
            after, refusal = claimed(claims, before, at, self._zone)
            if refusal is None:
                for row, claim, counter in zip(rows, claims, after, strict=True):
                    self._reserve(row, claim, claim.cost, counter, at)
            return refusal

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`; they stay reserved."""
        self._change(claims, costs, taken_at, at, ends=False)

    def settle(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """The same, once the request has ended: `costs` are what it used."""
        self._change(claims, costs, taken_at, at, ends=True)

    def _change(
        self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant, *, ends: bool
    ) -> None:
        with self._lock:
            for claim, cost in zip(claims, costs, strict=True):
                rule, more = claim.rule, cost - claim.cost
                row = self._row(claim.scope, at.monotonic_us)
                if rule.width_us:
                    if more:
                        self._reserve(row, claim, more, added(rule, self._read(row, claim), more, at), at)
                    continue
                then = in_window(rule, taken_at, self._zone)
                if rule.calendar and then.begins != in_window(rule, at, self._zone).begins:
                    continue  # it was charged in a window that is over
                self._reserve(row, claim, more if not ends else -claim.cost, Counter(), then)
                if ends and rule.calendar:
                    self._cells[row + _SECOND] += cost
                elif ends:
                    self._reserve(row, claim, cost, Counter(), then)

    def _read(self, row: int, claim: LimitClaim) -> Counter:
        cells = self._cells
        if claim.rule.width_us:
            return Counter(cells[row + _FIRST], cells[row + _SECOND])
        reserved = sum(cells[row + _CELLS : row + self._width])
        if claim.rule.calendar:
            return Counter(cells[row + _FIRST], cells[row + _SECOND] + reserved)
        return Counter(reserved)

    def _reserve(self, row: int, claim: LimitClaim, more: int, counter: Counter, at: Instant) -> None:
        """Write a rate as it is now; else put `more` into the own cell, in the window of `at`."""
        cells, rule = self._cells, claim.rule
        if rule.width_us:
            cells[row + _FIRST], cells[row + _SECOND] = counter
            return
        begins = in_window(rule, at, self._zone).begins
        if rule.calendar and cells[row + _FIRST] != begins:
            cells[row + _FIRST], cells[row + _SECOND] = begins, 0
            for cell in range(row + _CELLS, row + self._width):
                cells[cell] = 0
        cells[row + self._own] = max(0, cells[row + self._own] + more)

    def _row(self, scope: tuple[str, ...], now_us: int) -> int:
        """Where the row of a scope begins, which is a new one if there is none. Called under the lock."""
        cells, hashed, oldest = self._cells, _hash(scope), -1
        for number in range(_NEARBY):
            row = _HEAD + (hashed + number) % self._rows * self._width
            if cells[row] == hashed:
                cells[row + _USED] = max(cells[row + _USED], now_us)
                return row
            if not cells[row]:
                oldest = row
                break
            if oldest < 0 or cells[row + _USED] < cells[oldest + _USED]:
                oldest = row
        for cell in range(oldest, oldest + self._width):
            cells[cell] = 0
        cells[0] = 1
        cells[oldest], cells[oldest + _USED] = hashed, now_us
        return oldest


def forget(cells: memoryview, lock: AbstractContextManager[object], number: int, processes: int) -> None:
    """Empty the cells of a process that is gone."""
    if not cells[0]:
        return
    width = _CELLS + processes
    with lock:
        for place in range(_HEAD + _CELLS + number, len(cells), width):
            if cells[place]:
                cells[place] = 0
