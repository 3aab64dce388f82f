"""Policies that send what belongs together to one worker, without keeping anything: by a key, or by how a prompt begins.

When a worker leaves, only its own keys move, and every process and every gateway chooses the same (`rendezvous`). Pure. Above:
named. Below: base, rendezvous.
"""

from collections.abc import Sequence

from smg_core.routing.base import Candidate, Pick, RoutingContext
from smg_core.routing.rendezvous import Rendezvous, part_of
from smg_core.routing.settings import RoutingConfig

__all__ = ["ConsistentHashing", "PrefixHash"]

_DEFAULTS = RoutingConfig()


class ConsistentHashing:
    """The worker of the request's routing key (`RoutingContext.cache_key`). A request without one goes where its id falls."""

    name = "consistent_hashing"

    def __init__(self, most: int = _DEFAULTS.remembered_workers) -> None:
        self._rendezvous = Rendezvous(most)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        named = context.cache_key
        key = f"key {named}" if named else f"id {context.request_id}"
        shares = self._rendezvous.shares(candidates, key.encode("utf-8", "surrogatepass"))
        best = max(range(len(shares)), key=shares.__getitem__)
        why = "the worker of this routing key" if named else "no routing key: by the request's id"
        return Pick(candidates[best], why=why, scores=[-share for share in shares])


class PrefixHash:
    """The worker of a prompt's first tokens, unless its requests far exceed the mean (`load_factor`): prompts that begin alike go
    to one worker, and to the next one when that has too many."""

    name = "prefix_hash"

    def __init__(self, settings: RoutingConfig = _DEFAULTS) -> None:
        self._tokens = settings.hashed_tokens
        self._characters = settings.hashed_tokens * settings.block_characters // settings.block_tokens
        self._factor = settings.load_factor
        self._rendezvous = Rendezvous(settings.remembered_workers)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        shares = self._rendezvous.shares(candidates, part_of(context, 0, self._tokens, self._characters))
        loads = [(each.in_flight + max(each.queued, each.others)) / each.weight for each in candidates]
        most = (sum(loads) + 1) / len(loads) * self._factor
        least = min(loads)  # is below `most`, but for how numbers are rounded
        free = [at for at, load in enumerate(loads) if load < most or load == least]
        best = max(free, key=shares.__getitem__)
        own = max(range(len(shares)), key=shares.__getitem__)
        why = "the worker of this beginning" if best == own else "the worker of this beginning has too many requests"
        return Pick(candidates[best], why=why, scores=[-share for share in shares])
