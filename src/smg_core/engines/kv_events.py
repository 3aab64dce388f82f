"""An engine's events about its KV cache: blocks stored, removed and cleared, numbered, and the state as a whole.

The records that every dialect's KV events are read into (`Codec.kv_events`), and `KvCursor`, which tells from the numbers whether
anything is missing. Pure. Above: engines.token_ids.client pushes the batches into a sink; routing keeps an index of them.
Below: each dialect's `calls`. This module knows no protobuf and no index.

A block is a run of tokens that the cache holds or drops as a whole. Its hash covers its tokens and all before them, so a hash
names a prefix of a prompt. What else a prefix depends on (adapter, salt, media) is said beside the tokens: blocks of equal tokens
hold different prefixes if one of these differs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from smg_core.engines.loads import RankLoad

__all__ = [
    "FIRST_BATCH",
    "PART",
    "KvBlockMedium",
    "KvBlocksRemoved",
    "KvBlocksStored",
    "KvCacheCleared",
    "KvCursor",
    "KvEvent",
    "KvEventBatch",
    "KvSnapshot",
    "KvTier",
    "KvVerdict",
    "cut",
    "size",
]

PART = 96
"""Most blocks that one batch names, so that reading it and putting it into an index stays far below a millisecond."""

FIRST_BATCH: Mapping[str, int] = {"neutral": 1}
"""The number of an engine's first batch by its dialect, where it is not 0."""

KvTier = Literal["", "device", "host", "disk", "external"]
"""Where a block lies; "" where the engine did not say, which means its own memory ("device")."""

KvVerdict = Literal["apply", "restart", "repeated", "lost", "nothing"]


class KvBlockMedium(Struct, frozen=True):
    """A picture, clip or recording some of whose tokens lie in a block. `block` counts the event's blocks from 0; `identifier` is
    the engine's name for the medium, its hash; `offset` is where the medium begins, in tokens from the block's first, negative
    where it began before."""

    block: int
    identifier: str
    offset: int


class KvBlocksStored(Struct, frozen=True):
    """Blocks that the cache holds from now on, each behind the one before. `hashes` are signed 64-bit numbers; `parent` is the
    block before the first (None: the first begins a prompt). `token_ids` are the blocks' tokens one after another, `block_size`
    for each; empty where the engine tells hashes alone.

    `lora` and `salt` are the adapter and the cache salt that the blocks were computed with. `other_keys` has whatever else their
    hashes cover, as text, with the number of the block from 0: a prefix with such a key is another than the one without it.
    `remote` blocks lie in a store that several engines share. Of a model whose layers attend in several ways, each kind has its
    own `group`, and `attention` names the kind ("full_attention"); only blocks of full attention hold whole prefixes. `owner`
    says who keeps the blocks, where that is not the engine itself.
    """

    hashes: Sequence[int]
    token_ids: Sequence[int]
    block_size: int
    parent: int | None = None
    media: tuple[KvBlockMedium, ...] = ()
    other_keys: tuple[tuple[int, str], ...] = ()
    lora: str = ""
    salt: str = ""
    tier: KvTier = ""
    remote: bool = False
    group: int = 0
    attention: str = ""
    owner: str = ""


class KvBlocksRemoved(Struct, frozen=True):
    """Blocks that the cache no longer holds in this tier; one of the same hash may be left in another."""

    hashes: Sequence[int]
    tier: KvTier = ""
    remote: bool = False
    group: int = 0
    owner: str = ""


class KvCacheCleared(Struct, frozen=True):
    """Everything was dropped: of `owner`, if it is set."""

    owner: str = ""


KvEvent = KvBlocksStored | KvBlocksRemoved | KvCacheCleared


class KvSnapshot(Struct, frozen=True):
    """This batch is part `index` (from 0) of `count` of a list of all `blocks` that the engine holds. Part 0 begins with
    `KvCacheCleared`, and a block comes behind its parent. `missed`: how many of the engine's first batches the list was made
    without; 0: it is complete."""

    index: int
    count: int
    blocks: int = 0
    missed: int = 0


class KvEventBatch(Struct, frozen=True):
    """Events in the order in which they happened. `sequence` counts the batches of one `rank` up by one. `moment` is in seconds
    since the epoch, by the engine's clock. `more`: what follows belongs to the same batch, which was cut because reading it takes
    long. `load` is the rank's load, where the engine sends it along; a batch with `load_only` has nothing else, and repeats the
    number of the last batch that was sent."""

    sequence: int
    events: tuple[KvEvent, ...] = ()
    rank: int = 0
    moment: float = 0.0
    more: bool = False
    snapshot: KvSnapshot | None = None
    load: RankLoad | None = None
    load_only: bool = False


class KvCursor:
    """Follows the numbers of one rank's batches within one subscription. Whoever keeps an index asks it of each batch first.

    `after` is the number of the last batch applied, of an earlier subscription that this one continues (None: this one begins
    anew). `last` is the number to continue from. `complete`: whether what was applied is all that the engine holds; it becomes
    True with the engine's first batch (`first` is its number), with a whole snapshot, and when the cache is cleared.
    """

    __slots__ = ("_first", "_more", "_part", "complete", "last")

    def __init__(self, after: int | None = None, *, first: int = 0, complete: bool = False) -> None:
        self.last = after
        self.complete = complete and after is not None
        self._first = first
        self._more = False
        self._part: KvSnapshot | None = None

    def take(self, batch: KvEventBatch) -> KvVerdict:
        """What to do with a batch: "apply" it; "restart": forget all that is known of the rank, then apply it; "nothing" (it has
        no events of its own) and "repeated" (it was applied before): leave it. "lost": batches are missing, so what is known of
        the rank is wrong from now on; subscribe from `last`, and where the engine refuses that, anew."""
        if self.complete and batch.sequence - 1 == self.last and self._plain(batch):
            self.last, self._more = batch.sequence, batch.more
            return "apply"
        if batch.load_only:
            return "lost" if self.last is not None and batch.sequence > self.last else "nothing"
        verdict = self._judge(batch)
        if verdict in ("apply", "restart"):
            self.last, self._more = batch.sequence, batch.more
            self._part = batch.snapshot
            self._learn(batch, anew=verdict == "restart")
        return verdict

    def _plain(self, batch: KvEventBatch) -> bool:
        """Whether neither this batch nor the one before is a part of something: nearly all are so."""
        return not self._more and self._part is None and batch.snapshot is None and not batch.load_only

    def _judge(self, batch: KvEventBatch) -> KvVerdict:
        if self._more and batch.sequence == self.last:
            return "apply"
        part = batch.snapshot
        if part is not None and part.index == 0:
            return "restart"
        if self._part is not None and self._part.index + 1 < self._part.count:  # in the midst of a snapshot
            follows = part is not None and part.index == self._part.index + 1 and batch.sequence == (self.last or 0) + 1
            return "apply" if follows else "lost"
        if part is not None:
            return "lost"
        if self.last is None:
            return "restart"
        if batch.sequence == self.last:
            return "repeated"
        return "apply" if batch.sequence == self.last + 1 else "lost"

    def _learn(self, batch: KvEventBatch, *, anew: bool) -> None:
        part = batch.snapshot
        if part is not None:
            self.complete = not part.missed and part.index + 1 == part.count and not batch.more
        elif anew:
            self.complete = batch.sequence == self._first
        if part is None and any(isinstance(event, KvCacheCleared) and not event.owner for event in batch.events):
            self.complete = True


def size(event: KvEvent) -> int:
    """How many blocks an event names; 1 for one that names none."""
    return 1 if isinstance(event, KvCacheCleared) else len(event.hashes) or 1


def cut(batch: KvEventBatch, events: Iterable[KvEvent]) -> Iterator[KvEventBatch]:
    """`batch` with `events`, in as many parts as keep each at `PART` blocks; no single event may have more. Always at least one
    part. Reads `events` as parts are asked for."""
    held: list[KvEvent] = []
    room = PART
    for event in events:
        if held and size(event) > room:
            yield replace(batch, events=tuple(held), more=True, load=None)
            held, room = [], PART
        held.append(event)
        room -= size(event)
    yield replace(batch, events=tuple(held))
