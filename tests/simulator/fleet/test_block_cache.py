"""The cache of a simulated engine, block by block against a naive one."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_simulator.fleet.block_cache import BlockCache, BlockLease

PROMPTS = st.lists(st.integers(0, 2), max_size=5).map(
    lambda path: [hash(tuple(path[: at + 1])) for at in range(len(path))]
)


class Naive:
    """The same cache as a list: named blocks from the least to the most recently used, each with its number of holders."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks: list[tuple[int, int]] = []
        self.private = 0

    def names(self) -> set[int]:
        return {name for name, _ in self.blocks}

    def held(self, prompt: Sequence[int]) -> int:
        return next((at for at, name in enumerate(prompt) if name not in self.names()), len(prompt))

    def hold(self, name: int, change: int) -> None:
        holders = next((count for known, count in self.blocks if known == name), 0)
        self.blocks = [each for each in self.blocks if each[0] != name] + [(name, holders + change)]

    def busy(self) -> int:
        return sum(1 for _, holders in self.blocks if holders) + self.private

    def lease(self, prompt: Sequence[int], total: int) -> list[int] | None:
        found = list(prompt[: self.held(prompt)])
        fresh = sum(1 for name, holders in self.blocks if name in found and not holders)
        if self.busy() + fresh + total - len(found) > self.capacity:
            return None
        for name in found:
            self.hold(name, 1)
        self.private += total - len(found)
        while len(self.blocks) + self.private > self.capacity:
            self.blocks.remove(next(each for each in self.blocks if not each[1]))
        return found


@given(
    st.integers(1, 12),
    st.lists(st.tuples(PROMPTS, st.integers(0, 3), st.integers(0, 3)), max_size=40),
)
def test_every_block_is_where_a_naive_cache_has_it(capacity: int, steps: list[tuple[list[int], int, int]]) -> None:
    cache, naive, leases = BlockCache(capacity), Naive(capacity), list[tuple[BlockLease, list[int], int]]()
    for prompt, more, ended in steps:
        total = len(prompt) + more
        if total:
            lease, found = cache.lease(prompt, total), naive.lease(prompt, total)
            assert (lease is None) == (found is None)
            if lease is not None and found is not None:
                assert lease.shared == found
                cache.name(lease, prompt[len(found) :])
                for name in prompt[len(found) :]:
                    naive.hold(name, 1)
                naive.private -= len(prompt) - len(found)
                leases.append((lease, prompt, more))
        if leases and ended:
            lease, named, private = leases.pop(ended % len(leases))
            cache.release(lease)
            for name in reversed(named):
                naive.hold(name, -1)
            naive.private -= private
        assert (len(cache), cache.busy) == (len(naive.blocks) + naive.private, naive.busy())
        assert all((name in cache) == (name in naive.names()) for name in {*naive.names(), *prompt})
        assert len(cache) <= capacity


@given(st.integers(1, 12), st.lists(PROMPTS.filter(bool), max_size=30))
def test_the_changes_that_are_noted_rebuild_the_cache(capacity: int, prompts: list[list[int]]) -> None:
    cache, rebuilt = BlockCache(capacity, recorded=True), dict[int, int | None]()
    for prompt in prompts:
        lease = cache.lease(prompt, len(prompt))
        if lease is None:
            continue
        cache.name(lease, prompt[len(lease.shared) :])
        cache.release(lease)
        for change in cache.changes:
            if isinstance(change, tuple):
                parent = change[0]
                assert parent is None or parent in rebuilt
                for name in change[1]:
                    rebuilt[name], parent = parent, name
            else:
                for name in change:
                    del rebuilt[name]
        cache.changes = []
        assert set(rebuilt) == {name for each in prompts for name in each if name in cache}
        assert all(
            rebuilt[name] == (prompt[at - 1] if at else None) for at, name in enumerate(prompt) if name in rebuilt
        )


def test_a_cache_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one block"):
        BlockCache(0)


def made(*names: Any) -> list[int]:
    return [hash(name) for name in names]


def test_of_one_request_the_deepest_block_goes_first_and_what_is_in_use_stays() -> None:
    cache = BlockCache(4)
    first = cache.lease(made("a", "b", "c"), 3)
    assert first is not None
    cache.name(first, made("a", "b", "c"))

    assert cache.lease(made("x", "y"), 2) is None

    cache.release(first)
    assert cache.lease(made("x", "y"), 2) is not None
    assert [cache.held(made("a", "b", "c")), len(cache)] == [2, 4]
