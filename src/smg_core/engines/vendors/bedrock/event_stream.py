"""AWS's event stream (`application/vnd.amazon.eventstream`): bytes in any pieces in, messages out.

Decides what a message is and what is broken. Pure. Above: the readers of Bedrock's answers. Below: errors. Sources: AWS's
description of the encoding.

    total length u32 | length of headers u32 | CRC32 of these 8 bytes u32 | headers | payload | CRC32 of all before u32
    a header: length of its name u8 | name | type u8 | value

All numbers are big-endian. A message that does not fit its checksums is an error: there is nothing to go on from.
"""

import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from smg_core.errors import EngineGarbled

__all__ = ["MOST_HEADERS", "MOST_PAYLOAD", "EventMessage", "EventStreamReader"]

MOST_HEADERS = 128 * 1024
"""Most bytes of the headers of a message, by the encoding's own rule."""
MOST_PAYLOAD = 24 * 1024 * 1024
"""Most bytes of the payload of a message, by the encoding's own rule."""
_PRELUDE = struct.Struct(">III")
_SUM = struct.Struct(">I")
_AROUND = _PRELUDE.size + _SUM.size
"""Bytes of a message beside headers and payload."""
_NUMBERS = {kind: struct.Struct(f">{code}") for kind, code in {2: "b", 3: "h", 4: "i", 5: "q", 8: "q"}.items()}
_TRUE, _FALSE, _BYTES, _TEXT, _UUID = 0, 1, 6, 7, 9
_UUID_SIZE = 16
_LENGTH = struct.Struct(">H")
_REPEATED = 256
"""Most bytes of a block of headers that is kept for the next message with the same one."""

HeaderValue = str | int | bool | bytes


class EventMessage(Struct, frozen=True):
    """One message: its headers by name, and its payload."""

    headers: Mapping[str, HeaderValue]
    payload: bytes

    def text(self, name: str) -> str:
        """A header that is text; "" where there is none."""
        found = self.headers.get(name)
        return found if isinstance(found, str) else ""


class EventStreamReader:
    """Cuts a stream into messages; one whose payload is longer than `most` bytes is refused before it is kept."""

    __slots__ = ("_held", "_most", "_need")

    def __init__(self, most: int = MOST_PAYLOAD) -> None:
        self._most = min(most, MOST_PAYLOAD)
        self._held = bytearray()  # the beginning of a message
        self._need = 0  # bytes that it has to have for the next step

    def feed(self, data: bytes) -> list[EventMessage]:
        """The messages that the next bytes complete. Raises EngineGarbled, after which nothing more is read; messages before the
        broken one are lost only where they came in the same piece."""
        if self._held:
            self._held += data
            if len(self._held) < self._need:
                return []
            data = bytes(self._held)
            self._held.clear()
        found: list[EventMessage] = []
        at, end, need = 0, len(data), _PRELUDE.size
        while end - at >= _PRELUDE.size:
            total, headers, checksum = _PRELUDE.unpack_from(data, at)
            if zlib.crc32(data[at : at + _PRELUDE.size - _SUM.size]) != checksum:
                raise _garbled("the checksum of a message's lengths is wrong")
            if headers > MOST_HEADERS or not 0 <= total - headers - _AROUND <= self._most:
                raise _garbled(f"a message of {total} bytes with {headers} bytes of headers")
            need = int(total)
            if end - at < need:
                break
            last, payload = at + need - _SUM.size, at + _PRELUDE.size + headers
            if zlib.crc32(data[at:last]) != _SUM.unpack_from(data, last)[0]:
                raise _garbled("the checksum of a message is wrong")
            block = data[at + _PRELUDE.size : payload]
            try:
                named = _known_headers(block) if headers <= _REPEATED else _headers(block)
            except (struct.error, IndexError, UnicodeDecodeError):
                raise _garbled("the headers of a message cannot be read") from None
            found.append(EventMessage(named, data[payload:last]))
            at, need = at + need, _PRELUDE.size
        if at < end:
            self._held += data[at:]
            self._need = need
        return found

    @property
    def within(self) -> bool:
        """Whether the stream has begun a message that is not whole."""
        return bool(self._held)


@lru_cache(maxsize=64)
def _known_headers(block: bytes) -> Mapping[str, HeaderValue]:
    """The headers of a short block, which all events of one kind have alike."""
    return _headers(block)


def _headers(data: bytes) -> dict[str, HeaderValue]:
    found: dict[str, HeaderValue] = {}
    at = 0
    while at < len(data):
        begin = at + 1
        at = begin + data[at]
        name, kind = data[begin:at].decode(), data[at]
        at += 1
        size = _size(kind, data, at)
        if kind in (_BYTES, _TEXT):
            at += _LENGTH.size
        if at + size > len(data):
            raise IndexError(name)
        found[name] = _value(kind, data[at : at + size])
        at += size
    return found


def _size(kind: int, data: bytes, at: int) -> int:
    """The bytes of a value of that type."""
    if kind in (_TRUE, _FALSE):
        return 0
    if kind in _NUMBERS:
        return _NUMBERS[kind].size
    if kind in (_BYTES, _TEXT):
        return int(_LENGTH.unpack_from(data, at)[0])
    if kind == _UUID:
        return _UUID_SIZE
    raise IndexError(kind)


def _value(kind: int, data: bytes) -> HeaderValue:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE
    if kind in _NUMBERS:
        return int(_NUMBERS[kind].unpack(data)[0])
    return data.decode() if kind == _TEXT else data


def _garbled(why: str) -> EngineGarbled:
    return EngineGarbled("The provider's stream is broken.", detail=why)
