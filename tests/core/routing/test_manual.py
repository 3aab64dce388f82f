"""Sessions of the policy `manual`, where they are counted."""

from collections import Counter
from random import Random

from tests.core.routing.candidates import Seen, asking

from smg_core.routing.manual import Manual
from smg_core.routing.settings import RoutingConfig


def by_group(**settings: float) -> Manual:
    return Manual(RoutingConfig(manual_assign="min_group", **settings), Random(1))  # type: ignore[arg-type]


def test_a_worker_that_comes_gets_new_sessions_until_it_has_as_many_as_the_others() -> None:
    policy = by_group()
    old, both = [Seen("a")], [Seen("a"), Seen("b")]
    for number in range(20):
        policy.pick(old, asking(cache_key=f"old {number}"))

    chosen = [policy.pick(both, asking(cache_key=f"new {number}")).worker.name for number in range(20)]

    assert chosen == ["b"] * 20


def test_sessions_of_a_worker_that_left_are_shared_out_evenly_and_are_its_own_when_it_comes_back() -> None:
    policy = by_group()
    three, two = [Seen("a"), Seen("b"), Seen("c")], [Seen("a"), Seen("b")]
    keys = [f"session {number}" for number in range(30)]
    home = {key: policy.pick(three, asking(cache_key=key)).worker.name for key in keys}
    assert set(Counter(home.values()).values()) == {10}

    policy.worker_left("c")
    moved = Counter(policy.pick(two, asking(cache_key=key)).worker.name for key in keys)
    assert moved == {"a": 15, "b": 15}

    assert {key: policy.pick(three, asking(cache_key=key)).worker.name for key in keys} == home
    new = Counter(policy.pick(three, asking(cache_key=f"new {number}")).worker.name for number in range(6))
    assert new == {"a": 2, "b": 2, "c": 2}


def test_sessions_that_end_are_counted_nowhere() -> None:
    policy = by_group(session_idle_s=1)
    two = [Seen("a"), Seen("b")]
    for number in range(8):
        policy.pick(two, asking(cache_key=f"early {number}"))
    policy.worker_left("b")
    for number in range(8):  # two of those that are idle end with each request
        policy.pick([Seen("a")], asking(cache_key=f"late {number}", now=10.0))

    chosen = [policy.pick(two, asking(cache_key=f"new {number}", now=10.0)).worker.name for number in range(8)]

    assert chosen == ["b"] * 8
