"""Says what an entry of the mesh is, who wrote it, and how long it is kept.

Each entry has one writer, the member that observed what it says, and a version that this writer has counted. Of two entries of
one writer, space and key the one with the higher version is right, so merging needs no clock and no order. Pure.
"""

from enum import IntEnum
from typing import NamedTuple

import attrs
from msgspec import Struct

__all__ = [
    "LASTING",
    "OLDER_KEPT",
    "EntryPlace",
    "MeshBounds",
    "MeshChange",
    "MeshDelta",
    "MeshEntry",
    "Space",
    "WireEntry",
    "Writer",
]


class Space(IntEnum):
    """What entries are about. The numbers are part of the wire format: they are never given to anything else."""

    ACKS = 1
    COUNTER = 2
    LOAD = 3
    HEALTH = 4
    BREAKER = 5
    ROSTER = 6
    SETTINGS = 7
    REVOKED = 8


LASTING = frozenset({Space.ROSTER, Space.SETTINGS, Space.REVOKED})
"""Spaces whose entries do not change from second to second, so that two members can compare sums over them."""
OLDER_KEPT = frozenset({Space.COUNTER})
"""Spaces whose entries outlive their writer: what a gateway has admitted before it stopped still counts in its window."""


class Writer(NamedTuple):
    """A member as one start of it: a later start of the same name has a higher epoch."""

    name: str
    epoch: int


class EntryPlace(NamedTuple):
    """Where an entry of a writer is."""

    space: int
    key: bytes


class MeshEntry(Struct, frozen=True):
    """What a writer has said: an empty `value` says that it is so no more. `until` is when it is forgotten here, in seconds of
    this member's own monotonic clock."""

    version: int
    value: bytes
    until: float


class WireEntry(Struct, frozen=True, array_like=True):
    """An entry as it goes over the wire: `lasts_s` is how much longer it is to be kept. Fields are only ever appended."""

    space: int
    key: bytes
    version: int
    value: bytes
    lasts_s: int


@attrs.frozen
class MeshDelta:
    """All that a writer has said with versions above `first` and up to `last`, as far as it is still so."""

    writer: Writer
    first: int
    last: int
    entries: tuple[WireEntry, ...]


class MeshChange(NamedTuple):
    """An entry that has become another one here; `value` is empty where it is no more."""

    writer: Writer
    space: int
    key: bytes
    value: bytes


@attrs.frozen
class MeshBounds:
    """How much is kept: entries and bytes of all writers together, of one writer at most a quarter of each; how many writers; and
    for how long an entry may ask to be kept."""

    entries: int = 65_536
    kept_bytes: int = 16 << 20
    writers: int = 1024
    value_bytes: int = 16_384
    key_bytes: int = 256
    lasts_s: int = 32 * 86_400
