"""The names of the history's tables and columns, and their version in this code.

Decides names. Needs no library of a database, so that a file can be looked into before one is loaded. Above: `tables`,
`version`, `migrate`, `sqlite_file`. Below: the standard library.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from smg_core.settings import ConfigError

__all__ = ["COLUMNS", "FOLDER", "Names", "newest_version"]

FOLDER = Path(__file__).parent / "migrations"
"""Where the steps from version to version are."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

COLUMNS: Mapping[str, Sequence[str]] = {
    "responses": (
        *("tenant", "id", "previous_id", "conversation_id", "status", "model", "pending", "created_at", "expires_at"),
        *("version", "size", "body", "input", "output"),
    ),
    "response_items": ("tenant", "item_id", "response_id"),
    "conversations": ("tenant", "id", "metadata", "created_at", "expires_at", "version", "next_position"),
    "items": ("tenant", "conversation_id", "id", "position", "response_id", "body", "created_at"),
    "event_logs": ("tenant", "response_id", "expires_at"),
    "events": ("tenant", "response_id", "number", "data"),
    "records": ("tenant", "kind", "id", "body", "pending", "created_at", "expires_at", "version"),
    "leases": ("tenant", "kind", "id", "owner", "token", "expires_at"),
    "schema_version": (),
}


@attrs.frozen
class Names:
    """What tables and columns are called. `renamed` has own names, by "table" or "table.column"."""

    prefix: str = "smg_"
    schema: str | None = None
    renamed: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def parse(cls, prefix: str, schema: str | None, names: Sequence[str]) -> "Names":
        """From settings. Raises ConfigError for a table or column that there is none of, and for a name that is none."""
        renamed: dict[str, str] = {}
        known = {*COLUMNS, *(f"{table}.{column}" for table, columns in COLUMNS.items() for column in columns)}
        for each in names:
            what, _, name = each.partition("=")
            if what not in known:
                raise ConfigError(f"history.names: there is no table or column {what!r}")
            renamed[what] = name
        for name in (*renamed.values(), *([prefix] if prefix else []), *([schema] if schema else [])):
            if not _IDENTIFIER.fullmatch(name):
                raise ConfigError(
                    f"history: {name!r} is no name for a table or a column: letters, digits and _, at most 63"
                )
        found = cls(prefix, schema, renamed)
        for kind, used in {
            "tables": found.tables,
            **{f"columns of {each}": found.columns(each) for each in COLUMNS},
        }.items():
            if len(set(used)) < len(used):
                raise ConfigError(f"history.names: two {kind} have the same name")
        return found

    @property
    def tables(self) -> list[str]:
        return [self.table(each) for each in COLUMNS]

    def columns(self, table: str) -> list[str]:
        return [self.column(table, each) for each in COLUMNS[table]]

    def table(self, table: str) -> str:
        return self.renamed.get(table, f"{self.prefix}{table}")

    def column(self, table: str, column: str) -> str:
        return self.renamed.get(f"{table}.{column}", column)

    def index(self, table: str, what: str) -> str:
        return f"{self.table(table)}_{what}"


def newest_version(folder: Path = FOLDER) -> str:
    """The newest version, by the names of the files: `v0001_first.py` is version 0001."""
    return max(file.name[1:].partition("_")[0] for file in (folder / "versions").glob("v*_*.py"))
