"""A cache of prompt prefixes in blocks, like the KV cache of an engine, without tensors.

The hash of a block covers its tokens, all tokens before it, and the media in it (since the tokens of all pictures are alike).

Decides which blocks are held, how many tokens of a prompt are found, and which block is evicted when there is no room: the
least recently used one without held children. Pure. Above: engine.engine. Every change is reported as a record, from which
the codecs make KV events.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import attrs

__all__ = ["BlockStored", "BlocksCleared", "BlocksRemoved", "CacheChange", "PrefixCache"]


@attrs.frozen
class BlockStored:
    """Consecutive new blocks; the first follows `parent` (None: it begins the prompt). `hashes` are signed 64-bit. For each
    block, `token_ids` has a row of `block_size` ids, and `media` a row of (hash, offset of the item from the block's first
    token). `salt` and `lora`, the id of its adapter, are the request's."""

    hashes: tuple[int, ...]
    token_ids: tuple[tuple[int, ...], ...]
    parent: int | None
    media: tuple[tuple[tuple[str, int], ...], ...]
    salt: str = ""
    lora: str = ""


@attrs.frozen
class BlocksRemoved:
    """Blocks that were evicted."""

    hashes: tuple[int, ...]


@attrs.frozen
class BlocksCleared:
    """All blocks were dropped."""


MediaSpans = Sequence[tuple[int, int, str]]
"""(offset, length, hash) of each item in a prompt, in tokens."""

CacheChange = BlockStored | BlocksRemoved | BlocksCleared


@attrs.define
class _Block:
    """`depth` counts the blocks before it; `stored` is how its storing was reported, at place `at` in it."""

    parent: int | None
    depth: int
    stored: BlockStored
    at: int
    children: int = 0

    def alone(self) -> BlockStored:
        """The block as if it had been stored by itself."""
        stored, at = self.stored, slice(self.at, self.at + 1)
        return BlockStored(
            stored.hashes[at], stored.token_ids[at], self.parent, stored.media[at], stored.salt, stored.lora
        )


class PrefixCache:
    """At most `capacity` blocks of `block_size` tokens. `queried` and `found` count prompt tokens over all lookups."""

    def __init__(self, block_size: int = 16, capacity: int = 4096) -> None:
        self.block_size = block_size
        self.capacity = capacity
        self.queried = 0
        self.found = 0
        self._blocks: OrderedDict[int, _Block] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def hit_rate(self) -> float:
        """`found` divided by `queried`, 0 to 1."""
        return self.found / self.queried if self.queried else 0.0

    def lookup(self, ids: Sequence[int], salt: str = "", media: MediaSpans = (), lora: str = "") -> int:
        """How many leading tokens of a prompt are held. Never the last one: an engine must compute it. Prompts with different
        salts or adapters share no block; those with different `media` share none from where the media begin."""
        within = ids[: max(0, len(ids) - 1)]
        hashes = self._hashes(within, (salt, lora), self._by_block(len(within), media))
        held = next((at for at, digest in enumerate(hashes) if digest not in self._blocks), len(hashes))
        self._touch(hashes[:held])
        self.queried += len(ids)
        self.found += held * self.block_size
        return held * self.block_size

    def store(self, ids: Sequence[int], salt: str = "", media: MediaSpans = (), lora: str = "") -> list[CacheChange]:
        """Hold every full block of `ids` that fits, evicting others; returns the changes."""
        changes: list[CacheChange] = []
        inside = self._by_block(len(ids), media)
        hashes = self._hashes(ids, (salt, lora), inside)
        first = next((at for at, digest in enumerate(hashes) if digest not in self._blocks), len(hashes))
        room = self._make_room(len(hashes) - first, set(hashes[:first]), changes)
        taken = hashes[first : first + room]
        if taken:
            size = self.block_size
            rows = tuple(tuple(ids[at * size : (at + 1) * size]) for at in range(first, first + len(taken)))
            marks = tuple(inside[first : first + len(taken)])
            stored = BlockStored(tuple(taken), rows, hashes[first - 1] if first else None, marks, salt, lora)
            changes.append(stored)
            self._hold(stored, first)
        self._touch(hashes[: first + len(taken)])
        return changes

    def held(self) -> list[BlockStored]:
        """Every block that is held, each by itself and behind its parent."""
        return [block.alone() for block in sorted(self._blocks.values(), key=lambda block: block.depth)]

    def clear(self) -> list[CacheChange]:
        """Drop all blocks."""
        self._blocks.clear()
        return [BlocksCleared()]

    def _hold(self, stored: BlockStored, first: int) -> None:
        """Hold the blocks of `stored`, the first of which has `first` blocks before it."""
        parent = stored.parent
        for at, digest in enumerate(stored.hashes):
            self._blocks[digest] = _Block(parent, first + at, stored, at)
            if parent is not None:
                self._blocks[parent].children += 1
            parent = digest

    def _touch(self, chain: Sequence[int]) -> None:
        """Mark blocks as used just now, the last of the chain first, so that children become the oldest before their
        parents."""
        for digest in reversed(chain):
            self._blocks.move_to_end(digest)

    def _make_room(self, wanted: int, protected: set[int], changes: list[CacheChange]) -> int:
        """Evict until `wanted` blocks fit or no block can be evicted; returns how many of them fit."""
        while self.capacity - len(self._blocks) < wanted:
            victim = next(
                (digest for digest, block in self._blocks.items() if not block.children and digest not in protected),
                None,
            )
            if victim is None:
                break
            parent = self._blocks.pop(victim).parent
            if parent is not None:
                self._blocks[parent].children -= 1
            changes.append(BlocksRemoved((victim,)))
        return min(wanted, self.capacity - len(self._blocks))

    def _by_block(self, count: int, media: MediaSpans) -> list[tuple[tuple[str, int], ...]]:
        """For every full block of `count` tokens, (hash, offset from its first token) of the media in it."""
        size = self.block_size
        inside: list[list[tuple[str, int]]] = [[] for _ in range(count // size)]
        for offset, length, digest in media:
            for block in range(offset // size, min(-(-(offset + length) // size), len(inside))):
                inside[block].append((digest, offset - block * size))
        return [tuple(each) for each in inside]

    def _hashes(
        self, ids: Sequence[int], namespace: tuple[str, str], media: Sequence[tuple[tuple[str, int], ...]]
    ) -> list[int]:
        """The hash of every full block: of its parent's hash, its own ids and its media."""
        packed = memoryview(array("I", ids)).cast("B")
        width = self.block_size * 4
        hashes, parent = [], blake2b("\0".join(namespace).encode(), digest_size=8).digest() if any(namespace) else b""
        for at in range(0, len(packed) - width + 1, width):
            marks = media[at // width]
            own = bytes(packed[at : at + width]) + (repr(marks).encode() if marks else b"")
            parent = blake2b(own, digest_size=8, key=parent).digest()
            hashes.append(int.from_bytes(parent, "big", signed=True))
        return hashes
