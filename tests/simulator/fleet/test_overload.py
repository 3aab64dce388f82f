"""Ten times the requests that a fleet can take, with the gateway's queue before it, under a virtual clock."""

from collections import Counter

import attrs
import pytest

from smg_core.queueing.bands import BATCH, INTERACTIVE, STANDARD
from smg_simulator.fleet.figures import percentile
from smg_simulator.fleet.overload import OverloadSettings, RequestSource, ServedRequest, overload

SETTINGS = OverloadSettings(engines=2, seconds=60.0)
LONG = {"prompt": (64, 256), "output": (512, 1024)}
CAPACITY = 5.0
"""About how many requests of these lengths the fleet answers in a second."""
PERSON = RequestSource("person", INTERACTIVE, 0.5)


def flood(times: float) -> list[RequestSource]:
    rate = times * CAPACITY
    return [
        PERSON,
        RequestSource("a", STANDARD, rate * 0.5, 3.0, **LONG),
        RequestSource("b", STANDARD, rate * 0.3, 1.0, **LONG),
        RequestSource("batch", BATCH, rate * 0.2, 1.0, **LONG),
    ]


def goodput(outcomes: list[ServedRequest]) -> float:
    return sum(each.tokens for each in outcomes if each.done is not None and 15 <= each.done < 60) / 45


@pytest.fixture(scope="module")
def ten_times() -> list[ServedRequest]:
    return overload(flood(10.0), SETTINGS)


@pytest.mark.full
def test_goodput_at_ten_times_the_capacity_is_within_a_tenth_of_its_peak(ten_times: list[ServedRequest]) -> None:
    peak = max(goodput(overload(flood(times), SETTINGS)) for times in (0.8, 1.0, 1.5, 2.0))

    assert goodput(ten_times) >= 0.9 * peak


def test_a_person_within_its_weight_waits_for_the_engine_alone(ten_times: list[ServedRequest]) -> None:
    alone = overload([PERSON], SETTINGS)

    ours = [each for each in ten_times if each.source is PERSON and each.came >= 15]  # the first answers are long
    assert not any(each.refused for each in ours)
    assert percentile(sorted([each.went - each.came for each in ours if each.went is not None]), 0.99) <= 0.01
    unloaded = percentile(sorted([each.first_token for each in alone]), 0.99)
    assert percentile(sorted([each.first_token for each in ours]), 0.99) <= 1.3 * unloaded


def test_tenants_that_flood_get_within_a_tenth_of_their_weights_and_batch_work_its_floor(
    ten_times: list[ServedRequest],
) -> None:
    got: Counter[str] = Counter()
    for each in ten_times:
        if each.done is not None and 15 <= each.done < 60:
            got[each.source.tenant] += int(each.tokens)

    assert got["a"] / got["b"] == pytest.approx(3.0, rel=0.1)
    assert got["batch"] / got.total() >= 0.01


def test_every_request_is_answered_or_refused_with_a_reason(ten_times: list[ServedRequest]) -> None:
    assert all((each.done is None) == bool(each.refused) for each in ten_times)
    assert {each.refused for each in ten_times} <= {"", "tenant", "late", "waited", "full", "displaced"}


def test_a_burst_that_ends_keeps_who_comes_a_second_later_waiting_for_no_more_than_a_second() -> None:
    burst = [attrs.evolve(each, until=20.0) for each in flood(10.0)[1:]]
    later = [
        RequestSource("later", STANDARD, 0.5, since=21.0, until=41.0),
        attrs.evolve(PERSON, since=21.0, until=41.0),
    ]

    outcomes = overload([*burst, *later], SETTINGS)

    for source, most in zip(later, (1.0, 0.01), strict=True):
        ours = [each for each in outcomes if each.source is source]
        assert ours
        assert not any(each.refused for each in ours)
        assert percentile(sorted([each.went - each.came for each in ours if each.went is not None]), 0.5) <= most
