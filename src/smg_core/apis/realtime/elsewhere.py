"""Calls that another process of the same gateway has (edge): hung up and listened in to from here, through a socket of its own.

A process that has calls tells the others by the channel where it is asked about each: a socket in a folder that its user alone
may enter. Of what is asked and told each piece is a length and so many bytes. Above: the calls. Below: the channel.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.channel.base import Channel, Notice
from smg_core.errors import Conflict, NotFound, Overloaded, SmgError
from smg_core.http.websocket import Received, WebSocket

__all__ = ["AskedCall", "CallSocket", "CallsElsewhere"]

_KIND = "realtime.call"
_HEAD_BYTES = 4
_NORMAL, _GONE = 1000, 1001  # why a connection is closed (RFC 6455, 7.4.1)
_LOST = (OSError, asyncio.IncompleteReadError)


class AskedCall(Struct, frozen=True):
    """What one process asks of another about a call of its caller's `tenant`."""

    call: str
    tenant: str
    wish: Literal["hang up", "listen"]


class CallSocket:
    """The connection of one who listens in through another process, as the WebSocket that it is there. A message of a client has
    at most `most` bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> None:
        self._reader, self._writer, self._most = reader, writer, most

    async def read(self) -> Received | None:
        """The next message; None once the other side has closed, or is lost."""
        try:
            data = await self._piece()
        except _LOST:
            return None
        return None if data is None else Received(data[:1] == b"t", data[1:])

    async def _piece(self) -> bytes | None:
        size = int.from_bytes(await self._reader.readexactly(_HEAD_BYTES))
        if size > self._most + 1:
            return None
        return await self._reader.readexactly(size)

    async def pass_on(self, message: Received) -> None:
        """Send a message of a client."""
        data = message.encoded()
        self._write((b"t" if message.text else b"b") + bytes(data))
        await self._drain()

    async def send(self, text: str) -> int:
        """Send an event."""
        data = text.encode()
        self._write(b"t" + data)
        await self._drain()
        return len(data)

    def say(self, data: bytes) -> None:
        """Send a piece without waiting: a question, or its answer."""
        self._write(data)

    def _write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(len(data).to_bytes(_HEAD_BYTES) + data)

    async def _drain(self) -> None:
        with contextlib.suppress(*_LOST):
            await self._writer.drain()

    async def heard(self) -> bytes:
        """The next piece, whatever it is. Raises NotFound where there is none: the call is over."""
        try:
            return await self._piece() or b""
        except _LOST:
            raise _no_call() from None

    async def close(self, code: int) -> None:
        """Close the connection; the other side sees no code but that it is over."""
        self._writer.close()
        with contextlib.suppress(*_LOST):
            await self._writer.wait_closed()


class CallsElsewhere:
    """What one process knows of the calls of the others, and tells of its own. `answer` is called with what another process asks,
    and the connection over which it does; it raises SmgError for what is refused, before it sends anything."""

    def __init__(self, channel: Channel, most: int, answer: Callable[[AskedCall, CallSocket], Awaitable[None]]) -> None:
        self._channel, self._most, self._answer = channel, most, answer
        self._places: dict[str, str] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None
        channel.subscribe(_KIND, self._notice)

    def _notice(self, notice: Notice) -> None:
        if notice.body:
            self._places[notice.key] = notice.body.decode()
        else:
            self._places.pop(notice.key, None)

    async def tell(self, id: str) -> None:
        """Tell the others that this process has a call. Raises Overloaded."""
        if self._folder is None:
            self._folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="smg-calls-")
            self._server = await asyncio.start_unix_server(self._asked, Path(self._folder.name) / "calls")
        await self._channel.publish(_KIND, str(Path(self._folder.name) / "calls").encode(), key=id)

    async def forget(self, id: str) -> None:
        """Tell the others that a call is over."""
        with contextlib.suppress(SmgError):  # the gateway ends, and all calls with it
            await self._channel.publish(_KIND, b"", key=id)

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._server is not None and self._folder is not None:
            self._server.close()
            await asyncio.to_thread(self._folder.cleanup)

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = CallSocket(reader, writer, self._most)
        try:
            question = msgspec.json.decode(await socket.heard(), type=AskedCall)
            await self._answer(question, socket)
        except SmgError as error:
            kind = "conflict" if isinstance(error, Conflict) else "over" if isinstance(error, Overloaded) else "none"
            socket.say(msgspec.json.encode([kind, error.message]))
        finally:
            await socket.close(_NORMAL)

    # --------------------------------------------------------------------------------------- what others are asked

    async def hang_up(self, id: str, tenant: str) -> None:
        """Have the process that has a call end it. Raises NotFound."""
        socket = await self._ask(AskedCall(id, tenant, "hang up"))
        await socket.close(_NORMAL)

    async def listen(self, id: str, tenant: str, exchange: WebSocket, accept: Callable[[], Awaitable[None]]) -> None:
        """Have a connection that `accept` accepts listen in to a call of another process, until either is over. Raises NotFound,
        Conflict and Overloaded before that."""
        socket = await self._ask(AskedCall(id, tenant, "listen"))
        telling: asyncio.Task[None] | None = None
        try:
            await accept()
            telling = asyncio.get_running_loop().create_task(self._tell(socket, exchange))
            while (message := await exchange.read()) is not None:
                await socket.pass_on(message)
        finally:
            await socket.close(_NORMAL)
            if telling is not None:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)

    async def _tell(self, socket: CallSocket, exchange: WebSocket) -> None:
        while (message := await socket.read()) is not None:
            await exchange.send(message.encoded().decode())
        await exchange.close(_NORMAL)

    async def _ask(self, question: AskedCall) -> CallSocket:
        place = self._places.get(question.call)
        if place is None:
            raise _no_call()
        try:
            reader, writer = await asyncio.open_unix_connection(place)
        except OSError:  # its process is gone, and with it all of its calls
            self._places = {call: each for call, each in self._places.items() if each != place}
            raise _no_call() from None
        socket = CallSocket(reader, writer, self._most)
        socket.say(msgspec.json.encode(question))
        try:
            _check_answer(await socket.heard())
        except BaseException:
            await socket.close(_GONE)
            raise
        return socket


def _check_answer(data: bytes) -> None:
    """Raise what another process has refused a question with."""
    kind, message = msgspec.json.decode(data, type=tuple[str, str])
    if kind == "conflict":
        raise Conflict(message, code="too_many_connections")
    if kind == "over":
        raise Overloaded(message)
    if kind != "ok":
        raise _no_call()


def _no_call() -> NotFound:
    return NotFound("This server has no such call.", param="call_id", code="call_id_not_found")
