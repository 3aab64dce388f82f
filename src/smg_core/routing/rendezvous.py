"""Which worker a key belongs to, without keeping anything and without asking anyone.

Each worker has a number for each key, a hash of both, and the highest one wins (rendezvous hashing): when a worker leaves, only
its own keys move, and every process and every gateway finds the same. Pure. Above: affinity, cache_aware. Below: base.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b

from smg_core.routing.base import Candidate, RoutingContext

__all__ = ["Rendezvous", "part_of"]

_MASK = (1 << 64) - 1
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_NUMBERS = 1 << 64


class Rendezvous:
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


def part_of(context: RoutingContext, number: int, tokens: int, characters: int) -> bytes:
    """A key made of one part of the prompt, the same in every process: of so many tokens, or of so many characters where the
    prompt is text. Parts count from 0. It covers the salt and the adapter; those of prompts with other ones are other keys."""
    salt = (context.cache_salt or "").encode("utf-8", "surrogatepass")
    lora = (context.lora or "").encode("utf-8", "surrogatepass")
    keys = context.prefix_keys
    if len(keys):
        part = keys[number * tokens : (number + 1) * tokens]
        found = bytes(part) if isinstance(part, memoryview) else b"".join(key.to_bytes(8, "big") for key in part)
    else:
        found = context.text[number * characters : (number + 1) * characters].encode("utf-8", "surrogatepass")
    return b"%d:%s%d:%s%s" % (len(salt), salt, len(lora), lora, found)
