"""Requests that may go to other workers than the rest have their own turns, and nobody is cold in any part of a fleet."""

import random
from collections import Counter, deque

import pytest
from tests.core.routing.candidates import Seen, asking

from smg_core.routing import Bucket, CacheAware, LeastRequests, Policy, RoundRobin
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.simple import PARTS_KEPT, UNUSED_S, FleetParts

MINE, THEIRS = ([Seen(f"{owner}{at}") for at in range(4)] for owner in ("mine", "theirs"))
PREFIX = list(range(2000))


@pytest.mark.parametrize("make", [RoundRobin, LeastRequests])
@pytest.mark.parametrize("by", ["part", "lora"])
def test_tenants_that_come_in_turn_have_all_of_their_workers_asked(make: type[Policy], by: str) -> None:
    policy, asked = make(), Counter[str]()
    for _ in range(8):
        for owner, workers in (("mine", MINE), ("theirs", THEIRS)):
            asked[policy.pick(workers, asking(**{by: owner})).worker.name] += 1

    assert asked == dict.fromkeys([each.name for each in (*MINE, *THEIRS)], 2)


def test_short_prompts_of_a_tenant_have_all_of_its_workers_beside_long_ones_of_another() -> None:
    policy, asked = Bucket(), Counter[str]()
    for _ in range(200):
        for owner, workers, tokens in (("mine", MINE, 100), ("theirs", THEIRS, 3000)):
            asked[policy.pick(workers, asking(range(tokens), part=owner)).worker.name] += 1

    assert min(asked[each.name] for each in MINE) > 40


@pytest.mark.parametrize("by", ["part", "lora"])
def test_a_prefix_reaches_every_worker_of_its_part_beside_one_with_many_more_requests(by: str) -> None:
    policy, busy, chosen = CacheAware(RoutingConfig(block_tokens=16), random.Random(3)), Counter[str](), Counter[str]()
    under_way: deque[tuple[float, str]] = deque()
    for number in range(50 * 90):
        now = number / 50
        while under_way and under_way[0][0] <= now:
            busy[under_way.popleft()[1]] -= 1
        rare = not number % 12
        owner, workers = ("mine", MINE) if rare else ("theirs", THEIRS)
        prompt = [*PREFIX, number] if rare else [number, *range(200)]
        seen = [Seen(each.name, in_flight=busy[each.name]) for each in workers]
        name = policy.pick(seen, asking(prompt, now=now, **{by: owner})).worker.name
        busy[name] += 1
        under_way.append((now + 2.0, name))
        chosen[name] += now > 45.0

    assert min(chosen[each.name] for each in MINE) > sum(chosen[each.name] for each in MINE) / 8


def test_what_is_kept_is_bounded_and_the_parts_beyond_go_by_the_whole_fleet() -> None:
    parts: FleetParts[list[str]] = FleetParts(list)
    kept = [parts.of(asking(part=f"{number}", now=1.0)) for number in range(PARTS_KEPT)]
    whole = parts.of(asking())

    assert parts.of(asking(part="late", now=2.0)) is whole
    assert parts.of(asking(part="0", now=UNUSED_S)) is kept[0]
    later = parts.of(asking(part="later", now=UNUSED_S + 1.0))
    assert all(later is not each for each in (whole, *kept))
    assert parts.of(asking(part="0", now=UNUSED_S + 1.0)) is kept[0]
    assert len(parts.all()) == PARTS_KEPT + 1
