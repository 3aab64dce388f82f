"""A worker that has become ready a short while ago gets a share that rises, whatever the policy."""

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.workers.settings import WorkersConfig
from smg_core.workers.slow_start import SlowStart, share

SETTINGS = WorkersConfig(slow_start_s=10.0, slow_start_least=0.1)


@attrs.frozen
class Named:
    name: str


OLD, NEW = Named("old"), Named("new")


@pytest.mark.parametrize(("seconds", "expected"), [(0, 0.1), (1, 0.1), (5, 0.5), (9, 0.9), (10, 1), (11, 1)])
def test_the_share_rises_in_a_straight_line_from_the_least(seconds: float, expected: float) -> None:
    assert share(seconds, SETTINGS) == pytest.approx(expected)


@given(st.floats(0, 20), st.floats(0, 20), st.floats(0.001, 1))
def test_the_share_never_falls_with_time(one: float, other: float, least: float) -> None:
    settings = attrs.evolve(SETTINGS, slow_start_least=least)

    assert share(min(one, other), settings) <= share(max(one, other), settings) <= 1


def chosen(start: SlowStart, now: float, times: int = 4000) -> float:
    """Of many choices the part in which the new worker may be chosen."""
    found = [start.admitted((OLD, NEW), now) for _ in range(times)]
    assert all(OLD in each for each in found)
    return sum(NEW in each for each in found) / times


def test_a_new_worker_is_left_out_of_choices_by_its_share() -> None:
    start = SlowStart(SETTINGS, random.Random(1).random)
    start.ready("new", 100.0)

    assert chosen(start, 100.0) == pytest.approx(0.1, abs=0.03)
    assert chosen(start, 105.0) == pytest.approx(0.5, abs=0.03)
    assert chosen(start, 110.0) == 1


def test_workers_that_became_ready_together_share_as_usual() -> None:
    start = SlowStart(SETTINGS, random.Random(1).random)
    start.ready("old", 100.0)
    start.ready("new", 100.0)

    assert chosen(start, 100.0) == 1


def test_it_is_off_unless_a_setting_says_how_long() -> None:
    start = SlowStart(WorkersConfig(), random.Random(1).random)
    start.ready("new", 100.0)

    assert chosen(start, 100.0) == 1


def test_a_worker_that_was_lost_begins_anew() -> None:
    start = SlowStart(SETTINGS, random.Random(1).random)
    start.ready("new", 100.0)
    start.forget("new")
    assert chosen(start, 100.0) == 1
    start.ready("new", 200.0)

    assert chosen(start, 200.0) == pytest.approx(0.1, abs=0.03)
