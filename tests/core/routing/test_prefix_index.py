"""The prefix index beside one that keeps everything: what it must find, what it must never say, and how much it may keep."""

import tracemalloc
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.routing.block_keys import TextKeys, TokenKeys, start_of
from smg_core.routing.prefix_index import PrefixIndex

BLOCK = 2
OWNERS = ["a", "b", "c"]
PROMPTS = st.lists(st.integers(0, 2), max_size=9)
SALTS = st.sampled_from([None, "one", "two"])
LORAS = st.sampled_from([None, "adapter"])
ASKED = st.tuples(PROMPTS, SALTS, LORAS)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), ASKED, st.sampled_from(OWNERS)),
        st.tuples(st.just("remove"), ASKED, st.sampled_from(OWNERS)),
    ),
    max_size=20,
)
Asked = tuple[list[int], str | None, str | None]
KEYS = TokenKeys(secret=7, most=1000)


def keys_of(asked: Asked) -> list[int]:
    tokens, salt, lora = asked
    return KEYS.keys(array("I", tokens), BLOCK, start_of(salt, lora))


class Everything:
    """Keeps every prompt of every owner, and compares them token by token."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Asked]] = {owner: [] for owner in OWNERS}

    def insert(self, asked: Asked, owner: str) -> None:
        self.seen[owner].append(asked)

    def remove(self, owner: str) -> None:
        self.seen[owner].clear()

    def match(self, asked: Asked) -> dict[str, int]:
        found = {
            owner: max((self._shared(asked, each) for each in seen), default=0) for owner, seen in self.seen.items()
        }
        return {owner: blocks for owner, blocks in found.items() if blocks}

    def _shared(self, one: Asked, other: Asked) -> int:
        if (one[1] or "", one[2] or "") != (other[1] or "", other[2] or ""):
            return 0
        count = 0
        for left, right in zip(one[0], other[0], strict=False):
            if left != right:
                break
            count += 1
        return count // BLOCK


@given(CHANGES, ASKED)
@settings(max_examples=examples(60))
def test_an_index_with_room_finds_what_one_finds_that_keeps_everything(
    changes: list[tuple[str, Asked, str]], asked: Asked
) -> None:
    index, model = PrefixIndex[str](1 << 20), Everything()
    for kind, what, owner in changes:
        if kind == "insert":
            index.insert(keys_of(what), owner)
            model.insert(what, owner)
        else:
            index.remove(owner)
            model.remove(owner)
        assert index.match(keys_of(what)) == model.match(what)

    assert index.match(keys_of(asked)) == model.match(asked)


@given(CHANGES, st.lists(ASKED, max_size=5), st.integers(0, 6000), st.integers(0, 6))
@settings(max_examples=examples(60))
def test_an_index_without_room_names_nobody_who_did_not_see_the_block(
    changes: list[tuple[str, Asked, str]], asked: list[Asked], budget: int, cache: int
) -> None:
    index, model = PrefixIndex[str](budget), Everything()
    for owner in OWNERS:
        index.limit(owner, cache)
    for kind, what, owner in changes:
        if kind == "insert":
            index.insert(keys_of(what), owner)
            model.insert(what, owner)
            if budget >= 4000:  # one prompt fits into half of it: what was used last is there
                assert index.match(keys_of(what)).get(owner, 0) == len(keys_of(what))
        else:
            index.remove(owner)
            model.remove(owner)
        for each in [*asked, what]:
            true = model.match(each)
            assert all(blocks <= true.get(name, 0) for name, blocks in index.match(keys_of(each)).items())


def test_an_owner_that_was_removed_is_named_no_more_and_one_that_came_after_it_has_none_of_its_blocks() -> None:
    index = PrefixIndex[str](1 << 20)
    prompt = keys_of(([1, 2, 3, 4], None, None))
    index.insert(prompt, "gone")
    index.remove("gone")
    index.remove("never there")
    for number in range(1000):
        name = f"owner-{number}"
        index.insert(keys_of(([number, number], None, None)), name)
        assert index.match(prompt) == {}
        index.remove(name)
    assert index.match(prompt) == {}


def test_blocks_that_were_not_used_for_two_epochs_are_dropped_and_used_ones_stay() -> None:
    index = PrefixIndex[str](40_000)
    kept, left = keys_of(([1, 1] * 4, None, None)), keys_of(([2, 2] * 4, None, None))
    index.insert(left, "a")
    for number in range(3, 400):
        index.insert(kept, "a")
        index.insert(keys_of(([number, number], None, None)), "a")

    assert index.match(kept) == {"a": 4}
    assert index.match(left) == {}


def test_an_owner_is_not_named_for_what_its_own_cache_must_have_dropped() -> None:
    index = PrefixIndex[str](1 << 20)
    index.limit("small", 8)
    first = keys_of(([1] * 8, None, None))
    index.insert(first, "small")
    index.insert(first, "large")
    for number in range(2, 12):
        index.insert(keys_of(([number] * 8, None, None)), "small")
        index.insert(keys_of(([number] * 8, None, None)), "large")

    assert index.match(first) == {"large": 4}
    assert index.match(keys_of(([11] * 8, None, None))) == {"small": 4, "large": 4}


@pytest.mark.parametrize("most", [6, 12, 60])
def test_an_owner_is_named_for_all_that_its_own_cache_can_hold(most: int) -> None:
    index = PrefixIndex[str](1 << 20)
    index.limit("small", most)
    asked = [keys_of(([number] * BLOCK, None, None)) for number in range(most)]
    for keys in asked:
        index.insert(keys, "small")

    assert [index.match(keys) for keys in asked] == [{"small": 1}] * most


@pytest.mark.full
@pytest.mark.parametrize("owners", [1, 64])
def test_the_memory_of_an_index_stays_within_its_budget(owners: int) -> None:
    budget = 1 << 20
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        index = PrefixIndex[int](budget)
        for number in range(1500):
            index.insert(KEYS.keys(array("I", [number % 1200, *range(20)]), BLOCK), number % owners)
            index.insert(KEYS.keys(array("I", [7] * 20), BLOCK), number % owners)
        assert tracemalloc.get_traced_memory()[1] - before <= budget + KEYS_BYTES
    finally:
        tracemalloc.stop()
    assert index.blocks > 2000


KEYS_BYTES = 64 * 1024  # what the test itself makes meanwhile


def test_small_caches_that_turn_over_fast_do_not_widen_the_sets_of_owners_without_bound() -> None:
    index = PrefixIndex[int](1 << 20)
    for owner in range(8):
        index.limit(owner, 2)
    for number in range(4000):
        index.insert(KEYS.keys(array("I", [number, number]), BLOCK), number % 8)

    assert index.width < 8 * 2 + 3 * (64 + 2 * 8)


# ------------------------------------------------------------------------------------------------------------ keys


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40), st.integers(1, 5), st.integers(0, 8))
def test_keys_of_a_prompt_follow_from_those_of_its_beginning(tokens: list[int], block: int, blocks: int) -> None:
    whole = KEYS.keys(array("I", tokens), block)
    cut = min(blocks, len(whole))
    rest = KEYS.sums(tokens[cut * block :], block, start=whole[cut - 1] if cut else 0, at=cut * block)

    assert [*whole[:cut], *rest.tolist()] == whole
    assert whole[:cut] == KEYS.keys(array("I", tokens[: cut * block]), block)
    assert KEYS.keys(array("Q", tokens), block) == KEYS.keys(tokens, block) == whole


def test_a_key_depends_on_every_token_its_place_the_secret_and_what_stands_before() -> None:
    def keys(tokens: Sequence[int], secret: int = 7, salt: str | None = None, lora: str | None = None) -> int:
        return TokenKeys(secret, 100).keys(array("I", tokens), 4, start_of(salt, lora))[-1]

    made = [keys([1, 2, 3, 4]), keys([2, 1, 3, 4]), keys([1, 2, 3, 5]), keys([1, 2, 3, 4], secret=8)]
    made += [keys([1, 2, 3, 4], salt="ab"), keys([1, 2, 3, 4], lora="ab"), keys([1, 2, 3, 4], salt="a", lora="b")]
    assert len(set(made)) == len(made)


def test_no_more_tokens_are_looked_at_than_was_said() -> None:
    assert len(TokenKeys(1, 10).keys(array("I", range(100)), 4)) == 2
    assert len(TextKeys(4, 10, 1000).keys("x" * 100)) == 2


@given(st.lists(st.tuples(st.text("ab", max_size=12), st.integers(0, 1)), max_size=30), st.integers(0, 3000))
@settings(max_examples=examples(50))
def test_keys_of_texts_are_the_same_whether_they_were_kept_or_not(texts: list[tuple[str, int]], budget: int) -> None:
    keeping, anew = TextKeys(3, 9, budget), TextKeys(3, 9, 0)
    for text, start in texts:
        found = keeping.keys(text, start)
        assert found == anew.keys(text, start)
        assert len(found) == min(len(text), 9) // 3
        assert all(anew.keys(text[: 3 * end], start)[-1] == key for end, key in enumerate(found, 1))
