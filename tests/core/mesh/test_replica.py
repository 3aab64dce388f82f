"""What members say of themselves is merged: in any order, twice, late or in parts, with one result and within its bounds."""

import random

import attrs
from hypothesis import given
from hypothesis import strategies as st

from smg_core.mesh.state.entries import EntryPlace, MeshBounds, MeshChange, MeshDelta, Space, WireEntry, Writer
from smg_core.mesh.state.replica import Replica

LONG = 3600.0


def words(name: str, count: int, epoch: int = 1) -> Replica:
    """A member that has said so many things, some of them again."""
    replica = Replica(Writer(name, epoch))
    for number in range(count):
        replica.put(EntryPlace(Space.LOAD, b"w%d" % (number % 5)), b"%s%d" % (name.encode(), number), LONG, 0.0)
    return replica


def pieces(replica: Replica, cuts: list[int]) -> list[MeshDelta]:
    """All that a member has said, cut at these versions as it was said."""
    found = []
    for first, last in zip([0, *cuts], [*cuts, replica.version], strict=True):
        whole = replica.delta(replica.own, first, 1 << 30, 0.0)
        entries = tuple(each for each in whole.entries if each.version <= last)
        found.append(MeshDelta(replica.own, first, last, entries))
    return found


@given(st.data())
def test_deltas_in_any_order_and_twice_come_to_the_same(data) -> None:
    members = [words(name, data.draw(st.integers(1, 12))) for name in "abc"]
    deltas = []
    for member in members:
        cuts = sorted(data.draw(st.sets(st.integers(1, member.version))))
        deltas += pieces(member, cuts)
    one, other = Replica(Writer("x", 1)), Replica(Writer("x", 1))
    for delta in deltas:
        one.take(delta, 0.0)
    for delta in data.draw(st.permutations(deltas + deltas[: data.draw(st.integers(0, len(deltas)))])):
        other.take(delta, 0.0)
    assert one.content() == other.content()


@given(st.data())
def test_merging_two_replicas_first_makes_no_difference(data) -> None:
    deltas = [delta for name in "ab" for delta in pieces(words(name, data.draw(st.integers(1, 9))), [1])]
    straight, middle, last = (Replica(Writer(name, 1)) for name in ("x", "y", "z"))
    for delta in deltas:
        straight.take(delta, 0.0)
        middle.take(delta, 0.0)
    for name in "ab":
        writer = Writer(name, 1)
        last.take(middle.delta(writer, 0, 1 << 30, 0.0), 0.0)
    assert straight.content() == last.content()
    before = last.content()
    for delta in deltas:
        assert not last.take(delta, 0.0).changes
    assert last.content() == before


def test_versions_of_a_member_never_go_back() -> None:
    member, other = words("a", 10), Replica(Writer("b", 1))
    for delta in reversed(pieces(member, [3, 6])):
        seen = other.version_of(member.own)
        other.take(delta, 0.0)
        assert other.version_of(member.own) >= seen


def test_a_gap_is_known_and_closed_by_what_was_missing() -> None:
    member, other = words("a", 10), Replica(Writer("b", 1))
    early, late = pieces(member, [4])
    assert other.take(late, 0.0).gap
    assert other.version_of(member.own) == 0
    assert not other.take(early, 0.0).gap
    assert not other.take(late, 0.0).gap
    assert other.version_of(member.own) == 10


def test_a_later_start_replaces_what_an_earlier_one_said_but_for_its_counters() -> None:
    before, other = Replica(Writer("a", 1)), Replica(Writer("b", 1))
    before.put(EntryPlace(Space.LOAD, b"w"), b"5", LONG, 0.0)
    before.put(EntryPlace(Space.COUNTER, b"c"), b"7", LONG, 0.0)
    other.take(before.delta(before.own, 0, 1 << 20, 0.0), 0.0)
    after = Replica(Writer("a", 2))
    after.put(EntryPlace(Space.COUNTER, b"c"), b"1", LONG, 0.0)
    taken = other.take(after.delta(after.own, 0, 1 << 20, 0.0), 0.0)
    assert [(change.space, change.value) for change in taken.changes] == [(Space.LOAD, b""), (Space.COUNTER, b"1")]
    assert sorted(value for _, value in other.values(EntryPlace(Space.COUNTER, b"c"))) == [b"1", b"7"]
    assert other.take(before.delta(before.own, 0, 1 << 20, 0.0), 0.0).stale


def test_what_a_member_said_goes_with_it_and_its_counters_at_the_end_of_their_window() -> None:
    member, other = Replica(Writer("a", 1)), Replica(Writer("b", 1))
    member.put(EntryPlace(Space.LOAD, b"w"), b"5", LONG, 0.0)
    member.put(EntryPlace(Space.COUNTER, b"c"), b"7", 60.0, 0.0)
    other.take(member.delta(member.own, 0, 1 << 20, 0.0), 0.0)
    assert [change.space for change in other.gone("a")] == [Space.LOAD]
    assert [value for _, value in other.values(EntryPlace(Space.COUNTER, b"c"))] == [b"7"]
    assert not other.expire(60.0)
    assert [change.space for change in other.expire(61.0)] == [Space.COUNTER]
    assert (other.entries, other.size, other.content()) == (0, 0, {})


def test_a_member_that_comes_back_is_known_anew() -> None:
    member, other = words("a", 3), Replica(Writer("b", 1))
    other.take(member.delta(member.own, 0, 1 << 20, 0.0), 0.0)
    other.gone("a")
    late = MeshDelta(member.own, 2, 3, member.delta(member.own, 2, 1 << 20, 0.0).entries)
    assert other.take(late, 0.0).gap
    other.take(member.delta(member.own, 0, 1 << 20, 0.0), 0.0)
    assert other.content()[member.own] == member.content()[member.own]


def test_words_under_ones_own_name_are_told_and_not_taken() -> None:
    replica = Replica(Writer("a", 5))
    replica.put(EntryPlace(Space.LOAD, b"w"), b"mine", LONG, 0.0)
    foreign = MeshDelta(Writer("a", 9), 0, 1, (WireEntry(Space.LOAD, b"w", 1, b"foreign", 60),))
    assert replica.take(foreign, 0.0).about_us == Writer("a", 9)
    replica.rise_above(9)
    assert replica.own == Writer("a", 10)
    # Somebody here may wait until all know version 1: the words that are said anew have higher ones.
    assert replica.content() == {Writer("a", 10): {EntryPlace(Space.LOAD, b"w"): (2, b"mine")}}


@given(st.integers(1, 60), st.integers(64, 4000))
def test_a_delta_keeps_within_its_room_and_parts_make_the_whole(count: int, room: int) -> None:
    member, other = Replica(Writer("a", 1)), Replica(Writer("b", 1))
    for number in range(count):
        member.put(EntryPlace(Space.LOAD, b"w%d" % number), b"x" * 50, LONG, 0.0)
    after = turns = 0
    while after < member.version:
        delta = member.delta(member.own, after, room, 0.0)
        assert delta.first == after < delta.last
        assert not other.take(delta, 0.0).gap
        after, turns = delta.last, turns + 1
        assert turns <= count
    assert other.content() == member.content()


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 300)), max_size=300))
def test_what_has_no_room_is_counted_and_the_bounds_hold(said: list[tuple[int, int]]) -> None:
    bounds = MeshBounds(entries=64, kept_bytes=8000)
    replica = Replica(Writer("b", 1), bounds)
    for version, (key, size) in enumerate(said, start=1):
        told = WireEntry(Space.LOAD, b"k%d" % key, version, b"v" * size, 60)
        replica.take(MeshDelta(Writer("a", 1), version - 1, version, (told,)), 0.0)
        assert replica.entries <= 16
        assert replica.size <= 2000
    kept = replica.content().get(Writer("a", 1), {})
    assert replica.entries == len(kept)
    assert replica.refused + len(said) >= len(kept)
    replica.expire(62.0)
    replica.gone("a")
    assert (replica.entries, replica.size) == (0, 0)


def test_more_members_than_may_be_are_not_kept() -> None:
    replica = Replica(Writer("b", 1), MeshBounds(writers=3))
    for number in range(10):
        replica.take(MeshDelta(Writer(f"m{number}", 1), 0, 1, ()), 0.0)
    assert (len(replica.members), replica.refused) == (3, 8)


def test_words_that_are_too_long_or_last_too_long_are_not_taken_as_they_are() -> None:
    replica = Replica(Writer("b", 1), MeshBounds(value_bytes=10, key_bytes=4, lasts_s=100))
    long = (
        WireEntry(1, b"12345", 1, b"v", 60),
        WireEntry(1, b"k", 2, b"v" * 11, 60),
        WireEntry(1, b"k2", 3, b"v", 1 << 40),
    )
    replica.take(MeshDelta(Writer("a", 1), 0, 3, long), 0.0)
    assert (replica.refused, replica.entries) == (2, 1)
    assert len(replica.expire(102.0)) == 1


@given(st.randoms(use_true_random=False))
def test_words_handed_on_out_of_order_are_still_told_in_order(rng: random.Random) -> None:
    member, middle, last = words("a", 9), Replica(Writer("b", 1)), Replica(Writer("c", 1))
    deltas = pieces(member, [2, 4, 7])
    rng.shuffle(deltas)
    for delta in deltas:
        middle.take(delta, 0.0)
    for delta in deltas:
        middle.take(delta, 0.0)
    for delta in deltas:
        middle.take(delta, 0.0)
    for _ in range(4):
        middle.take(member.delta(member.own, 0, 1 << 20, 0.0), 0.0)
    told = middle.delta(member.own, 0, 1 << 20, 0.0)
    assert [each.version for each in told.entries] == sorted(each.version for each in told.entries)
    last.take(told, 0.0)
    assert last.content() == {each: kept for each, kept in middle.content().items() if each == member.own}


def test_a_sum_tells_words_that_are_not_the_same() -> None:
    one, other = Replica(Writer("x", 1)), Replica(Writer("x", 1))
    for replica, value in ((one, b"1"), (other, b"2")):
        replica.take(MeshDelta(Writer("a", 1), 0, 1, (WireEntry(Space.ROSTER, b"w", 1, value, 60),)), 0.0)
    assert one.digest() == other.digest()
    assert one.sums() != other.sums()
    assert attrs.asdict(one.bounds) == attrs.asdict(other.bounds)


def test_a_writer_that_says_the_same_place_again_and_again_takes_no_more_room() -> None:
    replica = Replica(Writer("m0", 1))
    other = Writer("m1", 1)
    for version in range(1, 5001):
        entry = WireEntry(Space.COUNTER, b"k", version, b"v", 60 + version % 3)
        replica.take(MeshDelta(other, version - 1, version, (entry,)), version / 1000)
    known = replica._known[other]
    assert len(known.log) <= 100
    assert sum(map(len, replica._due.values())) <= 3
    assert [entry.version for _, entry in known.since(0)] == [5000]
    assert replica.expire(70.0, 100) == [MeshChange(other, Space.COUNTER, b"k", b"")]
    assert replica.entries == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(0, 9)), min_size=1, max_size=40))
def test_an_entry_is_forgotten_when_it_is_over_however_often_it_was_said(said: list[tuple[int, int, int]]) -> None:
    replica, now, ends = Replica(Writer("m0", 1)), 0.0, dict[bytes, float]()
    for key, lasts, later in said:
        now += later
        replica.expire(now)
        ends = {place: until for place, until in ends.items() if int(until) + 1 > now}
        assert {place.key for place in replica._known[replica.own].entries} == set(ends)
        name = b"%d" % key
        replica.put(EntryPlace(Space.HEALTH, name), b"v", lasts, now)
        ends[name] = now + lasts
    replica.expire(now + 40)
    assert replica.entries == 0
    assert not replica._due
