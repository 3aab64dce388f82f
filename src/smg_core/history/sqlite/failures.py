"""The names that failures of SQLite and of its file have here.

Decides which error of `sqlite3` or of the system is which `StoreFailed`. Pure. Above: `store`, `writer`, `readers`.
"""

import sqlite3
from typing import Literal

from smg_core.errors import SmgError, StoreFailed

__all__ = ["FAILURES", "failure", "too_late"]

FAILURES = (sqlite3.Error, OSError, UnicodeError, OverflowError)
"""What SQLite, its file, and a value that it does not take raise."""


def failure(what: str, error: Exception) -> SmgError:
    """The StoreFailed of what failed at `what`; an error of ours as it is."""
    if isinstance(error, SmgError):
        return error
    outside_text = str(error)
    if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return too_late(what, outside_text)
    return StoreFailed(_reason(error), f"{what}: {outside_text}", outside_text=outside_text)


def too_late(what: str, outside_text: str = "") -> StoreFailed:
    """The StoreFailed of what has taken too long."""
    return StoreFailed("unreachable", f"{what}: no answer in time (history.timeout_s)", outside_text=outside_text)


def _reason(error: Exception) -> Literal["unreachable", "full", "failed"]:
    if _code(error) == sqlite3.SQLITE_FULL:
        return "full"
    lost = isinstance(error, OSError | sqlite3.ProgrammingError) or _code(error) == sqlite3.SQLITE_CANTOPEN
    return "unreachable" if lost else "failed"


def _code(error: Exception) -> int:
    """SQLite's own code of an error, without what is more exact; 0 where it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0
