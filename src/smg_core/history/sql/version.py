"""Finds out whether the tables of a database are of the version that this code knows.

It reads one row, so that alembic, which takes long to load, is loaded only where tables have to change. Above: `store`, at the
start. Below: `names`, and `migrate`, which is imported when it is needed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from smg_core.history.sql.names import FOLDER, Names, newest_version

if TYPE_CHECKING:
    from smg_core.history.sql.migrate import Migrations

__all__ = ["SchemaVersion"]


class SchemaVersion:
    """The version of the tables with these names, beside the newest in `folder`. Without `allowed`, older tables are refused and
    not changed."""

    def __init__(self, names: Names, folder: Path = FOLDER, *, allowed: bool = True) -> None:
        self._names, self._folder, self._allowed = names, folder, allowed

    def newest(self) -> str:
        """The newest version."""
        return newest_version(self._folder)

    def is_newest(self, connection: sa.Connection) -> bool:
        """Whether the tables are of the newest version. False too where there are no tables yet."""
        name, schema = self._names.table("schema_version"), self._names.schema
        if not sa.inspect(connection).has_table(name, schema=schema):
            return False
        table = sa.table(name, sa.column("version_num"), schema=schema)
        return connection.execute(sa.select(table.c.version_num)).scalars().all() == [self.newest()]

    def migrations(self) -> "Migrations":
        """What brings the tables to the newest version. Loads alembic: to be called in a thread."""
        from smg_core.history.sql.migrate import Migrations

        return Migrations(self._names, self._folder, allowed=self._allowed)
