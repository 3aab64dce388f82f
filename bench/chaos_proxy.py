"""A proxy on the loopback that passes bytes on, or does to them what a bad network does.

It stands before one engine, whose Unix socket it forwards to, and needs no rights of its own. `mode` may be changed at any
time, and holds for the connections that are open too.
"""

import asyncio
import random
from typing import Literal, get_args

__all__ = ["MODES", "ChaosProxy", "Mode"]

Mode = Literal["pass", "delay", "stop", "cut", "drip", "corrupt"]
"""Pass bytes on; pass them on late; keep connections open and pass nothing on; close all and take no more; pass the engine's
bytes on in small pieces; replace the engine's bytes by others."""
MODES: tuple[Mode, ...] = get_args(Mode)
CHUNK = 65536
LATE_S = 0.2
PIECE = 16


class ChaosProxy:
    """Forwards a port of its own to the Unix socket at `path`."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self._path = path
        self._rng = rng
        self._mode: Mode = "pass"
        self._passes = asyncio.Event()
        self._passes.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def set(self, mode: Mode) -> None:
        """Do this to all bytes from now on."""
        self._mode = mode
        if mode == "stop":
            self._passes.clear()
        else:
            self._passes.set()
        if mode == "cut":
            for writer in self._open:
                writer.transport.abort()

    async def __aenter__(self) -> "ChaosProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.set("cut")
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "cut":
            writer.transport.abort()
            return
        try:
            from_engine, to_engine = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, to_engine}
        passing = [
            asyncio.create_task(self._pass(reader, to_engine, engine=False)),
            asyncio.create_task(self._pass(from_engine, writer, engine=True)),
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            self._open -= {writer, to_engine}
            writer.transport.abort()
            to_engine.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, engine: bool) -> None:
        while data := await reader.read(CHUNK):
            await self._passes.wait()
            if self._mode == "delay":
                await asyncio.sleep(LATE_S)
            if self._mode == "corrupt" and engine:
                data = self._rng.randbytes(len(data))
            step = PIECE if self._mode == "drip" and engine else len(data)
            for start in range(0, len(data), step):
                writer.write(data[start : start + step])
                await writer.drain()
                if step < len(data):
                    await asyncio.sleep(0)
