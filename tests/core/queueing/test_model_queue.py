"""The queue before a model: bands, floors, fairness between tenants, bounds, and requests that leave."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.queueing.bands import BANDS, BATCH, INTERACTIVE, STANDARD, SYSTEM
from smg_core.queueing.capacity import Capacity
from smg_core.queueing.model_queue import ModelQueue, QueueBounds
from smg_core.queueing.ticket import QueuedRequest

LONG = QueueBounds(wait_s=1e9)


def queue(slots: float = 4, bounds: QueueBounds = LONG, weights: dict[str, float] | None = None) -> ModelQueue:
    known = weights or {}
    found = ModelQueue(bounds, lambda tenant: known.get(tenant, 1.0))
    found.capacity = Capacity(slots=slots)
    return found


def served_while_all_wait(
    tested: ModelQueue, make: Callable[[str], QueuedRequest], names: list[str], seconds: int
) -> Counter[str]:
    """What each got while it always had requests waiting: every second one of those that run ends."""
    running: list[QueuedRequest] = []
    got: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for second in range(seconds):
        now = float(second)
        for name in names:
            while waiting[name] < 5:
                ticket = make(name)
                assert tested.offer(ticket, now) == []
                if ticket.state == "running":
                    running.append(ticket)
                else:
                    waiting[name] += 1
        if running:
            tested.leave(running.pop(0), None, now)
        for ticket in tested.pump(now):
            key = ticket.tenant or BANDS[ticket.band].name
            waiting[key] -= 1
            got[key] += int(ticket.cost)
            running.append(ticket)
    return got


@pytest.mark.full
@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 1.0}, {"a": 4.0, "b": 1.0}, {"a": 10.0, "b": 3.0, "c": 1.0}])
def test_tenants_get_shares_within_a_tenth_of_their_weights_whatever_their_requests_cost(
    weights: dict[str, float],
) -> None:
    costs = {"a": 700.0, "b": 90.0, "c": 2500.0}
    tested = queue(weights=weights)

    got = served_while_all_wait(tested, lambda name: QueuedRequest(name, STANDARD, costs[name]), list(weights), 6000)

    everything = sum(got.values())
    for name, weight in weights.items():
        assert got[name] / everything == pytest.approx(weight / sum(weights.values()), rel=0.1)


SLOTS, READS, SAYS, FEW = 8, 1024, 256, 4
"""Requests that run at once, the longest prompt and the longest answer, in tokens, of which one is said in each step; requests
that a tenant has waiting at least."""


def served_beside(seed: int, steps: int, many: int) -> tuple[float, float, float]:
    """What two tenants got that always wait, one with `many` times the requests, and how far apart they ever were. What a request
    costs is thought to be the mean when it goes, and put right at its end."""
    rng, tested = Random(seed), queue(slots=SLOTS)
    running: list[tuple[int, float, QueuedRequest]] = []
    truth: dict[QueuedRequest, tuple[float, int]] = {}
    got, waiting = dict.fromkeys("ab", 0.0), Counter[str]()
    apart = 0.0
    for step in range(steps):
        going = tested.pump(float(step))
        for name, wanted in (("a", FEW * many), ("b", FEW)):
            while waiting[name] < wanted:
                prompt, output = rng.randint(1, READS), rng.randint(1, SAYS)
                ticket = QueuedRequest(name, STANDARD, prompt + 2.0 * (SAYS // 2))
                truth[ticket] = prompt + 2.0 * output, output
                assert tested.offer(ticket, float(step)) == []
                waiting[name] += 1
                going += [ticket] if ticket.state == "running" else []
        for ticket in going:
            cost, output = truth.pop(ticket)
            waiting[ticket.tenant] -= 1
            if step:  # from then on both have requests waiting
                got[ticket.tenant] += cost
            running.append((step + output, cost, ticket))
            apart = max(apart, abs(got["a"] - got["b"]))
        for over in [each for each in running if each[0] <= step]:
            running.remove(over)
            tested.leave(over[2], over[1], float(step))
    return got["a"], got["b"], apart


@given(st.integers(0, 2**32))
def test_two_tenants_that_wait_are_never_apart_by_more_than_what_their_counters_allow(seed: int) -> None:
    _, _, apart = served_beside(seed, steps=300, many=10)
    assert apart <= 2 * max(READS, 2 * SLOTS * SAYS)


def test_a_tenant_with_ten_times_the_requests_gets_no_more_than_the_other() -> None:
    a, b, _ = served_beside(1, steps=6000, many=10)
    assert a == pytest.approx(b, rel=0.05)


@pytest.mark.full
def test_every_band_gets_its_floor_while_those_above_it_always_wait() -> None:
    tested = queue(slots=100)
    names = [band.name for band in BANDS]

    got = served_while_all_wait(tested, lambda name: QueuedRequest("", names.index(name), 1.0), names, 20_000)

    everything = sum(got.values())
    for band in BANDS:
        assert got[band.name] / everything >= band.floor * 0.8 >= 0.01


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(1, 5000)), min_size=1, max_size=60))
def test_no_request_starves_however_many_come_before_it_in_every_band(others: list[tuple[int, str, int]]) -> None:
    tested = queue(slots=2)
    ours = QueuedRequest("ours", BATCH, 5.0)
    running: list[QueuedRequest] = []
    for _ in range(2):
        first = QueuedRequest("a", SYSTEM)
        tested.offer(first, 0.0)
        running.append(first)
    tested.offer(ours, 0.0)
    assert ours.state == "waiting"

    for step in range(1000):  # what comes is of higher bands and never ends
        band, tenant, cost = others[step % len(others)]
        ticket = QueuedRequest(tenant, band, float(cost))
        tested.offer(ticket, 0.0)
        tested.leave(running.pop(0), None, 0.0)
        running += tested.pump(0.0)
        if ours in running:
            return
        while len(running) < 2:
            filler = QueuedRequest("a", SYSTEM, float(cost))
            tested.offer(filler, 0.0)
            running += [filler] if filler.state == "running" else tested.pump(0.0)
    pytest.fail("it was never its turn")


Act = tuple[str, int, int, str, int]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["offer", "offer", "offer", "end", "leave", "look", "change"]),
            st.integers(0, 3),
            st.integers(1, 400),
            st.sampled_from(["", "a", "b", "c"]),
            st.integers(0, 50),
        ),
        max_size=120,
    ),
    st.booleans(),
)
def test_whatever_happens_the_bounds_hold_and_nobody_is_lost(acts: list[Act], tokens: bool) -> None:
    bounds = QueueBounds(requests=12, size=1000, tenant_share=0.5, wait_s=20.0, absent_s=40.0)
    tested = queue(3, bounds)
    tested.capacity = Capacity(3, 600 if tokens else 0)
    now, live = 0.0, list[QueuedRequest]()
    ended: set[QueuedRequest] = set()
    for act, band, size, tenant, number in acts:
        now += number / 10
        if act == "offer":
            ticket = QueuedRequest(
                tenant, band, float(size), size, 1, size, session=tenant and str(number % 3), priority=-number % 2
            )
            refused = tested.offer(ticket, now)
            live.append(ticket)
            ended |= {each for each, _ in refused}
            for each, refusal in refused:
                assert refusal.place >= 1
                assert each is ticket or (each.band > ticket.band and refusal.why == "displaced")
        elif act == "change":
            tested.capacity = Capacity(number % 4, 600 if tokens else 0, band / 3)
        elif act in ("end", "leave"):
            those = [
                each for each in live if each not in ended and each.state == ("running" if act == "end" else "waiting")
            ]
            if those:
                tested.leave(those[number % len(those)], float(number), now)
                ended.add(those[number % len(those)])
        ended |= {each for each, _ in tested.expired(now)}
        tested.pump(now)
        waiting = [each for each in live if each.state == "waiting"]
        assert tested.waiting == len(waiting) == sum(tested.counts()) <= bounds.requests
        assert sum(each.size for each in waiting) <= bounds.size
        for name in "abc":
            assert sum(each.tenant == name for each in waiting) <= 6
        assert tested.running == sum(each.state == "running" for each in live)
        assert all((each.state in ("over", "new")) == (each in ended) for each in live)
        assert all(now < each.entered + bounds.absent_s for each in waiting)
        if waiting and tested.capacity.slots:
            assert tested.running, "a model with nothing under way takes a request"


def test_one_tenant_with_ten_thousand_requests_leaves_room_and_turns_to_others() -> None:
    tested = queue(4)
    refused = 0
    running: list[QueuedRequest] = []
    for _ in range(10_000):
        ticket = QueuedRequest("flood", STANDARD, 100.0)
        refused += len(tested.offer(ticket, 0.0))
        running += [ticket] if ticket.state == "running" else []

    assert (tested.waiting, refused) == (500, 10_000 - 504)
    quiet = QueuedRequest("quiet", STANDARD, 100.0)
    assert tested.offer(quiet, 0.0) == []
    assert tested.place(QueuedRequest("other", STANDARD), 0.0)[0] == 1
    tested.leave(running.pop(), None, 0.0)
    assert tested.pump(0.0) == [quiet]


def test_a_full_queue_gives_the_place_of_the_newest_of_the_lowest_band_to_a_higher_one() -> None:
    tested = queue(1, QueueBounds(requests=2))
    tested.offer(QueuedRequest("", STANDARD), 0.0)
    first, second = QueuedRequest("a", BATCH), QueuedRequest("b", BATCH)
    tested.offer(first, 0.0)
    tested.offer(second, 0.0)

    [(refused, why)] = tested.offer(QueuedRequest("c", BATCH), 0.0)
    assert (refused.tenant, why.why) == ("c", "full")
    higher = QueuedRequest("c", INTERACTIVE)
    [(refused, why)] = tested.offer(higher, 0.0)
    assert (refused, why.why, higher.state) == (second, "displaced", "waiting")
    assert first.state == "waiting"


def test_a_request_that_cannot_meet_its_deadline_is_refused_at_once() -> None:
    tested = queue(1)
    for second in range(10):
        ticket = QueuedRequest("", STANDARD, 10.0)
        tested.offer(ticket, float(second))
        tested.leave(ticket, None, second + 0.9)
    tested.offer(QueuedRequest("", STANDARD, 10.0), 10.0)
    for _ in range(5):
        tested.offer(QueuedRequest("", STANDARD, 10.0), 10.0)

    hurried = QueuedRequest("", STANDARD, 10.0, deadline=12.0)
    [(refused, why)] = tested.offer(hurried, 10.0)

    assert (refused, why.why, why.place) == (hurried, "late", 6)
    assert why.wait_s == pytest.approx(5, rel=0.2)


def test_no_worker_means_waiting_longer_and_then_a_refusal() -> None:
    tested = queue(0, QueueBounds(wait_s=30, absent_s=120))
    ticket = QueuedRequest("", STANDARD)
    tested.offer(ticket, 0.0)

    assert tested.expired(119.0) == []
    tested.capacity = Capacity(1)
    assert tested.pump(119.5) == [ticket]
    other = QueuedRequest("", STANDARD)
    tested.capacity = Capacity()
    tested.offer(other, 120.0)
    assert [each for each, _ in tested.expired(240.0)] == [other]


def test_sessions_of_a_tenant_take_turns() -> None:
    tested = queue(1)
    running = QueuedRequest("a", STANDARD)
    tested.offer(running, 0.0)
    for _ in range(20):
        tested.offer(QueuedRequest("a", STANDARD, session="agent"), 0.0)
    person = QueuedRequest("a", STANDARD, session="person")
    tested.offer(person, 0.5)

    order = list[QueuedRequest]()
    for _ in range(3):
        tested.leave(running, None, 1.0)
        [running] = tested.pump(1.0)
        order.append(running)

    assert person in order


def test_only_batch_requests_that_sent_nothing_are_stopped_and_those_without_a_token_first() -> None:
    tested = queue(3)
    stages = {"old": "unbegun", "newer": "begun", "sent": "sent"}
    for name, stage in stages.items():
        tested.capacity = Capacity(30)
        tested.offer(QueuedRequest(name, BATCH, stage=lambda stage=stage: stage), 0.0)  # type: ignore[misc]
    tested.capacity = Capacity(3)
    assert list(tested.victims()) == []

    for _ in range(3):
        tested.offer(QueuedRequest("person", INTERACTIVE), 1.0)

    assert [each.tenant for each in tested.victims()] == ["old", "newer"]
    assert list(tested.victims()) == []


def test_who_comes_back_has_no_credit_of_its_absence_and_no_debt_of_an_hour_ago() -> None:
    tested = queue(1)
    running = QueuedRequest("b", STANDARD, 1.0)
    tested.offer(running, 0.0)
    for second in range(1, 4000):
        tested.offer(QueuedRequest("b", STANDARD, 1.0), float(second))
        tested.leave(running, None, float(second))
        [running] = tested.pump(float(second))
    for _ in range(50):
        tested.offer(QueuedRequest("idle", STANDARD, 1.0), 4000.0)
        tested.offer(QueuedRequest("b", STANDARD, 1.0), 4000.0)

    got: Counter[str] = Counter()
    for _ in range(40):
        tested.leave(running, None, 4000.0)
        [running] = tested.pump(4000.0)
        got[running.tenant] += 1

    assert abs(got["idle"] - got["b"]) <= 2
