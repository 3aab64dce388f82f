"""The indexes of vector stores in a PostgreSQL, by its full text and by pgvector (edge).

Fulfils `indexes.Indexes`. Words are cut by the rules of `words`, and PostgreSQL takes their endings away; every vector of a store
is compared. Conditions on attributes are asked here, as they are elsewhere. Above: `vector_stores.work`. Below: the connections,
the statements.
"""

import asyncio
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import asyncpg
import attrs

from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.filters import FileAttributes, FileFilter
from smg_core.retrieval.indexes import ChunkHit, IndexFailed, IndexFull, IndexName, Query, Ranked, VectorsDiffer
from smg_core.retrieval.postgres_connections import IndexConnections
from smg_core.retrieval.postgres_statements import PostgresStatements
from smg_core.retrieval.words import looked_for, plain_words, query_words

__all__ = ["PostgresIndexes"]

T = TypeVar("T")

_MARK = "postgresql"
_BUDGET = 5000  # chunks whose words are weighed for one query
_WEIGHED = 20_000  # chunks of a word that is alone, and is in more than that budget
_KNOWN = 32  # stores of which the files are known
_COUNTED = 4096  # words of a store of which it is known how many chunks have them
_TAKEN_OUT = 1000  # chunks that are taken out in one transaction
_READ = 50  # chunks that are read at once
_NUMBER_BYTES = 2


@attrs.frozen
class _File:
    """A file that is whole."""

    key: str
    name: str
    attributes: FileAttributes


@attrs.frozen(eq=False)
class _Known:
    """What is known of a store: its number, as it was after so many changes; and of words what is looked for, and in how many
    chunks they are."""

    store: int
    changes: int
    chunks: int
    dimensions: int
    files: Mapping[int, _File]
    terms: dict[str, tuple[str, int]] = attrs.field(factory=dict)


class PostgresIndexes:
    """The indexes that `connections` lead to; `pool` is for work that takes long."""

    def __init__(self, connections: IndexConnections, statements: PostgresStatements, pool: Executor) -> None:
        self._connections, self._of, self._pool = connections, statements, pool
        self._known: OrderedDict[IndexName, _Known] = OrderedDict()

    async def mark(self, *, vectors: bool) -> str:
        await self._connections.opened(anew=vectors and not self._connections.has_vectors)
        if vectors and not self._connections.has_vectors:
            raise IndexFailed("failed", "vectors need the extension vector of PostgreSQL, of version 0.7 or newer")
        return _MARK

    async def check(self, of: IndexName, mark: str) -> None:
        async with self._connections.reading() as connection:
            if mark != _MARK or await self._row(connection, of) is None:
                raise _absent(of)

    async def _row(self, connection: asyncpg.Connection, of: IndexName) -> asyncpg.Record | None:
        """The row of a store: id, changes, chunks, dimensions."""
        return await connection.fetchrow(self._of.store, of.tenant, of.store)

    async def _id(self, connection: asyncpg.Connection, of: IndexName) -> int:
        row = await self._row(connection, of)
        if row is None:
            raise _absent(of)
        return int(row["id"])

    async def _work(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    # ------------------------------------------------------------------------------------------------------------ writing

    async def begin(self, of: IndexName, key: str, name: str) -> int:
        async with self._connections.changing() as connection:
            await connection.execute(self._of.make_store, of.tenant, of.store)
            store = await self._id(connection, of)
        await self._take_out(store, key)
        async with self._connections.changing() as connection:
            await connection.execute(self._of.note_change, store)
            return int(await connection.fetchval(self._of.begin, store, key, name))

    async def add(
        self, of: IndexName, number: int, chunks: Sequence[TextChunk], vectors: bytes | None, most: int
    ) -> None:
        if not chunks:
            return
        words = await self._work(lambda: [plain_words(each.text) for each in chunks])
        written = None if vectors is None else await self._work(lambda: _written(vectors, len(chunks)))
        async with self._connections.changing() as connection:
            store = await self._id(connection, of)
            known = await connection.fetchval(self._of.take_room, store, len(chunks), most)
            if known is None:
                raise IndexFull
            if await connection.fetchval(self._of.has_file, number, store) is None:
                raise IndexFailed("failed", "a file was taken out while it was put in")
            ids = [int(each[0]) for each in await connection.fetch(self._of.numbers, len(chunks))]
            mark = _mark_of(store)
            rows = zip(ids, chunks, words, strict=True)
            await connection.executemany(
                self._of.put_chunk,
                [(id, number, each.start, each.end, each.text, vector, mark) for id, each, vector in rows],
            )
            if written is not None and vectors is not None:
                await self._set_dimensions(connection, store, known, len(vectors) // (_NUMBER_BYTES * len(chunks)))
                rows_of = [(id, store, number, each) for id, each in zip(ids, written, strict=True)]
                await connection.executemany(self._of.put_vector, rows_of)

    async def _set_dimensions(self, connection: asyncpg.Connection, store: int, known: int, now: int) -> None:
        """All vectors of an index have the same length."""
        if not self._connections.has_vectors:
            raise IndexFailed("failed", "vectors need the extension vector of PostgreSQL, of version 0.7 or newer")
        if known and known != now:
            raise VectorsDiffer(f"vectors of {now} numbers, where there are those of {known}")
        if not known:
            await connection.execute(self._of.set_dimensions, store, now)

    async def finish(self, of: IndexName, number: int, key: str, attributes: FileAttributes) -> None:
        async with self._connections.changing() as connection:
            store = await self._id(connection, of)
            await connection.execute(self._of.note_change, store)
            await connection.execute(self._of.hide, store, key)
            await connection.execute(self._of.show, number, json.dumps(dict(attributes)))
        await self._take_out(store, key)

    async def set_attributes(self, of: IndexName, key: str, attributes: FileAttributes) -> None:
        async with self._connections.changing() as connection:
            row = await self._row(connection, of)
            if row is not None:
                await connection.execute(self._of.note_change, row["id"])
                await connection.execute(self._of.set_attributes, row["id"], key, json.dumps(dict(attributes)))

    async def remove(self, of: IndexName, key: str) -> None:
        async with self._connections.changing() as connection:
            row = await self._row(connection, of)
            if row is None:
                return
            await connection.execute(self._of.note_change, row["id"])
            await connection.execute(self._of.hide, row["id"], key)
        await self._take_out(row["id"], key)

    async def _take_out(self, store: int, key: str) -> None:
        """Take out what there is of a file that is not to be found."""
        async with self._connections.reading() as connection:
            hidden = await connection.fetch(self._of.hidden, store, key)
        for each in hidden:
            await self._drop_file(store, each["id"])

    async def _drop_file(self, store: int, number: int) -> None:
        """Drop a file, some chunks at a time, so that others can write in between."""
        gone = _TAKEN_OUT
        while gone == _TAKEN_OUT:
            async with self._connections.changing() as connection:
                await connection.execute(self._of.free_room, store, 0)  # who writes to a store takes its row first
                if self._connections.has_vectors:
                    await connection.execute(self._of.drop_vectors, number)
                gone = _count_of(await connection.execute(self._of.drop_chunks, number, _TAKEN_OUT))
                await connection.execute(self._of.free_room, store, gone)
                if gone < _TAKEN_OUT:
                    await connection.execute(self._of.drop_file, number)

    async def drop(self, of: IndexName) -> None:
        try:
            async with self._connections.reading() as connection:
                row = await self._row(connection, of)
                if row is None:
                    return
                files = await connection.fetch(self._of.all_files, row["id"])
            for each in files:
                await self._drop_file(row["id"], each["id"])
            async with self._connections.changing() as connection:
                await connection.execute(self._of.drop_store, row["id"])
        except IndexFailed:  # what stays is swept
            return
        finally:
            self._known.pop(of, None)

    # ------------------------------------------------------------------------------------------------------------ reading

    async def names(self) -> Sequence[IndexName]:
        async with self._connections.reading() as connection:
            return [IndexName(each["tenant"], each["store"]) for each in await connection.fetch(self._of.stores)]

    async def size(self, of: IndexName, key: str) -> int:
        async with self._connections.reading() as connection:
            row = await self._row(connection, of)
            if row is None:
                raise _absent(of)
            chunks, size = await connection.fetchrow(self._of.size, row["id"], key)
            if row["dimensions"] and await connection.fetchval(self._of.has_vectors, row["id"], key):
                size += _NUMBER_BYTES * row["dimensions"] * chunks
            return int(size)

    async def texts(self, of: IndexName, key: str, most: int) -> list[TextChunk] | None:
        if await self.size(of, key) > most:
            return None
        async with self._connections.changing() as connection:
            store = await self._id(connection, of)
            rows = connection.cursor(self._of.texts, store, key, prefetch=_READ)
            return [TextChunk(*row) async for row in rows]

    async def search(
        self, of: IndexName, queries: Sequence[Query], filters: FileFilter | None, most: int
    ) -> list[Ranked]:
        async with self._connections.reading() as connection:
            known = await self._look(connection, of)
            allowed: list[int] | None = None
            if filters is not None:
                allowed = await self._work(lambda: _allowed(known.files, filters))
            found: list[Ranked] = []
            for each in queries:
                if not known.files or allowed == []:
                    found.append(Ranked([], []))
                    continue
                words = await self._by_words(connection, known, each.text, allowed, most)
                found.append(Ranked(words, await self._by_vector(connection, known, each.vector, allowed, most)))
            return found

    async def hits(self, of: IndexName, numbers: Sequence[int]) -> Mapping[int, ChunkHit]:
        found: dict[int, ChunkHit] = {}
        async with self._connections.reading() as connection:
            known = await self._look(connection, of)
            for at in range(0, len(numbers), _READ):
                for row in await connection.fetch(self._of.hits, list(numbers[at : at + _READ])):
                    file = known.files.get(row["file"])
                    if file is not None:
                        chunk = TextChunk(row["text"], row["start"], row["stop"])
                        found[row["id"]] = ChunkHit(file.key, file.name, file.attributes, chunk)
        return found

    async def _look(self, connection: asyncpg.Connection, of: IndexName) -> _Known:
        """What is known of a store, read again where it has changed. Raises IndexFailed where it is not there."""
        row, known = await self._row(connection, of), self._known.get(of)
        if row is None:
            raise _absent(of)
        if known is None or (known.store, known.changes) != (row["id"], row["changes"]):
            files: dict[int, _File] = {}
            async with connection.transaction():
                async for each in connection.cursor(self._of.files, row["id"], prefetch=_READ):
                    files[each["id"]] = _File(each["key"], each["name"], json.loads(each["attributes"]))
            known = _Known(row["id"], row["changes"], row["chunks"], row["dimensions"], files)
            self._known[of] = known
        self._known.move_to_end(of)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return known

    async def _by_words(
        self, connection: asyncpg.Connection, known: _Known, text: str, allowed: list[int] | None, most: int
    ) -> list[tuple[int, float]]:
        words = list(dict.fromkeys(plain_words(each) for each in query_words(text)))
        await self._count(connection, known, words)
        chosen = looked_for(words, {each: known.terms[each][1] for each in words}, _BUDGET)
        if not chosen:
            return []
        terms = [known.terms[each] for each in chosen]
        any_of = " | ".join(f"({term})" for term, _ in terms)
        weights = [_rarity(known.chunks, count) for _, count in terms]
        asked = (known.store, f"{_mark_of(known.store)} & ({any_of})", [term for term, _ in terms], weights, most)
        if allowed is None:
            rows = await connection.fetch(self._of.ranked, *asked, _WEIGHED)
        else:
            rows = await connection.fetch(self._of.ranked_of_some, *asked, _WEIGHED, allowed)
        return [(int(id), float(score)) for id, score in rows]

    async def _count(self, connection: asyncpg.Connection, known: _Known, words: Sequence[str]) -> None:
        """Find out what is looked for of each word, and how many chunks have it."""
        if len(known.terms) + len(words) > _COUNTED:
            known.terms.clear()
        unknown = [each for each in words if each not in known.terms]
        if unknown:
            mark = _mark_of(known.store)
            for word, term, count in await connection.fetch(self._of.terms, unknown, mark, _BUDGET + 1):
                known.terms[word] = term, int(count)

    async def _by_vector(
        self,
        connection: asyncpg.Connection,
        known: _Known,
        vector: Sequence[float] | None,
        allowed: list[int] | None,
        most: int,
    ) -> list[tuple[int, float]]:
        if vector is None or not known.dimensions or len(vector) != known.dimensions:
            return []
        (written,) = await self._work(lambda: _unit_written(vector))
        if allowed is None:
            rows = await connection.fetch(self._of.nearest, known.store, written, most)
        else:
            rows = await connection.fetch(self._of.nearest_of_some, known.store, written, most, allowed)
        return [(int(id), float(near)) for id, near in rows]

    async def close(self) -> None:
        self._known.clear()
        await self._connections.close()


def _absent(of: IndexName) -> IndexFailed:
    return IndexFailed("failed", f"the index of the vector store {of.store} is not there")


def _mark_of(store: int) -> str:
    """The word that all chunks of a store have, and no text: no word of a text has a slash."""
    return f"'/{store}'"


def _rarity(chunks: int, count: int) -> float:
    """How much a word counts that so many of the chunks have, as BM25 has it."""
    return math.log(1 + max(0.0, chunks - count + 0.5) / (count + 0.5))


def _allowed(files: Mapping[int, _File], filters: FileFilter) -> list[int]:
    return [number for number, each in files.items() if filters.holds(each.attributes)]


def _count_of(status: str) -> int:
    """How many rows a statement has changed, by what it says of itself."""
    return int(status.rpartition(" ")[2])


def _written(vectors: bytes, count: int) -> list[str]:
    """Packed vectors, as pgvector reads them."""
    from smg_core.retrieval.nearest import unpack_vectors, unpacked_floats

    many = unpack_vectors(vectors, len(vectors) // (_NUMBER_BYTES * count))
    return [_text_of(each) for each in unpacked_floats(many)]


def _unit_written(vector: Sequence[float]) -> list[str]:
    from smg_core.retrieval.nearest import unit_vector

    return [_text_of([float(each) for each in unit_vector(vector)])]


def _text_of(numbers: Sequence[float]) -> str:
    return f"[{','.join(f'{each:.6g}' for each in numbers)}]"
