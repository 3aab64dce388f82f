"""The messages that wait for the client of one session, in their order (edge).

Lines are put in by plain calls, so that a response that is given up loses none of its lines, and leave in a task that exists only
while some wait. Over `most` bytes whoever puts more in waits, which pauses an engine, or the reading of events. A client that
reads nothing is the server's to close. Above: the connections. Below: whatever takes lines.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

__all__ = ["Outbox", "TakesLines"]


class TakesLines(Protocol):
    """What lines leave to."""

    async def send(self, text: str) -> object:
        """Send a line; return once another may follow."""
        ...


class Outbox:
    """The lines for one client. `before` is awaited before a line leaves: what it tells may have to be kept first."""

    def __init__(self, socket: TakesLines, most: int) -> None:
        self._socket = socket
        self.before: Callable[[], Awaitable[None]] | None = None
        self._most = most
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._writer: asyncio.Task[None] | None = None
        self._passing: asyncio.Future[None] | None = None  # while a line leaves without the writer
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
        if size and self._passing is None:
            self._begin()
        return size

    def _begin(self) -> None:
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def pass_on(self, line: bytes) -> int:
        """Send a line behind those that wait, and return its bytes once there is room for more. Where none waits this takes no
        task, which is most of what a short line costs."""
        if self._writer is not None or self._passing is not None or self.before is not None:
            size = self.put([line])
            await self.room()
            return size
        self._passing = asyncio.get_running_loop().create_future()
        self._waiting += len(line)
        try:
            await self._socket.send(line.decode())
        finally:
            self._waiting -= len(line)
            passed, self._passing = self._passing, None
            passed.set_result(None)
            if self._lines:
                self._begin()
        await self.room()
        return len(line)

    async def room(self) -> None:
        """Wait until no more than `most` bytes wait."""
        await self._room.wait()

    async def send(self, text: str) -> int:
        """Send a line, and return its bytes once all that waits has left."""
        size = self.put([text.encode()])
        await self.sent()
        return size

    @property
    def waiting(self) -> int:
        """How many bytes wait."""
        return self._waiting

    @property
    def full(self) -> bool:
        """Whether more than `most` bytes wait."""
        return self._waiting > self._most

    async def sent(self) -> None:
        """Return once all that waits has left."""
        while (leaving := self._writer or self._passing) is not None:
            await asyncio.wait([leaving])

    async def _write(self) -> None:
        """Write what waits. When this ends there is no writer any more: a line that comes later begins another."""
        try:
            while self._lines:
                if self.before is not None:
                    await self.before()
                line = self._lines.popleft()
                await self._socket.send(line.decode())
                self._waiting -= len(line)
                if self._waiting <= self._most:
                    self._room.set()
        finally:
            self._writer = None
            self._room.set()
