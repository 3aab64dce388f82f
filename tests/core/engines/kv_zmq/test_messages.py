"""KV events as engines publish them: every layout that was ever sent is read alike, and anything else is refused."""

from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.kv_events import (
    PART,
    KvBlockMedium,
    KvBlocksRemoved,
    KvBlocksStored,
    KvCacheCleared,
    KvEvent,
    KvEventBatch,
    size,
)
from smg_core.engines.kv_zmq.messages import published_batches
from smg_core.errors import EngineGarbled
from smg_simulator.engine.kv_feed import Batch
from smg_simulator.engine.prefix_cache import BlocksCleared, BlocksRemoved, BlockStored, CacheChange
from smg_simulator.server.published_events import EventLayout, payload_of

LAYOUTS = get_args(EventLayout)
HASHES = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.text("abc", max_size=3)


@st.composite
def stored(draw: st.DrawFn) -> BlockStored:
    count, length = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    tokens = st.tuples(*[st.integers(0, (1 << 32) - 1)] * length)
    media = st.lists(st.tuples(st.text("xyz", min_size=1, max_size=3), st.integers(-9, 9)), max_size=2).map(tuple)
    return BlockStored(
        tuple(draw(st.lists(HASHES, min_size=count, max_size=count))),
        tuple(draw(tokens) for _ in range(count)),
        draw(st.none() | HASHES),
        tuple(draw(media) for _ in range(count)),
        draw(st.sampled_from(["", "a salt"])),
        draw(st.sampled_from(["", "an adapter"])),
    )


CHANGES = st.one_of(
    stored(),
    st.builds(BlocksRemoved, st.lists(HASHES, min_size=1, max_size=5).map(tuple)),
    st.just(BlocksCleared()),
)


def read(payload: bytes, **fields: Any) -> list[KvEventBatch]:
    return list(published_batches(7, payload, 3, **{"most_events": 1000, **fields}))


def events(payload: bytes) -> list[KvEvent]:
    return [event for batch in read(payload) for event in batch.events]


def expected(change: CacheChange, layout: EventLayout) -> KvEvent:
    if isinstance(change, BlocksCleared):
        return KvCacheCleared()
    plain = layout == "first"
    if isinstance(change, BlocksRemoved):
        return KvBlocksRemoved(list(change.hashes), tier="" if plain else "device")
    media = [KvBlockMedium(at, *each) for at, row in enumerate(change.media) for each in row]
    return KvBlocksStored(
        list(change.hashes),
        [token for row in change.token_ids for token in row],
        len(change.token_ids[0]),
        parent=change.parent,
        media=() if plain else tuple(media),
        lora=("1" if plain else change.lora) if change.lora else "",
        salt="" if plain or change.parent is not None else change.salt,
        tier="" if plain else "device",
    )


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("layout", LAYOUTS)
@given(changes=st.lists(CHANGES, max_size=5), moment=st.floats(0, 1e10))
def test_every_layout_is_read_as_what_was_meant(layout: EventLayout, changes: list[CacheChange], moment: float) -> None:
    payload = payload_of(Batch(8, moment, 1, tuple(changes)), layout, rank=3)

    assert events(payload) == [expected(each, layout) for each in changes]
    assert {(each.sequence, each.rank, each.moment) for each in read(payload)} == {(7, 3, moment)}


def batch(*told: Any) -> bytes:
    return msgspec.msgpack.encode([1.0, list(told)])


def test_a_long_event_comes_in_parts_that_are_quickly_applied() -> None:
    count = 3 * PART + 5
    long = ["BlockStored", list(range(count)), 99, list(range(count * 2)), 2, None]
    parts = read(batch(long, ["BlockRemoved", list(range(count))]))

    assert max(sum(map(size, each.events)) for each in parts) <= PART
    assert [each.more for each in parts] == [True] * (len(parts) - 1) + [False]
    found = [event for each in parts for event in each.events if isinstance(event, KvBlocksStored)]
    assert [hash for each in found for hash in each.hashes] == list(range(count))
    assert [token for each in found for token in each.token_ids] == list(range(count * 2))
    assert [each.parent for each in found] == [99, *(each.hashes[-1] for each in found[:-1])]


@pytest.mark.parametrize(
    ("medium", "tier"),
    [
        ("GPU", "device"),
        ("CPU", "host"),
        ("CPU_TIER1", "host"),
        ("DISK", "disk"),
        ("STORAGE", "disk"),
        ("REMOTE", "external"),
        ("what comes next", "external"),
        (None, ""),
    ],
)
def test_a_medium_is_a_tier(medium: str | None, tier: str) -> None:
    removed, put = events(
        batch(["BlockRemoved", [1], medium], {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None,
              "token_ids": [5], "block_size": 1, "medium": medium, "group_idx": 2, "kv_cache_spec_kind": "full_attention",
              "kv_cache_spec_sliding_window": None, "of_next_year": {"a": 1}})
    )  # fmt: skip

    assert isinstance(removed, KvBlocksRemoved)
    assert isinstance(put, KvBlocksStored)
    assert (removed.tier, put.tier) == (tier, tier)
    assert (put.group, put.attention) == (2, "full_attention")


def test_bytes_and_the_number_that_is_made_of_them_are_one_hash() -> None:
    digest = bytes(range(200, 232))
    number = int.from_bytes(digest, "big") & ((1 << 64) - 1)
    one, other = events(batch(["BlockRemoved", [digest]], ["BlockRemoved", [number]]))

    assert one == other


def test_tokens_that_are_not_told_and_kinds_that_are_not_known_yet_are_left_out() -> None:
    found = events(batch(["BlockStored", [1, 2], None, [], 16, None], ["BlockMoved", [1]], {"type": "Other"}))

    assert found == [KvBlocksStored([1, 2], (), 16)]


WRONG: dict[str, bytes] = {
    "nothing": b"",
    "text": b"hello",
    "a number": msgspec.msgpack.encode(3),
    "an empty list": msgspec.msgpack.encode([]),
    "an empty map": msgspec.msgpack.encode({}),
    "no moment": msgspec.msgpack.encode(["now", []]),
    "events that are none": msgspec.msgpack.encode([1.0, 3]),
    "an event without a kind": batch([]),
    "an event that is a number": batch(3),
    "a kind that is a number": batch([3]),
    "a hash that is a text": batch(["BlockRemoved", ["x"]]),
    "a hash that is empty": batch(["BlockRemoved", [b""]]),
    "a hash that is a bool": batch(["BlockRemoved", [True]]),
    "no hashes": batch(["BlockRemoved"]),
    "hashes that are a map": batch(["BlockRemoved", {}]),
    "blocks of no length": batch(["BlockStored", [1], None, [], 0]),
    "blocks of a huge length": batch(["BlockStored", [1], None, [], 1 << 40]),
    "a token below 0": batch(["BlockStored", [1], None, [-1], 1]),
    "a token of 64 bits": batch(["BlockStored", [1], None, [1 << 40], 1]),
    "a token that is a text": batch(["BlockStored", [1], None, ["x"], 1]),
    "pairs that are empty": batch(["BlockStored", [1], None, [[]], 1]),
    "keys that are a number": batch(["BlockStored", [1], None, [1], 1, None, None, None, 5]),
    "keys of a block that are a number": batch(["BlockStored", [1], None, [1], 1, None, None, None, [5]]),
    "deep": b"\x91" * 100_000,
    "two in one": batch() + batch(),
    "cut": batch(["BlockRemoved", [1]])[:-1],
}


@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG)
def test_what_is_no_batch_is_refused(payload: bytes) -> None:
    with pytest.raises(EngineGarbled):
        read(payload)


def test_a_batch_of_more_events_than_are_taken_is_refused_before_any_is_read() -> None:
    payload = batch(*[["BlockRemoved", ["not even a hash"]]] * 11)
    with pytest.raises(EngineGarbled) as refusal:
        next(published_batches(0, payload, 0, most_events=10))

    assert "11 events" in str(refusal.value.detail)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    with suppress(EngineGarbled):
        read(payload)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.binary(max_size=3),
    lambda some: st.lists(some, max_size=4) | st.dictionaries(st.text(max_size=3), some, max_size=3),
)


@given(ANYTHING)
def test_any_event_is_read_or_refused(told: Any) -> None:
    for each in (
        told,
        ["BlockStored", told, told, told, told],
        ["BlockStored", [1], None, [1], 1, told, told, told, told],
    ):
        with suppress(EngineGarbled):
            read(batch(each))
