"""Brings the tables of a database to the version that this code knows, with alembic.

Versions run forward only. Each adds and none takes away, so that processes of the version before go on meanwhile. Called by `sql`
at the start, on a connection in a transaction, where `version` has found older tables or none. Above: `version`, which
imports this module then, and `store`. Below: `names`, `migrations/versions`.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from smg_core.errors import StoreFailed
from smg_core.history.sql.names import Names

__all__ = ["Migrations"]

_LOCK = 0x536D6768  # of PostgreSQL's advisory locks, ours


class Migrations:
    """The versions in `folder`, for tables of these names. Without `allowed`, older tables are refused and not changed."""

    def __init__(self, names: Names, folder: Path, *, allowed: bool) -> None:
        self._names, self._allowed = names, allowed
        self._config = Config()
        self._config.set_main_option("script_location", str(folder).replace("%", "%%"))
        self._script = ScriptDirectory.from_config(self._config)

    def outdated(self, connection: sa.Connection) -> bool:
        """Whether the tables are not of the newest version. Raises StoreFailed where this code does not know theirs."""
        current = MigrationContext.configure(connection, opts=self._options()).get_current_revision()
        if current is not None:
            try:
                self._script.get_revision(current)
            except CommandError:
                what = f"its tables are of version {current}, which is newer than this program"
                raise StoreFailed("failed", what) from None
        if current == self._script.get_current_head():
            return False
        if not self._allowed:
            raise StoreFailed("failed", f"its tables are of version {current}, and history.migrate is off")
        return True

    def run(self, connection: sa.Connection) -> None:
        """Run what is missing. One process does it; others that come meanwhile wait and find it done."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        if not self.outdated(connection):
            return

        def steps(revision: Any, context: MigrationContext) -> Any:
            return self._script._upgrade_revs("head", revision)

        with EnvironmentContext(self._config, self._script, fn=steps) as environment:
            environment.configure(connection=connection, **self._options())
            environment.run_migrations(names=self._names)

    def _options(self) -> dict[str, Any]:
        return {"version_table": self._names.table("schema_version"), "version_table_schema": self._names.schema}
