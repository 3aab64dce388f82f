"""Several processes of one gateway hold back together what their engines cannot take."""

import asyncio
from collections import Counter

import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.test_serve import Served, serving
from tests.shared import PATIENCE

from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = [pytest.mark.anyio, pytest.mark.full]

STEADY = SimulatorConfig(seed=1, reply_tokens=40, timing=Timing(decode_rate=100))
SLOTS, REQUESTS = 4, 24


async def most_at_once(served: Served, over: asyncio.Event) -> tuple[int, list[int]]:
    """The most requests that the engine had at once, and all counts that were seen."""
    seen: list[int] = []
    while not over.is_set():
        seen.append(served.engine.active)
        await asyncio.sleep(0.005)
    return max(seen), seen


async def asked(served: Served, band: str) -> tuple[int, bool]:
    """The status of one request over a connection of its own, so that every process gets some, and whether it waited."""
    async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
        answer = await http.post(CHAT, json=body(max_tokens=40), headers={"x-smg-priority": band})
    return answer.status_code, "x-smg-queue-place" in answer.headers


async def test_processes_together_send_an_engine_about_what_it_takes_and_answer_everybody() -> None:
    flags = ("--processes", "2", "--queue-enabled", "--workers-most-in-flight", str(SLOTS))
    async with serving(STEADY, *flags, "--queue-wait-s", "300") as served:
        over = asyncio.Event()
        watching = asyncio.create_task(most_at_once(served, over))
        found = await asyncio.gather(*[asked(served, "interactive") for _ in range(REQUESTS)])
        over.set()
        most, seen = await watching

    assert Counter(status for status, _ in found) == {200: REQUESTS}
    assert sum(waited for _, waited in found) >= REQUESTS // 2
    # Each process sees within 50 ms what the other has sent: together they may be over by what one of them takes.
    assert most <= 2 * SLOTS
    busy = [each for each in seen if each]
    assert sum(busy) / len(busy) <= 1.5 * SLOTS
