"""Who is to blame for a cache that was not handed over: whoever is not acquitted by what goes well with a third worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import EngineFailed
from smg_core.workers.handovers import Blame, HandoverEnd, Handovers
from smg_core.workers.worker import LocalBoard, Worker, WorkerSpec

NO = EngineFailed("no")
NAMES = ("p0", "p1", "p2", "d0", "d1", "d2")
BOARD = LocalBoard()
WORKERS = {
    name: Worker(spec=WorkerSpec(f"grpc://{name}:1", name=name), row=BOARD.claim(name), board=BOARD, source="program")
    for name in NAMES
}


def end(name: str, rank: int | None = None) -> HandoverEnd:
    return HandoverEnd.of(WORKERS[name], rank)


def names(blamed: tuple[Blame, ...]) -> list[tuple[str, int]]:
    return [(each.end.worker.name, each.count) for each in blamed]


@pytest.mark.parametrize(
    ("start", "last", "to_blame"), [("p0", "d1", "d0"), ("p1", "d0", "p0"), ("p1", "d1", None), ("p0", "d0", None)]
)
def test_the_one_of_two_is_to_blame_of_whom_nothing_went_well_with_a_third(
    start: str, last: str, to_blame: str | None
) -> None:
    handovers = Handovers(10.0)
    assert handovers.failed(end("p0"), end("d0"), NO, 0.0, 1.0) == ()
    assert handovers.failed(end("p0"), end("d0"), NO, 0.5, 1.5) == ()  # made before the first one had failed
    assert "d0" in handovers.doubted_with("p0", 1.5)

    blamed = handovers.went_well(end(start), end(last), 2.0)

    assert names(blamed) == ([] if to_blame is None else [(to_blame, 2)])
    assert ("d0" in handovers.doubted_with("p0", 2.0)) == (to_blame is None)


def test_a_pair_in_doubt_that_had_to_be_asked_again_is_to_blame_together() -> None:
    handovers = Handovers(10.0)
    assert handovers.failed(end("p0"), end("d0"), NO, 0.0, 1.0) == ()
    assert names(handovers.failed(end("p0"), end("d0"), NO, 1.0, 2.0)) == [("p0", 2), ("d0", 2)]
    assert not handovers.any_in_doubt


def test_a_rank_of_an_engine_is_not_acquitted_by_another_rank() -> None:
    handovers = Handovers(10.0)
    handovers.failed(end("p0", 0), end("d0"), NO, 0.0, 1.0)
    assert handovers.went_well(end("p0", 1), end("d1"), 2.0) == ()
    assert names(handovers.went_well(end("p0", 0), end("d1"), 2.0)) == [("d0", 1)]


@pytest.mark.parametrize("forgotten", ["old", "p0", "d0"])
def test_a_doubt_is_forgotten_with_either_worker_and_when_it_is_old(forgotten: str) -> None:
    handovers = Handovers(10.0)
    handovers.failed(end("p0"), end("d0"), NO, 0.0, 1.0)
    if forgotten != "old":
        handovers.forget(forgotten)
    now = 11.0 if forgotten == "old" else 2.0
    assert "d0" not in handovers.doubted_with("p0", now)
    assert handovers.went_well(end("p0"), end("d1"), now) == ()


@given(
    st.sampled_from([((2, 2), "p0"), ((2, 2), "d0"), ((2, 1), "p0"), ((1, 2), "d0"), ((3, 2), "p0"), ((3, 3), "d0")]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60),
)
def test_a_healthy_worker_is_never_blamed_where_pairs_in_doubt_are_asked_last(
    setup: tuple[tuple[int, int], str], draws: list[tuple[int, int]]
) -> None:
    (prefill, decode), broken = setup
    starts, ends = [f"p{at}" for at in range(prefill)], [f"d{at}" for at in range(decode)]
    handovers, failed, blamed = Handovers(1000.0), 0, 0
    for now, (first, last) in enumerate(draws, 1):
        free = {one: [each for each in ends if each not in handovers.doubted_with(one, now)] for one in starts}
        left = [each for each in starts if free[each]] or starts
        start = left[first % len(left)]
        chosen = free[start] or ends
        stop = chosen[last % len(chosen)]
        if broken in (start, stop):
            failed += 1
            found = handovers.failed(end(start), end(stop), NO, now, now)
        else:
            found = handovers.went_well(end(start), end(stop), now)
        assert {each.end.worker.name for each in found} <= {broken}
        blamed += sum(each.count for each in found)
        assert failed - blamed <= max(prefill, decode), "each pair is in doubt once"


RANKED = st.tuples(st.sampled_from(NAMES), st.sampled_from([None, 0, 1]))


@given(
    st.lists(
        st.tuples(st.sampled_from(["failed", "went well", "forget"]), RANKED, RANKED, st.integers(0, 4)), max_size=60
    )
)
def test_workers_are_in_doubt_with_each_other_as_long_as_any_of_their_ranks_is(
    steps: list[tuple[str, tuple[str, int | None], tuple[str, int | None], int]],
) -> None:
    handovers, doubts, now = Handovers(10.0), dict[tuple[tuple[str, int | None], tuple[str, int | None]], int](), 0
    for what, start, stop, seconds in steps:
        now += seconds
        doubts = {key: since for key, since in doubts.items() if now - since < 10}
        if what == "failed":
            found = handovers.failed(end(*start), end(*stop), NO, now, now)
            if found:
                del doubts[start, stop]
            else:
                doubts[start, stop] = now
        elif what == "went well":
            handovers.went_well(end(*start), end(*stop), now)
            doubts = {key: since for key, since in doubts.items() if (key[0] == start) == (key[1] == stop)}
        else:
            handovers.forget(start[0])
            doubts = {key: since for key, since in doubts.items() if start[0] not in (key[0][0], key[1][0])}
        told = {(one, other) for one in NAMES for other in NAMES if other in handovers.doubted_with(one, now)}
        assert told == {(first, last) for (first, _), (last, _) in doubts}
        assert handovers.any_in_doubt == bool(doubts)
