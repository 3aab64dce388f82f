"""When a short answer is late, and how many second calls there may be."""

from math import ceil

import attrs
from hypothesis import given
from hypothesis import strategies as st

from smg_core.routing.hedging import LEAST_KNOWN, Hedges, ModelHedges
from smg_core.routing.settings import RoutingConfig

TIMES = st.lists(st.floats(0, 100), max_size=120)


def known(times: list[float], **settings: float) -> ModelHedges:
    hedges = ModelHedges(attrs.evolve(RoutingConfig(), **settings))
    for seconds in times:
        hedges.took(seconds)
    return hedges


def test_without_a_percentile_the_delay_is_the_fixed_time_and_none_when_that_is_off() -> None:
    assert known([]).delay() is None
    assert known([5.0] * 50, hedge_after_s=0.5).delay() == 0.5


@given(TIMES, st.floats(0.1, 100), st.integers(20, 60), st.floats(0, 100))
def test_the_delay_is_the_nearest_rank_of_the_latest_times_and_no_less_than_the_fixed_time(
    times: list[float], percentile: float, recent: int, least: float
) -> None:
    found = known(times, hedge_percentile=percentile, hedge_recent=recent, hedge_after_s=least).delay()
    latest = sorted(times[-recent:])

    if len(latest) < LEAST_KNOWN:
        assert found is None
    else:
        assert found == max(least, latest[ceil(percentile / 100 * len(latest)) - 1])


@given(st.lists(st.sampled_from(["request", "hedge"]), max_size=400), st.floats(0, 1), st.integers(0, 20))
def test_there_are_never_more_hedges_than_the_reserve_and_the_share_of_requests(
    steps: list[str], share: float, reserve: int
) -> None:
    hedges, requests, made = known([], hedge_share=share, hedge_reserve=reserve), 0, 0
    for step in steps:
        if step == "request":
            hedges.pay()
            requests += 1
        else:
            made += hedges.take()

        assert made <= reserve + share * requests + 1e-6


def test_a_hedge_that_could_not_be_made_is_given_back() -> None:
    hedges = known([], hedge_reserve=1)

    assert hedges.take()
    hedges.give_back()
    assert hedges.take()
    assert not hedges.take()


def test_each_model_has_its_own_and_other_settings_begin_anew() -> None:
    hedges, settings = Hedges(), RoutingConfig(hedge_after_s=1, hedge_reserve=1)

    assert hedges.of("a", settings).take()
    assert not hedges.of("a", attrs.evolve(settings, retries=7)).take()
    assert hedges.of("b", settings).take()
    assert hedges.of("a", attrs.evolve(settings, hedge_after_s=2.0)).delay() == 2.0
