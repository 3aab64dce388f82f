"""Cuts what a client sends on a WebSocket into messages and control frames (RFC 6455, 5).

Decides what is whole, what breaks the protocol, and with which code the connection is closed for it. At most one message is
partly here, and `size` says how much; it is unmasked and checked as it comes, so that its end costs no more than its middle.
A `step` does a bounded amount of work, so whoever calls it can let others have their turn. Pure: bytes are XORed by the function
that it is given. Above: server.socket_protocol.
"""

import codecs
from collections.abc import Callable

import attrs

__all__ = [
    "CLOSE",
    "NOT_UTF8",
    "PING",
    "PONG",
    "PROTOCOL_ERROR",
    "TOO_LARGE",
    "ControlFrame",
    "FrameEvent",
    "FrameFault",
    "FrameReader",
    "SocketMessage",
]

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_KINDS = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})
_CONTROL, _FINAL, _RESERVED, _MASKED = 0x8, 0x80, 0x70, 0x80
_LONGEST_CONTROL = 125  # bytes
_SIZES = {126: 2, 127: 8}  # in how many bytes more a length is written
_MASK_BYTES = 4

PROTOCOL_ERROR, NOT_UTF8, TOO_LARGE = 1002, 1007, 1009
"""Why a connection is closed (RFC 6455, 7.4.1)."""
_PIECE = 65536  # bytes of a payload that one step takes


@attrs.frozen
class SocketMessage:
    """A whole message. `text`: its bytes are UTF-8, which has been checked."""

    text: bool
    data: bytearray


@attrs.frozen
class ControlFrame:
    """A ping, a pong or a close, with what it carries."""

    kind: int
    data: bytes


@attrs.frozen
class FrameFault:
    """What ends the connection: the code that it is closed with, and the reason in words."""

    code: int
    reason: str


FrameEvent = SocketMessage | ControlFrame | FrameFault


class FrameReader:
    """The frames of one client. `most` is the largest message, in bytes; `unmask` XORs bytes with a mask of four.

    After a FrameFault nothing more may be asked of it. `starved`: no step is left until more bytes are fed."""

    def __init__(self, most: int, unmask: Callable[[bytes, bytes], bytes]) -> None:
        self._most, self._unmask = most, unmask
        self._data, self._at = b"", 0
        self._kind, self._final = 0, True  # of the frame that is being read
        self._left: int | None = None  # bytes of its payload that are still to come; None between frames
        self._mask = b""
        self._control = bytearray()  # the payload of a control frame, which may come within a message
        self._message: bytearray | None = None  # what is here of a message
        self._text: codecs.IncrementalDecoder | None = None  # which checks it, if it is one of text
        self.starved = True

    @property
    def between(self) -> bool:
        """Whether all that has been read is whole."""
        return self._left is None and self._message is None

    @property
    def idle(self) -> bool:
        """Whether nothing has begun that is not whole, and nothing is left to be read."""
        return self.between and self._at == len(self._data)

    @property
    def size(self) -> int:
        """Bytes of the message that is partly here."""
        return 0 if self._message is None else len(self._message)

    def feed(self, data: bytes) -> None:
        """Add what was read from the socket."""
        self._data, self._at = self._data[self._at :] + data if self._at < len(self._data) else data, 0
        self.starved = not self._data

    def step(self) -> FrameEvent | None:
        """Read one frame, or a piece of its payload; returns what that completes or breaks."""
        fault = self._head() if self._left is None else None
        if fault is not None or self.starved or self._left is None:
            return fault
        end = min(self._at + min(self._left, _PIECE), len(self._data))
        piece = self._data[self._at : end]
        self._at, self._left = end, self._left - len(piece)
        if piece:
            plain = self._unmask(piece, self._mask)
            turn = len(piece) % _MASK_BYTES
            self._mask = self._mask[turn:] + self._mask[:turn]
        else:
            plain = b""
        if end == len(self._data):
            self._starve()
        whole = not self._left
        if whole:
            self._left = None
        return self._controlled(plain, whole) if self._kind & _CONTROL else self._gathered(plain, whole)

    def _head(self) -> FrameFault | None:
        """Read the head of the next frame. Nothing is taken of one that is not all here, but it may be refused already."""
        data, at = self._data, self._at
        here = len(data) - at
        if not here:
            self._starve()
            return None
        fault = self._fault_of_kind(data[at])
        if fault is not None or here < 2:
            self._starve()
            return fault
        if not data[at + 1] & _MASKED:
            return FrameFault(PROTOCOL_ERROR, "a frame of a client is masked")
        length = data[at + 1] & ~_MASKED
        if data[at] & _CONTROL and length > _LONGEST_CONTROL:
            return FrameFault(PROTOCOL_ERROR, f"a control frame has at most {_LONGEST_CONTROL} bytes")
        begin = at + 2 + _SIZES.get(length, 0)
        if len(data) < begin:
            self._starve()
            return None
        if length in _SIZES:
            length = int.from_bytes(data[at + 2 : begin], "big")
        if not data[at] & _CONTROL and self.size + length > self._most:
            return FrameFault(TOO_LARGE, f"a message has at most {self._most} bytes")
        if len(data) < begin + _MASK_BYTES:
            self._starve()
            return None
        self._begin(data[at], length)
        self._mask, self._at = data[begin : begin + _MASK_BYTES], begin + _MASK_BYTES
        self.starved = False
        return None

    def _starve(self) -> None:
        """More bytes are needed; nothing is kept of those that were read."""
        self._data, self._at, self.starved = self._data[self._at :], 0, True

    def _fault_of_kind(self, first: int) -> FrameFault | None:
        """What is wrong with a frame whose first byte this is."""
        kind, final = first & 0x0F, first & _FINAL
        if first & _RESERVED:
            return FrameFault(PROTOCOL_ERROR, "the reserved bits of a frame are 0")
        if kind not in _KINDS:
            return FrameFault(PROTOCOL_ERROR, f"there are no frames of kind {kind}")
        if kind & _CONTROL:
            return None if final else FrameFault(PROTOCOL_ERROR, "a control frame is not fragmented")
        if kind == CONTINUATION and self._message is None:
            return FrameFault(PROTOCOL_ERROR, "a continuation without a message that it continues")
        if kind != CONTINUATION and self._message is not None:
            return FrameFault(PROTOCOL_ERROR, "a message before the end of the one before")
        return None

    def _begin(self, first: int, length: int) -> None:
        self._kind, self._final, self._left = first & 0x0F, bool(first & _FINAL), length
        if self._kind in (TEXT, BINARY):
            self._message = bytearray()
            self._text = codecs.getincrementaldecoder("utf-8")() if self._kind == TEXT else None

    def _controlled(self, plain: bytes, whole: bool) -> ControlFrame | None:
        self._control += plain
        if not whole:
            return None
        data, self._control = bytes(self._control), bytearray()
        return ControlFrame(self._kind, data)

    def _gathered(self, plain: bytes, whole: bool) -> SocketMessage | FrameFault | None:
        message = self._message = self._message if self._message is not None else bytearray()
        message += plain
        last = whole and self._final
        text = self._text
        if text is not None:
            try:
                text.decode(plain, last)
            except UnicodeDecodeError:
                return FrameFault(NOT_UTF8, "a message of text is UTF-8")
        if not last:
            return None
        self._message = self._text = None
        return SocketMessage(text is not None, message)
