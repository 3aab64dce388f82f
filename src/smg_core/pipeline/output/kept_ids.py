"""The ids that were received of a turn, kept so that another engine call can go on behind them.

Decides what is an id, and knows which of the ids the gateway wrote itself. Pure. Above: output, which keeps what it reads, and
continuing, which sends it on. Below: nothing.
"""

from array import array
from collections.abc import Sequence

from smg_core.errors import EngineGarbled

__all__ = ["KeptIds"]


class KeptIds:
    """The ids of each of the engine's `choices`. `put_in` are those among them that the gateway wrote, not the model; it writes
    into the only choice there is. `recent` are ids of the first choice that are not kept together yet: whoever adds to them
    calls `fold` from time to time."""

    __slots__ = ("_closed_at", "_ids", "put_in", "recent")

    def __init__(self, choices: int) -> None:
        self._ids = [array("I")]
        while len(self._ids) < choices:
            self._ids.append(array("I"))
        self._closed_at = 0
        self.put_in: tuple[int, ...] = ()
        self.recent: list[int] = []

    def add(self, index: int, ids: Sequence[int]) -> None:
        """Keep more ids of choice `index`. Raises EngineGarbled for a choice that was not asked for, and for numbers that are no
        ids."""
        if index >= len(self._ids):
            raise EngineGarbled("The engine answered with a choice nobody asked for.")
        if self.recent:
            self.fold()
        _extend(self._ids[index], ids)

    def put(self, ids: Sequence[int]) -> None:
        """Put in ids that the gateway writes."""
        self.fold()
        self._ids[0].extend(ids)
        self.put_in, self._closed_at = tuple(ids), len(self._ids[0])

    @property
    def put_in_last(self) -> bool:
        """Whether the model has written nothing behind what was put in."""
        self.fold()
        return bool(self.put_in) and len(self._ids[0]) == self._closed_at

    def of(self, index: int) -> "array[int]":
        """The ids of choice `index`."""
        self.fold()
        return self._ids[index]

    @property
    def count(self) -> int:
        """How many ids are kept, of all choices."""
        self.fold()
        return sum(map(len, self._ids))

    def fold(self) -> None:
        """Keep the recent ids together with the others."""
        if self.recent:
            recent = self.recent[:]
            self.recent.clear()
            _extend(self._ids[0], recent)


def _extend(kept: "array[int]", ids: Sequence[int]) -> None:
    """Raises EngineGarbled for numbers that are no ids."""
    try:
        kept.extend(ids)
    except (OverflowError, TypeError) as error:
        raise EngineGarbled("The engine answered with a number that is no token id.") from error
