"""A relay between a client and the gateway that writes down what they say: every request, and the status that it got.

Bytes are passed on as they come; copies go through parsers. Of a WebSocket the client's texts are written down.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httptools
from tests.peers import listening
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol


@attrs.define
class Exchange:
    """One request of a client, and its answer's status (0 until it has come). `frames` are the texts that the client sends on the
    WebSocket that a handshake opens."""

    method: str
    target: str
    headers: dict[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    status: int = 0
    answer: dict[str, str] = attrs.field(factory=dict)  # the answer's headers
    frames: list[bytes] = attrs.field(factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Requests:
    """httptools' callbacks for one connection's requests."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        self.mine: list[Exchange] = []
        self._all = exchanges
        self._target = b""
        self._headers: dict[str, str] = {}
        self.parser: Any = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self._target, self._headers = b"", {}

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.mine.append(Exchange(self.parser.get_method().decode(), self._target.decode(), self._headers))
        self._all.append(self.mine[-1])

    def on_body(self, part: bytes) -> None:
        self.mine[-1].body += part


class _Frames:
    """What a client sends on a WebSocket, read as a server reads it: texts, put together where they come in fragments."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._protocol = ServerProtocol(state=State.OPEN, max_size=None)
        self._text = b""

    def feed_data(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for frame in self._protocol.events_received():
            if isinstance(frame, Frame) and frame.opcode in (Opcode.TEXT, Opcode.CONT):
                self._text += frame.data
                if frame.fin:
                    self._exchange.frames.append(self._text)
                    self._text = b""


class _Answers:
    """httptools' callbacks for the answers of the same connection."""

    def __init__(self, requests: _Requests) -> None:
        self._requests = requests
        self._answered = 0
        self._headers: dict[str, str] = {}
        self.parser: Any = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        status, headers, self._headers = self.parser.get_status_code(), self._headers, {}
        if status >= 200 or status == 101:
            exchange = self._requests.mine[self._answered]
            exchange.status, exchange.answer = status, headers
            self._answered += 1


def _unchanged(data: bytes) -> bytes:
    return data


def _without_upgrade(data: bytes) -> bytes:
    return re.sub(rb"(?i)\r\nupgrade: websocket", b"", data)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    parser: Any,
    upgraded: Callable[[], Any] = lambda: None,
    change: Callable[[bytes], bytes] = _unchanged,
) -> None:
    """Pass bytes on, as `change` makes them. `upgraded` gives what reads them once the connection is no longer HTTP (None:
    nobody)."""
    try:
        while data := change(await reader.read(65536)):
            if parser is not None:
                try:
                    parser.feed_data(data)
                except httptools.HttpParserUpgrade as upgrade:
                    parser = upgraded()
                    if parser is not None:
                        parser.feed_data(data[upgrade.args[0] :])
                except httptools.HttpParserError:
                    parser = None
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


@asynccontextmanager
async def recording(port: int, *, upgrades: bool = True) -> AsyncIterator[tuple[int, list[Exchange]]]:
    """A relay to `port` of this machine: its own port, and the exchanges so far. Without `upgrades` it leaves out the header that
    asks for one, as a proxy does that knows no WebSocket."""
    exchanges: list[Exchange] = []
    change = _unchanged if upgrades else _without_upgrade

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", port)
        requests = _Requests(exchanges)
        try:
            await asyncio.gather(
                _pump(reader, ours, requests.parser, lambda: _Frames(requests.mine[-1]), change),
                _pump(theirs, writer, _Answers(requests).parser),
            )
        finally:
            ours.close()

    async with listening(take) as own:
        yield own, exchanges
