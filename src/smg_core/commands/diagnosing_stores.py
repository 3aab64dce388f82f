"""Looks at stores and disks for `smg-gateway doctor`: whether each can be used, and not only reached (edge).

Decides what is asked of each kind of store: it is opened with its user and password, says its time, and whether it may be written
to. Nothing is written: a lock that is taken is let go, and no file and no table is made. Above: diagnosing. Below: diagnosis,
the history's engines.
"""

import asyncio
import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs

from smg_core.clock import Clock
from smg_core.commands.diagnosis import Diagnosis, FindingState
from smg_core.config.config import Config, without_password
from smg_core.errors import StoreFailed
from smg_core.extras import missing
from smg_core.history.redis.server import redis_fault
from smg_core.history.settings import EXTRAS, HistoryConfig
from smg_core.history.sql.names import Names
from smg_core.history.sql.sqlite_file import SqliteFile
from smg_core.settings import ConfigError
from smg_core.stored.default_store import state_folder

__all__ = ["StoresFound", "look_at_stores"]

_ROOM, _FULL = 1 << 30, 64 << 20
"""Bytes that are free on a disk: with fewer it is said, and with fewer it is full."""
_NEARLY = 0.9
"""The share of its memory from which on a Redis is nearly full."""
_IN_SQL = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp()), current_setting('transaction_read_only') = 'on', "
    "has_schema_privilege(coalesce(CAST(:schema AS text), current_schema()), 'CREATE')",
    "oracle": "SELECT (CAST(SYS_EXTRACT_UTC(SYSTIMESTAMP) AS DATE) - DATE '1970-01-01') * 86400, 0, 1 FROM dual",
}
"""What a database says of its time, of whether nothing may be written, and of whether tables may be made."""


@attrs.frozen
class StoresFound:
    """What was found, and by how many seconds the clocks of stores are ahead."""

    diagnoses: tuple[Diagnosis, ...] = ()
    ahead: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen
class _Look:
    """A store to look at: the setting that names it, and its URL. `tables`: the history's settings, where it has them."""

    path: str
    url: str
    timeout: float
    clock: Clock
    tables: HistoryConfig | None = None

    @property
    def label(self) -> str:
        return f"{self.path}: {without_password(self.url)}"

    def fails(self, why: object, do: str) -> StoresFound:
        return StoresFound((Diagnosis("stores", "FAIL", f"{self.label}: {why}", do),))

    def works(self, began: float, time: float, warning: str = "", do: str = "") -> StoresFound:
        """It answered, begun at `began`, with its own time."""
        took = self.clock.monotonic() - began
        what = f"{self.label}: {warning or f'{took * 1000:.0f} ms'}"
        found = Diagnosis("stores", "warn" if warning else "ok", what, do)
        return StoresFound((found,), {self.label: time + took / 2 - self.clock.time()})


async def look_at_stores(config: Config, timeout: float, clock: Clock) -> StoresFound:
    """All stores and folders that the settings name; the stores beside each other."""
    looks = [_Look(path, url, timeout, clock, tables) for path, url, tables in _named(config) if url]
    found = await asyncio.gather(*map(_store, looks))
    folders = await asyncio.to_thread(lambda: tuple(_folders(config)))
    ahead = {who: skew for each in found for who, skew in each.ahead.items()}
    return StoresFound((*(each for store in found for each in store.diagnoses), *folders), ahead)


def _named(config: Config) -> Iterator[tuple[str, str | None, HistoryConfig | None]]:
    yield "history.url", config.history.url, config.history
    yield "ledger.url", config.ledger.url if config.ledger.enabled else None, None
    yield "limits.store", config.limits.store, None
    yield "mesh.url", config.mesh.url if config.mesh.kind == "valkey" else None, None
    yield "response_cache.store", config.response_cache.store if config.response_cache.kept_s else None, None


async def _store(look: _Look) -> StoresFound:
    scheme = look.url.partition(":")[0]
    if scheme == "memory":
        what = f"{look.label}: gone with the process"
        return StoresFound((Diagnosis("stores", "warn", what, "name a file or a database to keep it"),))
    try:
        if scheme == "sqlite":
            return StoresFound(tuple(await asyncio.to_thread(lambda: [*_sqlite(look)])))
        if scheme in _IN_SQL:
            return await _database(look, scheme)
        if scheme in ("redis", "rediss", "unix", "valkey", "valkeys"):
            return await _redis(look)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(scheme, "redis")
        return look.fails(missing(look.path, error, extra), f"install the extra {extra}, or name another store")
    except TimeoutError:
        return look.fails(f"no answer within {look.timeout:g} s", "start it, or correct its host and port")
    except ConfigError as error:
        return look.fails(error, "correct its URL (docs/history.md)")
    return look.fails(f"there is no store for {scheme}:", "name one of docs/history.md")


# ------------------------------------------------------------------------------------------------------------------ servers


async def _database(look: _Look, scheme: str) -> StoresFound:
    """PostgreSQL or Oracle, opened as the history does. Raises ConfigError and TimeoutError."""
    import sqlalchemy as sa

    from smg_core.history.sql.engines import engines
    from smg_core.history.sql.failures import failures_of

    pair = await asyncio.to_thread(
        engines, look.url, connections=1, seconds=look.timeout, pooled=scheme == "postgresql"
    )
    began = look.clock.monotonic()
    try:
        with failures_of("opened"):
            async with asyncio.timeout(look.timeout), pair[0].connect() as connection:
                asked = {"schema": look.tables.schema if look.tables else None} if scheme == "postgresql" else {}
                (time, only_read, may_make) = (await connection.execute(sa.text(_IN_SQL[scheme]), asked)).one()
                newest = await connection.run_sync(_newest(look.tables)) if look.tables else True
    except StoreFailed as error:
        why = (error.outside_text or error.detail or str(error)).partition("\n")[0]
        return look.fails(why, "start it, or correct its host, port, user, password and database")
    finally:
        for each in pair:
            await each.dispose()
    if only_read:
        return look.fails("it takes no writes", "name the primary, and a user that may write")
    if not newest and look.tables and not look.tables.migrate:
        return look.fails("its tables are not of this version", "allow history.migrate, or bring them to it")
    if not newest and not may_make:
        return look.fails("this user may make no tables there", "GRANT CREATE ON SCHEMA to it, or name another schema")
    return look.works(began, float(time))


def _newest(tables: HistoryConfig) -> Any:
    from smg_core.history.sql.version import SchemaVersion

    return SchemaVersion(Names.parse(tables.prefix, tables.schema, tables.names)).is_newest


async def _redis(look: _Look) -> StoresFound:
    """Redis or Valkey. Raises TimeoutError."""
    from redis import asyncio as client
    from redis.exceptions import AuthenticationError, RedisError, ResponseError
    from redis.exceptions import TimeoutError as NoAnswer

    url = look.url.replace("valkey", "redis", 1) if look.url.startswith("valkey") else look.url
    began = look.clock.monotonic()
    try:
        redis = client.Redis.from_url(url, socket_timeout=look.timeout, socket_connect_timeout=look.timeout)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    try:
        async with asyncio.timeout(look.timeout):
            await redis.ping()
            seconds, micro = await redis.time()
            time = seconds + micro / 1e6
            with contextlib.suppress(ResponseError):  # not every user may ask
                return _of_redis(look, await redis.info(), began, time)
        return look.works(began, time)
    except NoAnswer:
        raise TimeoutError from None
    except AuthenticationError as error:
        return look.fails(error, "correct its user and password")
    except (RedisError, OSError) as error:
        return look.fails(error, "start it, or correct its host and port")
    finally:
        await redis.aclose()


def _of_redis(look: _Look, info: Mapping[str, Any], began: float, time: float) -> StoresFound:
    """What a Redis says of itself."""
    if fault := redis_fault(info) if look.tables else "it is a replica" if info.get("role") == "slave" else "":
        return look.fails(fault, "name one that can be written to, with all that is kept in it (docs/history.md)")
    most, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if most and used > _NEARLY * most:
        warning = f"{used >> 20} of the {most >> 20} MiB of its memory are taken"
        return look.works(began, time, warning, "raise its maxmemory, or keep less (history.*_kept_s)")
    return look.works(began, time)


# ------------------------------------------------------------------------------------------------------- files and folders


def _sqlite(look: _Look) -> Iterator[Diagnosis]:
    """A file of SQLite, into which a lock is taken and let go, as the first write would."""
    file = Path(unquote(look.url.partition(":///")[2].partition("?")[0])).expanduser()
    folder, where = file.parent, f"{look.path}: {file}"
    if not folder.is_dir():
        yield Diagnosis("stores", "FAIL", f"{look.path}: there is no folder {folder}", f"mkdir -p {folder}")
        return
    yield _room(where, folder)
    if not file.exists():
        return
    try:
        with contextlib.closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=look.timeout)
        ) as opened:
            opened.isolation_level = None
            opened.execute("BEGIN IMMEDIATE")
            opened.execute("ROLLBACK")
        if look.tables and not _is_usable(file, look.tables, look.timeout):
            state: FindingState = "warn" if look.tables.migrate else "FAIL"
            do = "keep a copy: the next start changes them" if look.tables.migrate else "allow history.migrate"
            yield Diagnosis("stores", state, f"{where}: its tables are of another version", do)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            what = f"{where}: another program has held it for {look.timeout:g} s"
            yield Diagnosis("stores", "FAIL", what, f"find it: fuser {file}")
        else:
            yield Diagnosis("stores", "FAIL", f"{where}: {error}", "let this user read and write it and its folder")
    except sqlite3.Error as error:
        yield Diagnosis("stores", "FAIL", f"{where}: {error}", "put its copy back, or name another file")


def _is_usable(file: Path, tables: HistoryConfig, timeout: float) -> bool:
    """Whether its tables are of this version, or there are none. Raises sqlite3.Error."""
    names = Names.parse(tables.prefix, tables.schema, tables.names)
    with contextlib.closing(SqliteFile(str(file), names, timeout)) as opened:
        return opened.is_usable(may_make=tables.migrate)


def _folders(config: Config) -> Iterator[Diagnosis]:
    """The folders that the gateway writes into."""
    if not config.history.url:
        yield _room("history.url: serve keeps a file of its own in the state folder", state_folder(os.environ))
    named: Sequence[tuple[str, str | None]] = (
        ("files.folder", config.files.folder),
        ("batches.folder", config.batches.folder),
        ("vector_stores.folder", config.vector_stores.folder),
        ("audit.file", config.audit.file and str(Path(config.audit.file).expanduser().parent)),
    )
    for path, folder in named:
        if folder:
            yield _room(f"{path}: {folder}", Path(folder).expanduser())


def _room(where: str, folder: Path) -> Diagnosis:
    """How much may be written into a folder, or into what it is to be made in."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        return Diagnosis("stores", "FAIL", f"{where}: {there} is no folder", "name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        return Diagnosis(
            "stores", "FAIL", f"{where}: this user may not write into {there}", f"chown it: ls -ld {there}"
        )
    free = shutil.disk_usage(there).free
    if free < _FULL:
        return Diagnosis(
            "stores", "FAIL", f"{where}: the disk is full, {free >> 20} MiB free", f"make room: df -h {there}"
        )
    if free < _ROOM:
        return Diagnosis("stores", "warn", f"{where}, {free >> 20} MiB free", f"make room on the disk: df -h {there}")
    return Diagnosis("stores", "ok", f"{where}, {free >> 20} MiB free")
