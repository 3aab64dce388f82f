"""The indexes of vector stores in a folder of this machine: a file of SQLite for each (edge).

Fulfils `retrieval.indexes.Indexes`. Above: `work`. Below: the place of the files, and the files.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.filters import FileAttributes, FileFilter
from smg_core.retrieval.index import IndexFile
from smg_core.retrieval.index_files import IndexFiles
from smg_core.retrieval.indexes import ChunkHit, IndexFailed, IndexName, Query, Ranked
from smg_core.vector_stores.place import IndexPlace

__all__ = ["FolderIndexes"]

T = TypeVar("T")


class FolderIndexes:
    """The indexes at a place."""

    def __init__(self, place: IndexPlace, files: IndexFiles) -> None:
        self._place, self._files = place, files

    async def mark(self, *, vectors: bool) -> str:
        return await self._files.work(self._place.mark)

    async def check(self, of: IndexName, mark: str) -> None:
        path = await self._path(of)
        if mark != await self.mark(vectors=False) or not await self._files.work(path.is_file):
            raise IndexFailed("failed", f"{path}: the index of a vector store is not there")

    async def begin(self, of: IndexName, key: str, name: str) -> int:
        path = await self._files.work(lambda: self._place.made(of))
        return await self._files.written(path, lambda index: index.begin(key, name), made=True)

    async def add(
        self, of: IndexName, number: int, chunks: Sequence[TextChunk], vectors: bytes | None, most: int
    ) -> None:
        await self._written(of, lambda index: index.add(number, chunks, vectors, most))

    async def finish(self, of: IndexName, number: int, key: str, attributes: FileAttributes) -> None:
        await self._written(of, lambda index: index.finish(number, key, attributes))

    async def set_attributes(self, of: IndexName, key: str, attributes: FileAttributes) -> None:
        await self._changed(of, lambda index: index.set_attributes(key, attributes))

    async def remove(self, of: IndexName, key: str) -> None:
        await self._changed(of, lambda index: index.remove(key))

    async def size(self, of: IndexName, key: str) -> int:
        return await self._written(of, lambda index: index.size(key))

    async def texts(self, of: IndexName, key: str, most: int) -> list[TextChunk] | None:
        return await self._written(of, lambda index: index.texts(key, most))

    async def search(
        self, of: IndexName, queries: Sequence[Query], filters: FileFilter | None, most: int
    ) -> list[Ranked]:
        return await self._files.search(await self._path(of), queries, filters, most)

    async def hits(self, of: IndexName, numbers: Sequence[int]) -> Mapping[int, ChunkHit]:
        return await self._files.hits(await self._path(of), numbers)

    async def drop(self, of: IndexName) -> None:
        await self._files.drop(await self._path(of))

    async def names(self) -> Sequence[IndexName]:
        return await self._files.work(lambda: list(self._place.names()))

    async def close(self) -> None:
        await self._files.close()
        await self._files.work(self._place.close)

    async def _path(self, of: IndexName) -> Path:
        return await self._files.work(lambda: self._place.path(of))

    async def _written(self, of: IndexName, write: Callable[[IndexFile], T]) -> T:
        return await self._files.written(await self._path(of), write)

    async def _changed(self, of: IndexName, change: Callable[[IndexFile], None]) -> None:
        """Change what there is; where there is no index, nothing."""
        path = await self._path(of)
        if await self._files.work(path.is_file):
            await self._files.written(path, change)
