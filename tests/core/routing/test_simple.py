"""Policies that look at the list and the requests in flight."""

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.core.routing.candidates import Seen

from smg_core.routing import (
    LeastRequests,
    Passthrough,
    PowerOfTwo,
    Random,
    RoundRobin,
    RoutingContext,
)
from smg_core.tokens import TokenIds

CONTEXT = RoutingContext("r", "m", TokenIds([1, 2]))


def workers(*loads: int) -> list[Seen]:
    return [Seen(f"w{number}", load) for number, load in enumerate(loads)]


def test_round_robin_takes_each_worker_in_turn() -> None:
    chosen = RoundRobin()
    names = [chosen.pick(workers(0, 0, 0), CONTEXT).worker.name for _ in range(6)]

    assert names == ["w0", "w1", "w2", "w0", "w1", "w2"]


def test_round_robin_goes_on_when_a_worker_leaves() -> None:
    chosen = RoundRobin()
    chosen.pick(workers(0, 0, 0), CONTEXT)

    assert {chosen.pick(workers(0, 0), CONTEXT).worker.name for _ in range(2)} == {"w0", "w1"}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9))
def test_least_requests_never_takes_a_busier_worker(loads: list[int]) -> None:
    assert LeastRequests().pick(workers(*loads), CONTEXT).worker.in_flight == min(loads)


def test_least_requests_spreads_over_idle_workers() -> None:
    chosen = LeastRequests()

    assert {chosen.pick(workers(0, 0, 0), CONTEXT).worker.name for _ in range(3)} == {"w0", "w1", "w2"}


def test_least_requests_counts_what_waits_in_the_engine_and_the_weight() -> None:
    field = [Seen("queue", 1, queued=9), Seen("big", 6, weight=4.0), Seen("small", 2)]

    assert LeastRequests().pick(field, CONTEXT).worker.name == "big"


@given(st.lists(st.integers(0, 50), min_size=2, max_size=9), st.integers(0, 1000))
def test_power_of_two_never_takes_the_busiest_of_all(loads: list[int], seed: int) -> None:
    picked = PowerOfTwo(random.Random(seed)).pick(workers(*loads), CONTEXT).worker

    assert picked.in_flight < max(loads) or loads.count(max(loads)) > 1


def test_random_reaches_every_worker() -> None:
    chosen = Random(random.Random(1))

    assert {chosen.pick(workers(0, 0, 0), CONTEXT).worker.name for _ in range(50)} == {"w0", "w1", "w2"}


def test_passthrough_takes_the_first_however_busy_it_is() -> None:
    assert Passthrough().pick(workers(9, 0), CONTEXT).worker.name == "w0"
