"""When a worker's calls fail, it gets no requests for a while, then a few, then all again."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import EngineFailed, EngineRejected, SmgError, WorkerBusy, WorkerGone
from smg_core.workers.breaker import TRANSITIONS, Breaker, Breakers
from smg_core.workers.settings import BreakerConfig

SETTINGS = BreakerConfig(failures=4, share=0.5, window_s=10, open_s=5, probes=2, rest_most_s=30)
GONE = WorkerGone("gone")


@attrs.frozen
class Named:
    name: str
    rank_count: int = 1


A, B = Named("a"), Named("b")


def tripped(now: float = 0.0, **settings: Any) -> Breaker:
    breaker = Breaker(attrs.evolve(SETTINGS, **settings))
    for _ in range(4):
        breaker.ended(GONE, now)
    assert breaker.state == "open"
    return breaker


def test_a_worker_trips_at_its_count_of_failures_if_they_are_its_share_of_calls() -> None:
    few, many = Breaker(SETTINGS), Breaker(SETTINGS)
    for _ in range(3):
        few.ended(GONE, 1.0)
    for number in range(40):
        many.ended(GONE if number % 3 == 0 else None, 1.0)

    assert (few.state, many.state) == ("closed", "closed")
    few.ended(EngineFailed("failed"), 1.0)
    assert few.state == "open"


def test_failures_that_are_older_than_the_window_do_not_count() -> None:
    breaker = Breaker(SETTINGS)
    for now in (0.0, 4.0, 8.0, 12.0, 16.0):
        breaker.ended(GONE, now)

    assert breaker.state == "closed"
    breaker.ended(GONE, 16.1)
    assert breaker.state == "open"


@pytest.mark.parametrize("error", [EngineRejected("no"), WorkerBusy("full"), None])
def test_what_is_no_failure_of_the_engine_does_not_count(error: SmgError | None) -> None:
    breaker = Breaker(SETTINGS)
    for _ in range(100):
        breaker.ended(error, 0.0)

    assert breaker.state == "closed"


def test_an_open_one_cools_down_and_lets_a_few_through_until_they_have_gone_well() -> None:
    breaker = tripped()

    assert not breaker.admits(4.9)
    assert breaker.admits(5.0)
    breaker.chosen()
    assert breaker.admits(5.1)
    breaker.chosen()
    assert not breaker.admits(5.2)
    breaker.ended(None, 5.3)
    assert breaker.state == "half_open"
    breaker.ended(None, 5.4)
    assert breaker.state == "closed"
    assert breaker.admits(5.5)


def test_a_failed_probe_opens_it_again() -> None:
    breaker = tripped()
    assert breaker.admits(5.0)
    breaker.ended(GONE, 6.0)

    assert breaker.state == "open"
    assert not breaker.admits(10.9)
    assert breaker.admits(11.0)


def test_probes_that_were_chosen_and_never_made_cost_a_period_and_no_more() -> None:
    breaker = tripped()
    for _ in range(2):
        assert breaker.admits(5.0)
        breaker.chosen()

    assert not breaker.admits(9.9)
    assert breaker.admits(10.0)


def test_a_probe_that_was_given_up_says_nothing_and_another_one_may_be_made_for_it() -> None:
    breaker = tripped()
    assert breaker.admits(5.0)
    for _ in range(10):
        assert breaker.chosen()
        breaker.given_up()
    assert breaker.admits(5.1)
    assert [breaker.chosen() for _ in range(2)] == [True, True]
    assert not breaker.admits(5.2)
    breaker.given_up()
    assert breaker.state == "half_open"
    assert breaker.admits(5.3)


def test_what_is_given_up_after_the_breaker_was_decided_changes_nothing() -> None:
    breaker = tripped()
    breaker.given_up()
    assert breaker.state == "open"
    assert not breaker.admits(1.0)
    closed = Breaker(SETTINGS)
    closed.given_up()
    assert not closed.chosen()
    assert closed.admits(1.0)


def test_of_a_worker_or_a_rank_it_is_known_whether_a_call_is_a_probe_and_its_place_is_given_back() -> None:
    breakers = Breakers(SETTINGS)
    for rank in (None, 1):
        for _ in range(4):
            breakers.ended("a", GONE, 0.0, rank)
        assert breakers.admitted((A, B), 5.0) == (A, B)
        assert not breakers.ranks_out("a", 2, 5.0)
        assert not breakers.chosen("b")
        assert [breakers.chosen("a", rank) for _ in range(2)] == [True, True]
        assert (A not in breakers.admitted((A, B), 5.1)) if rank is None else breakers.ranks_out("a", 2, 5.1) == (1,)
        breakers.given_up("a", rank)
        assert breakers.admitted((A, B), 5.2) == (A, B)
        assert not breakers.ranks_out("a", 2, 5.2)
        breakers.forget("a")


def test_a_worker_that_says_when_to_come_again_is_left_alone_until_then() -> None:
    breaker = Breaker(SETTINGS)
    breaker.ended(WorkerBusy("full", retry_after=7.0), 1.0)

    assert not breaker.quiet
    assert not breaker.admits(7.9)
    assert breaker.admits(8.0)
    assert breaker.quiet


def test_it_rests_no_longer_than_the_setting_allows() -> None:
    breaker = Breaker(SETTINGS)
    breaker.ended(WorkerBusy("full", retry_after=1e9), 0.0)

    assert breaker.admits(30.0)


def test_workers_that_trip_are_no_candidates_unless_no_other_is_left() -> None:
    breakers = Breakers(SETTINGS)
    states = [breakers.ended("a", GONE, 0.0) for _ in range(4)]

    assert states == [None, None, None, "open"]
    assert breakers.admitted((A, B), 1.0) == (B,)
    assert breakers.admitted((A,), 1.0) == (A,)
    assert breakers.state("a") == "open"
    breakers.forget("a")
    assert breakers.admitted((A, B), 1.0) == (A, B)


def test_there_is_no_breaker_where_the_setting_says_so() -> None:
    breakers = Breakers(attrs.evolve(SETTINGS, failures=0))
    for _ in range(100):
        breakers.ended("a", GONE, 0.0)

    assert breakers.admitted((A, B), 1.0) == (A, B)


def test_a_rank_has_a_breaker_of_its_own_and_the_workers_others_go_on() -> None:
    breakers, worker = Breakers(SETTINGS), Named("a", 2)
    states = [breakers.ended("a", GONE, 0.0, rank=1) for _ in range(4)]

    assert states[-1] == "open"
    assert breakers.admitted((worker, B), 1.0) == (worker, B)
    assert breakers.ranks_out("a", 2, 1.0) == (1,)
    assert breakers.ranks_out("b", 2, 1.0) == ()
    assert breakers.state("a") == "closed"


def test_a_worker_all_of_whose_ranks_are_open_is_no_candidate_and_probes_are_those_of_each_rank() -> None:
    breakers, worker = Breakers(SETTINGS), Named("a", 2)
    for rank in (0, 1):
        for _ in range(4):
            breakers.ended("a", GONE, float(rank), rank)

    assert breakers.admitted((worker, B), 2.0) == (B,)
    assert breakers.admitted((worker,), 2.0) == (worker,)
    assert breakers.ranks_out("a", 2, 2.0) == ()  # there would be none
    assert breakers.admitted((worker, B), 5.0) == (worker, B)
    assert breakers.ranks_out("a", 2, 5.0) == (1,)
    for _ in range(2):
        breakers.chosen("a", 0)
        breakers.ended("a", None, 5.1, 0)
    assert breakers.ranks_out("a", 2, 5.2) == (1,)
    breakers.forget("a")
    assert breakers.ranks_out("a", 2, 5.2) == ()


STEPS = st.lists(st.tuples(st.sampled_from(["ok", "fail", "admits"]), st.floats(0, 20)), max_size=60)


@given(STEPS)
def test_only_the_table_changes_the_state_and_an_open_one_admits_nothing_before_it_has_cooled_down(
    steps: list[tuple[str, float]],
) -> None:
    breaker, now, opened = Breaker(SETTINGS), 0.0, 0.0
    for what, later in steps:
        now, before = now + later, breaker.state
        if what == "admits":
            admitted = breaker.admits(now)
            assert not (before == "open" and now < opened + SETTINGS.open_s and admitted)
            if admitted:
                breaker.chosen()
        else:
            breaker.ended(None if what == "ok" else GONE, now)
        if breaker.state != before:
            assert breaker.state in {after for (state, _), after in TRANSITIONS.items() if state == before}
        if breaker.state == "open" and before != "open":
            opened = now
