"""Opens the file of an SQLite history, and looks into it with the standard library alone (edge).

What a gateway that keeps nothing needs to know of its file (that it can be written to, that its tables are of this version,
whether work waits in it) is asked here, in a few queries by an index. Its functions wait for the disk: they are called in a
thread. Above: `history.sqlite`, `history.deferred`. Below: sqlite3, `names`.
"""

import contextlib
import sqlite3
import threading
from pathlib import Path
from urllib.parse import unquote

from smg_core.errors import StoreFailed
from smg_core.history.sql.names import Names, newest_version
from smg_core.history.store.base import KEYS_OWNER, LEASE_KEPT_S, SERVED_MODELS

__all__ = ["OLDEST_SQLITE", "SqliteFile", "file_of", "prepare_file"]

OLDEST_SQLITE = (3, 25)
"""The first version with ON CONFLICT and sums over rows before."""

_TRIES = 20  # to turn on the write-ahead log, each after another process has finished with the file
_EXPIRING = ("responses", "conversations", "event_logs", "records", "leases")


def prepare_file(name: str, seconds: float, *, uri: bool = False) -> None:
    """Open the file of an SQLite database once and turn on its write-ahead log. Raises StoreFailed where it cannot be opened, or
    where others hold it for `seconds`."""
    try:
        if name != ":memory:" and not uri:
            _make_private(name)
        with contextlib.closing(sqlite3.connect(name, timeout=seconds, isolation_level=None, uri=uri)) as connection:
            _write_ahead(connection)
    except (OSError, sqlite3.Error) as error:
        raise StoreFailed("unreachable", f"{name}: {error}", outside_text=str(error)) from error


def _make_private(name: str) -> None:
    """Make the file where there is none, for this user alone: it will hold what users say. SQLite makes its files by the
    umask, most often so that all may read them; the log beside a file has the rights of the file."""
    with contextlib.suppress(FileExistsError):
        Path(name).touch(mode=0o600, exist_ok=False)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn on the write-ahead log, which stays on. While another process does so too, or reads a new file, SQLite refuses without
    waiting; then this waits until the other has finished, and tries again. A file system without shared memory cannot have the
    log: there the database is used without it."""
    for _ in range(_TRIES):
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        else:
            if mode != ("delete",):
                return
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")


def file_of(url: str) -> str | None:
    """The path of the file that a plain URL names, `sqlite:///FILE`. None for a URL that says more, or that is wrong: what it
    means is then for `sqlite.place` to say."""
    scheme, _, rest = url.partition("///")
    path = unquote(rest)
    can_be_merged = scheme == "sqlite:" and "?" not in rest and path.isprintable()
    return path if can_be_merged and path not in ("", ":memory:") and not path.startswith("file:") else None


class SqliteFile:
    """A file with the tables `names`, looked into over one connection that only reads. Its methods may be called in any thread;
    one looks at a time."""

    def __init__(self, path: str, names: Names, seconds: float) -> None:
        """`seconds` is how long a look may wait for others."""
        self._path, self._names, self._seconds = path, names, seconds
        self._connection: sqlite3.Connection | None = None
        self._looking = threading.Lock()
        self._closed = False

    def is_usable(self, *, may_make: bool) -> bool:
        """Whether nothing is to be done to the tables now: they are of the newest version, or there are none yet and `may_make`
        says that they may be made later. Raises sqlite3.Error."""
        wanted = set(self._names.tables)
        there = {row[0] for row in self._rows("SELECT name", "sqlite_master", "type = 'table'")} & wanted
        if not there:
            return may_make
        version = _quoted(self._names.table("schema_version"))
        return there == wanted and self._rows("SELECT version_num", version) == [(newest_version(),)]

    def has_work(self, now: float) -> bool:
        """Whether a response or a record waits for a process to work on it, or another process says at the time `now` what it
        serves, so that it may leave work to this one. Raises sqlite3.Error."""
        return self._has_tables() and (
            self._is_pending("responses") or self._is_pending("records") or self._has_pending(now)
        )

    def has_expired(self, now: float) -> bool:
        """Whether there is anything whose time is up at `now`. Raises sqlite3.Error."""
        if not self._has_tables():
            return False
        for table in _EXPIRING:
            at = now - LEASE_KEPT_S if table == "leases" else now
            if self._rows("SELECT 1", self._table(table), f"{self._column(table, 'expires_at')} <= ? LIMIT 1", at):
                return True
        return False

    def close(self) -> None:
        """Let go of the file. A look that comes later finds nothing."""
        with self._looking:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _has_tables(self) -> bool:
        """Whether the tables are there: nobody has kept anything before. They are all made in one transaction."""
        name = self._names.table("schema_version")
        return bool(self._rows("SELECT 1", "sqlite_master", "type = 'table' AND name = ?", name))

    def _is_pending(self, table: str) -> bool:
        pending, created = self._column(table, "pending"), self._column(table, "created_at")
        return bool(self._rows("SELECT 1", self._table(table), f"{pending} IS TRUE ORDER BY {created} LIMIT 1"))

    def _has_pending(self, now: float) -> bool:
        tenant, kind, expires = (self._column("records", each) for each in ("tenant", "kind", "expires_at"))
        where = f"{tenant} = ? AND {kind} = ? AND {expires} > ? LIMIT 1"
        return bool(self._rows("SELECT 1", self._table("records"), where, KEYS_OWNER, SERVED_MODELS, now))

    def _table(self, table: str) -> str:
        return _quoted(self._names.table(table))

    def _column(self, table: str, column: str) -> str:
        return _quoted(self._names.column(table, column))

    def _rows(self, select: str, table: str, where: str = "TRUE", *parameters: object) -> list[tuple[object, ...]]:
        """Rows of a table; names in what is given are quoted, and values are parameters."""
        query = " ".join((select, "FROM", table, "WHERE", where))
        with self._looking:
            if self._closed:
                return []
            if self._connection is None:
                self._connection = self._connected()
            return self._connection.execute(query, parameters).fetchall()

    def _connected(self) -> sqlite3.Connection:
        """A connection that writes nothing into the database, and makes none."""
        where = f"{Path(self._path).absolute().as_uri()}?mode=rw"
        found = sqlite3.connect(
            where, uri=True, timeout=self._seconds, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        found.execute("PRAGMA query_only=ON")
        found.execute("PRAGMA cache_size=-64")  # KiB of pages
        return found


def _quoted(name: str) -> str:
    """A name in a statement; `Names` has checked that it is made of letters, digits and _."""
    return f'"{name}"'
