"""SubscribeKvEvents of the neutral contract: its batches in the records of `engines.kv_events`.

Decides what the messages mean; pure. Above: `codec`. The contract's hashes are unsigned; here they are signed, as elsewhere.
"""

from collections.abc import Iterator, Sequence

from smg_core.engines.base import Unary
from smg_core.engines.codecs.answers import parse
from smg_core.engines.codecs.neutral.calls import SERVICE
from smg_core.engines.kv_events import (
    PART,
    KvBlockMedium,
    KvBlocksRemoved,
    KvBlocksStored,
    KvCacheCleared,
    KvEvent,
    KvEventBatch,
    KvTier,
    cut,
)
from smg_engine_contract import engine_pb2 as pb

__all__ = ["kv_events"]

_TIERS: dict[int, KvTier] = {
    pb.TIER_DEVICE: "device",
    pb.TIER_HOST: "host",
    pb.TIER_DISK: "disk",
    pb.TIER_EXTERNAL: "external",
}
_SIGN = 1 << 63


def kv_events(after: int | None) -> Unary[Iterator[KvEventBatch]]:
    """Asks for the batches after number `after`; None: for what happens from now on."""
    request = pb.SubscribeKvEventsRequest() if after is None else pb.SubscribeKvEventsRequest(after=after)
    return Unary(f"/{SERVICE}/SubscribeKvEvents", request.SerializeToString(), _batches)


def _batches(message: bytes) -> Iterator[KvEventBatch]:
    batch = parse(pb.KvEventBatch, message)
    events = batch.events
    if len(events) == 1 and (single := _single(events[0])) is not None:
        return iter((KvEventBatch(batch.sequence, (single,), batch.rank, batch.timestamp),))
    return cut(KvEventBatch(sequence=batch.sequence, rank=batch.rank, moment=batch.timestamp), _events(events))


def _single(event: pb.KvEvent) -> KvBlocksStored | None:
    """The event where it stores a few blocks without media: most do, and some engines send one for every block that fills."""
    stored = event.stored  # an empty one where the event is of another kind
    hashes, tokens = stored.hashes[:], stored.token_ids[:]  # lists: what is looked at more than once
    count, size = len(hashes), stored.block_size
    if not 0 < count <= PART or stored.media:
        return None
    parent = stored.parent if stored.HasField("parent") else None
    if parent is not None and parent >= _SIGN:
        parent -= 1 << 64
    return KvBlocksStored(
        hashes if max(hashes) < _SIGN else _signed(hashes),
        tokens if len(tokens) == size * count else (),
        size,
        parent,
        (),
        (),
        stored.adapter,
        stored.cache_salt,
        _TIERS.get(stored.tier, ""),
    )


def _events(events: Sequence[pb.KvEvent]) -> Iterator[KvEvent]:
    """The events in order, none of more than `PART` blocks. An event of a kind that is not known yet is left out."""
    for event in events:
        kind = event.WhichOneof("event")
        if kind == "stored":
            yield from _stored(event.stored)
        elif kind == "removed":
            hashes = event.removed.hashes
            for at in range(0, len(hashes), PART):
                yield KvBlocksRemoved(_signed(hashes[at : at + PART]), _TIERS.get(event.removed.tier, ""))
        elif kind == "cleared":
            yield KvCacheCleared()


def _stored(stored: pb.BlocksStored) -> Iterator[KvBlocksStored]:
    hashes, tokens, size = stored.hashes, stored.token_ids, stored.block_size
    count = len(hashes)
    spelled = len(tokens) == size * count
    parent = _signed((stored.parent,))[0] if stored.HasField("parent") else None
    tier, lora, salt = _TIERS.get(stored.tier, ""), stored.adapter, stored.cache_salt
    media: dict[int, list[pb.BlockMedia]] = {}
    for each in stored.media:
        media.setdefault(each.block // PART, []).append(each)
    for at in range(0, count, PART):
        part = _signed(hashes[at : at + PART])
        yield KvBlocksStored(
            hashes=part,
            token_ids=tokens[at * size : (at + PART) * size] if spelled else (),
            block_size=size,
            parent=parent,
            media=tuple(
                KvBlockMedium(each.block - at, each.hash.hex(), each.offset) for each in media.get(at // PART, ())
            ),
            lora=lora,
            salt=salt,
            tier=tier,
        )
        parent = part[-1]


def _signed(hashes: Sequence[int]) -> list[int]:
    return [each - (1 << 64) if each >= _SIGN else each for each in hashes]
