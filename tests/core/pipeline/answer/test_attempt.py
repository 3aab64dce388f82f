"""One engine call, row by row of its table: what completes it, what fails it, and what it leaves of the engine's call."""

from collections.abc import Callable, Sequence

import attrs
import pytest
from tests.core.pipeline.output.test_processor import ids_of, plan

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineFailed, EngineGarbled, EngineStalled, EngineTimeout, SmgError, WorkerGone
from smg_core.events import Event, Finished, TextDelta, Usage
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.pipeline.output.chat_reader import ChatPlan, ChatReader
from smg_core.pipeline.output.processor import OutputProcessor


@attrs.define
class Call:
    """A call in flight, and what was asked of it."""

    asked: list[str] = attrs.field(factory=list)

    def cancel(self) -> None:
        self.asked.append("cancel")

    def leave(self) -> None:
        self.asked.append("leave")

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")


@attrs.define
class Taken:
    """A receiver that keeps what it is given."""

    pushes: list[tuple[list[Event], bool]] = attrs.field(factory=list)

    def take(self, events: Sequence[Event], over: bool) -> None:
        self.pushes.append((list(events), over))

    @property
    def text(self) -> str:
        return "".join(event.text for events, _ in self.pushes for event in events if isinstance(event, TextDelta))

    @property
    def ends(self) -> int:
        return sum(over for _, over in self.pushes)


def begun(*, stop: tuple[str, ...] = (), tells_stops: bool = True) -> tuple[Attempt[EngineOutput], Taken, Call]:
    taken, call = Taken(), Call()
    attempt: Attempt[EngineOutput] = Attempt(OutputProcessor(plan(stop=stop)), taken, tells_stops=tells_stops)
    attempt.reads_from(call)
    return attempt, taken, call


def says(text: str, finish: str | None = None) -> list[EngineOutput]:
    return [EngineOutput(ids=ids_of(text), finish=finish)]  # type: ignore[arg-type]


LOST = WorkerGone("lost")

Act = Callable[[Attempt[EngineOutput]], object]
RUNNING: Act = lambda attempt: None  # noqa: E731
COMPLETE: Act = lambda attempt: attempt.push(says("all", "stop"))  # noqa: E731
FAILED: Act = lambda attempt: attempt.end(LOST)  # noqa: E731
OUTPUTS: Act = lambda attempt: attempt.push(says("more"))  # noqa: E731
LAST: Act = lambda attempt: attempt.push(says("more", "stop"))  # noqa: E731
WRONG: Act = lambda attempt: attempt.push([EngineOutput(index=7, ids=[5])])  # noqa: E731
CLOSED: Act = lambda attempt: attempt.closed(None)  # noqa: E731
BROKEN: Act = lambda attempt: attempt.closed(EngineFailed("broken"))  # noqa: E731
ENDED: Act = lambda attempt: attempt.end(EngineFailed("ended"))  # noqa: E731
RELEASED: Act = lambda attempt: attempt.release()  # noqa: E731


@pytest.mark.parametrize(
    ("before", "act", "state", "error", "pushes"),
    [
        (RUNNING, OUTPUTS, "running", None, 1),
        (RUNNING, LAST, "complete", None, 1),
        (RUNNING, WRONG, "failed", EngineGarbled, 1),
        (RUNNING, CLOSED, "failed", EngineGarbled, 1),
        (RUNNING, BROKEN, "failed", EngineFailed, 1),
        (RUNNING, ENDED, "failed", EngineFailed, 1),
        (RUNNING, RELEASED, "failed", None, 0),
        (COMPLETE, OUTPUTS, "complete", None, 0),
        (COMPLETE, CLOSED, "complete", None, 0),
        (COMPLETE, BROKEN, "complete", None, 0),
        (COMPLETE, ENDED, "complete", None, 0),
        (COMPLETE, RELEASED, "complete", None, 0),
        (FAILED, OUTPUTS, "failed", WorkerGone, 0),
        (FAILED, LAST, "failed", WorkerGone, 0),
        (FAILED, CLOSED, "failed", WorkerGone, 0),
        (FAILED, BROKEN, "failed", WorkerGone, 0),
        (FAILED, ENDED, "failed", WorkerGone, 0),
        (FAILED, RELEASED, "failed", WorkerGone, 0),
    ],
)
def test_the_table_of_states(before: Act, act: Act, state: str, error: type[SmgError] | None, pushes: int) -> None:
    attempt, taken, _ = begun()
    before(attempt)
    taken.pushes.clear()
    act(attempt)

    assert attempt.state == state
    assert type(attempt.error) is (error or type(None))
    assert len(taken.pushes) == pushes
    assert attempt.over == (state != "running")


def test_an_engine_that_closes_once_all_is_said_completes_the_attempt() -> None:
    taken = Taken()
    attempt: Attempt[Event] = Attempt(ChatReader(ChatPlan(1)), taken)
    attempt.push([TextDelta(0, "hi"), Finished(0, "stop")])
    assert attempt.state == "running"  # the engine may still say what it used

    attempt.closed(None)
    assert attempt.state == "complete"
    assert taken.pushes[-1] == ([], True)


def test_a_push_that_says_nothing_new_and_ends_the_turn_is_passed_on() -> None:
    taken = Taken()
    attempt: Attempt[Event] = Attempt(ChatReader(ChatPlan(1)), taken)
    attempt.push([TextDelta(0, "hi"), Finished(0, "stop")])
    attempt.push([Usage(3, 1)])

    assert attempt.state == "complete"
    assert taken.ends == 1


def test_the_end_is_said_once_whatever_follows() -> None:
    attempt, taken, _ = begun()
    for act in (LAST, OUTPUTS, CLOSED, BROKEN, ENDED, RELEASED):
        act(attempt)

    assert taken.ends == 1
    assert taken.text == "more"


@pytest.mark.parametrize("push", [OUTPUTS, LAST, WRONG, CLOSED, BROKEN])
def test_what_is_pushed_after_the_release_reaches_nobody(push: Act) -> None:
    attempt, taken, _ = begun()
    attempt.release()
    push(attempt)

    assert taken.pushes == []
    assert attempt.error is None


# ----------------------------------------------------------------------------------------------------------- release


def test_letting_go_of_an_attempt_under_way_resets_the_stream_once_and_says_that_the_engine_must_be_told() -> None:
    attempt, _, call = begun()
    OUTPUTS(attempt)

    assert attempt.release()
    assert not attempt.release()
    assert call.asked == ["cancel"]


def test_an_attempt_that_the_engine_has_completed_leaves_the_call_to_its_end() -> None:
    attempt, _, call = begun()
    LAST(attempt)

    assert not attempt.release()
    assert call.asked == ["leave"]


@pytest.mark.parametrize("error", [None, LOST])
def test_of_a_call_that_the_engine_has_closed_nothing_is_left_to_reset(error: SmgError | None) -> None:
    attempt, _, call = begun()
    OUTPUTS(attempt)
    attempt.closed(error)

    assert not attempt.release()
    assert call.asked == []


@pytest.mark.parametrize("error", [EngineGarbled("not understood"), EngineTimeout("too slow"), EngineStalled("silent")])
def test_an_engine_that_was_not_understood_or_was_too_slow_is_told_to_stop(error: SmgError) -> None:
    attempt, _, _ = begun()
    OUTPUTS(attempt)
    attempt.closed(error)

    assert attempt.release()
    assert not attempt.release()


def test_a_call_that_we_failed_is_reset_and_the_engine_told() -> None:
    attempt, _, call = begun()
    WRONG(attempt)

    assert attempt.release()
    assert call.asked == ["cancel"]


@pytest.mark.parametrize("tells_stops", [True, False])
def test_an_engine_that_was_not_given_the_stop_strings_must_be_told_that_one_was_found(tells_stops: bool) -> None:
    attempt, _, call = begun(stop=("END",), tells_stops=tells_stops)
    attempt.push(says("so END"))

    assert attempt.state == "complete"
    assert attempt.release() == (not tells_stops)
    assert call.asked == ["cancel"]


def test_an_attempt_whose_call_never_began_leaves_nothing_to_release() -> None:
    attempt: Attempt[EngineOutput] = Attempt(OutputProcessor(plan()), Taken())
    attempt.pause()
    attempt.resume()
    attempt.end(LOST)

    assert not attempt.release()


def test_the_engine_is_held_back_and_let_go_on() -> None:
    attempt, _, call = begun()
    attempt.pause()
    attempt.resume()

    assert call.asked == ["pause", "resume"]


# -------------------------------------------------------------------------------------------------------- the first one


def test_the_first_output_is_told_of_once_and_only_when_something_follows_from_it() -> None:
    told: list[int] = []
    taken = Taken()
    attempt: Attempt[EngineOutput] = Attempt(OutputProcessor(plan()), taken, on_first=lambda: told.append(1))
    attempt.push([EngineOutput(prompt_tokens=7)])
    assert (told, taken.pushes) == ([], [])

    OUTPUTS(attempt)
    LAST(attempt)
    assert told == [1]


def test_an_attempt_that_goes_on_with_anothers_reader_says_what_is_missing() -> None:
    first, taken, _ = begun()
    first.push(says("one "))
    first.closed(LOST)
    second: Attempt[EngineOutput] = Attempt(first.reader, taken)
    second.push(says("two", "stop"))

    assert taken.text == "one two"
    assert second.state == "complete"
    assert second.reader.finishes == [Finished(0, "stop")]


@pytest.mark.parametrize(
    "fault", [EngineOutput(ids=(), finish="error"), EngineOutput(index=7, ids=ids_of("x"))], ids=["gives up", "garbled"]
)
def test_what_a_push_says_before_its_fault_is_passed_on_and_is_not_lost_to_who_goes_on(fault: EngineOutput) -> None:
    """The ids are counted and kept, so that another engine is asked for what is behind them."""
    reader, taken = OutputProcessor(plan(), keep_ids=True), Taken()
    first: Attempt[EngineOutput] = Attempt(reader, taken)
    first.push(says("one"))
    first.push([*says(" two"), fault])
    assert first.state == "failed"
    second: Attempt[EngineOutput] = Attempt(reader, taken)
    reader.resume()
    second.push(says(" three", "stop"))

    assert second.state == "complete"
    assert list(reader.received()) == ids_of("one") + ids_of(" two") + ids_of(" three")
    assert taken.text == "one two three"
    assert taken.ends == 2
