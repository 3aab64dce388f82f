"""Ranks by their tokens, where engines report them and where they do not."""

from collections import Counter

import attrs
import pytest
from tests.core.routing.candidates import Seen, asking

from smg_core.engines.loads import RankLoad
from smg_core.routing.ranks import DpMinToken

PROMPT = range(100)


def reporting(name: str, *used: int, **fields: object) -> Seen:
    ranks = tuple(RankLoad(rank, 0, 0, used_tokens=tokens) for rank, tokens in enumerate(used))
    return Seen(name, rank_count=len(used), ranks=ranks, **fields)  # type: ignore[arg-type]


def silent(seen: Seen) -> Seen:
    """The same worker without a report."""
    return attrs.evolve(seen, ranks=())


def chosen(policy: DpMinToken, *candidates: Seen, times: int) -> Counter[tuple[str, int | None]]:
    """How often each rank is chosen."""
    picks = [policy.pick(candidates, asking(PROMPT)) for _ in range(times)]
    return Counter((pick.worker.name, pick.rank) for pick in picks)


def test_the_rank_with_the_fewest_tokens_is_chosen_until_what_was_sent_there_makes_up_for_it() -> None:
    workers = reporting("a", 1000, 500), reporting("b", 900, 1000)

    assert chosen(DpMinToken(), *workers, times=4) == {("a", 1): 4}


def test_ranks_are_known_by_the_number_that_their_report_names() -> None:
    def rows(*used: tuple[int, int]) -> Seen:
        return Seen("a", rank_count=3, ranks=tuple(RankLoad(rank, 0, 0, used_tokens=tokens) for rank, tokens in used))

    assert chosen(DpMinToken(), rows((2, 5), (0, 90_000), (1, 80_000)), times=1) == {("a", 2): 1}
    # One that has not answered stands as the least of the others.
    assert chosen(DpMinToken(), rows((1, 90_000), (2, 5)), times=4).keys() == {("a", 0), ("a", 2)}


def test_what_was_sent_is_forgotten_with_the_next_report() -> None:
    policy = DpMinToken()
    chosen(policy, reporting("a", 0, 0), times=10)

    assert chosen(policy, reporting("a", 100, 150), times=1) == {("a", 0): 1}


def test_an_engine_whose_report_stays_out_is_taken_at_its_last_one_and_what_was_sent_since() -> None:
    policy = DpMinToken()
    full, empty = reporting("full", 10_000, 10_000), reporting("empty", 0, 0)
    assert chosen(policy, full, empty, times=10) == {("empty", 0): 5, ("empty", 1): 5}

    assert chosen(policy, silent(full), empty, times=10) == {("empty", 0): 5, ("empty", 1): 5}
    assert chosen(policy, silent(full), silent(empty), times=150) == {("empty", 0): 75, ("empty", 1): 75}
    assert chosen(policy, full, silent(empty), times=40).keys() >= {("full", 0), ("full", 1)}


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_a_newcomer_to_a_fleet_that_reports_nothing_gets_its_share_and_no_more(weight: float) -> None:
    policy = DpMinToken()
    old = [Seen("a", rank_count=2), Seen("b", rank_count=2)]
    chosen(policy, *old, times=1000)
    found = chosen(policy, *old, Seen("new", rank_count=2, weight=weight), times=120)

    share = found["new", 0] + found["new", 1]
    assert share == pytest.approx(120 * 2 * weight / (4 + 2 * weight), abs=4)


def test_a_newcomer_begins_at_the_least_of_the_others_until_its_first_report() -> None:
    policy = DpMinToken()
    old = reporting("a", 50_000), reporting("b", 60_000)
    chosen(policy, *old, times=1)
    new = reporting("new", 0)

    assert chosen(policy, *old, silent(new), times=30) == {("a", None): 15, ("new", None): 15}
    assert chosen(policy, *old, new, times=30) == {("new", None): 30}


def test_a_worker_that_was_away_while_others_were_sent_more_is_not_flooded_when_it_is_back() -> None:
    policy = DpMinToken()
    a, b = Seen("a"), Seen("b")
    chosen(policy, a, b, times=10)
    chosen(policy, a, times=100)

    assert chosen(policy, a, b, times=10) == {("a", None): 5, ("b", None): 5}


def test_a_rank_that_was_left_alone_while_others_were_sent_more_is_not_flooded_when_it_is_back() -> None:
    policy = DpMinToken()
    worker = Seen("a", rank_count=2)
    chosen(policy, worker, times=10)
    chosen(policy, attrs.evolve(worker, ranks_out=(1,)), times=100)

    assert chosen(policy, worker, times=10) == {("a", 0): 5, ("a", 1): 5}


def test_a_newcomer_that_reports_is_taken_at_its_report() -> None:
    policy = DpMinToken()
    chosen(policy, reporting("a", 50_000), times=1)

    assert chosen(policy, reporting("a", 50_000), reporting("new", 0), times=5) == {("new", None): 5}
