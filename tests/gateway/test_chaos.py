"""Hundreds of requests at once, with engines that fail and clients that leave at random: nothing hangs, nothing is left."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, JSON, House, body, eventually, in_process, over_http, settled
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.hooks import RequestFinished, RequestStarted
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

FAULTS = (
    (Fault("refuse"), 0.05),
    (Fault("cut"), 0.05),
    (Fault("cut", after=5), 0.05),
    (Fault("error", after=2), 0.05),
    (Fault("silence", after=3), 0.05),
    (Fault("garbage", after=4), 0.05),
    (Fault("stall"), 0.03),
    (Fault("stall", after=3), 0.05),
    (Fault("drip", after=2, seconds=0.02), 0.05),
)
LONG = 3600.0
HASTY = Config(
    workers=WorkersConfig(probe_timeout_s=60.0, health_interval_s=0.1),
    timeouts=TimeoutsConfig(request_s=None, first_token_s=LONG, token_s=LONG),
    limits=LimitsConfig(response_buffer_bytes=4096),
)
CHAOS = SimulatorConfig(reply_tokens=40, fault_rates=FAULTS, timing=Timing(decode_rate=200, batch=64))


class Hours:
    """Time that passes for engines that say nothing, when the test says so: what the gateway would do later waits here."""

    def __init__(self) -> None:
        self.waiting: dict[object, Callable[[], None]] = {}

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Alarm":
        alarm = Alarm(self)
        self.waiting[alarm] = callback
        return alarm

    def pass_by(self) -> None:
        """All that was to be done by now is done."""
        due, self.waiting = list(self.waiting.values()), {}
        for callback in due:
            callback()


@attrs.frozen(eq=False)
class Alarm:
    hours: Hours

    def cancel(self) -> None:
        self.hours.waiting.pop(self, None)


async def let_time_pass(house: House, hours: Hours) -> None:
    """Hours pass whenever all that is under way waits for an engine that will never say more."""
    while True:
        await asyncio.sleep(0.01)
        if 0 < house.gateway.in_flight == sum(engine.counters["stalled"] for engine in house.engines):
            hours.pass_by()


async def visit(house: House, number: int, rng: random.Random) -> str:
    """One client: it asks, and perhaps leaves at a moment of its own choosing."""
    asked = asyncio.create_task(ask(house, number, stream=rng.random() < 0.7, pieces=rng.choice([0, 1, 5, 1000])))
    if rng.random() < 0.4:
        for _ in range(rng.randrange(200)):
            await asyncio.sleep(0)
        asked.cancel()
    await asyncio.wait([asked])
    return "left" if asked.cancelled() else asked.result()


async def ask(house: House, number: int, *, stream: bool, pieces: int) -> str:
    """How the answer ended, having read at most `pieces` pieces of it."""
    text = "long words, " * 3000 if number % 10 == 0 else f"request {number}"
    fields: dict[str, Any] = {"stream": stream, "n": 2 if number % 7 == 0 else 1, "temperature": 1.0}
    said = b""
    async with house.http.stream("POST", CHAT, json=body(text, **fields)) as answer:
        async for piece in answer.aiter_bytes():
            said += piece
            pieces -= 1
            if not pieces:
                return "left"
    if not stream or answer.status_code != 200:
        return f"whole {answer.status_code}"
    done, failed = said.endswith(b"data: [DONE]\n\n"), said.count(b'data: {"error"')
    assert done + failed == 1, said
    return "stream" if done else "failed in band"


@pytest.mark.full
@pytest.mark.parametrize("way", [in_process, over_http])
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_hangs_and_nothing_is_left_of_hundreds_of_requests_that_go_wrong(way: Any, seed: int) -> None:
    rng, hours = random.Random(seed), Hours()
    async with way(CHAOS, engines=3, config=HASTY, call_later=hours.call_later) as house:
        if house.url:
            house.http = httpx.AsyncClient(
                base_url=house.url,
                timeout=None,
                trust_env=False,
                headers=JSON,
                limits=httpx.Limits(max_connections=400),
            )
        passing = asyncio.create_task(let_time_pass(house, hours))
        async with asyncio.timeout(PATIENCE):
            ends = Counter(await asyncio.gather(*(visit(house, number, rng) for number in range(300))))
        passing.cancel()
        await settled(house)
        await house.http.aclose()
        if house.url:
            await eventually(lambda: not house.server.server_state.tasks)
        started, finished = house.observer.of(RequestStarted), house.observer.of(RequestFinished)

    assert sum(ends.values()) == 300
    assert {"left", "stream", "failed in band", "whole 200"} <= set(ends), ends
    assert set(ends) <= {
        "left",
        "stream",
        "failed in band",
        "whole 200",
        "whole 500",
        "whole 502",
        "whole 503",
        "whole 504",
    }
    assert {each.request_id for each in started} <= {each.request_id for each in finished}
    assert len({each.request_id for each in finished}) == len(finished)
