"""What waits for the client of one session, in the order in which it was said (edge).

Lines are put in by plain calls, so that a response that is given up loses none of its lines, and leave in a task that exists only
while some wait. Over `most` bytes whoever puts more in waits, which pauses an engine, or the reading of events. A client that
reads nothing is the server's to close. Above: the connection. Below: the WebSocket.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from smg_core.http.websocket import WebSocket

__all__ = ["Outbox"]


class Outbox:
    """The lines for one client."""

    def __init__(self, socket: WebSocket, most: int) -> None:
        self._socket = socket
        self._most = most
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._writer: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()

    def put(self, lines: Iterable[bytes]) -> int:
        """Send these lines behind those that wait; returns their bytes."""
        size = 0
        for line in lines:
            self._lines.append(line)
            size += len(line)
        self._waiting += size
        if self._waiting > self._most:
            self._room.clear()
        if size and self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
            self._writer.add_done_callback(self._written)
        return size

    async def room(self) -> None:
        """Wait until no more than `most` bytes wait."""
        await self._room.wait()

    async def empty(self) -> None:
        """Wait until nothing waits any more."""
        while self._writer is not None:
            await asyncio.wait([self._writer])

    def _written(self, writer: "asyncio.Task[None]") -> None:
        self._writer = None
        self._room.set()
        if not writer.cancelled() and writer.exception() is not None:
            self._lines.clear()  # the connection is lost, which its reader learns
            self._waiting = 0

    async def _write(self) -> None:
        while self._lines:
            line = self._lines.popleft()
            await self._socket.send(line.decode())
            self._waiting -= len(line)
            if self._waiting <= self._most:
                self._room.set()
