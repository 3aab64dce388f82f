"""The indexes of one process: opened when they are first searched, and closed again so that their vectors fit into memory (edge).

Above: searches and indexing of vector stores. Below: the index of each store.
"""

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TypeVar

import attrs

from smg_core.retrieval.filters import FileFilter
from smg_core.retrieval.index import IndexFile
from smg_core.retrieval.index_search import SearchedIndex
from smg_core.retrieval.indexes import ChunkHit, IndexFailed, Query, Ranked

__all__ = ["IndexFiles"]

T = TypeVar("T")

_OPEN = 64  # indexes that are open at most


@attrs.define(eq=False)
class _Open:
    """An open index, and how many threads use it."""

    index: SearchedIndex
    users: int = 0


class IndexFiles:
    """The indexes in files, by their paths. Their vectors take at most `memory_bytes` together; work is done in `pool`."""

    def __init__(self, pool: Executor, memory_bytes: int) -> None:
        self._pool, self._memory_bytes = pool, memory_bytes
        self._open: OrderedDict[Path, _Open] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def memory(self) -> int:
        """What vectors take of memory."""
        return sum(each.index.memory for each in list(self._open.values()))

    async def search(self, path: Path, queries: Sequence[Query], filters: FileFilter | None, most: int) -> list[Ranked]:
        """`SearchedIndex.search`. Raises IndexFailed."""

        def work() -> list[Ranked]:
            with self._using(path) as index:
                return index.search(queries, filters, most)

        return await self.work(work)

    async def hits(self, path: Path, numbers: Sequence[int]) -> dict[int, ChunkHit]:
        """`SearchedIndex.hits`. Raises IndexFailed."""

        def work() -> dict[int, ChunkHit]:
            with self._using(path) as index:
                return index.hits(numbers)

        return await self.work(work)

    async def written(self, path: Path, write: Callable[[IndexFile], T], *, made: bool = False) -> T:
        """What `write` gives of the index, over a connection of its own, so that searches go on meanwhile. Raises IndexFailed,
        also where it is not there and not to be `made`."""

        def work() -> T:
            if not made and not path.is_file():  # it was dropped meanwhile
                raise IndexFailed("failed", f"{path}: the index of a vector store is not there")
            with contextlib.closing(IndexFile(path)) as index:
                return write(index)

        return await self.work(work)

    async def drop(self, path: Path) -> None:
        """Forget an index."""

        def work() -> None:
            with self._lock:
                found = self._open.pop(path, None)
            if found is not None:
                found.index.close()
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)

        with contextlib.suppress(OSError):  # what stays is swept
            await self.work(work)

    async def work(self, work: Callable[[], T]) -> T:
        """Do this in the threads of the indexes."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def close(self) -> None:
        """Let go of all files."""

        def work() -> None:
            with self._lock:
                found = [each.index for each in self._open.values()]
                self._open.clear()
            for index in found:
                index.close()

        await self.work(work)

    @contextlib.contextmanager
    def _using(self, path: Path) -> Iterator[SearchedIndex]:
        with self._lock:
            if path not in self._open:
                self._open[path] = _Open(SearchedIndex(path, self._memory_bytes))
            found = self._open[path]
            self._open.move_to_end(path)
            found.users += 1
        try:
            yield found.index
        finally:
            with self._lock:
                found.users -= 1
                left = self._to_leave()
            for index in left:
                index.close()

    def _to_leave(self) -> list[SearchedIndex]:
        """The indexes that are to be closed so that the others are no more than may be open: those used longest ago."""
        left: list[SearchedIndex] = []
        for path, each in list(self._open.items())[:-1]:
            if len(self._open) <= _OPEN and self.memory <= self._memory_bytes:
                break
            if not each.users:
                del self._open[path]
                left.append(each.index)
        return left
