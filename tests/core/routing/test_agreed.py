"""Gateways that do not see each other's requests find the same worker for a prompt that none of them knows to be anywhere."""

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.routing.candidates import Seen, asking

from smg_core.engines.kv_events import KvBlocksStored
from smg_core.routing.agreed import Agreed, Popular
from smg_core.routing.cache_aware import CacheAware
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.standing import Standing

BLOCKS = RoutingConfig(block_tokens=4)
NAMES = [f"w{number}" for number in range(8)]
WORKERS = [Seen(name, in_flight=5, running=20, others=15) for name in NAMES]
"""Three in four requests come through other gateways."""


def gateway(seed: int) -> CacheAware:
    """A cache_aware that has seen by reports that others send most."""
    chosen = CacheAware(BLOCKS, random.Random(seed))
    for second in range(60):
        chosen.pick(WORKERS, asking(range(seed * 1000, seed * 1000 + 20), now=float(second)))
    return chosen


def test_every_gateway_sends_the_turns_of_a_conversation_to_one_worker() -> None:
    gateways = [gateway(seed) for seed in range(4)]
    for session in range(20):
        said = [session * 100 + 7] * 400
        found = {
            each.pick(WORKERS, asking(said * turn, cache_key=f"s{session}", now=60.0 + turn)).worker.name
            for turn, each in enumerate(gateways, 1)
        }

        assert len(found) == 1


def test_sessions_are_spread_over_all_workers() -> None:
    one = gateway(1)
    found = {
        one.pick(WORKERS, asking([session + 9] * 400, cache_key=f"s{session}", now=60.0)).worker.name
        for session in range(100)
    }

    assert found == set(NAMES)


def test_without_others_the_worker_with_least_to_do_is_chosen_whatever_the_key() -> None:
    alone = CacheAware(BLOCKS, random.Random(1))
    workers = [Seen(name, in_flight=9, running=9, prefill_tokens=500) for name in NAMES[1:]]
    workers = [Seen("w0", in_flight=9, running=9), *workers]

    for number in range(30):
        pick = alone.pick(workers, asking([number] * 400, cache_key=f"s{number}", now=float(number)))
        assert pick.worker.name == "w0"


def test_a_worker_where_more_waits_than_the_prompt_is_worth_is_passed_by() -> None:
    one = gateway(1)
    owner = one.pick(WORKERS, asking([5] * 400, cache_key="s", now=60.0)).worker.name
    full = [Seen(name, in_flight=5, running=20, others=15, prefill_tokens=10_000 * (name == owner)) for name in NAMES]

    assert one.pick(full, asking([6] * 400, cache_key="s", now=60.0)).worker.name != owner


def test_prompts_without_a_key_have_the_owner_of_their_first_block_that_is_not_common() -> None:
    agreed = Agreed(BLOCKS)
    for _ in range(200):
        agreed.note(20, 20)
    opening, one, two = [1] * 8, [2] * 4, [3] * 4
    common = [8] * len(WORKERS)

    def owner(prompt: list[int]) -> int:
        owners, _ = agreed.owners(WORKERS, common, asking(prompt), 0.75)
        return owners[0]

    assert owner(opening + one) == owner(opening + one + two) == owner([9] * 8 + one)
    assert len({owner(opening + [number] * 4) for number in range(50)}) == len(WORKERS)


def test_a_block_that_many_ask_for_has_as_many_owners_as_its_share_needs_and_the_first_one_stays() -> None:
    agreed = Agreed(BLOCKS)
    for _ in range(200):
        agreed.note(20, 20)
    common = [0] * len(WORKERS)
    rare = agreed.owners(WORKERS, common, asking([7] * 20), 0.75)[0]
    for number in range(100, 400):
        agreed.owners(WORKERS, common, asking([7 if number % 4 == 0 else number] * 20), 0.75)
    often = agreed.owners(WORKERS, common, asking([7] * 20), 0.75)[0]
    session = agreed.owners(WORKERS, common, asking([7] * 20, cache_key="s"), 0.75)[0]

    assert len(rare) == len(session) == 1
    assert len(WORKERS) / 2 <= len(often) < len(WORKERS)
    assert often[0] == rare[0]


@given(keys=st.lists(st.integers(0, 5000), max_size=3000))
def test_the_counts_of_blocks_are_bounded_and_the_one_that_always_comes_has_nearly_all(keys: list[int]) -> None:
    popular = Popular()
    for key in keys:
        assert 0 < popular.share(b"%d" % key) <= 1
        assert len(popular) <= 1024
    for _ in range(3000):
        share = popular.share(b"always")

    assert share > 0.8


def test_prompts_that_share_nothing_have_no_owner_but_those_with_a_key_do() -> None:
    agreed = Agreed(BLOCKS)
    for _ in range(200):
        agreed.note(0, 20)
    nothing = [0] * len(WORKERS)

    assert agreed.owners(WORKERS, nothing, asking([1] * 20), 0.75) == ((), 0.0)
    assert agreed.owners(WORKERS, nothing, asking([1] * 20, cache_key="s"), 0.75)[0]
    assert agreed.owners(WORKERS, nothing, asking([1] * 20, cache_key="s"), 0.0) == ((), 0.0)
    assert agreed.owners(WORKERS[:1], nothing, asking([1] * 20, cache_key="s"), 0.75) == ((), 0.0)


def test_a_prompt_that_has_no_block_behind_what_is_common_has_no_owner() -> None:
    agreed = Agreed(BLOCKS)
    agreed.note(20, 20)

    assert agreed.owners(WORKERS, [8] * len(WORKERS), asking([1] * 11), 0.75) == ((), 0.0)


@pytest.mark.full
def test_where_gateways_do_not_see_each_others_requests_a_prompt_stays_longer_with_who_tells_of_it() -> None:
    held = [5] * 2000

    def chosen(others: int, waiting: int) -> str:
        one = CacheAware(BLOCKS, random.Random(1))
        workers = [Seen(name, in_flight=5, running=5 + others, others=others) for name in NAMES]
        for name in NAMES:
            one.kv_known(name, 0, "all")
        one.kv_changed("w3", 0, [KvBlocksStored(list(range(1, 501)), held, 4)], 0.0)
        for second in range(200):  # so that it is known that prompts share much
            one.pick(workers, asking(held, now=float(second)))
        busy = [attrs.evolve(each, prefill_tokens=waiting * (each.name == "w3")) for each in workers]
        return one.pick(busy, asking(held, now=200.0)).worker.name

    assert chosen(others=0, waiting=2500) != "w3"
    assert chosen(others=15, waiting=2500) == "w3"
    assert chosen(others=15, waiting=20_000) != "w3"


def test_all_that_hold_most_of_a_prompt_are_its_holders_and_none_where_most_workers_hold_as_much() -> None:
    agreed = Agreed(BLOCKS)
    for _ in range(200):
        agreed.note(20, 20)

    assert agreed.holders([0, 9, 4, 9, 0], 9, 0.75)[0] == [1, 3]
    assert agreed.holders([0, 9], 9, 0.75)[0] == [1]
    assert agreed.holders([9, 9, 9, 0], 9, 0.75) == ((), 0.0)
    assert agreed.holders([0, 0, 0], 0, 0.75) == ((), 0.0)
    assert agreed.holders([0, 9, 0], 9, 0.0) == ((), 0.0)
    few, many = agreed.holders([0, 9, 0], 9, 0.25)[1], agreed.holders([0, 9, 0], 9, 0.75)[1]
    assert 0 < few < many


def test_an_engine_that_tells_all_of_its_cache_is_judged_by_that_alone() -> None:
    one = gateway(1)
    for name in NAMES:
        one.kv_known(name, 0, "all")
        one.kv_changed(name, 0, [KvBlocksStored([1], [99] * 4, 4)], 60.0)
    idle = [Seen(name, in_flight=5, running=20, others=15, prefill_tokens=300) for name in NAMES[1:]]
    idle = [Seen("w0", in_flight=5, running=20, others=15), *idle]

    found = {
        one.pick(idle, asking([number] * 400, cache_key=f"s{number}", now=60.0)).worker.name for number in range(30)
    }

    assert found == {"w0"}


@given(
    own=st.lists(st.integers(0, 50), min_size=1, max_size=8), other=st.lists(st.integers(0, 50), min_size=8, max_size=8)
)
def test_the_share_of_others_is_what_engines_have_beyond_our_count(own: list[int], other: list[int]) -> None:
    standing = Standing(RoutingConfig())
    workers = [
        Seen(f"w{at}", in_flight=ours, running=ours + theirs, others=theirs)
        for at, (ours, theirs) in enumerate(zip(own, other, strict=False))
    ]
    for second in range(200):
        standing.of(workers, float(second))
    whole = sum(own) + sum(other[: len(own)])

    assert standing.others == pytest.approx(sum(other[: len(own)]) / whole if whole else 0.0, abs=0.01)
