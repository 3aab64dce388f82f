"""KV events as vLLM and SGLang publish them on ZeroMQ, in place of or beside their gRPC call.

Decides what a payload means in the records of `kv_events`; pure. Above: `kv_subscriber`, which has the sockets. A payload is one
batch in MessagePack: the moment, the events, and the data-parallel rank. Batches and events are either arrays, whose fields come
in the order of `_FIELDS` and `_BATCH`, or maps by name, as later versions of vLLM write them; they may have more fields at the
end. A block's hash is a number or bytes. Source: vllm/distributed/kv_events.py, sglang/srt/disaggregation/kv_events.py.

Engines may send what they like here: a payload is bounded before it is read, one event is read at a time, and what is not of this
form is refused as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

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
from smg_core.errors import EngineGarbled

__all__ = ["END_OF_REPLAY", "published_batches"]

END_OF_REPLAY = (1 << 64) - 1
"""The number of the message that ends a replay: -1 in eight bytes."""

_BATCH = ("ts", "events", "data_parallel_rank")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "BlockStored": (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
        "extra_keys",
        "group_idx",
        "kv_cache_spec_kind",
        "kv_cache_spec_sliding_window",
        "locality",
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx", "locality"),
    "AllBlocksCleared": (),
}
_TAG = "type"
_MASK = (1 << 64) - 1
_HALF = 1 << 63
_LONGEST_BLOCK = 1 << 16
_MOST_TOKEN = (1 << 32) - 1
_LONGEST_NAME = 4096
_RAW_LIST = msgspec.msgpack.Decoder(list[msgspec.Raw])
_RAW_MAP = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_ANY = msgspec.msgpack.Decoder()
_NUMBER = msgspec.msgpack.Decoder(float)


def published_batches(sequence: int, payload: bytes, rank: int, *, most_events: int) -> Iterator[KvEventBatch]:
    """The batch of number `sequence` of one `rank`, in parts of at most `PART` blocks, one after another as they are asked for.
    Raises EngineGarbled for what is no batch, and for more than `most_events` events."""
    try:
        moment, events = _batch(payload)
        if len(events) > most_events:
            raise EngineGarbled("The engine's KV events cannot be read.", detail=f"{len(events)} events in one batch")
        batch = KvEventBatch(sequence=sequence, rank=rank, moment=moment)
        yield from cut(batch, (part for event in events for part in _parts(event)))
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise EngineGarbled("The engine's KV events cannot be read.", detail=type(error).__name__) from None


def _batch(payload: bytes) -> tuple[float, list[msgspec.Raw]]:
    """Its moment and its events, which are not read yet."""
    if _is_map(payload):
        named = _RAW_MAP.decode(payload)
        moment, events = named["ts"], named["events"]
    else:
        moment, events = _RAW_LIST.decode(payload)[: len(_BATCH) - 1]
    return _NUMBER.decode(moment), _RAW_LIST.decode(events)


def _is_map(data: "bytes | memoryview") -> bool:
    first = data[0]
    return 0x80 <= first <= 0x8F or first in (0xDE, 0xDF)


def _parts(raw: msgspec.Raw) -> Iterator[KvEvent]:
    """One event, in parts of at most `PART` blocks. One of a kind that is not known yet is left out."""
    decoded = _ANY.decode(raw)
    if isinstance(decoded, dict):
        kind, fields = decoded.get(_TAG), decoded
    else:
        kind = decoded[0]
        fields = dict(zip(_FIELDS.get(kind, ()), decoded[1:], strict=False))
    if kind == "BlockStored":
        yield from _stored(fields)
    elif kind == "BlockRemoved":
        yield from _removed(fields)
    elif kind == "AllBlocksCleared":
        yield KvCacheCleared()
    elif not isinstance(kind, str):
        raise TypeError("an event has no kind")


def _stored(fields: Mapping[str, Any]) -> Iterator[KvBlocksStored]:
    hashes, size = _list(fields["block_hashes"]), fields["block_size"]
    if not isinstance(size, int) or not 0 < size <= _LONGEST_BLOCK:
        raise ValueError("no length of a block")
    parent = None if fields.get("parent_block_hash") is None else _hash(fields["parent_block_hash"])
    tokens = _list(fields["token_ids"])
    spelled = len(tokens) == len(hashes) * size
    lora = _lora(fields)
    keys = _list(fields.get("extra_keys") or ())
    salt = _salt(keys, lora) if parent is None else ""
    for at in range(0, len(hashes), PART):
        some = [_hash(each) for each in hashes[at : at + PART]]
        ids = _tokens(tokens[at * size : (at + len(some)) * size]) if spelled else ()
        media, others = _keys(keys[at : at + PART], lora, salt)
        yield KvBlocksStored(
            hashes=some,
            token_ids=ids,
            block_size=size,
            parent=parent,
            media=media,
            other_keys=others,
            lora=lora,
            salt=salt,
            tier=_tier(fields.get("medium")),
            remote=fields.get("locality") == "REMOTE",
            group=_group(fields),
            attention=_text(fields.get("kv_cache_spec_kind")),
        )
        parent = some[-1]


def _removed(fields: Mapping[str, Any]) -> Iterator[KvBlocksRemoved]:
    hashes = _list(fields["block_hashes"])
    for at in range(0, len(hashes), PART):
        yield KvBlocksRemoved(
            hashes=[_hash(each) for each in hashes[at : at + PART]],
            tier=_tier(fields.get("medium")),
            remote=fields.get("locality") == "REMOTE",
            group=_group(fields),
        )


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError("no list")
    return value


def _hash(value: object) -> int:
    """A block's hash as a signed number of 64 bits: of bytes the last eight, which is what vLLM makes of them where it is to send
    numbers."""
    if isinstance(value, bytes) and value:
        number = int.from_bytes(value[-8:], "big")
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value & _MASK
    else:
        raise TypeError("no hash")
    return number - (1 << 64) if number >= _HALF else number


def _tokens(ids: Sequence[Any]) -> Sequence[int]:
    """Ids that the index can take. Of a prompt of pairs (as some draft models have them) the first of each."""
    found = [each[0] if isinstance(each, list | tuple) else each for each in ids]
    if not all(type(each) is int and 0 <= each <= _MOST_TOKEN for each in found):
        raise ValueError("no token ids")
    return found


def _text(value: object) -> str:
    return value[:_LONGEST_NAME] if isinstance(value, str) else ""


def _group(fields: Mapping[str, Any]) -> int:
    group = fields.get("group_idx")
    return group if isinstance(group, int) and 0 <= group <= _LONGEST_BLOCK else 0


def _lora(fields: Mapping[str, Any]) -> str:
    """The adapter by its name, else by its number."""
    name, number = fields.get("lora_name"), fields.get("lora_id")
    return _text(name) or ("" if number is None else str(number)[:_LONGEST_NAME])


def _tier(medium: object) -> KvTier:
    """Where a block lies. A medium that is not known is not the engine's own memory."""
    if medium is None:
        return ""
    name = str(medium).upper()
    if name.startswith("GPU") or name == "DEVICE":
        return "device"
    if name.startswith(("CPU", "HOST")):
        return "host"
    return "disk" if name in ("DISK", "STORAGE", "SSD") else "external"


def _salt(keys: Sequence[Any], lora: str) -> str:
    """The cache salt, which is among the keys of a prompt's first block, and no pair as media are."""
    first = keys[0] if keys else None
    texts = [each for each in first or () if isinstance(each, str) and each != lora]
    return _text(texts[0]) if len(texts) == 1 else ""


def _keys(keys: Sequence[Any], lora: str, salt: str) -> tuple[tuple[KvBlockMedium, ...], tuple[tuple[int, str], ...]]:
    """What the blocks' hashes cover beside tokens: media, and other keys than the adapter and the salt."""
    media: list[KvBlockMedium] = []
    others: list[tuple[int, str]] = []
    for at, row in enumerate(keys):
        for key in row or ():
            if (
                isinstance(key, list | tuple) and len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], int)
            ):  # a pair
                media.append(KvBlockMedium(at, key[0][:_LONGEST_NAME], key[1]))
            elif isinstance(key, str) and key not in ("", lora, salt):
                others.append((at, key[:_LONGEST_NAME]))
            elif not isinstance(key, str):
                others.append((at, repr(key)[:_LONGEST_NAME]))
    return tuple(media), tuple(others)
