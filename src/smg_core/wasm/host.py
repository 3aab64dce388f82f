"""A host of components for programs: the sandbox, its threads and the plugins in it, without a gateway (edge).

Waits for components that are compiled, and for their hooks. Above: programs of users; the gateway opens `WasmPlugins` itself
(`plugins.code`). Below: `loading`.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from weakref import WeakSet

from smg_core.middleware.entries import Entry, Limits, entry_name
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.wasm.bounds import AnswerBounds
from smg_core.wasm.guest_report import GuestReport
from smg_core.wasm.loading import WasmPlugins
from smg_core.wasm.plugin import Hear, WasmPlugin

__all__ = ["WasmHost"]

_DEFAULTS = MiddlewareConfig()
_USUAL = Limits()


def _unheard(name: str, guest_words: GuestReport) -> None:
    """What components log and count goes nowhere."""


class WasmHost:
    """Runs components as middleware, opened by `async with`. `config` bounds files, threads and answers; `hear` is called with a
    plugin's name and what it logged and counted in a call."""

    def __init__(self, config: MiddlewareConfig = _DEFAULTS, hear: Hear = _unheard) -> None:
        self._config, self._hear = config, hear
        self._plugins: WasmPlugins | None = None
        self._loaded = WeakSet[WasmPlugin]()

    async def __aenter__(self) -> Self:
        config = self._config
        self._plugins = WasmPlugins(
            self._hear,
            threads=config.threads,
            most_threads=config.most_threads,
            compiled=config.compiled,
            most_bytes=config.component_bytes,
            bounds=AnswerBounds.of(config),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        plugins, self._plugins = self._plugins, None
        for each in list(self._loaded):
            each.close()
        if plugins is not None:
            await asyncio.to_thread(plugins.close)

    async def load(
        self,
        source: str | os.PathLike[str],
        config: Mapping[str, object] | None = None,
        *,
        limits: Limits = _USUAL,
        grants: Sequence[str] = (),
        share: str = "tenant",
        name: str | None = None,
    ) -> WasmPlugin:
        """A component's file as a middleware: compiled, begun once, and given its `config`. The other arguments are those of an
        `Entry`. Raises ConfigError, which says why it cannot be used, and RuntimeError where the host is not open."""
        if self._plugins is None:
            raise RuntimeError("open the host first: async with WasmHost() as host")
        path = os.fspath(source)
        entry = Entry(
            source=path,
            name=name or entry_name(path),
            config=config or {},
            limits=limits,
            grants=tuple(grants),
            share=share,
            when="before_identity" if "tenant" in grants else "after_identity",
        )
        plugin = await self._plugins.load(entry)
        self._loaded.add(plugin)
        return plugin
