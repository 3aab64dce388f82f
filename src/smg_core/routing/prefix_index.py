"""The prefixes sent to each worker: the approximate prefix index.

A block's key stands for everything up to its end (`block_keys`), so the index is a dictionary from keys to sets of owners, and
an owner is named for a block only if that block, and all before it, were noted for it. Sets are bits of a number. Old blocks
leave in epochs: when the blocks in use fill half of the budget, those of the epoch before are dropped, a few at a time. An
owner has epochs too, by the size of its own cache, so that it is not named for what its engine must have dropped. Pure. Above:
the policies. Below: nothing. It knows no worker, no token and no text: `kv_index` keeps what engines themselves tell.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Generic, TypeVar

import attrs

__all__ = ["PrefixIndex"]

Owner = TypeVar("Owner", bound=Hashable)

_ENTRY = 140
_DROPPED = 2
_DEAD = 64


@attrs.define(eq=False)
class _Slots:
    """The bits of one owner: `now` for blocks noted in its epoch, `before` for those of the one before, 0 for none. `blocks` is
    how many have the bit `now`, `most` how many its engine's cache holds (0: not known)."""

    now: int
    before: int = 0
    blocks: int = 0
    most: int = 0


class PrefixIndex(Generic[Owner]):
    """At most `budget` bytes of blocks and their owners.

    Every key given here is from `block_keys`, in the order of the prompt."""

    def __init__(self, budget: int) -> None:
        self._half = budget // 2
        self._young: dict[int, int] = {}  # blocks noted in this epoch
        self._old: dict[int, int] = {}  # those of the epoch before that were not noted again
        self._dropped: dict[int, int] = {}  # those of the epoch before that, a few of which go with each insert
        self._bytes = 0  # of `_young`, an upper estimate
        self._owners: dict[Owner, _Slots] = {}
        self._owner_of: dict[int, Owner] = {}  # by bit
        self._alive = 0  # the bits of `_owners`
        self._bits = 0  # how many bits there are, free ones included
        self._entry_most = _ENTRY  # the most bytes that one block may take now
        self._free: list[int] = []
        self._dead: list[int] = []  # bits that blocks of this epoch and the one before may have
        self._dying: list[int] = []  # bits that only blocks of the epoch before may have

    # ------------------------------------------------------------------------------------------------------- questions

    def match(self, keys: Sequence[int]) -> Mapping[Owner, int]:
        """How many of `keys` each owner has, counted from the start without a gap; owners of none are absent."""
        found: list[tuple[int, int]] = []  # how many blocks, and the bits that have exactly so many
        if keys and self._alive:
            first = self._owners_at(keys[0])
            if first:
                last = self._owners_at(keys[-1])
                self._part(keys, 0, first, len(keys) - 1, last, found)
                found.append((len(keys), last))
        return self._named(found)

    def _owners_at(self, key: int) -> int:
        return (self._young.get(key) or self._old.get(key, 0)) & self._alive

    def _part(
        self, keys: Sequence[int], at: int, owners: int, end: int, left: int, found: list[tuple[int, int]]
    ) -> None:
        """Add to `found` how many blocks those of `owners` have, who have block `at`, but for those `left` at block `end`. An
        owner of a block has all before it, so a run of blocks with the same owners at both ends is looked at no further."""
        while owners != left:
            if end - at == 1:
                found.append((end, owners ^ left))
                return
            middle = (at + end) // 2
            halfway = self._owners_at(keys[middle])
            if halfway != owners:
                self._part(keys, at, owners, middle, halfway, found)
            at, owners = middle, halfway

    def _named(self, found: list[tuple[int, int]]) -> Mapping[Owner, int]:
        """The owners of the bits in `found`, which begins with the fewest blocks."""
        named: dict[Owner, int] = {}
        for depth, having in reversed(found):
            while having and depth:
                bit = having & -having
                having ^= bit
                named.setdefault(self._owner_of[bit], depth)
        return named

    def owners(self) -> Iterator[Owner]:
        """All owners that blocks were noted for and that were not removed."""
        return iter(self._owners)

    @property
    def blocks(self) -> int:
        """How many blocks are kept; a block of two epochs counts twice until the earlier one is dropped."""
        return len(self._young) + len(self._old) + len(self._dropped)

    @property
    def width(self) -> int:
        """How many bits a set of owners has at most."""
        return self._bits

    # --------------------------------------------------------------------------------------------------------- changes

    def insert(self, keys: Sequence[int], owner: Owner) -> None:
        """Note that `owner` now has the blocks of `keys`, all used just now. What one half of the budget cannot hold is left
        out."""
        if self._dropped:
            self._drop(_DROPPED * len(keys) + 1)
        slots = self._owners.get(owner) or self._join(owner)
        if slots.most and slots.blocks >= slots.most // 2:
            self._next_epoch_of(owner, slots)
        if len(keys) * self._entry_most + self._bytes > self._half:
            self.next_epoch()
            keys = keys[: self._half // self._entry_most]
        young = self._young
        if not keys or young.get(keys[-1], 0) & slots.now:
            return  # the owner has the last of them, so it has all
        if keys[0] in young:
            keys = keys[self._add_to_known(keys, slots) :]
        if self._old:
            self._add_one_by_one(keys, slots)
        else:  # a prefix is known up to a place, and nothing of it behind that
            young.update(zip(keys, repeat(slots.now)))
            self._bytes += _ENTRY * len(keys)
            slots.blocks += len(keys)

    def _add_to_known(self, keys: Sequence[int], slots: _Slots) -> int:
        """Note an owner for the blocks of this epoch that `keys` begins with; how many these are."""
        bit, alive, young = slots.now, self._alive, self._young
        begin = 0
        if young[keys[0]] & bit:  # so it has some: those before a place
            begin = bisect_left(keys, True, key=lambda key: not young.get(key, 0) & bit)
        last, more, grown, count = -1, bit, 0, 0
        for key, owners in zip(keys[begin:], map(young.get, keys[begin:]), strict=True):
            if owners is None:
                break
            if owners is not last:
                last, left = owners, owners & alive
                more = (left | bit) if left else bit
                grown = _size(more) - _size(owners)
            young[key] = more  # one object for a run of blocks with the same owners
            self._bytes += grown
            count += 1
        slots.blocks += count
        return begin + count

    def _add_one_by_one(self, keys: Sequence[int], slots: _Slots) -> None:
        """Note an owner for blocks of which some may be of this epoch, and some of the one before."""
        bit, alive, young, old = slots.now, self._alive, self._young, self._old
        for key in keys:
            owners = young.get(key)
            if owners is None:
                owners = old.get(key, 0) & alive
                slots.blocks += not owners & bit
                young[key] = owners = (owners | bit) if owners else bit
                self._bytes += _ENTRY + _size(owners)
            elif not owners & bit:
                slots.blocks += 1
                left = owners & alive
                young[key] = more = (left | bit) if left else bit
                self._bytes += _size(more) - _size(owners)

    def remove(self, owner: Owner) -> None:
        """Forget an owner: from now on it is named for no block."""
        slots = self._owners.pop(owner, None)
        if slots is not None:
            self._kill(slots.now)
            self._kill(slots.before)

    def limit(self, owner: Owner, blocks: int) -> None:
        """Say how many blocks the cache of `owner` holds. It is then named for none that was used before the last `blocks` of its
        blocks, about; 0: not known."""
        slots = self._owners.get(owner) or self._join(owner)
        slots.most = blocks

    # ---------------------------------------------------------------------------------------------------------- epochs

    def _join(self, owner: Owner) -> _Slots:
        slots = self._owners[owner] = _Slots(self._new_bit(owner))
        return slots

    def _new_bit(self, owner: Owner) -> int:
        if self._free:
            bit = self._free.pop()
        else:
            bit = 1 << self._bits
            self._bits += 1
            self._entry_most = _ENTRY + ((1 << self._bits) - 1).__sizeof__()
        self._alive |= bit
        self._owner_of[bit] = owner
        return bit

    def _kill(self, bit: int) -> None:
        """No block with this bit counts from now on. The bit is used again when no block can have it."""
        if bit:
            self._alive &= ~bit
            del self._owner_of[bit]
            self._dead.append(bit)

    def _next_epoch_of(self, owner: Owner, slots: _Slots) -> None:
        """Forget what the owner was noted for before its epoch, and begin another."""
        self._kill(slots.before)
        slots.before, slots.now, slots.blocks = slots.now, self._new_bit(owner), 0
        if len(self._dead) > _DEAD + 2 * len(self._owners) and not self._dropped:
            self.next_epoch()

    def next_epoch(self) -> None:
        """Forget the blocks that were noted before this epoch and not in it, and begin another."""
        self._dropped, self._old, self._young, self._bytes = self._old, self._young, {}, 0
        self._free += self._dying
        self._dying, self._dead = self._dead, []

    def _drop(self, count: int) -> None:
        """Free some of the dropped blocks: all at once would take long. Twice as many are freed as can be added meanwhile."""
        dropped = self._dropped
        for _ in range(min(count, len(dropped))):
            dropped.popitem()
        if not dropped:
            self._dropped = {}  # its table is freed, too


def _size(owners: int) -> int:
    """The bytes of a set of owners; those of one owner alone are shared."""
    return owners.__sizeof__() if owners & (owners - 1) else 0
