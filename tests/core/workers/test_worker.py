"""The state machine of one worker."""

import math
from itertools import pairwise
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.loads import Loads, RankLoad
from smg_core.workers.candidate import CandidateRecord
from smg_core.workers.worker import (
    TRANSITIONS,
    LocalBoard,
    Signal,
    State,
    Worker,
    WorkerPlace,
    WorkerSpec,
    records_of,
)


def worker(state: State) -> Worker:
    return Worker(spec=WorkerSpec("grpc://a"), row=0, board=LocalBoard(), state=state)


@pytest.mark.parametrize("state", get_args(State))
@pytest.mark.parametrize("signal", get_args(Signal))
def test_a_signal_moves_along_the_table_or_changes_nothing(state: State, signal: Signal) -> None:
    subject = worker(state)
    changed = subject.apply(signal, "why")

    assert subject.state == TRANSITIONS.get((state, signal), state)
    assert changed == (subject.state != state)


def test_nothing_leaves_gone() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] == "gone"]


def test_a_worker_that_drains_is_never_ready_before_its_engine_was_asked() -> None:
    assert {after for (before, _), after in TRANSITIONS.items() if before == "draining"} == {"gone", "joining"}


def test_a_worker_is_lost_with_the_calls_that_it_had_once_each_time_that_it_is_ready_and_once_in_an_interval() -> None:
    subject = worker("ready")
    assert subject.lost_with(1.0, 10.0, 5.0)
    assert subject.lost_with(10.0, 11.0, 5.0)
    assert not subject.lost_with(10.5, 11.0, 5.0)  # it began when the worker had been lost
    assert subject.lost_with(10.5, 15.0, 5.0)
    assert not subject.lost_with(15.5, 16.0, 5.0)
    subject.apply("failing")
    assert not subject.lost_with(15.5, 16.0, 5.0)
    subject.apply("joined")
    assert subject.lost_with(15.5, 16.0, 5.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=40), st.floats(0.1, 50))
def test_a_worker_that_stays_ready_has_one_loss_in_an_interval(
    calls: list[tuple[float, float]], interval: float
) -> None:
    subject, now, losses = worker("ready"), 0.0, list[float]()
    for took, pause in calls:
        now += pause
        subject.lost_with(max(0.0, now - took), now, interval)
        begins_now = subject.lost_with(now, now, math.inf)  # a call that began after the loss is not lost with it
        if begins_now and (not losses or losses[-1] != now):
            losses.append(now)

    assert all(later - earlier >= interval * 0.999 for earlier, later in pairwise(losses))


@pytest.mark.parametrize("state", get_args(State))
def test_whether_health_checks_fail_is_known_in_any_state(state: State) -> None:
    subject = worker(state)
    for signal, failing in (
        ("failing", True),
        ("drain", True),
        ("healthy", False),
        ("failing", True),
        ("joined", False),
    ):
        subject.apply(signal)
        assert subject.failing is failing


@pytest.mark.parametrize("weight", [0, -1, 1e-300, 1e300, math.inf, math.nan])
def test_a_weight_is_a_number_with_which_loads_can_be_divided(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        WorkerSpec("grpc://a", weight=weight)


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(("take", "read", "leave", "load")), st.integers(0, 9))))
def test_what_a_policy_is_shown_of_many_workers_is_how_each_is(changes: list[tuple[int, str, int]]) -> None:
    board = LocalBoard()
    workers = tuple(Worker(WorkerSpec(f"grpc://{name}", name=name), board.claim(name), board) for name in "abcdefg")
    places: dict[int, list[WorkerPlace]] = {}
    records_of(workers)
    for at, what, number in changes:
        if what == "take":
            places.setdefault(at, []).append(WorkerPlace(workers[at], number))
        elif what == "load":
            workers[at].take_load(Loads((RankLoad(0, number, 1),)))
        elif places.get(at):
            (places[at][0].prompt_read if what == "read" else places[at].pop().leave)()

        seen = records_of(workers)
        assert [each.name for each in seen] == list("abcdefg")
        for worker, record in zip(workers, seen, strict=True):
            assert record == worker._seen(*board.counts(worker.row))
            assert records_of((worker,)) == (record,)


def test_what_a_policy_is_shown_is_one_object_until_something_of_the_worker_changes() -> None:
    subject = Worker(spec=WorkerSpec("grpc://a", name="a", weight=2.0), row=0, board=LocalBoard())
    places = [WorkerPlace(subject, 7)]
    changes = [
        lambda: places.append(WorkerPlace(subject, 0)),
        lambda: places[0].prompt_read(),
        lambda: places[0].leave(),
        lambda: subject.note_elsewhere(3, doubted=True),
        lambda: subject.become(WorkerSpec("grpc://a", name="a", weight=4.0)),
        lambda: subject.take_load(Loads((RankLoad(0, 3, 2, token_usage=0.5, max_tokens=9), RankLoad(1, 1, 1)))),
        lambda: subject.take_load(None),
    ]
    for change in changes:
        before = subject.record
        assert subject.record is before
        change()
        assert subject.record != before
        names = [field.name for field in msgspec.structs.fields(CandidateRecord)]
        assert [getattr(subject.record, name) for name in names] == [getattr(subject, name) for name in names]
