"""The gateway's history while it runs (edge): opened at the start, swept at intervals, closed at the end.

Above: `gateway.assembly`, `operation.control`. Below: the room `history`, `default_store`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs

from smg_core.clock import Clock
from smg_core.config.config import Config
from smg_core.errors import StoreFailed
from smg_core.history.guard import Backend, GuardedStore
from smg_core.history.hooks import Hook
from smg_core.history.opening import guarded, open_history
from smg_core.history.settings import HistoryConfig
from smg_core.hooks import Observer
from smg_core.plugins.registry import Plugins
from smg_core.plugins.storage import PluginStorage
from smg_core.stored.default_store import is_default_store

__all__ = ["keeping", "with_filled_in"]

log = logging.getLogger("smg.gateway")


@asynccontextmanager
async def keeping(
    config: HistoryConfig,
    clock: Clock,
    backend: Backend | None = None,
    hooks: Sequence[Hook] = (),
    observer: Observer | None = None,
    *,
    plugins: Plugins | None = None,
) -> AsyncIterator[GuardedStore]:
    """The store of the settings, or `backend`, which is its owner's to close; `plugins` are asked behind the `hooks`. Raises
    ConfigError and StoreFailed as `open_history` does."""
    if plugins is not None:
        hooks = (*hooks, PluginStorage(plugins))
    if backend is not None:
        store = guarded(backend, config, clock, hooks, observer)
    else:
        store = await open_history(config, clock, hooks, observer)
    sweeping = asyncio.create_task(_sweep(store, config.sweep_s)) if config.sweep_s else None
    try:
        yield store
    finally:
        if sweeping is not None:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
        if backend is None:
            await store.close()


async def _sweep(store: GuardedStore, seconds: float) -> None:
    """Delete what has expired, at intervals, for ever."""
    while True:
        await asyncio.sleep(seconds)
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
