"""The messages of an engine that publishes its KV events on ZeroMQ: the layouts of vLLM's and SGLang's versions.

Decides the bytes of a payload; pure. Above: kv_publisher. Below: the embedded engine's records of its cache.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from smg_simulator.engine.kv_feed import Batch
from smg_simulator.engine.prefix_cache import BlocksRemoved, BlockStored, CacheChange

__all__ = ["EventLayout", "payload_of"]

EventLayout = Literal["array", "map", "bytes", "first"]
"""Arrays with numbers for hashes, maps by name, arrays with hashes of 32 bytes, and the arrays of the first versions, which have
neither medium nor names of adapters."""


def payload_of(batch: Batch, layout: EventLayout, rank: int = 0) -> bytes:
    """A batch as an engine publishes it."""
    events = [event for change in batch.changes for event in _events(change, layout)]
    if layout == "map":
        return msgspec.msgpack.encode({"ts": batch.moment, "events": events, "data_parallel_rank": rank})
    return msgspec.msgpack.encode([batch.moment, events, *([] if layout == "first" else [rank])])


def _events(change: CacheChange, layout: EventLayout) -> list[Any]:
    if isinstance(change, BlockStored):
        keys = [_keys(change, at) for at in range(len(change.hashes))]
        fields: dict[str, Any] = {
            "block_hashes": [_hash(each, layout) for each in change.hashes],
            "parent_block_hash": None if change.parent is None else _hash(change.parent, layout),
            "token_ids": [token for row in change.token_ids for token in row],
            "block_size": len(change.token_ids[0]),
            "lora_id": 1 if change.lora else None,
        }
        if layout != "first":
            fields |= {"medium": "GPU", "lora_name": change.lora or None, "extra_keys": keys if any(keys) else None}
        return [_written("BlockStored", fields, layout)]
    if isinstance(change, BlocksRemoved):
        removed: dict[str, Any] = {"block_hashes": [_hash(each, layout) for each in change.hashes]}
        if layout != "first":
            removed["medium"] = "GPU"
        return [_written("BlockRemoved", removed, layout)]
    return [_written("AllBlocksCleared", {}, layout)]


def _keys(change: BlockStored, at: int) -> list[Any] | None:
    """What a block's hash covers beside its tokens: the adapter, media, and the salt in the first block of a prompt."""
    found: list[Any] = [change.lora] if change.lora else []
    found += [[digest, offset] for digest, offset in change.media[at]]
    if change.salt and change.parent is None and at == 0:
        found.append(change.salt)
    return found or None


def _hash(number: int, layout: EventLayout) -> int | bytes:
    """A hash as the engine has it: unsigned, or the bytes of a longer one."""
    unsigned = number & ((1 << 64) - 1)
    return unsigned.to_bytes(32, "big") if layout == "bytes" else unsigned


def _written(tag: str, fields: Mapping[str, Any], layout: EventLayout) -> Any:
    return {"type": tag, **fields} if layout == "map" else [tag, *fields.values()]
