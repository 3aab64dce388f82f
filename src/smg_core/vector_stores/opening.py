"""The indexes of vector stores, by the history: in the same PostgreSQL, or in files of this machine (edge).

Above: `work`. Below: both, each loaded when it is used.
"""

import asyncio
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from smg_core.history.settings import HistoryConfig
from smg_core.retrieval.indexes import Indexes
from smg_core.serving.services import Services
from smg_core.vector_stores.place import IndexPlace, why_no_stores

if TYPE_CHECKING:
    from smg_core.retrieval.postgres_statements import PostgresStatements

__all__ = ["may_hold_indexes", "opened_indexes"]

_POSTGRES = "postgresql:"


def opened_indexes(services: Services, pool: Executor) -> Indexes:
    """The indexes of one gateway, whose work in threads is done in `pool`."""
    config = services.live.config
    url = config.history.url or ""
    if not url.startswith(_POSTGRES):
        from smg_core.retrieval.index_files import IndexFiles
        from smg_core.vector_stores.index_folder import FolderIndexes

        return FolderIndexes(IndexPlace(services), IndexFiles(pool, config.vector_stores.memory_bytes))
    from smg_core.retrieval.postgres_connections import IndexConnections
    from smg_core.retrieval.postgres_indexes import PostgresIndexes

    statements = _statements(config.history)
    connections = IndexConnections(url, statements, config.history.timeout_s, may_make=config.history.migrate)
    return PostgresIndexes(connections, statements, pool)


async def may_hold_indexes(services: Services) -> bool:
    """Whether there may be indexes: their folder, or their tables, are there. Raises IndexFailed."""
    history = services.live.config.history
    if why_no_stores(services):
        return False
    if (history.url or "").startswith(_POSTGRES):
        from smg_core.retrieval.postgres_connections import has_index_tables

        return await has_index_tables(history.url or "", _statements(history), history.timeout_s)
    named = IndexPlace(services).named
    return named is not None and await asyncio.to_thread(named.is_dir)


def _statements(history: HistoryConfig) -> "PostgresStatements":
    from smg_core.retrieval.postgres_statements import PostgresStatements

    return PostgresStatements(history.prefix, history.schema)
