"""Makes a middleware of an entry and the bytes of its component (edge).

A component is compiled, instantiated once and given its configuration before it is used, so that what is wrong with it is said at
the start, or while an older one still serves. Above: `server`. Below: `plugin`, `running`.
"""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import WeakSet

from smg_core.middleware.base import MiddlewareFault, PieceMode
from smg_core.middleware.entries import Entry
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.regular_files import TooLong, read_regular
from smg_core.settings import ConfigError
from smg_core.wasm.bounds import AnswerBounds
from smg_core.wasm.calls import configured
from smg_core.wasm.plans import Unusable
from smg_core.wasm.plugin import Hear, WasmPlugin
from smg_core.wasm.running import Compiled, Sandbox
from smg_core.wasm.threads import GuestThreads
from smg_core.wasm.worlds import SMG
from smg_core.wasm.written import Written

__all__ = ["WasmPlugins"]

_LOADING_S = 10.0
"""Seconds that a component has to begin when it is loaded, whatever its deadline is: a busy machine is no fault of its own."""


def _as_json(entry: Entry) -> str:
    """The configuration of an entry, as its component is given it. Raises ConfigError for what JSON does not have."""
    try:
        text = json.dumps(dict(entry.config), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"plugin {entry.name}: config: a component is given JSON: {error}") from None
    return text


class WasmPlugins:
    """The components of one process: a sandbox, and threads in which guests run: for each component `threads` that all tenants
    share, and one for each tenant that would have none, `most_threads` together. `most_bytes` bounds the file of a component,
    `bounds` the answers; `hear` is told what guests say."""

    def __init__(
        self,
        hear: Hear,
        *,
        threads: int,
        most_threads: int,
        compiled: int,
        most_bytes: int,
        bounds: AnswerBounds | None = None,
    ) -> None:
        self._hear = hear
        self._most_bytes = most_bytes
        self._bounds = bounds or AnswerBounds.of(MiddlewareConfig())
        self._sandbox = Sandbox(compiled)
        self._threads, self._most_threads = threads, max(threads, most_threads)
        self._written = Written()
        self._pools = WeakSet[GuestThreads]()
        self._compiling = ThreadPoolExecutor(1, thread_name_prefix="smg-wasm-compile")

    async def load(self, entry: Entry) -> WasmPlugin:
        """The middleware of an entry whose source is a file. Raises ConfigError, which says why it cannot be used."""
        loop = asyncio.get_running_loop()
        try:
            wasm = await loop.run_in_executor(self._compiling, self._read, entry.source)
            return await self.made(entry, wasm)
        except OSError as error:
            raise ConfigError(f"plugin {entry.name}: {entry.source} cannot be read: {error.strerror}") from None

    def _read(self, source: str) -> bytes:
        try:
            return read_regular(Path(source).expanduser(), self._most_bytes)
        except TooLong:
            raise ConfigError(f"plugin: {source} is over the limit of {self._most_bytes} bytes") from None
        except (ValueError, RuntimeError) as error:  # no regular file, no name of a file, no such user's home
            raise ConfigError(f"plugin: {source[:200]!r} cannot be read: {error}") from None

    async def made(self, entry: Entry, wasm: bytes) -> WasmPlugin:
        """The middleware of an entry and the bytes of its component. Raises ConfigError."""
        loop = asyncio.get_running_loop()
        config = _as_json(entry)
        try:
            compiled, wanted = await loop.run_in_executor(self._compiling, self._tried, entry, wasm, config)
        except (Unusable, MiddlewareFault) as error:
            raise ConfigError(f"plugin {entry.name}: {entry.source} {error}") from None
        # A pool for each component: a guest that spins in all of its threads makes no other component wait. Threads begin when
        # they are needed, and end when nobody has the plugin any more.
        threads = GuestThreads(self._threads, self._most_threads)
        self._pools.add(threads)
        return WasmPlugin(
            entry,
            compiled,
            config,
            threads,
            self._hear,
            written=self._written,
            wanted=wanted,
            now_ms=lambda: int(time.time() * 1000),
        )

    def _tried(self, entry: Entry, wasm: bytes, config: str) -> tuple[Compiled, PieceMode]:
        """A component that has begun once, and which pieces it wants. Blocks."""
        compiled = self._sandbox.compile(wasm, entry.limits, entry.grants, self._bounds)
        guest = compiled.instance(_LOADING_S)
        try:
            configured(guest, config)
            wanted: PieceMode = guest.call("wanted") if guest.has("wanted") else "none"
            self._hear(entry.name, guest.tell())
        finally:
            guest.close()
        if compiled.world is SMG:
            wanted = "none"
        return compiled, wanted

    def close(self) -> None:
        """End the calls that still run, without waiting for their deadlines, and the threads. Blocks."""
        self._sandbox.stop()
        for pool in list(self._pools):
            pool.close()
        self._compiling.shutdown(wait=True)
        self._sandbox.close()
