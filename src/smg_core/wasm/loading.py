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
from smg_core.settings import ConfigError
from smg_core.wasm.plugin import Hear, WasmPlugin, configured
from smg_core.wasm.running import Compiled, Sandbox, Unusable
from smg_core.wasm.worlds import SMG

__all__ = ["WasmPlugins"]


class WasmPlugins:
    """The components of one process: a sandbox, and `threads` threads in which guests run. `most_bytes` bounds the file of a
    component; `hear` is told what guests say."""

    def __init__(self, hear: Hear, *, threads: int, compiled: int, most_bytes: int) -> None:
        self._hear = hear
        self._most_bytes = most_bytes
        self._sandbox = Sandbox(compiled)
        self._threads = threads
        self._pools = WeakSet[ThreadPoolExecutor]()
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
        path = Path(source).expanduser()
        with path.open("rb") as file:
            data = file.read(self._most_bytes + 1)
        if len(data) > self._most_bytes:
            raise ConfigError(f"plugin: {source} is over the limit of {self._most_bytes} bytes")
        return data

    async def made(self, entry: Entry, wasm: bytes) -> WasmPlugin:
        """The middleware of an entry and the bytes of its component. Raises ConfigError."""
        loop = asyncio.get_running_loop()
        config = json.dumps(dict(entry.config), ensure_ascii=False)
        try:
            compiled, wanted = await loop.run_in_executor(self._compiling, self._tried, entry, wasm, config)
        except (Unusable, MiddlewareFault) as error:
            raise ConfigError(f"plugin {entry.name}: {entry.source} {error}") from None
        # A pool for each component: a guest that spins in all of its threads makes no other component wait. Threads begin when
        # they are needed, and end when nobody has the plugin any more.
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="smg-wasm")
        self._pools.add(pool)
        return WasmPlugin(
            entry, compiled, config, pool, self._hear, wanted=wanted, now_ms=lambda: int(time.time() * 1000)
        )

    def _tried(self, entry: Entry, wasm: bytes, config: str) -> tuple[Compiled, PieceMode]:
        """A component that has begun once, and which pieces it wants. Blocks."""
        compiled = self._sandbox.compile(wasm, entry.limits, entry.grants)
        guest = compiled.instance()
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
        """End the threads, once nothing runs any more."""
        for pool in list(self._pools):
            pool.shutdown(wait=True)
        self._compiling.shutdown(wait=True)
        self._sandbox.close()
