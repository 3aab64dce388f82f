"""The tables of the history, under the names that the deployment gives them.

Decides columns and indexes. The tables as they are now; how they came to be is in `migrations`, and a test holds the two
together. Columns are used by their own names (`tables.responses.c.body`), whatever they are called in the database.
Above: `statements`, `store`. Below: `names`, SQLAlchemy Core.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from smg_core.history.sql.names import COLUMNS, Names

__all__ = ["ShortText", "StoreTables"]

LONGEST_NAME = 255  # characters of a tenant, a kind or an id


class ShortText(sa.TypeDecorator[str]):
    """A tenant, a kind, an id or another short text. Oracle takes an empty one for NULL: there it gets a mark."""

    impl = sa.String(LONGEST_NAME)
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        marked = dialect.name == "oracle" and value is not None and (not value or value.startswith("~"))
        return f"~{value}" if marked else value

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return value[1:] if dialect.name == "oracle" and value is not None and value.startswith("~") else value


_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("body", "input", "output", "data", "metadata"), sa.LargeBinary),
    **dict.fromkeys(("version", "size", "position", "next_position", "number", "token"), sa.BigInteger),
    **dict.fromkeys(("created_at", "expires_at"), sa.Double),
    "pending": sa.Boolean,
}
_KEYS: Mapping[str, Sequence[str]] = {
    "responses": ("tenant", "id"),
    "response_items": ("tenant", "item_id", "response_id"),
    "conversations": ("tenant", "id"),
    "items": ("tenant", "conversation_id", "id"),
    "event_logs": ("tenant", "response_id"),
    "events": ("tenant", "response_id", "number"),
    "records": ("tenant", "kind", "id"),
    "leases": ("tenant", "kind", "id"),
}
_OPTIONAL = frozenset({"previous_id", "conversation_id", "expires_at", "items.response_id"})


class StoreTables:
    """The tables under the given names."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.metadata = sa.MetaData(schema=names.schema)
        self.responses = self._table("responses")
        self.response_items = self._table("response_items")
        self.conversations = self._table("conversations")
        self.items = self._table("items")
        self.event_logs = self._table("event_logs")
        self.events = self._table("events")
        self.records = self._table("records")
        self.leases = self._table("leases")
        for table in (self.responses, self.conversations, self.event_logs, self.records, self.leases):
            self._index(table, "expires_at")
        self._index(self.response_items, "tenant", "response_id")
        self._index(self.items, "tenant", "conversation_id", "position")
        self._index(self.records, "tenant", "kind", "created_at", "id")
        for table in (self.responses, self.records):
            where = table.c.pending.is_(sa.true())
            name = names.index(table.info["name"], "pending")
            sa.Index(name, table.c.created_at, sqlite_where=where, postgresql_where=where)

    def _table(self, name: str) -> sa.Table:
        columns = [self._column(name, column) for column in COLUMNS[name]]
        return sa.Table(self.names.table(name), self.metadata, *columns, info={"name": name})

    def _column(self, table: str, column: str) -> sa.Column[object]:
        return sa.Column(
            self.names.column(table, column),
            _TYPES.get(column, ShortText),
            key=column,
            primary_key=column in _KEYS[table],
            nullable=not _OPTIONAL.isdisjoint({column, f"{table}.{column}"}) and column not in _KEYS[table],
            autoincrement=False,
        )

    def _index(self, table: sa.Table, *columns: str) -> None:
        name = self.names.index(table.info["name"], columns[-1] if len(columns) > 1 else columns[0])
        sa.Index(name, *(table.c[column] for column in columns))
