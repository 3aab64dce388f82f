"""The prefix cache: what it finds, what it evicts, and that its reports tell the whole story."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_simulator.engine.prefix_cache import BlocksCleared, BlocksRemoved, BlockStored, PrefixCache


def test_a_prompt_seen_before_is_found_but_for_its_last_token() -> None:
    cache = PrefixCache(block_size=4, capacity=100)
    prompt = list(range(16))

    assert cache.lookup(prompt) == 0
    cache.store(prompt)

    assert cache.lookup(prompt) == 12
    assert cache.lookup([*prompt, 99]) == 16
    assert cache.lookup([*prompt[:8], 77, 78, 79, 80, 81]) == 8
    assert cache.lookup([5, *prompt]) == 0


def test_prompts_with_different_salts_share_nothing() -> None:
    cache = PrefixCache(block_size=4, capacity=100)
    cache.store([*range(9)], "tenant")

    assert cache.lookup([*range(9)], "tenant") == 8
    assert cache.lookup([*range(9)], "other") == 0
    assert cache.lookup([*range(9)]) == 0


def test_prompts_with_different_pictures_share_what_lies_before_them_alone() -> None:
    cache = PrefixCache(block_size=4, capacity=100)
    prompt = [1, 2, 3, 4, 5, 9, 9, 9, 9, 9, 6, 7, 8]
    cache.store(prompt, "", [(5, 5, "red")])

    assert cache.lookup(prompt, "", [(5, 5, "red")]) == 12
    assert cache.lookup(prompt, "", [(5, 5, "blue")]) == 4
    assert cache.lookup(prompt, "", [(6, 4, "red")]) == 4
    assert cache.lookup(prompt) == 4
    assert cache.lookup([1, 2, 3, 4, 5]) == 4


def test_the_report_says_which_media_lie_in_which_block() -> None:
    cache = PrefixCache(block_size=4, capacity=100)
    (stored,) = cache.store([1, 2, 3, 9, 9, 9, 9, 9, 9, 8, 7, 7], "", [(3, 3, "a"), (6, 3, "b")])

    assert isinstance(stored, BlockStored)
    assert stored.media == ((("a", 3),), (("a", -1), ("b", 2)), (("b", -2),))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9), st.sampled_from("ab")), max_size=3), st.data())
def test_a_block_is_found_only_with_the_media_it_was_stored_with(
    media: list[tuple[int, int, str]], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(media).map(lambda items: items[: len(items) // 2]))
    cache, ids = PrefixCache(block_size=4, capacity=100), list(range(33))
    cache.store(ids, "", media)

    different = [offset // 4 * 4 for offset, _, _ in set(media) ^ set(other)]
    assert cache.lookup(ids, "", media) == 32
    assert cache.lookup(ids, "", other) <= min(different, default=32)


def test_a_prompt_of_nothing_is_not_found_and_changes_nothing() -> None:
    cache = PrefixCache(block_size=4, capacity=100)

    assert cache.lookup([]) == 0
    assert cache.store([]) == []
    assert cache.store([1, 2, 3]) == []


def test_the_report_names_the_new_blocks_and_the_one_before_them() -> None:
    cache = PrefixCache(block_size=2, capacity=100)
    (first,) = cache.store([1, 2, 3, 4])

    (second,) = cache.store([1, 2, 3, 4, 5, 6, 7])

    assert isinstance(first, BlockStored)
    assert isinstance(second, BlockStored)
    assert first.parent is None
    assert first.token_ids == ((1, 2), (3, 4))
    assert second.parent == first.hashes[-1]
    assert second.token_ids == ((5, 6),)


def test_the_least_recently_used_leaf_goes_first() -> None:
    cache = PrefixCache(block_size=2, capacity=4)
    (old,) = cache.store([1, 1, 2, 2])
    cache.store([3, 3, 4, 4])
    cache.lookup([1, 1, 2, 2, 9])

    removed, stored = cache.store([5, 5])

    assert isinstance(removed, BlocksRemoved)
    assert isinstance(stored, BlockStored)
    assert set(removed.hashes).isdisjoint(old.hashes)
    assert cache.lookup([1, 1, 2, 2, 9]) == 4
    assert cache.lookup([3, 3, 4, 4, 9]) == 2


def test_a_prompt_larger_than_the_cache_is_held_as_far_as_it_goes() -> None:
    cache = PrefixCache(block_size=2, capacity=3)

    cache.store(range(20))

    assert len(cache) == 3
    assert cache.lookup(range(20)) == 6


def test_clearing_forgets_everything() -> None:
    cache = PrefixCache(block_size=2, capacity=3)
    cache.store([1, 2, 3, 4])

    assert cache.clear() == [BlocksCleared()]
    assert cache.lookup([1, 2, 3, 4]) == 0


@given(st.lists(st.lists(st.integers(0, 2), max_size=14), max_size=25), st.integers(1, 6))
def test_replaying_the_reports_gives_what_the_cache_holds(prompts, capacity: int) -> None:
    """Whoever follows the events knows which prefixes are held: no block is stored twice, hangs in the air, or stays behind."""
    cache, held = PrefixCache(block_size=2, capacity=capacity), {}
    for prompt in prompts:
        for change in cache.store(prompt):
            if isinstance(change, BlockStored):
                parent = change.parent
                prefix = held[parent] if parent is not None else ()
                for digest, ids in zip(change.hashes, change.token_ids, strict=True):
                    assert digest not in held
                    held[digest] = prefix = (*prefix, *ids)
            else:
                for digest in change.hashes:
                    del held[digest]
        assert len(held) == len(cache) <= capacity
        known = set(held.values())
        longest = max((len(prefix) for prefix in known if tuple(prompt[: len(prefix)]) == prefix), default=0)
        assert cache.lookup([*prompt, 9]) == longest


def test_the_hit_rate_counts_tokens() -> None:
    cache = PrefixCache(block_size=2, capacity=9)
    assert cache.hit_rate == 0.0
    cache.lookup([1, 2, 3, 4])
    cache.store([1, 2, 3, 4])
    cache.lookup([1, 2, 3, 4])

    assert cache.hit_rate == pytest.approx(2 / 8)
