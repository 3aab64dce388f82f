"""What a routing policy is given, and what it answers.

Prompts are compared by `RoutingContext.prefix_keys`, never by token ids alone: all pictures have the same ids.

A policy decides among candidates that were found able: they serve the model in one role, are ready, can do what is asked, and
were not tried before for this request. There is one policy for each model and role. It must not wait, must not keep the
records it is shown, and may keep state of its own as long as that is bounded; what it learns beside the requests it is told
as an `Observing`. Above: the pipeline's Select step. It knows no worker address and no engine.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from smg_core.tokens import TokenIds

__all__ = [
    "Candidate",
    "Observing",
    "Pick",
    "Policy",
    "RequestEnded",
    "RoutingContext",
    "UnknownPolicy",
    "make_policy",
]


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class UnknownPolicy(LookupError):
    """No policy of that name, built in or installed."""


class Candidate(Protocol):
    """A worker as a policy may see it."""

    @property
    def name(self) -> str: ...

    @property
    def in_flight(self) -> int:
        """Requests this gateway, in all its processes, has with the worker now."""
        ...

    @property
    def queued(self) -> int:
        """Requests the engine last said to be waiting; 0 when it does not say."""
        ...

    @property
    def weight(self) -> float: ...


class RoutingContext(Struct, frozen=True):
    """What is known of the request. `input_ids` is the whole prompt; `headers` are lower-cased; `media_keys` is what
    `prefix_keys` are in a prompt with media, None for one of text. `cache_key` is the client's wish to be kept together with
    requests of the same key; prompts with different salts share no cache."""

    request_id: str
    model: str
    input_ids: TokenIds
    headers: Mapping[str, str] = _NO_HEADERS
    cache_key: str | None = None
    cache_salt: str | None = None
    media_keys: Sequence[int] | None = None

    @property
    def prefix_keys(self) -> Sequence[int]:
        """One unsigned number per token, by which prompts are to be compared: two requests have the same keys up to where an
        engine could use the same cache. A token of text is its id; one that stands for part of a medium is a word of that
        medium's hash, at least 2**63."""
        return self.input_ids.buffer if self.media_keys is None else self.media_keys

    def prefix_hashes(self, block: int, most: int | None = None) -> list[int]:
        """A 64-bit hash for each full block of `block` tokens, over all keys up to its end and the salt: two requests share a
        prefix of as many blocks as their hashes begin alike. At most `most` blocks."""
        keys = self.prefix_keys
        count = len(keys) // block if most is None else min(most, len(keys) // block)
        packed = memoryview(array("Q", keys[: count * block])).cast("B")
        hashes, parent = [], blake2b((self.cache_salt or "").encode(), digest_size=8).digest()
        for at in range(0, len(packed), block * 8):
            parent = blake2b(packed[at : at + block * 8], digest_size=8, key=parent).digest()
            hashes.append(int.from_bytes(parent, "big"))
        return hashes


class Pick(Struct, frozen=True):
    """What a policy chose: one of the candidates, and the data-parallel rank that its engine is to use (None: the engine's own
    choice)."""

    worker: Candidate
    rank: int | None = None


class Policy(Protocol):
    """Chooses one of several workers."""

    name: str

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        """One of `candidates`, which is never empty. Same order on every call for the same set of workers."""
        ...


class RequestEnded(Struct, frozen=True):
    """One call of a worker is over. `failed` says that it was the worker's fault; `seconds` it took in all."""

    worker: str
    failed: bool
    seconds: float


class Observing:
    """Base of a policy that keeps state about workers: it is told what happens to them, beside being asked to pick. Each method
    does nothing until a policy overrides it; none may wait or raise."""

    def worker_left(self, worker: str) -> None:
        """The worker was removed, or serves this model no longer: forget it."""

    def request_ended(self, ended: RequestEnded) -> None:
        """A call of a worker of this model is over, well or not."""

    def blocks_stored(self, worker: str, rank: int, hashes: Sequence[int], parent: int | None) -> None:
        """The engine now has KV blocks of these hashes in its cache, in order, behind the block `parent` (None: from the
        start)."""

    def blocks_removed(self, worker: str, rank: int, hashes: Sequence[int] | None) -> None:
        """The engine has dropped these blocks from its cache; None means all."""


def make_policy(name: str, builtin: Mapping[str, Callable[[], Policy]]) -> Policy:
    """The policy called `name`, built-in names first. Raises UnknownPolicy, naming what there is."""
    if name in builtin:
        return builtin[name]()
    installed = {entry.name: entry for entry in entry_points(group="smg.policies")}
    if name in installed:
        factory: Callable[[], Policy] = installed[name].load()
        return factory()
    raise UnknownPolicy(f"no routing policy {name!r}; there are {', '.join(sorted({*builtin, *installed}))}")
