"""Flows as decisions: a list answers the steps, no event loop runs."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest
from msgspec.structs import replace
from tests.core.pipeline.prompt.test_prepare import asking, model, prompted

from smg_core.engines.base import EngineFacts
from smg_core.errors import (
    ClientGone,
    Draining,
    EngineFailed,
    InvalidRequest,
    NoWorker,
    SmgError,
    WorkerBusy,
    WorkerGone,
)
from smg_core.events import Finished, Usage
from smg_core.hooks import Moment, Retrying
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.fit.fit import FitForIds, fitted, reader_for
from smg_core.pipeline.flow.flow import Terms, generate, respond, retry_delay
from smg_core.pipeline.flow.steps import Chosen, Finish, Flow, Placement, Prepare, Select, Step, Stream, Wait
from smg_core.pipeline.flow.tries import Tries
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.routing.retry_budget import RetryBudgets
from smg_core.routing.settings import RoutingConfig
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import LocalBoard, Worker, WorkerSpec

REQUEST = GenerationRequest(id="r", model="m")
PROMPTED = Prompted(REQUEST, ServedModel("m", None), "", EncodeReport(TokenIds([1]), 0), TokenIds([1]))


@attrs.define
class Commitment:
    """Whether something went out."""

    committed: bool = False


@attrs.define
class Notes:
    """An observer that remembers."""

    moments: list[Moment] = attrs.field(factory=list)

    def report(self, moment: Moment) -> None:
        self.moments.append(moment)


@attrs.define
class Played:
    """The steps that a flow asked for, what it reported, and what it returned."""

    asked: list[Any]
    notes: Notes
    returned: Any = None

    @property
    def kinds(self) -> list[type[Step[Any]]]:
        return [type(step) for step in self.asked]


def on(*names: str) -> Placement:
    """A placement on workers of these names."""
    return Placement(
        tuple(
            [Chosen(Worker(spec=WorkerSpec(f"grpc://{name}", name=name), row=0, board=LocalBoard())) for name in names]
        )
    )


def turn(error: SmgError | None = None) -> Turn:
    return Turn(() if error else (Finished(0, "stop"),), Usage(3, 1), error=error)


def play(
    answers: list[Any],
    *,
    commitment: Commitment | None = None,
    attempts: int = 3,
    budgets: RetryBudgets | None = None,
    flow: Callable[..., Flow[Any]] = generate,
    **options: Any,
) -> Played:
    """Answer the flow's steps from a list; an exception in it is thrown."""
    notes, asked = Notes(), list[Any]()
    terms = Terms(
        commitment or Commitment(), RoutingConfig(retries=attempts - 1), random.Random(0), notes, budgets=budgets
    )
    running = flow(REQUEST, terms, **options)
    step = next(running)
    for answer in answers:
        asked.append(step)
        try:
            if callable(answer):
                answer = answer()
            step = running.throw(answer) if isinstance(answer, SmgError) else running.send(answer)
        except StopIteration as stop:
            return Played(asked, notes, stop.value)
    raise AssertionError(f"the flow still asks for {step}")


def test_a_turn_is_prepared_once_sent_to_a_worker_and_returned() -> None:
    done = turn()
    played = play([PROMPTED, on("a"), done])

    assert played.kinds == [Prepare, Select, Stream]
    assert played.asked[0] == Prepare(REQUEST)
    assert played.returned is done
    assert played.notes.moments == []


def test_a_response_of_one_turn_is_that_turn_and_the_end() -> None:
    done = turn()
    played = play([PROMPTED, on("a"), done, None], flow=respond)

    assert played.kinds == [Prepare, Select, Stream, Finish]
    assert played.asked[2].ends
    assert played.asked[3] == Finish(done)


def test_a_response_that_cannot_be_made_is_not_finished() -> None:
    with pytest.raises(EngineFailed):
        play([PROMPTED, on("a"), turn(EngineFailed("no"))], flow=respond)


@pytest.mark.parametrize(("ends", "keep"), [(True, False), (False, True)])
def test_what_is_asked_of_a_turn_is_asked_of_each_of_its_attempts(ends: bool, keep: bool) -> None:
    played = play([PROMPTED, on("a"), turn(WorkerGone("lost")), on("b"), turn()], ends=ends, keep=keep)
    streams = [step for step in played.asked if isinstance(step, Stream)]

    assert [(step.attempt, step.ends, step.keep) for step in streams] == [(1, ends, keep), (2, ends, keep)]
    assert all(step.prompted is PROMPTED and step.continues is None for step in streams)


def test_of_several_workers_the_last_one_answers_and_none_is_asked_again() -> None:
    played = play([PROMPTED, on("p", "d"), turn(WorkerGone("lost")), on("p2", "d2"), turn()])

    assert [step.chosen.worker.name for step in played.asked if isinstance(step, Stream)] == ["d", "d2"]
    assert played.asked[3].exclude == frozenset({"p", "d"})


# ------------------------------------------------------------------------------------------------------------- retries


def test_a_lost_worker_is_replaced_by_another_and_the_prompt_is_kept() -> None:
    played = play([PROMPTED, on("a"), turn(WorkerGone("lost")), on("b"), turn()])

    assert played.kinds == [Prepare, Select, Stream, Select, Stream]
    assert played.asked[3] == Select(PROMPTED, frozenset({"a"}), 2)
    assert played.notes.moments == [Retrying("r", "a", "WorkerGone", 0.0)]


def test_the_third_try_waits_a_little_first() -> None:
    lost, busy = turn(WorkerGone("")), turn(WorkerBusy(""))
    played = play([PROMPTED, on("a"), lost, on("b"), busy, None, on("c"), turn()])
    wait = played.asked[5]

    assert isinstance(wait, Wait)
    assert 0.025 <= wait.seconds <= 0.05
    assert played.asked[6].exclude == frozenset({"a", "b"})


def test_an_answer_that_cannot_go_on_is_not_begun_again_once_a_byte_of_it_is_out() -> None:
    commitment = Commitment()

    def lost() -> Turn:
        commitment.committed = True
        return replace(turn(WorkerGone("lost")), begun=True)

    with pytest.raises(WorkerGone):
        play([PROMPTED, on("a"), lost], commitment=commitment)


def test_a_call_of_which_nothing_came_is_made_again_whatever_the_client_has_seen() -> None:
    played = play([PROMPTED, on("a"), turn(WorkerGone("lost")), on("b"), turn()], commitment=Commitment(True))

    assert played.asked[3].exclude == frozenset({"a"})
    assert played.asked[4].continues is None


def test_an_error_that_any_worker_would_give_is_given_at_once() -> None:
    with pytest.raises(EngineFailed):
        play([PROMPTED, on("a"), turn(EngineFailed("no"))])


def test_when_nobody_else_is_left_the_client_hears_of_the_first_failure() -> None:
    with pytest.raises(WorkerGone, match="lost"):
        play([PROMPTED, on("a"), turn(WorkerGone("lost")), NoWorker("none")])


def test_a_refusal_by_those_who_are_left_is_not_what_the_client_hears_either() -> None:
    with pytest.raises(WorkerGone, match="lost"):
        play([PROMPTED, on("a"), turn(WorkerGone("lost")), InvalidRequest("not here")])


@pytest.mark.parametrize("interruption", [ClientGone("left"), Draining("shutting down")])
def test_a_client_that_leaves_while_another_worker_is_sought_is_not_taken_for_there_being_none(
    interruption: SmgError,
) -> None:
    with pytest.raises(type(interruption)):
        play([PROMPTED, on("a"), turn(WorkerGone("lost")), interruption])


def test_no_worker_at_all_is_said_as_it_is() -> None:
    with pytest.raises(NoWorker):
        play([PROMPTED, NoWorker("none")])


def test_a_request_that_is_wrong_is_said_as_it_is() -> None:
    with pytest.raises(InvalidRequest):
        play([InvalidRequest("wrong")])


@pytest.mark.parametrize("step", range(3))
def test_a_client_that_leaves_ends_the_flow_wherever_it_waits(step: int) -> None:
    answers: list[Any] = [PROMPTED, on("a"), turn()]
    with pytest.raises(ClientGone):
        play([*answers[:step], ClientGone("left")])


def test_tries_are_bounded() -> None:
    first, second = turn(WorkerGone("first")), turn(WorkerGone("second"))
    with pytest.raises(WorkerGone, match="second"):
        play([PROMPTED, on("a"), first, on("b"), second], attempts=2)


def left(budgets: RetryBudgets) -> int:
    """How many retries there are still."""
    taken = 0
    while budgets.of("m").take():
        taken += 1
    return taken


LOST = turn(WorkerGone("lost"))


@pytest.mark.parametrize(
    ("answers", "made"),
    [
        ([on("a"), LOST, on("b"), turn()], 1),
        ([on("a"), LOST, on("b"), LOST, None, on("c"), turn()], 2),
        ([on("a"), LOST, NoWorker("none")], 0),
        ([on("a"), LOST, InvalidRequest("not here")], 0),
        ([on("a"), LOST, ClientGone("left")], 0),
        ([on("a"), LOST, Draining("shutting down")], 0),
        ([on("a"), LOST, on("b"), ClientGone("left")], 1),
        ([on("a"), LOST, on("b"), LOST, ClientGone("left while it waited")], 1),
        ([on("a"), LOST, on("b"), LOST, None, NoWorker("none")], 1),
        ([on("a"), turn(EngineFailed("no"))], 0),
        ([on("a"), turn()], 0),
    ],
)
def test_a_retry_is_taken_from_the_budget_only_where_it_is_made(answers: list[Any], made: int) -> None:
    budgets = RetryBudgets(RoutingConfig(retry_reserve=5, retry_share=0.0))
    with suppress(SmgError):
        play([PROMPTED, *answers], budgets=budgets)

    assert left(budgets) == 5 - made


def test_a_model_whose_only_worker_fails_has_its_whole_budget_when_another_one_joins() -> None:
    budgets = RetryBudgets(RoutingConfig(retry_reserve=2, retry_share=0.0))
    for _ in range(10):
        with pytest.raises(WorkerGone):
            play([PROMPTED, on("a"), LOST, NoWorker("none")], budgets=budgets)

    assert play([PROMPTED, on("a"), LOST, on("b"), turn()], budgets=budgets).returned.error is None


def test_a_call_that_was_lost_with_all_others_of_its_worker_takes_no_retry_from_the_budget_and_is_bounded() -> None:
    budgets = RetryBudgets(RoutingConfig(retry_reserve=0, retry_share=0.0))
    lost = replace(LOST, lost=True)
    assert play([PROMPTED, on("a"), lost, on("b"), turn()], budgets=budgets).returned.error is None
    with pytest.raises(WorkerGone):
        play([PROMPTED, on("a"), lost, on("b"), lost, None, on("c"), lost], budgets=budgets)
    with pytest.raises(WorkerGone):
        play([PROMPTED, on("a"), lost, on("b"), LOST], budgets=budgets)


def test_an_engine_that_failed_while_it_waited_for_a_cache_is_tried_again_and_both_of_the_pair_are_suspects() -> None:
    failed = replace(turn(EngineFailed("no")), failed="d", handed_nothing=True)
    played = play([PROMPTED, on("p0", "d"), failed, on("p1", "d"), failed, None, on("p2", "e"), turn()])
    asked = [step for step in played.asked if isinstance(step, Select)]
    assert [step.suspects for step in asked] == [set(), {("p0", "d")}, {("p0", "d"), ("p1", "d")}]
    assert {step.exclude for step in asked} == {frozenset()}
    with pytest.raises(EngineFailed):
        play([PROMPTED, on("p0", "d"), failed, NoWorker("none")])
    with pytest.raises(EngineFailed):
        play([PROMPTED, on("p0", "d"), failed], commitment=Commitment(committed=True), attempts=1)


def test_a_call_is_told_what_may_follow_it() -> None:
    played = play([PROMPTED, on("a"), LOST, on("b"), turn()], attempts=2)
    first, second = (step.after for step in played.asked if isinstance(step, Stream))

    assert (first.exclude, first.retries, first.migrations) == (frozenset(), 1, 3)
    assert (second.exclude, second.retries, second.migrations) == (frozenset({"a"}), 0, 3)


@pytest.mark.parametrize("handed_nothing", [False, True])
def test_who_failed_before_is_asked_again_by_an_answer_that_moves_whatever_the_failure_was(
    handed_nothing: bool,
) -> None:
    tries = Tries(3, WorkersConfig())
    lost, fit = WorkerGone("lost"), fitted(prompted(asking(), model()), EngineFacts("vllm"))
    assert isinstance(fit, FitForIds)
    reader = reader_for(fit, 0, keep_ids=True)
    tries.failed_with(replace(LOST, failed="d0", handed_nothing=handed_nothing), lost, on("p", "d0"), committed=False)
    before = tries.suspects, tries.tried
    moved = replace(LOST, failed="d1", begun=True, received=3, reader=reader)
    assert tries.failed_with(moved, lost, on("p", "d1"), committed=True) == "on"

    assert before == (({("p", "d0")}, set()) if handed_nothing else (set(), {"d0"}))
    assert (tries.suspects, tries.tried) == (set(), {"d1"})
    assert tries.after.suspects == set()


def test_a_call_is_told_which_suspects_a_try_after_it_avoids() -> None:
    failed = replace(turn(EngineFailed("no")), failed="d", handed_nothing=True)
    played = play([PROMPTED, on("p0", "d"), failed, on("p1", "d"), turn()])
    assert [step.after.suspects for step in played.asked if isinstance(step, Stream)] == [set(), {("p0", "d")}]


@pytest.mark.parametrize("retry", range(1, 12))
def test_a_delay_is_bounded_and_never_negative(retry: int) -> None:
    settings = RoutingConfig(retry_s=0.1, retry_most_s=0.7)
    draws: list[Callable[[], float]] = [lambda: 0.0, lambda: 0.999]
    for draw in draws:
        rng = random.Random()
        rng.random = draw  # type: ignore[method-assign]

        assert 0.0 <= retry_delay(retry, settings, rng) <= 0.7
