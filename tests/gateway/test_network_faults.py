"""The network to one of three engines fails in every way under streams that have begun: all of them come to their end, once."""

import asyncio
import json
import random
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from bench.chaos_proxy import ChaosProxy, Mode
from tests.gateway.conftest import JSON, eventually
from tests.gateway.test_killed_engines import LENGTH, TOKENS, Stream, ask, expected

from smg_core import Config, Gateway
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import EngineCore, SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER, read_vocabulary
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

ENGINE = SimulatorConfig(chained=LENGTH, timing=Timing(decode_rate=100))
QUICK = Config(
    workers=WorkersConfig(dialect="vllm", health_interval_s=0.2, probe_timeout_s=5.0),
    timeouts=TimeoutsConfig(first_token_s=20.0, token_s=5.0),  # what an engine on a busy machine keeps
    breaker=BreakerConfig(failures=0),
)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["delay", "stop", "cut", "drip", "corrupt"])
async def test_no_stream_is_lost_or_wrong_when_the_network_to_one_engine_fails(mode: Mode, tmp_path: Path) -> None:
    core = EngineCore(ENGINE, read_vocabulary(Path(MODEL_FOLDER)))
    async with AsyncExitStack() as stack:
        proxies = []
        for number in range(3):
            engine = await stack.enter_async_context(SimulatedEngine(ENGINE, f"unix:{tmp_path}/{number}.sock"))
            path = engine.target.removeprefix("unix://").removeprefix("unix:")
            proxies.append(await stack.enter_async_context(ChaosProxy(path, random.Random(number))))
        gateway = await stack.enter_async_context(Gateway(workers=[each.url for each in proxies], config=QUICK))
        http = await stack.enter_async_context(
            gateway.http_client(httpx, base_url="http://gateway", headers=JSON, timeout=None)
        )
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        streams = [Stream([100 + number, 7, 11, 13]) for number in range(9)]
        tasks = [asyncio.create_task(ask(http, stream)) for stream in streams]
        await eventually(lambda: all(len(stream.events) > 1 for stream in streams))
        proxies[0].set(mode)
        await asyncio.gather(*tasks)
        await eventually(lambda: not gateway.in_flight)
        proxies[0].set("pass")
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))

    assert [stream.events.count("[DONE]") for stream in streams] == [1] * len(streams)
    assert not [event for stream in streams for event in stream.events[:-1] if "error" in json.loads(event)]
    assert [stream.ids for stream in streams] == [expected(core, stream.prompt) for stream in streams]
    assert len(streams[0].ids) == TOKENS
