"""Policies that send what belongs together to one worker, without keeping anything: by a key, or by how a prompt begins.

Each worker has a number for each key, a hash of both, and the highest one wins (rendezvous hashing): when a worker leaves, only
its own keys move, and every process and every gateway chooses the same. Pure. Above: named. Below: base.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b

from smg_core.routing.base import Candidate, Pick, RoutingContext
from smg_core.routing.settings import RoutingConfig

__all__ = ["ConsistentHashing", "PrefixHash"]

_MASK = (1 << 64) - 1
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_NUMBERS = 1 << 64


class _Rendezvous:
    """The share of each worker in a key. The hashes of at most `most` workers' names are kept."""

    def __init__(self, most: int) -> None:
        self._of_name: dict[str, int] = {}
        self._most = most

    def shares(self, candidates: Sequence[Candidate], key: bytes) -> list[float]:
        """A number for each candidate; the highest is the key's worker. A worker of twice the weight has twice the keys."""
        number = _hash(key)
        names = self._of_name
        found = []
        for each in candidates:
            name = names.get(each.name)
            if name is None:
                name = self._learn(each.name)
            mixed = (number ^ name) * _MIX[0] & _MASK
            mixed = (mixed ^ mixed >> 31) * _MIX[1] & _MASK
            mixed ^= mixed >> 29
            found.append(each.weight / -math.log((mixed + 1) / (_NUMBERS + 1)))
        return found

    def _learn(self, name: str) -> int:
        if len(self._of_name) >= self._most:
            self._of_name.clear()
        found = self._of_name[name] = _hash(name.encode("utf-8", "surrogatepass"))
        return found


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


class ConsistentHashing:
    """The worker of the request's routing key (`RoutingContext.cache_key`). A request without one goes where its id falls."""

    name = "consistent_hashing"

    def __init__(self, most: int = RoutingConfig().remembered_workers) -> None:
        self._rendezvous = _Rendezvous(most)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        named = context.cache_key
        key = f"key {named}" if named else f"id {context.request_id}"
        shares = self._rendezvous.shares(candidates, key.encode("utf-8", "surrogatepass"))
        best = max(range(len(shares)), key=shares.__getitem__)
        why = "the worker of this routing key" if named else "no routing key: by the request's id"
        return Pick(candidates[best], why=why, scores=[-share for share in shares])


class PrefixHash:
    """The worker of the prompt's first tokens, of those that have not much more requests than the mean (`load_factor`): prompts
    that begin alike go to one worker, and to the next one when that has too many."""

    name = "prefix_hash"

    def __init__(self, settings: RoutingConfig) -> None:
        self._tokens = settings.hashed_tokens
        self._characters = settings.hashed_tokens * settings.block_characters // settings.block_tokens
        self._factor = settings.load_factor
        self._rendezvous = _Rendezvous(settings.remembered_workers)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        shares = self._rendezvous.shares(candidates, self._beginning(context))
        loads = [(each.in_flight + each.queued) / each.weight for each in candidates]
        most = (sum(loads) + 1) / len(loads) * self._factor
        least = min(loads)  # is below `most`, but for how numbers are rounded
        free = [at for at, load in enumerate(loads) if load < most or load == least]
        best = max(free, key=shares.__getitem__)
        own = max(range(len(shares)), key=shares.__getitem__)
        why = "the worker of this beginning" if best == own else "the worker of this beginning has too many requests"
        return Pick(candidates[best], why=why, scores=[-share for share in shares])

    def _beginning(self, context: RoutingContext) -> bytes:
        salt = (context.cache_salt or "").encode("utf-8", "surrogatepass")
        lora = (context.lora or "").encode("utf-8", "surrogatepass")
        keys = context.prefix_keys[: self._tokens]
        if len(keys):
            begins = bytes(keys) if isinstance(keys, memoryview) else b"".join(key.to_bytes(8, "big") for key in keys)
        else:
            begins = context.text[: self._characters].encode("utf-8", "surrogatepass")
        return b"%d:%s%d:%s%s" % (len(salt), salt, len(lora), lora, begins)
