"""The state machine of one worker."""

import math
from typing import get_args

import msgspec
import pytest

from smg_core.engines.base import EngineFacts
from smg_core.engines.loads import Loads, RankLoad
from smg_core.workers.candidate import CandidateRecord
from smg_core.workers.worker import TRANSITIONS, LocalBoard, Signal, State, Worker, WorkerSpec


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


@pytest.mark.parametrize("weight", [0, -1, 1e-300, 1e300, math.inf, math.nan])
def test_a_weight_is_a_number_with_which_loads_can_be_divided(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        WorkerSpec("grpc://a", weight=weight)


def test_what_a_policy_is_shown_is_one_object_until_something_of_the_worker_changes() -> None:
    subject = Worker(spec=WorkerSpec("grpc://a", name="a", weight=2.0), row=0, board=LocalBoard())
    changes = [
        lambda: subject.board.add(0, 1),
        lambda: subject.board.add_tokens(0, 7),
        lambda: setattr(subject, "load", Loads((RankLoad(0, 3, 2, token_usage=0.5, max_tokens=9), RankLoad(1, 1, 1)))),
        lambda: setattr(subject, "facts", EngineFacts("vllm", ranks=2)),
        lambda: setattr(subject, "load", None),
    ]
    for change in changes:
        before = subject.record
        assert subject.record is before
        change()
        assert subject.record != before
        names = [field.name for field in msgspec.structs.fields(CandidateRecord)]
        assert [getattr(subject.record, name) for name in names] == [getattr(subject, name) for name in names]
