"""What entries allow in a minute is counted as limits are: at once, coming back evenly, put right at the end of each call."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import Overloaded, RateLimited
from smg_core.events import Usage
from smg_core.limits.counters import Instant
from smg_core.limits.memory import MemoryCounters
from smg_core.workers.rates import WorkerRates
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerSpec


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    @property
    def instant(self) -> Instant:
        return Instant(int(self.seconds * 1_000_000), self.seconds)


def rated(**spec: Any) -> tuple[Registry, tuple[Worker, ...], Clock]:
    """A registry with a worker of such an entry, which is ready."""
    return several({"name": "a", **spec})


def several(*specs: dict[str, Any]) -> tuple[Registry, tuple[Worker, ...], Clock]:
    clock, registry = Clock(), Registry()
    registry.make_rates = lambda: WorkerRates(MemoryCounters(64, "UTC"), lambda: clock.instant)
    workers = tuple(registry.add(WorkerSpec("https://v", **spec)) for spec in specs)
    for each in workers:
        registry.serve(each, ("m",))
        registry.signal(each, "joined")
    return registry, workers, clock


def begin(registry: Registry, worker: Worker, tokens: int = 1) -> Any:
    rates = registry.rates
    assert rates is not None
    return rates.begin(worker, "m", tokens)


def test_where_no_entry_says_anything_nothing_is_made_and_nothing_is_counted() -> None:
    registry, workers, _ = rated()

    assert registry.rates is None
    assert registry.with_room(workers) is workers


def test_an_account_gets_as_many_requests_as_it_allows_and_one_more_when_that_comes_back() -> None:
    registry, workers, clock = rated(requests_a_minute=3)
    for _ in range(3):
        registry.with_room(workers)
        begin(registry, workers[0])

    with pytest.raises(RateLimited) as refused:
        registry.with_room(workers)
    assert (refused.value.status, refused.value.retry_after) == (429, pytest.approx(20.0))
    clock.seconds += 20
    assert registry.with_room(workers) == workers


def test_a_full_account_is_passed_over_for_one_with_room() -> None:
    registry, (one, two), _ = several({"name": "a", "requests_a_minute": 1}, {"name": "b"})
    begin(registry, one)

    assert registry.with_room((one, two)) == (two,)
    assert registry.room((one, two))[0] > 0
    assert registry.room((one,)) == (0, 0)


def test_tokens_are_reserved_and_put_right_to_what_was_taken() -> None:
    registry, workers, clock = rated(tokens_a_minute=600)
    call = begin(registry, workers[0], 500)
    with pytest.raises(RateLimited) as refused:
        registry.with_room(workers, 200)
    assert refused.value.retry_after == pytest.approx(10.0)

    call.end(Usage(100, 50), begun=True)
    assert registry.with_room(workers, 450) == workers
    with pytest.raises(RateLimited):
        registry.with_room(workers, 451)
    clock.seconds += 0.1
    assert registry.with_room(workers, 451) == workers


def test_what_was_taken_beyond_what_was_reserved_is_owed() -> None:
    registry, workers, _ = rated(tokens_a_minute=600)
    begin(registry, workers[0], 10).end(Usage(1000, 200), begun=True)

    with pytest.raises(RateLimited) as refused:
        registry.with_room(workers, 1)
    assert refused.value.retry_after == pytest.approx(60.1)


def test_a_call_that_failed_before_its_answer_took_a_request_and_no_tokens() -> None:
    registry, workers, _ = rated(tokens_a_minute=600, requests_a_minute=2)
    begin(registry, workers[0], 600).end(Usage(0, 0), begun=False)
    assert registry.with_room(workers, 600) == workers

    begin(registry, workers[0], 600).end(Usage(0, 0), begun=True)  # and says nothing of what it took
    with pytest.raises(RateLimited):
        registry.with_room(workers, 1)


def test_a_request_of_more_than_a_minutes_tokens_goes_where_all_of_them_are_there() -> None:
    registry, workers, clock = rated(tokens_a_minute=600)
    assert registry.with_room(workers, 10_000) == workers
    begin(registry, workers[0], 60).end(Usage(50, 10), begun=True)
    with pytest.raises(RateLimited):
        registry.with_room(workers, 10_000)
    clock.seconds += 6
    assert registry.with_room(workers, 10_000) == workers


def test_an_account_at_its_places_is_waited_for_like_one_at_its_minute_and_a_full_gateway_is_not() -> None:
    registry, (one, two), _ = several({"name": "a", "most_in_flight": 1}, {"name": "b", "requests_a_minute": 1})
    one.board.add(one.row, 1)
    begin(registry, two)

    with pytest.raises(RateLimited) as refused:
        registry.with_room((one, two))
    assert isinstance(refused.value, Overloaded)  # whoever waits for room waits for this too
    assert refused.value.status == 429


def test_what_is_learned_of_answers_bounds_what_is_reserved() -> None:
    registry, workers, _ = rated(tokens_a_minute=10_000)
    rates = registry.rates
    assert rates is not None
    assert rates.demand("m", 100, 50) == 150
    assert rates.demand("m", 100, None, choices=2) == 100 + 2 * 256
    for _ in range(20):
        begin(registry, workers[0], 100).end(Usage(10, 20), begun=True)

    assert rates.demand("m", 100, 4096) == 120


@given(
    st.integers(1, 50),
    st.lists(st.floats(0, 30), max_size=60),
)
def test_no_account_gets_more_than_its_burst_and_what_has_come_back(amount: int, steps: list[float]) -> None:
    registry, workers, clock = rated(requests_a_minute=amount)
    began, went = clock.seconds, 0
    for passed in steps:
        clock.seconds += passed
        if registry.room(workers)[0]:
            begin(registry, workers[0])
            went += 1
            continue
        with pytest.raises(RateLimited) as refused:
            registry.with_room(workers)
        assert 0 < (refused.value.retry_after or 0) <= 60 / amount + 0.001

    assert went <= amount + amount * (clock.seconds - began) / 60
