"""The account of a request: what has happened is said, and what has not is not made up."""

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    FirstToken,
    MediaLoaded,
    Moment,
    Rendered,
    RequestStarted,
    Retrying,
    WorkerPicked,
)
from smg_core.pipeline.answer.trace import Trace
from smg_core.testing import MemoryObserver


def traced(*moments: Moment) -> Trace:
    trace = Trace(100.0, MemoryObserver())
    for moment in moments:
        trace.report(moment)
    return trace


def rendered(at: float) -> Rendered:
    return Rendered("r", at)


def encoded(at: float) -> EncodeDone:
    return EncodeDone("r", 10, 4, 3, 1.0, at)


def picked(worker: str, attempt: int, at: float) -> WorkerPicked:
    return WorkerPicked("r", worker, "round_robin", attempt, at)


def first(worker: str, at: float) -> FirstToken:
    return FirstToken("r", worker, at - 100.0, at)


def ended(worker: str, attempt: int, at: float, outcome: str = "ok") -> AttemptEnded:
    return AttemptEnded("r", worker, attempt, outcome, 0, (), None, 1.0, at)


def test_of_a_request_that_has_met_nothing_nothing_is_known() -> None:
    trace = traced()

    assert trace.phases() == []
    assert (trace.workers, trace.attempts) == ((), 0)
    assert trace.first is None
    assert trace.last(WorkerPicked) is None
    assert trace.prompted is None


def test_each_part_takes_the_time_since_the_one_before_it() -> None:
    trace = traced(
        RequestStarted("r", "chat", "m", True, 100.0),
        rendered(101.0),
        encoded(103.0),
        picked("a", 1, 103.5),
        first("a", 107.5),
        ended("a", 1, 120.0),
    )

    assert trace.phases() == [("render", 1.0), ("encode", 2.0), ("select", 0.5), ("first_token", 4.0)]
    assert sum(seconds for _, seconds in trace.phases()) == trace.first.seconds


def test_a_part_that_has_not_happened_is_absent() -> None:
    assert [name for name, _ in traced(rendered(101.0), encoded(102.0)).phases()] == ["render", "encode"]


def test_media_are_a_part_of_their_own() -> None:
    trace = traced(rendered(101.0), encoded(102.0), MediaLoaded("r", 1, 110.0), picked("a", 1, 111.0))

    assert trace.phases() == [("render", 1.0), ("encode", 1.0), ("media", 8.0), ("select", 1.0)]


def test_a_second_attempt_adds_to_the_parts_and_no_time_is_negative_or_lost() -> None:
    trace = traced(
        rendered(101.0),
        encoded(102.0),
        picked("a", 1, 103.0),
        ended("a", 1, 105.0, "WorkerGone"),
        Retrying("r", "a", "WorkerGone", 0.0),
        picked("b", 2, 106.0),
        first("b", 110.0),
    )

    assert trace.phases() == [
        ("render", 1.0),
        ("encode", 1.0),
        ("select", 2.0),
        ("failed_attempts", 2.0),
        ("first_token", 4.0),
    ]
    assert sum(seconds for _, seconds in trace.phases()) == trace.first.seconds
    assert trace.workers == ("a", "b")
    assert trace.attempts == 1


def test_the_parts_end_with_the_first_output_whatever_attempts_and_turns_follow() -> None:
    beginning = [rendered(101.0), encoded(102.0), picked("a", 1, 103.0), first("a", 104.0)]
    later = [ended("a", 1, 110.0, "WorkerGone"), picked("b", 2, 111.0), rendered(120.0), encoded(121.0)]

    assert traced(*beginning, *later).phases() == traced(*beginning).phases()


def test_an_answer_in_one_piece_has_a_part_of_its_own_and_no_time_to_the_first_output() -> None:
    beginning = [rendered(101.0), picked("a", 1, 102.0), ended("a", 1, 104.0, "WorkerGone"), picked("b", 2, 105.0)]
    trace = traced(*beginning, ended("b", 2, 109.0), rendered(120.0), picked("a", 3, 121.0))

    assert trace.phases() == [("render", 1.0), ("select", 2.0), ("failed_attempts", 2.0), ("generate", 4.0)]
    assert trace.first is None


def test_every_moment_is_passed_on_in_order() -> None:
    observer = MemoryObserver()
    trace = Trace(0.0, observer)
    moments: list[Moment] = [rendered(1.0), picked("a", 1, 2.0), Retrying("r", "a", "WorkerGone", 0.0)]
    for moment in moments:
        trace.report(moment)

    assert list(observer.moments) == trace.moments == moments


def test_the_latest_of_a_kind_is_found() -> None:
    trace = traced(picked("a", 1, 1.0), picked("b", 2, 2.0), encoded(3.0))

    assert trace.last(WorkerPicked) == picked("b", 2, 2.0)
