"""The driver's deeds before a real engine: places counted and given back, aborts told, long work off the event loop."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from tests.core.pipeline.test_answer import HIGH_WATER, Client, Lines
from tests.core.pipeline.test_prepare import HELLO, model

from smg_core.clock import SystemClock
from smg_core.engines.client import EngineClient
from smg_core.engines.dialects import dialect
from smg_core.engines.h2.transport import H2Transport
from smg_core.errors import EngineFailed, ModelNotFound, NoWorker, SmgError, WorkerGone
from smg_core.hooks import EncodeDone, WorkerPicked
from smg_core.pipeline.answer import StreamedAnswer
from smg_core.pipeline.driver import Driver, Trace
from smg_core.pipeline.flow import RetryPolicy, generate
from smg_core.pipeline.steps import Flow, Prepare, Select, Stream, Wait, ask
from smg_core.request import GenerationRequest, Message, Text
from smg_core.routing import policy
from smg_core.simulator.faults import Fault
from smg_core.testing import MemoryObserver, ScriptedEngine
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerSpec

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(id="r", model="m", messages=HELLO, stream=True)


@attrs.define
class Road:
    """A driver before one engine, and everything a test looks at."""

    driver: Driver
    engine: ScriptedEngine
    worker: Worker
    registry: Registry
    observer: MemoryObserver
    lost: list[SmgError]
    client: Client
    answer: StreamedAnswer
    trace: Trace = attrs.field(factory=lambda: Trace(started=0.0))

    async def drive(self, flow: Flow[Any]) -> Any:
        return await self.driver.drive(flow, self.answer, self.trace)

    def flow(self) -> Flow[None]:
        return generate(REQUEST, self.answer, RetryPolicy(attempts=2), random.Random(1), self.observer)


@asynccontextmanager
async def road(*faults: Fault, render_inline: int = 200_000) -> AsyncIterator[Road]:
    registry, observer, lost, client = Registry(), MemoryObserver(), [], Client()
    client.open.set()
    with ThreadPoolExecutor(1) as pool:
        async with ScriptedEngine("one two three", faults=faults) as engine:
            worker = registry.add(WorkerSpec(engine.target, name="w"))
            transport = H2Transport(engine.target)
            worker.engine = EngineClient(dialect("vllm").codec(), transport)
            registry.serve(worker, ("m",))
            registry.signal(worker, "joined")
            driver = Driver(
                registry=registry,
                models={"m": model(context_length=1_000_000)},
                policy=policy("round_robin"),
                observer=observer,
                clock=SystemClock(),
                pool=pool,
                request_timeout=30.0,
                on_worker_error=lambda _, error: lost.append(error),
                render_inline=render_inline,
            )
            answer = StreamedAnswer(Lines, client.write, high_water=HIGH_WATER, on_first=lambda: None)
            yield Road(driver, engine, worker, registry, observer, lost, client, answer)
            await transport.close()


async def test_a_flow_is_driven_to_its_end_and_the_place_given_back() -> None:
    async with road() as here:
        await here.drive(here.flow())

        assert here.client.text == "<one two three>"
        assert here.worker.in_flight == 0
        assert [each.worker for each in here.observer.of(WorkerPicked)] == ["w"]
        assert here.trace.worker == "w"
        assert here.trace.prepared is not None
        assert not here.engine.aborted


async def test_a_worker_has_a_request_on_its_board_while_it_answers() -> None:
    async with road(Fault("stall", after=1)) as here:
        driving = asyncio.create_task(here.drive(here.flow()))
        async with asyncio.timeout(10):
            while not here.client.got:
                await asyncio.sleep(0.001)
        assert here.worker.in_flight == 1
        driving.cancel()
        await asyncio.wait([driving])
        assert here.worker.in_flight == 0
        async with asyncio.timeout(10):
            while "r" not in here.engine.aborted or here.engine.active:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(("fault", "kind"), [(Fault("cut"), WorkerGone), (Fault("error"), EngineFailed)])
async def test_what_goes_wrong_at_a_worker_is_told_of_and_its_place_given_back(fault: Fault, kind: Any) -> None:
    async with road(fault) as here:
        with pytest.raises(kind):
            await here.drive(here.flow())

        assert [type(error) for error in here.lost] == [kind]
        assert here.worker.in_flight == 0


async def test_a_second_attempt_has_an_id_of_its_own() -> None:
    async with road() as here:

        def twice() -> Flow[None]:
            prepared = yield from ask(Prepare(REQUEST))
            for attempt in (1, 2):
                worker = yield from ask(Select(prepared, frozenset(), attempt))
                yield from ask(Stream(prepared, worker, attempt))

        await here.drive(twice())

        assert [request.id for request in here.engine.requests] == ["r", "r-2"]


async def test_an_error_of_a_step_is_thrown_into_the_flow_which_may_go_on() -> None:
    async with road() as here:

        def patient() -> Flow[str]:
            try:
                yield from ask(Prepare(attrs.evolve(REQUEST, model="other")))
            except ModelNotFound as error:
                yield from ask(Wait(0.0))
                return error.model
            return ""

        assert await here.drive(patient()) == "other"


async def test_a_model_that_nobody_has_ready_is_told_from_one_that_nobody_has() -> None:
    async with road() as here:
        here.registry.signal(here.worker, "failing")
        with pytest.raises(NoWorker):
            await here.drive(here.flow())
        with pytest.raises(ModelNotFound):
            await here.driver.prepare(attrs.evolve(REQUEST, model="other"), here.trace)


async def test_a_long_prompt_is_rendered_and_encoded_in_the_pool_and_a_short_one_is_not() -> None:
    long = attrs.evolve(REQUEST, messages=(Message("user", (Text("word " * 3000),)),))
    async with road(render_inline=1000) as here:
        free = threading.Event()
        here.driver._pool.submit(free.wait)
        waiting = asyncio.create_task(here.driver.prepare(long, here.trace))
        short = await here.driver.prepare(REQUEST, here.trace)
        assert not waiting.done()
        free.set()
        made = await waiting

        assert len(short.engine.input_ids) < 50
        assert len(made.engine.input_ids) > 3000
        assert [each.prompt_tokens > 3000 for each in here.observer.of(EncodeDone)] == [False, True]


async def test_a_rehearsal_chooses_a_worker_and_asks_no_engine() -> None:
    async with road() as here:
        await here.driver.rehearse(REQUEST, here.trace)

        assert here.trace.worker == "w"
        assert here.worker.in_flight == 0
        assert here.engine.counters["requests"] == 0
