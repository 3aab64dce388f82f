"""Who waits for room at an engine, in which order, and what a question is told for which not even the queue has room."""

import attrs
import pytest

from smg_core.engines.connections.call_queue import CallQueue
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import WorkerBusy


@attrs.define(eq=False)
class Caller:
    name: str
    question: bool = False
    heard: int = 0


def queue(**limits: int) -> CallQueue[Caller]:
    return CallQueue(EnginesConfig(**limits), "for the door")  # type: ignore[arg-type]


def test_questions_go_first_and_each_kind_in_its_order() -> None:
    waiting = queue()
    for name in ("a", "?1", "b", "?2"):
        waiting.add(Caller(name, question=name.startswith("?")), 0)
    waiting.add_again(Caller("a0"), 0)
    waiting.add_again(Caller("?0", question=True), 0)
    first = waiting.first()
    order = []
    while (call := waiting.take()) is not None:
        order.append(call.name)

    assert first is not None
    assert order == ["?0", "?1", "?2", "a0", "a", "b"]
    assert (first.name, waiting.first(), len(waiting)) == ("?0", None, 0)


def test_what_is_kept_for_questions_is_for_no_other_call() -> None:
    waiting = queue()
    waiting.add(Caller("a"), 0)

    assert waiting.take(questions_only=True) is None
    assert len(waiting) == 1


@pytest.mark.parametrize(("question_calls", "most"), [(0, 3), (1, 3), (4, 6)])
def test_calls_that_wait_keep_no_question_from_waiting(question_calls: int, most: int) -> None:
    waiting = queue(waiting_calls=2, question_calls=question_calls)
    for name in "ab":
        waiting.add(Caller(name), 0)
    for number in range(most):
        waiting.add(Caller(f"?{number}", question=True), 0)

    for caller in (Caller("c"), Caller("?", question=True)):
        with pytest.raises(WorkerBusy, match="no room") as caught:
            waiting.add(caller, 0)
        assert caught.value.detail == "too many calls wait for the door"
    assert len(waiting) == 2 + most


@pytest.mark.parametrize(("since", "answers"), [(7, False), (8, True)])
def test_a_question_without_room_in_the_queue_is_told_what_came_since_the_oldest_one_waits(
    since: int, answers: bool
) -> None:
    waiting = queue(waiting_calls=1, question_calls=1)
    waiting.add(Caller("a"), 2)
    for heard in (7, 8):
        waiting.add(Caller("?", question=True), heard)
    with pytest.raises(WorkerBusy) as caught:
        waiting.add(Caller("?", question=True), since)

    assert caught.value.answers_others is answers


def test_one_that_waits_no_more_leaves_its_room_to_others() -> None:
    waiting = queue(waiting_calls=1)
    call, question = Caller("a"), Caller("?", question=True)
    for each in (call, question):
        waiting.add(each, 0)
        waiting.remove(each)
        waiting.remove(each)
    waiting.add(call, 0)
    waiting.add(question, 0)

    assert waiting.drain() == [question, call]
    assert not waiting
