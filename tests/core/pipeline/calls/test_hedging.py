"""Two calls for one answer: every order in which they may end, and what becomes of each."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from msgspec.structs import replace
from tests.core.pipeline.prompt.test_prepare import model
from tests.core.pipeline.road import REQUEST, Road, eventually, road

from smg_core.clock import SystemClock
from smg_core.errors import ClientGone, EngineFailed, WorkerGone
from smg_core.events import NO_USAGE
from smg_core.hooks import AttemptEnded, Hedged, Retrying
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.calls.hedging import Hedging
from smg_core.pipeline.calls.streaming import Streaming
from smg_core.pipeline.flow.flow import generate, is_hedged, respond
from smg_core.pipeline.flow.steps import Chosen, Hedge, Stream
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import GenerationRequest, Sampling
from smg_core.routing.settings import RoutingConfig
from smg_core.testing import FakeClock
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.testing import ScriptedEngine

pytestmark = pytest.mark.anyio

SHORT = replace(REQUEST, stream=False, sampling=Sampling(max_tokens=16))
ON = RoutingConfig(hedge_after_s=0.001, retries=1)
LATE = SimulatorConfig(timing=Timing(overhead=1.0))
"""An engine whose first token comes when its clock has moved on by a second."""
BREAKS = Fault("error", after=1)
"""The engine fails on the request itself, after one token: no other is asked after it."""
BUSY = Fault("refuse")


@attrs.define
class Pair:
    """A road before late engines, and the clock of each."""

    here: Road
    clocks: list[FakeClock]

    def answers(self, place: int) -> None:
        """Let the engine at `place` answer what it was asked."""
        self.clocks[place].advance(1.0)

    async def asked(self, *places: int) -> None:
        """Return once these engines work on a request."""
        await eventually(lambda: all(self.here.engines[place].active for place in places))

    async def told_to_stop(self, place: int) -> None:
        """Return once the engine at `place` has been told that its answer is not wanted."""
        await eventually(lambda: bool(self.here.engines[place].aborted) and not self.here.engines[place].active)

    @property
    def told(self) -> list[str]:
        return [each.outcome for each in self.here.observer.of(Hedged)]

    @property
    def ends(self) -> dict[str, str]:
        return {each.worker: each.outcome for each in self.here.observer.of(AttemptEnded)}

    def begin(self, request: GenerationRequest = SHORT, **settings: Any) -> "asyncio.Task[Any]":
        terms = replace(self.here.terms, retries=attrs.evolve(ON, **settings))
        return asyncio.ensure_future(self.here.drive(generate(request, terms)))


@asynccontextmanager
async def hedged(*faults: Fault | None) -> AsyncIterator[Pair]:
    """Late engines with these faults, before which answers leave whole."""
    clocks = [FakeClock() for _ in faults]
    engines = [
        ScriptedEngine(["one ", "two ", "three"], faults=[fault], config=LATE, timer=clock)
        for fault, clock in zip(faults, clocks, strict=True)
    ]
    async with road(engines=engines) as here:
        here.whole()
        streaming = here.performers[Stream]
        assert isinstance(streaming, Streaming)
        here.driver.learn({Hedge: Hedging(streaming, here.selecting, clock=SystemClock())})
        yield Pair(here, clocks)


async def test_a_late_answer_is_taken_from_a_second_worker_and_the_first_ones_engine_is_told() -> None:
    async with hedged(None, None) as pair:
        task = pair.begin()
        await pair.asked(0, 1)
        pair.answers(1)
        turn = await task
        await pair.told_to_stop(0)
        trace = pair.here.trace
        assert trace.ended is not None
        assert trace.picked is not None

        assert turn.error is None
        assert [each.reason for each in turn.finishes] == ["stop"]
        assert pair.told == ["won"]
        assert pair.ends == {"w0": "outrun", "w1": "ok"}
        assert (trace.ended.worker, trace.picked.worker, trace.attempts) == ("w1", "w1", 2)
        assert [each.in_flight for each in pair.here.workers] == [0, 0]
        assert pair.here.answer.usage == turn.usage
        assert 0 < turn.usage.completion_tokens <= 16
        assert pair.here.counted == ["w1"]  # being outrun says nothing of a worker


async def test_the_first_answer_is_used_if_it_comes_first_and_the_second_engine_is_told() -> None:
    async with hedged(None, None) as pair:
        task = pair.begin()
        await pair.asked(0, 1)
        pair.answers(0)
        turn = await task
        await pair.told_to_stop(1)
        trace = pair.here.trace
        assert trace.ended is not None
        assert trace.picked is not None

        assert turn.error is None
        assert pair.told == ["lost"]
        assert pair.ends == {"w0": "ok", "w1": "outrun"}
        assert (trace.ended.worker, trace.picked.worker) == ("w0", "w0")
        assert pair.here.counted == ["w0"]


async def test_nothing_waits_for_the_delay_once_the_first_worker_has_answered() -> None:
    waiting: list[asyncio.TimerHandle] = []

    def call_later(seconds: float, run: Callable[[], object]) -> asyncio.TimerHandle:
        waiting.append(asyncio.get_running_loop().call_later(seconds, run))
        return waiting[-1]

    async with hedged(None, None) as pair:
        here = pair.here
        streaming = here.performers[Stream]
        assert isinstance(streaming, Streaming)
        here.driver.learn({Hedge: Hedging(streaming, here.selecting, clock=SystemClock(), call_later=call_later)})
        task = pair.begin(hedge_after_s=3600.0)
        await pair.asked(0)
        pair.answers(0)
        await task
    assert [each.cancelled() for each in waiting] == [True]


async def test_the_client_gets_one_answer_whoever_gives_it() -> None:
    for winner in (0, 1):
        async with hedged(None, None) as pair:
            task = asyncio.ensure_future(
                pair.here.drive(respond(SHORT, replace(pair.here.terms, retries=ON))),
            )
            await pair.asked(0, 1)
            pair.answers(winner)
            await task

            assert pair.here.client.got == [b"one two three>"]


@pytest.mark.parametrize("fault", [BUSY, BREAKS])
async def test_a_second_call_that_fails_changes_nothing(fault: Fault) -> None:
    async with hedged(None, fault) as pair:
        task = pair.begin()
        if fault is BREAKS:
            await pair.asked(0, 1)
            pair.answers(1)
        await eventually(lambda: "w1" in pair.ends)
        await pair.asked(0)
        pair.answers(0)
        turn = await task

        assert turn.error is None
        assert pair.told == ["failed"]
        assert pair.here.observer.of(Retrying) == []


async def test_a_first_call_that_fails_leaves_the_second_to_answer() -> None:
    async with hedged(None, None) as pair:
        task = pair.begin()
        await pair.asked(0, 1)
        await pair.here.engines[0].restart()
        await eventually(lambda: "w0" in pair.ends)
        pair.answers(1)
        turn = await task

        assert turn.error is None
        assert pair.told == ["won"]
        assert pair.ends == {"w0": "WorkerGone", "w1": "ok"}
        assert pair.here.observer.of(Retrying) == []


async def test_an_error_that_every_worker_would_give_ends_both_calls() -> None:
    async with hedged(BREAKS, None) as pair:
        task = pair.begin()
        await pair.asked(0, 1)
        pair.answers(0)
        with pytest.raises(EngineFailed):
            await task
        await pair.told_to_stop(1)

        assert pair.told == ["lost"]
        assert pair.ends == {"w0": "EngineFailed", "w1": "outrun"}


async def test_where_both_fail_a_third_worker_is_asked_as_after_one_failure() -> None:
    async with hedged(None, None, None) as pair:
        engines = pair.here.engines
        task = pair.begin()
        await pair.asked(0)
        await eventually(lambda: bool(engines[1].active or engines[2].active))
        second, third = (1, 2) if engines[1].active else (2, 1)
        await engines[second].restart()
        await eventually(lambda: f"w{second}" in pair.ends)
        await engines[0].restart()
        await pair.asked(third)
        pair.answers(third)
        turn = await task

        assert turn.error is None
        assert pair.told[0] == "both_failed"
        assert pair.ends[f"w{third}"] == "ok"
        assert [each.worker for each in pair.here.observer.of(Retrying)] == ["w0"]
        ids = [request.id for engine in engines for request in engine.requests]
        assert len(set(ids)) == len(ids)


async def test_a_client_that_leaves_ends_both_calls() -> None:
    async with hedged(None, None) as pair:
        pair.here.interruption = ClientGone("gone")
        task = pair.begin()
        await pair.asked(0, 1)
        task.cancel()
        with pytest.raises(ClientGone):
            await task
        await pair.told_to_stop(0)
        await pair.told_to_stop(1)

        assert pair.ends == {"w0": "abandoned", "w1": "abandoned"}
        assert pair.told == []
        assert [each.in_flight for each in pair.here.workers] == [0, 0]


async def test_nobody_is_asked_where_no_worker_is_left_or_the_budget_is_used_up() -> None:
    for settings, outcome, faults in (({}, "no_worker", [None]), ({"hedge_reserve": 0}, "no_budget", [None, None])):
        async with hedged(*faults) as pair:
            task = pair.begin(**settings)
            await eventually(lambda: bool(pair.told))
            await pair.asked(0)
            pair.answers(0)

            assert (await task).error is None
            assert pair.told == [outcome]
            assert pair.ends == {"w0": "ok"}


async def test_a_worker_that_is_left_alone_for_its_failures_is_not_spared() -> None:
    async with hedged(None, None) as pair:
        for _ in range(5):
            pair.here.registry.breakers.ended("w1", WorkerGone("lost"), SystemClock().monotonic())
        task = pair.begin()
        await eventually(lambda: bool(pair.told))
        await pair.asked(0)
        pair.answers(0)

        assert (await task).error is None
        assert pair.told == ["no_worker"]


async def test_an_answer_that_is_not_late_is_asked_for_once() -> None:
    async with hedged(None, None) as pair:
        task = pair.begin(hedge_after_s=3600.0)
        await pair.asked(0)
        pair.answers(0)

        assert (await task).error is None
        assert pair.told == []
        assert pair.here.engines[1].requests == deque()


def a_step(request: GenerationRequest = SHORT, **fields: Any) -> Stream:
    prompted = Prompted(request, model(), "", EncodeReport(TokenIds(), 0), TokenIds((1, 2, 3)))
    return Stream(prompted, Chosen(None), **fields)  # type: ignore[arg-type]  # nothing looks at the worker


@pytest.mark.parametrize(
    "step",
    [
        a_step(REQUEST),
        a_step(replace(SHORT, stream=True)),
        a_step(replace(SHORT, background=True)),
        a_step(replace(SHORT, sampling=Sampling())),
        a_step(replace(SHORT, sampling=Sampling(max_tokens=257))),
        a_step(ends=False),
        a_step(keep=True),
        a_step(visible=False),
        a_step(hosted=frozenset({"tool"})),
        a_step(continues=Turn((), NO_USAGE)),
    ],
)
def test_only_short_whole_answers_of_one_turn_are_hedged(step: Stream) -> None:
    assert is_hedged(a_step(), ON)
    assert not is_hedged(step, ON)
    assert not is_hedged(a_step(), RoutingConfig())
    assert not is_hedged(a_step(), attrs.evolve(ON, hedge_prompt_tokens=2))
