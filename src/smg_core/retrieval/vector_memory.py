"""The vectors of one index in memory, brought up to date before each search, within a bound of bytes.

What does not fit is read from the index for each search: slower, and as exact. Above: index_search. Below: nearest, and
the connection to SQLite that is handed in.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from smg_core.retrieval.nearest import SLAB, Floats, Packed, best_of, similarities, unpack_vectors

__all__ = ["VectorMemory"]

_Numbers = npt.NDArray[np.int64]
_READ = 32  # rows of vectors that are read at once


class _Slab:
    """Some vectors that lie one behind the other, with the numbers of their chunks and of their files."""

    def __init__(self, dimensions: int) -> None:
        self.vectors: Packed = np.empty((SLAB, dimensions), dtype=np.int16)
        self.chunks: _Numbers = np.empty(SLAB, dtype=np.int64)
        self.files: _Numbers = np.empty(SLAB, dtype=np.int64)
        self.used = 0

    def take(self, vectors: Packed, first: int, file: int) -> int:
        """Take as many of these vectors as there is room for, and return how many that were."""
        many = min(len(vectors), SLAB - self.used)
        until = self.used + many
        self.vectors[self.used : until] = vectors[:many]
        self.chunks[self.used : until] = np.arange(first, first + many)
        self.files[self.used : until] = file
        self.used = until
        return many


class VectorMemory:
    """The vectors of the index behind `connection`; at most `most_bytes` of them stay in memory."""

    def __init__(self, connection: sqlite3.Connection, most_bytes: int) -> None:
        self._connection, self._most = connection, most_bytes
        self._slabs: list[_Slab] = []
        self._last, self._taken = 0, -1

    @property
    def size(self) -> int:
        """What they take of memory."""
        return sum(each.vectors.nbytes + each.chunks.nbytes + each.files.nbytes for each in self._slabs)

    def nearest(
        self, query: Floats, files: "_Numbers | None", most: int, *, taken: int, stored: int
    ) -> list[tuple[int, float]]:
        """The chunks with the vectors nearest to `query` and how near they are, best first, of these files where they are said.
        `taken` counts how often vectors went away, `stored` is the bytes of all, which are as long as `query`."""
        scores: list[Floats] = []
        chunks: list[_Numbers] = []
        for slab in self._of(len(query), taken, stored):
            used = slab.used
            near = similarities(slab.vectors[:used], query)
            if files is not None:
                near[~np.isin(slab.files[:used], files)] = -np.inf
            scores.append(near)
            chunks.append(slab.chunks[:used])
        if not scores:
            return []
        every, numbers = np.concatenate(scores), np.concatenate(chunks)
        return [(int(numbers[each]), float(every[each])) for each in best_of(every, most) if every[each] > -np.inf]

    def _of(self, dimensions: int, taken: int, stored: int) -> Iterator[_Slab]:
        """All vectors: from memory, or from the disk where they are more than may be in memory."""
        if taken != self._taken:
            self._slabs, self._last, self._taken = [], 0, taken
        if stored > self._most:
            self._slabs, self._last = [], 0
            yield from self._read(dimensions)
            return
        rows = self._connection.execute(
            "SELECT first, file, data FROM vectors WHERE first > ? ORDER BY first", (self._last,)
        )
        for row in rows:
            self._put(row, dimensions, self._slabs)
            self._last = row[0]
        yield from self._slabs

    def _put(self, row: tuple[int, int, bytes], dimensions: int, slabs: list[_Slab]) -> None:
        first, file, data = row
        vectors = unpack_vectors(data, dimensions)
        while len(vectors):
            if not slabs or slabs[-1].used == SLAB:
                slabs.append(_Slab(dimensions))
            many = slabs[-1].take(vectors, first, file)
            vectors, first = vectors[many:], first + many

    def _read(self, dimensions: int) -> Iterator[_Slab]:
        cursor: Any = self._connection.execute("SELECT first, file, data FROM vectors ORDER BY first")
        while rows := cursor.fetchmany(_READ):
            slabs: list[_Slab] = []
            for row in rows:
                self._put(row, dimensions, slabs)
            yield from slabs
