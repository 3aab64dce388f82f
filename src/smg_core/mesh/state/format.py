"""The bytes of messages between members, in format 1: MessagePack, to which later formats only append.

A message is `[1, kind, member, epoch, from, to, entries, ...]`. A kind that is not known and what stands behind the known fields
is skipped, so that gateways of two releases understand each other; each says which formats it speaks, and the highest one that
all speak is used. A meaning that changes becomes a new kind. Pure.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import msgspec

from smg_core.mesh.state.entries import MeshDelta, WireEntry, Writer

__all__ = [
    "FORMATS",
    "Formats",
    "KnownLine",
    "MeshFault",
    "MeshMessage",
    "MessageKind",
    "common_format",
    "delta_in",
    "formats_in",
    "read_mesh_message",
    "seen_in",
    "sums_in",
    "written_delta",
    "written_digest",
    "written_want",
]


class Formats(NamedTuple):
    """The formats that a member speaks, from the lowest to the highest."""

    least: int
    most: int

    @property
    def text(self) -> str:
        """As a member says it of itself: "1-2"."""
        return f"{self.least}-{self.most}"


FORMATS = Formats(1, 1)
"""Those that this release speaks."""
_LONGEST_FORMATS = 16  # characters of what a member says of its formats


class MessageKind(IntEnum):
    """What a message is."""

    DELTA = 1
    DIGEST = 2
    WANT = 3
    STATE = 4


class MeshFault(ValueError):
    """Bytes that are no message."""


class KnownLine(msgspec.Struct, frozen=True, array_like=True):
    """A line of a digest or of what is asked for: a member's last start, and the version up to which all of it is known."""

    name: str
    epoch: int
    version: int


class MeshMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message. `entries` are read by its kind; `about` is the writer whose words a STATE hands on, as name and epoch. `sums` go
    with some digests."""

    format: int
    kind: int
    member: str
    epoch: int
    first: int
    last: int
    entries: msgspec.Raw
    about: tuple[str, int] | None = None
    sums: dict[str, int] | None = None


_message = msgspec.msgpack.Decoder(MeshMessage).decode
_read_entries = msgspec.msgpack.Decoder(tuple[WireEntry, ...]).decode
_seen = msgspec.msgpack.Decoder(tuple[KnownLine, ...]).decode
_encode = msgspec.msgpack.Encoder().encode


def formats_in(text: str) -> Formats:
    """What a member says of its formats; a member that says nothing that can be read speaks the first one."""
    least, dash, most = text[:_LONGEST_FORMATS].partition("-")
    if dash and all(each.isascii() and each.isdecimal() for each in (least, most)) and 0 < int(least) <= int(most):
        return Formats(int(least), int(most))
    return Formats(1, 1)


def common_format(all_speak: Iterable[Formats], own: Formats = FORMATS) -> int | None:
    """The highest format that all members speak, this one included; None where there is none."""
    least, most = own
    for each in all_speak:
        least, most = max(least, each.least), min(most, each.most)
    return most if least <= most else None


def read_mesh_message(data: bytes) -> MeshMessage:
    """The message of these bytes. Raises MeshFault."""
    try:
        message = _message(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MeshFault(f"no message: {type(error).__name__}") from None
    if not FORMATS.least <= message.format <= FORMATS.most:
        raise MeshFault("a format that is not spoken here")
    if message.epoch < 0 or message.first < 0 or message.last < message.first:
        raise MeshFault("numbers that cannot be")
    return message


def delta_in(message: MeshMessage) -> MeshDelta:
    """The entries of a DELTA or STATE. Raises MeshFault."""
    try:
        entries = _read_entries(message.entries)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MeshFault(f"no entries: {type(error).__name__}") from None
    if any(not 0 < each.version <= message.last for each in entries):
        raise MeshFault("an entry with a version that cannot be")
    name, epoch = (message.member, message.epoch) if message.about is None else message.about
    return MeshDelta(Writer(name, epoch), message.first, message.last, entries)


def seen_in(message: MeshMessage) -> tuple[KnownLine, ...]:
    """The lines of a DIGEST or WANT. Raises MeshFault."""
    try:
        lines = _seen(message.entries)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MeshFault(f"no lines: {type(error).__name__}") from None
    if any(each.epoch < 0 or each.version < 0 for each in lines):
        raise MeshFault("numbers that cannot be")
    return lines


def sums_in(message: MeshMessage) -> dict[str, int]:
    """The sums that go with a DIGEST, by member."""
    return message.sums or {}


def written_delta(sender: Writer, delta: MeshDelta) -> bytes:
    """A DELTA of one's own words, or a STATE that hands on another member's."""
    own = delta.writer == sender
    head = [
        1,
        MessageKind.DELTA if own else MessageKind.STATE,
        sender.name,
        sender.epoch,
        delta.first,
        delta.last,
        delta.entries,
    ]
    return _encode(head if own else [*head, [delta.writer.name, delta.writer.epoch]])


def written_digest(sender: Writer, lines: Iterable[KnownLine], sums: dict[str, int] | None = None) -> bytes:
    """A DIGEST, with sums from time to time."""
    head = [1, MessageKind.DIGEST, sender.name, sender.epoch, 0, 0, list(lines)]
    return _encode(head if sums is None else [*head, None, sums])


def written_want(sender: Writer, lines: Iterable[KnownLine]) -> bytes:
    """A WANT: what each of these members has said since the version that is named."""
    return _encode([1, MessageKind.WANT, sender.name, sender.epoch, 0, 0, list(lines)])
