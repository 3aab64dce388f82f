"""A relay between a client and the gateway that writes down what they say: every request, and the status that it got.

Bytes are passed on as they come; copies go through parsers. What follows an upgrade is passed on and not read.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httptools
from tests.peers import listening


@attrs.define
class Exchange:
    """One request of a client, and its answer's status (0 until it has come)."""

    method: str
    target: str
    headers: dict[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    status: int = 0
    answer: dict[str, str] = attrs.field(factory=dict)  # the answer's headers

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


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parser: Any) -> None:
    try:
        while data := await reader.read(65536):
            if parser is not None:
                try:
                    parser.feed_data(data)
                except (httptools.HttpParserUpgrade, httptools.HttpParserError):
                    parser = None
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


@asynccontextmanager
async def recording(port: int) -> AsyncIterator[tuple[int, list[Exchange]]]:
    """A relay to `port` of this machine: its own port, and the exchanges so far."""
    exchanges: list[Exchange] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", port)
        requests = _Requests(exchanges)
        try:
            await asyncio.gather(_pump(reader, ours, requests.parser), _pump(theirs, writer, _Answers(requests).parser))
        finally:
            ours.close()

    async with listening(take) as own:
        yield own, exchanges
