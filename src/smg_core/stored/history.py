"""The gateway's history while it runs (edge): opened, swept at intervals, closed at the end.

It is opened at the start; an SQLite file in which nothing waits to be done, at its first use, or once work waits in it or
something has expired. That is looked for at the intervals at which it is looked for in an open one. Above: `gateway.assembly`,
`operation.control`. Below: the room `history`, `default_store`.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs

from smg_core.clock import Clock
from smg_core.config.config import Config
from smg_core.errors import StoreFailed
from smg_core.history.guard import Backend, GuardedStore
from smg_core.history.hooks import Hook
from smg_core.history.opening import UnopenedHistory, guarded, open_history, unopened_history
from smg_core.hooks import Observer
from smg_core.plugins.registry import Plugins
from smg_core.plugins.storage import PluginStorage
from smg_core.stored.default_store import is_default_store

__all__ = ["keeping", "with_filled_in"]

log = logging.getLogger("smg.gateway")


@asynccontextmanager
async def keeping(
    config: Config,
    clock: Clock,
    backend: Backend | None = None,
    hooks: Sequence[Hook] = (),
    observer: Observer | None = None,
    *,
    plugins: Plugins | None = None,
    takes_work: Callable[[], bool] = lambda: True,
) -> AsyncIterator[GuardedStore]:
    """The store of the settings, or `backend`, which is its owner's to close; `plugins` are asked behind the `hooks`. While it is
    not open, it is looked at intervals whether work waits in it, if this process `takes_work`. Raises ConfigError and StoreFailed
    as `open_history` does."""
    history, poll_s = config.history, min(config.responses.poll_s, config.batches.poll_s)
    if plugins is not None:
        hooks = (*hooks, PluginStorage(plugins))
    unopened = None
    if backend is not None:
        store = guarded(backend, history, clock, hooks, observer)
    else:
        unopened = await unopened_history(history, clock, hooks, observer)
        store = await open_history(history, clock, hooks, observer) if unopened is None else unopened.store
    tasks = [asyncio.create_task(_sweep(store, history.sweep_s, clock, unopened))] if history.sweep_s else []
    if unopened is not None:
        tasks.append(asyncio.create_task(_watch(unopened, clock, poll_s, takes_work)))
    try:
        yield store
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if backend is None:
            await store.close()
        if unopened is not None:
            await asyncio.to_thread(unopened.file.close)


async def _watch(unopened: UnopenedHistory, clock: Clock, seconds: float, takes_work: Callable[[], bool]) -> None:
    """Open the history once work waits in it, which another process has put there; returns when it is open."""
    file, deferred = unopened.file, unopened.deferred
    while not deferred.is_open:
        await _open_or_over(unopened, seconds)
        if deferred.is_open or not takes_work() or not await _found(file.has_work, clock):
            continue
        try:
            await deferred.opened()
        except StoreFailed as error:
            log.warning("work that may wait in the history is left there for now: %s", error)
    await asyncio.to_thread(file.close)


async def _open_or_over(unopened: UnopenedHistory, seconds: float) -> None:
    """Return when the history is open, or the time is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await unopened.store.until_open()


async def _found(look: Callable[[float], bool], clock: Clock) -> bool:
    """What a look into the file of the history says; True where it fails, since who opens it can tell why."""
    try:
        return await asyncio.to_thread(look, clock.time())
    except sqlite3.Error:
        return True


async def _sweep(store: GuardedStore, seconds: float, clock: Clock, unopened: UnopenedHistory | None) -> None:
    """Delete what has expired, at intervals, for ever. A history that is not open stays so while nothing has."""
    while True:
        await asyncio.sleep(seconds)
        if (
            unopened is not None
            and not unopened.deferred.is_open
            and not await _found(unopened.file.has_expired, clock)
        ):
            continue
        try:
            while await store.sweep():
                pass
        except StoreFailed as error:
            log.warning("what has expired stays in the history for now: %s", error)


def with_filled_in(config: Config, before: Config, environ: Mapping[str, str]) -> Config:
    """Settings that were read again, with what the start fills in where they say nothing, as `before` has it: the file of the
    history, and the secret that the processes share."""
    history, sealing = config.history, config.sealing
    if history.url is None and is_default_store(before.history.url, environ):
        history = attrs.evolve(history, url=before.history.url)
    if sealing.cache_secret is None:
        sealing = attrs.evolve(sealing, cache_secret=before.sealing.cache_secret)
    return attrs.evolve(config, history=history, sealing=sealing)
