"""The same worker for prompts unknown to gateways that do not see each other's requests.

The turns of a conversation may come through several gateways. Where engines do not tell of their caches, each gateway knows only
what it sent there itself, so it takes a later turn for a new conversation. Each of them finds the same owner for such a prompt
(`rendezvous`), without asking the others: by its cache key, else by its first block that is not common to most workers. That
block comes behind what all conversations begin with, and is the same one in every turn. A block that many requests have needs
several owners: the first ones in its order, as many as its share of the requests takes, twice over. Where engines tell, those
that hold most of the prompt are its owners to every gateway. Pure. Above: cache_aware. Below: base, rendezvous, standing.
"""

from collections.abc import Sequence
from heapq import nlargest
from math import ceil

from smg_core.routing.base import Candidate, RoutingContext
from smg_core.routing.rendezvous import Rendezvous, part_of
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.standing import price_of_a_copy

__all__ = ["Agreed", "Popular"]

_WORTH_AGREEING = 0.05
"""The least prompts' worth that an owner's score is lowered by; below that nobody is asked who the owner is."""

_PART_OF_ONE_REQUEST = 0.02
"""What one request counts in the mean of how much was cached: the mean is over about the latest 50."""

_SURE_FROM = 0.5
"""Where prompts have this mean share cached, they are taken to share for certain; below it, in proportion."""

_OWNERS_A_SHARE = 2.0
"""Owners of a block for each worker's fair share of the requests that have it. With two, each has half of its share of such
requests, and room for others."""

_LATEST = 1024
"""Requests that the share of a block is of; as many blocks are kept at most."""

_FIRST_REQUESTS = 50
"""A share is of so many requests at least: the first block that comes is not all that ever will."""


class Agreed:
    """Finds the owners of prompts, and keeps how much of them was known before: prompts that share nothing need no owner."""

    def __init__(self, settings: RoutingConfig) -> None:
        self._rendezvous = Rendezvous(settings.remembered_workers)
        self._block = settings.block_tokens
        self._characters = settings.block_characters
        self._factor = settings.agreed_factor
        self._popular = Popular()
        self._shared = 0.0  # the mean share of a prompt that some cache was expected to have

    def note(self, cached: int, tokens: int) -> None:
        """Called for each request: `cached` of the `tokens` of its prompt were expected in some worker's cache."""
        self._shared += (min(1.0, cached / max(1, tokens)) - self._shared) * _PART_OF_ONE_REQUEST

    def holders(self, gains: Sequence[int], most: int, others: float) -> tuple[Sequence[int], float]:
        """The numbers of the places that hold `most` of a prompt, if few do, and how many tokens that is worth beside what is
        gained there. Gateways that do not see each other's requests misjudge what waits at a worker; so a prompt leaves a worker
        that has it less easily: the less so, the more of them have it. `gains` and `others` as of `owners`."""
        if others * self._factor < _WORTH_AGREEING or most <= _common(gains):
            return (), 0.0
        likely = min(1.0, self._shared / _SURE_FROM)
        found = [at for at, gain in enumerate(gains) if gain == most]
        return found, likely * others * self._factor * most * price_of_a_copy(len(found), len(gains))

    def owners(
        self, candidates: Sequence[Candidate], gains: Sequence[int], context: RoutingContext, others: float
    ) -> tuple[Sequence[int], float]:
        """The numbers of the candidates that all gateways find for the prompt, and how many tokens that is worth; none where
        there is nothing to agree on. A cache key has one; the block of a prompt has as many as its share of all requests needs.
        `gains` are the tokens that places are known to have, `others` is the share of requests that other gateways send."""
        if others * self._factor < _WORTH_AGREEING or len(candidates) < 2:
            return (), 0.0
        likely = 1.0 if context.cache_key else min(1.0, self._shared / _SURE_FROM)
        key = self._key(context, _common(gains))
        if likely < _WORTH_AGREEING or not key:
            return (), 0.0
        count = 1 if context.cache_key else ceil(self._popular.share(key) * _OWNERS_A_SHARE * len(candidates))
        shares = self._rendezvous.shares(candidates, key)
        return nlargest(
            count, range(len(shares)), key=shares.__getitem__
        ), likely * others * self._factor * context.tokens

    def _key(self, context: RoutingContext, common: int) -> bytes:
        """What the prompt is known by to all gateways: its cache key, or the block behind its first `common` tokens; empty
        where it has none."""
        if context.cache_key:
            return b"key " + context.cache_key.encode("utf-8", "surrogatepass")
        block = common // self._block
        if context.tokens < (block + 1) * self._block:
            return b""
        return part_of(context, block, self._block, self._characters)


def _common(gains: Sequence[int]) -> int:
    """What more than half of the places have of a prompt."""
    return sorted(gains)[(len(gains) - 1) // 2]


class Popular:
    """How often keys have come lately, among the last `_LATEST` requests or half of them. Keeps at most `_LATEST` keys."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._total = 0

    def __len__(self) -> int:
        """How many keys are kept."""
        return len(self._counts)

    def share(self, key: bytes) -> float:
        """Called for each request: the share of the requests that have this key, this one included."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        self._total += 1
        share = count / max(self._total, _FIRST_REQUESTS)
        if self._total >= _LATEST:
            self._counts = {key: count // 2 for key, count in self._counts.items() if count > 1}
            self._total = sum(self._counts.values())
        return share
