"""The policy that looks at work: prompt tokens that wait, answers under way, and how full the KV cache is.

Pure: the order of equal workers comes from the random source. Above: named. Below: work.
"""

from collections.abc import Sequence
from random import Random

from smg_core.routing.base import Candidate, Observing, Pick, RoutingContext
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.work import TieBreak, Work

__all__ = ["LeastLoad"]

_DEFAULTS = RoutingConfig()


class LeastLoad(Observing):
    """The worker that has the least work, by its weight; of those with about the least, each in turn."""

    name = "least_load"
    spreads = True

    def __init__(self, settings: RoutingConfig = _DEFAULTS, rng: Random | None = None) -> None:
        rng = rng or Random()
        self._work = Work(settings)
        self._turns = TieBreak(settings.tie_tokens, rng, settings.remembered_workers)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self._work.note(context)
        scores, names = self._work.by_weight(candidates), [each.name for each in candidates]
        if costs := context.hand_over:
            scores = [score + costs.get(name, 0.0) for score, name in zip(scores, names, strict=True)]
        chosen = self._turns.choose(names, scores)
        return Pick(candidates[chosen], why="least work", scores=scores)

    def worker_left(self, worker: str) -> None:
        self._turns.forget(worker)
