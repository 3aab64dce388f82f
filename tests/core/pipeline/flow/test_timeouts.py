"""Each time-out of a request, kept: by the driver, by the call of an engine, and over every way to one."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from tests.core.pipeline.flow.test_driver import Block, Save, desk
from tests.core.pipeline.road import REQUEST, Road, eventually, road

from smg_core.clock import Handle
from smg_core.engines.base import EngineFacts
from smg_core.engines.grpc.grpcio import GrpcioTransport
from smg_core.engines.grpc.h2.transport import H2Transport, UnaryReceiver
from smg_core.engines.kinds.table import kind
from smg_core.engines.openai.engine import OpenAiEngine
from smg_core.engines.token_ids.client import EngineClient
from smg_core.errors import ClientGone, DeadlineExceeded, Draining, EngineStalled, SmgError, WorkerGone
from smg_core.pipeline.calls.streaming import Streaming
from smg_core.pipeline.flow.driver import Driver, Run
from smg_core.pipeline.flow.steps import Flow, Stream, Wait, ask
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_simulator.answers.faults import Fault
from smg_simulator.testing import ScriptedEngine

pytestmark = pytest.mark.anyio


class Timer:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[Appointment] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Handle:
        made = Appointment(self, self.now + seconds, callback)
        self.due.append(made)
        return made

    def pass_by(self, seconds: float) -> None:
        end = self.now + seconds
        while self.due and (first := min(self.due, key=lambda each: each.at)).at <= end:
            self.due.remove(first)
            self.now = first.at
            first.callback()
        self.now = end

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@attrs.frozen(eq=False)
class Appointment:
    timer: Timer
    at: float
    callback: Callable[[], None]

    def cancel(self) -> None:
        if self in self.timer.due:
            self.timer.due.remove(self)


def outcomes(here: Road) -> list[tuple[str, str | None]]:
    return [(worker, None if error is None else type(error).__name__) for worker, error in here.outcomes]


def timed(here: Road, timeouts: Timeouts, timer: Timer) -> "asyncio.Task[Any]":
    """The response of `REQUEST` with these time-outs, by `timer`."""

    def on_outcome(chosen: Any, error: SmgError | None, seconds: float, counts: bool) -> None:
        here.outcomes.append((chosen.worker.name, error))

    here.trace.started = timer.now
    streaming = Streaming(clock=timer, on_outcome=on_outcome, selecting=here.selecting, call_later=timer.call_later)
    driver = Driver({**here.performers, Stream: streaming}, clock=timer, call_later=timer.call_later)
    run = Run(here.answer, here.trace, timeouts, lambda: here.interruption)
    return asyncio.ensure_future(driver.drive(here.respond(), run))


# ---------------------------------------------------------------------------------------------------- the whole request


def saves_on_error() -> Flow[str]:
    try:
        yield from ask(Block())
    except SmgError as error:
        said = yield from ask(Save(type(error).__name__))
        yield from ask(Wait(0.0))
        return said
    return ""


async def test_when_its_time_is_up_a_request_that_waits_is_told_so_and_what_it_then_asks_for_is_performed() -> None:
    here, timer = desk(), Timer()
    here.bounded(Timeouts(request=7.0), timer)
    task = here.start(saves_on_error())
    await eventually(lambda: here.blocked > 0)
    timer.pass_by(6.9)
    assert timer.due
    timer.pass_by(0.1)

    assert await task == "DEADLINEEXCEEDED"
    assert task.cancelling() == 0
    assert not timer.due


@pytest.mark.parametrize(
    ("reason", "told"), [(ClientGone("left"), "ClientGone"), (Draining("leaving"), "DeadlineExceeded")]
)
async def test_a_client_that_left_counts_before_the_time_that_was_up_and_that_before_a_shutdown(
    reason: SmgError, told: str
) -> None:
    here, timer = desk(), Timer()
    here.bounded(Timeouts(request=7.0), timer)
    task = here.start(saves_on_error())
    await eventually(lambda: here.blocked > 0)
    here.reason = reason
    task.cancel()
    timer.pass_by(7.0)

    assert await task == told.upper()
    assert here.saved == [told]


async def test_the_time_of_a_request_that_was_interrupted_is_looked_at_no_more() -> None:
    here, timer = desk(), Timer()
    here.bounded(Timeouts(request=7.0), timer)

    def flow() -> Flow[None]:
        try:
            yield from ask(Block())
        except Draining:
            yield from ask(Block())

    task = here.start(flow())
    await here.interrupt(task, Draining("leaving"))
    await eventually(lambda: here.blocked == 2)

    assert not timer.due
    task.cancel()
    await asyncio.wait([task])


async def test_the_time_of_a_request_is_over_all_that_is_tried_for_it() -> None:
    engines = [ScriptedEngine("a", faults=[Fault("stall")]), ScriptedEngine("b", faults=[Fault("stall")])]
    async with road(engines=engines) as here:
        timer = Timer()
        task = timed(here, Timeouts(first_token=3.0, request=5.0), timer)
        await eventually(lambda: engines[0].active)
        timer.pass_by(3.0)
        await eventually(lambda: engines[1].active)
        timer.pass_by(2.0)
        with pytest.raises(DeadlineExceeded):
            await task
        await eventually(lambda: not engines[1].active)

        assert outcomes(here) == [("w0", "EngineStalled"), ("w1", "DeadlineExceeded")]
        assert here.client.got == []
        assert not timer.due


@pytest.mark.parametrize("complete", [False, True])
async def test_all_that_was_said_in_time_leaves_before_the_error_however_late_the_client_reads(complete: bool) -> None:
    faults = [] if complete else [Fault("stall", after=2)]
    async with road(engines=[ScriptedEngine(["one ", "two ", "three"], faults=faults)]) as here:
        timer = Timer()
        here.client.open.clear()
        task = timed(here, Timeouts(request=5.0), timer)
        await eventually(lambda: here.engine.counters["finished" if complete else "stalled"])
        sent = here.engine.counters["tokens"]
        await eventually(lambda: here.answer.usage is not None and here.answer.usage.completion_tokens == sent)
        timer.pass_by(5.0)
        await asyncio.sleep(0)
        here.client.open.set()
        with pytest.raises(DeadlineExceeded) as caught:
            await task
        assert await here.answer.fail(caught.value)

        said, _, told = here.client.text.partition("!")
        assert said == "<one two three" if complete else "<one two three".startswith(said) and len(said) > 1
        assert told == "DeadlineExceeded"
        assert here.client.ended == 1


# -------------------------------------------------------------------------------------- before and after the first token


@pytest.mark.parametrize("whole", [True, False])
async def test_a_call_that_is_still_being_opened_when_its_time_is_up_moves_too(whole: bool) -> None:
    opening: list[asyncio.Future[None]] = []

    class Full:
        """An engine that has no stream free, and tells nobody."""

        async def generate(self, *arguments: Any, **options: Any) -> Any:
            opening.append(asyncio.get_running_loop().create_future())
            await opening[-1]

    async with road(engines=[ScriptedEngine("never"), ScriptedEngine("moved")]) as here:
        timer = Timer()
        if whole:
            here.whole()
        here.worker.engine = Full()  # type: ignore[assignment]
        task = timed(here, Timeouts(first_token=3.0, token=60.0), timer)
        await eventually(lambda: opening)
        timer.pass_by(3.0)
        await task

        assert opening[0].cancelled()
        assert here.client.text.strip("<>") == "moved"
        assert outcomes(here) == [("w0", "EngineStalled"), ("w1", None)]
        assert here.worker.in_flight == 0


async def test_a_client_that_leaves_while_a_call_is_being_opened_is_heard() -> None:
    async with road() as here:
        opening: list[int] = []

        class Full:
            async def generate(self, *arguments: Any, **options: Any) -> Any:
                opening.append(1)
                await asyncio.get_running_loop().create_future()

        here.worker.engine = Full()  # type: ignore[assignment]
        timer = Timer()
        task = timed(here, Timeouts(first_token=3.0), timer)
        await eventually(lambda: opening)
        here.interruption = ClientGone("left")
        task.cancel()
        timer.pass_by(3.0)  # in the same turn of the loop
        with pytest.raises(ClientGone):
            await task


@pytest.mark.parametrize("hasty", [True, False])
async def test_what_a_hasty_request_runs_into_is_held_against_no_worker(hasty: bool) -> None:
    engines = [ScriptedEngine("a", faults=[Fault("stall")]), ScriptedEngine("b", faults=[Fault("cut")])]
    async with road(engines=engines) as here:
        timer = Timer()
        task = timed(here, Timeouts(first_token=3.0, hasty=hasty), timer)
        await eventually(lambda: engines[0].active)
        timer.pass_by(3.0)
        with pytest.raises((EngineStalled, WorkerGone)):
            await task

        blamed = [] if hasty else ["EngineStalled", "WorkerGone"]
        assert [error for _, error in outcomes(here) if error is not None] == blamed


# ------------------------------------------------------------------------------------------------------------ connecting


@contextmanager
def unanswered() -> Iterator[int]:
    """The port of a listener that is full: whoever connects waits."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for each in waiting:
            each.close()


@pytest.mark.full
@pytest.mark.parametrize("way", ["h2", "grpcio", "http"])
async def test_a_request_whose_engine_cannot_be_connected_to_in_its_own_time_moves(way: str) -> None:
    async with road(engines=[ScriptedEngine("never"), ScriptedEngine("moved")]) as here:
        with unanswered() as port:
            stuck: Any
            if way == "http":
                stuck = OpenAiEngine(f"http://127.0.0.1:{port}", model="m", connect_timeout=3600.0)
                here.worker.facts = EngineFacts("openai", takes_ids=False, transport="http")
            else:
                transport = {"h2": H2Transport, "grpcio": GrpcioTransport}[way]
                stuck = EngineClient(
                    kind("vllm").codec(), transport(f"grpc://127.0.0.1:{port}", connect_timeout=3600.0)
                )
            here.worker.engine = stuck
            try:
                run = Run(here.answer, here.trace, Timeouts(connect=0.05))
                await here.driver.drive(here.respond(REQUEST), run)
            finally:
                if way == "http":
                    await stuck.close()
                else:
                    await stuck.transport.close()

        assert here.client.text == "<moved>"
        assert outcomes(here) == [("w0", "WorkerGone"), ("w1", None)]


@pytest.mark.full
async def test_one_that_waits_shorter_for_a_connection_takes_it_from_nobody() -> None:
    with unanswered() as port:
        transport = H2Transport(f"grpc://127.0.0.1:{port}", connect_timeout=3600.0)
        patient = asyncio.ensure_future(transport.unary("/a/b", b""))
        await asyncio.sleep(0)
        with pytest.raises(WorkerGone):
            await transport.start("/a/b", b"", UnaryReceiver(), connect_timeout=0.01)
        assert not patient.done()
        await transport.close()
        with pytest.raises(WorkerGone, match="closed"):
            await patient
