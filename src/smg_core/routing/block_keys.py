"""Keys of a prompt's blocks: one number for each whole block, which stands for everything up to the block's end.

Two prompts share as many blocks as their keys are equal from the start. A key covers the tenant's salt, the LoRA adapter and,
in place of token ids, the hashes of media. The keys of token ids are sums of products with secret random factors (multilinear
hashing), so that numpy makes all of a prompt in a few operations and the next key follows from the one before; those of a text
are chained hashes of Python, which has a secret of its own in every process. Pure: the secret is an argument. Above:
prefix_index, kv_index, the policies. Below: base.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from operator import mul

import numpy as np
import numpy.typing as npt

__all__ = ["TextKeys", "TokenKeys", "start_of"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MEMO_BYTES = 160
_KEY_BYTES = 44
_FEW = 96
_BUFFERS = (array, memoryview)
_NUMBERS = {4: np.uint32, 8: np.uint64}


def start_of(salt: str | None, lora: str | None) -> int:
    """The key before a prompt's first block. Prompts with different salts or adapters share no key."""
    if not salt and not lora:
        return 0
    parts = [part.encode("utf-8", "surrogatepass") for part in (salt or "", lora or "")]
    return int.from_bytes(blake2b(b"%d:" % len(parts[0]) + parts[0] + parts[1], digest_size=8).digest(), "big")


class TokenKeys:
    """Makes the keys of prompts of token ids. `secret` is any number that clients do not know: with it, nobody can make two
    prompts that have the same keys. `most` is how many tokens of a prompt are looked at, from its start."""

    def __init__(self, secret: int, most: int) -> None:
        self._secret = secret & _MASK
        self._most = most
        self._factors: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._totals: npt.NDArray[np.uint64] = np.zeros(1, np.uint64)  # the sum of the factors before each place
        self._parts: dict[tuple[int, int], tuple[list[int], int]] = {}  # by place and length of a block

    def sums(
        self, tokens: Sequence[int] | memoryview, block: int, *, start: int = 0, at: int = 0
    ) -> "npt.NDArray[np.uint64]":
        """A key for each whole block of `tokens`, whose first one stands at place `at` of its prompt, behind the key `start`.
        `tokens` are ids (32 bits) or `RoutingContext.prefix_keys` (64 bits). Places behind `most` have no key."""
        count = max(0, min(len(tokens), self._most - at)) // block
        if not count:
            return np.empty(0, np.uint64)
        end = at + count * block
        factors = self._factors_to(end)[at:]
        # A token counts as its id and one, so that token 0 counts too; the ones are summed once for all prompts.
        keys: npt.NDArray[np.uint64] = np.einsum(
            "ij,ij->i", _numbers(tokens, count * block).reshape(count, block), factors.reshape(count, block)
        ).cumsum(dtype=np.uint64)
        keys += self._totals[at + block : end + 1 : block]
        if start or at:
            keys += np.uint64((start - int(self._totals[at])) & _MASK)
        return keys

    def keys(self, tokens: Sequence[int] | memoryview, block: int, start: int = 0) -> list[int]:
        """The keys of a prompt's whole blocks, as numbers."""
        found: list[int] = self.sums(tokens, block, start=start).tolist()
        return found

    def following(self, tokens: Sequence[int] | memoryview, block: int, start: int, at: int) -> list[int]:
        """The keys of whole blocks that follow the key `start` at place `at` of their prompt, as `sums` has them. For a
        few tokens Python's own numbers are quicker."""
        count = max(0, min(len(tokens), self._most - at)) // block
        if count * block > _FEW:
            found: list[int] = self.sums(tokens, block, start=start, at=at).tolist()
            return found
        key, keys = start, []
        for begin in range(0, count * block, block):
            some = tokens if count == 1 else tokens[begin : begin + block]
            key = self.next(some, block, key, at + begin)
            keys.append(key)
        return keys

    def next(self, tokens: Sequence[int], block: int, start: int, at: int) -> int:
        """The key of one whole block at place `at`, behind the key `start`."""
        factors, total = self._parts.get((at, block)) or self._part(at, block)
        key: int = sum(map(mul, tokens, factors), start + total) & _MASK
        return key

    @property
    def most(self) -> int:
        """How many tokens of a prompt have keys."""
        return self._most

    def _part(self, at: int, block: int) -> tuple[list[int], int]:
        """The factors of one block as Python's numbers, and their sum. They are kept, for as many tokens as are looked at."""
        if len(self._parts) * block > self._most:
            self._parts.clear()
        factors: list[int] = self._factors_to(at + block)[at:].tolist()
        found = self._parts[at, block] = factors, sum(factors)
        return found

    def _factors_to(self, count: int) -> "npt.NDArray[np.uint64]":
        """The secret factors of the first `count` places, made when a prompt first reaches so far."""
        if count > len(self._factors):
            size = min(self._most, max(1024, 1 << (count - 1).bit_length()))
            self._factors = _random_numbers(self._secret, max(size, count))
            self._totals = np.zeros(len(self._factors) + 1, np.uint64)
            np.cumsum(self._factors, out=self._totals[1:])
        return self._factors[:count]


def _numbers(tokens: Sequence[int] | memoryview, count: int) -> "npt.NDArray[np.uint64]":
    """The first `count` of `tokens` as 64-bit numbers."""
    if isinstance(tokens, _BUFFERS):
        return np.frombuffer(tokens, _NUMBERS[tokens.itemsize], count).astype(np.uint64)
    return np.fromiter(tokens, np.uint64, count)


def _random_numbers(secret: int, count: int) -> "npt.NDArray[np.uint64]":
    """The first `count` numbers of the generator splitmix64 that begins at `secret`."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(secret)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_MIX[0])
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_MIX[1])
    return state ^ (state >> np.uint64(31))


class TextKeys:
    """Makes the keys of prompts of text, for engines that get no token ids. A block is `block` characters, of which at most
    `most` are looked at. The keys of texts that were seen lately are kept, in at most `budget` bytes: they are good within this
    process alone."""

    def __init__(self, block: int, most: int, budget: int) -> None:
        self._block = block
        self._most = most
        self._half = budget // 2
        self._young: dict[int, tuple[int, ...]] = {}
        self._old: dict[int, tuple[int, ...]] = {}
        self._bytes = 0

    def keys(self, text: str, start: int = 0) -> tuple[int, ...]:
        """The keys of the whole blocks of `text`."""
        whole = hash((start, text))
        found = self._young.get(whole)
        if found is None:
            found = self._old.get(whole)
            if found is None:
                found = self._made(text, start)
            self._keep(whole, found)
        return found

    def _made(self, text: str, start: int) -> tuple[int, ...]:
        block, key, keys = self._block, start, []
        for end in range(block, min(len(text), self._most) + 1, block):
            key = hash((key, text[end - block : end]))
            keys.append(key)
        return tuple(keys)

    def _keep(self, whole: int, keys: tuple[int, ...]) -> None:
        size = _MEMO_BYTES + _KEY_BYTES * len(keys)
        if self._bytes + size > self._half:
            self._young, self._old, self._bytes = {}, self._young, 0
        if size <= self._half:
            self._young[whole] = keys
            self._bytes += size
