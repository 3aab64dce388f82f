"""Policies that look only at the list of candidates and at their numbers of requests.

Pure: the random ones take their generator as an argument. Of equal candidates the earlier one is chosen, except in
`LeastRequests`, which starts its search one place further each time, so that requests spread over an idle fleet.
"""

import random
from collections.abc import Sequence
from itertools import count

from smg_core.routing.base import Candidate, Pick, RoutingContext
from smg_core.routing.parts import Parts

__all__ = ["LeastRequests", "Passthrough", "PowerOfTwo", "Random", "RoundRobin", "pressure", "pressures"]


class RoundRobin:
    """Each worker in turn."""

    name = "round_robin"
    spreads = True

    def __init__(self) -> None:
        self._turns = Parts(count)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        parts = self._turns
        turns = (
            parts.of(context) if context.part or context.lora else parts.whole
        )  # most requests have no call for that
        return Pick(candidates[next(turns) % len(candidates)])


class Passthrough:
    """The first worker, always; another one only where that one cannot be asked. For one worker, or where something behind it
    chooses."""

    name = "passthrough"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


class Random:
    """Any worker, all equally likely."""

    name = "random"
    spreads = True

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[self._rng.randrange(len(candidates))])


class LeastRequests:
    """The worker with the fewest requests in flight and waiting, divided by its weight."""

    name = "least_requests"
    spreads = True

    def __init__(self) -> None:
        self._turns = Parts(count)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        start = next(self._turns.of(context)) % len(candidates)
        found = pressures(candidates)
        least = min(found)
        try:
            return Pick(candidates[found.index(least, start)])
        except ValueError:  # there is none behind the place where the search starts
            return Pick(candidates[found.index(least)])


class PowerOfTwo:
    """The less busy of two random workers: nearly as even as `LeastRequests`. When several gateways see the same old numbers,
    they do not all choose the same worker."""

    name = "power_of_two"
    spreads = True

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        if len(candidates) == 1:
            return Pick(candidates[0])
        return Pick(min(self._rng.sample(candidates, 2), key=pressure))


def pressures(candidates: Sequence[Candidate]) -> list[float]:
    """The `pressure` of each, without a call for those that have nothing but what is counted here: there may be a thousand."""
    return [each.in_flight / each.weight if not (each.queued or each.others) else pressure(each) for each in candidates]


def pressure(candidate: Candidate) -> float:
    """The requests at a worker, under way and waiting, divided by its weight."""
    return (candidate.in_flight + max(candidate.queued, candidate.others)) / candidate.weight
