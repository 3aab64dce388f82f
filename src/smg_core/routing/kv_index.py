"""The contents of the engines' caches, by their own events: the exact prefix index.

Every block of an event is given the key that `block_keys` makes of a prompt up to the block's end: of the block's tokens, behind
the key of the block before it, so that the engine's own hashes mean nothing outside of its place. A dictionary has the places
of each key, as bits of a number; another one for each place leads from the engine's hashes to the keys, for what is removed. A
block that lies in host memory or on a disk is kept apart, since to fetch it costs something. Pure: the secret of the keys and the
time are arguments. Above: expected_cache. Below: block_keys, engines.kv_events. It knows no worker's state and no socket.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import repeat
from operator import and_
from typing import Literal

import attrs
from msgspec import Struct

from smg_core.engines.kv_events import KvBlocksRemoved, KvBlocksStored, KvCacheCleared, KvEvent, KvTier
from smg_core.routing.block_keys import TokenKeys, start_of

__all__ = ["BLOCK_BYTES", "CachePlace", "KvHit", "KvIndex", "media_mark"]

CachePlace = tuple[str, int]
"""A worker's name and the data-parallel rank; 0 for a worker without ranks."""

BLOCK_BYTES = 260
"""An upper estimate of what one block takes in all dictionaries."""

_TIDY = 3
_TIDY_AT_MATCH = 16
_KEY_SHIFT, _END_SHIFT, _END_MASK, _TIERS_MASK = 28, 4, (1 << 24) - 1, 15
_BIT_OF: Mapping[KvTier, int] = {"": 1, "device": 1, "host": 2, "disk": 4, "external": 8}
_NEAR = frozenset({"", "device"})
_MASK = (1 << 64) - 1
_SHARD = 255
"""The dictionary of keys is kept in so many parts and one, by the last bits of keys: when a dictionary grows, all of it is
copied, and a small one is copied in less than a millisecond."""
_PARTS = 31
"""Parts of the dictionary of a place's blocks, for the same reason: by the rest of a division of the engine's hashes, whose last
bits may all be the same."""
_SETS = 4096
_FULL_ATTENTION = frozenset({"", "full_attention", "mla_attention", "sink_full_attention"})
"""The kinds of layers, as vLLM names them, whose blocks hold all of a prompt; others hold a part of it or what is no cache of
tokens."""


class KvHit(Struct, frozen=True):
    """Of a prompt, the tokens from its start that a place holds, and those of them that are not in the engine's own memory: in
    host memory, on a disk, and in another store."""

    tokens: int
    host: int = 0
    disk: int = 0
    external: int = 0


@attrs.define(eq=False)
class _Held:
    """What one place holds. `blocks` leads from the engine's hash to key, end (in tokens) and tiers of a block, in one number.
    Blocks of `size` tokens are matched in units of `unit`. `full`: blocks were left out, for want of room, or since they are of
    another size, or since a hash stands for blocks behind different prefixes. `exact`: all that the place holds is known."""

    bit: int
    blocks: list[dict[int, int]] = attrs.field(factory=lambda: [{} for _ in range(_PARTS)])
    count: int = 0
    size: int = 0
    unit: int = 0
    group: int = -1
    full: bool = False
    known: Literal["all", "part"] = "part"
    exact: bool = False
    heard_at: float = 0.0
    salted: bool = True


def media_mark(identifier: str, at: int) -> int:
    """What a medium that begins at token `at` of a prompt adds to the keys of all blocks from there on."""
    return int.from_bytes(blake2b(b"%d:" % at + identifier.encode("utf-8", "replace"), digest_size=8).digest(), "big")


class KvIndex:
    """At most `budget` bytes of blocks. `keys` makes the keys, of prompts too (`TokenKeys.sums` with the unit of `match`). `unit`
    is the fewest tokens that are told apart: of shorter blocks as many as that are matched together, and count as held where
    the last of them is, since engines drop the end of a prefix first."""

    def __init__(self, keys: TokenKeys, budget: int, unit: int) -> None:
        self._keys = keys
        self._unit = unit
        self._most = budget // BLOCK_BYTES
        self._count = 0
        self._held: dict[CachePlace, _Held] = {}
        self._place_of: dict[int, CachePlace] = {}  # by bit
        self._of_key: list[dict[int, int]] = [{} for _ in range(_SHARD + 1)]
        self._sets: dict[int, int] = {}  # sets of places, so that equal ones are one object
        self._far: dict[int, dict[int, int]] = {
            2: {},
            4: {},
            8: {},
        }  # by nearest tier, of places that have it no nearer
        self._alive: dict[tuple[int, bool], int] = {}  # the bits in use, by unit and by whether the engine takes salts
        self._bits = 0
        self._free: list[int] = []
        self._leaving: list[_Held] = []

    # ------------------------------------------------------------------------------------------------------- questions

    @property
    def blocks(self) -> int:
        """How many blocks are kept, those of places that have left included until they are tidied up."""
        return self._count

    def places(self) -> Sequence[CachePlace]:
        return tuple(self._held)

    def known(self, place: CachePlace) -> tuple[bool, float] | None:
        """Whether all that the place holds is known, and when it told something last; None for a place that tells nothing."""
        held = self._held.get(place)
        return None if held is None else (held.exact, held.heard_at)

    def known_of(self, places: Sequence[CachePlace], now: float) -> tuple[list[bool], list[float | None]]:
        """Of each of `places` whether all that it holds is known, and for how many seconds it has told nothing until `now`; None
        for a place that tells nothing."""
        try:
            rows = [*map(self._held.__getitem__, places)]  # each decision asks for hundreds, and mostly all tell
        except KeyError:
            found = [*map(self._held.get, places)]
            return (
                [row is not None and row.exact for row in found],
                [None if row is None else max(0.0, now - row.heard_at) for row in found],
            )
        ages: list[float | None] = [now - row.heard_at for row in rows]
        if now < max([row.heard_at for row in rows], default=now):
            ages = [max(0.0, now - row.heard_at) for row in rows]
        return [row.exact for row in rows], ages

    @property
    def units(self) -> Sequence[tuple[int, bool]]:
        """The units in which prompts are to be compared, in tokens, each with whether the engines take cache salts."""
        return tuple(self._alive)

    def match(self, keys: Sequence[int], unit: int, *, salted: bool) -> dict[CachePlace, KvHit]:
        """What each place with this unit holds of a prompt with these keys, one for each `unit` tokens; places that hold nothing
        are absent."""
        self._tidy(_TIDY_AT_MATCH)
        alive = self._alive.get((unit, salted), 0)
        ends: list[tuple[int, int]] = []
        depth, last = 0, -1
        parts = map(self._of_key.__getitem__, map(and_, keys, repeat(_SHARD)))
        for places in map(dict.get, parts, keys, repeat(0)) if alive else ():
            if places is not last:  # sets of the same places are mostly one object
                still = alive & places
                if still != alive:
                    ends.append((depth, alive ^ still))
                    alive = still
                    if not alive:
                        break
                last = places
            depth += 1
        if alive:
            ends.append((depth, alive))
        return self._hits(ends, unit, [self._far_of(keys, ends, tier) if self._far[tier] else {} for tier in (2, 4, 8)])

    def _hits(
        self, ends: Sequence[tuple[int, int]], unit: int, far: Sequence[Mapping[int, int]]
    ) -> dict[CachePlace, KvHit]:
        """What the places of the bits at each end hold; `far` are the blocks of a bit that lie in each farther tier."""
        found: dict[CachePlace, KvHit] = {}
        elsewhere = any(far)
        for count, bits in ends:
            if not count:
                continue
            near = KvHit(count * unit)  # one for all that have as much
            for bit in _each(bits):
                hit = KvHit(count * unit, *[of.get(bit, 0) * unit for of in far]) if elsewhere else near
                found[self._place_of[bit]] = hit
        return found

    def _far_of(self, keys: Sequence[int], ends: Sequence[tuple[int, int]], tier: int) -> dict[int, int]:
        """For each bit how many of its blocks lie in `tier`. Counted for all places together: plane n has bit n of each count."""
        planes: list[int] = []
        of_key, at = self._far[tier], 0
        for count, _ in ends:
            having = sum(bits for end, bits in ends if end >= count)
            for key in keys[at:count]:
                carry = of_key.get(key, 0) & having
                for place, plane in enumerate(planes):
                    planes[place], carry = plane ^ carry, plane & carry
                    if not carry:
                        break
                if carry:
                    planes.append(carry)
            at = count
        found: dict[int, int] = {}
        for place, plane in enumerate(planes):
            for bit in _each(plane):
                found[bit] = found.get(bit, 0) + (1 << place)
        return found

    # --------------------------------------------------------------------------------------------------------- changes

    def know(self, place: CachePlace, known: Literal["all", "part"], *, salted: bool = True) -> None:
        """Say whether what the place told is all that it holds. `salted`: its engine parts its cache by the salt of a request."""
        held = self._held.get(place) or self._join(place)
        held.known = known
        held.exact = known == "all" and not held.full
        if held.salted != salted:
            held.salted = salted
            self._count_alive()

    def forget(self, place: CachePlace) -> None:
        """Forget all that the place has told."""
        held = self._held.pop(place, None)
        if held is not None:
            self._leave(held)

    def apply_all(self, place: CachePlace, events: Sequence[KvEvent], now: float) -> None:
        """Take events of the place into account, in their order."""
        held = self._held.get(place)
        for event in events:  # engines may send one for every block that fills, some hundred thousand a second
            if held is None or type(event) is not KvBlocksStored or not self._stored_one(held, event):
                self.apply(place, event, now)
                held = self._held[place]
        if held is not None:
            held.heard_at = now

    def _stored_one(self, held: _Held, event: KvBlocksStored) -> bool:
        """Enter the one block that an event stores. False where there is more to look at, and nothing was done."""
        size, tokens = held.size, event.token_ids
        if len(event.hashes) != 1 or event.block_size != size or len(tokens) != size or not held.count or self._leaving:
            return False
        if event.media or event.other_keys or event.attention not in _FULL_ATTENTION or event.tier not in _NEAR:
            return False
        before = self._before(held, event)
        name = event.hashes[0]
        blocks = held.blocks[name % _PARTS]
        if before is None or name in blocks or event.group != held.group or self._count >= self._most:
            return False
        start, at = before
        end = at + size
        if end > self._keys.most:
            return False
        key = self._keys.next(tokens, size, start, at)
        blocks[name] = key << _KEY_SHIFT | end << _END_SHIFT | 1
        held.count += 1
        self._count += 1
        if end % held.unit == 0:
            self._set(self._of_key[key & _SHARD], key, held.bit)
        return True

    def apply(self, place: CachePlace, event: KvEvent, now: float) -> None:
        """Take an event of the place into account. Costs the time of its blocks alone; those of a cleared cache are tidied up
        little by little, with later events and questions."""
        held = self._held.get(place) or self._join(place)
        held.heard_at = now
        if isinstance(event, KvBlocksStored):
            if self._leaving:
                self._tidy(_TIDY * len(event.hashes))
            if event.attention in _FULL_ATTENTION:
                if held.group in (-1, event.group):
                    self._store(held, event)
            elif not held.count:  # of layers of this kind alone nothing would be known
                held.exact = False
        elif isinstance(event, KvBlocksRemoved):
            self._tidy(_TIDY * len(event.hashes))
            if held.group in (-1, event.group):
                self._remove(held, event.hashes, _BIT_OF[event.tier])
        else:
            self._clear(place, held, event)

    def _clear(self, place: CachePlace, held: _Held, event: KvCacheCleared) -> None:
        if not held.count:
            if not event.owner:
                held.full, held.exact = False, held.known == "all"
            return
        self._leave(held)
        anew = self._join(place)
        anew.heard_at, anew.group, anew.salted = held.heard_at, held.group, held.salted
        # Where one owner's blocks were dropped alone, the others are still there and no longer known.
        anew.known = "part" if event.owner else held.known
        anew.exact = anew.known == "all"
        if held.unit:
            self._measure(anew, held.size)

    def _store(self, held: _Held, event: KvBlocksStored) -> None:
        tier, size = _BIT_OF[event.tier], event.block_size
        held.group = event.group
        if not event.token_ids:  # known by their hashes, if at all
            for each in event.hashes:
                if (packed := held.blocks[each % _PARTS].get(each)) is not None:
                    self._put(held, each, packed, packed & _TIERS_MASK | tier)
            return
        if size != held.size and not self._measure(held, size):
            return
        before = self._before(held, event)
        if before is None:
            return
        start, end = before
        keys = self._keys_of(event, start, end, size)
        self._enter(held, event.hashes, keys, end, tier)

    def _measure(self, held: _Held, size: int) -> bool:
        """Learn the length of a place's blocks, anew when it holds none. False for another one than that of those it holds: such
        blocks are left out, and not all is known from then on."""
        if size <= 0 or held.count:
            held.full, held.exact = True, False
            return False
        held.size, held.unit = size, size * -(-self._unit // size)
        self._count_alive()
        return True

    def _before(self, held: _Held, event: KvBlocksStored) -> tuple[int, int] | None:
        """Key and end of what comes before the event's first block; None where that is not known."""
        if event.parent is None:
            return start_of(event.salt, event.lora), 0
        packed = held.blocks[event.parent % _PARTS].get(event.parent)
        return None if packed is None else (packed >> _KEY_SHIFT, packed >> _END_SHIFT & _END_MASK)

    def _keys_of(self, event: KvBlocksStored, start: int, at: int, size: int) -> list[int]:
        """A key for each block, up to the first whose hash covers what a prompt is not known by here."""
        count, tokens = len(event.hashes), event.token_ids
        if event.other_keys:
            count = min(count, *(block for block, _ in event.other_keys))
        if len(tokens) > count * size:
            tokens = tokens[: count * size]
        keys = self._keys.following(tokens, size, start, at)
        for medium in event.media:
            if medium.offset >= 0:  # else it counts for an earlier block, whose key this one's has in it
                begins = medium.block * size + medium.offset
                mark = media_mark(medium.identifier, at + begins)
                for block in range(begins // size, len(keys)):
                    keys[block] = (keys[block] + mark) & _MASK
        return keys

    def _enter(self, held: _Held, hashes: Sequence[int], keys: Sequence[int], end: int, tier: int) -> None:
        parts, size, unit = held.blocks, held.size, held.unit
        room = self._most - self._count
        begin = room
        for each, key in zip(hashes, keys, strict=False):
            end += size
            blocks = parts[each % _PARTS]
            packed = blocks.get(each)
            if packed is not None:
                if packed >> _KEY_SHIFT != key:
                    held.full, held.exact = True, False
                if not packed & tier:
                    self._put(held, each, packed, packed & _TIERS_MASK | tier)
                continue
            if room <= 0:
                held.full, held.exact = True, False
                break
            room -= 1
            blocks[each] = key << _KEY_SHIFT | end << _END_SHIFT | tier
            if end % unit == 0:
                self._set(self._of_key[key & _SHARD], key, held.bit)
                if tier != 1:
                    self._set(self._far[tier], key, held.bit)
        if room != begin and not held.count:
            held.exact = held.known == "all" and not held.full
        held.count += begin - room
        self._count += begin - room

    def _set(self, of_key: dict[int, int], key: int, bit: int) -> None:
        before = of_key.get(key)
        if before is None:
            of_key[key] = bit
        elif not before & bit:
            of_key[key] = self._same(before | bit)

    def _unset(self, of_key: dict[int, int], key: int, bit: int) -> None:
        left = of_key.get(key, 0) & ~bit
        if left:
            of_key[key] = self._same(left)
        else:
            of_key.pop(key, None)

    def _same(self, places: int) -> int:
        """The one object for a set of places."""
        if len(self._sets) > _SETS:
            self._sets.clear()
        return self._sets.setdefault(places, places)

    def _remove(self, held: _Held, hashes: Sequence[int], tier: int) -> None:
        for each in hashes:
            packed = held.blocks[each % _PARTS].get(each)
            if packed is not None and packed & tier:
                self._put(held, each, packed, packed & _TIERS_MASK & ~tier)

    def _put(self, held: _Held, name: int, packed: int, tiers: int) -> None:
        """Let a block lie in `tiers` from now on; in none: it is dropped."""
        before = packed & _TIERS_MASK
        if tiers:
            held.blocks[name % _PARTS][name] = packed ^ before | tiers
        else:
            del held.blocks[name % _PARTS][name]
            held.count -= 1
            self._count -= 1
        if (packed >> _END_SHIFT & _END_MASK) % held.unit:
            return
        key, was, now = packed >> _KEY_SHIFT, before & -before, tiers & -tiers
        if was != now:
            if was != 1:
                self._unset(self._far[was], key, held.bit)
            if now > 1:
                self._set(self._far[now], key, held.bit)
            if not now:
                self._unset(self._of_key[key & _SHARD], key, held.bit)

    # ---------------------------------------------------------------------------------------------------------- places

    def _join(self, place: CachePlace) -> _Held:
        if self._free:
            bit = self._free.pop()
        else:
            bit = 1 << self._bits
            self._bits += 1
        held = self._held[place] = _Held(bit)
        self._place_of[bit] = place
        return held

    def _leave(self, held: _Held) -> None:
        """A place's blocks count no more; they are dropped little by little."""
        del self._place_of[held.bit]
        self._leaving.append(held)
        self._held = {place: each for place, each in self._held.items() if each is not held}
        self._count_alive()

    def _count_alive(self) -> None:
        self._alive = {}
        for held in self._held.values():
            if held.unit:
                kind = held.unit, held.salted
                self._alive[kind] = self._alive.get(kind, 0) | held.bit

    def _tidy(self, count: int) -> None:
        """Drop some of the blocks of places that have left."""
        while self._leaving and count > 0:
            held = self._leaving[-1]
            part = next(filter(None, held.blocks), None)
            if part is None:
                self._leaving.pop()
                self._free.append(held.bit)
                continue
            for _ in range(min(count, len(part))):
                count -= 1
                name = next(reversed(part))
                self._put(held, name, part[name], 0)


def _each(bits: int) -> Sequence[int]:
    found = []
    while bits:
        bit = bits & -bits
        bits ^= bit
        found.append(bit)
    return found
