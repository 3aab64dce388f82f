"""The policy that weighs the cached part of a prompt against the work that waits.

Decides by one score a worker: the prompt tokens that it would have to read, and what it stands at (`standing`).
No threshold turns that off for a fleet: a worker with the prefix loses to another as soon as it has so much more to do than the
prefix saves. Pure: the secret of the keys and the order of equal workers come from the random source. Above: named. Below:
block_keys, prefix_index, standing, work.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from smg_core.routing.base import Candidate, Observing, Pick, RoutingContext
from smg_core.routing.block_keys import TextKeys, TokenKeys, start_of
from smg_core.routing.prefix_index import PrefixIndex
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.standing import Standing
from smg_core.routing.work import TieBreak

__all__ = ["CacheAware"]

_MEMO_SHARE = 8
_CHARACTERS = 4

Number = TypeVar("Number", int, float)
_Place = tuple[str, int]
"""A worker's name and the data-parallel rank; 0 for a worker without ranks."""


class CacheAware(Observing):
    """The worker, and of an engine with data-parallel ranks the rank, with the lowest score. Of about equal ones the one that
    has more of the prompt, then the one whose turn is the longest ago. A worker that only decodes is chosen by its work: the
    cache comes to it from the prefill worker."""

    name = "cache_aware"

    def __init__(self, settings: RoutingConfig, rng: Random) -> None:
        self._block = settings.block_tokens
        self._standing = Standing(settings)
        self._turns = TieBreak(settings.tie_tokens, rng, settings.remembered_workers)
        self._keys = TokenKeys(rng.getrandbits(64), settings.prefix_tokens)
        memo = settings.index_bytes // _MEMO_SHARE
        self._texts = TextKeys(settings.block_characters, settings.prefix_tokens * _CHARACTERS, memo)
        self._index = PrefixIndex[_Place](settings.index_bytes - memo)
        self._limits: dict[_Place, int] = {}

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self._standing.note(context.tokens)
        keys = () if context.role == "decode" else self._keys_of(context)
        sent = self._index.match(keys)
        tokens = context.tokens
        places = _places(candidates)
        gains = [min(tokens, sent.get(place, 0) * self._block) for place in places] if sent else [0] * len(places)
        scores = self._scores(candidates, gains, context)
        names = [each.name for each in candidates] if len(places) == len(candidates) else _names(candidates)
        chosen = self._turns.choose(names, scores, gains)
        worker, rank = _at(candidates, chosen), places[chosen][1]
        self._note(keys, worker, rank)
        return Pick(
            worker,
            rank if worker.rank_count > 1 else None,
            why="has the prefix" if gains[chosen] else "least to do",
            cached=gains[chosen],
            basis="approximate" if keys else "none",
            scores=_best(candidates, scores, min),
            matched=_best(candidates, gains, max),
        )

    def _keys_of(self, context: RoutingContext) -> Sequence[int]:
        start = start_of(context.cache_salt, context.lora)
        if len(context.input_ids):
            return self._keys.keys(context.prefix_keys, self._block, start)
        return self._texts.keys(context.text, start)

    def _scores(self, candidates: Sequence[Candidate], gains: Sequence[int], context: RoutingContext) -> list[float]:
        """The score of each place: tokens of the prompt to read, without what was gained (none where only answers are written),
        and where its worker stands."""
        stands = self._standing.of(candidates, context.now)
        if context.role == "decode":
            return [stand for each, stand in zip(candidates, stands, strict=True) for _ in range(each.rank_count)]
        tokens, weight = context.tokens, self._standing.read_weight
        if len(gains) == len(candidates):
            return [
                stand + weight * (tokens - gain) / each.weight
                for each, stand, gain in zip(candidates, stands, gains, strict=True)
            ]
        scores: list[float] = []
        for each, stand in zip(candidates, stands, strict=True):
            for _ in range(each.rank_count):
                scores.append(stand / each.rank_count + weight * (tokens - gains[len(scores)]) / each.weight)
        return scores

    def _note(self, keys: Sequence[int], worker: Candidate, rank: int) -> None:
        """Keep that the worker will have the prompt's blocks."""
        place, holds = (worker.name, rank), worker.kv_tokens // (self._block * worker.rank_count)
        if holds != self._limits.get(place, 0):
            self._limits[place] = holds
            self._index.limit(place, holds)
        if keys:
            self._index.insert(keys, place)

    def worker_left(self, worker: str) -> None:
        self._turns.forget(worker)
        self._standing.forget(worker)
        for place in [place for place in self._index.owners() if place[0] == worker]:
            self._index.remove(place)
            self._limits.pop(place, None)


def _places(candidates: Sequence[Candidate]) -> list[_Place]:
    """A place for each rank of each candidate, in order."""
    return [(each.name, rank) for each in candidates for rank in range(each.rank_count)]


def _names(candidates: Sequence[Candidate]) -> list[str]:
    """The places in words, for whose turn it is."""
    return [
        each.name if each.rank_count == 1 else f"{each.name}@{rank}"
        for each in candidates
        for rank in range(each.rank_count)
    ]


def _at(candidates: Sequence[Candidate], place: int) -> Candidate:
    """The candidate of the place of this number."""
    for each in candidates:
        if place < each.rank_count:
            return each
        place -= each.rank_count
    raise IndexError(place)


def _best(
    candidates: Sequence[Candidate], values: Sequence[Number], choose: Callable[[Sequence[Number]], Number]
) -> Sequence[Number]:
    """Of each candidate's ranks the best value."""
    if len(values) == len(candidates):
        return values
    found, at = [], 0
    for each in candidates:
        found.append(choose(values[at : at + each.rank_count]))
        at += each.rank_count
    return found
