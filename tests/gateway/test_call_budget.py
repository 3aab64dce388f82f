"""How many Python calls a request costs the gateway: a budget for each API, whole and streamed, which only goes down.

Counted in a real process (`counting_gateway`), of requests that use nothing that could be off. A change that needs more calls
says why here, and pays for them elsewhere. What is counted fewer than once in two requests is not the request's: timers, the
watch of the event loop.
"""

import asyncio
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, eventually
from tests.gateway.test_serve import ENVIRONMENT, read, ready_at
from tests.shared import PATIENCE

from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

ROUNDS, REQUESTS = 12, 12
SAID = "Most of what a port does is waiting for water. " * 8
RULES = (
    "1_000_000 requests/minute per=key",
    "1_000_000_000 tokens/minute per=tenant,model",
    "1_000_000_000 tokens/day per=tenant",
)
LIMITS_BUDGET = 60
"""Calls that three rules cost a request."""
LIMITS = ("smg_core/limits", "smg_core/serving/limiting")
MESH_BUDGET = 10
"""Calls more that a plain request costs where the gateway is one of several in a mesh."""
LEDGER_BUDGET = 38
"""Calls that the ledger costs a request."""
MOST_BESIDE_CHAT = 1.16
"""How many times as many calls as one of Chat Completions a whole answer of another API may cost: the aim is 1.15, which holds by
one call, and one call of 390 may come by chance."""
FURTHER = 8
"""Tokens more, of which each comes in a read of its own."""
FURTHER_BUDGET = 13
"""Calls for each token more of a streamed answer of Chat Completions, of a model whose output a parser reads. What is called less
than once in two tokens is not the token's."""
MESSAGES = [{"role": "user", "content": SAID}]


@attrs.frozen
class Budget:
    """A request of one API, and how many calls it may cost answered whole, and streamed in two tokens."""

    path: str
    body: Mapping[str, Any]
    whole: int
    streamed: int
    stream_path: str = ""


BUDGETS = {
    "chat": Budget(CHAT, {"messages": MESSAGES, "max_tokens": 2}, 397, 441),
    "completions": Budget("/v1/completions", {"prompt": SAID, "max_tokens": 2}, 412, 445),
    "responses": Budget("/v1/responses", {"input": SAID, "max_output_tokens": 2, "store": False}, 454, 556),
    "messages": Budget("/v1/messages", {"messages": MESSAGES, "max_tokens": 2}, 423, 486),
    "gemini": Budget(
        "/v1beta/models/sim:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": SAID}]}], "generationConfig": {"maxOutputTokens": 2}},
        452,
        526,
        "/v1beta/models/sim:streamGenerateContent?alt=sse",
    ),
    "interactions": Budget(
        "/v1beta/interactions",
        {"input": SAID, "generation_config": {"max_output_tokens": 2}, "store": False},
        457,
        536,
    ),
}
PHASES: dict[str, tuple[str, ...]] = {
    "wire in": ("uvicorn", "smg_core/server", "smg_core/http", "smg_core/app", "asyncio"),
    "admitting": ("smg_core/serving", "smg_core/identity", "smg_core/plugins", "smg_core/observability"),
    "API": ("smg_core/apis", "smg_core/wire"),
    "prompt": ("jinja2", "<template>", "smg_core/tokenizer", "smg_core/pipeline/prompt", "smg_core/sealing"),
    "choosing": ("smg_core/routing", "smg_core/workers", "smg_core/pipeline/calls/selecting"),
    "flow": ("smg_core/pipeline/flow", "smg_core/pipeline/calls", "smg_core/pipeline/tools", "smg_core/pipeline/fit"),
    "engine": ("smg_core/engines",),
    "output": ("smg_core/pipeline/output", "smg_core/pipeline/answer", "smg_parsers"),
}


@attrs.define
class Counting:
    """A gateway's process that counts its calls, and a connection to it. Requests are written in one piece, so that none is read
    in two."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    file: Path
    key: str = ""

    async def calls(self, path: str, body: Mapping[str, Any]) -> Counter[str]:
        """The calls that every such request makes, by function; of several rounds the one with the fewest. What only some make
        is left out: what the process does beside its requests, and what an answer costs that comes in more reads than need be."""
        await self._ask(path, body, 10)
        return min([await self._counted(path, body) for _ in range(ROUNDS)], key=Counter.total)

    async def _counted(self, path: str, body: Mapping[str, Any]) -> Counter[str]:
        self.file.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        await self._ask(path, body, REQUESTS)
        self.process.send_signal(signal.SIGUSR2)
        await eventually(self.file.exists, PATIENCE)
        found = json.loads(self.file.read_text())
        # the last request is counted until its answer has come, and may do something after that
        return Counter({name: each for name, count in found.items() if (each := (count + 1) // REQUESTS)})

    async def _ask(self, path: str, body: Mapping[str, Any], times: int) -> None:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
        head += f"authorization: Bearer {self.key}\r\n\r\n" if self.key else "\r\n"
        for _ in range(times):
            self.writer.write(head.encode() + data)
            answer = await self.reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            length = re.search(rb"content-length: (\d+)", answer)
            await (
                self.reader.readuntil(b"\r\n0\r\n\r\n") if length is None else self.reader.readexactly(int(length[1]))
            )


@asynccontextmanager
async def counting(
    folder: Path,
    config: SimulatorConfig,
    *rules: str,
    flags: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    key: str = "",
) -> AsyncIterator[Counting]:
    """A gateway with `rules` as its limits, further `flags` and `settings` (variables of its environment), asked with `key`."""
    file = folder / "calls.json"
    serve = ["serve", "--port", "0", "--history", "memory:"]
    serve += [] if settings and "SMG_ROUTING_POLICY" in settings else ["--policy", "round_robin"]
    serve += [*flags, *(argument for rule in rules for argument in ("--limits-rules", rule))]
    async with SimulatedEngine(config) as engine:
        command = [sys.executable, "-m", "tests.gateway.counting_gateway", str(file), *serve, "--worker", engine.target]
        process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, env={**ENVIRONMENT, **(settings or {})}
        )
        log: list[str] = []
        reading = asyncio.create_task(read(process, log))
        try:
            url = httpx.URL(await ready_at(process, log))
            reader, writer = await asyncio.open_connection(url.host, url.port)
            yield Counting(process, reader, writer, file, key)
            writer.close()
        finally:
            process.kill()
            await process.wait()
            await reading


def phase_of(name: str) -> str:
    fitting = [(len(prefix), phase) for phase, each in PHASES.items() for prefix in each if name.startswith(prefix)]
    return max(fitting)[1] if fitting else "other"


def told(calls: Counter[str]) -> str:
    """The calls by phase, and the ten functions with the most."""
    phases: Counter[str] = Counter()
    for name, count in calls.items():
        phases[phase_of(name)] += count
    largest = [f"{count:4} {name}" for name, count in calls.most_common(10)]
    return "\n".join([*(f"{count:4} {phase}" for phase, count in phases.most_common()), "the largest:", *largest])


def apart_from_reads(calls: Counter[str]) -> int:
    """All calls but those of the engine's client, which depend on how many reads an answer comes in."""
    return sum(count for name, count in calls.items() if phase_of(name) != "engine")


async def test_a_request_that_uses_nothing_more_costs_no_more_calls_than_its_budget(tmp_path: Path) -> None:
    found: dict[tuple[str, str], Counter[str]] = {}
    async with counting(tmp_path, SimulatorConfig()) as gateway:
        for api, budget in BUDGETS.items():
            body = {"model": "sim", **budget.body}
            found[api, "whole"] = await gateway.calls(budget.path, body)
            asked = body if budget.stream_path else {**body, "stream": True}
            found[api, "streamed"] = await gateway.calls(budget.stream_path or budget.path, asked)

    sums = {each: calls.total() for each, calls in found.items()}
    over = [each for each in found if sums[each] > getattr(BUDGETS[each[0]], each[1])]
    assert not over, "\n".join(f"{each}: {sums[each]} calls\n{told(found[each])}" for each in over)
    chat = found["chat", "whole"]
    of_engine = chat.total() - apart_from_reads(chat)
    beside = {api: (apart_from_reads(found[api, "whole"]) + of_engine) / chat.total() for api in BUDGETS}
    assert max(beside.values()) <= MOST_BESIDE_CHAT, beside


@pytest.mark.full  # a gateway in a process of its own
async def test_limits_cost_no_more_calls_than_their_budget(tmp_path: Path) -> None:
    budget = BUDGETS["chat"]
    body = {"model": "sim", **budget.body}
    (tmp_path / "limited").mkdir()
    async with (
        counting(tmp_path, SimulatorConfig()) as plain,
        counting(tmp_path / "limited", SimulatorConfig(), *RULES) as limited,
    ):
        before, after = await plain.calls(budget.path, body), await limited.calls(budget.path, body)

    more = apart_from_reads(after) - apart_from_reads(before)
    assert more <= LIMITS_BUDGET, f"{more} calls more\n{told(after - before)}"


@pytest.mark.full  # a gateway in a process of its own
async def test_limits_cost_a_stream_no_more_calls_of_their_own_than_their_budget(tmp_path: Path) -> None:
    """Of their own: in how many reads a stream comes is chance, on a busy machine, and each read has calls."""
    body = {"model": "sim", **BUDGETS["chat"].body}
    async with counting(tmp_path, SimulatorConfig(), *RULES) as limited:
        whole, streamed = await limited.calls(CHAT, body), await limited.calls(CHAT, {**body, "stream": True})

    own = [sum(count for name, count in calls.items() if name.startswith(LIMITS)) for calls in (whole, streamed)]
    assert 0 < max(own) <= LIMITS_BUDGET, told(streamed)


@pytest.mark.full  # three gateways in processes of their own
@pytest.mark.parametrize("rules", [(), RULES], ids=["plain", "with limits"])
async def test_a_mesh_costs_a_request_no_more_calls_than_its_budget(tmp_path: Path, rules: tuple[str, ...]) -> None:
    body = {"model": "sim", **BUDGETS["chat"].body}
    for name in ("alone", "other", "meshed"):
        (tmp_path / name).mkdir()
    mesh = ("--mesh-kind", "local", "--mesh-folder", str(tmp_path / "mesh"), "--mesh-name")
    async with (
        counting(tmp_path / "alone", SimulatorConfig(), *rules) as alone,
        counting(tmp_path / "other", SimulatorConfig(), *rules, flags=(*mesh, "other")),
        counting(tmp_path / "meshed", SimulatorConfig(), *rules, flags=(*mesh, "meshed")) as meshed,
    ):
        before, after = await alone.calls(CHAT, body), await meshed.calls(CHAT, body)

    more = apart_from_reads(after) - apart_from_reads(before)
    assert more <= MESH_BUDGET, f"{more} calls more\n{told(after - before)}"


@pytest.mark.full  # a gateway in a process of its own
async def test_the_ledger_costs_no_more_calls_than_its_budget(tmp_path: Path) -> None:
    budget = BUDGETS["chat"]
    body = {"model": "sim", **budget.body}
    (tmp_path / "kept").mkdir()
    flags = ("--ledger", "--ledger-write-s", "3600")
    async with (
        counting(tmp_path, SimulatorConfig()) as plain,
        counting(tmp_path / "kept", SimulatorConfig(), flags=flags) as kept,
    ):
        before, after = await plain.calls(budget.path, body), await kept.calls(budget.path, body)

    more = apart_from_reads(after) - apart_from_reads(before)
    assert 0 < more <= LEDGER_BUDGET, f"{more} calls more\n{told(after - before)}"


@pytest.mark.full  # a gateway in a process of its own
async def test_each_further_token_costs_no_more_calls_than_its_budget(tmp_path: Path) -> None:
    config = SimulatorConfig(replies=(Reply(SAID),), timing=Timing(decode_rate=100))
    async with counting(tmp_path, config) as gateway:
        body = {"model": "sim", "messages": MESSAGES, "stream": True}
        few = await gateway.calls(CHAT, {**body, "max_tokens": 2})
        more = await gateway.calls(CHAT, {**body, "max_tokens": 2 + FURTHER})

    # a function is called so many times for a token; on a busy machine two tokens come in one read now and then
    each = sum(round(count / FURTHER) for count in (more - few).values())
    assert each <= FURTHER_BUDGET, f"{each} calls\n{told(more - few)}"


@pytest.mark.full  # a gateway in a process of its own
async def test_a_whole_answer_costs_the_same_calls_whatever_its_length(tmp_path: Path) -> None:
    async with counting(tmp_path, SimulatorConfig(replies=(Reply(SAID),))) as gateway:
        body = {"model": "sim", "messages": MESSAGES}
        few = await gateway.calls(CHAT, {**body, "max_tokens": 2})
        more = await gateway.calls(CHAT, {**body, "max_tokens": 2 + 4 * FURTHER})

    assert more.total() - few.total() <= FURTHER, told(more - few)
