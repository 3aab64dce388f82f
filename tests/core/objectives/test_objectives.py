"""A request goes to a worker that can meet its objectives, by prediction; what is done where none can is a setting."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest, Overloaded
from smg_core.hooks import AttemptEnded, FirstToken
from smg_core.limit_moments import ObjectiveKept, TimePredicted
from smg_core.objectives.objectives import Objective, Objectives, objective_of
from smg_core.testing import MemoryObserver


@attrs.frozen
class Worker:
    name: str
    in_flight: int = 0
    role: str = "regular"
    prefill_tokens: int = 0
    others: int = 0
    ranks: tuple[Any, ...] = ()


def objectives(wish: Any = "late") -> tuple[Objectives, MemoryObserver]:
    """Objectives of a model whose workers take a millisecond for ten tokens, and two for each sequence."""
    observer = MemoryObserver()
    found = Objectives(observer, lambda: 2.0)
    found.on_missed = wish
    for number in range(200):
        worker = Worker(f"w{number % 2}", number % 7, number * 37 % 2000)
        objective_words(found, worker, number * 53 % 1000, 0.01)
    return found, observer


def objective_words(
    found: Objectives, worker: Worker, reads: int, each: float, headers: dict[str, str] | None = None
) -> None:
    """A request is sent to the worker, and answered as quickly as that is."""
    seconds = (worker.prefill_tokens + reads) / 10_000 + worker.in_flight * 0.002
    sent = found.sent(headers or {}, "m", worker, reads, 5.0)
    sent.note(FirstToken("r", worker.name, seconds, 5.0 + seconds))
    sent.note(AttemptEnded("r", worker.name, 1, "ok", 11, ("stop",), seconds, seconds + 10 * each, 9.0))


def meeting(found: Objectives, *workers: Worker, passed: float = 0.0, **headers: str) -> tuple[list[str], str]:
    asked = {f"x-slo-{name}-ms": value for name, value in headers.items()}
    chosen = found.meeting(asked, "m", workers, 1000, lambda: [0] * len(workers), passed)
    wish, found.on_missed = found.on_missed, "say"
    objective_words = found.sent(asked, "m", chosen[0], 1000, 7.0, passed).objective_words
    found.on_missed = wish
    return [each.name for each in chosen], objective_words


FREE, BUSY = Worker("w0"), Worker("w1", in_flight=6, prefill_tokens=4000)


def test_only_workers_that_can_meet_it_are_left() -> None:
    found, _ = objectives()
    assert meeting(found, FREE, BUSY, ttft="200") == (["w0"], "met")
    assert meeting(found, FREE, BUSY, ttft="2000") == (["w0", "w1"], "met")
    assert meeting(found, FREE, BUSY, ttft="2000", passed=1.8) == (["w0"], "met")
    assert meeting(found, FREE, BUSY) == (["w0", "w1"], "")
    assert meeting(found, FREE, BUSY, tpot="50") == (["w0", "w1"], "met")


def test_what_a_cache_has_need_not_be_read() -> None:
    found, _ = objectives()
    asked = {"x-slo-ttft-ms": "60"}
    chosen = found.meeting(asked, "m", (FREE, Worker("w1")), 1000, lambda: [0, 900], 0.0)
    assert [each.name for each in chosen] == ["w1"]


@pytest.mark.parametrize("wish", ["late", "say"])
def test_where_none_can_those_that_miss_least_serve_late(wish: str) -> None:
    found, _ = objectives(wish)
    assert meeting(found, BUSY, FREE, ttft="10") == (["w0"], "late")
    assert meeting(found, BUSY, FREE, tpot="1")[1] == "late"
    assert meeting(found, BUSY, FREE, ttft="10", passed=1.0)[1] == "late"
    assert found.sent({"x-slo-ttft-ms": "1"}, "m", FREE, 900, 0.0).objective_words == ("late" if wish == "say" else "")


def test_where_none_can_a_request_is_shed_if_that_is_wished() -> None:
    found, _ = objectives("shed")
    with pytest.raises(Overloaded) as refused:
        meeting(found, BUSY, FREE, ttft="10")
    assert refused.value.retry_after == 2.0


def test_nothing_is_refused_before_anything_is_known() -> None:
    found = Objectives(MemoryObserver(), lambda: 2.0)
    found.on_missed = "shed"
    assert meeting(found, BUSY, FREE, ttft="1") == (["w1", "w0"], "")
    assert found.due({"x-slo-ttft-ms": "1"}, "m", [FREE], 10, 3.0) == float("inf")


def test_a_request_has_to_go_in_time_for_its_first_token() -> None:
    found, _ = objectives()
    due = found.due({"x-slo-ttft-ms": "500"}, "m", [BUSY, FREE], 1000, 100.0)
    assert 100.3 < due < 100.45
    assert found.due({"x-slo-ttft-ms": "1"}, "m", [FREE], 1000, 100.0) == 100.0
    assert found.due({}, "m", [FREE], 1000, 100.0) == float("inf")


def test_it_tells_how_good_predictions_were_and_which_objectives_were_met() -> None:
    found, observer = objectives()
    objective_words(found, FREE, 1000, 0.01, {"x-slo-ttft-ms": "200", "x-slo-tpot-ms": "5"})
    first, each = observer.of(TimePredicted)[-2:]
    assert abs(first.expected - first.seconds) < 0.02
    assert abs(each.expected - each.seconds) < 0.002
    assert [(each.kind, each.outcome) for each in observer.of(ObjectiveKept)] == [("first", "met"), ("each", "missed")]


def test_moments_of_other_workers_and_failed_calls_teach_nothing() -> None:
    found, observer = objectives()
    before = len(observer.of(TimePredicted))
    sent = found.sent({}, "m", FREE, 10, 0.0)
    sent.note(FirstToken("r", "other", 1.0, 1.0))
    sent.note(AttemptEnded("r", "w0", 1, "WorkerGone", 11, (), 0.1, 2.0, 9.0))
    sent.note(AttemptEnded("r", "w0", 1, "ok", 1, (), 0.1, 2.0, 9.0))
    assert len(observer.of(TimePredicted)) == before


def test_of_workers_that_share_a_request_one_decides_the_first_token_and_one_the_others() -> None:
    found, observer = objectives("say")
    reader, answerer = Worker("p", role="prefill"), Worker("d", role="decode")
    late = Worker("late", prefill_tokens=20_000, role="prefill")
    asked = {"x-slo-ttft-ms": "300", "x-slo-tpot-ms": "30"}
    for number in range(40):
        reads, running = number * 53 % 1000, number % 9
        sent = found.sent(asked, "m", attrs.evolve(answerer, in_flight=running), reads, 5.0, 0.0, reader)
        first, each = reads / 10_000 + 0.05, 0.01 + running * 0.004
        sent.note(FirstToken("r", "p", 9.0, 14.0))  # who only reads answers nobody
        sent.note(FirstToken("r", "d", first, 5.0 + first))
        sent.note(AttemptEnded("r", "d", 1, "ok", 11, ("stop",), first, first + 10 * each, 9.0))
    off = [abs(each.expected - each.seconds) for each in observer.of(TimePredicted)[-10:]]
    assert max(off) < 0.005

    def left(*workers: Worker) -> list[str]:
        role = workers[0].role
        return [each.name for each in found.meeting(asked, "m", workers, 500, lambda: [0] * len(workers), 0.0, role)]

    crowded = Worker("crowded", in_flight=20, role="decode")
    assert left(reader, late) == ["p"]
    assert left(answerer, crowded) == ["d"]
    assert found.sent(asked, "m", answerer, 500, 7.0, 0.0, reader).objective_words == "met"
    assert found.sent(asked, "m", crowded, 500, 7.0, 0.0, reader).objective_words == "late"
    assert found.sent(asked, "m", answerer, 500, 7.0, 0.0, late).objective_words == "late"
    assert 7.1 < found.due(asked, "m", [reader, late], 500, 7.0) < 7.3


def test_what_headers_ask_is_read() -> None:
    assert objective_of({}) is None
    assert objective_of({"x-slo-ttft-ms": " 250.5 "}) == Objective(0.2505)
    assert objective_of({"x-slo-tpot-ms": "40"}) == Objective(each_s=0.04)


@given(
    st.sampled_from(["x-slo-ttft-ms", "x-slo-tpot-ms"]),
    st.text(max_size=12) | st.sampled_from(["0", "-1", "nan", "1e9", "²", "1.", ".5"]),
)
def test_what_is_no_time_is_refused_by_name_and_what_is_one_is_above_zero(name: str, text: str) -> None:
    try:
        found = objective_of({name: text})
    except InvalidRequest as error:
        refused = error.param
    else:
        refused = name
        assert found is not None
        assert 0 < min(found.first_s, found.each_s) <= 10**6
    assert refused == name
