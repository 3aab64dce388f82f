"""Writes AWS's event stream, for peers that tests play and for the tests of its reader."""

import struct
import zlib
from collections.abc import Mapping

__all__ = ["error_frame", "event_frame", "exception_frame", "frame"]


def frame(headers: Mapping[str, str | bytes | bool | int], payload: bytes) -> bytes:
    """One message."""
    block = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(block) + len(payload), len(block))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + block + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def event_frame(kind: str, payload: bytes) -> bytes:
    """An event, as Bedrock writes them."""
    return frame({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def exception_frame(kind: str, payload: bytes) -> bytes:
    """A modelled error inside an answer."""
    return frame({":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, payload)


def error_frame(code: str, message: str) -> bytes:
    """An error that the service has no model for."""
    return frame({":error-code": code, ":error-message": message, ":message-type": "error"}, b"")


def _header(name: str, value: str | bytes | bool | int) -> bytes:
    head = bytes([len(name)]) + name.encode()
    if isinstance(value, bool):
        return head + bytes([0 if value else 1])
    if isinstance(value, int):
        return head + b"\x05" + struct.pack(">q", value)
    data = value if isinstance(value, bytes) else value.encode()
    return head + (b"\x06" if isinstance(value, bytes) else b"\x07") + struct.pack(">H", len(data)) + data
