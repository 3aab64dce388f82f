"""The sameness of items, and the cache of their features.

Above: `prepare`. Below: `records.types`. Content is named by sha256, because names are shared between tenants and go to engines
as cache keys. Recognising bytes seen before costs a comparison instead of a hash; the tensors of pictures seen before are kept
up to a number of bytes, the least recently used going first, and with other processes where there are several. Neither class
locks: one event loop's thread owns them.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from smg_multimodal.prompts.expand import Expanded
from smg_multimodal.records.types import ItemFeatures

__all__ = ["DigestMemory", "FeatureCache", "KeptByAll", "Noted", "content_key", "digest_of", "routing_keys"]

_HASH_DIRECTLY = 32 * 1024
_COMPARE_DIRECTLY = 2 * 1024 * 1024
_BLOCK = 1024 * 1024
_SAMPLES = 16
_SAMPLE_BYTES = 64


def content_key(parts: Iterable[bytes]) -> bytes:
    """32 bytes that no other sequence of `parts` has: sha256 with every part's length before it."""
    digest = hashlib.sha256(b"smg-multimodal 1")
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


class Noted(NamedTuple):
    """Content that was seen, and its sha256."""

    data: bytes
    digest: bytes


def _equal(one: bytes, other: bytes) -> bool:
    """Whether two contents are equal, without holding the interpreter's lock for longer than a block of them takes."""
    if one is other or len(one) != len(other):
        return one is other
    ours, theirs = np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
    starts = range(0, len(ours), _BLOCK)
    return all(np.array_equal(ours[start : start + _BLOCK], theirs[start : start + _BLOCK]) for start in starts)


def digest_of(data: bytes, known: Noted | None) -> bytes:
    """sha256 of `data`: that of `known` where the two are equal, which is found out several times faster. In any thread."""
    return known.digest if known is not None and _equal(data, known.data) else hashlib.sha256(data).digest()


class DigestMemory:
    """sha256 of byte strings, computed once for each that is remembered.

    A string is looked up by its length and a few samples, then compared whole with the one remembered, which is several
    times faster than hashing it. Strings up to 32 KiB are hashed directly. `max_bytes` bounds what is kept. What one `owner`
    brought is recognised for that one alone: the time it takes would tell another that it was here before.
    """

    def __init__(self, max_bytes: int = 128 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._known: OrderedDict[bytes, Noted] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Bytes of content kept."""
        return self._bytes

    def digest(self, data: bytes, owner: str = "") -> bytes:
        """sha256 of `data` (32 bytes)."""
        found = self.recognise(data, owner)
        return found or self.note(data, digest_of(data, self.candidate(data, owner)), owner)

    def recognise(self, data: bytes, owner: str = "") -> bytes | None:
        """The digest of `data` if it is short, or of at most 2 MiB and noted before; None if finding it takes longer, and so
        belongs into a thread: `digest_of(data, candidate(data))`."""
        if len(data) <= _HASH_DIRECTLY:
            return hashlib.sha256(data).digest()
        known = self.candidate(data, owner)
        if known is None or not (known.data is data or (len(data) <= _COMPARE_DIRECTLY and known.data == data)):
            return None
        self._known.move_to_end(self._place(data, owner))
        return known.digest

    def candidate(self, data: bytes, owner: str = "") -> "Noted | None":
        """The noted content that `data` may be equal to: all but equal ones seldom get this far."""
        return self._known.get(self._place(data, owner)) if len(data) > _HASH_DIRECTLY else None

    def note(self, data: bytes, digest: bytes, owner: str = "") -> bytes:
        """Remember that `digest` is the sha256 of `data`, computed elsewhere; returns it."""
        if len(data) > _HASH_DIRECTLY:
            self._keep(self._place(data, owner), data, digest)
        return digest

    @staticmethod
    def _place(data: bytes, owner: str) -> bytes:
        step = (len(data) - _SAMPLE_BYTES) // (_SAMPLES - 1)
        samples = (data[index * step : index * step + _SAMPLE_BYTES] for index in range(_SAMPLES))
        return len(data).to_bytes(8, "little") + b"".join(samples) + owner.encode()

    def _keep(self, place: bytes, data: bytes, made: bytes) -> None:
        if len(data) > self._max_bytes:
            return
        replaced = self._known.pop(place, None)
        self._bytes += len(data) - (len(replaced.data) if replaced else 0)
        self._known[place] = Noted(data, made)
        while self._bytes > self._max_bytes:
            _, dropped = self._known.popitem(last=False)
            self._bytes -= len(dropped.data)


class KeptByAll(Protocol):
    """What several processes remember together: `shared_items.SharedItems`."""

    def get(self, key: bytes) -> ItemFeatures | None: ...
    def touch(self, key: bytes) -> None: ...
    def put(self, key: bytes, features: ItemFeatures) -> ItemFeatures: ...


class FeatureCache:
    """Features by content key, the least recently used dropped beyond `max_bytes` or `most` items.

    Tensors become read-only when they are kept: several requests share them. What this process does not have is looked for in
    `shared`, where there is one, and what it makes goes there (`share`, in a thread).
    """

    def __init__(
        self, max_bytes: int = 512 * 1024 * 1024, shared: KeptByAll | None = None, *, most: int = 65_536
    ) -> None:
        self._max_bytes = max_bytes
        self._shared = shared
        self._most = most
        self._bytes = 0
        self._items: OrderedDict[bytes, ItemFeatures] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def nbytes(self) -> int:
        """Bytes of tensors kept."""
        return self._bytes

    @property
    def shares(self) -> bool:
        """Whether other processes have what this one makes."""
        return self._shared is not None

    def get(self, key: bytes) -> ItemFeatures | None:
        """The features under `key`, or None."""
        found = self._items.get(key)
        if found is not None:
            self._items.move_to_end(key)
            if self._shared is not None:
                self._shared.touch(key)
        elif self._shared is not None and (found := self._shared.get(key)) is not None:
            self.put(key, found)
        return found

    def share(self, key: bytes, features: ItemFeatures) -> ItemFeatures:
        """Give `features` to all processes; returns them as they lie there, for `put`. In any thread."""
        return features if self._shared is None else self._shared.put(key, features)

    def put(self, key: bytes, features: ItemFeatures) -> None:
        """Keep `features`, unless they alone are more than the whole budget."""
        if features.nbytes > self._max_bytes:
            return
        for tensor in features.tensors.values():
            tensor.flags.writeable = False
        replaced = self._items.pop(key, None)
        self._bytes += features.nbytes - (replaced.nbytes if replaced else 0)
        self._items[key] = features
        while self._bytes > self._max_bytes or len(self._items) > self._most:
            _, dropped = self._items.popitem(last=False)
            self._bytes -= dropped.nbytes


def routing_keys(expanded: Expanded) -> NDArray[np.uint64]:
    """One 64-bit key per token, for indexes that compare prompts by prefix.

    Plain tokens are their ids. Tokens that receive embeddings are words of their item's content hash with the highest bit
    set, since their ids are the same for every picture: two prompts share a key there only if the pictures are the same. What
    lies beside a prompt is in the keys of all its tokens.
    """
    keys = np.frombuffer(expanded.ids, np.uint32).astype(np.uint64)
    for placeholder in expanded.placeholders:
        words = np.frombuffer(placeholder.content_hash, "<u8").astype(np.uint64) | np.uint64(1 << 63)
        start = 0
        for span in placeholder.features:
            length = min(span.length, len(keys) - span.offset)
            keys[span.offset : span.offset + length] = words[(np.arange(length) + start) % len(words)]
            start += span.length
    return keys
