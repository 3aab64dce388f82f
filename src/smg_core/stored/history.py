"""The gateway's history while it runs (edge): opened at the start, swept at intervals, closed at the end.

Also where `smg-gateway serve` keeps it when nobody said: one file in the user's state folder. Above: `gateway.assembly`,
`processes.serve`. Below: the room `history`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

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

__all__ = ["keeping", "with_state_file"]

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


def with_state_file(config: Config, environ: Mapping[str, str]) -> Config:
    """The configuration with a place for the history, where it names none: a file that is this user's alone. Raises OSError where
    it cannot be made."""
    if config.history.url is not None:
        return config
    file = _state_file(environ)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
    return attrs.evolve(config, history=attrs.evolve(config.history, url=f"sqlite:///{file}"))


def with_filled_in(config: Config, before: Config, environ: Mapping[str, str]) -> Config:
    """Settings that were read again, with what the start fills in where they say nothing, as `before` has it: the file of the
    history, and the secret that the processes share."""
    history, sealing = config.history, config.sealing
    if history.url is None and before.history.url == f"sqlite:///{_state_file(environ)}":
        history = attrs.evolve(history, url=before.history.url)
    if sealing.cache_secret is None:
        sealing = attrs.evolve(sealing, cache_secret=before.sealing.cache_secret)
    return attrs.evolve(config, history=history, sealing=sealing)


def _state_file(environ: Mapping[str, str]) -> Path:
    state = Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "smg-gateway" / "history.db"
