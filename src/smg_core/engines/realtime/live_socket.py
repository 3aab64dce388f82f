"""A connection to Gemini Live as a session of the Realtime API (edge).

Sends what the translation makes of a client's events, once the server has answered the setup, and reads events out of what the
server says. A connection that ends while no response is under way is opened anew, and goes on with the session, where the server
has given a handle for that: its connections live for minutes, its sessions longer. Above: the engine. Below: the translation,
the connection.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from smg_core.engines.realtime.connection import PeerSocket
from smg_core.engines.realtime.live_translation import LiveTranslation
from smg_core.engines.realtime.live_wire import read_live_event, read_live_message
from smg_core.errors import EngineFailed, WorkerError, WorkerGone

__all__ = ["LiveSocket"]

_READ_INLINE = 64 * 1024
"""Bytes up to which a message is read on the event loop."""


class LiveSocket:
    """One session. `again` opens another connection; a setup is answered within `seconds`."""

    def __init__(
        self,
        socket: PeerSocket,
        translation: LiveTranslation,
        again: Callable[[], Awaitable[PeerSocket]],
        seconds: float,
    ) -> None:
        self._socket, self._translation, self._again, self._seconds = socket, translation, again, seconds
        self._events: deque[bytes] = deque(translation.opened())
        self._news = asyncio.Event()  # that there are events of the client's own making
        self._ready = asyncio.Event()  # that the server takes more than a setup
        self._reading: asyncio.Task[bytes] | None = None
        self._sending = asyncio.Lock()
        self._given_up = False  # the server was left, which has not begun the session
        self._spoken = False  # the server has said more than that it is set up, on this connection

    @property
    def closed_well(self) -> bool:
        """Whether the server has closed the session as it should."""
        return self._socket.closed_well and not self._given_up

    async def send(self, text: bytes) -> None:
        """Send what an event of the client becomes, once the server reads. Raises WorkerGone, and EngineFailed for a server that
        answers no setup."""
        long = len(text) > _READ_INLINE
        made = self._translation.sent(await asyncio.to_thread(read_live_event, text) if long else read_live_event(text))
        self._events.extend(made.to_client)
        if made.to_client:
            self._news.set()
        async with self._sending:
            if made.setup:
                await self._socket.send(made.setup)
            for message in made.to_server:
                await self._say(message)

    async def _say(self, message: bytes) -> None:
        """Send a message; over the next connection where this one has ended meanwhile."""
        await self._set_up()
        socket = self._socket
        try:
            await socket.send(message)
        except WorkerGone:
            if not self._translation.can_go_on:
                raise
            if self._socket is socket:
                self._ready.clear()
            await self._set_up()
            await self._socket.send(message)

    async def _set_up(self) -> None:
        """Wait until the server has answered the setup."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._ready.wait()
        except TimeoutError:
            self._given_up = True
            await self._socket.close()
            raise EngineFailed(
                "The server of this session has not begun it.", detail=f"no answer to the setup in {self._seconds} s"
            ) from None

    async def receive(self) -> bytes:
        """The next event. Raises WorkerGone once the session is over."""
        while not self._events:
            self._news.clear()
            reading = self._reading
            if reading is None:
                reading = self._reading = asyncio.ensure_future(self._socket.receive())
                reading.add_done_callback(lambda _: self._news.set())
            await self._news.wait()
            if reading.done():
                self._reading = None
                await self._take(reading)
        return self._events.popleft()

    async def _take(self, read: "asyncio.Task[bytes]") -> None:
        """A message of the server, or the end of its connection."""
        try:
            data = read.result()
        except WorkerGone:
            if not self._spoken or not self._translation.can_go_on:
                self._ready.set()  # whoever waits to send finds out too
                raise
            await self._go_on()
            return
        long = len(data) > _READ_INLINE
        message = await asyncio.to_thread(read_live_message, data) if long else read_live_message(data)
        if message is None:
            self._events.append(data)  # it is no event either, which ends the session
            return
        self._events.extend(self._translation.received(message))
        if message.setup_complete is not None:
            self._ready.set()
        else:
            self._spoken = True

    async def _go_on(self) -> None:
        """Go on with the session on another connection."""
        self._ready.clear()
        self._spoken = False
        try:
            self._socket = await self._again()
            await self._socket.send(self._translation.setup_again())
        except WorkerError as error:
            self._ready.set()
            raise WorkerGone(
                "The server of this session has ended it.", detail=str(error), outside_text=str(error)
            ) from None

    async def close(self) -> None:
        """End the session there."""
        reading = self._reading
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await self._socket.close()
