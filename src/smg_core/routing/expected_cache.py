"""The part of a prompt expected in each worker's cache, and the source of that figure.

Puts three things together: the exact index of what engines tell (`kv_index`), the approximate one of what was sent where
(`prefix_index`), and what was sent a moment ago to an engine that has not told of it yet. Pure: the time comes with the request.
Above: cache_aware. Below: the indexes and their keys.
"""

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from smg_core.engines.kv_events import KvCacheCleared, KvEvent
from smg_core.routing.base import Basis, KvKnown, RoutingContext
from smg_core.routing.block_keys import TextKeys, TokenKeys, start_of
from smg_core.routing.kv_index import CachePlace, KvHit, KvIndex, media_mark
from smg_core.routing.prefix_index import PrefixIndex
from smg_core.routing.settings import RoutingConfig

__all__ = ["Expected", "ExpectedCache"]

_MEMO_SHARE = 8
_RECENT_SHARE = 8
_CHARACTERS = 4
_COARSE = 4
"""What was sent a moment ago is kept in pieces of so many blocks: every decision looks at it."""

_NOTE_BYTES = 160
_NOTES_SHARE = 4
_MASK = (1 << 64) - 1


class Expected(Struct, frozen=True):
    """What is expected of one prompt, a row for each place: the tokens that need not be read there (`gains`; what has to be
    fetched counts for less), how that is known (`bases`), and the age in seconds of what the engine told last (`stale`, None
    where it tells nothing). `keys` are the prompt's for the approximate index."""

    gains: Sequence[int]
    bases: Sequence[Basis]
    stale: Sequence[float | None]
    keys: Sequence[int] = ()


class ExpectedCache:
    """The caches of the workers of one model and role. `secret` is that of the keys. With `notes`, what is sent is noted for
    `take_sent`."""

    def __init__(self, settings: RoutingConfig, secret: int, *, notes: bool = False) -> None:
        self._notes: deque[tuple[str, int, Sequence[int]]] = deque()
        self._noted = 0  # bytes of `_notes`
        self._most_noted = settings.sent_bytes // _NOTES_SHARE if notes else 0
        self._block = settings.block_tokens
        self._keys = TokenKeys(secret, settings.prefix_tokens)
        memo, recent = settings.index_bytes // _MEMO_SHARE, settings.index_bytes // _RECENT_SHARE
        self._texts = TextKeys(settings.block_characters, settings.prefix_tokens * _CHARACTERS, memo)
        self._sent = PrefixIndex[CachePlace](settings.index_bytes - memo - recent)
        self._limits: dict[CachePlace, int] = {}
        self._recent = PrefixIndex[CachePlace](recent)
        self._recent_since = 0.0
        self._recent_s = settings.kv_pending_s
        self._events = KvIndex(self._keys, settings.kv_index_bytes, self._block)
        self._costs = settings.host_cost, settings.disk_cost, settings.external_cost

    # ------------------------------------------------------------------------------------------------------- questions

    def of(self, context: RoutingContext, places: Sequence[CachePlace]) -> Expected:
        """What each of `places` is expected to have of the prompt."""
        if not self._events.units:
            keys = self._keys_of(context)
            basis: Basis = "approximate" if keys else "none"
            gains = self._gains(context.tokens, self._sent.match(keys), self._block)
            found = [*map(gains.get, places, repeat(0))] if gains else [0] * len(places)
            return Expected(found, [basis] * len(places), [None] * len(places), keys)
        return self._with_events(context, places)

    def _gains(self, tokens: int, blocks: Mapping[CachePlace, int], size: int) -> dict[CachePlace, int]:
        return {place: min(tokens, count * size) for place, count in blocks.items()}

    def _with_events(self, context: RoutingContext, places: Sequence[CachePlace]) -> Expected:
        base, keys = self._all_keys(context)
        tokens, now, block = context.tokens, context.now, self._block
        self._age(now)
        gains = {place: min(tokens, self._worth(hit)) for place, hit in self._by_events(context, base, keys).items()}
        guessed = self._gains(tokens, self._recent.match(keys[_COARSE - 1 :: _COARSE]), block * _COARSE)
        exact, stale = self._events.known_of(places, now)
        for place, gain in self._gains(tokens, self._sent.match(keys), block).items():
            reported = self._events.known(place)
            if reported is None or not reported[0] or context.media:  # engines may name media in a way of their own
                guessed[place] = max(gain, guessed.get(place, 0))
        otherwise: Basis = "approximate" if keys else "none"
        bases: list[Basis] = ["exact" if each else otherwise for each in exact]
        found = [*map(gains.get, places, repeat(0))] if gains else [0] * len(places)
        if guessed:
            for at, (gain, guess) in enumerate(zip(found, map(guessed.get, places, repeat(0)), strict=True)):
                if guess > gain:
                    found[at], bases[at] = guess, otherwise
        return Expected(found, bases, stale, keys)

    def _all_keys(self, context: RoutingContext) -> tuple[NDArray[np.uint64] | None, Sequence[int]]:
        """The sums of the prompt's ids for each block of the approximate index (None of a text), and its keys there, which are
        made of the same sums where that can be."""
        if not context.input_ids.size:
            return None, self._keys_of(context)
        base = self._keys.sums(context.input_ids.buffer, self._block)
        if context.media_keys is not None:
            return base, self._keys_of(context)
        keys: list[int] = _every(base, 1, start_of(context.cache_salt, context.lora)).tolist()
        return base, keys

    def _by_events(
        self, context: RoutingContext, base: NDArray[np.uint64] | None, keys: Sequence[int]
    ) -> dict[CachePlace, KvHit]:
        """What the engines have told that they hold of the prompt."""
        found: dict[CachePlace, KvHit] = {}
        if base is not None:
            for unit, salted in self._events.units:
                found |= self._events.match(self._exact_keys(context, base, keys, unit, salted), unit, salted=salted)
        return found

    def _exact_keys(
        self, context: RoutingContext, base: NDArray[np.uint64], own: Sequence[int], unit: int, salted: bool
    ) -> Sequence[int]:
        """The keys of the prompt as engines see it: ids, and media by where they begin. `own` are those of the approximate index,
        which are the same where neither is salted in a way of its own."""
        salt = context.engine_salt if salted else None
        if unit == self._block and salt == context.cache_salt and context.media_keys is None:
            return own
        keys: list[int]
        start = start_of(salt, context.lora)
        if unit % self._block:
            keys = self._keys.keys(context.input_ids.buffer, unit, start)
        else:
            keys = _every(base, unit // self._block, start).tolist()
        for begins, name in context.media:
            mark = media_mark(name, begins)
            for at in range(begins // unit, len(keys)):
                keys[at] = (keys[at] + mark) & _MASK
        return keys

    def _worth(self, hit: KvHit) -> int:
        """The tokens that need not be read, less what it costs to fetch those that lie elsewhere."""
        if not (hit.host or hit.disk or hit.external):
            return hit.tokens
        host, disk, external = self._costs
        return max(0, int(hit.tokens - host * hit.host - disk * hit.disk - external * hit.external))

    def _keys_of(self, context: RoutingContext) -> Sequence[int]:
        start = start_of(context.cache_salt, context.lora)
        if context.input_ids.size:
            return self._keys.keys(context.prefix_keys, self._block, start)
        return self._texts.keys(context.text, start)

    # --------------------------------------------------------------------------------------------------------- changes

    def sent(self, place: CachePlace, expected: Expected, holds: int, now: float) -> None:
        """The prompt of `expected` goes to `place`, whose engine's cache holds so many tokens (0: not known)."""
        keys = expected.keys
        limit = holds // self._block
        if limit != self._limits.get(place, 0):
            self._limits[place] = limit
            self._sent.limit(place, limit)
        if not keys:
            return
        if self._most_noted and not isinstance(keys, tuple):  # the keys of a text are good within this process alone
            self._note(place, array("Q", keys))
        reported = self._events.known(place)
        if reported is not None:
            self._age(now)
            self._recent.insert(keys[_COARSE - 1 :: _COARSE], place)
        if reported is None or not reported[0]:
            self._sent.insert(keys, place)

    def recall(self, place: CachePlace, keys: Sequence[int]) -> None:
        """A prompt was sent to `place` before this object was made."""
        self._sent.insert(keys, place)

    def take_sent(self) -> list[tuple[str, int, Sequence[int]]]:
        """What was noted since this was called last: worker, rank and keys."""
        taken, self._notes, self._noted = self._notes, deque(), 0
        return list(taken)

    def _note(self, place: CachePlace, keys: "array[int]") -> None:
        self._notes.append((*place, keys))
        self._noted += _NOTE_BYTES + len(keys) * keys.itemsize
        while self._noted > self._most_noted:
            self._noted -= _NOTE_BYTES + len(self._notes.popleft()[2]) * keys.itemsize

    def _age(self, now: float) -> None:
        """Forget what was sent longer ago than engines take to tell of it."""
        if now - self._recent_since >= self._recent_s:
            if now - self._recent_since >= 2 * self._recent_s:
                self._recent.next_epoch()
            self._recent.next_epoch()
            self._recent_since = now

    def apply(self, place: CachePlace, events: Sequence[KvEvent], now: float) -> None:
        """The engine's cache has changed."""
        self._events.apply_all(place, events, now)
        if KvCacheCleared in map(type, events):
            self._recent.remove(place)

    def know(self, place: CachePlace, known: KvKnown, *, salted: bool) -> None:
        """What the engine has told from now on is all that it holds, a part, or wrong ("nothing")."""
        if known == "nothing":
            self._events.forget(place)
            self._recent.remove(place)
        else:
            self._events.know(place, known, salted=salted)

    def cache_lost(self, worker: str) -> None:
        """Forget all that a worker's cache was expected to have, and note that for those who keep what was sent."""
        self.worker_left(worker)
        if self._most_noted:
            self._note((worker, 0), array("Q"))

    def worker_left(self, worker: str) -> None:
        """Forget all about a worker."""
        for index in (self._sent, self._recent):
            for place in [place for place in index.owners() if place[0] == worker]:
                index.remove(place)
                self._limits.pop(place, None)
        for place in [place for place in self._events.places() if place[0] == worker]:
            self._events.forget(place)


def _every(sums: NDArray[np.uint64], step: int, start: int) -> NDArray[np.uint64]:
    """Each of `sums` whose number is a multiple of `step`, behind the key `start`."""
    found: NDArray[np.uint64] = sums[step - 1 :: step] + np.uint64(start)
    return found
