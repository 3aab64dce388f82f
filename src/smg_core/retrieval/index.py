"""The index of one vector store: a file of SQLite with its chunks, their words and their vectors, and how it is written (edge).

Every process of a machine may have it open: one writes at a time, all read. A file of the store is put in piece by piece and
found once it is whole, so that what a process leaves that was killed is never found, and is taken out when the file is put in
again. The methods wait for the disk and are called in threads. Above: `index_search`, which looks into it, and indexing. Below:
sqlite3, words.
"""

import contextlib
import errno
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from smg_core.disk_room import check_disk_room
from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.filters import FileAttributes
from smg_core.retrieval.indexes import IndexFailed, IndexFull, VectorsDiffer
from smg_core.retrieval.words import index_words

__all__ = ["IndexFile"]

_VERSION = 1
_WAIT_S = 30.0  # for another process that writes
_TIMES = 4  # as long as a text is what is written of it, twice
_TAKEN_OUT = 200  # chunks that are taken out in one transaction

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('changes', 0), ('taken', 0), ('chunks', 0), ('vector_bytes', 0), ('dimensions', 0);
CREATE TABLE files (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, name TEXT NOT NULL, attributes TEXT NOT NULL,
    ready INTEGER NOT NULL);
CREATE INDEX files_key ON files (key);
CREATE TABLE chunks (id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX chunks_file ON chunks (file);
CREATE TABLE vectors (first INTEGER PRIMARY KEY, file INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX vectors_file ON vectors (file);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE terms USING fts5vocab (words, 'row');
"""
"""`meta` counts: what searches must notice, how often vectors went away, chunks, bytes of vectors, numbers of each vector."""


_SIZE = """
SELECT (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM chunks WHERE file IN
        (SELECT id FROM files WHERE key = ? AND ready = 1))
    + (SELECT coalesce(sum(length(data)), 0) FROM vectors WHERE file IN
        (SELECT id FROM files WHERE key = ? AND ready = 1))
"""


class IndexFile:
    """The file `path`, which is made where it is not there. One thread at a time uses it: who does holds `lock`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        with self.store_failures():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600, exist_ok=True)
            self.connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                self._open()
            except BaseException:
                self.connection.close()
                raise

    def _open(self) -> None:
        run = self.connection.execute
        for setting in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-8192", "temp_store=MEMORY"):
            run(f"PRAGMA {setting}")
        if run("PRAGMA user_version").fetchone()[0] != _VERSION:
            with self.transaction():
                if run("PRAGMA user_version").fetchone()[0] == 0:  # no other process has made them meanwhile
                    for statement in _TABLES.split(";\n")[:-1]:
                        run(statement)
                    run(f"PRAGMA user_version={_VERSION}")

    @contextlib.contextmanager
    def store_failures(self) -> Iterator[None]:
        """What SQLite and the file system refuse is a failure of the store."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            full = code == sqlite3.SQLITE_FULL or (
                isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            )
            raise IndexFailed("full" if full else "failed", f"{self.path}: {error}") from error

    @contextlib.contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """Do all of what is done in it, or nothing; what is read in it is of one moment."""
        self.connection.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            if self.connection.in_transaction:  # a full disk may have ended it
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        with self.lock:
            self.connection.close()

    def _count(self, name: str, by: int = 1) -> None:
        self.connection.execute("UPDATE meta SET value = value + ? WHERE name = ?", (by, name))

    # ------------------------------------------------------------------------------------------------------------ writing

    def begin(self, key: str, name: str) -> int:
        """Begin to put in the file `key`; returns its number. What there is of an earlier try is taken out."""
        with self.lock, self.store_failures():
            self._take_out(key)
            with self.transaction():
                self._count("changes")
                begun = self.connection.execute(
                    "INSERT INTO files (key, name, attributes, ready) VALUES (?, ?, '{}', 0)", (key, name)
                )
                return int(begun.lastrowid or 0)

    def add(self, number: int, chunks: Sequence[TextChunk], vectors: bytes | None, most: int) -> None:
        """Put in the next chunks of a file, with the bytes of their vectors. Raises IndexFull where the store would have more
        than `most`, and IndexFailed where the file was taken out meanwhile."""
        with self.lock, self.store_failures(), self.transaction():
            run = self.connection.execute
            if run("SELECT 1 FROM files WHERE id = ?", (number,)).fetchone() is None:
                raise IndexFailed("failed", f"{self.path}: a file was taken out while it was put in")
            if run("SELECT value FROM meta WHERE name = 'chunks'").fetchone()[0] + len(chunks) > most:
                raise IndexFull
            check_disk_room(self.path, _TIMES * sum(len(each.text) for each in chunks))
            first = 0
            for chunk in chunks:
                put = run(
                    "INSERT INTO chunks (file, start, stop, text) VALUES (?, ?, ?, ?)",
                    (number, chunk.start, chunk.end, chunk.text),
                )
                run("INSERT INTO words (rowid, text) VALUES (?, ?)", (put.lastrowid, index_words(chunk.text)))
                first = first or int(put.lastrowid or 0)
            self._count("chunks", len(chunks))
            if vectors is not None and chunks:
                self._check_dimensions(len(vectors) // (2 * len(chunks)))
                run("INSERT INTO vectors (first, file, data) VALUES (?, ?, ?)", (first, number, vectors))
                self._count("vector_bytes", len(vectors))

    def _check_dimensions(self, dimensions: int) -> None:
        """All vectors of an index have the same length."""
        run = self.connection.execute
        (known,) = run("SELECT value FROM meta WHERE name = 'dimensions'").fetchone()
        if known and known != dimensions:
            raise VectorsDiffer(f"vectors of {dimensions} numbers, where there are those of {known}")
        if not known:
            run("UPDATE meta SET value = ? WHERE name = 'dimensions'", (dimensions,))

    def finish(self, number: int, key: str, attributes: FileAttributes) -> None:
        """Have a file found that is whole, in place of an earlier one of its key."""
        with self.lock, self.store_failures():
            with self.transaction():
                run = self.connection.execute
                run("UPDATE files SET ready = 0 WHERE key = ?", (key,))
                text = json.dumps(dict(attributes))
                run("UPDATE files SET ready = 1, attributes = ? WHERE id = ?", (text, number))
                self._count("changes")
            self._take_out(key)

    def set_attributes(self, key: str, attributes: FileAttributes) -> None:
        """Have a file's attributes be these."""
        with self.lock, self.store_failures(), self.transaction():
            text = json.dumps(dict(attributes))
            self.connection.execute("UPDATE files SET attributes = ? WHERE key = ?", (text, key))
            self._count("changes")

    def remove(self, key: str) -> None:
        """Take a file out."""
        with self.lock, self.store_failures():
            with self.transaction():
                self.connection.execute("UPDATE files SET ready = 0 WHERE key = ?", (key,))
                self._count("changes")
            self._take_out(key)

    def _take_out(self, key: str) -> None:
        """Take out what there is of a file that is not to be found, some at a time, so that others can write in between."""
        run = self.connection.execute
        for (number,) in run("SELECT id FROM files WHERE key = ? AND ready = 0", (key,)).fetchall():
            while True:
                with self.transaction():
                    gone = run(
                        "SELECT coalesce(sum(length(data)), 0) FROM vectors WHERE file = ?", (number,)
                    ).fetchone()
                    run("DELETE FROM vectors WHERE file = ?", (number,))
                    self._count("vector_bytes", -gone[0])
                    some = run("SELECT id, text FROM chunks WHERE file = ? LIMIT ?", (number, _TAKEN_OUT)).fetchall()
                    for id, text in some:
                        unsaid = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
                        run(unsaid, (id, index_words(text)))
                        run("DELETE FROM chunks WHERE id = ?", (id,))
                    self._count("chunks", -len(some))
                    self._count("taken")
                    self._count("changes")
                    if len(some) < _TAKEN_OUT:
                        run("DELETE FROM files WHERE id = ?", (number,))
                        break

    # ------------------------------------------------------------------------------------------------------------ reading

    def size(self, key: str) -> int:
        """Bytes that the texts and vectors of a file take."""
        with self.lock, self.store_failures():
            (found,) = self.connection.execute(_SIZE, (key, key)).fetchone()
            return int(found)

    def texts(self, key: str, most: int) -> list[TextChunk] | None:
        """The chunks of a file in order; None where they have more than `most` bytes."""
        if self.size(key) > most:
            return None
        with self.lock, self.store_failures():
            rows = self.connection.execute(
                "SELECT text, start, stop FROM chunks JOIN files ON files.id = chunks.file "
                "WHERE files.key = ? AND files.ready = 1 ORDER BY chunks.id",
                (key,),
            )
            return [TextChunk(*row) for row in rows]
