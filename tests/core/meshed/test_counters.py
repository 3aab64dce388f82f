"""Limits over several gateways: what one admits counts at all, and together they keep the bound, whatever the network does."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.mesh.network import Member, Network

from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.mesh.state.entries import MeshChange, Writer
from smg_core.mesh.state.node import Node, NodeTerms
from smg_core.meshed.counters import MeshCounters

MINUTE = LimitRule(600, "requests", "minute", 600)
TOKENS = LimitRule(60_000, "tokens", "minute", 10_000)
DAY = LimitRule(500, "requests", "day")
AT_ONCE = LimitRule(40, "at_once")
GUARD = 0.05
SLOW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Fleet:
    """Gateways over a network in memory, each with counters of its own."""

    def __init__(self, count: int, rng: random.Random, partition: str = "majority", **network: float) -> None:
        self.rng, self.partition = rng, partition
        self.network = Network(count, rng, **network)  # type: ignore[arg-type]
        self.counters: dict[str, MeshCounters] = {}
        self.admitted: dict[str, int] = {}
        for name in self.network.members:
            self.open(name)
        self.network.hear = self.hear
        self.network.run(3.0, self.turn)

    def open(self, name: str) -> None:
        held = MemoryCounters(1000, "UTC")
        self.counters[name] = MeshCounters(held, "UTC", GUARD, self.partition, 1000)  # type: ignore[arg-type]

    @property
    def names(self) -> list[str]:
        return list(self.network.members)

    @property
    def at(self) -> Instant:
        return Instant(int(self.network.at * 1_000_000), self.network.at)

    def turn(self) -> None:
        """What the member's edge does each period."""
        for name, member in self.network.members.items():
            if member.stopped:
                continue
            counters, now = self.counters[name], member.now(self.network.at)
            counters._at = self.at
            self.hear(member, member.node.take_changes())
            counters.stands(member.node.standing(now), now)
            counters.tell(member.node, now)

    def hear(self, member: Member, changes: list[MeshChange]) -> None:
        counters = self.counters[member.name]
        counters.hear([each for each in changes if each.space in counters.spaces], member.now(self.network.at))

    def ask(self, name: str, rule: LimitRule, cost: int = 1, scope: str = "s") -> bool:
        admitted = self.counters[name].claim([LimitClaim(rule, scope, cost)], self.at) is None
        self.admitted[name] = self.admitted.get(name, 0) + (cost if admitted else 0)
        return admitted

    def demand(self, seconds: float, rule: LimitRule, per_s: dict[str, float], cost: int = 1) -> int:
        """Requests come at each gateway so often; how much was admitted."""
        before = sum(self.admitted.values())
        owed = dict.fromkeys(per_s, 0.0)

        def step() -> None:
            self.turn()
            for name, rate in per_s.items():
                owed[name] += rate * 0.1
                while owed[name] >= 1:
                    owed[name] -= 1
                    self.ask(name, rule, cost)

        self.network.run(seconds, step)
        return sum(self.admitted.values()) - before


@given(st.integers(0, 1 << 32), st.integers(2, 6))
@SLOW
def test_all_together_admit_no_more_than_the_limit_and_its_guard(seed: int, count: int) -> None:
    rng = random.Random(seed)
    fleet = Fleet(count, rng, loss=rng.random() * 0.2, late_s=rng.random() * 0.2)
    per_s = {name: rng.choice([0, 2, 20, 60]) for name in fleet.names}
    for seconds in (2.0, 10.0, 10.0):
        fleet.demand(seconds, MINUTE, per_s)
        allowed = 600 + (fleet.network.at - 1_000_003.0) * 10
        assert sum(fleet.admitted.values()) <= allowed + GUARD * 600 + count


def test_a_limit_is_used_up_by_one_busy_gateway() -> None:
    fleet = Fleet(4, random.Random(1))
    assert fleet.demand(60.0, MINUTE, {"m0": 40.0}) >= 0.97 * 1200


def test_a_limit_is_used_up_by_all_where_most_comes_to_one() -> None:
    fleet = Fleet(4, random.Random(1))
    admitted = fleet.demand(120.0, TOKENS, {"m0": 2.1, "m1": 0.3, "m2": 0.3, "m3": 0.3}, cost=850)
    assert 0.93 * (10_000 + 120_000) <= admitted <= 1.05 * 130_000


def test_what_is_below_the_limit_is_hardly_refused() -> None:
    fleet = Fleet(4, random.Random(1))
    assert fleet.demand(60.0, MINUTE, {"m0": 7.0, "m1": 1.0, "m2": 1.0}) >= 0.99 * 540


@pytest.mark.full
@given(st.integers(0, 1 << 32), st.sampled_from(["majority", "strict"]))
@SLOW
def test_a_split_keeps_the_bound_of_its_rule(seed: int, partition: str) -> None:
    rng = random.Random(seed)
    fleet = Fleet(5, rng, partition, find_out_s=4.0)
    far = rng.choice([{"m0"}, {"m0", "m1"}])
    fleet.network.split(far, set(fleet.names) - far)
    fleet.demand(6.0, MINUTE, dict.fromkeys(fleet.names, 0.0))
    per_s = dict.fromkeys(fleet.names, 30.0)
    admitted = fleet.demand(60.0, MINUTE, per_s)
    over = 0.5 if partition == "majority" else 0.0
    assert admitted <= 1200 * (1 + over) + GUARD * 600 + 5


@pytest.mark.full
@given(st.integers(0, 1 << 32))
@SLOW
def test_a_split_under_load_keeps_the_bound_while_it_is_found_out(seed: int) -> None:
    rng = random.Random(seed)
    fleet = Fleet(5, rng, "strict")
    per_s = dict.fromkeys(fleet.names, 20.0)
    fleet.demand(20.0, MINUTE, per_s)
    before = sum(fleet.admitted.values())
    fleet.network.split({"m0", "m1"}, {"m2", "m3", "m4"})
    fleet.demand(20.0, MINUTE, per_s)
    fleet.network.heal()
    fleet.demand(20.0, MINUTE, per_s)
    assert sum(fleet.admitted.values()) - before <= 400 + GUARD * 600 + 10


def test_one_way_and_partial_cuts_keep_the_bound() -> None:
    for cut in ({("m0", "m1")}, {("m0", "m1"), ("m1", "m0")}):
        fleet = Fleet(3, random.Random(1))
        fleet.network.cut |= cut
        assert fleet.demand(60.0, MINUTE, dict.fromkeys(fleet.names, 30.0)) <= 1200 + GUARD * 600 + 10


def test_windows_of_the_calendar_are_counted_together() -> None:
    fleet = Fleet(3, random.Random(1))
    assert fleet.demand(20.0, DAY, dict.fromkeys(fleet.names, 40.0)) <= 500 + GUARD * 500 + 3
    assert sum(fleet.admitted.values()) >= 500


def test_requests_at_once_of_a_gateway_that_dies_are_free_again() -> None:
    fleet = Fleet(3, random.Random(1))
    fleet.demand(9.0, AT_ONCE, {"m0": 40.0})
    assert sum(fleet.admitted.values()) == 40
    assert fleet.demand(1.0, AT_ONCE, {"m1": 40.0}) == 0
    fleet.network.members["m0"].stopped = True
    fleet.network.run(6.0, fleet.turn)
    assert fleet.demand(9.0, AT_ONCE, {"m1": 40.0}) == 40


def test_requests_at_once_that_have_ended_are_free_everywhere() -> None:
    fleet = Fleet(3, random.Random(1))
    fleet.demand(9.0, AT_ONCE, {"m0": 40.0})
    claims = [LimitClaim(AT_ONCE, "s", 1)]
    for _ in range(40):
        fleet.counters["m0"].settle(claims, [0], fleet.at, fleet.at)
    fleet.network.run(1.0, fleet.turn)
    assert fleet.demand(9.0, AT_ONCE, {"m1": 40.0}) == 40


def test_what_a_gateway_admitted_before_it_started_again_still_counts() -> None:
    fleet = Fleet(3, random.Random(1))
    fleet.demand(12.0, DAY, {"m0": 100.0})
    assert sum(fleet.admitted.values()) == 500
    fleet.network.run(1.0, fleet.turn)
    fleet.network.start("m0")
    fleet.open("m0")
    fleet.network.run(1.0, fleet.turn)
    assert fleet.demand(3.0, DAY, {"m0": 100.0}) == 0


def test_what_was_refunded_can_be_taken_elsewhere() -> None:
    fleet = Fleet(2, random.Random(1))
    at = fleet.at
    assert fleet.ask("m0", DAY, 300)
    fleet.counters["m0"].put_right([LimitClaim(DAY, "s", 300)], [100], at, at)
    fleet.network.run(0.5, fleet.turn)
    fleet.ask("m1", DAY, 0)
    [state] = fleet.counters["m1"].look([LimitClaim(DAY, "s", 0)])
    assert state.second == 100
    fleet.counters["m0"].put_right([LimitClaim(DAY, "s", 100)], [40], at, at)
    fleet.network.run(0.5, fleet.turn)
    [state] = fleet.counters["m1"].look([LimitClaim(DAY, "s", 0)])
    assert state.second == 40


def test_a_gateway_alone_takes_all_at_once() -> None:
    counters = MeshCounters(MemoryCounters(10, "UTC"), "UTC", GUARD, "majority", 10)
    at = Instant(1_000_000, 1.0)
    assert sum(counters.claim([LimitClaim(MINUTE, "s", 1)], at) is None for _ in range(700)) == 600


@pytest.mark.parametrize("most", [1, 8])
def test_scopes_are_bounded(most: int) -> None:
    counters = MeshCounters(MemoryCounters(100, "UTC"), "UTC", GUARD, "majority", most)
    node = Node(Writer("a", 1), NodeTerms(), random.Random(1), 0.0)
    for number in range(50):
        counters.claim([LimitClaim(MINUTE, f"s{number}", 1)], Instant(1_000_000, 1.0))
        counters.tell(node, 1.0)
    assert len(counters._own) == len(counters._scopes) == most
