"""Policies that look only at the list of candidates and at their numbers of requests.

Pure: the random ones take their generator as an argument. Of equal candidates the earlier one is chosen, except in
`LeastRequests`, which starts its search one place further each time, so that requests spread over an idle fleet.
`FleetParts` keeps turns, and what other policies keep, for each part of a fleet.
"""

import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import Generic, TypeVar

from smg_core.routing.base import Candidate, Pick, RoutingContext

__all__ = ["FleetParts", "LeastRequests", "Passthrough", "PowerOfTwo", "Random", "RoundRobin", "pressure", "pressures"]

PARTS_KEPT = 64
"""Parts of which something is kept. A client may choose what a rule looks at, and there may be many adapters."""
UNUSED_S = 60.0
"""Seconds after which a part that no request had is forgotten for another one, where there are `PARTS_KEPT`."""

T = TypeVar("T")


class FleetParts(Generic[T]):
    """Keeps what `make` makes for each part, for at most `PARTS_KEPT` of them and for the `whole` fleet: further ones go by that.

    Rules of placement leave a request a part of the workers, and so does an adapter that some of them hold. Whose turn it is, and
    who is ahead of the others, says nothing of another part: with two tenants in turn, each on two workers, one turn for both
    would send all requests of a tenant to one worker."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.whole = make()
        self._parts: dict[tuple[str, str | None], T] = {}
        self._used: dict[tuple[str, str | None], float] = {}  # when, the longest ago first

    def of(self, context: RoutingContext) -> T:
        """What is kept for the workers that such requests may go to."""
        if not (context.part or context.lora):
            return self.whole
        key = context.part, context.lora
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= PARTS_KEPT and not self._forget_one(context.now):
                return self.whole
            found = self._parts[key] = self._make()
        self._used.pop(key, None)
        self._used[key] = context.now
        return found

    def all(self) -> tuple[T, ...]:
        """What is kept for the whole fleet, and for each part."""
        return self.whole, *self._parts.values()

    def _forget_one(self, now: float) -> bool:
        """Forget the part that had its last request the longest ago, where that is long ago."""
        key = next(iter(self._used))
        if now - self._used[key] < UNUSED_S:
            return False
        del self._used[key], self._parts[key]
        return True


class RoundRobin:
    """Each worker in turn."""

    name = "round_robin"
    spreads = True

    def __init__(self) -> None:
        self._turns = FleetParts(count)

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
        self._turns = FleetParts(count)

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
