"""Opens the store that the settings name (edge).

Decides which module a URL's scheme means, and loads it then, in a thread: nobody has to have the driver of a database that is not
used. An SQLite file in which nothing waits to be done is opened when it is first used. Above: `stored.history`. Below: the
stores, `deferred`, `guard`.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import attrs

from smg_core.clock import Clock, SystemClock
from smg_core.extras import missing
from smg_core.history.deferred import DeferredStore
from smg_core.history.guard import Backend, GuardedStore
from smg_core.history.hooks import Hook
from smg_core.history.memory.store import MemoryStore
from smg_core.history.rules import Rules
from smg_core.history.settings import EXTRAS, HistoryConfig
from smg_core.history.sql.bounds import SqlBounds
from smg_core.history.sql.names import Names
from smg_core.history.sql.sqlite_file import OLDEST_SQLITE, SqliteFile, file_of, prepare_file
from smg_core.hooks import Observer, SilentObserver
from smg_core.machine.memory import without_full_collections
from smg_core.settings import ConfigError, nearest

__all__ = ["UnopenedHistory", "guarded", "open_history", "open_store", "unopened_history"]

_DEFAULTS = HistoryConfig()


async def open_history(
    config: HistoryConfig, clock: Clock, hooks: Sequence[Hook] = (), observer: Observer | None = None
) -> GuardedStore:
    """The store, ready; `observer` is told of its calls. Raises ConfigError for settings that could never work, and StoreFailed
    where it cannot be opened."""
    scheme = (config.url or "memory:").partition(":")[0]
    if scheme not in EXTRAS:
        raise ConfigError(f"history.url: there is no store for {scheme}:{nearest(scheme, [*EXTRAS])}")
    try:
        return guarded(await _backend(scheme, config, clock), config, clock, hooks, observer)
    except ModuleNotFoundError as error:
        raise _missing(scheme, error) from error


@asynccontextmanager
async def open_store(
    url: str, config: HistoryConfig = _DEFAULTS, clock: Clock | None = None, hooks: Sequence[Hook] = ()
) -> AsyncIterator[GuardedStore]:
    """The store of a URL for a program, closed at the end of the block. Raises as `open_history` does."""
    store = await open_history(attrs.evolve(config, url=url), clock or SystemClock(), hooks)
    try:
        yield store
    finally:
        await store.close()


def _missing(scheme: str, error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(missing(f"history.url of {scheme}", error, EXTRAS[scheme]))


@attrs.frozen
class UnopenedHistory:
    """A history that was checked and is opened when `store` is first used, by way of `deferred`; until then `file` says whether
    there is reason to."""

    store: GuardedStore
    deferred: DeferredStore
    file: SqliteFile


async def unopened_history(
    config: HistoryConfig, clock: Clock, hooks: Sequence[Hook] = (), observer: Observer | None = None
) -> UnopenedHistory | None:
    """The history, to be opened when it is first used. None where it is to be opened now: it is no SQLite file, it cannot be
    used as it is, or work waits in it. Raises ConfigError and StoreFailed as `open_history` does."""
    file = await asyncio.to_thread(_unopened_file, config, clock.time())
    if file is None:
        return None
    deferred = DeferredStore(partial(_backend, "sqlite", config, clock))
    try:
        store = guarded(deferred, config, clock, hooks, observer, is_open=False)
    except ModuleNotFoundError as error:
        raise _missing("sqlite", error) from error
    deferred.when_open(store.use)
    return UnopenedHistory(store, deferred, file)


def _unopened_file(config: HistoryConfig, now: float) -> SqliteFile | None:
    """The file of the settings, where all is well with it and nothing waits in it. What is wrong is left to be said by what
    opens it."""
    path = file_of(config.url or "")
    if path is None or config.schema is not None or sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return None
    names = Names.parse(config.prefix, config.schema, config.names)
    prepare_file(path, config.timeout_s)
    file = SqliteFile(path, names, config.timeout_s)
    try:
        may_make = config.migrate and not config.names  # own names may be such as no tables can have
        if file.is_usable(may_make=may_make) and not file.has_work(now):
            return file
    except sqlite3.Error:
        pass
    file.close()
    return None


def guarded(
    backend: Backend,
    config: HistoryConfig,
    clock: Clock,
    hooks: Sequence[Hook] = (),
    observer: Observer | None = None,
    *,
    is_open: bool = True,
) -> GuardedStore:
    """A store of any make behind the rules of the settings; `is_open` as in `GuardedStore`."""
    seal = None
    if config.keys:
        from smg_core.history.sealing import Cipher

        seal = Cipher(config.keys, os.urandom)
    observer = observer or SilentObserver()
    return GuardedStore(backend, Rules(config), clock, seal=seal, hooks=hooks, observer=observer, is_open=is_open)


async def _backend(scheme: str, config: HistoryConfig, clock: Clock) -> Backend:
    if scheme == "memory":
        return MemoryStore(
            clock,
            most_bytes=config.memory_bytes,
            most_links=config.chain_links,
            most_link_bytes=config.chain_bytes,
            most_page_bytes=config.page_bytes,
        )
    prepare = _redis if EXTRAS[scheme] == "redis" else _sqlite if scheme == "sqlite" else _sql
    with without_full_collections():
        open_store = await asyncio.to_thread(prepare, config, clock)  # loads much
        return await open_store()


def _redis(config: HistoryConfig, clock: Clock) -> Callable[[], Awaitable[Backend]]:
    from smg_core.history.redis.store import RedisStore

    return partial(
        RedisStore.open,
        config.url or "",
        clock,
        prefix=config.prefix,
        most_links=config.chain_links,
        most_link_bytes=config.chain_bytes,
        most_page_bytes=config.page_bytes,
        connections=config.connections,
        seconds=config.timeout_s,
    )


def _bounds(config: HistoryConfig) -> SqlBounds:
    return SqlBounds(
        chain_links=config.chain_links,
        chain_bytes=config.chain_bytes,
        page_bytes=config.page_bytes,
        group=config.group,
        waiting_writes=config.waiting_writes,
        waiting_bytes=config.waiting_bytes,
        timeout_s=config.timeout_s,
    )


def _sqlite(config: HistoryConfig, clock: Clock) -> Callable[[], Awaitable[Backend]]:
    from smg_core.history.sqlite.place import sqlite_place
    from smg_core.history.sqlite.store import SqliteStore

    return partial(
        SqliteStore.open,
        sqlite_place(config.url or ""),
        Names.parse(config.prefix, None, config.names),
        clock,
        _bounds(config),
        readers=config.connections,
        flush=config.flush,
        migrate=config.migrate,
    )


def _sql(config: HistoryConfig, clock: Clock) -> Callable[[], Awaitable[Backend]]:
    from smg_core.history.sql.engines import engines
    from smg_core.history.sql.store import SqlStore
    from smg_core.history.sql.tables import StoreTables
    from smg_core.history.sql.version import SchemaVersion

    names = Names.parse(config.prefix, config.schema, config.names)
    made, bounds = partial(engines, config.url or "", seconds=config.timeout_s), _bounds(config)
    version = SchemaVersion(names, allowed=config.migrate)
    tables = StoreTables(names)
    if not (config.url or "").startswith("postgresql:"):
        return partial(SqlStore.open, *made(connections=config.connections), tables, clock, bounds, version)
    from smg_core.history.sql.postgres import is_pooled

    first = made(connections=1, pooled=True)

    async def open_postgres() -> Backend:
        try:
            pooled = await is_pooled(first[1])
        finally:
            for each in first:
                await each.dispose()
        pair = await asyncio.to_thread(made, connections=config.connections, pooled=pooled)
        return await SqlStore.open(*pair, tables, clock, bounds, version)

    return open_postgres
