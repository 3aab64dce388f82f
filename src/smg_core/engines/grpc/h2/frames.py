"""HTTP/2 frames on the wire: numbers and builders.

Decides how frames look, nothing about when they are sent. Pure. Below the other modules of this folder.
Source: RFC 9113.
"""

import struct
from collections.abc import Iterable

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "FRAME_HEAD",
    "GOAWAY",
    "HEADERS",
    "MAX_FRAME",
    "MAX_WINDOW",
    "PADDED",
    "PING",
    "PREFACE",
    "PRIORITY",
    "PRIORITY_FLAG",
    "PUSH_PROMISE",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW_UPDATE",
    "Code",
    "ProtocolError",
    "SettingsParameter",
    "frame",
    "frame_head",
    "settings",
    "unpad",
    "window_update",
]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
MAX_FRAME = 16_384  # what we accept: the protocol's own default, never raised
MAX_WINDOW = 2**31 - 1
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY_FLAG = 0x1, 0x1, 0x4, 0x8, 0x20


class Code:
    """Error codes of RST_STREAM and GOAWAY."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    FLOW_CONTROL_ERROR = 0x3
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class SettingsParameter:
    """Identifiers inside a SETTINGS frame."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


class ProtocolError(Exception):
    """The peer broke the connection's rules: nothing that follows can be trusted. `outside_text`: the part of the reason that may
    have what the peer sent."""

    def __init__(self, code: int, reason: str, *, outside_text: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.outside_text = outside_text


FRAME_HEAD = struct.Struct(">HBBBI")
"""The nine bytes before a payload: two high and one low part of its length, kind, flags, stream."""
_UPDATE = struct.Struct(">HBBBII")
_SETTING = struct.Struct(">HI")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One whole frame."""
    length = len(payload)
    return FRAME_HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def frame_head(length: int, kind: int, flags: int, stream: int) -> bytes:
    """The nine bytes before a payload of `length`."""
    return FRAME_HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def window_update(stream: int, increment: int) -> bytes:
    """Grants `increment` more bytes to a stream, or to the connection when `stream` is 0."""
    return _UPDATE.pack(0, 4, WINDOW_UPDATE, 0, stream, increment)


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    """A SETTINGS frame of `(identifier, value)` pairs."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*value) for value in values))


def unpad(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the content of a padded frame begins and ends."""
    if at == end or data[at] > end - at - 1:
        raise ProtocolError(Code.PROTOCOL_ERROR, "padding longer than its frame")
    return at + 1, end - data[at]
