"""What a routing policy gets, and what it returns.

Prompts are compared by `RoutingContext.prefix_keys`, never by token ids alone, since all pictures have the same ids.

The candidates that a policy chooses from serve the model in one role, are ready, can do what the request asks for, and were not
tried before for this request. There is one policy for each model and role. It must not wait and must not keep the records that
it gets. It may keep bounded state of its own; one that derives from `Observing` is told what happens to workers. Above: the
pipeline's Select step. Below: tokens. It knows no worker address and no engine.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
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
    """There is no policy of that name, built in or installed."""


class Candidate(Protocol):
    """A worker as a policy sees it."""

    @property
    def name(self) -> str: ...

    @property
    def in_flight(self) -> int:
        """Requests that the gateway, in all its processes, has at the worker now."""
        ...

    @property
    def queued(self) -> int:
        """Requests that wait in the engine, by its last report; 0 when it does not report it."""
        ...

    @property
    def weight(self) -> float: ...


class RoutingContext(Struct, frozen=True):
    """The request to route. `input_ids` is the whole prompt; names in `headers` are lower-cased; `media_keys` are the
    `prefix_keys` of a prompt with media, None for a prompt of text. A client gives the same `cache_key` to requests
    that should go to one worker; prompts with different `cache_salt` share no cache."""

    request_id: str
    model: str
    input_ids: TokenIds
    headers: Mapping[str, str] = _NO_HEADERS
    cache_key: str | None = None
    cache_salt: str | None = None
    media_keys: Sequence[int] | None = None

    @property
    def prefix_keys(self) -> Sequence[int]:
        """One unsigned number per token, to compare prompts: two requests have the same keys as far as an engine could
        use the same cache. The key of a text token is its id; that of a token that stands for media is a word of the
        media's hash, at least 2**63."""
        return self.input_ids.buffer if self.media_keys is None else self.media_keys

    def prefix_hashes(self, block: int, most: int | None = None) -> list[int]:
        """A 64-bit hash for each full block of `block` tokens, at most `most`. A hash covers the salt and all keys up
        to the end of its block, so two requests share a prefix of as many blocks as the number of equal hashes at the
        start."""
        keys = self.prefix_keys
        count = len(keys) // block if most is None else min(most, len(keys) // block)
        packed = memoryview(array("Q", keys[: count * block])).cast("B")
        hashes, parent = [], blake2b((self.cache_salt or "").encode(), digest_size=8).digest()
        for at in range(0, len(packed), block * 8):
            parent = blake2b(packed[at : at + block * 8], digest_size=8, key=parent).digest()
            hashes.append(int.from_bytes(parent, "big"))
        return hashes


class Pick(Struct, frozen=True):
    """A policy's choice: one of the candidates, and the data-parallel rank that its engine must use (None: the engine
    chooses)."""

    worker: Candidate
    rank: int | None = None


class Policy(Protocol):
    """Chooses one of several workers. Made once for each model and role."""

    name: str

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        """Choose one of `candidates`, which is never empty and has the same order on every call for the same set of workers."""
        ...


class RequestEnded(Struct, frozen=True):
    """One call of a worker is over. `failed`: by the worker's fault; `seconds`: its whole duration."""

    worker: str
    failed: bool
    seconds: float


class Observing:
    """Base class of a policy that keeps state about workers: these methods are called when something happens to a worker. Each
    does nothing until a policy overrides it; none may wait or raise."""

    def worker_left(self, worker: str) -> None:
        """The worker was removed, or no longer serves this model: drop its state."""

    def request_ended(self, ended: RequestEnded) -> None:
        """A call of a worker of this model is over, successful or not."""

    def blocks_stored(self, worker: str, rank: int, hashes: Sequence[int], parent: int | None) -> None:
        """The engine's cache now has KV blocks of these hashes, in order, after the block `parent` (None: from the start)."""

    def blocks_removed(self, worker: str, rank: int, hashes: Sequence[int] | None) -> None:
        """The engine has dropped these blocks from its cache; None means all."""


def make_policy(name: str, builtin: Mapping[str, Callable[[], Policy]]) -> Policy:
    """A new policy by name; built-in names come first. Raises UnknownPolicy, whose message lists the names."""
    if name in builtin:
        return builtin[name]()
    from importlib.metadata import entry_points  # loads much, and most users name a built-in policy

    installed = {entry.name: entry for entry in entry_points(group="smg.policies")}
    if name in installed:
        factory: Callable[[], Policy] = installed[name].load()
        return factory()
    raise UnknownPolicy(f"no routing policy {name!r}; there are {', '.join(sorted({*builtin, *installed}))}")
