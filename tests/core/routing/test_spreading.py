"""A prefix that many ask for spreads: what a copy of it costs falls with the copies there are, until every worker has one."""

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.routing.candidates import Seen, asking

from smg_core.routing.cache_aware import CacheAware
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.standing import Standing, least_to_pay, price_of_a_copy

PREFIX = list(range(2000))


@given(st.integers(2, 300).flatmap(lambda places: st.tuples(st.integers(1, places), st.just(places))))
def test_a_copy_costs_no_more_than_its_holders_are_above_their_fair_share(counts: tuple[int, int]) -> None:
    holders, places = counts
    price = price_of_a_copy(holders, places)

    assert 0.0 <= price <= 1.0
    assert price <= (places - holders) / holders + 1e-12
    assert holders == 1 or price <= 1.0 / holders**0.5


def test_a_copy_has_its_whole_price_where_one_worker_has_the_tokens_and_none_where_all_have() -> None:
    assert [price_of_a_copy(1, places) for places in (1, 2, 8, 64)] == [1.0] * 4
    assert [price_of_a_copy(places, places) for places in (2, 8, 64)] == [0.0] * 3


@given(st.lists(st.integers(0, 500), min_size=1, max_size=9), st.integers(0, 100))
def test_each_token_is_paid_once_by_every_place_that_lacks_it(gains: list[int], more: int) -> None:
    tokens = max(gains) + more
    expected = [
        sum(
            1.0 if at >= max(gains) else price_of_a_copy(sum(each > at for each in gains), len(gains))
            for at in range(gain, tokens)
        )
        for gain in gains
    ]

    pays = least_to_pay(gains, tokens)

    assert [pays[gain] for gain in gains] == pytest.approx(expected)


def shares(
    count: int, seconds: float, until: float, away: tuple[float, float], since: float, *, removed: bool = True
) -> list[float]:
    """What each of `count` workers gets of the requests from `since` on, by the mean of all. There are three requests a second
    for each, which take so many seconds each and all begin alike; nothing ever waits to be read. The first worker is gone for
    the seconds `away`, and is back with an empty cache; it was `removed` meanwhile, or could not be reached."""
    policy = CacheAware(RoutingConfig(block_tokens=16), random.Random(3))
    busy, chosen = dict.fromkeys(range(count), 0), [0] * count
    under_way: deque[tuple[float, int]] = deque()
    gone = False
    for number in range(int(3 * count * until)):
        now = number / (3 * count)
        while under_way and under_way[0][0] <= now:
            busy[under_way.popleft()[1]] -= 1
        if gone != (away[0] <= now < away[1]):
            gone = not gone
            (policy.worker_left if removed else policy.cache_lost)("w0")
        workers = [Seen(f"w{at}", in_flight=busy[at]) for at in range(int(gone), count)]
        at = int(policy.pick(workers, asking([*PREFIX, number], now=now)).worker.name[1:])
        busy[at] += 1
        under_way.append((now + seconds, at))
        chosen[at] += now > since
    return [each * count / sum(chosen) for each in chosen]


NEVER = (1e9, 1e9)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("count", [2, 3, 8, 24])
@pytest.mark.parametrize("seconds", [2.0, 6.0])
def test_a_prefix_that_all_requests_have_reaches_every_worker(count: int, seconds: float) -> None:
    assert min(shares(count, seconds, 60.0, NEVER, 30.0)) > 0.5


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("count", [2, 3, 8, 24])
@pytest.mark.parametrize("seconds", [2.0, 6.0])
@pytest.mark.parametrize("removed", [True, False])
def test_a_worker_that_is_back_with_an_empty_cache_is_not_left_cold_for_the_time_that_the_means_go_over(
    count: int, seconds: float, removed: bool
) -> None:
    back = 40.0

    assert shares(count, seconds, back + 10.0, (30.0, back), back, removed=removed)[0] > 0.5


def test_a_worker_that_comes_is_owed_what_the_others_are_ahead_of_it_and_less_from_second_to_second() -> None:
    standing = Standing(RoutingConfig(balance_factor=1.5, balance_s=10.0))
    standing.note(1000)
    there = [Seen(f"w{at}", in_flight=4) for at in range(3)]
    for second in range(30):
        standing.of(there, float(second))
    before = dict(standing.owed)
    owed = []
    for second in range(30, 90):
        standing.of([*there, Seen("new", in_flight=4)], float(second))
        owed.append(standing.owed.get("new", 0.0))

    assert before == {}
    assert owed[0] == pytest.approx(1.5 * 1000 / 4, rel=0.1)
    assert owed == sorted(owed, reverse=True)
    assert owed[-1] == 0.0


def test_in_a_busy_fleet_a_copy_costs_nearly_its_whole_price_but_for_a_worker_that_has_nothing_to_do() -> None:
    standing = Standing(RoutingConfig(balance_s=1.0))
    standing.note(1000)
    workers = [Seen("a", in_flight=9, prefill_tokens=5000), Seen("b", in_flight=9, prefill_tokens=5000), Seen("c")]
    for second in range(30):
        standing.of(workers, float(second))
    calm, more = standing.spare()

    assert calm < 0.01
    assert more == {"c": pytest.approx(1.0, abs=0.01)}


def test_in_a_calm_fleet_a_copy_is_worth_it_anywhere() -> None:
    standing = Standing(RoutingConfig(balance_s=1.0))
    for second in range(30):
        standing.of([Seen("a", in_flight=3), Seen("b", in_flight=3)], float(second))

    assert standing.spare() == (1.0, {})
