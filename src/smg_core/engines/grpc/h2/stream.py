"""One call on an HTTP/2 connection: its windows, and its messages cut out of DATA however they lie in frames.

Decides what is a message and what is refused (compressed, too big, out of place); holds at most one message that is partly
here. Pure. Above: `connection`, which says when bytes are for this call. Of its connection it knows the three methods of `Owner`.
"""

import struct
from collections.abc import Callable
from typing import Protocol

from smg_core.engines.base import Receiver
from smg_core.engines.grpc.h2.headers import HeaderBlock
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.status import error_from_http, error_from_status, percent_decode
from smg_core.errors import EngineGarbled, SmgError

__all__ = ["NOTHING", "H2Stream", "Owner", "outcome", "protocol_broken"]

_PREFIX = struct.Struct(">BI")  # compressed or not, length


_FIRST = 64 * 1024
"""Bytes of a message that are copied behind its prefix. The others are sent from where they are."""


def _begun(message: bytes) -> tuple[bytes | memoryview, memoryview]:
    """The first bytes of a message with the prefix before them, and the others."""
    return b"\x00" + len(message).to_bytes(4, "big") + message[:_FIRST], memoryview(message)[_FIRST:]


NOTHING = memoryview(b"")


class Owner(Protocol):
    """The connection of a stream, as the stream calls it."""

    limits: EnginesConfig

    def cancel(self, stream: "H2Stream") -> None: ...

    def end(self, stream: "H2Stream", error: SmgError) -> None: ...

    def resume(self, stream: "H2Stream") -> None: ...


class H2Stream:
    """One call; it is the `Call` that a transport hands out. `id` is 0 while it waits for a free stream.

    `on_sent` is called once for a call that had to wait: with None when its request went out, with the error when it
    never will. `on_end` is called when a call that was sent is over, however it ended. A `question` about the engine has
    streams kept for it.
    """

    __slots__ = (
        "_owner",
        "batch",
        "body",
        "done",
        "head",
        "heard",
        "id",
        "low",
        "message",
        "need",
        "on_end",
        "on_sent",
        "partial",
        "paused",
        "plain",
        "push",
        "question",
        "receiver",
        "refusals",
        "rest",
        "send_window",
        "window",
    )

    def __init__(self, owner: Owner, receiver: Receiver, head: bytes, message: bytes, question: bool = False) -> None:
        self._owner = owner
        self.question = question
        self.heard = 0  # answers that had come over the connection when it began to wait
        self.id = 0
        self.receiver = receiver
        self.push = receiver.messages
        self.head = head
        self.message: bytes | None = message  # kept until the engine answers, in case it refuses the stream
        self.body: bytes | memoryview  # what is still to be sent, one after the other
        self.rest: memoryview
        if len(message) <= _FIRST:
            self.body, self.rest = b"\x00" + len(message).to_bytes(4, "big") + message, NOTHING
        else:
            self.body, self.rest = _begun(message)
        self.refusals = 0
        self.batch: list[bytes] | None = None  # messages of the present read
        self.window = owner.limits.stream_window_bytes
        self.low = self.window // 2  # below this the stream needs a look: more window, or a violation
        self.send_window = 0
        self.plain = False  # the next byte of DATA begins a message, and DATA is welcome
        self.need = 0  # 0: at a message boundary; -1: inside a prefix; else the size of the message being collected
        self.partial = bytearray()
        self.paused = False
        self.done = False
        self.on_sent: Callable[[SmgError | None], None] | None = None
        self.on_end: Callable[[], object] | None = None

    def cancel(self) -> None:
        """Reset the stream; nothing is pushed any more."""
        self._owner.cancel(self)

    def pause(self) -> None:
        """Grant the engine no more window for this call."""
        self.paused = True
        self.low = 0

    def resume(self) -> None:
        """Grant window again."""
        if self.paused:
            self._owner.resume(self)

    def end(self, error: SmgError) -> None:
        """Reset the stream and tell the receiver why."""
        self._owner.end(self, error)

    def renew(self) -> None:
        """Make a call that was refused unread as if it had never been sent."""
        self.id = 0
        self.refusals += 1
        if self.message is not None:
            self.body, self.rest = _begun(self.message)

    def collect(self, data: bytes, at: int, end: int) -> str | None:
        """Take the DATA in `data[at:end]`: whole messages go to `batch`, the rest is kept. Returns what is wrong with it,
        after which the stream must be reset, or None."""
        if not self.plain:
            if not self.need:
                return "sent data before its headers"
            at, wrong = self._complete(data, at, end)
            if wrong:
                return wrong
        limit = self._owner.limits.message_bytes
        while end - at >= 5:
            packed, length = _PREFIX.unpack_from(data, at)
            if packed or length > limit:
                return _unwelcome(packed, length)
            at += 5
            if end - at < length:
                self._hold(length, data[at:end])
                return None
            self._add(data[at : at + length])
            at += length
        if at < end:
            self._hold(-1, data[at:end])
        return None

    def _complete(self, data: bytes, at: int, end: int) -> tuple[int, str | None]:
        """Add to the message that is partly here; returns how far `data` was used, and what is wrong."""
        partial = self.partial
        if self.need < 0:
            use = min(5 - len(partial), end - at)
            partial += data[at : at + use]
            at += use
            if len(partial) < 5:
                return at, None
            packed, length = _PREFIX.unpack(partial)
            if packed or length > self._owner.limits.message_bytes:
                return at, _unwelcome(packed, length)
            partial.clear()
            self.need = length
        use = min(self.need - len(partial), end - at)
        partial += data[at : at + use]
        if len(partial) == self.need:
            self._add(bytes(partial))
            self.partial = bytearray()
            self.need = 0
            self.plain = True
        return at + use, None

    def _hold(self, need: int, piece: bytes) -> None:
        self.need = need
        self.plain = False
        self.partial += piece

    def _add(self, message: bytes) -> None:
        if self.batch is None:
            self.batch = [message]
        else:
            self.batch.append(message)


def _unwelcome(packed: int, length: int) -> str:
    return "sent a compressed message" if packed else f"sent a message of {length} bytes, over the limit"


def protocol_broken(what: str) -> EngineGarbled:
    """The error for an engine that did `what`."""
    return EngineGarbled("The engine broke its own protocol.", detail=f"the engine {what}")


def outcome(stream: H2Stream, head: HeaderBlock) -> SmgError | None:
    """What trailers, or headers that are the whole answer, say of a call."""
    if head.grpc is None:
        if head.http not in (0, 200):
            return error_from_http(head.http)
        return protocol_broken("ended the answer without a status")
    if head.grpc == 0 and stream.need:
        return protocol_broken("ended in the middle of a message")
    if head.grpc == 0:
        return None
    return error_from_status(head.grpc, percent_decode(head.message))
