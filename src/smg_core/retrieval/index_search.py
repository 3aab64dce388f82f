"""Looks into the index of one vector store: chunks by their words, by their vectors, and what they are (edge).

What it knows of the files is read again when the index says that something has changed. Its methods wait for the disk and are
called in threads. Above: indexes. Below: the index, words, the vectors in memory.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.filters import FileAttributes, FileFilter
from smg_core.retrieval.index import IndexFile
from smg_core.retrieval.indexes import ChunkHit, Query, Ranked
from smg_core.retrieval.words import TOKENIZER, index_words, looked_for, match_of, query_words

if TYPE_CHECKING:
    from smg_core.retrieval.vector_memory import VectorMemory

__all__ = ["SearchedIndex"]

_BUDGET = 5000  # chunks whose words are weighed for one query
_WORDS = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
_WORDS_OF_SOME = """
SELECT rowid, rank FROM words WHERE words MATCH ?
    AND (SELECT file FROM chunks WHERE chunks.id = words.rowid) IN (SELECT id FROM temp.allowed) ORDER BY rank LIMIT ?
"""
_COUNTED = 4096  # words of which it is known how many chunks have them


@attrs.frozen
class _File:
    """A file of the index that is whole."""

    key: str
    name: str
    attributes: FileAttributes


class SearchedIndex(IndexFile):
    """The index in the file `path`. At most `most_bytes` of its vectors stay in memory."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        super().__init__(path)
        self._most_bytes = most_bytes
        self._memory: VectorMemory | None = None
        self._meta: dict[str, int] = {}
        self._files: dict[int, _File] = {}
        self._others = False  # whether there are chunks of files that are not whole
        self._counts: dict[str, int] = {}
        with self.store_failures():
            run = self.connection.execute
            run(f"CREATE VIRTUAL TABLE temp.asked USING fts5 (text, tokenize='{TOKENIZER}')")
            run("CREATE VIRTUAL TABLE temp.asked_terms USING fts5vocab (temp, asked, 'instance')")
            run("CREATE TABLE temp.allowed (id INTEGER PRIMARY KEY)")

    @property
    def memory(self) -> int:
        """What its vectors take of memory."""
        return 0 if self._memory is None else self._memory.size

    def search(self, queries: Sequence[Query], filters: FileFilter | None, most: int) -> list[Ranked]:
        """What is found for each query: at most `most` chunks by words, and by vectors."""
        with self.lock, self.store_failures(), self.transaction("DEFERRED"):
            self._look()
            allowed = self._allowed(filters)
            self._allow(allowed)
            found: list[Ranked] = []
            for each in queries:
                words = self._by_words(each.text, allowed is not None, most) if allowed != [] else []
                found.append(Ranked(words, self._by_vector(each.vector, allowed, most) if allowed != [] else []))
            return found

    def hits(self, numbers: Iterable[int]) -> dict[int, ChunkHit]:
        """The chunks of these numbers, as far as they are there still."""
        with self.lock, self.store_failures(), self.transaction("DEFERRED"):
            self._look()
            return {number: hit for number in numbers if (hit := self._hit(number)) is not None}

    def _look(self) -> None:
        """Read again what has changed."""
        run = self.connection.execute
        before, self._meta = self._meta.get("changes"), dict(run("SELECT name, value FROM meta"))
        if self._meta["changes"] == before:
            return
        self._counts.clear()
        self._files, self._others = {}, False
        for number, key, name, attributes, ready in run("SELECT id, key, name, attributes, ready FROM files"):
            if ready:
                self._files[number] = _File(key, name, json.loads(attributes))
            else:
                self._others = True

    def _allowed(self, filters: FileFilter | None) -> list[int] | None:
        """The numbers of the files that may be found; None where all may."""
        if filters is not None:
            return [number for number, each in self._files.items() if filters.holds(each.attributes)]
        return list(self._files) if self._others else None

    def _allow(self, allowed: list[int] | None) -> None:
        if allowed is not None:
            self.connection.execute("DELETE FROM temp.allowed")
            self.connection.executemany("INSERT INTO temp.allowed VALUES (?)", ((each,) for each in allowed))

    def _by_words(self, text: str, some: bool, most: int) -> list[tuple[int, float]]:
        words = query_words(text)
        chosen = looked_for(words, self._counted(words), _BUDGET)
        if not chosen:
            return []
        statement = _WORDS_OF_SOME if some else _WORDS
        rows = self.connection.execute(statement, (match_of(chosen), most))
        return [(number, -rank) for number, rank in rows]

    def _counted(self, words: list[str]) -> dict[str, int]:
        """How many chunks have each of the words, or the rarest part of it."""
        run = self.connection.execute
        unknown = [each for each in words if each not in self._counts]
        if len(self._counts) + len(unknown) > _COUNTED:
            self._counts.clear()
            unknown = words
        if unknown:
            run("DELETE FROM temp.asked")
            rows = ((number, index_words(each)) for number, each in enumerate(unknown))
            self.connection.executemany("INSERT INTO temp.asked (rowid, text) VALUES (?, ?)", rows)
            self._counts.update(dict.fromkeys(unknown, 0))
            for term, number in run("SELECT term, doc FROM temp.asked_terms").fetchall():
                found = run("SELECT doc FROM terms WHERE term = ?", (term,)).fetchone()
                count, known = (0 if found is None else found[0]), self._counts[unknown[number]]
                self._counts[unknown[number]] = min(known, count) if known else count
        return {each: self._counts[each] for each in words}

    def _by_vector(
        self, vector: Sequence[float] | None, allowed: list[int] | None, most: int
    ) -> list[tuple[int, float]]:
        if vector is None or not self._meta["vector_bytes"] or len(vector) != self._meta["dimensions"]:
            return []
        import numpy as np

        from smg_core.retrieval.nearest import unit_vector
        from smg_core.retrieval.vector_memory import VectorMemory

        if self._memory is None:
            self._memory = VectorMemory(self.connection, self._most_bytes)
        files = None if allowed is None else np.asarray(allowed, dtype=np.int64)
        taken, size = self._meta["taken"], self._meta["vector_bytes"]
        return self._memory.nearest(unit_vector(vector), files, most, taken=taken, stored=size)

    def _hit(self, number: int) -> ChunkHit | None:
        row = self.connection.execute("SELECT file, text, start, stop FROM chunks WHERE id = ?", (number,)).fetchone()
        file = None if row is None else self._files.get(row[0])
        return None if file is None else ChunkHit(file.key, file.name, file.attributes, TextChunk(*row[1:]))
