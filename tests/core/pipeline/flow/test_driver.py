"""Flows driven to their end: steps performed in turn, errors and interruptions thrown into them."""

import asyncio
from typing import Any

import attrs
import pytest
from msgspec.structs import replace
from tests.core.pipeline.answer.test_answer import Client, Lines
from tests.core.pipeline.road import REQUEST, Road, eventually, road
from tests.shared import PATIENCE

from smg_core.errors import ClientGone, Draining, InvalidRequest, ModelNotFound, SmgError
from smg_core.events import TextDelta
from smg_core.hooks import WorkerPicked
from smg_core.pipeline.answer.answer import StreamedAnswer
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.driver import Driver, Performer, Run, wait
from smg_core.pipeline.flow.steps import Flow, Prepare, Step, Wait, ask
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.testing import MemoryObserver
from smg_simulator.answers.faults import Fault

pytestmark = pytest.mark.anyio


async def test_a_flow_is_driven_to_its_end() -> None:
    async with road() as here:
        await here.drive(here.respond())

        assert here.client.text == "<one two three>"
        assert [each.worker for each in here.observer.of(WorkerPicked)] == ["w0"]
        assert here.trace.workers == ("w0",)
        assert here.trace.prompted is not None
        assert not here.engine.aborted


async def test_an_error_of_a_step_is_thrown_into_the_flow_which_may_go_on() -> None:
    async with road() as here:

        def patient() -> Flow[str]:
            try:
                yield from ask(Prepare(replace(REQUEST, model="other")))
            except ModelNotFound as error:
                yield from ask(Wait(0.0))
                return "other" if "'other'" in error.message else ""
            return ""

        assert await here.drive(patient()) == "other"


# ------------------------------------------------------------------------------------------- with steps of one's own


class Save(Step[str], frozen=True):
    """Something that a flow wants kept."""

    what: str


class Block(Step[None], frozen=True):
    """Nothing, for ever."""


@attrs.define
class Desk:
    """A driver of steps that a test invents."""

    driver: Driver
    answer: StreamedAnswer
    client: Client
    performers: dict[type[Step[Any]], Performer] = attrs.field(factory=dict)
    saved: list[str] = attrs.field(factory=list)
    blocked: int = 0
    reason: SmgError | None = None
    timeouts: Timeouts = attrs.field(factory=Timeouts)

    def start(self, flow: Flow[Any]) -> "asyncio.Task[Any]":
        run = Run(self.answer, Trace(0.0, MemoryObserver()), self.timeouts, lambda: self.reason)
        return asyncio.ensure_future(self.driver.drive(flow, run))

    def bounded(self, timeouts: Timeouts, timer: Any) -> None:
        """Give the flows that are started from now on these time-outs, by `timer`."""
        self.timeouts = timeouts
        self.driver = Driver(self.performers, clock=timer, call_later=timer.call_later)

    async def interrupt(self, task: "asyncio.Task[Any]", reason: SmgError | None) -> None:
        """Cancel the flow where it is blocked."""
        blocked = self.blocked
        await eventually(lambda: self.blocked > 0)
        self.reason = reason
        task.cancel()
        await asyncio.sleep(0)
        assert self.blocked >= blocked


def desk() -> Desk:
    client = Client()
    client.open.set()

    async def save(step: Save, run: Run) -> str:
        await asyncio.sleep(0)
        made.saved.append(step.what)
        return step.what.upper()

    async def block(step: Block, run: Run) -> None:
        made.blocked += 1
        await asyncio.get_running_loop().create_future()

    answer = StreamedAnswer(Lines, client.write, model="m", high_water=100)
    performers: dict[type[Step[Any]], Performer] = {Save: save, Block: block, Wait: wait}
    made = Desk(Driver(performers), answer, client, performers)
    return made


async def test_a_step_of_ones_own_is_performed_by_what_was_given_for_it() -> None:
    def flow() -> Flow[str]:
        return (yield from ask(Save("kept")))

    here = desk()
    assert await here.start(flow()) == "KEPT"
    assert here.saved == ["kept"]


async def test_a_driver_learns_to_perform_further_kinds_of_steps() -> None:
    here, saved = desk(), []

    async def save(step: Save, run: Run) -> str:
        saved.append(step.what)
        return "kept"

    here.driver.learn({Save: save})

    def flow() -> Flow[str]:
        return (yield from ask(Save("this")))

    assert await here.start(flow()) == "kept"
    assert saved == ["this"]


def saves_when_left(closed: list[str]) -> Flow[str]:
    try:
        yield from ask(Block())
    except SmgError as error:
        said = yield from ask(Save(type(error).__name__))
        yield from ask(Wait(0.0))
        return said
    finally:
        closed.append("closed")
    return ""


@pytest.mark.parametrize("reason", [ClientGone("left"), Draining("leaving")])
async def test_an_interruption_is_thrown_into_the_flow_and_what_it_then_asks_for_is_performed(reason: SmgError) -> None:
    here, closed = desk(), list[str]()
    task = here.start(saves_when_left(closed))
    await here.interrupt(task, reason)

    assert await task == type(reason).__name__.upper()
    assert here.saved == [type(reason).__name__]
    assert task.cancelling() == 0
    assert closed == ["closed"]


async def test_a_flow_that_has_nothing_to_save_ends_with_the_reason() -> None:
    def flow() -> Flow[None]:
        yield from ask(Block())

    here = desk()
    task = here.start(flow())
    await here.interrupt(task, ClientGone("left"))

    with pytest.raises(ClientGone):
        await task


async def test_a_cancellation_for_no_known_reason_goes_its_way_and_the_flow_is_closed() -> None:
    here, closed = desk(), list[str]()
    task = here.start(saves_when_left(closed))
    await here.interrupt(task, None)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (here.saved, closed) == ([], ["closed"])


async def test_a_second_cancellation_ends_the_flow_for_good() -> None:
    def stubborn() -> Flow[None]:
        while True:
            try:
                yield from ask(Block())
            except ClientGone:
                yield from ask(Save("once"))

    here = desk()
    task = here.start(stubborn())
    await here.interrupt(task, ClientGone("left"))
    await eventually(lambda: here.blocked == 2)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert here.saved == ["once"]


async def test_after_an_interruption_no_step_waits_for_a_client_that_does_not_read() -> None:
    async with road(Fault("stall", after=1)) as here:
        saved: list[str] = []

        async def save(step: Save, run: Run) -> None:
            saved.append(step.what)

        here.driver = Driver({**here.performers, Save: save})
        here.client.open.clear()  # nobody reads: the first write never returns

        def flow() -> Flow[None]:
            try:
                yield from here.generate()
            except ClientGone:
                yield from ask(Save("history"))
                raise

        task = asyncio.ensure_future(here.drive(flow()))
        await eventually(lambda: here.answer.committed)
        here.answer.take([TextDelta(0, "more")], False)
        here.interruption = ClientGone("left")
        task.cancel()
        with pytest.raises(ClientGone):
            await asyncio.wait_for(task, PATIENCE)

        assert saved == ["history"]


async def test_what_gathered_is_written_before_a_step_that_may_take_long() -> None:
    async with road() as here:

        def flow() -> Flow[None]:
            yield from here.generate(ends=False)
            yield from ask(Block())

        started = asyncio.Event()

        async def block(step: Block, run: Run) -> None:
            started.set()
            await asyncio.get_running_loop().create_future()

        here.driver = Driver({**here.performers, Block: block})
        task = asyncio.ensure_future(here.drive(flow()))
        await asyncio.wait_for(started.wait(), PATIENCE)
        assert here.client.text == "<one two three"
        task.cancel()
        await asyncio.wait([task])


async def test_a_bug_in_a_performer_is_nobodys_step() -> None:
    closed: list[str] = []

    async def broken(step: Save, run: Run) -> str:
        raise RuntimeError("a bug")

    def flow() -> Flow[None]:
        try:
            yield from ask(Save("x"))
        except SmgError:
            yield from ask(Save("never"))
        finally:
            closed.append("closed")

    here = desk()
    here.driver = Driver({Save: broken})
    with pytest.raises(RuntimeError):
        await here.start(flow())
    assert closed == ["closed"]


async def test_a_refusal_ends_a_flow_that_does_not_catch_it() -> None:
    async def refused(here: Road) -> None:
        await here.drive(here.respond(replace(REQUEST, messages=(), prompt="")))

    async with road() as here:
        with pytest.raises(InvalidRequest):
            await refused(here)
        assert here.client.got == []
