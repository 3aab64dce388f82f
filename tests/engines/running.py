"""A real engine that runs, killed and started again, with a gateway before it over each transport."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import httpx
import pytest
from tests.engines.real_engines import RealEngine
from tests.gateway.conftest import eventually

from smg_core import Config, Gateway
from smg_core.engines.settings import EnginesConfig
from smg_core.gateway.launched import LaunchedGateway
from smg_core.observability.settings import ObservabilityConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerSpec

COMES_UP_S = 1200.0
"""SGLang has taken 400 seconds on a busy machine of two cores."""
STARTS = 3


def config_of(transport: str) -> Config:
    """A gateway's settings for the tests of this transport ("h2" or "grpcio")."""
    return Config(
        workers=WorkersConfig(transport=transport, health_interval_s=0.5, probe_timeout_s=60),  # type: ignore[arg-type]
        timeouts=TimeoutsConfig(connect_s=60),
        engines=EnginesConfig(ping_timeout_s=120),
        observability=ObservabilityConfig(explain=True),
    )


@attrs.define
class Running:
    """`gateways` has the launching one, "h2", and another before the same engine, "grpcio"."""

    engine: RealEngine
    gateways: dict[str, Gateway]
    launched: LaunchedGateway
    again: asyncio.subprocess.Process | None = None

    @property
    def workers(self) -> list[Worker]:
        """The engine as each gateway knows it."""
        return [worker for gateway in self.gateways.values() for worker in gateway.registry]

    @property
    def ready(self) -> bool:
        """Whether each gateway takes requests for the engine."""
        return all(worker.state == "ready" for worker in self.workers)

    def kill(self) -> None:
        """Kill all processes of the engine at once."""
        process = self.again or self.launched.process
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)

    async def start_again(self, log: Path) -> None:
        """Start the engine at the address that it had, and wait until each gateway takes requests for it. When it ends it is
        started anew, as a supervisor does: another program may have taken one of its ports. `log` gets what it writes."""
        port = int(self.workers[0].spec.url.rpartition(":")[2])
        for _ in range(STARTS):
            with log.open("ab") as out:
                self.again = process = await asyncio.create_subprocess_exec(
                    *self.engine.words(port),
                    env=self.engine.variables(),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            ended = asyncio.create_task(process.wait())
            await eventually(lambda task=ended: task.done() or self.ready, COMES_UP_S)
            if self.ready:
                ended.cancel()
                return
        pytest.fail("the engine ended when it was started again. It wrote:\n" + log.read_text()[-4000:])

    async def stop(self) -> None:
        """End the processes of the engine that was started again; the launching gateway ends its own."""
        if self.again is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.again.pid, signal.SIGKILL)
            await self.again.wait()


def launching(engine: RealEngine) -> LaunchedGateway:
    """A gateway that starts the engine when it is entered. That raises WorkerGone when the engine does not come up."""
    return Gateway.launch(
        engine.name,
        model=str(engine.model),
        python=engine.python,
        options=engine.options,
        environment=engine.environment_of_process(),
        timeout_s=COMES_UP_S,
        progress=None,
        config=config_of("h2"),
    )


@asynccontextmanager
async def running(engine: RealEngine) -> AsyncIterator[Running]:
    """Start the engine with `Gateway.launch`, and a second gateway before it. Raises WorkerGone when it does not come up."""
    async with launching(engine) as launched:
        (worker,) = launched.registry
        other = Gateway([WorkerSpec(worker.spec.url)], config=config_of("grpcio"))
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(other)
            except TimeoutError as error:
                error.add_note(f"The engine wrote:\n{launched.last_words}")
                raise
            found = Running(engine, {"h2": launched, "grpcio": other}, launched)
            stack.push_async_callback(found.stop)
            yield found


@asynccontextmanager
async def own_server(engine: RealEngine, log: Path) -> AsyncIterator[str]:
    """vLLM's own OpenAI server with the model and the options of this engine; the URL at which it answers. `log` gets what it
    writes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = await _own_process(engine, port, log)
    try:
        ended = asyncio.create_task(process.wait())
        await eventually(lambda: ended.done() or _healthy(url), COMES_UP_S)
        assert not ended.done(), log.read_text()[-4000:]
        ended.cancel()
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _own_process(engine: RealEngine, port: int, log: Path) -> asyncio.subprocess.Process:
    server = ("-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port))
    with log.open("ab") as out:
        return await asyncio.create_subprocess_exec(
            engine.python,
            *server,
            *("--model", str(engine.model), "--served-model-name", "tiny"),
            *engine.options,
            env=engine.variables(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )


def _healthy(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).status_code == 200
    return False
