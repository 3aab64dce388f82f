"""The frames of messages between a process and the supervisor: frames, each with its length before it.

Pure. Above: relay, member. Below: msgspec.
"""

import msgspec

from smg_core.errors import InternalError

__all__ = [
    "Began",
    "Caught",
    "Declined",
    "Delivered",
    "Frame",
    "Publish",
    "Settled",
    "Splitter",
    "Took",
    "Word",
    "encoded",
]

LENGTH_BYTES = 4
OVERHEAD_BYTES = 1024
"""Bytes of a frame beside its message's kind, key and body, at most."""


class Publish(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A process wants a message sent to all. `token` counts the messages of that process, from 1."""

    kind: str
    key: str
    body: bytes
    token: int


class Took(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A process has called its subscribers with all messages up to this number."""

    number: int


class Word(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A word between a process and the supervisor: "ready" from the process; "lead", "revise", "follow" and
    "retire" to it."""

    word: str


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A message for a process; `token` is its own if the process has published it, else 0."""

    kind: str
    key: str
    body: bytes
    number: int
    token: int = 0


class Began(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """All that is kept follows, up to Caught."""


class Caught(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """All that is kept has been sent: the state after the message of this number. `token` is the last message of this process
    that was taken."""

    number: int
    token: int


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """All processes have taken the messages up to this number."""

    number: int


class Declined(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """The message with this token of the process is not sent: no more can be kept."""

    token: int


Frame = Publish | Took | Word | Delivered | Began | Caught | Settled | Declined

_encoder = msgspec.msgpack.Encoder()
_decoder: "msgspec.msgpack.Decoder[Frame]" = msgspec.msgpack.Decoder(Frame)


def encoded(frame: Frame) -> bytes:
    """The bytes of a frame."""
    data = _encoder.encode(frame)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class Splitter:
    """Frames from bytes as they come, of at most `most` bytes each."""

    def __init__(self, message_bytes: int) -> None:
        self._most = message_bytes + OVERHEAD_BYTES
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now. Raises InternalError for bytes that are none."""
        self._rest += data
        found: list[Frame] = []
        at = 0
        while len(self._rest) - at >= LENGTH_BYTES:
            size = int.from_bytes(self._rest[at : at + LENGTH_BYTES], "big")
            if size > self._most:
                raise InternalError("The gateway failed.", detail=f"a frame of {size} bytes in the channel")
            end = at + LENGTH_BYTES + size
            if len(self._rest) < end:
                break
            try:
                found.append(_decoder.decode(bytes(self._rest[at + LENGTH_BYTES : end])))
            except msgspec.MsgspecError as error:
                raise InternalError("The gateway failed.", detail=f"no frame in the channel: {error}") from None
            at = end
        del self._rest[:at]
        return found
