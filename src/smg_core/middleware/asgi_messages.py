"""Checks the messages of an ASGI middleware in both directions, by the rules of ASGI and HTTP.

A server answers a message that breaks them by an error, or closes the connection without an answer. Here it is told whose message
it was, before any of it has left. Pure. Above: plugins.asgi_exchange. Below: `base`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, MutableMapping

from smg_core.middleware.base import MiddlewareFault

__all__ = ["STARTS", "SentAnswer", "check_received"]

STARTS = {
    "http.response.start": 200,
    "websocket.accept": 101,
    "websocket.close": 403,
    "websocket.http.response.start": 403,
}
"""The messages with which an answer begins, and the status of one that names none."""
_BODIES = frozenset({"http.response.body", "websocket.http.response.body"})
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_WITHOUT_BODY = (204, 304)
_FRAMING = frozenset({b"transfer-encoding"})
_CLOSES = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})
"""Codes with which a WebSocket may be closed (RFC 6455, 7.4, and the registry of IANA)."""
_LONGEST_REASON = 123  # bytes
_LONGEST_QUOTE = 60  # characters of what a middleware sent that are told


def _pairs(headers: object) -> list[tuple[bytes, bytes]]:
    """The headers of a message. Raises MiddlewareFault."""
    if not isinstance(headers, Iterable):
        raise MiddlewareFault(f"sent {type(headers).__name__} for headers")
    found = []
    for each in headers:
        name, value = each if isinstance(each, tuple | list) and len(each) == 2 else (None, None)
        if not isinstance(name, bytes) or not isinstance(value, bytes):
            raise MiddlewareFault("sent a header that is no pair of bytes")
        if not _NAME.fullmatch(name):
            raise MiddlewareFault(f"sent a header of the name {name[:_LONGEST_QUOTE]!r}, which is none")
        if not _VALUE.fullmatch(value):
            raise MiddlewareFault(f"sent the header {name[:_LONGEST_QUOTE].decode()} with a value that is none")
        if name.lower() in _FRAMING:
            raise MiddlewareFault(f"sent the header {name[:_LONGEST_QUOTE].decode()}, which is the server's")
        found.append((name, value))
    return found


def _length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The length that the headers give a body, None for none. Raises MiddlewareFault."""
    found = {value.strip() for name, value in headers if name.lower() == b"content-length"}
    if len(found) > 1 or not all(_LENGTH.fullmatch(each) for each in found):
        raise MiddlewareFault("sent a content-length that is none")
    return int(found.pop()) if found else None


class SentAnswer:
    """An answer as it is sent, message by message: `started`, `ended`, and the bytes of its body that were `written` by messages.
    `extensions` are the messages that the server takes beside those of ASGI."""

    def __init__(self, method: str = "", extensions: Collection[str] = ()) -> None:
        self._method, self._extensions = method, extensions
        self._length: int | None = None
        self.started = self.ended = self._accepted = False
        self.headers: list[tuple[bytes, bytes]] = []
        self.status = self.written = 0

    def take(self, message: object, direct_bytes: int = 0) -> None:
        """The next message; `direct_bytes` were written without one. Raises MiddlewareFault for one that is wrong, which changes
        nothing."""
        kind = message.get("type") if isinstance(message, MutableMapping) else None
        if not isinstance(message, MutableMapping) or not isinstance(kind, str):
            raise MiddlewareFault("sent what is no message")
        if kind in STARTS:
            self._start(kind, message)
        elif kind in _BODIES:
            self._body(message, direct_bytes)
        elif kind == "websocket.send":
            if not self._accepted or self.ended:
                raise MiddlewareFault("sent a frame where no WebSocket is open")
            _check_frame(message)
        elif kind in self._extensions:
            self.ended = True  # what it does is known to the server alone
        else:
            raise MiddlewareFault(f"sent a message of the type {kind[:_LONGEST_QUOTE]!r}")

    def _start(self, kind: str, message: Mapping[str, object]) -> None:
        if kind != "websocket.close" and self.started:
            raise MiddlewareFault("began its answer twice")
        if kind == "websocket.close":
            _check_close(message, closed=self.ended)
        elif kind == "websocket.accept":
            _check_accept(message)
            self._accepted = True
        status = message.get("status", STARTS[kind])
        if kind.endswith("response.start") and not (isinstance(status, int) and 200 <= status <= 599):
            raise MiddlewareFault(f"sent the status {str(status)[:_LONGEST_QUOTE]}, which is none of an answer")
        headers = _pairs(message.get("headers", ()))
        self._length = _length(headers)
        if not self.started:
            self.status = status if isinstance(status, int) else STARTS[kind]
        self.started, self.headers = True, headers
        self.ended = kind == "websocket.close"

    def _body(self, message: Mapping[str, object], direct_bytes: int) -> None:
        body = message.get("body", b"")
        if not isinstance(body, bytes | bytearray):
            raise MiddlewareFault(f"sent {type(body).__name__} for a body")
        if not self.started or self.ended:
            raise MiddlewareFault("sent a body that belongs to no answer")
        ends, written = not message.get("more_body", False), self.written + len(body)
        if body and self.status in _WITHOUT_BODY:
            raise MiddlewareFault(f"sent a body with the status {self.status}, which has none")
        if self._length is not None and self._method != "HEAD" and self.status not in _WITHOUT_BODY:
            whole = written + direct_bytes
            if whole > self._length or (ends and whole < self._length):
                raise MiddlewareFault(f"sent {whole} bytes of a body of {self._length}")
        self.written, self.ended = written, ends


def _check_frame(message: Mapping[str, object]) -> None:
    text, data = message.get("text"), message.get("bytes")
    if not (isinstance(text, str) if text is not None else isinstance(data, bytes)):
        raise MiddlewareFault("sent a frame that is neither text nor bytes")
    if isinstance(text, str) and not _is_utf8(text):
        raise MiddlewareFault("sent a frame with half a surrogate pair")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_accept(message: Mapping[str, object]) -> None:
    protocol = message.get("subprotocol")
    if protocol is not None and not (
        isinstance(protocol, str) and _NAME.fullmatch(protocol.encode("utf-8", "replace"))
    ):
        raise MiddlewareFault("accepted a WebSocket with a subprotocol that is none")


def _check_close(message: Mapping[str, object], *, closed: bool) -> None:
    if closed:
        raise MiddlewareFault("closed a WebSocket twice")
    code, reason = message.get("code", 1000), message.get("reason") or ""
    if not isinstance(code, int) or code not in _CLOSES:
        raise MiddlewareFault("closed a WebSocket with a code that is none")
    if not isinstance(reason, str) or not _is_utf8(reason) or len(reason.encode()) > _LONGEST_REASON:
        raise MiddlewareFault(f"closed a WebSocket with a reason that is no text of {_LONGEST_REASON} bytes")


def check_received(message: object) -> None:
    """What a middleware gives to what it wraps, as a message of the client. Raises MiddlewareFault for what is none."""
    kind = message.get("type") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(kind, str):
        raise MiddlewareFault("gave what is no message")
    if kind == "http.request":
        body = message.get("body", b"")
        if not isinstance(body, bytes):
            raise MiddlewareFault(f"gave {type(body).__name__} for a body")
    elif kind == "websocket.receive":
        text, data = message.get("text"), message.get("bytes")
        if not isinstance(text, str | None) or not isinstance(data, bytes | None):
            raise MiddlewareFault("gave a frame that is neither text nor bytes")
    elif kind not in ("http.disconnect", "websocket.connect", "websocket.disconnect"):
        raise MiddlewareFault(f"gave a message of the type {kind[:_LONGEST_QUOTE]!r}")
