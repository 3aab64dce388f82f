"""An engine's process is killed under streams that have begun: all of them come to their end, with exactly the engine's ids."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import httpx
import pytest
from tests.gateway.conftest import JSON, eventually
from tests.gateway.test_serve import ENVIRONMENT

from smg_core import Gateway
from smg_core.engines.base import EngineRequest
from smg_core.hooks import Migrating
from smg_core.request import Sampling
from smg_core.sse import SseReader
from smg_core.testing import MemoryObserver
from smg_core.tokens import TokenIds
from smg_simulator.engine.engine import EngineCore, SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER, read_vocabulary

pytestmark = pytest.mark.anyio

STREAMS, TOKENS, LENGTH = 18, 150, 1000


@attrs.define
class Stream:
    """What one client was told."""

    prompt: list[int]
    events: list[str] = attrs.field(factory=list)

    @property
    def ids(self) -> list[int]:
        return json.loads(self.events[-2])["output_ids"]


@contextmanager
def engines(count: int, folder: Path) -> Iterator[list[tuple["subprocess.Popen[bytes]", str]]]:
    """Processes of the embedded engine, with their URLs."""
    with ExitStack() as stack:
        running = []
        for number in range(count):
            url = f"unix://{folder}/{number}.sock"
            flags = ["--listen", url, "--chained", str(LENGTH), "--decode-rate", "50"]
            process = subprocess.Popen(
                [sys.executable, "-m", "smg_core", "simulate", *flags],
                env=ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            running.append((process, url))
        yield running


async def ask(http: httpx.AsyncClient, stream: Stream) -> None:
    sampling = {"max_new_tokens": TOKENS, "ignore_eos": True}
    body = {"input_ids": stream.prompt, "stream": True, "sampling_params": sampling}
    reader = SseReader()
    async with http.stream("POST", "/generate", json=body) as answer:
        async for piece in answer.aiter_bytes():
            stream.events += [event.data for event in reader.feed(piece)]


def expected(core: EngineCore, prompt: list[int]) -> list[int]:
    plan = core.plan(EngineRequest("r", TokenIds(prompt), Sampling(max_tokens=TOKENS, ignore_eos=True)))
    return list(plan.choices[0].ids)


@pytest.mark.full
async def test_streams_of_an_engine_whose_process_is_killed_end_with_exactly_its_ids(tmp_path: Path) -> None:
    core = EngineCore(SimulatorConfig(chained=LENGTH), read_vocabulary(Path(MODEL_FOLDER)))
    observer = MemoryObserver()
    with engines(3, tmp_path) as running:
        gateway = Gateway(workers=[url for _, url in running], observer=observer)
        async with gateway, gateway.http_client(httpx, base_url="http://gateway", headers=JSON, timeout=None) as http:
            await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
            streams = [Stream([100 + number, 7, 11, 13]) for number in range(STREAMS)]
            tasks = [asyncio.create_task(ask(http, stream)) for stream in streams]
            await eventually(lambda: all(len(stream.events) > 1 for stream in streams))
            os.kill(running[0][0].pid, signal.SIGKILL)
            await asyncio.gather(*tasks)
            await eventually(lambda: not gateway.in_flight)
        moved = observer.of(Migrating)

    assert {stream.events[-1] for stream in streams} == {"[DONE]"}
    assert [stream.ids for stream in streams] == [expected(core, stream.prompt) for stream in streams]
    assert {json.loads(stream.events[-2])["meta_info"]["prompt_tokens"] for stream in streams} == {4}
    assert len(moved) == STREAMS // 3
    assert {each.inexact for each in moved} == {()}
