"""Real engines behind a driver, and everything that a test of the performers looks at."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
from tests.core.pipeline.answer.test_answer import HIGH_WATER, Client, Lines
from tests.core.pipeline.prompt.test_prepare import HELLO, model
from tests.shared import PATIENCE

from smg_core.clock import SystemClock
from smg_core.engines.grpc.h2.transport import H2Transport
from smg_core.engines.kinds.table import kind
from smg_core.engines.token_ids.client import EngineClient
from smg_core.errors import SmgError
from smg_core.pipeline.answer.answer import Answer, StreamedAnswer, WholeAnswer
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.calls.preparing import Preparing
from smg_core.pipeline.calls.selecting import Selecting
from smg_core.pipeline.calls.streaming import Streaming
from smg_core.pipeline.flow.driver import Driver, Performer, Run, finish, wait
from smg_core.pipeline.flow.flow import Terms, generate, respond
from smg_core.pipeline.flow.steps import Chosen, Finish, Flow, Prepare, Select, Step, Stream, Wait
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.routing import Policies, policy
from smg_core.routing.settings import RoutingConfig
from smg_core.testing import MemoryObserver
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.testing import ScriptedEngine

REQUEST = GenerationRequest(id="r", model="m", messages=HELLO, stream=True)


@attrs.define
class Road:
    """A driver before one engine or more. `outcomes` has the worker and the error of every call, `counted` the workers of those
    that say something of them."""

    driver: Driver
    performers: dict[type[Step[Any]], Performer]
    preparing: Preparing
    selecting: Selecting
    engines: list[ScriptedEngine]
    workers: list[Worker]
    registry: Registry
    observer: MemoryObserver
    outcomes: list[tuple[str, SmgError | None]]
    counted: list[str]
    client: Client
    executor: FairExecutor
    models: dict[str, ServedModel]
    answer: Answer
    trace: Trace
    interruption: SmgError | None = None

    @property
    def engine(self) -> ScriptedEngine:
        return self.engines[0]

    @property
    def worker(self) -> Worker:
        return self.workers[0]

    @property
    def run(self) -> Run:
        return Run(self.answer, self.trace, Timeouts(), lambda: self.interruption)

    @property
    def terms(self) -> Terms:
        return Terms(self.answer, RoutingConfig(retries=1), random.Random(1), self.trace)

    async def drive(self, flow: Flow[Any]) -> Any:
        return await self.driver.drive(flow, self.run)

    def respond(self, request: GenerationRequest = REQUEST) -> Flow[None]:
        return respond(request, self.terms)

    def generate(self, request: GenerationRequest = REQUEST, **options: Any) -> Flow[Turn]:
        return generate(request, self.terms, **options)

    def whole(self) -> None:
        """From here on, the answer leaves in one piece."""
        self.answer = WholeAnswer(Lines, self.client.write, model="m")


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def road(
    *faults: Fault | None,
    engines: Sequence[ScriptedEngine] = (),
    render_inline: int = 200_000,
    context_length: int = 1_000_000,
) -> AsyncIterator[Road]:
    """A road before `engines`, or before one that says "one two three" and meets `faults`."""
    registry, observer, client = Registry(), MemoryObserver(), Client()
    outcomes: list[tuple[str, SmgError | None]] = []
    counted: list[str] = []
    client.open.set()
    async with AsyncExitStack() as stack:
        executor = FairExecutor(2)
        stack.callback(executor.close)
        engines = [*engines] or [ScriptedEngine("one two three", faults=faults)]
        workers = []
        for number, engine in enumerate(engines):
            await stack.enter_async_context(engine)
            worker = registry.add(WorkerSpec(engine.target, name=f"w{number}"))
            transport = H2Transport(engine.target)
            stack.push_async_callback(transport.close)
            codec = kind("vllm").codec()
            worker.engine, worker.facts = EngineClient(codec, transport), codec.facts
            registry.serve(worker, ("m",))
            registry.signal(worker, "joined")
            workers.append(worker)
        clock = SystemClock()
        models = {"m": model(context_length=context_length)}
        preparing = Preparing(
            registry=registry, models=models, clock=clock, executor=executor, render_inline=render_inline
        )
        policies = Policies(lambda: policy("round_robin"))
        selecting = Selecting(registry=registry, models=models, policies=policies, clock=clock)

        def on_outcome(chosen: Chosen, error: SmgError | None, seconds: float, counts: bool) -> None:
            assert seconds >= 0
            outcomes.append((chosen.worker.name, error))
            counted.extend([chosen.worker.name] if counts else [])

        streaming = Streaming(clock=clock, on_outcome=on_outcome, selecting=selecting, executor=executor)
        performers: dict[type[Step[Any]], Performer] = {
            Prepare: preparing,
            Select: selecting,
            Stream: streaming,
            Finish: finish,
            Wait: wait,
        }
        answer = StreamedAnswer(Lines, client.write, model="m", high_water=HIGH_WATER)
        trace = Trace(clock.monotonic(), observer)
        yield Road(
            driver=Driver(performers),
            performers=performers,
            preparing=preparing,
            selecting=selecting,
            engines=engines,
            workers=workers,
            registry=registry,
            observer=observer,
            outcomes=outcomes,
            counted=counted,
            client=client,
            executor=executor,
            models=models,
            answer=answer,
            trace=trace,
        )
