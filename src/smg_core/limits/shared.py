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

from smg_core.limits.calendar import QUARTER_S, window_at
from smg_core.limits.counters import Counter, Instant, added
from smg_core.limits.decision import LimitClaim, LimitRefusal, claimed
from smg_core.limits.rules import LimitRule

__all__ = ["SharedCounters", "forget", "scope_number"]

_HASH, _USED, _FIRST, _SECOND, _CELLS = range(5)
_NEARBY = 16  # rows that are looked at for one scope
_HEAD = 1  # numbers before the rows: whether any row is in use


@lru_cache(maxsize=4096)
def scope_number(scope: str) -> int:
    """A number of 63 bits for a scope, the same in every process, and never 0."""
    digest = blake2b(scope.encode(), digest_size=8).digest()
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
            return [self._read(self._row(scope_number(claim.scope), 0), claim) for claim in claims]

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""
        cells, now = self._cells, at[0]
        after: list[tuple[int, int, int]] = []
        hashes = [scope_number(claim.scope) for claim in claims]
        with self._lock:
            for claim, hashed in zip(claims, hashes, strict=True):
                rule, amount = claim.rule, claim.rule.amount
                row = _HEAD + hashed % self._rows * self._width
                if cells[row] != hashed:
                    row = self._row(hashed, now)
                if width := rule.width_us:
                    used, ahead = claim.cost * width, cells[row + _FIRST] - now
                    if ahead >= 0:
                        parts = cells[row + _SECOND]
                        used += ahead * amount + (parts if parts < amount else amount - 1)
                    if used > rule.burst * width:
                        break
                    after.append((row, now + used // amount, used % amount))
                    continue
                reserved = sum(cells[row + _CELLS : row + self._width].tolist())
                begins = 0
                if rule.calendar:
                    begins = window_at(rule.window, self._zone, int(at[1]) // QUARTER_S)[0]
                    reserved = reserved + cells[row + _SECOND] if cells[row + _FIRST] == begins else 0
                if reserved + claim.cost > amount:
                    break
                after.append((row, begins, 0))
            else:
                for claim, (row, first, second) in zip(claims, after, strict=True):
                    if claim.rule.width_us:
                        cells[row + _FIRST], cells[row + _SECOND] = first, second
                    else:
                        if claim.rule.calendar and cells[row + _FIRST] != first:
                            self._begin(row, first)
                        cells[row + self._own] += claim.cost
                    if cells[row + _USED] < now:
                        cells[row + _USED] = now
                return None
            before = [self._read(self._row(each, now), claim) for each, claim in zip(hashes, claims, strict=True)]
        return claimed(claims, before, at, self._zone)[1]

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`; they stay reserved."""
        self._change(claims, costs, taken_at, at, ends=False)

    def settle(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """The same, once the request has ended: `costs` are what it used."""
        self._change(claims, costs, taken_at, at, ends=True)

    def _change(
        self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant, *, ends: bool
    ) -> None:
        cells, now = self._cells, at[0]
        with self._lock:
            for claim, cost in zip(claims, costs, strict=True):
                rule, more = claim.rule, cost - claim.cost
                if not more and (rule.width_us or not ends):
                    continue
                hashed = scope_number(claim.scope)
                row = _HEAD + hashed % self._rows * self._width
                if cells[row] != hashed:
                    row = self._row(hashed, now)
                if rule.width_us:
                    counter = tuple.__new__(Counter, (cells[row + _FIRST], cells[row + _SECOND]))
                    cells[row + _FIRST], cells[row + _SECOND] = added(rule, counter, more, at)
                    continue
                if rule.calendar:
                    begins = window_at(rule.window, self._zone, int(taken_at[1]) // QUARTER_S)[0]
                    if begins != window_at(rule.window, self._zone, int(at[1]) // QUARTER_S)[0]:
                        continue  # it was charged in a window that is over
                    if cells[row + _FIRST] != begins:
                        self._begin(row, begins)
                    if ends:
                        more = -claim.cost
                        cells[row + _SECOND] += cost
                cells[row + self._own] = max(0, cells[row + self._own] + more)

    def _read(self, row: int, claim: LimitClaim) -> Counter:
        cells = self._cells
        if claim.rule.width_us:
            return Counter(cells[row + _FIRST], cells[row + _SECOND])
        reserved = sum(cells[row + _CELLS : row + self._width])
        if claim.rule.calendar:
            return Counter(cells[row + _FIRST], cells[row + _SECOND] + reserved)
        return Counter(reserved)

    def _begin(self, row: int, begins: int) -> None:
        """A window of the calendar begins, in which nothing is used. Called under the lock."""
        self._cells[row + _FIRST], self._cells[row + _SECOND] = begins, 0
        for cell in range(row + _CELLS, row + self._width):
            self._cells[cell] = 0

    def add(self, hashed: int, rule: LimitRule, more: int, at: Instant) -> None:
        """Charge so much more of a scope that has this number, whether there is room or not; a negative one gives back."""
        cells = self._cells
        with self._lock:
            row = self._row(hashed, at[0])
            if rule.width_us:
                counter = tuple.__new__(Counter, (cells[row + _FIRST], cells[row + _SECOND]))
                cells[row + _FIRST], cells[row + _SECOND] = added(rule, counter, more, at)
            elif rule.calendar:
                begins = window_at(rule.window, self._zone, int(at[1]) // QUARTER_S)[0]
                if cells[row + _FIRST] != begins:
                    self._begin(row, begins)
                cells[row + _SECOND] = max(0, cells[row + _SECOND] + more)
            else:
                cells[row + self._own] = max(0, cells[row + self._own] + more)

    def places(self, hashed: int) -> int:
        """Requests at once of a scope that has this number, those of this process left out."""
        with self._lock:
            row = self._row(hashed, 0)
            return sum(self._cells[row + _CELLS : row + self._width]) - self._cells[row + self._own]

    def _row(self, hashed: int, now_us: int) -> int:
        """Where the row of a scope begins, which is a new one if there is none. Called under the lock."""
        cells, oldest = self._cells, -1
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
