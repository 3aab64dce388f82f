"""A cache of prompt prefixes in blocks, as engines keep them in GPU memory, without the memory.

A block is named by its tokens, by all before it, and by the media that lie in it: the tokens of all pictures are alike.

Decides which blocks are held, how many tokens of a prompt are found, and which blocks leave when there is no room: the least
recently used that no held block hangs from. Pure. Above: simulator.engine. Every change is reported as a record, from which the
dialects make their KV events.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import attrs

__all__ = ["BlockStored", "BlocksCleared", "BlocksRemoved", "CacheChange", "PrefixCache"]


@attrs.frozen
class BlockStored:
    """Blocks that follow one another, the first of them behind `parent` (None: at the beginning). `hashes` are signed
    64-bit; `token_ids` has one row of `block_size` ids a block, `media` one of (hash, where it begins from the block's first
    token)."""

    hashes: tuple[int, ...]
    token_ids: tuple[tuple[int, ...], ...]
    parent: int | None
    media: tuple[tuple[tuple[str, int], ...], ...]


@attrs.frozen
class BlocksRemoved:
    hashes: tuple[int, ...]


@attrs.frozen
class BlocksCleared:
    """Everything was forgotten."""


Media = Sequence[tuple[int, int, str]]
"""(offset, length, hash) of each item in a prompt, in tokens."""

CacheChange = BlockStored | BlocksRemoved | BlocksCleared


@attrs.define
class _Block:
    parent: int | None
    children: int = 0


class PrefixCache:
    """At most `capacity` blocks of `block_size` tokens. A block's hash covers all tokens before it: it names a prefix."""

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
        """Share of all prompt tokens asked for that were found, 0 to 1."""
        return self.found / self.queried if self.queried else 0.0

    def lookup(self, ids: Sequence[int], salt: str = "", media: Media = ()) -> int:
        """How many leading tokens of a prompt are held. The last token is always computed anew, as an engine must.
        Prompts with different salts share nothing; prompts with different `media` nothing from where these begin."""
        within = ids[: max(0, len(ids) - 1)]
        hashes = self._hashes(within, salt, self._by_block(len(within), media))
        held = next((at for at, digest in enumerate(hashes) if digest not in self._blocks), len(hashes))
        self._touch(hashes[:held])
        self.queried += len(ids)
        self.found += held * self.block_size
        return held * self.block_size

    def store(self, ids: Sequence[int], salt: str = "", media: Media = ()) -> list[CacheChange]:
        """Hold every full block of `ids`, and say what changed. What does not fit even after evicting is not held."""
        changes: list[CacheChange] = []
        inside = self._by_block(len(ids), media)
        hashes = self._hashes(ids, salt, inside)
        first = next((at for at, digest in enumerate(hashes) if digest not in self._blocks), len(hashes))
        room = self._make_room(len(hashes) - first, set(hashes[:first]), changes)
        taken = hashes[first : first + room]
        for at, digest in enumerate(taken, start=first):
            parent = hashes[at - 1] if at else None
            self._blocks[digest] = _Block(parent)
            if parent is not None:
                self._blocks[parent].children += 1
        self._touch(hashes[: first + len(taken)])
        if taken:
            size = self.block_size
            rows = tuple(tuple(ids[at * size : (at + 1) * size]) for at in range(first, first + len(taken)))
            marks = tuple(inside[first : first + len(taken)])
            changes.append(BlockStored(tuple(taken), rows, hashes[first - 1] if first else None, marks))
        return changes

    def clear(self) -> list[CacheChange]:
        """Forget everything."""
        self._blocks.clear()
        return [BlocksCleared()]

    def _touch(self, chain: Sequence[int]) -> None:
        """Used just now, the end of the chain first: so the oldest block is one that no other hangs from."""
        for digest in reversed(chain):
            self._blocks.move_to_end(digest)

    def _make_room(self, wanted: int, protected: set[int], changes: list[CacheChange]) -> int:
        """Evict until `wanted` blocks fit, or nothing more may go; returns how many fit."""
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

    def _by_block(self, count: int, media: Media) -> list[tuple[tuple[str, int], ...]]:
        """For every full block of `count` tokens, the media that lie in it and where they begin, from its first token."""
        size = self.block_size
        inside: list[list[tuple[str, int]]] = [[] for _ in range(count // size)]
        for offset, length, digest in media:
            for block in range(offset // size, min(-(-(offset + length) // size), len(inside))):
                inside[block].append((digest, offset - block * size))
        return [tuple(each) for each in inside]

    def _hashes(self, ids: Sequence[int], salt: str, media: Sequence[tuple[tuple[str, int], ...]]) -> list[int]:
        """The hash of every full block, each over its parent's, its own ids and its media."""
        packed = memoryview(array("I", ids)).cast("B")
        width = self.block_size * 4
        hashes, parent = [], blake2b(salt.encode(), digest_size=8).digest() if salt else b""
        for at in range(0, len(packed) - width + 1, width):
            marks = media[at // width]
            own = bytes(packed[at : at + width]) + (repr(marks).encode() if marks else b"")
            parent = blake2b(own, digest_size=8, key=parent).digest()
            hashes.append(int.from_bytes(parent, "big", signed=True))
        return hashes
