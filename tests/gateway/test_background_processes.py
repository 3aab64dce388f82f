"""Responses in the background over the end of a process: killed, taken over, started again. What was sent stands."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest
from tests.gateway.conftest import eventually
from tests.gateway.test_serve import read, ready_at, start
from tests.shared import PATIENCE

from smg_core.apis.responses.wire.grammar import check_stream
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

LONG = "A rather long answer that takes its time, word by word, until all of it is said. " * 8
PACED = Timing(decode_rate=100)
BRISK = ("--responses-lease-s", "5", "--responses-poll-s", "0.05", "--responses-batch-s", "0.01")
KEEPS = ("--responses-lease-s", "300")  # of a process that lives on, which a busy machine may let stand still
ENDED = ("completed", "incomplete", "failed", "cancelled")


@attrs.define
class Served:
    """A gateway's process and a client of it."""

    process: asyncio.subprocess.Process
    client: openai.AsyncOpenAI

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    @property
    def children(self) -> list[int]:
        """The processes that serve, where it is a supervisor."""
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@asynccontextmanager
async def serving(engine: SimulatedEngine, history: str, *arguments: str) -> AsyncIterator[Served]:
    process = await start("--worker", engine.target, "--port", "0", "--history", history, *BRISK, *arguments)
    log: list[str] = []
    reading = asyncio.create_task(read(process, log))
    try:
        url = await ready_at(process, log)
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0) as client:
            yield Served(process, client)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await reading


async def begun(client: openai.AsyncOpenAI) -> tuple[str, list[dict[str, Any]]]:
    """A response whose first words were sent: its id, and the events so far. The client leaves then."""
    stream = await client.responses.create(model="sim", input="Hello", background=True, stream=True)
    seen: list[dict[str, Any]] = []
    async for event in stream:
        seen.append(event.to_dict())
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    return seen[0]["response"]["id"], seen


async def polled(client: openai.AsyncOpenAI, id: str) -> Any:
    """The response once it has ended."""
    async with asyncio.timeout(PATIENCE):
        while (found := await client.responses.retrieve(id)).status not in ENDED:
            await asyncio.sleep(0.02)
    return found


async def stream_of(client: openai.AsyncOpenAI, id: str, after: int | None = None) -> list[dict[str, Any]]:
    given: Any = {} if after is None else {"starting_after": after}
    return [event.to_dict() async for event in await client.responses.retrieve(id, stream=True, **given)]


async def check_rerun(client: openai.AsyncOpenAI, id: str, seen: list[dict[str, Any]]) -> None:
    """The response was run again: what was `seen` stands, and from every number all that follows is sent, once."""
    found, whole = await polled(client, id), await stream_of(client, id)
    assert whole[: len(seen)] == seen
    assert [item["status"] for item in check_stream(whole).items] == ["incomplete", "completed"]
    assert [event["type"] for event in whole].count("response.created") == 1
    assert found.to_dict() == whole[-1]["response"]
    assert found.output[1].content[0].text == "Yes."
    for number in range(len(whole)):
        assert await stream_of(client, id, number) == whole[number + 1 :]


def says(*replies: str, last: str) -> SimulatorConfig:
    return SimulatorConfig(replies=tuple(map(Reply, replies)), rules=(Rule((), Reply(last)),), timing=PACED)


async def check_killed(history: str) -> None:
    async with SimulatedEngine(says(LONG, last="Yes.")) as engine:
        async with serving(engine, history) as first:
            id, seen = await begun(first.client)
            await first.kill()
        async with serving(engine, history, *KEEPS) as second:
            await check_rerun(second.client, id, seen)


@pytest.mark.full
async def test_what_a_killed_process_has_left_is_run_again_after_a_restart(tmp_path: Path) -> None:
    await check_killed(f"sqlite:///{tmp_path}/history.db")


@pytest.mark.slow
async def test_of_two_processes_one_makes_each_response_and_the_other_takes_over(tmp_path: Path) -> None:
    history = f"sqlite:///{tmp_path}/history.db"
    async with (
        SimulatedEngine(says(last=LONG)) as engine,
        serving(engine, history, "--processes", "2") as served,
    ):
        made = [await begun(served.client) for _ in range(6)]
        assert engine.counters["requests"] == len(made)
        os.kill(served.children[0], signal.SIGKILL)
        again = 0
        for id, seen in made:
            found, whole = await polled(served.client, id), await stream_of(served.client, id)
            assert whole[: len(seen)] == seen
            items = check_stream(whole).items
            assert [item["status"] for item in items] in (["completed"], ["incomplete", "completed"])
            assert items[-1]["content"][0]["text"] == LONG  # type: ignore[index, call-overload]
            assert found.to_dict() == whole[-1]["response"]
            again += len(items) - 1
        assert engine.counters["requests"] == len(made) + again
        await eventually(lambda: not engine.active)
