"""Charges of mesh-wide limits by the processes of one gateway, in a block of memory that they share.

A row is one scope: its rule in numbers, what this gateway has charged in two windows, what was taken since all gateways have
heard of it last (a round), and what of others' charges was counted here. Rows in which something has changed wait in a ring for
the process that speaks for all. Pure: the memory and the lock are arguments. Above: the counters of these processes. Below: the
rules.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, get_args

from smg_core.limits.rules import LimitRule, Window
from smg_core.mesh.state.counts import MemberCount
from smg_core.mesh.state.node import SideStanding

__all__ = ["SharedRow", "SharedRows", "rows_bytes", "scope_bytes"]

_HEAD, _CELL = 8, 8  # numbers before the rows, and bytes of a number
_HERE, _WHOLE, _SPOKE, _WAITS, _FIRST, _LAST, _BORN = range(7)
_NEARBY = 16  # rows that are looked at for one scope
(
    _HASH,
    _USED,
    _WINDOW,
    _AMOUNT,
    _BURST,
    _NUMBER,
    _UP,
    _DOWN,
    _BEFORE,
    _BEFORE_UP,
    _BEFORE_DOWN,
    _PART,
    _TAKEN,
    _VERSION,
    _WAITING,
    _KNOWN,
    _OTHERS_IN,
    _OTHERS,
    _OTHERS_BEFORE,
    _OTHERS_NEXT,
    _SENT_UP,
    _SENT_DOWN,
) = range(22)
_WIDTH = 22
_SILENT_US = 5_000_000
"""After so long without a look of the process that speaks, this gateway is alone."""
_WINDOWS: tuple[Window, ...] = get_args(Window)


def scope_bytes(scope: str) -> bytes:
    """What a scope is called between gateways."""
    return blake2b(scope.encode(), digest_size=8).digest()


@lru_cache(maxsize=4096)
def _hash(scope: str) -> int:
    return _signed(scope_bytes(scope))


def rows_bytes(rows: int) -> int:
    """The bytes of a block of so many rows."""
    return _CELL * (_HEAD + rows * (_WIDTH + 1))


@lru_cache(maxsize=1024)
def _rule(window: int, amount: int, burst: int) -> LimitRule:
    name = _WINDOWS[window]
    return LimitRule(amount, "requests" if name else "at_once", name, burst)


class SharedRow(NamedTuple):
    """A row as it was: `others` is what of others' charges was counted here, in the window of that number, the one before and the
    next. It is `new` until the process that speaks has looked for others' charges of it."""

    place: int
    scope: bytes
    rule: LimitRule
    number: int
    now: MemberCount
    before: int
    last: MemberCount
    taken: int
    version: int
    new: bool
    others_in: int
    others: tuple[int, int, int]


class SharedRows:
    """The rows in `cells`. What is called "under the lock" is called by who holds `lock`."""

    def __init__(self, cells: memoryview, lock: AbstractContextManager[object]) -> None:
        self._cells, self.lock = cells, lock
        self._rows = (len(cells) - _HEAD) // (_WIDTH + 1)
        self._ring = _HEAD + self._rows * _WIDTH

    # --------------------------------------------------------------------------------------------------------- the whole

    def standing(self, now_us: int) -> SideStanding:
        """How many gateways there are; one that nobody speaks for is alone, with its share."""
        here, whole, spoke = self._cells[_HERE], self._cells[_WHOLE], self._cells[_SPOKE]
        if not here:
            return SideStanding(1, 1)
        return SideStanding(here if now_us - spoke <= _SILENT_US else 1, whole)

    def stand(self, standing: SideStanding, now_us: int) -> None:
        """Say how many gateways there are. Called by the process that speaks, under the lock."""
        cells = self._cells
        changed = (cells[_HERE], cells[_WHOLE]) != standing
        cells[_HERE], cells[_WHOLE], cells[_SPOKE] = *standing, now_us
        if changed:
            for place in self._used():
                cells[place + _TAKEN] = cells[place + _VERSION] = 0

    @property
    def waits(self) -> int:
        """Claims that were refused until all have heard of earlier ones."""
        return self._cells[_WAITS]

    def waited(self) -> None:
        """A claim was refused until all have heard of earlier ones. Called under the lock."""
        self._cells[_WAITS] += 1

    def born(self, epoch: int) -> int:
        """The first start of this gateway that has spoken for these rows, which is this one if there was none. Called under the
        lock."""
        self._cells[_BORN] = self._cells[_BORN] or epoch
        return self._cells[_BORN]

    def _used(self) -> Iterator[int]:
        hashes = self._cells[_HEAD : self._ring : _WIDTH].tolist()
        return (_HEAD + number * _WIDTH for number, hashed in enumerate(hashes) if hashed)

    # -------------------------------------------------------------------------------------------- what processes charge

    def place(self, scope: str, rule: LimitRule, number: int, now_us: int) -> int:
        """Where the row of a scope is, in the window of that number. Called under the lock."""
        cells = self._cells
        hashed = _hash(scope)
        place = _HEAD + hashed % self._rows * _WIDTH
        if cells[place + _HASH] != hashed:  # it is not where it would be first
            found = self._found(hashed)
            place = found if found is not None else self._begun(hashed, number)
        cells[place + _USED] = now_us
        cells[place + _WINDOW] = _WINDOWS.index(rule.window)
        cells[place + _AMOUNT], cells[place + _BURST] = rule.amount, rule.burst
        if number != cells[place + _NUMBER]:
            cells[place + _BEFORE], cells[place + _BEFORE_UP] = cells[place + _NUMBER], cells[place + _UP]
            cells[place + _BEFORE_DOWN] = cells[place + _DOWN]
            cells[place + _NUMBER], cells[place + _UP], cells[place + _DOWN] = number, 0, 0
            cells[place + _SENT_UP] = cells[place + _SENT_DOWN] = 0
        return place

    def known(self, place: int) -> bool:
        """Whether others' charges of this row are counted here. Called under the lock."""
        return self._cells[place + _KNOWN] == 1

    def round(self, place: int) -> tuple[int, int]:
        """What may be taken in this round, and what was taken of it. Called under the lock."""
        return self._cells[place + _PART], self._cells[place + _TAKEN]

    def begin_round(self, place: int, part: int) -> None:
        """So much may be taken, of which nothing is taken yet. Called under the lock."""
        self._cells[place + _PART], self._cells[place + _TAKEN], self._cells[place + _VERSION] = part, 0, 0

    def charge(self, place: int, cost: int) -> None:
        """So much was taken. Called under the lock."""
        self._cells[place + _UP] += cost
        self._cells[place + _TAKEN] += cost
        self.wait(place)

    def correct(self, place: int, number: int, more: int) -> None:
        """Of what was charged in the window of that number, so much more was used. Called under the lock."""
        cells = self._cells
        if number == cells[place + _NUMBER]:
            cells[place + (_UP if more > 0 else _DOWN)] += abs(more)
        elif number == cells[place + _BEFORE]:
            cells[place + (_BEFORE_UP if more > 0 else _BEFORE_DOWN)] += abs(more)
        self.wait(place)

    def wait(self, place: int) -> None:
        """Let the process that speaks look at a row. Called under the lock."""
        cells = self._cells
        if not cells[place + _WAITING]:
            cells[place + _WAITING] = 1
            cells[self._ring + cells[_LAST] % self._rows] = place
            cells[_LAST] += 1

    def _found(self, hashed: int) -> int | None:
        for place in self._near(hashed):
            if self._cells[place + _HASH] == hashed:
                return place
        return None

    def _near(self, hashed: int) -> Iterator[int]:
        return (_HEAD + (hashed + number) % self._rows * _WIDTH for number in range(min(_NEARBY, self._rows)))

    def _begun(self, hashed: int, number: int) -> int:
        """A row for a scope that has none: a free one, else that which was used longest ago."""
        cells = self._cells
        place = min(self._near(hashed), key=lambda each: cells[each + _USED] if cells[each + _HASH] else -1)
        waiting = cells[place + _WAITING]  # it stays in the ring, once
        for cell in range(place, place + _WIDTH):
            cells[cell] = 0
        cells[place + _HASH], cells[place + _NUMBER], cells[place + _WAITING] = hashed, number, waiting
        cells[place + _BEFORE] = -1
        return place

    # ---------------------------------------------------------------------------------------- the process that speaks

    def changed(self, most: int) -> list[SharedRow]:
        """Rows that wait to be looked at, at most so many; they wait no more. Called under the lock."""
        cells = self._cells
        found: list[SharedRow] = []
        while cells[_FIRST] < cells[_LAST] and len(found) < most:
            place = cells[self._ring + cells[_FIRST] % self._rows]
            cells[_FIRST] += 1
            cells[place + _WAITING] = 0
            found.append(self.row(place))
        return found

    def find(self, scope: bytes) -> SharedRow | None:
        """The row of a scope. Called under the lock."""
        place = self._found(_signed(scope))
        return self.row(place) if place is not None else None

    def row(self, place: int) -> SharedRow:
        """A row as it is. Called under the lock."""
        each = self._cells[place : place + _WIDTH].tolist()
        return SharedRow(
            place,
            each[_HASH].to_bytes(8, "big", signed=True),
            _rule(each[_WINDOW], each[_AMOUNT], each[_BURST]),
            each[_NUMBER],
            MemberCount(each[_UP], each[_DOWN]),
            each[_BEFORE],
            MemberCount(each[_BEFORE_UP], each[_BEFORE_DOWN]),
            each[_TAKEN],
            each[_VERSION],
            not each[_KNOWN],
            each[_OTHERS_IN],
            (each[_OTHERS], each[_OTHERS_BEFORE], each[_OTHERS_NEXT]),
        )

    def counted(self, place: int, number: int, others: tuple[int, int, int]) -> None:
        """Others' charges are counted here, as they are in the window of that number, the one before and the next. Called under
        the lock."""
        cells = self._cells
        cells[place + _KNOWN], cells[place + _OTHERS_IN] = 1, number
        cells[place + _OTHERS], cells[place + _OTHERS_BEFORE], cells[place + _OTHERS_NEXT] = others

    def mark_sent(self, row: SharedRow, version: int) -> None:
        """What a row was is told with this version: what was taken of it in this round too. Called under the lock."""
        cells, place = self._cells, row.place
        if cells[place + _NUMBER] == row.number:
            cells[place + _SENT_UP], cells[place + _SENT_DOWN] = row.now.charged, row.now.refunded
        if row.taken and not row.version:
            cells[place + _VERSION] = version

    def heard(self, place: int, version: int) -> None:
        """All have heard what was told with this version: the round is over. Called under the lock."""
        if self._cells[place + _VERSION] == version:
            self._cells[place + _TAKEN] = self._cells[place + _VERSION] = 0

    def take_over(self) -> None:
        """Another process speaks from now on, as a new start of this gateway: what the last one has told stays told, and what it
        has not is told now. Called under the lock."""
        cells = self._cells
        for place in self._used():
            cells[place + _UP] -= cells[place + _SENT_UP]
            cells[place + _DOWN] -= cells[place + _SENT_DOWN]
            cells[place + _SENT_UP] = cells[place + _SENT_DOWN] = 0
            cells[place + _BEFORE], cells[place + _BEFORE_UP], cells[place + _BEFORE_DOWN] = -1, 0, 0
            cells[place + _VERSION] = 0
            self.wait(place)


def _signed(scope: bytes) -> int:
    return int.from_bytes(scope, "big", signed=True) or 1
