"""The input of a routing policy, and its result.

Prompts are compared by `RoutingContext.prefix_keys`, never by token ids alone, since all pictures have the same ids.

The candidates that a policy chooses from serve the model in one role, are ready, can do what the request asks for, and were not
tried before for this request. There is one policy for each model and role. It must not wait and must not keep the records that
it gets. It may keep bounded state of its own; one that derives from `Observing` is told what happens to workers. Above: the
pipeline's Select step. Below: tokens. It knows no worker address and no engine.
"""

from array import array
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from operator import index
from types import MappingProxyType
from typing import Literal, Never, Protocol, get_args, runtime_checkable

from msgspec import Struct

from smg_core.engines.kv_events import KvEvent
from smg_core.tokens import TokenIds

__all__ = [
    "Basis",
    "Candidate",
    "KvKnown",
    "Observing",
    "Pick",
    "Policy",
    "RankState",
    "Remembering",
    "RequestEnded",
    "RoutingContext",
    "UnknownPolicy",
]


_CHARACTERS = 4
_NO_IDS = TokenIds()
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_NO_COSTS: Mapping[str, float] = MappingProxyType({})


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

    @property
    def running(self) -> int:
        """Requests that the engine works on, by its last report; 0 when it does not report it."""
        ...

    @property
    def others(self) -> int:
        """Requests that others than this gateway have at the engine: what it reported last, less what the gateway had there then,
        or what the other gateways of a mesh say, whichever is more."""
        ...

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens sent to the worker by all processes of the gateway, without output so far. Those that its cache was
        expected to have do not count."""
        ...

    @property
    def kv_usage(self) -> float:
        """The share of the engine's KV cache that is in use, 0 to 1, by its last report; 0 when it does not report it."""
        ...

    @property
    def kv_tokens(self) -> int:
        """The number of tokens in the engine's KV cache, by its last report; 0 when it does not report it."""
        ...

    @property
    def rank_count(self) -> int:
        """The data-parallel ranks of the engine that a pick may name; 1 for a worker that is one rank."""
        ...

    @property
    def ranks(self) -> Sequence["RankState"]:
        """The load of each rank by the engine's last report, another object for each report; empty when it reports none."""
        ...

    @property
    def ranks_out(self) -> Sequence[int]:
        """The ranks that are left alone for a while, since their calls failed; a pick that names one gets another."""
        ...


class RankState(Protocol):
    """The load of one data-parallel rank, as its engine reports it."""

    @property
    def rank(self) -> int: ...

    @property
    def used_tokens(self) -> int:
        """Tokens in the rank's KV cache."""
        ...

    @property
    def waiting(self) -> int: ...


class RoutingContext(Struct, frozen=True):
    """The request to route. `input_ids` is the whole prompt; names in `headers` are lower-cased; `media_keys` are the
    `prefix_keys` of a prompt with media, None for a prompt of text. A client gives the same `cache_key` to requests
    that should go to one worker; prompts with different `cache_salt` or `lora` share no cache. `text` is the prompt where no
    engine of the model takes ids, `role` what the worker is to compute, `now` the time in monotonic seconds. As engines see the
    prompt, which matters to what they tell of their caches: `engine_salt` is the salt that those get which take one, and `media`
    says at which token each medium begins, with its hash as hex. `hand_over` is what it costs to hand the prompt's cache over, in
    prompt tokens, by the names of candidates: to one that is to decode from the prefill worker that was chosen, from one that is
    to prefill to the nearest decode worker; others cost nothing. `may_read`: the worker that decodes may be asked to read the
    prompt too, so what its cache has of it counts. `part` stands for what rules of placement say of the request, "" for nothing:
    requests with the same `part` and `lora` may go to the same workers, while these are ready."""

    request_id: str = ""
    model: str = ""
    input_ids: TokenIds = _NO_IDS
    headers: Mapping[str, str] = _NO_HEADERS
    cache_key: str | None = None
    cache_salt: str | None = None
    media_keys: Sequence[int] | None = None
    lora: str | None = None
    text: str = ""
    role: str = "regular"
    now: float = 0.0
    engine_salt: str | None = None
    media: Sequence[tuple[int, str]] = ()
    hand_over: Mapping[str, float] = _NO_COSTS
    may_read: bool = False
    part: str = ""

    @property
    def tokens(self) -> int:
        """The length of the prompt in tokens; of a text, an estimate."""
        return self.input_ids.size or len(self.text) // _CHARACTERS

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


KvKnown = Literal["all", "part", "nothing"]
"""How much of an engine's cache is known by what it has told."""

Basis = Literal["exact", "approximate", "none"]
"""What a policy knows of a worker's cache: what the engine tells (exact), what was sent there before, or nothing."""

_BASES = get_args(Basis)
_KNOWN_BASES = frozenset(_BASES)
_NO_ROWS: tuple[Never, ...] = ()
_NO_PARTS: Mapping[str, Mapping[str, float]] = MappingProxyType({})


class Pick(Struct, frozen=True):
    """A policy's choice: one of the candidates, and the data-parallel rank that its engine must use (None: the engine
    chooses). The rest is for whoever asks later why: `why` in a few words; `cached`, the tokens of the prompt that the worker's
    cache is expected to have, and on what `basis`; `scores`, one for each candidate, of which the lowest is best; `matched`, the
    expected tokens of each; `bases`, how that is known of each; `stale`, the age in seconds of what each engine told last of its
    cache (None: it tells nothing); `stale_s`, that of the chosen one. `parts` are what the score is the sum of, by name, of the
    chosen worker and of those that it is to be compared with."""

    worker: Candidate
    rank: int | None = None
    why: str = ""
    cached: int = 0
    basis: Basis = "none"
    scores: Sequence[float] = _NO_ROWS
    matched: Sequence[int] = _NO_ROWS
    stale_s: float | None = None
    bases: Sequence[Basis] = _NO_ROWS
    stale: Sequence[float | None] = _NO_ROWS
    parts: Mapping[str, Mapping[str, float]] = _NO_PARTS

    def fault(self, count: int) -> str:
        """The fault of a pick of one of `count` candidates, "" where there is none: policies are written by users, too."""
        rank, ranks = self.rank, self.worker.rank_count
        if rank is not None and not (isinstance(rank, int) and 0 <= rank < ranks):
            return f"names no rank of its worker, for which {ranks} is known"  # 1 of one that does not tell
        if not isinstance(self.cached, int) or self.cached < 0:
            return "has no number of cached tokens"
        if not isinstance(self.why, str) or self.basis not in _BASES:
            return "does not say why in words, and on which basis"
        if self.parts is not _NO_PARTS and not _are_parts(self.parts):
            return "has parts of its score that are no numbers by name"
        if self.scores is _NO_ROWS and self.matched is _NO_ROWS and self.bases is _NO_ROWS and self.stale is _NO_ROWS:
            return ""
        for each in (self.scores, self.matched, self.bases, self.stale):
            if not isinstance(each, Collection) or len(each) not in (0, count):
                return f"has not one row for each of {count} candidates"
        return "" if self._has_numbers() else "has rows that are no numbers, or no basis"

    def _has_numbers(self) -> bool:
        """Whether scores, matched tokens and ages are numbers of any kind (numpy's too), and each basis is one."""
        try:
            list(map(float, self.scores))
            list(map(index, self.matched))
            list(map(float, filter(None, self.stale)))
            return _KNOWN_BASES.issuperset(self.bases)
        except (TypeError, ValueError, OverflowError):
            return False


def _are_parts(parts: object) -> bool:
    """Whether these are numbers by name, by the name of a worker."""
    if not isinstance(parts, Mapping):
        return False
    rows = [*parts.values()]
    return all(isinstance(name, str) for name in parts) and all(
        isinstance(row, Mapping)
        and all(isinstance(name, str) and isinstance(value, int | float) for name, value in row.items())
        for row in rows
    )


class Policy(Protocol):
    """Chooses one of several workers. Made once for each model and role."""

    name: str

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        """Choose one of `candidates`, which are never empty, and in the same order for the same workers."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A policy whose knowledge of what was sent where can outlive the gateway. The keys are its own, one for each block of
    `routing.block_tokens` tokens, and depend on a secret that outlives it too."""

    def remember(self, secret: int) -> None:
        """Called before the first request: make keys with this secret, and note what is sent."""
        ...

    def recall(self, worker: str, rank: int, keys: Sequence[int]) -> None:
        """A prompt with these keys was sent there in an earlier life; called for the latest prompt last."""
        ...

    def take_sent(self) -> list[tuple[str, int, Sequence[int]]]:
        """Worker, rank and keys of what was sent since this was called last, of very many the latest. A row without keys says
        that what was sent to the worker before, to any of its ranks, is in its cache no more."""
        ...


class RequestEnded(Struct, frozen=True):
    """One call of a worker is over. `failed`: by the worker's fault; `seconds`: its whole duration."""

    worker: str
    failed: bool
    seconds: float


class Observing:
    """Base class of a policy that keeps state about workers: these methods are called when something happens to a worker. Each
    does nothing until a policy overrides it; none may wait or raise. `listens`: whether it wants the engines' KV events."""

    listens = False

    def worker_left(self, worker: str) -> None:
        """The worker was removed, or no longer serves this model: drop its state."""

    def cache_lost(self, worker: str) -> None:
        """The worker is there, and its engine's caches are empty: it was started again, or told to empty them. What the policy
        thought to be in them holds no more."""

    def request_ended(self, ended: RequestEnded) -> None:
        """A call of a worker of this model is over, successful or not."""

    def kv_changed(self, worker: str, rank: int, events: Sequence[KvEvent], now: float) -> None:
        """The engine's KV cache has changed, at the time `now` in monotonic seconds. Called with a few hundred blocks at most,
        and only where `listens`."""

    def kv_known(self, worker: str, rank: int, known: KvKnown, *, salted: bool = True) -> None:
        """Take the reports of this cache so far as all of it ("all"), a part of it, or void ("nothing"). `salted`: the engine
        parts its cache by the salt of a request."""
