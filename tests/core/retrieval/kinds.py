"""Both kinds of indexes, as tests and tools open them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from tests.shared import PATIENCE

from smg_core.retrieval.index_files import IndexFiles
from smg_core.retrieval.indexes import IndexName
from smg_core.retrieval.postgres_connections import IndexConnections
from smg_core.retrieval.postgres_indexes import PostgresIndexes
from smg_core.retrieval.postgres_statements import PostgresStatements
from smg_core.vector_stores.index_folder import FolderIndexes

__all__ = ["in_files", "in_postgres"]

MANY = 1 << 30


class Folder:
    """A place of the indexes' files, as `IndexPlace` has it for a gateway."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mark(self) -> str:
        return str(self.folder)

    def path(self, of: IndexName) -> Path:
        return self.folder / of.tenant / f"{of.store}.index"

    def made(self, of: IndexName) -> Path:
        return self.path(of)

    def names(self) -> Iterator[IndexName]:
        for each in sorted(self.folder.glob("*/*.index")):
            yield IndexName(each.parent.name, each.stem)

    def close(self) -> None:
        """Nothing: the folder is the test's."""


def in_files(folder: Path, pool: ThreadPoolExecutor) -> FolderIndexes:
    """Indexes in files of SQLite."""
    return FolderIndexes(cast("Any", Folder(folder)), IndexFiles(pool, MANY))


def in_postgres(url: str, pool: ThreadPoolExecutor, prefix: str, *, may_make: bool = True) -> PostgresIndexes:
    """Indexes in a PostgreSQL, in tables of this prefix."""
    statements = PostgresStatements(prefix)
    return PostgresIndexes(IndexConnections(url, statements, PATIENCE, may_make=may_make), statements, pool)
