"""The code of plugins: loaded for an entry, and the rules that hold for all of it (edge).

Components need wasmtime, which is imported with the first of them. Above: `plugins`. Below: the rooms `middleware` and `wasm`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from smg_core.config.config import Config
from smg_core.errors import SmgError
from smg_core.extras import missing
from smg_core.middleware.asking import checked, fault_words
from smg_core.middleware.base import HOOKS, About, HookName, Middleware, MiddlewareFault, PieceMode, PluginSession
from smg_core.middleware.chain import Offload, PluginRules
from smg_core.middleware.entries import ASGI, Entry
from smg_core.middleware.python import python_middleware
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.settings import ConfigError
from smg_core.wire.request_bounds import check_bounds

if TYPE_CHECKING:
    from smg_core.wasm.guest_report import GuestReport
    from smg_core.wasm.loading import WasmPlugins

__all__ = ["NotLoaded", "PluginCode", "dispose", "is_refusing", "rules_of"]

log = logging.getLogger("smg.plugins")


def rules_of(config: Config, offload: Offload) -> PluginRules:
    """What holds for all plugins: what they make of a request is held to the limits of those that clients send."""
    return PluginRules(config.middleware, partial(check_bounds, limits=config.limits), offload)


class NotLoaded:
    """Stands in the place of a plugin that another process could load and this one could not: it fails at every exchange."""

    hooks: frozenset[HookName] = frozenset(HOOKS)
    pieces: PieceMode = "wire"

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self, about: About) -> PluginSession:
        raise MiddlewareFault("could not be loaded in this process")

    def close(self) -> None:
        """There is nothing to free."""


def is_refusing(entry: Entry) -> bool:
    """Whether requests are refused where a plugin is not there."""
    return entry.on_failure == "closed" and entry.kind != ASGI


def dispose(name: str, middleware: Middleware) -> None:
    """Have a plugin free what it took. It is code of others, which may raise anything."""
    close = getattr(middleware, "close", None)
    if close is None:
        return
    try:
        checked(close)
    except (MiddlewareFault, SmgError) as error:
        log.warning("plugin %s failed when it was disposed of: %s", name, fault_words(error))


class PluginCode:
    """Loads the code of plugins; `hear` is called with what components log and count. `given` has code that the program gave, by
    the name and source of its entry."""

    def __init__(self, config: MiddlewareConfig, hear: "Callable[[str, GuestReport], None]") -> None:
        self._config, self._hear = config, hear
        self._wasm: WasmPlugins | None = None
        self.given: Mapping[tuple[str, str], object] = {}

    async def load(self, entry: Entry) -> Middleware:
        """The code of an entry. Raises ConfigError."""
        if not entry.is_component:
            return python_middleware(entry, self.given.get((entry.name, entry.source)))
        if self._wasm is None:
            self._wasm = self._opened()
        return await self._wasm.load(entry)

    def _opened(self) -> "WasmPlugins":
        try:
            from smg_core.wasm.bounds import AnswerBounds
            from smg_core.wasm.loading import WasmPlugins
        except ModuleNotFoundError as error:
            raise ConfigError(missing("a component", error)) from None
        config = self._config
        return WasmPlugins(
            self._hear,
            threads=config.threads,
            most_threads=config.most_threads,
            compiled=config.compiled,
            most_bytes=config.component_bytes,
            bounds=AnswerBounds.of(config),
        )

    async def close(self) -> None:
        """End the threads of components."""
        if self._wasm is not None:
            await asyncio.to_thread(self._wasm.close)
            self._wasm = None
