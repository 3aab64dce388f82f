"""A client for thousands of streams at once: one asyncio Protocol a stream, and no more HTTP than the benchmark needs.

It sends one chat completion, notes when something arrived, counts `data:` lines, and closes. What arrives is searched, not
parsed, so that the client is not what is measured. Times are the event loop's, in seconds.
"""

import asyncio
from typing import cast

EVENT = b"data: "
END = b"data: [DONE]"
ERROR = b'"error"'


class Stream(asyncio.Protocol):
    """One stream. `outcome` resolves to "ok" or to a few words on what went wrong."""

    def __init__(self, loop: asyncio.AbstractEventLoop, body: bytes, *, leave_after: int | None = None) -> None:
        self.outcome: asyncio.Future[str] = loop.create_future()
        self.events = 0
        self.first = 0.0
        self.longest_gap = 0.0
        self._loop = loop
        self._body = body
        self._leave_after = leave_after
        self._last = 0.0
        self._tail = b""
        self._head = True
        self._transport: asyncio.Transport | None = None
        self.began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not of asyncio's classes
        self.began = self._loop.time()
        self._transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer -\r\nContent-Length: %d\r\n\r\n%b" % (len(self._body), self._body)
        )

    def data_received(self, data: bytes) -> None:
        now = self._loop.time()
        if self._head:
            self._head = False
            if b" 200 " not in data[:16]:
                self._end("status " + data[9:12].decode("latin-1"))
                return
        text = self._tail + data
        found = text.count(EVENT)
        if found:
            self._note(found, now)
            # a mark may be cut in two, so the end is kept; one already counted must not be seen again
            text = text[text.rindex(EVENT) + 1 :]
        self._tail = text[-len(END) :]
        if ERROR in data:
            self._end("error event")
        elif END[1:] in text or (self._leave_after is not None and self.events >= self._leave_after):
            self._end("ok")

    def _note(self, events: int, now: float) -> None:
        self.events += events
        if self.first:
            self.longest_gap = max(self.longest_gap, now - self._last)
        else:
            self.first = now - self.began
        self._last = now

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("connection lost")

    def _end(self, outcome: str) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)
        if self._transport is not None:
            self._transport.close()


async def open_stream(port: int, body: bytes, *, leave_after: int | None = None) -> Stream:
    """Connect and send. With `leave_after`, hang up after so many events."""
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(lambda: Stream(loop, body, leave_after=leave_after), "127.0.0.1", port)
    return stream
