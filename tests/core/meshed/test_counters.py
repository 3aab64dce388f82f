"""Limits over several gateways: what one admits counts at all, and together they keep the bound, whatever the network does."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.mesh.network import act
from tests.core.meshed.fleets import GUARD, Fleet, Several

from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.mesh.state.counts import CountedWindow, MemberCount, read_counter_key, written_count, written_counter_key
from smg_core.mesh.state.entries import MeshChange, Space, Writer
from smg_core.mesh.state.node import Node, NodeTerms
from smg_core.meshed.counters import MeshCounters, window_number
from smg_core.meshed.shared_rows import scope_bytes

MINUTE = LimitRule(600, "requests", "minute", 600)
TOKENS = LimitRule(60_000, "tokens", "minute", 10_000)
DAY = LimitRule(500, "requests", "day")
AT_ONCE = LimitRule(40, "at_once")
SLOW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


PROCESSES = pytest.mark.parametrize("processes", [1, 2])
"""Of several processes, one has to look for what others have charged of a scope that is new: until then it gives one request."""


@pytest.mark.full
@given(st.integers(0, 1 << 32), st.integers(2, 6), st.sampled_from([1, 2]))
@SLOW
def test_all_together_admit_no_more_than_the_limit_and_its_guard(seed: int, count: int, processes: int) -> None:
    rng = random.Random(seed)
    fleet = Fleet(count, rng, processes=processes, loss=rng.random() * 0.2, late_s=rng.random() * 0.2)
    per_s = {name: rng.choice([0, 2, 20, 60]) for name in fleet.names}
    for seconds in (2.0, 10.0, 10.0):
        fleet.demand(seconds, MINUTE, per_s)
        allowed = 600 + (fleet.network.at - 1_000_003.0) * 10
        assert sum(fleet.admitted.values()) <= allowed + GUARD * 600 + count


@pytest.mark.full
@PROCESSES
def test_a_limit_is_used_up_by_one_busy_gateway(processes: int) -> None:
    fleet = Fleet(4, random.Random(1), processes=processes)
    assert fleet.demand(60.0, MINUTE, {"m0": 40.0}) >= 0.97 * 1200


@pytest.mark.full
@PROCESSES
def test_a_limit_is_used_up_by_all_where_most_comes_to_one(processes: int) -> None:
    fleet = Fleet(4, random.Random(1), processes=processes)
    admitted = fleet.demand(120.0, TOKENS, {"m0": 2.1, "m1": 0.3, "m2": 0.3, "m3": 0.3}, cost=850)
    assert 0.93 * (10_000 + 120_000) <= admitted <= 1.05 * 130_000


@pytest.mark.full
@PROCESSES
def test_what_is_below_the_limit_is_hardly_refused(processes: int) -> None:
    fleet = Fleet(4, random.Random(1), processes=processes)
    assert fleet.demand(60.0, MINUTE, {"m0": 7.0, "m1": 1.0, "m2": 1.0}) >= 0.99 * 540


@pytest.mark.full
@given(st.integers(0, 1 << 32), st.sampled_from(["majority", "strict"]), st.sampled_from([1, 2]))
@SLOW
def test_a_split_keeps_the_bound_of_its_rule(seed: int, partition: str, processes: int) -> None:
    rng = random.Random(seed)
    fleet = Fleet(5, rng, partition, processes, find_out_s=4.0)
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


@pytest.mark.full
@given(
    st.integers(0, 1 << 32),
    st.integers(3, 30),
    st.sampled_from(["majority", "strict"]),
    st.lists(st.sampled_from(["halves", "one way", "partial", "stop", "loss", "heal"]), min_size=1, max_size=4),
)
@SLOW
def test_no_limit_is_over_its_bound_whatever_the_network_does(
    seed: int, count: int, partition: str, acts: list[str]
) -> None:
    rng = random.Random(seed)
    fleet = Fleet(count, rng, partition)
    over = 0.5 if partition == "majority" else 0.0
    for what in acts:
        act(fleet.network, rng, what)
        running = [each.name for each in fleet.network.members.values() if not each.stopped]
        fleet.demand(rng.choice([1.0, 8.0]), MINUTE, dict.fromkeys(running, 60.0 / count))
        allowed = 600 + (fleet.network.at - 1_000_003.0) * 10
        assert sum(fleet.admitted.values()) <= allowed * (1 + over) + GUARD * 600 + count


@pytest.mark.full
@PROCESSES
def test_one_way_and_partial_cuts_keep_the_bound(processes: int) -> None:
    for cut in ({("m0", "m1")}, {("m0", "m1"), ("m1", "m0")}):
        fleet = Fleet(3, random.Random(1), processes=processes)
        fleet.network.cut |= cut
        assert fleet.demand(60.0, MINUTE, dict.fromkeys(fleet.names, 30.0)) <= 1200 + GUARD * 600 + 10


@pytest.mark.full
@PROCESSES
@pytest.mark.parametrize("off_s", [3600.0, -3600.0, 40.0])
def test_a_gateway_whose_clock_is_off_counts_and_is_counted(off_s: float, processes: int) -> None:
    fleet = Fleet(3, random.Random(1), processes=processes)
    fleet.off["m0"] = off_s
    for _ in range(2):
        admitted = fleet.demand(60.0, MINUTE, dict.fromkeys(fleet.names, 30.0))
        assert admitted <= 1200 + GUARD * 600 + 3
    fleet.open("m1")  # of which nobody has asked there before
    fleet.network.start("m1")
    assert fleet.demand(10.0, MINUTE, {"m1": 60.0}) <= 100 + GUARD * 600 + 3


@PROCESSES
@pytest.mark.parametrize("rule", [MINUTE, DAY], ids=["minute", "day"])
def test_what_others_took_while_nobody_asked_here_counts_once_somebody_does(rule: LimitRule, processes: int) -> None:
    fleet = Fleet(2, random.Random(1), processes=processes)
    assert fleet.ask("m1", rule)
    fleet.network.at += 2 * 86_400.0
    fleet.network.run(4.0, fleet.turn)
    taken = fleet.demand(20.0, rule, {"m0": 60.0})
    assert taken >= 500
    fleet.network.run(1.0, fleet.turn)
    assert fleet.demand(1.0, rule, {"m1": 60.0}) <= 10 + GUARD * 600


@PROCESSES
def test_windows_of_the_calendar_are_counted_together(processes: int) -> None:
    fleet = Fleet(3, random.Random(1), processes=processes)
    assert fleet.demand(20.0, DAY, dict.fromkeys(fleet.names, 40.0)) <= 500 + GUARD * 500 + 3
    assert sum(fleet.admitted.values()) >= 500


@PROCESSES
def test_requests_at_once_of_a_gateway_that_dies_are_free_again(processes: int) -> None:
    fleet = Fleet(3, random.Random(1), processes=processes)
    fleet.demand(9.0, AT_ONCE, {"m0": 40.0})
    assert sum(fleet.admitted.values()) == 40
    first = fleet.demand(1.0, AT_ONCE, {"m1": 40.0})
    assert first <= processes - 1
    fleet.network.members["m0"].stopped = True
    fleet.network.run(6.0, fleet.turn)
    assert first + fleet.demand(9.0, AT_ONCE, {"m1": 40.0}) == 40


@PROCESSES
def test_requests_at_once_that_have_ended_are_free_everywhere(processes: int) -> None:
    fleet = Fleet(3, random.Random(1), processes=processes)
    fleet.demand(9.0, AT_ONCE, {"m0": 40.0})
    claims = [LimitClaim(AT_ONCE, "s", 1)]
    for _ in range(40):
        fleet.counters["m0"].settle(claims, [0], fleet.at, fleet.at)
    fleet.network.run(1.0, fleet.turn)
    assert fleet.demand(9.0, AT_ONCE, {"m1": 40.0}) == 40


@PROCESSES
def test_what_a_gateway_admitted_before_it_started_again_still_counts(processes: int) -> None:
    fleet = Fleet(3, random.Random(1), processes=processes)
    fleet.demand(12.0, DAY, {"m0": 100.0})
    assert sum(fleet.admitted.values()) == 500
    fleet.network.run(1.0, fleet.turn)
    fleet.network.start("m0")
    fleet.open("m0")
    fleet.network.run(1.0, fleet.turn)
    assert fleet.demand(3.0, DAY, {"m0": 100.0}) <= processes - 1


@PROCESSES
def test_what_was_refunded_can_be_taken_elsewhere(processes: int) -> None:
    fleet = Fleet(2, random.Random(1), processes=processes)
    at = fleet.at
    assert fleet.ask("m0", DAY, 300)
    fleet.counters["m0"].put_right([LimitClaim(DAY, "s", 300)], [100], at, at)
    fleet.network.run(0.5, fleet.turn)
    fleet.ask("m1", DAY, 0)
    fleet.network.run(0.2, fleet.turn)
    [state] = fleet.counters["m1"].look([LimitClaim(DAY, "s", 0)])
    assert state.second == 100
    fleet.counters["m0"].put_right([LimitClaim(DAY, "s", 100)], [40], at, at)
    fleet.network.run(0.5, fleet.turn)
    [state] = fleet.counters["m1"].look([LimitClaim(DAY, "s", 0)])
    assert state.second == 40


def test_a_gateway_alone_takes_all_at_once() -> None:
    counters = MeshCounters(MemoryCounters(10, "UTC"), "UTC", GUARD, "majority", 10, lambda: 1.0)
    at = Instant(1_000_000, 1.0)
    assert sum(counters.claim([LimitClaim(MINUTE, "s", 1)], at) is None for _ in range(700)) == 600


@pytest.mark.parametrize("most", [1, 8])
def test_scopes_are_bounded(most: int) -> None:
    counters = MeshCounters(MemoryCounters(100, "UTC"), "UTC", GUARD, "majority", most, lambda: 1.0)
    node = Node(Writer("a", 1), NodeTerms(), random.Random(1), 0.0)
    for number in range(50):
        counters.claim([LimitClaim(MINUTE, f"s{number}", 1)], Instant(1_000_000, 1.0))
        counters.tell(node, 1.0)
    assert len(counters._own) == len(counters._scopes) == most


@pytest.mark.full
def test_another_process_that_speaks_for_its_gateway_loses_nothing_and_counts_nothing_twice() -> None:
    fleet = Fleet(3, random.Random(1), processes=2)
    fleet.demand(2.0, DAY, {"m0": 60.0, "m1": 60.0})
    gateway = fleet.counters["m0"]
    assert isinstance(gateway, Several)
    fleet.network.start("m0")  # the member of the mesh is another start, and the counters stay
    gateway.next_speaker()
    fleet.network.run(2.0, fleet.turn)
    admitted = sum(fleet.admitted.values())
    for counters in (fleet.counters["m0"], fleet.counters["m1"]):
        [state] = counters.look([LimitClaim(DAY, "s", 0)])
        assert state.second == admitted
    assert admitted + fleet.demand(30.0, DAY, dict.fromkeys(fleet.names, 40.0)) in (500, 501)


def test_a_gateway_for_which_nobody_speaks_goes_on_with_its_share() -> None:
    fleet = Fleet(4, random.Random(1), processes=2)
    fleet.demand(10.0, MINUTE, dict.fromkeys(fleet.names, 40.0))
    gateway = fleet.counters["m0"]
    assert isinstance(gateway, Several)
    at = Instant(fleet.at.monotonic_us + 120_000_000, fleet.at.wall_s + 120)
    assert sum(gateway.claim([LimitClaim(MINUTE, "s", 1)], at) is None for _ in range(700)) == 150


@given(st.integers(0, 1 << 62), st.integers(1, 10**12), st.sampled_from(["second", "hour", "day", "ever", ""]))
def test_what_others_say_that_they_charged_fits_into_shared_memory(used: int, amount: int, window: str) -> None:
    fleet = Fleet(2, random.Random(1), processes=2)
    rule = LimitRule(amount, "requests" if window else "at_once", window, amount if window in ("second", "hour") else 0)  # type: ignore[arg-type]
    fleet.ask("m0", rule)
    fleet.network.run(0.3, fleet.turn)
    gateway, writer = fleet.counters["m0"], Writer("m1", 5)
    number = window_number(rule, "UTC", fleet.at.wall_s)
    key = written_counter_key(CountedWindow(scope_bytes("s"), number))
    for value in (written_count(MemberCount(used)), written_count(MemberCount(0)), b""):
        gateway.hear([MeshChange(writer, Space.LOAD, key, value)], fleet.network.at)
    fleet.ask("m0", rule)


def test_a_limit_of_which_little_is_taken_is_told_of_within_seconds_and_one_that_is_nearly_used_up_at_once() -> None:
    fleet = Fleet(2, random.Random(1))
    fleet.ask("m0", TOKENS, 10, scope="calm")
    fleet.ask("m0", TOKENS, 9_000, scope="busy")
    fleet.network.run(0.5, fleet.turn)
    scopes = [
        read_counter_key(key).scope for _, key, _ in fleet.network.members["m1"].node.replica.in_space(Space.COUNTER)
    ]
    assert scopes == [scope_bytes("busy")]
    fleet.network.run(6.0, fleet.turn)
    scopes = [
        read_counter_key(key).scope for _, key, _ in fleet.network.members["m1"].node.replica.in_space(Space.COUNTER)
    ]
    assert set(scopes) == {scope_bytes("busy"), scope_bytes("calm")}
