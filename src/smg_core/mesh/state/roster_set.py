"""The set of workers added by operators at any gateway, which all gateways agree on.

Each add is a tag of its own, and a removal takes back the tags that it has seen: an add that it did not see survives it. What a
worker is comes from the record with the highest stamp. Joining two slots is commutative, associative and idempotent, so members
may hear of changes in any order. Pure.
"""

from collections.abc import Iterable

import msgspec

__all__ = ["AddTag", "Slot", "read_slot", "slot_added", "slot_changed", "slot_removed", "slots_joined", "written_slot"]

AddTag = tuple[str, int]
"""The member that added a worker, and its stamp of that."""
_MOST_TAGS = 64


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """What is known of one worker: tags of adds, tags that were taken back, and the last record with its stamp and author."""

    adds: frozenset[AddTag] = frozenset()
    removes: frozenset[AddTag] = frozenset()
    stamp: int = 0
    author: str = ""
    record: bytes = b""

    @property
    def present(self) -> bool:
        """Whether the worker is in the roster."""
        return bool(self.adds - self.removes)


_decode = msgspec.msgpack.Decoder(Slot).decode


def written_slot(slot: Slot) -> bytes:
    """The bytes of a slot, the same for equal ones."""
    return msgspec.msgpack.encode([sorted(slot.adds), sorted(slot.removes), slot.stamp, slot.author, slot.record])


def read_slot(data: bytes) -> Slot:
    """The slot that `written_slot` has written. Raises msgspec.DecodeError."""
    return _decode(data)


def slot_added(slot: Slot, author: str, stamp: int, record: bytes) -> Slot:
    """The slot after an add; what was removed before is back."""
    return Slot(_bounded(slot.adds | {(author, stamp)}), slot.removes, stamp, author, record)


def slot_changed(slot: Slot, author: str, stamp: int, record: bytes) -> Slot:
    """The slot after a change of what the worker is."""
    return Slot(slot.adds, slot.removes, stamp, author, record)


def slot_removed(slot: Slot, author: str, stamp: int) -> Slot:
    """The slot after a removal of all adds that are seen."""
    return Slot(slot.adds, _bounded(slot.removes | slot.adds), stamp, author, b"")


def slots_joined(one: Slot, other: Slot) -> Slot:
    """Both together."""
    last = max(one, other, key=lambda each: (each.stamp, each.author, each.record))
    return Slot(
        _bounded(one.adds | other.adds), _bounded(one.removes | other.removes), last.stamp, last.author, last.record
    )


def _bounded(tags: Iterable[AddTag]) -> frozenset[AddTag]:
    """The latest tags: the older ones were taken back long ago."""
    found = frozenset(tags)
    if len(found) <= _MOST_TAGS:
        return found
    return frozenset(sorted(found, key=lambda tag: (tag[1], tag[0]))[-_MOST_TAGS:])
