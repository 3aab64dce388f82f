"""The file that the URL of a history in SQLite names, and connections to it (edge).

Connecting waits for the disk: it is done in threads. Above: `store`, `writer`, `readers`. Below: sqlite3, `store.urls`.
"""

import errno
import re
import sqlite3
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

import attrs

from smg_core.history.sql.sqlite_file import OLDEST_SQLITE
from smg_core.history.store.urls import check_parameters
from smg_core.settings import ConfigError

__all__ = ["SqlitePlace", "sqlite_place"]

_URL = re.compile(r"sqlite://(?P<host>[^/?]*)(?:/(?P<file>[^?]*))?(?:\?(?P<query>.*))?", re.DOTALL)
_YES = frozenset({"true", "yes", "on", "y", "t", "1"})


@attrs.frozen
class SqlitePlace:
    """The file of a history: its name as SQLite takes it, and its path; None where the name is a URI, which may lead to none."""

    name: str
    path: Path | None

    def connected(self, seconds: float) -> sqlite3.Connection:
        """A connection that any thread may use, one at a time, and that waits `seconds` for others. Raises sqlite3.Error."""
        return sqlite3.connect(
            self.name, timeout=seconds, isolation_level=None, check_same_thread=False, uri=self.path is None
        )

    def found(self) -> tuple[int, int] | None:
        """Which file the path leads to now. Raises OSError."""
        if self.path is None:
            return None
        found = self.path.stat()
        return found.st_dev, found.st_ino

    def check(self, opened: tuple[int, int] | None) -> None:
        """Raise OSError where the file that was `opened` is gone, or is another one. When it is deleted or replaced, SQLite goes
        on with the file that no path leads to any more, and what it says is kept is lost with the process."""
        if self.found() != opened:
            raise OSError(errno.ESTALE, "this is not the file that was opened", self.name)


def sqlite_place(url: str) -> SqlitePlace:
    """What a URL names. Raises ConfigError."""
    parts = _URL.fullmatch(url)
    if parts is None or "\x00" in unquote(url):
        raise ConfigError("history.url: this is no URL of a database")
    query = dict(parse_qsl(parts["query"] or ""))
    check_parameters("sqlite", query)
    file = unquote(parts["file"] or "")
    if parts["host"]:
        raise ConfigError(
            "history.url: an absolute path of an SQLite file begins with a fourth slash, sqlite:////path/file"
        )
    if file in ("", ":memory:"):
        raise ConfigError("history.url: this names no SQLite file; memory: keeps the history in memory")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigError(
            f"history.url: SQLite is of version {sqlite3.sqlite_version}; 3.25 is the oldest that will do"
        )
    if query.pop("uri", "").lower() in _YES or file.startswith("file:"):
        more = "&".join([f"{name}={quote(value)}" for name, value in sorted(query.items())])
        return SqlitePlace(f"{file}?{more}" if more else file, None)
    path = Path(file).absolute()
    return SqlitePlace(str(path), path)
