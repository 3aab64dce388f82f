"""The KV cache of one simulated engine: blocks that requests hold, and blocks that are kept because they may be of use again.

A block is named by a hash that covers all tokens before it. Blocks that nobody holds are evicted, the least recently
used first, and of one request the deepest first, so that what is left of a prefix always begins at its start. Blocks
of requests under way are never evicted. Pure. Above: simulator.fleet.engine. It knows no time and no engine.
"""

from collections import OrderedDict
from collections.abc import Sequence

__all__ = ["BlockCache", "BlockChange", "BlockLease"]

BlockChange = tuple[int | None, list[int]] | list[int]
"""New blocks with the one before them (None: they begin a prompt), or the blocks that were evicted."""


class BlockLease:
    """What one request holds: `shared` hashes that others may hold too, and `private` blocks without a name."""

    __slots__ = ("private", "shared")

    def __init__(self, shared: list[int], private: int) -> None:
        self.shared = shared
        self.private = private


class BlockCache:
    """At most `capacity` blocks. With `recorded`, every change is noted in `changes` until somebody takes it."""

    __slots__ = ("_holders", "_idle", "_private", "capacity", "changes", "recorded")

    def __init__(self, capacity: int, *, recorded: bool = False) -> None:
        if capacity < 1:
            raise ValueError("a cache has at least one block")
        self.capacity = capacity
        self.recorded = recorded
        self.changes: list[BlockChange] = []
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._private = 0

    def __len__(self) -> int:
        """Blocks in use: named ones, held or not, and those without a name."""
        return len(self._holders) + len(self._idle) + self._private

    def __contains__(self, block: int) -> bool:
        return block in self._holders or block in self._idle

    @property
    def busy(self) -> int:
        """Blocks that requests hold, which cannot be evicted."""
        return len(self._holders) + self._private

    def held(self, blocks: Sequence[int]) -> int:
        """How many blocks at the start of a prompt are here."""
        holders, idle = self._holders, self._idle
        for at, block in enumerate(blocks):
            if block not in holders and block not in idle:
                return at
        return len(blocks)

    def lease(self, blocks: Sequence[int], total: int) -> BlockLease | None:
        """Take the leading `blocks` that are here, and room for the rest of `total` blocks; None where there is no room now."""
        holders, idle = self._holders, self._idle
        found = self.held(blocks)
        taken = list(blocks[:found])
        newly = sum(1 for block in taken if block in idle)
        private = total - found
        if self.busy + newly + private > self.capacity:
            return None
        for block in taken:
            if block in idle:
                del idle[block]
                holders[block] = 1
            else:
                holders[block] += 1
        self._private += private
        self._evict()
        return BlockLease(taken, private)

    def name(self, lease: BlockLease, blocks: Sequence[int]) -> None:
        """The next blocks of a lease are full: they have these names from now on. Where another request has computed the same
        block meanwhile, that one is held instead and the room of the second is free again."""
        holders, idle = self._holders, self._idle
        fresh: list[int] = []
        for block in blocks:
            if block in holders:
                holders[block] += 1
            else:
                if block in idle:
                    del idle[block]
                else:
                    fresh.append(block)
                holders[block] = 1
            if self.recorded and fresh and fresh[-1] != block:
                self._note(lease, fresh)
                fresh = []
            lease.shared.append(block)
        lease.private -= len(blocks)
        self._private -= len(blocks)
        if self.recorded and fresh:
            self._note(lease, fresh)

    def _note(self, lease: BlockLease, fresh: list[int]) -> None:
        """Record consecutive new blocks of a lease with the block before them."""
        at = lease.shared.index(fresh[0])
        self.changes.append((lease.shared[at - 1] if at else None, fresh))

    def release(self, lease: BlockLease) -> None:
        """A request is over: its named blocks are kept until their room is needed, the deepest is the first to go."""
        holders, idle = self._holders, self._idle
        for block in reversed(lease.shared):
            left = holders[block] - 1
            if left:
                holders[block] = left
            else:
                del holders[block]
                idle[block] = None
        self._private -= lease.private
        lease.shared, lease.private = [], 0

    def _evict(self) -> None:
        idle, gone = self._idle, list[int]()
        while len(self) > self.capacity:
            gone.append(idle.popitem(last=False)[0])
        if gone and self.recorded:
            self.changes.append(gone)
