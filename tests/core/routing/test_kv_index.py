"""The exact index beside one that keeps what every engine holds, block by block."""

from array import array
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.engines.kv_events import (
    KvBlockMedium,
    KvBlocksRemoved,
    KvBlocksStored,
    KvCacheCleared,
    KvTier,
)
from smg_core.routing.block_keys import TokenKeys, start_of
from smg_core.routing.kv_index import BLOCK_BYTES, CachePlace, KvHit, KvIndex, media_mark

SIZE = 16
KEYS = TokenKeys(secret=7, most=4096)
PLACES: list[CachePlace] = [("a", 0), ("a", 1), ("b", 0)]
TIERS: list[KvTier] = ["device", "host", "disk", "external"]

Prompt = tuple[tuple[int, ...], str]
"""One number for each block, and the salt."""


def tokens_of(prompt: Prompt) -> "array[int]":
    return array("I", [number for number in prompt[0] for _ in range(SIZE)])


def keys_of(prompt: Prompt) -> list[int]:
    return KEYS.keys(tokens_of(prompt), SIZE, start_of(prompt[1], None))


def name_of(place: CachePlace, prompt: Prompt, block: int) -> int:
    """The engine's hash of a block."""
    return hash((place, prompt[0][: block + 1], prompt[1]))


@attrs.define
class Engines:
    """What every place holds: the tiers of each block."""

    held: dict[CachePlace, dict[Prompt, set[KvTier]]] = attrs.field(factory=lambda: {place: {} for place in PLACES})

    def hit(self, place: CachePlace, prompt: Prompt) -> KvHit | None:
        nearest: list[KvTier] = []
        for block in range(len(prompt[0])):
            tiers = self.held[place].get((prompt[0][: block + 1], prompt[1]))
            if not tiers:
                break
            nearest.append(min(tiers, key=TIERS.index))
        far = [nearest.count(tier) * SIZE for tier in TIERS[1:]]
        return KvHit(len(nearest) * SIZE, *far) if nearest else None


PROMPTS = st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple), st.sampled_from(["", "salt"]))
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["store", "store", "store", "remove", "clear", "forget"]),
        st.sampled_from(PLACES),
        PROMPTS,
        st.integers(0, 4),
        st.sampled_from(TIERS),
    ),
    max_size=25,
)


def store(index: KvIndex, engines: Engines, place: CachePlace, prompt: Prompt, begin: int, tier: KvTier) -> None:
    """The blocks from `begin` on come into `tier`, behind the one before, which the engine must hold."""
    held = engines.held[place]
    begin = min(begin, len(prompt[0]) - 1)
    while begin and (prompt[0][:begin], prompt[1]) not in held:
        begin -= 1
    count = range(begin, len(prompt[0]))
    for block in count:
        held.setdefault((prompt[0][: block + 1], prompt[1]), set()).add(tier)
    index.apply(
        place,
        KvBlocksStored(
            [name_of(place, prompt, block) for block in count],
            tokens_of(prompt)[begin * SIZE :].tolist(),
            SIZE,
            parent=name_of(place, prompt, begin - 1) if begin else None,
            salt=prompt[1],
            tier=tier,
        ),
        1.0,
    )


def remove(index: KvIndex, engines: Engines, place: CachePlace, prompt: Prompt, begin: int, tier: KvTier) -> None:
    held = engines.held[place]
    for block in range(begin, len(prompt[0])):
        tiers = held.get((prompt[0][: block + 1], prompt[1]), set())
        tiers.discard(tier)
        if not tiers:
            held.pop((prompt[0][: block + 1], prompt[1]), None)
    names = [name_of(place, prompt, block) for block in range(begin, len(prompt[0]))]
    index.apply(place, KvBlocksRemoved(names, tier), 2.0)


@pytest.mark.full
@given(CHANGES, st.lists(PROMPTS, max_size=6))
@settings(max_examples=examples(150), deadline=None)
def test_the_index_says_of_every_place_what_its_engine_holds_and_where(
    changes: list[tuple[str, CachePlace, Prompt, int, KvTier]], asked: list[Prompt]
) -> None:
    index, engines = KvIndex(KEYS, 1 << 20, 16), Engines()
    for kind, place, prompt, begin, tier in changes:
        if kind == "store":
            store(index, engines, place, prompt, begin, tier)
        elif kind == "remove":
            remove(index, engines, place, prompt, begin, tier)
        else:
            engines.held[place].clear()
            if kind == "clear":
                index.apply(place, KvCacheCleared(), 3.0)
            else:
                index.forget(place)
        for each in [prompt, *asked]:
            true = {place: hit for place in PLACES if (hit := engines.hit(place, each)) is not None}
            assert index.match(keys_of(each), SIZE, salted=True) == true


@given(CHANGES, st.integers(0, 6))
@settings(max_examples=examples(60), deadline=None)
def test_an_index_without_room_says_that_it_knows_a_part_and_names_no_block_that_is_not_there(
    changes: list[tuple[str, CachePlace, Prompt, int, KvTier]], room: int
) -> None:
    index, engines = KvIndex(KEYS, BLOCK_BYTES * room, 16), Engines()
    for kind, place, prompt, begin, tier in changes:
        if kind == "store":
            index.know(place, "all")
            store(index, engines, place, prompt, begin, tier)
            assert index.known(place) == (False, 1.0) or sum(map(len, engines.held.values())) >= index.blocks
        elif kind == "remove":
            remove(index, engines, place, prompt, begin, tier)
        assert index.blocks <= room
        for where, hit in index.match(keys_of(prompt), SIZE, salted=True).items():
            true = engines.hit(where, prompt)
            assert true is not None
            assert hit.tokens <= true.tokens


def stored(tokens: Sequence[int], size: int, **fields: object) -> KvBlocksStored:
    count = len(tokens) // size
    return KvBlocksStored(list(range(100, 100 + count)), tokens, size, **fields)  # type: ignore[arg-type]


def test_blocks_shorter_than_a_unit_are_put_together_and_longer_ones_are_units_themselves() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    tokens = list(range(64))
    index.apply(("one", 0), stored(tokens, 1), 1.0)
    index.apply(("long", 0), stored(tokens, 32), 1.0)

    assert sorted(index.units) == [(16, True), (32, True)]
    assert index.match(KEYS.keys(tokens, 16), 16, salted=True) == {("one", 0): KvHit(64)}
    assert index.match(KEYS.keys(tokens, 32), 32, salted=True) == {("long", 0): KvHit(64)}


def test_an_engine_that_takes_no_salts_is_matched_with_keys_that_have_none() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    index.know(("plain", 0), "all", salted=False)
    index.apply(("plain", 0), stored(range(16), 16), 1.0)

    assert index.match(KEYS.keys(range(16), 16), 16, salted=True) == {}
    assert index.match(KEYS.keys(range(16), 16), 16, salted=False) == {("plain", 0): KvHit(16)}


def test_media_and_other_keys_make_other_prefixes_of_equal_tokens() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    tokens = [5] * 48
    index.apply(("w", 0), stored(tokens, 16, media=(KvBlockMedium(1, "cat", 3), KvBlockMedium(2, "cat", -13))), 1.0)
    plain = KEYS.keys(tokens, 16)
    cat, dog = ([(key + media_mark(name, 19)) % 2**64 for key in plain] for name in ("cat", "dog"))

    assert index.match(plain, 16, salted=True) == {("w", 0): KvHit(16)}
    assert index.match([plain[0], *cat[1:]], 16, salted=True) == {("w", 0): KvHit(48)}
    assert index.match([plain[0], *dog[1:]], 16, salted=True) == {("w", 0): KvHit(16)}

    index.apply(("other", 0), stored(tokens, 16, other_keys=((1, "unknown"),)), 1.0)
    assert index.match(plain, 16, salted=True)["other", 0] == KvHit(16)


def test_blocks_of_layers_that_see_a_part_only_and_blocks_behind_unknown_ones_are_left_out() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    index.apply(("w", 0), stored(range(16), 16, attention="sliding_window", group=1), 1.0)
    index.apply(("w", 0), stored(range(16), 16, parent=999, group=2), 1.0)
    assert index.match(KEYS.keys(range(16), 16), 16, salted=True) == {}

    index.apply(("w", 0), stored(range(16), 16, attention="full_attention", group=2), 1.0)
    index.apply(("w", 0), KvBlocksRemoved([100], group=1), 1.0)
    assert index.match(KEYS.keys(range(16), 16), 16, salted=True) == {("w", 0): KvHit(16)}


@pytest.mark.parametrize("kind", ["", "full_attention", "mla_attention", "sink_full_attention"])
def test_layers_that_see_all_of_a_prompt_are_known_by_every_name_that_engines_have_for_them(kind: str) -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    index.know(("w", 0), "all")
    index.apply(("w", 0), stored(range(16), 16, attention=kind), 1.0)

    assert index.match(KEYS.keys(range(16), 16), 16, salted=True) == {("w", 0): KvHit(16)}
    assert index.known(("w", 0)) == (True, 1.0)


def test_of_a_place_whose_layers_nobody_knows_not_all_is_known_until_one_that_is_known_comes() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    index.know(("w", 0), "all")
    index.apply(("w", 0), stored(range(16), 16, attention="attention_of_tomorrow", group=0), 1.0)
    assert index.known(("w", 0)) == (False, 1.0)

    index.apply(("w", 0), stored(range(16), 16, attention="full_attention", group=1), 2.0)
    index.apply(("w", 0), stored(range(16, 32), 16, attention="attention_of_tomorrow", group=0), 3.0)
    assert index.known(("w", 0)) == (True, 3.0)


def test_an_engine_whose_hash_is_that_of_a_block_alone_is_not_known_exactly() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    index.know(("w", 0), "all")
    one, other, shared = range(16), range(100, 116), range(200, 216)
    index.apply(("w", 0), KvBlocksStored([1, 3], [*one, *shared], 16), 1.0)
    index.apply(("w", 0), KvBlocksStored([1], [*one], 16), 1.0)
    assert index.known(("w", 0)) == (True, 1.0)

    index.apply(("w", 0), KvBlocksStored([2, 3], [*other, *shared], 16), 2.0)
    assert index.known(("w", 0)) == (False, 2.0)


def test_a_place_without_room_for_its_first_block_is_known_again_when_its_cache_was_cleared() -> None:
    index = KvIndex(KEYS, BLOCK_BYTES, 16)
    index.apply(("a", 0), stored([1] * 16, 16), 1.0)
    index.know(("b", 0), "all")
    index.apply(("b", 0), stored([2] * 16, 16), 1.0)
    assert index.known(("b", 0)) == (False, 1.0)

    index.apply(("b", 0), KvCacheCleared("store"), 2.0)  # of one owner alone
    assert index.known(("b", 0)) == (False, 2.0)
    index.apply(("b", 0), KvCacheCleared(), 3.0)
    assert index.known(("b", 0)) == (True, 3.0)


def test_blocks_that_one_owner_drops_leave_the_rest_unknown() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    index.know(("w", 0), "all")
    index.apply(("w", 0), stored(range(16), 16, owner="store", tier="host"), 1.0)
    index.apply(("w", 0), KvCacheCleared("store"), 2.0)

    assert index.known(("w", 0)) == (False, 2.0)
    assert index.match(KEYS.keys(range(16), 16), 16, salted=True) == {}


def test_what_was_cleared_is_tidied_up_and_its_place_used_again() -> None:
    index = KvIndex(KEYS, 1 << 20, 16)
    for number in range(200):
        place = (f"w{number}", 0)
        index.apply(place, stored([number] * 320, 16), 1.0)
        index.forget(place)
    for _ in range(10):
        index.match([], 16, salted=True)

    assert index.blocks == 0
    assert index.places() == ()


def test_blocks_of_another_length_are_learned_when_the_first_are_gone_and_else_not_all_is_known() -> None:
    index = KvIndex(KEYS, budget=1 << 20, unit=SIZE)
    index.know(("a", 0), "all")
    index.apply(("a", 0), stored([1] * SIZE, SIZE), now=1.0)

    index.apply(("a", 0), stored([1] * 4 * SIZE, 2 * SIZE), now=2.0)
    assert index.known(("a", 0)) == (False, 2.0)

    index.apply(("a", 0), KvCacheCleared(), now=3.0)
    index.apply(("a", 0), stored([1] * 4 * SIZE, 2 * SIZE), now=4.0)
    assert index.known(("a", 0)) == (True, 4.0)
    keys = KEYS.keys(array("I", [1] * 4 * SIZE), 2 * SIZE)
    assert index.match(keys, 2 * SIZE, salted=True) == {("a", 0): KvHit(4 * SIZE)}
