"""Claims on what is scarce: never more than there is, nobody forgotten, nobody crowded out."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_multimodal.processes.budget import Allotment, ByteCount, Claim
from smg_multimodal.processes.places import Places
from smg_multimodal.records.errors import MediaBusy, MediaTooLarge

TENANT = st.sampled_from(["", "a", "b", "c"])
STEP = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, 12), TENANT),
    st.tuples(st.just("back"), st.integers(0, 30), st.just("")),
    st.tuples(st.just("shrink"), st.integers(0, 30), st.just("")),
)


@given(st.lists(STEP, max_size=60))
def test_no_more_is_held_than_there_is_whoever_comes_and_goes(steps: list[tuple[str, int, str]]) -> None:
    allotment, claims = Allotment(12, (6,)), []
    for what, number, tenant in steps:
        if what == "ask":
            claims.append(Claim(number, (tenant,)))
            allotment.ask(claims[-1])
        elif claims and what == "back":
            allotment.release(claims[number % len(claims)])
        elif claims:
            claim = claims[number % len(claims)]
            allotment.shrink(claim, max(1, claim.amount // 2))
        held = [claim for claim in claims if claim.held]
        assert sum(claim.amount for claim in held) == allotment.used <= 12
        for name in "abc":
            own = [claim.amount for claim in held if claim.keys == (name,)]
            assert len(own) <= 1 or sum(own) <= 6
    for claim in claims:
        allotment.release(claim)
    assert (allotment.used, allotment.waiting) == (0, 0)


def test_a_tenant_with_much_leaves_its_share_to_one_with_little() -> None:
    allotment = Allotment(4, (2,))
    many = [Claim(1, ("loud",)) for _ in range(10)]
    for claim in many:
        allotment.ask(claim)
    quiet = Claim(1, ("quiet",))
    allotment.ask(quiet)
    assert [claim.held for claim in many].count(True) == 2
    assert quiet.held


def test_who_holds_least_is_next_and_equals_come_in_order() -> None:
    allotment = Allotment(2)
    first, second = Claim(1, ("a",)), Claim(1, ("a",))
    waiting = [Claim(1, ("a",)), Claim(1, ("b",)), Claim(1, ("b",))]
    for claim in (first, second, *waiting):
        allotment.ask(claim)
    assert allotment.release(first) == [waiting[1]]
    assert allotment.release(second) == [waiting[0]]
    assert allotment.release(waiting[0]) == [waiting[2]]


def test_a_large_claim_is_not_overtaken_for_ever_by_small_ones() -> None:
    allotment = Allotment(10)
    small, large, late = Claim(3), Claim(9), Claim(1)
    for claim in (small, large, late):
        allotment.ask(claim)
    assert (small.held, large.held, late.held) == (True, False, False)
    assert allotment.release(small) == [large, late]


def test_the_queue_has_an_end_and_what_can_never_fit_is_refused_at_once() -> None:
    allotment = Allotment(1, waiting=1)
    with pytest.raises(MediaTooLarge):
        allotment.ask(Claim(2))
    allotment.ask(Claim(1))
    allotment.ask(Claim(1))
    with pytest.raises(MediaBusy):
        allotment.ask(Claim(1))


def test_bytes_are_counted_up_to_the_most() -> None:
    count = ByteCount(10)
    count.add(10)
    assert count.left == 0
    with pytest.raises(MediaTooLarge):
        count.add(1)


@pytest.mark.anyio
async def test_a_wait_that_is_given_up_takes_no_place(anyio_backend: str) -> None:
    del anyio_backend
    places = Places(1)
    first = await places.take("a")
    waiting = [asyncio.ensure_future(places.take("b")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    places.release(first)
    waiting[1].cancel()  # it has its turn, and does not know yet
    third = await waiting[2]
    assert third.held
    places.release(third)
    places.release(third)
    assert (places.allotment.used, places.allotment.waiting) == (0, 0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_a_tenant_that_fills_the_queue_as_far_as_it_may_keeps_no_other_out() -> None:
    allotment = Allotment(4, (3,), waiting=8)
    one = [Claim(1, ("one",)) for _ in range(3 + 6)]
    for claim in one:
        allotment.ask(claim)
    with pytest.raises(MediaBusy):
        allotment.ask(Claim(1, ("one",)))
    free, waits = Claim(1, ("two",)), Claim(1, ("two",))
    allotment.ask(free)
    allotment.ask(waits)
    last = Claim(1, ("three",))
    allotment.ask(last)
    with pytest.raises(MediaBusy):
        allotment.ask(Claim(1, ("three",)))
    allotment.release(free)

    assert [claim.held for claim in one] == [True] * 3 + [False] * 6
    assert (waits.held, last.held) == (True, False)


def test_a_full_queue_refuses_nobody_for_whom_there_is_room() -> None:
    allotment = Allotment(4, (1,), waiting=2)
    for _ in range(3):
        allotment.ask(Claim(1, ("one",))) if allotment.waiting < 1 else None
    small = [Claim(1, (name,)) for name in ("two", "three", "four")]
    for claim in small:
        allotment.ask(claim)

    assert all(claim.held for claim in small)


class Plain:
    """The rules of an `Allotment`, said as plainly as can be."""

    def __init__(self, total: int, share: int) -> None:
        self.total, self.share = total, share
        self.held: list[Claim] = []
        self.queue: list[Claim] = []

    def of(self, tenant: str) -> int:
        return sum(claim.amount for claim in self.held if claim.keys[0] == tenant)

    def fits_share(self, claim: Claim) -> bool:
        own = self.of(claim.keys[0])
        return claim.continues or not claim.keys[0] or not own or own + claim.amount <= self.share

    def ask(self, claim: Claim) -> None:
        self.queue.append(claim)
        self.grant()

    def release(self, claim: Claim) -> None:
        for place in (self.held, self.queue):
            if claim in place:
                place.remove(claim)
        self.grant()

    def grant(self) -> None:
        while True:
            firsts = {claim.group: claim for claim in reversed(self.queue)}.values()
            ready = [claim for claim in self.queue if claim in firsts and self.fits_share(claim)]
            if not ready:
                return
            following = min(ready, key=lambda claim: (not claim.continues, self.of(claim.keys[0])))
            if sum(claim.amount for claim in self.held) + following.amount > self.total:
                return
            self.queue.remove(following)
            self.held.append(following)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12), TENANT, st.booleans()), max_size=80))
def test_whose_turn_it_is_is_what_the_plain_rules_say(steps: list[tuple[bool, int, str, bool]]) -> None:
    allotment, plain, claims = Allotment(12, (6,)), Plain(12, 6), []
    for asks, number, tenant, continues in steps:
        if asks or not claims:
            claim = Claim(number, (tenant,), continues=continues)
            claims.append(claim)
            allotment.ask(claim)
            plain.ask(claim)
        else:
            claim = claims.pop(number % len(claims))
            allotment.release(claim)
            plain.release(claim)
        assert [claim for claim in claims if claim.held] == [claim for claim in claims if claim in plain.held]
        assert allotment.waiting == len(plain.queue)


@pytest.mark.parametrize("tenants", [1, 40, 1000])
def test_who_gives_much_back_to_a_thousand_that_wait_looks_at_each_a_few_times(
    tenants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was looked at a thousand times, which stopped the event loop for half a second."""
    looked = 0
    own = Allotment._turn

    def counted(allotment: Allotment, claim: Claim) -> Any:
        nonlocal looked
        looked += 1
        return own(allotment, claim)

    allotment, much = Allotment(1000, waiting=4000), Claim(1000, ("much",))
    allotment.ask(much)
    few = [Claim(1, (f"tenant {number % tenants}",)) for number in range(1000)]
    for claim in few:
        allotment.ask(claim)
    monkeypatch.setattr(Allotment, "_turn", counted)
    assert len(allotment.release(much)) == 1000
    assert looked <= 5000


def test_who_holds_some_already_comes_first_and_is_bound_by_no_share() -> None:
    allotment = Allotment(10, (5,))
    begun, other = Claim(5, ("a",)), Claim(4, ("b",))
    large, first, more = Claim(3, ("c",)), Claim(2, ("d",)), Claim(5, ("a",), continues=True)
    for claim in (begun, other, large, first, more):
        allotment.ask(claim)
    assert [claim.held for claim in (begun, other, large, first, more)] == [True, True, False, False, False]
    assert allotment.release(other) == [more]
    assert allotment.release(begun) == [large, first]
