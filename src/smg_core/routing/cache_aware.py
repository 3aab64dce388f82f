"""The policy that weighs the cached part of a prompt against the work that waits.

Decides by one score a worker: the prompt tokens that it would have to read, and what it stands at (`standing`).
No threshold turns that off for a fleet: a worker with the prefix loses to another as soon as it has so much more to do than the
prefix saves. Pure: the secret of the keys and the order of equal workers come from the random source. Above: named. Below:
expected_cache, standing, work.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from random import Random
from typing import TypeVar

from smg_core.engines.kv_events import KvEvent
from smg_core.routing.agreed import Agreed
from smg_core.routing.base import Candidate, KvKnown, Observing, Pick, RoutingContext
from smg_core.routing.expected_cache import Expected, ExpectedCache
from smg_core.routing.kv_index import CachePlace
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.simple import FleetParts
from smg_core.routing.standing import Standing, least_to_pay
from smg_core.routing.work import TieBreak

__all__ = ["CacheAware"]

_DEFAULTS = RoutingConfig()

Number = TypeVar("Number", int, float)
Row = TypeVar("Row")


class CacheAware(Observing):
    """The worker, and of an engine with data-parallel ranks the rank, with the lowest score. Of about equal ones the one that
    has more of the prompt, then the one whose turn is the longest ago. A worker that only decodes is chosen by its work: the
    cache comes to it from the prefill worker, unless it may read the prompt itself."""

    name = "cache_aware"
    spreads = True

    listens = True

    def __init__(self, settings: RoutingConfig = _DEFAULTS, rng: Random | None = None) -> None:
        rng = rng or Random()
        self._standings = FleetParts(lambda: Standing(settings))
        self._standing = self._standings.of(RoutingContext())  # that of the latest choice
        self._agreed = Agreed(settings)
        self._turns = TieBreak(settings.tie_tokens, rng, settings.remembered_workers)
        self._settings = settings
        self._caches = ExpectedCache(settings, rng.getrandbits(64))
        self._seen: tuple[list[str], list[int]] = [], []  # names and ranks of the candidates of the last choice
        self._places: list[CachePlace] = []  # theirs, which are mostly those of the next one
        self._names: list[str] = []  # of the worker of each place
        self._words: list[str] = []

    def expects(self, candidates: Sequence[Candidate], context: RoutingContext) -> Sequence[int]:
        """The number of prompt tokens that each candidate's cache is expected to have."""
        return _best(candidates, self._caches.of(context, self._places_of(candidates)).gains, max)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self._standing = self._standings.of(context)
        self._standing.note(context.tokens)
        places = self._places_of(candidates)
        decodes = context.role == "decode" and not context.may_read
        expected = _nothing(len(places)) if decodes else self._caches.of(context, places)
        gains = expected.gains
        stands, preferred = self._stands(candidates, expected, context)
        pays = self._pays(candidates, gains, context.tokens)
        scores = self._scores(candidates, pays, context, stands)
        if len(places) > len(candidates):
            _leave_out(scores, candidates)
        chosen = self._turns.choose(self._words, scores, gains, _part(gains, pays))
        worker = candidates[chosen if len(places) == len(candidates) else _at(candidates, chosen)]
        rank = places[chosen][1]
        self._caches.sent(places[chosen], expected, worker.kv_tokens // worker.rank_count, context.now)
        return Pick(
            worker,
            rank if worker.rank_count > 1 else None,
            why="has the prefix" if gains[chosen] else "least to do",
            cached=gains[chosen],
            basis=expected.bases[chosen],
            scores=_best(candidates, scores, min),
            matched=_best(candidates, gains, max),
            stale_s=expected.stale[chosen],
            bases=_first(candidates, expected.bases),
            stale=_first(candidates, expected.stale),
            parts=self._parts(candidates, dict.fromkeys((chosen, gains.index(max(gains)))), pays, preferred, context),
        )

    def _places_of(self, candidates: Sequence[Candidate]) -> list[CachePlace]:
        """A place for each rank of each candidate, in order; `_words` are the same in words, for whose turn it is."""
        seen = [each.name for each in candidates], [each.rank_count for each in candidates]
        if seen != self._seen:
            self._seen = names, ranks = seen
            self._places = [(name, rank) for name, count in zip(names, ranks, strict=True) for rank in range(count)]
            self._names = [name for name, _ in self._places]
            self._words = names if sum(ranks) == len(names) else _words(candidates)
        return self._places

    def _parts(
        self,
        candidates: Sequence[Candidate],
        which: Collection[int],
        pays: Sequence[float],
        preferred: Mapping[int, float],
        context: RoutingContext,
    ) -> dict[str, dict[str, float]]:
        """What the scores of these places are the sum of, by the names of their workers."""
        found: dict[str, dict[str, float]] = {}
        reads = context.role != "decode" or context.may_read
        for place in which:
            at = place if len(pays) == len(candidates) else _at(candidates, place)
            worker = candidates[at]
            if worker.name in found:
                continue  # another rank of it
            parts = self._standing.parts_of(worker)
            if lowered := preferred.get(at):
                parts["preferred"] = -lowered
            if cost := context.hand_over.get(worker.name):
                parts["hand_over"] = cost
            if worker.rank_count > 1 and reads:
                parts = {name: each / worker.rank_count for name, each in parts.items()}
            if reads:
                parts["reading"] = self._standing.read_weight * pays[place] / worker.weight
            found[worker.name] = parts
        return found

    def _stands(
        self, candidates: Sequence[Candidate], expected: Expected, context: RoutingContext
    ) -> tuple[list[float], dict[int, float]]:
        """Where each worker stands, with what it costs to hand the prompt's cache over. Where others have requests here, the
        workers that all gateways agree on stand better; by how much is told by their numbers."""
        stands = self._standing.of(candidates, context.now)
        gains = expected.gains
        preferred: dict[int, float] = {}
        if context.role != "decode" or context.may_read:
            self._agreed.note(max(gains), context.tokens)
            owners, tokens = self._owners(candidates, expected, context)
            for owner in owners:
                preferred[owner] = self._standing.read_weight * tokens / candidates[owner].weight
                stands[owner] -= preferred[owner]
        if costs := context.hand_over:
            stands = [stand + costs.get(each.name, 0.0) for each, stand in zip(candidates, stands, strict=True)]
        return stands, preferred

    def _owners(
        self, candidates: Sequence[Candidate], expected: Expected, context: RoutingContext
    ) -> tuple[Sequence[int], float]:
        """The numbers of the workers that all gateways agree on, and how many tokens that is worth: those that hold most of the
        prompt, as all are told by the engines; of engines that tell nothing, those that each gateway finds by itself."""
        gains, bases, others = expected.gains, expected.bases, self._standing.others
        if len(gains) > len(candidates):
            return self._agreed.owners(candidates, gains, context, others)
        most = max(gains)
        if bases[gains.index(most)] == "exact" and (held := self._agreed.holders(gains, most, others))[0]:
            return held
        owners, tokens = self._agreed.owners(candidates, gains, context, others)
        return [owner for owner in owners if bases[owner] != "exact"], tokens

    def _scores(
        self, candidates: Sequence[Candidate], pays: Sequence[float], context: RoutingContext, stands: Sequence[float]
    ) -> list[float]:
        """The score of each place: what it pays for the tokens of the prompt to read (nothing where only answers are written),
        and where its worker stands."""
        if context.role == "decode" and not context.may_read:
            return [stand for each, stand in zip(candidates, stands, strict=True) for _ in range(each.rank_count)]
        weight = self._standing.read_weight
        if len(pays) == len(candidates):
            return [
                stand + weight * pay / each.weight for each, stand, pay in zip(candidates, stands, pays, strict=True)
            ]
        scores: list[float] = []
        for each, stand in zip(candidates, stands, strict=True):
            for _ in range(each.rank_count):
                scores.append(stand / each.rank_count + weight * pays[len(scores)] / each.weight)
        return scores

    def _pays(self, candidates: Sequence[Candidate], gains: Sequence[int], tokens: int) -> list[float]:
        """What each place pays for the tokens of the prompt that it has to read: all of them, or less where the fleet is better
        off with one more copy of what others have (`price_of_a_copy`)."""
        least = least_to_pay(gains, tokens)
        if len(least) == 1:
            return [float(tokens - gains[0])] * len(gains)
        calm, idle = self._standing.spare()
        by_gain = {gain: (tokens - gain) - calm * (tokens - gain - low) for gain, low in least.items()}
        pays = [*map(by_gain.__getitem__, gains)]
        if idle:
            for at, part in enumerate(map(idle.get, self._names)):
                if part:
                    whole = tokens - gains[at]
                    pays[at] = whole - part * (whole - least[gains[at]])
        if owed := self._standing.owed:
            new = tokens - max(gains)
            for at, name in enumerate(self._names):
                pays[at] = max(new, pays[at] - owed.get(name, 0.0))
        return pays

    def remember(self, secret: int) -> None:
        self._caches = ExpectedCache(self._settings, secret, notes=True)

    def recall(self, worker: str, rank: int, keys: Sequence[int]) -> None:
        self._caches.recall((worker, rank), keys)

    def take_sent(self) -> list[tuple[str, int, Sequence[int]]]:
        return self._caches.take_sent()

    def worker_left(self, worker: str) -> None:
        self._turns.forget(worker)
        self._forget_standing(worker)
        self._caches.worker_left(worker)

    def cache_lost(self, worker: str) -> None:
        self._forget_standing(worker)  # so it begins as one that has just come
        self._caches.cache_lost(worker)

    def _forget_standing(self, worker: str) -> None:
        for each in self._standings.all():
            each.forget(worker)

    def kv_changed(self, worker: str, rank: int, events: Sequence[KvEvent], now: float) -> None:
        self._caches.apply((worker, rank), events, now)

    def kv_known(self, worker: str, rank: int, known: KvKnown, *, salted: bool = True) -> None:
        self._caches.know((worker, rank), known, salted=salted)


def _leave_out(scores: list[float], candidates: Sequence[Candidate]) -> None:
    """Let no rank be chosen whose breaker is open: the request would go to another one, which does not have the prefix."""
    at = 0
    for each in candidates:
        for rank in each.ranks_out if len(each.ranks_out) < each.rank_count else ():
            scores[at + rank] = inf
        at += each.rank_count


def _part(gains: Sequence[int], pays: Sequence[float]) -> float:
    """The part of its price that counts for what the places lack that others have."""
    lacking = max(gains) - min(gains)
    return (max(pays) - min(pays)) / lacking if lacking else 1.0


def _nothing(count: int) -> Expected:
    """What is expected of caches that do not matter."""
    return Expected([0] * count, ["none"] * count, [None] * count)


def _words(candidates: Sequence[Candidate]) -> list[str]:
    """The places in words, for whose turn it is."""
    return [
        each.name if each.rank_count == 1 else f"{each.name}@{rank}"
        for each in candidates
        for rank in range(each.rank_count)
    ]


def _at(candidates: Sequence[Candidate], place: int) -> int:
    """The number of the candidate of the place of this number."""
    for at, each in enumerate(candidates):
        if place < each.rank_count:
            return at
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


def _first(candidates: Sequence[Candidate], values: Sequence[Row]) -> Sequence[Row]:
    """Of each candidate's ranks what is known of the first."""
    if len(values) == len(candidates):
        return values
    found, at = [], 0
    for each in candidates:
        found.append(values[at])
        at += each.rank_count
    return found
