"""The records of a model's workers, reused between requests, so that a large pool is not reread.

A request changes what two or three workers are shown as; the board notes which (`Board.changed`), and those alone are read anew.
Pure. Above: registry. Below: worker.
"""

from typing import TypeAlias

import attrs

from smg_core.workers.candidate import CandidateRecord
from smg_core.workers.worker import Board, Worker, records_of

__all__ = ["PoolRecords"]

LEAST = 32
"""Workers of a pool from which on it is worth keeping."""
MOST = 64
"""Pools that are kept; where there are more they are all made anew."""

_Records: TypeAlias = tuple[CandidateRecord, ...]


@attrs.define(eq=False)
class _Pool:
    """The records of `workers`, of which those at the places `stale` have to be read anew."""

    workers: tuple[Worker, ...]
    records: list[CandidateRecord]
    current: _Records
    stale: set[int] = attrs.field(factory=set)


class PoolRecords:
    """The records of pools. A pool is known by its tuple of workers, another one when a worker comes, goes or changes."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._pools: dict[int, _Pool] = {}
        self._of_row: dict[int, list[tuple[_Pool, int]]] = {}

    def __len__(self) -> int:
        """How many pools are kept."""
        return len(self._pools)

    def clear(self) -> None:
        """Forget all pools."""
        self._pools.clear()
        self._of_row.clear()

    def of(self, workers: tuple[Worker, ...]) -> _Records:
        """The workers as a policy is shown them now. What others may count unnoticed, on a board that is shared, is read anew."""
        if len(workers) < LEAST or self._board.shared:
            return records_of(workers)
        if changed := self._board.changed:
            for row in changed:
                for each, at in self._of_row.get(row, ()):
                    each.stale.add(at)
            changed.clear()
        pool = self._pools.get(id(workers))
        if pool is None or pool.workers is not workers:
            return self._kept(workers)
        if pool.stale:
            for at in pool.stale:
                pool.records[at] = workers[at].record
            pool.stale.clear()
            pool.current = tuple(pool.records)
        return pool.current

    def _kept(self, workers: tuple[Worker, ...]) -> _Records:
        if len(self._pools) >= MOST:
            self.clear()
        current = records_of(workers)
        pool = self._pools[id(workers)] = _Pool(workers, [*current], current)
        for at, worker in enumerate(workers):
            self._of_row.setdefault(worker.row, []).append((pool, at))
        return current
