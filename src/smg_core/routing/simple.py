"""Policies that look at nothing but the list and the number of requests in flight.

Pure: the random ones take their generator as an argument. Ties go to the earlier candidate, except in `LeastRequests`,
which starts its search one further each time, so that an idle fleet is filled evenly rather than from the front.
"""

import random
from collections.abc import Sequence

from smg_core.routing.base import Candidate, Pick, RoutingContext

__all__ = ["LeastRequests", "PowerOfTwo", "Random", "RoundRobin"]


class RoundRobin:
    """Each worker in turn."""

    name = "round_robin"

    def __init__(self) -> None:
        self._turn = -1

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self._turn += 1
        return Pick(candidates[self._turn % len(candidates)])


class Random:
    """Any worker, all equally likely."""

    name = "random"

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[self._rng.randrange(len(candidates))])


class LeastRequests:
    """The worker with the fewest requests in flight and waiting, for its weight."""

    name = "least_requests"

    def __init__(self) -> None:
        self._turn = -1

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self._turn += 1
        start = self._turn % len(candidates)
        return Pick(min([*candidates[start:], *candidates[:start]], key=_pressure))


class PowerOfTwo:
    """The less busy of two workers drawn at random: nearly as even as `LeastRequests`, without herding when several
    gateways look at the same stale numbers."""

    name = "power_of_two"

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        if len(candidates) == 1:
            return Pick(candidates[0])
        return Pick(min(self._rng.sample(candidates, 2), key=_pressure))


def _pressure(candidate: Candidate) -> float:
    return (candidate.in_flight + candidate.queued) / candidate.weight
