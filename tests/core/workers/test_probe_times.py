"""Health checks of a fleet are spread over their interval, several together, and each worker's come once in an interval."""

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from smg_core.workers.probe_times import until_next_probe

NOW = st.floats(0, 1e9)
INTERVAL = st.floats(0.05, 3600)
NAMES = st.text(max_size=20)


@given(NOW, INTERVAL, NAMES)
@example(0.0, 5.0, "")
@example(1e9, 0.05, "gpu-0")
def test_a_worker_is_asked_after_now_and_within_about_an_interval(now: float, interval: float, name: str) -> None:
    left = until_next_probe(now, interval, name)

    assert 0 < left <= interval * 1.06


@given(st.floats(0, 1e6), INTERVAL, NAMES, st.floats(-0.04, 0.4))
def test_from_one_probe_to_the_next_it_is_one_interval_also_where_a_timer_is_early_or_late(
    now: float, interval: float, name: str, late: float
) -> None:
    at = now + until_next_probe(now, interval, name)
    following = until_next_probe(at + late * interval, interval, name)

    assert abs(following + late * interval - interval) < interval * 1e-3


def test_those_of_a_fleet_are_spread_over_the_interval_and_fall_together() -> None:
    times = Counter(round(until_next_probe(1000.0, 5.0, f"gpu-{number}"), 3) for number in range(256))

    assert len(times) == 10
    assert max(times.values()) <= 2 * 256 / 10
