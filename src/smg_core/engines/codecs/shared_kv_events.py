"""SubscribeKvEvents as vLLM, SGLang, TensorRT-LLM and TokenSpeed have it: one request and one reply for all of them.

Decides what their messages mean in the records of `kv_events`; pure. Above: the modules `calls` of these dialects. The messages
come from the package smg-grpc-proto.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from smg_core.engines.base import Unary
from smg_core.engines.codecs.answers import parse
from smg_core.engines.kv_events import (
    PART,
    KvBlockMedium,
    KvBlocksRemoved,
    KvBlocksStored,
    KvCacheCleared,
    KvEvent,
    KvEventBatch,
    KvSnapshot,
    KvTier,
    cut,
)
from smg_core.engines.loads import RankLoad
from smg_engine_contract.engines import common_pb2 as common

__all__ = ["kv_events_call"]

_TIERS: dict[int, KvTier] = {
    common.KV_CACHE_TIER_DEVICE: "device",
    common.KV_CACHE_TIER_HOST: "host",
    common.KV_CACHE_TIER_DISK: "disk",
    common.KV_CACHE_TIER_EXTERNAL: "external",
}
_LEVELS: dict[int, KvTier] = {0: "device", 1: "host", 2: "disk", 3: "external"}
"""The same by the number that older servicers send in place of a tier."""


def kv_events_call(service: str, after: int | None) -> Unary[Iterator[KvEventBatch]]:
    """SubscribeKvEvents of `service`. The protocol has no word for "after batch 0": 0 asks for what the engine holds, or, of
    servicers that keep no record of it, for what happens from now on."""
    request = common.SubscribeKvEventsRequest(
        start_sequence_number=after or 0, load_records_before_first_batch=True
    ).SerializeToString()
    return Unary(f"/{service}/SubscribeKvEvents", request, _batches)


def _batches(message: bytes) -> Iterator[KvEventBatch]:
    batch_message = parse(common.KvEventBatch, message)
    rank = max(0, batch_message.dp_rank)
    batch = KvEventBatch(
        sequence=batch_message.sequence_number,
        rank=rank,
        moment=batch_message.timestamp,
        snapshot=_snapshot(batch_message.snapshot) if batch_message.HasField("snapshot") else None,
        load=_load(batch_message.load, rank) if batch_message.HasField("load") else None,
        load_only=batch_message.load.load_only,
    )
    return cut(batch, _events(batch_message.events))


def _snapshot(chunk: common.KvSnapshotChunk) -> KvSnapshot:
    return KvSnapshot(index=chunk.index, count=chunk.count, blocks=chunk.blocks, missed=chunk.unknown_before)


def _load(load: common.EngineLoad, rank: int) -> RankLoad:
    return RankLoad(
        rank=rank,
        running=load.running_requests,
        waiting=load.waiting_requests,
        used_tokens=load.num_used_tokens,
        max_tokens=load.max_total_num_tokens,
        token_usage=load.token_usage,
        tokens_per_second=load.gen_throughput,
        cache_hit_rate=load.cache_hit_rate,
        max_running=load.max_running_requests,
    )


def _events(events: Sequence[common.KvCacheEvent]) -> Iterator[KvEvent]:
    """The events in order, none of more than `PART` blocks. An event of a kind that is not known yet is left out. An engine whose
    blocks are one token long tells of each by itself: of a chain of such blocks one event is made, for a third of the time."""
    chain: _Chain | None = None
    for event in events:
        kind = event.WhichOneof("data")
        if chain is not None:
            if kind == "stored" and chain.goes_on(event.stored):
                continue
            yield chain.made()
            chain = None
        if kind == "stored":
            chain = _Chain.begun(event.stored)
            if chain is None:
                yield from _stored(event.stored)
        elif kind == "removed":
            yield from _removed(event.removed)
        elif kind == "cleared":
            yield KvCacheCleared(event.cleared.ownership)
    if chain is not None:
        yield chain.made()


class _Chain:
    """Events of one block each, every one behind the block of the one before, and otherwise alike."""

    __slots__ = ("_first", "_hashes", "_shape", "_tokens")

    def __init__(self, first: common.KvBlocksStored, shape: tuple[object, ...]) -> None:
        (block,) = first.blocks
        self._first, self._shape = first, shape
        self._hashes: list[int] = [block.block_hash]
        self._tokens: list[int] = list(block.token_ids)

    @classmethod
    def begun(cls, stored: common.KvBlocksStored) -> "_Chain | None":
        """The chain that begins with an event; None where no chain does."""
        shape = _shape_alone(stored)
        return None if shape is None else cls(stored, shape)

    def goes_on(self, stored: common.KvBlocksStored) -> bool:
        """Whether this event is the next of the chain, which has it then."""
        hashes = self._hashes
        if stored.parent_block_hash != hashes[-1] or not stored.HasField("parent_block_hash"):
            return False
        if len(hashes) == PART or _shape_alone(stored) != self._shape:
            return False
        (block,) = stored.blocks
        hashes.append(block.block_hash)
        self._tokens += block.token_ids
        return True

    def made(self) -> KvBlocksStored:
        """All of it as one event."""
        (event,) = _stored(self._first)
        return replace(event, hashes=self._hashes, token_ids=self._tokens) if len(self._hashes) > 1 else event


def _shape_alone(stored: common.KvBlocksStored) -> tuple[object, ...] | None:
    """What is equal in all events of a chain; None for an event that is in none."""
    blocks = stored.blocks
    if len(blocks) != 1:
        return None
    block = blocks[0]
    size = block.block_size
    if block.extra_keys or len(block.token_ids) != size:
        return None
    return (
        size,
        block.lora_id,
        block.cache_level,
        stored.lora_name,
        stored.cache_salt,
        stored.tier,
        stored.locality,
        stored.group_idx,
        stored.kv_cache_spec_kind,
        stored.ownership,
    )


def _stored(stored: common.KvBlocksStored) -> Iterator[KvBlocksStored]:
    """Blocks that are as many tokens long stay together, as do those that the engine names without their tokens."""
    parent = stored.parent_block_hash if stored.HasField("parent_block_hash") else None
    blocks = stored.blocks
    for at in range(0, len(blocks), PART):
        for (size, spelled), run in groupby(blocks[at : at + PART], _shape):
            piece = _piece(stored, list(run), size if spelled else 0, parent)
            yield piece
            parent = piece.hashes[-1]


def _shape(block: common.KvBlock) -> tuple[int, bool]:
    return block.block_size, len(block.token_ids) == block.block_size


def _piece(
    stored: common.KvBlocksStored, blocks: list[common.KvBlock], spelled: int, parent: int | None
) -> KvBlocksStored:
    """One event of blocks that have `spelled` tokens each (0: they are not told)."""
    first = blocks[0]
    lora = stored.lora_name or (str(first.lora_id) if first.HasField("lora_id") else "")
    media, other_keys = _keys(blocks, {lora, stored.cache_salt})
    return KvBlocksStored(
        hashes=[block.block_hash for block in blocks],
        token_ids=[token for block in blocks for token in block.token_ids] if spelled else (),
        block_size=first.block_size,
        parent=parent,
        media=media,
        other_keys=other_keys,
        lora=lora,
        salt=stored.cache_salt,
        tier=_TIERS.get(stored.tier, "")
        or (_LEVELS.get(first.cache_level, "") if first.HasField("cache_level") else ""),
        remote=stored.locality == common.KV_CACHE_LOCALITY_REMOTE,
        group=stored.group_idx,
        attention=stored.kv_cache_spec_kind,
        owner=stored.ownership,
    )


def _keys(
    blocks: list[common.KvBlock], keys: set[str]
) -> tuple[tuple[KvBlockMedium, ...], tuple[tuple[int, str], ...]]:
    """What the blocks' hashes cover beside tokens: media, and other keys than those that are `keys` elsewhere."""
    media: list[KvBlockMedium] = []
    others: list[tuple[int, str]] = []
    for at, block in enumerate(blocks):
        for key in block.extra_keys:
            kind = key.WhichOneof("key")
            if kind == "multimodal":
                media.append(KvBlockMedium(at, key.multimodal.identifier, key.multimodal.offset))
            elif kind == "text" and key.text not in keys:
                others.append((at, key.text))
            elif kind == "blob":
                others.append((at, key.blob.hex()))
            elif kind == "number":
                others.append((at, str(key.number)))
    return tuple(media), tuple(others)


def _removed(removed: common.KvBlocksRemoved) -> Iterator[KvBlocksRemoved]:
    tier = _TIERS.get(removed.tier, "") or (
        _LEVELS.get(removed.cache_level, "") if removed.HasField("cache_level") else ""
    )
    for at in range(0, len(removed.block_hashes), PART):
        yield KvBlocksRemoved(
            hashes=removed.block_hashes[at : at + PART],
            tier=tier,
            remote=removed.locality == common.KV_CACHE_LOCALITY_REMOTE,
            group=removed.group_idx,
            owner=removed.ownership,
        )
