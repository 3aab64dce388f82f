"""The default place of the history of `smg-gateway serve` (edge): a file of this gateway alone in the user's state folder.

A gateway is a supervisor and its processes; its name is a setting, or where it listens. The file belongs to the name, and a lock
on it to the gateway that runs: the lock is held by the process that `serve` was called in and ends with it, however that ends. A
gateway on a free port without a name gets a file that is deleted when it ends. Versions before kept one file for all gateways of
a user; the first gateway that is started takes it over. Above: processes.serve. Below: the settings, machine.scratch.
"""

import contextlib
import logging
import os
import re
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import attrs

from smg_core.config import Config
from smg_core.machine.scratch import Scratch
from smg_core.settings import ConfigError

__all__ = ["DefaultStore", "gateway_name", "is_default_store"]

log = logging.getLogger("smg.server")

_FILE = "history.db"
_BOUND = "history.db.gateway"  # the name of the gateway that has taken over the file for all gateways
_LOCK = "lock"


def gateway_name(config: Config) -> str:
    """The name of a gateway, which it has again after a restart: the one that is set, else its listening address; "" where that
    is a free port. Upper and lower case are the same."""
    server, named = config.server, config.history.gateway
    if named is not None:
        return named.lower()
    return f"{server.host}:{server.port}".lower() if server.port else ""


def is_default_store(url: str | None, environ: Mapping[str, str]) -> bool:
    """Whether the URL of a history is one that `DefaultStore` has filled in."""
    return url is not None and url.startswith(f"{_url(state_folder(environ))}/")


class DefaultStore:
    """The default store of the gateway `name`, taken when it is first needed. `environ` says where the state folder is."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self._name = name
        self._state = state_folder(environ)
        self._file: Path | None = None
        self._lock: int | None = None
        self._scratch: Scratch | None = None

    def filled_in(self, config: Config) -> Config:
        """The configuration with a place for the history, where it names none. Raises OSError where no file can be made, and
        ConfigError where another gateway of this name is running."""
        if config.history.url is not None:
            return config
        if self._file is None:
            self._file = self._taken() if self._name else self._passing()
        else:
            log.info("the new processes go on with the history in %s", self._file)
        return attrs.evolve(config, history=attrs.evolve(config.history, url=_url(self._file)))

    def _passing(self) -> Path:
        """A file that is deleted when this gateway ends."""
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._scratch = Scratch(self._state)
        file = self._scratch.path / _FILE
        log.info(
            "the history is in %s until this gateway ends: on a free port it has no name that a restart has again "
            "(history.gateway gives it one)",
            file,
        )
        return _private(file)

    def _taken(self) -> Path:
        """The file of this name, locked."""
        folder = self._state / _folder_name(self._name)
        for each in (self._state, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _opened(folder / _LOCK)
        if not _hold(lock, wait=False):
            os.close(lock)
            raise ConfigError(
                f"the history of the gateway {self._name} is in use by another that runs: give this one a name of its own "
                "(history.gateway), or name the store that both are to share (history.url)",
            )
        self._lock = lock
        file = self._chosen(folder / _FILE)
        log.info("the history of the gateway %s is in %s", self._name, file)
        return _private(file)

    def _chosen(self, own: Path) -> Path:
        """The file of this name's own, or the one that versions before had for all gateways: it becomes that of the first name
        that is started, if no process uses it now. One gateway at a time chooses."""
        shared, bound = self._state / _FILE, self._state / _BOUND
        choosing = _opened(self._state / _LOCK)
        try:
            _hold(choosing, wait=True)
            if own.exists() or not shared.exists():
                return own
            if bound.exists():
                return shared if bound.read_text(encoding="utf-8") == self._name else own
            if _in_use(shared):
                log.warning("%s is in use by another process and is left alone", shared)
                return own
            written = bound.with_suffix(".new")
            _private(written).write_text(self._name, encoding="utf-8")
            written.replace(bound)
            log.info("%s, which was the history of all gateways, belongs to %s from now on", shared, self._name)
            return shared
        finally:
            os.close(choosing)

    def close(self) -> None:
        """Let go of the store; called when all processes have ended."""
        if self._lock is not None:
            os.close(self._lock)
        if self._scratch is not None:
            self._scratch.close()
        self._file = self._lock = self._scratch = None


def state_folder(environ: Mapping[str, str]) -> Path:
    state = Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "smg-gateway"


def _url(place: Path) -> str:
    return f"sqlite:///{quote(place.as_posix())}"


def _folder_name(gateway: str) -> str:
    """The folder of a gateway: letters, digits, "-" and "." are as in its name, anything else is "_" and its code."""
    return "gateway-" + re.sub(r"[^a-z0-9.-]", lambda found: f"_{ord(found[0]):02x}", gateway)


def _private(file: Path) -> Path:
    """The file, made for this user alone where there is none."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
    return file


def _opened(file: Path) -> int:
    """A descriptor of a file to lock, which no process that is started inherits."""
    return os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _hold(lock: int, *, wait: bool) -> bool:
    """Lock a descriptor until it is closed; False where another process has it locked and nobody is to `wait`."""
    if sys.platform == "win32":
        import msvcrt

        mode = msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK
        try:
            msvcrt.locking(lock, mode, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(file: Path) -> bool:
    """Whether another process has an SQLite database open: then nobody else can have it alone."""
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    except sqlite3.DatabaseError:  # no database: whoever opens it says so
        return False
    return False
