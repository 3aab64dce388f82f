"""Answers of an HTTP/1.1 server: bytes in any pieces in, heads and pieces of bodies out.

`AnswerReader` reads the answers of one connection, one after the other; llhttp (the package httptools) cuts the bytes. Decides
what a head must not be: too long, a switch of protocols, or more than was asked for. Pure. Above: client. Sources: RFC 9112.

A reader does not raise: what came before something went wrong is not lost, and `fault` says what did.
"""

from typing import Protocol

import attrs
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from smg_core.errors import EngineGarbled, SmgError

__all__ = ["AnswerReader", "HttpReceiver", "HttpReply"]


@attrs.frozen
class HttpReply:
    """A whole answer. `headers` have lower-case names; the values of a repeated one are joined by ", ". `cut`: the body went on
    and only its beginning is here."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool = False


class HttpReceiver(Protocol):
    """Where the answer of one call is pushed. All are plain calls on the event loop's thread, which must not block or raise."""

    def head(self, status: int, headers: dict[str, str]) -> None:
        """The answer's status and headers, as in `HttpReply`; called once, before any piece of the body."""
        ...

    def body(self, piece: bytes) -> None:
        """What one read brought of the body; never empty."""
        ...

    def closed(self, error: SmgError | None) -> None:
        """The call is over: None when the answer is whole. Called exactly once, and not for a call that was cancelled."""
        ...


class AnswerReader:
    """The answers of one connection. `begin` before each; then `feed` what is read, and look at the attributes.

    `status` is 0 until the head is complete; answers of status 1xx before the real one are passed over. `begun`: the server has
    said something. `done`: the answer is whole. `keep_alive`: then another request may be sent. `fault` is what is wrong with
    what came. `most_head_bytes` bounds the head, and what comes between two pieces of a body that is no body (extensions of
    chunks, trailers).
    """

    def __init__(self, most_head_bytes: int) -> None:
        self._most = most_head_bytes
        self._parser = HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self.begin()
        self.done = True  # nothing is awaited yet

    def begin(self) -> None:
        """Await the next answer."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.begun = self.done = self.keep_alive = False
        self.fault: SmgError | None = None
        self._until_end = False  # the body goes on until the connection ends
        self._idle = 0  # bytes since the last piece of a body

    def feed(self, data: bytes) -> bytes:
        """Read `data`, never empty; returns what it brought of the body."""
        if self.done:
            self.keep_alive = False
            self.fault = self.fault or EngineGarbled("The engine sent what was not asked for.")
            return b""
        self.begun = True
        if not self.status and len(data) > self._most - self._idle:
            head_end = self._most - self._idle
            if not self._parse(data[:head_end]):
                return self._body(head_end)
            if not self.status:
                self._idle = self._most
                self._fail(f"a head of more than {self._most} bytes")
                return b""
            data = data[head_end:]
        if data:
            self._parse(data)
        return self._body(len(data))

    def end(self) -> None:
        """The connection is at its end, which is the end of a body without a length."""
        if self._until_end and not self.fault:
            self.done = True

    def _parse(self, data: bytes) -> bool:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail("it wants to change the protocol")
        except HttpParserError as error:
            if self.done:  # more than the answer
                self.keep_alive = False
            else:
                self._fail(str(error), str(error))
        return self.fault is None

    def _fail(self, detail: str, outside_text: str = "") -> None:
        """`outside_text`: the part of the detail that may have the engine's words."""
        message = "The engine broke HTTP." if self.status else "The engine does not speak HTTP/1.1."
        self.fault = EngineGarbled(message, detail=detail, outside_text=outside_text)

    def _body(self, read: int) -> bytes:
        pieces = self._pieces
        if not pieces:
            self._idle += read
            if self.status and self._idle > self._most and not self.done and self.fault is None:
                self._fail(f"more than {self._most} bytes between two pieces of a body")
            return b""
        self._idle = 0
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return body

    # ------------------------------------------------------------------------------------------------ called by the parser

    def on_message_begin(self) -> None:
        if self.done:
            self.keep_alive = False  # one more answer than requests
        self.headers = {} if not self.status else self.headers

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.status or 100 <= status < 200:
            return
        self.status = status
        bodiless = status in (204, 304)
        self._until_end = not (bodiless or "content-length" in self.headers or "transfer-encoding" in self.headers)

    def on_body(self, piece: bytes) -> None:
        if not self.done:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self.status and not self.done:
            self.done = True
            self.keep_alive = self._parser.should_keep_alive()
