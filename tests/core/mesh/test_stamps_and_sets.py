"""The hybrid clock and the set of workers: all members come to the same, whatever they hear in which order."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.mesh.state.counts import (
    CountedWindow,
    MemberCount,
    counter_window,
    estimate,
    read_count,
    read_counter_key,
    written_count,
    written_counter_key,
)
from smg_core.mesh.state.roster_set import (
    Slot,
    read_slot,
    slot_added,
    slot_changed,
    slot_removed,
    slots_joined,
    written_slot,
)
from smg_core.mesh.state.stamps import HybridClock, millis_of

TAGS = st.frozensets(st.tuples(st.sampled_from("abc"), st.integers(1, 99)), max_size=90)
SLOTS = st.builds(Slot, TAGS, TAGS, st.integers(0, 9), st.sampled_from("abc"), st.binary(max_size=3))
COUNTS = st.builds(MemberCount, st.integers(0, 1 << 40), st.integers(0, 1 << 40))


@given(st.lists(st.one_of(st.none(), st.integers(0, 1 << 62)), max_size=30), st.integers(0, 1 << 47))
def test_stamps_rise_whatever_clocks_say(seen: list[int | None], now_ms: int) -> None:
    clock, last = HybridClock(), 0
    for each in seen:
        if each is None:
            stamp = clock.stamp(now_ms)
            assert stamp > last
            last = stamp
        else:
            clock.seen(each, now_ms)


def test_a_stamp_from_far_in_the_future_is_counted_and_not_followed() -> None:
    clock = HybridClock(most_ahead_ms=5000)
    clock.seen(1 << 63, 1_000_000)
    assert clock.skewed == 1
    assert millis_of(clock.stamp(1_000_000)) <= 1_005_000


def test_a_change_after_one_that_was_seen_has_the_later_stamp() -> None:
    ahead, behind = HybridClock(), HybridClock()
    first = ahead.stamp(3000)
    behind.seen(first, 1000)
    assert behind.stamp(1000) > first


@given(SLOTS, SLOTS, SLOTS)
def test_joining_slots_is_commutative_associative_and_idempotent(a: Slot, b: Slot, c: Slot) -> None:
    assert slots_joined(a, b) == slots_joined(b, a)
    assert slots_joined(slots_joined(a, b), c) == slots_joined(a, slots_joined(b, c))
    once = slots_joined(a, b)
    assert slots_joined(once, b) == once
    assert slots_joined(once, once) == once
    assert max(len(once.adds), len(once.removes)) <= 64


@given(SLOTS)
def test_a_slot_reads_as_it_was_written(slot: Slot) -> None:
    assert read_slot(written_slot(slot)) == slot


def test_an_add_that_a_removal_did_not_see_survives_it() -> None:
    first = slot_added(Slot(), "a", 1, b"one")
    again = slot_added(first, "b", 2, b"two")
    without = slot_removed(first, "c", 3)
    assert not without.present
    both = slots_joined(again, without)
    assert both.present
    assert slot_removed(both, "a", 4).present is False


def test_the_latest_change_says_what_a_worker_is() -> None:
    slot = slot_added(Slot(), "a", 1, b"one")
    one, other = slot_changed(slot, "b", 5, b"drained"), slot_changed(slot, "c", 4, b"weight 2")
    assert slots_joined(one, other).record == b"drained"
    assert slots_joined(one, other).present


@given(COUNTS, COUNTS, COUNTS)
def test_joining_counts_is_commutative_associative_and_idempotent(
    a: MemberCount, b: MemberCount, c: MemberCount
) -> None:
    assert a.joined(b) == b.joined(a)
    assert a.joined(b).joined(c) == a.joined(b.joined(c))
    assert a.joined(a) == a
    assert a.joined(b).charged >= a.charged
    assert read_count(written_count(a)) == a


def test_absurd_counts_count_nothing() -> None:
    assert read_count(written_count(MemberCount(1 << 63, 0))) == MemberCount()
    assert read_count(written_count(MemberCount(-5, 0))) == MemberCount()
    assert MemberCount(1, 5).used == 0


def test_a_counter_is_known_by_scope_and_window() -> None:
    assert read_counter_key(written_counter_key(CountedWindow(b"12345678", 29))) == CountedWindow(b"12345678", 29)


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 32), st.integers(0, 10**6), st.integers(0, 10**6))
def test_an_estimate_lies_between_this_window_and_both(wall_us: int, width: int, now: int, last: int) -> None:
    number, over = counter_window(wall_us, width)
    assert number * width + over == wall_us
    assert now <= estimate(now, last, over, width) <= now + last


def test_an_idle_window_banks_nothing() -> None:
    assert estimate(0, 0, 5, 10) == 0
    assert estimate(0, 100, 9, 10) == 10
