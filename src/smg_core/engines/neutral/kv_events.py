"""SubscribeKvEvents of the neutral contract: its batches in the records of `engines.kv_events`.

Decides what the messages mean; pure. Above: `codec`. The contract's hashes are unsigned; here they are signed, as elsewhere.
"""

from collections.abc import Iterator, Sequence

from smg_core.engines._pb import engine_pb2 as pb
from smg_core.engines.answers import parse
from smg_core.engines.base import Unary
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
from smg_core.engines.neutral.calls import SERVICE

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
    told = parse(pb.KvEventBatch, message)
    events = told.events
    if len(events) == 1 and len(events[0].stored.hashes) <= PART and events[0].HasField("stored"):
        # most batches, which some engines send for every block that fills
        return iter((KvEventBatch(told.sequence, tuple(_stored(events[0].stored)), told.rank, told.timestamp),))
    return cut(KvEventBatch(sequence=told.sequence, rank=told.rank, moment=told.timestamp), _events(events))


def _events(told: Sequence[pb.KvEvent]) -> Iterator[KvEvent]:
    """The events in order, none of more than `PART` blocks. An event of a kind that is not known yet is left out."""
    for event in told:
        kind = event.WhichOneof("event")
        if kind == "stored":
            yield from _stored(event.stored)
        elif kind == "removed":
            hashes = event.removed.hashes
            for at in range(0, len(hashes), PART):
                yield KvBlocksRemoved(_signed(hashes[at : at + PART]), _TIERS.get(event.removed.tier, ""))
        elif kind == "cleared":
            yield KvCacheCleared()


def _stored(told: pb.BlocksStored) -> Iterator[KvBlocksStored]:
    hashes, tokens, size = told.hashes, told.token_ids, told.block_size
    count = len(hashes)
    spelled = len(tokens) == size * count
    parent = _signed((told.parent,))[0] if told.HasField("parent") else None
    tier, lora, salt = _TIERS.get(told.tier, ""), told.adapter, told.cache_salt
    if 0 < count <= PART and not told.media:
        yield KvBlocksStored(_signed(hashes), tokens if spelled else (), size, parent, (), (), lora, salt, tier)
        return
    media: dict[int, list[pb.BlockMedia]] = {}
    for each in told.media:
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
