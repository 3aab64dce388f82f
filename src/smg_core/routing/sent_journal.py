"""The file in which it is kept what was sent where, so that a gateway that starts again knows it.

A journal: a head with the secret of the keys, and frames with what policies have noted since the one before, each with a
checksum. It has no token and no text, only keys, which mean nothing without the secret. Pure. Above: fleet.routing_journal.
Below: nothing.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

__all__ = ["SentJournal", "SentRecord", "sent_frame", "sent_head", "sent_journal_of", "still_there"]

_MAGIC = b"SMGSENT\x01"  # the last byte is the version
_CHECK = 8
_FRAME = struct.Struct("<I8s")
_SECRET = struct.Struct("<Q")


class SentRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A prompt that went to a worker: `keys` are those of its blocks of `block` tokens, 8 bytes each, the lowest first. Without
    keys: what was sent to the worker before, to any of its ranks, is in its cache no more."""

    model: str
    role: str
    block: int
    worker: str
    rank: int
    keys: bytes


class SentJournal(msgspec.Struct, frozen=True):
    """What a file says: its `secret`, the records in their order, and whether all of it could be read."""

    secret: int
    records: Sequence[SentRecord]
    whole: bool


def sent_head(secret: int) -> bytes:
    """The beginning of a file."""
    packed = _SECRET.pack(secret)
    return _MAGIC + packed + _check(packed)


def sent_frame(records: Sequence[SentRecord]) -> bytes:
    """What is appended to a file."""
    payload = msgspec.msgpack.encode(records)
    return _FRAME.pack(len(payload), _check(payload)) + payload


def sent_journal_of(data: bytes) -> SentJournal | None:
    """What a file says, up to the first frame that is not as it was written; None for a file of another kind or version."""
    start = len(_MAGIC)
    packed = data[start : start + _SECRET.size]
    at = start + _SECRET.size + _CHECK
    if data[:start] != _MAGIC or data[at - _CHECK : at] != _check(packed):
        return None
    records: list[SentRecord] = []
    while at + _FRAME.size <= len(data):
        size, check = _FRAME.unpack_from(data, at)
        payload = data[at + _FRAME.size : at + _FRAME.size + size]
        if len(payload) != size or check != _check(payload):
            break
        try:
            records += _DECODER.decode(payload)
        except msgspec.MsgspecError:
            break
        at += _FRAME.size + size
    return SentJournal(_SECRET.unpack(packed)[0], records, at == len(data))


def still_there(records: Sequence[SentRecord]) -> list[SentRecord]:
    """Those of `records`, in their order, that no later one has made void."""
    found: list[SentRecord] = []
    lost: set[tuple[str, str, str]] = set()
    for record in reversed(records):
        place = record.model, record.role, record.worker
        if not record.keys:
            lost.add(place)
        elif place not in lost:
            found.append(record)
    return found[::-1]


_DECODER = msgspec.msgpack.Decoder(list[SentRecord])


def _check(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECK).digest()
