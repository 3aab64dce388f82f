"""Members over a network that loses, doubles, delays and reorders messages, splits and heals: all come to know the same."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.mesh.network import ACTS, BeatingNetwork, Network, act

from smg_core.mesh.state.entries import MeshBounds, MeshDelta, Space, WireEntry, Writer
from smg_core.mesh.state.format import FORMATS, KnownLine, written_delta, written_digest
from smg_core.mesh.state.node import Node, NodeTerms

SEEDS = st.integers(0, 1 << 32)
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def equal_after(network: Network, seconds: float) -> None:
    """All members know what all members say, at the latest after so long."""
    network.run(seconds)
    for name, view in network.views():
        assert view == network.expected(), name


@pytest.mark.full
@given(SEEDS, st.integers(3, 8), st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0, 0.5))
@SLOW
def test_all_know_the_same_after_loss_doubling_delay_and_reordering(
    seed: int, count: int, loss: float, doubled: float, late_s: float
) -> None:
    rng = random.Random(seed)
    network = Network(count, rng, loss=loss, doubled=doubled, late_s=late_s)

    def talk() -> None:
        if rng.random() < 0.3:
            network.say(rng.choice(list(network.members)), b"k%d" % rng.randrange(6), b"%d" % rng.randrange(1000))

    network.run(10.0, talk)
    network.heal()
    equal_after(network, 3 * network.terms.sync_s)


@pytest.mark.full
@given(SEEDS, st.sampled_from(["halves", "one way", "partial", "moving"]))
@SLOW
def test_all_know_the_same_three_periods_after_a_partition_has_healed(seed: int, kind: str) -> None:
    rng = random.Random(seed)
    network = Network(rng.randrange(3, 8), rng)
    names = list(network.members)

    def part() -> None:
        one = set(rng.sample(names, rng.randrange(1, len(names))))
        if kind in ("halves", "moving"):
            network.cut.clear()
            network.split(one, set(names) - one)
        elif kind == "one way":
            network.cut |= {(a, b) for a in one for b in set(names) - one}
        else:
            network.cut |= {(names[0], names[1]), (names[1], names[0])}

    for _ in range(3 if kind == "moving" else 1):
        part()
        network.run(4.0, lambda: network.say(rng.choice(names), b"k%d" % rng.randrange(4), b"%d" % rng.randrange(99)))
    network.heal()
    equal_after(network, 3 * network.terms.sync_s)


@pytest.mark.full
@given(SEEDS)
@SLOW
def test_members_that_restart_without_memory_or_with_a_clock_set_back_are_known_as_they_are_now(seed: int) -> None:
    rng = random.Random(seed)
    network = Network(4, rng, loss=0.1)
    names = list(network.members)
    for name in names:
        network.say(name, b"before", b"1")
    network.run(3.0)
    for _ in range(3):
        name = rng.choice(names)
        network.start(name, epoch_back=rng.choice([0, 0, 60_000, 86_400_000]))
        network.say(name, b"after", b"%d" % rng.randrange(99))
        network.run(rng.random() * 3)
    network.heal()
    equal_after(network, 3 * network.terms.sync_s)


@pytest.mark.full
@given(SEEDS)
@SLOW
def test_members_that_stop_for_long_or_whose_clock_jumps_come_back_to_the_same(seed: int) -> None:
    rng = random.Random(seed)
    network = Network(5, rng, late_s=0.3)
    names = list(network.members)
    stopped = rng.choice(names)
    network.say(stopped, b"k", b"before")
    network.run(2.0)
    network.members[stopped].stopped = True
    network.run(rng.choice([2.0, 30.0]), lambda: network.say(rng.choice(names), b"k", b"%d" % rng.randrange(99)))
    network.members[stopped].stopped = False
    network.jump(rng.choice(names), rng.choice([10.0, 30.0]))
    network.heal()
    equal_after(network, 3 * network.terms.sync_s + network.find_out_s)


@pytest.mark.full
@pytest.mark.parametrize("kind", [Network, BeatingNetwork])
@given(SEEDS, st.integers(3, 30), st.lists(st.sampled_from(ACTS), min_size=2, max_size=6))
@SLOW
def test_whatever_happened_all_know_the_same_three_periods_after_it_is_over(
    kind: type[Network], seed: int, count: int, acts: list[str]
) -> None:
    rng = random.Random(seed)
    network = kind(count, rng)

    def talk() -> None:
        running = [each.name for each in network.members.values() if not each.stopped]
        if running and rng.random() < 0.2:
            network.say(rng.choice(running), b"k%d" % rng.randrange(4), b"%d" % rng.randrange(99))

    network.run(1.0, talk)
    for what in acts:
        act(network, rng, what)
        network.run(rng.choice([0.3, 2.0, 6.0]), talk)
    network.heal()
    for each in network.members.values():
        each.stopped = False
    network.run(network.find_out_s)
    assert [len(each.node.peers) for each in network.members.values()] == [count - 1] * count
    equal_after(network, 3 * network.terms.sync_s)


@pytest.mark.parametrize("count", [3, pytest.param(30, marks=pytest.mark.full)])
def test_what_is_said_is_known_everywhere_within_half_a_second(count: int) -> None:
    network = Network(count, random.Random(7), late_s=0.05)
    network.run(2.0)
    network.say("m1", b"k", b"v")
    network.run(0.5)
    assert all(view[("m1", b"k")] == b"v" for _, view in network.views())


@pytest.mark.full
@given(SEEDS)
@SLOW
def test_nobody_who_answers_is_lost_and_a_member_in_one_way_trouble_does_not_flap(seed: int) -> None:
    rng = random.Random(seed)
    network = Network(5, rng, loss=rng.random() * 0.3, late_s=0.3)
    a, b = rng.sample(list(network.members), 2)
    network.cut.add((a, b))
    network.run(20.0)
    assert all(len(each.node.peers) == 4 for each in network.members.values())
    assert all(each.node.standing(each.now(network.at)) == (5, 5) for each in network.members.values())


def test_a_member_that_two_others_cannot_reach_directly_is_still_known_over_a_third() -> None:
    network = Network(3, random.Random(1))
    network.cut |= {("m0", "m1"), ("m1", "m0")}
    network.run(1.0)
    network.say("m0", b"k", b"v")
    network.run(3 * network.terms.sync_s)
    assert dict(network.views())["m1"][("m0", b"k")] == b"v"


def test_sides_of_a_partition_know_how_many_they_are() -> None:
    network = Network(5, random.Random(1))
    network.run(1.0)
    network.split({"m0", "m1"}, {"m2", "m3", "m4"})
    network.run(6.0)
    standing = {name: each.node.standing(network.at) for name, each in network.members.items()}
    assert standing["m0"] == (2, 5)
    assert not standing["m0"].majority
    assert standing["m4"] == (3, 5)
    assert standing["m4"].majority
    network.heal()
    network.run(2.0)
    assert network.members["m0"].node.standing(network.at) == (5, 5)


def test_a_member_that_leaves_is_no_part_of_the_whole_and_one_that_is_lost_is_for_a_while() -> None:
    node = Node(Writer("a", 1), NodeTerms(remember_s=100.0), random.Random(1), 0.0)
    node.joined("b", FORMATS, 0.0)
    node.joined("c", FORMATS, 0.0)
    node.left("b")
    node.lost("c", 5.0)
    assert node.standing(100.0) == (1, 2)
    assert node.standing(106.0) == (1, 1)


# ------------------------------------------------------------------------------------------------------------- hostile


def a_node(**terms) -> Node:
    node = Node(Writer("a", 1), NodeTerms(**terms), random.Random(1), 0.0)
    node.joined("b", FORMATS, 0.0)
    node.take_changes()
    return node


def a_delta(name: str, *told: WireEntry, first: int = 0, epoch: int = 1) -> bytes:
    writer = Writer(name, epoch)
    return written_delta(writer, MeshDelta(writer, first, max((each.version for each in told), default=first), told))


def test_messages_of_an_unknown_member_change_nothing() -> None:
    node = a_node()
    assert node.received("x", a_delta("x", WireEntry(4, b"w", 1, b"v", 60)), 0.0) == []
    assert (node.take_changes(), node.tally["unknown"]) == ([], 1)


def test_a_member_that_writes_under_anothers_name_changes_nothing() -> None:
    node = a_node()
    node.joined("c", FORMATS, 0.0)
    assert node.received("b", a_delta("c", WireEntry(4, b"w", 1, b"v", 60)), 0.0) == []
    assert (node.take_changes(), node.tally["forged"]) == ([], 1)


def test_words_of_a_member_that_is_not_there_are_not_taken_from_another_one() -> None:
    node = a_node()
    strange = MeshDelta(Writer("x", 1), 0, 1, (WireEntry(4, b"w", 1, b"v", 60),))
    node.received("b", written_delta(Writer("b", 1), strange), 0.0)
    assert (node.take_changes(), node.tally["unknown"]) == ([], 1)


def test_a_replayed_message_changes_nothing() -> None:
    node = a_node()
    data = a_delta("b", WireEntry(4, b"w", 1, b"v", 60))
    node.received("b", data, 0.0)
    assert len(node.take_changes()) == 1
    later = a_delta("b", WireEntry(4, b"w", 2, b"later", 60), first=1)
    node.received("b", later, 0.0)
    node.take_changes()
    node.received("b", data, 1.0)
    assert node.take_changes() == []


def test_bytes_that_are_no_message_are_counted() -> None:
    node = a_node()
    for data in (b"", b"\xc1", b"\x90", bytes(2000)):
        assert node.received("b", data, 0.0) == []
    assert node.tally["malformed"] == 4


@pytest.mark.full
def test_a_hundred_thousand_keys_of_one_member_are_bounded() -> None:
    node = a_node(bounds=MeshBounds(entries=4096))
    for version in range(1, 100_001, 1000):
        told = tuple(WireEntry(4, b"%d" % each, each, b"v", 60) for each in range(version, version + 1000))
        node.received("b", a_delta("b", *told, first=version - 1), 0.0)
    assert node.replica.entries <= 1024
    assert node.replica.refused >= 98_000


def test_a_claim_of_a_far_start_under_ones_own_name_is_not_followed() -> None:
    node = a_node()
    node.received("b", written_digest(Writer("b", 1), [KnownLine("a", 1 << 60, 5)]), 0.0)
    assert (node.own, node.tally["malformed"]) == (Writer("a", 1), 1)


def test_what_one_member_sends_has_a_bound_of_bytes_in_a_second() -> None:
    node = a_node(bytes_s=20_000, message_bytes=2000)
    for number in range(2000):
        node.put(Space.LOAD, b"w%d" % number, b"x" * 100, 60.0, 0.0)
    sent = [sum(len(send.data) for send in node.tick(at)) for at in (0.0, 0.1, 0.2, 0.3)]
    assert sum(sent) <= 20_000 * 1.3 + 2200
    total, at = sum(sent), 0.3
    while node.tick(at + 0.1) and at < 60:
        at += 0.1
    assert node.replica.version_of(node.own) > 2000
    assert total > 15_000


def test_messages_keep_within_their_size() -> None:
    node = a_node(message_bytes=4096)
    for number in range(500):
        node.put(Space.LOAD, b"w%d" % number, b"x" * 100, 60.0, 0.0)
    sends = node.tick(0.0)
    assert len(sends) > 5
    assert max(len(send.data) for send in sends) <= 4096


def test_kinds_of_later_releases_are_skipped() -> None:
    import msgspec

    node = a_node()
    assert node.received("b", msgspec.msgpack.encode([1, 99, "b", 1, 0, 0, {"x": 1}]), 0.0) == []
    assert node.tally["other_kinds"] == 1


def test_words_that_differ_at_equal_versions_are_asked_for_anew() -> None:
    node = a_node()
    node.joined("c", FORMATS, 0.0)
    node.received("c", a_delta("c", WireEntry(Space.ROSTER, b"w", 1, b"wrong", 60)), 0.0)
    sums = {"c": 12345}
    sends = node.received(
        "b",
        written_digest(Writer("b", 1), [KnownLine("c", 1, 1), KnownLine("a", 1, 0), KnownLine("b", 1, 0)], sums),
        9.0,
    )
    assert node.tally["diverged"] == 1
    assert sends
    node.received("c", a_delta("c", WireEntry(Space.ROSTER, b"w", 1, b"right", 60)), 9.0)
    assert [value for _, _, value in node.replica.in_space(Space.ROSTER)] == [b"right"]


def test_nobody_waits_for_long_for_a_member_that_is_there_and_does_not_say_what_it_knows() -> None:
    node = Node(Writer("a", 1), NodeTerms(), random.Random(1), 0.0)
    node.joined("hangs", FORMATS, 0.0)
    node.put(Space.HEALTH, b"k", b"v", 60.0, 0.0)
    node.tick(0.1)
    assert node.unheard
    node.tick(10.0)
    assert node.unheard
    node.tick(12.0)
    assert not node.unheard
    assert node.all_know == node.replica.version
