"""Our errors for a database's failures.

Decides which error of SQLAlchemy, a driver or the system is which `StoreFailed`. IntegrityError is left as it is: it says
something about a write. Above: `store`, `group_commit`. Below: SQLAlchemy's error classes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import sqlalchemy as sa

from smg_core.errors import StoreFailed

__all__ = ["failures_of"]

_FULL = (
    "disk is full",
    "no space left",
    "disk full",
    "53100",
    "database or disk is full",
    "ora-01653",
    "ora-01654",
    "oom ",
)
_UNREACHABLE = ("connect", "08006", "08001", "57p01", "terminat", "closed", "unable to open", "dpy-4011", "dpy-6005")


@contextmanager
def failures_of(what: str) -> Iterator[None]:
    """Turns what fails inside into a StoreFailed whose detail says that it failed at `what`."""
    try:
        yield
    except sa.exc.IntegrityError:
        raise
    except TimeoutError as error:
        raise StoreFailed("unreachable", f"{what}: no answer in time (history.timeout_s)") from error
    except OSError as error:
        raise StoreFailed("unreachable", f"{what}: {error}", outside_text=str(error)) from error
    except sa.exc.SQLAlchemyError as error:
        raise StoreFailed(_reason(error), f"{what}: {_text(error)}", outside_text=_text(error)) from error


def _reason(error: sa.exc.SQLAlchemyError) -> Literal["unreachable", "full", "failed"]:
    text = _text(error).lower()
    if any(each in text for each in _FULL):
        return "full"
    lost = isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated
    return "unreachable" if lost or any(each in text for each in _UNREACHABLE) else "failed"


def _text(error: sa.exc.SQLAlchemyError) -> str:
    """The driver's own words: SQLAlchemy's would repeat the statement with what was to be written."""
    return str(error.orig) if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else type(error).__name__
