"""The worker of a key, found without any state and without asking anyone.

Each worker has a number for each key, a hash of both, and the highest one wins (rendezvous hashing): when a worker leaves, only
its own keys move, and every process and every gateway finds the same. Pure. Above: affinity, cache_aware. Below: base.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from smg_core.routing.base import Candidate, RoutingContext

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rendezvous", "part_of"]

_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(31), np.uint64(29)
_LEFT, _NUMBERS = (
    np.uint64(12),
    float(1 << 52),
)  # of a hash so many bits are left out, so that a float has the rest exactly
_SETS = 16


class Rendezvous:
    """The share of each worker in a key. The hashes of the workers' names are kept for the last few sets of candidates, of at
    most `most` workers together."""

    def __init__(self, most: int) -> None:
        self._of_names: dict[tuple[str, ...], NDArray[np.uint64]] = {}
        self._kept = 0
        self._most = most

    def shares(self, candidates: Sequence[Candidate], key: bytes) -> list[float]:
        """A number for each candidate; the highest is the key's worker. A worker of twice the weight has twice the keys."""
        names = tuple([each.name for each in candidates])
        hashes = self._of_names.get(names)
        if hashes is None:
            hashes = self._learn(names)
        mixed = (np.uint64(_hash(key)) ^ hashes) * _MIX[0]
        mixed = (mixed ^ mixed >> _SHIFTS[0]) * _MIX[1]
        mixed ^= mixed >> _SHIFTS[1]
        weights = np.array([each.weight for each in candidates])
        found: list[float] = (weights / -np.log(((mixed >> _LEFT) + 0.5) / _NUMBERS)).tolist()
        return found

    def _learn(self, names: tuple[str, ...]) -> "NDArray[np.uint64]":
        if self._kept + len(names) > self._most or len(self._of_names) >= _SETS:
            self._of_names.clear()
            self._kept = 0
        self._kept += len(names)
        hashes = np.array([_hash(name.encode("utf-8", "surrogatepass")) for name in names], np.uint64)
        self._of_names[names] = hashes
        return hashes


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
