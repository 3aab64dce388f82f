"""The times of a worker are learned from its answers, whatever these are, in bounded memory."""

import random
from math import isfinite

from hypothesis import given
from hypothesis import strategies as st

from smg_core.objectives.learning import Latencies, Latency, WorkerState


def _time(state: WorkerState, speed: float = 1.0) -> float:
    return speed * (0.02 + (state.waiting + state.uncached) * 1e-4 + state.running * 1e-3 + state.over * 0.05)


def _states(rng: random.Random) -> WorkerState:
    running = rng.randrange(40)
    return WorkerState(rng.randrange(4000), rng.randrange(3000), running, max(0, running - 32))


def test_it_learns_what_a_time_is_made_of() -> None:
    rng, latencies = random.Random(1), Latencies()
    for _ in range(300):
        state = _states(rng)
        latencies.came("w", state, _time(state) * rng.uniform(0.9, 1.1))
        latencies.went_on("w", state, 0.01 + state.running * 5e-4)
    for _ in range(50):
        state = _states(rng)
        seconds, error = latencies.first("w", state)
        assert abs(seconds - _time(state)) <= 0.15 * _time(state) + 0.01
        assert error < 0.1
        assert abs(latencies.following("w", state)[0] - 0.01 - state.running * 5e-4) < 2e-3


def test_a_worker_that_is_slower_is_known_apart_and_a_new_one_by_all() -> None:
    rng, latencies = random.Random(2), Latencies()
    assert not latencies.known
    for _ in range(200):
        for worker, speed in (("quick", 1.0), ("slow", 3.0)):
            state = _states(rng)
            latencies.came(worker, state, _time(state, speed))
    state = WorkerState(1000, 1000, 10)
    quick, slow, new = (latencies.first(each, state)[0] for each in ("quick", "slow", "new"))
    assert quick < new < slow
    assert latencies.known


def test_one_that_has_become_slower_is_learned_anew_and_one_stall_is_not() -> None:
    rng, latencies = random.Random(3), Latencies()
    state = WorkerState(0, 1000, 4)
    for _ in range(300):
        seen = _states(rng)
        latencies.came("w", seen, _time(seen))
    before = latencies.first("w", state)[0]
    latencies.came("w", state, 60.0)
    assert latencies.first("w", state)[0] < 2 * before
    for _ in range(600):
        seen = _states(rng)
        latencies.came("w", seen, _time(seen, 2.0))
    assert abs(latencies.first("w", state)[0] - 2 * before) < 0.2 * before


def test_so_many_workers_are_remembered_and_no_more() -> None:
    latencies = Latencies(most=4)
    for number in range(50):
        latencies.came(f"w{number}", WorkerState(0, 1, 1), 0.1)
    assert len(latencies._workers) == 4


NUMBERS = st.floats(0, 1e7)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.floats(0, 1e5)), max_size=60))
def test_a_prediction_is_a_time_whatever_was_seen(seen: list[tuple[float, float, float, float, float]]) -> None:
    latencies = Latencies()
    for *state, seconds in seen:
        latencies.came("w", WorkerState(*state), seconds)
        latencies.went_on("w", WorkerState(*state), seconds)
    for known in (WorkerState(0, 0, 0), WorkerState(1e7, 1e7, 1e7, 1e7)):
        for seconds, error in (latencies.first("w", known), latencies.following("w", known)):
            assert isfinite(seconds)
            assert seconds >= 0
            assert error >= 0


def test_it_has_no_error_of_what_it_never_saw() -> None:
    assert Latency(3).predict((1, 1, 1)) == 0
