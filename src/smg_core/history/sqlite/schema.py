"""Makes the tables of a history in SQLite, and brings older ones to the version that this code knows.

Decides the tables, as `sql.migrations` does for other databases, and writes their version where Alembic does: older gateways go
on with a file from here, and files of theirs are read here. Versions run forward only, and each adds. Above: `store`, in a
thread. Below: `sql.names`, a connection.
"""

# ruff: noqa: S608  # what is put into the texts are names, which `Names` has checked; every value is a parameter

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile

from smg_core.errors import StoreFailed
from smg_core.history.sql.names import COLUMNS, Names
from smg_core.history.sqlite.statements import KEYS, quoted

__all__ = ["STEPS", "bring_up_to_date"]

SchemaStep = Callable[[sqlite3.Connection, Names], None]

_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("body", "input", "output", "data", "metadata"), "BLOB"),
    **dict.fromkeys(("version", "size", "position", "next_position", "number", "token"), "BIGINT"),
    **dict.fromkeys(("created_at", "expires_at"), "DOUBLE"),
    "pending": "BOOLEAN",
}
_OPTIONAL = frozenset({"responses.previous_id", "responses.conversation_id", "items.response_id"})
_INDEXES: Sequence[tuple[str, str, Sequence[str]]] = (
    *[
        (each, "expires_at", ("expires_at",))
        for each in ("responses", "conversations", "event_logs", "records", "leases")
    ],
    ("response_items", "response_id", ("tenant", "response_id")),
    ("items", "position", ("tenant", "conversation_id", "position")),
    ("records", "id", ("tenant", "kind", "created_at", "id")),
    ("responses", "pending", ("created_at",)),
    ("records", "pending", ("created_at",)),
)
"""Each with its table, what its name ends with, and its columns. One that is called pending has the pending rows alone."""


def _first(connection: sqlite3.Connection, names: Names) -> None:
    """Responses and the items they hold, conversations with items, events, records, leases."""
    for table, keys in KEYS.items():
        columns = [_column(names, table, each) for each in COLUMNS[table]]
        columns.append(f"PRIMARY KEY ({_listed(names, table, keys)})")
        connection.execute(f"CREATE TABLE {quoted(names.table(table))} ({', '.join(columns)})")
    for table, what, indexed in _INDEXES:
        where = f" WHERE {quoted(names.column(table, 'pending'))} IS TRUE" if what == "pending" else ""
        connection.execute(
            f"CREATE INDEX {quoted(names.index(table, what))} ON {quoted(names.table(table))} "
            f"({_listed(names, table, indexed)}){where}"
        )


def _column(names: Names, table: str, column: str) -> str:
    optional = column == "expires_at" or f"{table}.{column}" in _OPTIONAL
    return (
        f"{quoted(names.column(table, column))} {_TYPES.get(column, 'VARCHAR(255)')}{'' if optional else ' NOT NULL'}"
    )


def _listed(names: Names, table: str, columns: Sequence[str]) -> str:
    return ", ".join([quoted(names.column(table, each)) for each in columns])


STEPS: Mapping[str, SchemaStep] = {"0001": _first}
"""How the tables of each version come to be from those of the one before, oldest first."""


def bring_up_to_date(
    connection: sqlite3.Connection, names: Names, *, allowed: bool, steps: Mapping[str, SchemaStep] = STEPS
) -> None:
    """Bring the tables to the newest version, in one transaction: who comes meanwhile waits, and finds it done. Raises
    StoreFailed where that is needed and not `allowed`, or where the code does not know theirs; and sqlite3.Error."""
    if _missing(connection, names, allowed=allowed, steps=steps):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for version, step in _missing(connection, names, allowed=allowed, steps=steps):
                step(connection, names)
                _note(connection, names, version)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _missing(
    connection: sqlite3.Connection, names: Names, *, allowed: bool, steps: Mapping[str, SchemaStep]
) -> list[tuple[str, SchemaStep]]:
    """The steps that the tables have not been through."""
    current = _version(connection, names.table("schema_version"))
    if current is not None and current not in steps:
        newer = f"its tables are of version {current}, which is newer than this program"
        raise StoreFailed("failed", newer, outside_text=current)
    later = list(dropwhile(lambda step: step[0] != current, steps.items()))[1:] if current else list(steps.items())
    if later and not allowed:
        refused = f"its tables are of version {current}, and history.migrate is off"
        raise StoreFailed("failed", refused, outside_text=str(current))
    return later


def _version(connection: sqlite3.Connection, table: str) -> str | None:
    """The version of the tables, None where there are none."""
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    found = connection.execute(f"SELECT version_num FROM {quoted(table)}").fetchone() if there else None
    return None if found is None else str(found[0])


def _note(connection: sqlite3.Connection, names: Names, version: str) -> None:
    """Write the version, in the table and in the form of Alembic."""
    table, key = quoted(names.table("schema_version")), quoted(f"{names.table('schema_version')}_pkc")
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table} (version_num VARCHAR(32) NOT NULL, CONSTRAINT {key} PRIMARY KEY (version_num))"
    )
    connection.execute(f"DELETE FROM {table}")
    connection.execute(f"INSERT INTO {table} (version_num) VALUES (?)", (version,))
