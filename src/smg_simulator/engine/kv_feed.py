"""The numbered changes of the embedded engine's prefix cache, for subscribers of KV events.

Decides sequence numbers and what a subscriber gets; pure. Above: server.grpc_server, which waits and sends. The history is
bounded (`keep` batches): a subscriber that asks for batches outside of it gets `CursorLost`.
"""

from collections import deque
from collections.abc import Callable, Sequence

import attrs

from smg_simulator.engine.prefix_cache import BlocksCleared, BlockStored, CacheChange

__all__ = ["Batch", "Changes", "CursorLost", "KvFeed"]

Changes = Sequence[CacheChange]
"""What happened to the cache at one moment, in order."""

_PART = 256
"""Blocks in one batch that lists the cache."""


@attrs.frozen
class Batch:
    """Changes made at one `moment` (seconds since the epoch). Their event ids count up from `first_event`. `lost`: no subscriber
    hears of it as it happens. `part` is (index, count) of a batch that is one of those that list the whole cache."""

    sequence: int
    moment: float
    first_event: int
    changes: tuple[CacheChange, ...]
    lost: bool = False
    part: tuple[int, int] | None = None


class CursorLost(LookupError):
    """The batches after a cursor are not all held."""


class KvFeed:
    """The last `keep` batches. Sequence numbers begin at 1; `last` is the newest. `on_batch` is called with each new one."""

    def __init__(self, keep: int) -> None:
        self.last = 0
        self._events = 0
        self._history: deque[Batch] = deque(maxlen=keep)
        self.on_batch: Callable[[Batch], None] | None = None

    def publish(self, changes: Sequence[CacheChange], moment: float, *, lost: bool = False) -> None:
        """Add one batch of `changes`; nothing where there are none."""
        if changes:
            self.last += 1
            batch = Batch(self.last, moment, self._events + 1, tuple(changes), lost)
            self._history.append(batch)
            self._events += len(changes)
            if self.on_batch is not None:
                self.on_batch(batch)

    def after(self, cursor: int) -> list[Batch]:
        """All batches after sequence number `cursor`. Raises CursorLost when some of them are gone, or `cursor` is not
        reached yet."""
        oldest = self._history[0].sequence if self._history else self.last + 1
        if cursor > self.last or cursor < oldest - 1:
            raise CursorLost(f"batches after {cursor} are not held; there are {oldest} to {self.last}")
        return [batch for batch in self._history if batch.sequence > cursor]

    def state(self, held: Sequence[BlockStored], moment: float) -> list[Batch]:
        """All batches so far, where they are all kept; else batches that list what the cache has (`held`), numbered so that what
        happens next follows them."""
        if not self._history or self._history[0].sequence == 1:
            return list(self._history)
        count = min(self.last, max(1, -(-len(held) // _PART)))
        share = -(-len(held) // count)
        return [
            Batch(
                sequence=self.last - count + 1 + index,
                moment=moment,
                first_event=0,
                changes=(*(() if index else (BlocksCleared(),)), *held[index * share : (index + 1) * share]),
                part=(index, count),
            )
            for index in range(count)
        ]
