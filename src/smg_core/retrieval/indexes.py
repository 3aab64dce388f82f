"""The indexes of vector stores: the role of who keeps them, of whom there are two, and what is put in and found.

`vector_stores.index_folder` has them in files of SQLite, `postgres_indexes` in a PostgreSQL. A file of a store is put in piece by
piece and found once it is whole, so that what a process leaves that was killed is never found, and is taken out when the file is
put in again. Above: indexing, searches. Below: chunking, filters.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import attrs

from smg_core.errors import StoreFailed
from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.filters import FileAttributes, FileFilter

__all__ = [
    "ChunkHit",
    "IndexFailed",
    "IndexFull",
    "IndexName",
    "Indexes",
    "Query",
    "Ranked",
    "VectorsDiffer",
    "vectors_as_bytes",
]


class IndexFailed(StoreFailed):
    """The index of a vector store cannot be read or written, or there is no room for it."""

    openai_code = "vector_store_unavailable"

    def __init__(
        self, reason: Literal["unreachable", "full", "failed"], detail: str, *, outside_text: str = ""
    ) -> None:
        super().__init__(reason, detail, outside_text=outside_text)
        what = "There is no room for the vector store" if reason == "full" else "The vector store is not available"
        self.message = f"{what} at the moment."


class IndexFull(ValueError):
    """The store has as many chunks as it may."""


class VectorsDiffer(ValueError):
    """Vectors are of another length than those that are there."""


@attrs.frozen
class IndexName:
    """Which index: of this store of this tenant."""

    tenant: str
    store: str


@attrs.frozen
class ChunkHit:
    """A chunk that was found, and the file that it is of."""

    key: str
    name: str
    attributes: FileAttributes
    chunk: TextChunk


@attrs.frozen
class Query:
    """A text that is looked for, with its vector where there is one."""

    text: str
    vector: Sequence[float] | None = None


@attrs.frozen
class Ranked:
    """What was found for one query, best first: numbers of chunks with how well their words fit, and with how near their
    vectors are."""

    words: list[tuple[int, float]]
    vectors: list[tuple[int, float]]


def vectors_as_bytes(vectors: Sequence[Sequence[float]]) -> bytes:
    """The bytes of vectors, as an index takes them."""
    from smg_core.retrieval.nearest import pack_vectors

    return pack_vectors(vectors)


class Indexes(Protocol):
    """The indexes of all vector stores. Its methods raise IndexFailed."""

    async def mark(self, *, vectors: bool) -> str:
        """What tells these indexes from those that lie elsewhere: a store remembers it. Raises IndexFailed, also where there can
        be none with `vectors` and such are wanted."""
        ...

    async def check(self, of: IndexName, mark: str) -> None:
        """Raise IndexFailed where the index of a store that has this mark is not here."""
        ...

    async def begin(self, of: IndexName, key: str, name: str) -> int:
        """Begin to put in the file `key`; returns its number. What there is of an earlier try is taken out."""
        ...

    async def add(
        self, of: IndexName, number: int, chunks: Sequence[TextChunk], vectors: bytes | None, most: int
    ) -> None:
        """Put in the next chunks of a file, with the bytes of their vectors. Raises IndexFull where the store would have more
        than `most`, VectorsDiffer, and IndexFailed where the file was taken out meanwhile."""
        ...

    async def finish(self, of: IndexName, number: int, key: str, attributes: FileAttributes) -> None:
        """Have a file found that is whole, in place of an earlier one of its key."""
        ...

    async def set_attributes(self, of: IndexName, key: str, attributes: FileAttributes) -> None:
        """Have a file's attributes be these; where there is no index, nothing happens."""
        ...

    async def remove(self, of: IndexName, key: str) -> None:
        """Take a file out, where there is an index."""
        ...

    async def size(self, of: IndexName, key: str) -> int:
        """Bytes that the texts and vectors of a file take."""
        ...

    async def texts(self, of: IndexName, key: str, most: int) -> list[TextChunk] | None:
        """The chunks of a file in order; None where they have more than `most` bytes."""
        ...

    async def search(
        self, of: IndexName, queries: Sequence[Query], filters: FileFilter | None, most: int
    ) -> list[Ranked]:
        """What is found for each query: at most `most` chunks by words, and by vectors."""
        ...

    async def hits(self, of: IndexName, numbers: Sequence[int]) -> Mapping[int, ChunkHit]:
        """The chunks of these numbers, as far as they are there still."""
        ...

    async def drop(self, of: IndexName) -> None:
        """Forget an index. What cannot be forgotten now stays, and `names` has it."""
        ...

    async def names(self) -> Sequence[IndexName]:
        """The indexes that are there."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...
