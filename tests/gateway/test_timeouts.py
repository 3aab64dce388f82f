"""Time-outs as a client meets them, over every way to an engine: who moves, what ends with one error, what goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.core.pipeline.flow.test_timeouts import Timer
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.fleet import CALM, Prefer, Watching, joined
from tests.gateway.test_failures import error_of, taken_apart

from smg_core import Config, Gateway
from smg_core.hooks import RequestFinished
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.serving.timeouts import HEADERS
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

WORDS = "one two three four five six seven"
SAYS = SimulatorConfig(rules=(Rule((), Reply(WORDS)),))
DOORS = ["h2", "grpcio", "http"]
DAY = 86400.0


@asynccontextmanager
async def pair(door: str, timer: Timer, simulator: SimulatorConfig = SAYS, **timeouts: Any) -> AsyncIterator[House]:
    """A gateway before two engines behind this door, of which it prefers the first, that waits by `timer`. No probe comes of
    itself, and no answer that has begun goes on elsewhere."""
    config = Config(
        workers=WorkersConfig(health_interval_s=3600.0, transport="grpcio" if door == "grpcio" else "h2", migrations=0),
        timeouts=TimeoutsConfig(**timeouts),
    )
    ways: dict[str, Any] = {"config": config, "call_later": timer.call_later, "policy": Prefer()}
    if door != "http":
        async with in_process(simulator, engines=2, **ways) as house:
            yield house
        return
    async with over_http(simulator) as one, over_http(simulator) as two:
        observer, specs = MemoryObserver(), [WorkerSpec(one.url, name="one"), WorkerSpec(two.url, name="two")]
        gateway = Gateway(specs, observer=observer, **ways)
        async with gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
            for worker in gateway.registry:
                await joined(gateway, worker.name)
            yield House(gateway, http, observer, own=(*one.engines, *two.engines))


def ask(house: House, headers: dict[str, str], **fields: Any) -> "asyncio.Task[httpx.Response]":
    return asyncio.create_task(house.http.post(CHAT, json=body(**fields), headers=headers))


async def stalled(house: House) -> None:
    """One engine holds its request and says nothing more."""
    await eventually(lambda: sum(engine.counters["stalled"] for engine in house.engines) == 1)


def asked(house: House) -> list[int]:
    return [engine.counters["requests"] for engine in house.engines]


# ------------------------------------------------------------------------------------------------ before the first byte


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("streaming", [True, False])
async def test_an_engine_without_a_first_token_in_the_requests_own_time_loses_it_to_another(
    door: str, streaming: bool
) -> None:
    timer = Timer()
    async with pair(door, timer) as house:
        house.engine.inject(Fault("stall"))
        asking = ask(house, {"x-smg-first-token-timeout": "3"}, stream=streaming)
        await stalled(house)
        timer.pass_by(2.9)
        assert asked(house) == [1, 0]
        timer.pass_by(0.1)
        answer = await asking
        await settled(house)

    assert answer.status_code == 200
    said = taken_apart(answer).text if streaming else answer.json()["choices"][0]["message"]["content"]
    assert said == WORDS
    assert asked(house) == [1, 1]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_request_whose_time_is_up_before_its_first_byte_is_one_error_504_and_is_not_tried_elsewhere(
    door: str, streaming: bool
) -> None:
    timer = Timer()
    async with pair(door, timer) as house:
        house.engine.inject(Fault("stall"))
        asking = ask(house, {"x-smg-request-timeout": "7"}, stream=streaming)
        await stalled(house)
        timer.pass_by(7.0)
        answer = await asking
        await settled(house)
        (finished,) = house.observer.of(RequestFinished)

    error = error_of(answer, 504)
    assert error["type"] == "server_error"
    assert error["message"] == "The request was not complete within 7 seconds."
    assert answer.headers["x-should-retry"] == "false"
    assert asked(house) == [1, 0]
    assert (finished.outcome, finished.status) == ("DeadlineExceeded", 504)


# ------------------------------------------------------------------------------------------------- after the first byte


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("header", ["x-smg-token-timeout", "x-smg-request-timeout"])
async def test_a_stream_that_has_begun_ends_with_one_error_in_band(door: str, header: str) -> None:
    timer = Timer()
    async with pair(door, timer) as house:
        house.engine.inject(Fault("stall", after=3))
        request = house.http.build_request("POST", CHAT, json=body(stream=True), headers={header: "4"})
        answer = await house.http.send(request, stream=True)
        await stalled(house)
        for _ in range(8):
            timer.pass_by(1.0)
        await answer.aread()
        await settled(house)

    told = taken_apart(answer)
    assert told.status == 200
    assert told.text
    assert WORDS.startswith(told.text)
    assert len(told.errors) == 1
    assert not told.done
    assert asked(house) == [1, 0]


@pytest.mark.full
async def test_a_stream_may_take_as_long_as_it_brings_tokens_and_a_whole_answer_ten_minutes() -> None:
    timer = Timer()
    paced = SimulatorConfig(rules=(Rule((), Reply(WORDS * 3)),), timing=Timing(decode_rate=50))
    async with pair("h2", timer, paced, first_token_s=DAY, token_s=DAY) as house:
        asking = [ask(house, {}, stream=True), ask(house, {})]
        await eventually(lambda: house.engine.active == 2)
        timer.pass_by(7000.0)
        streamed, whole = await asyncio.gather(*asking)

    assert taken_apart(streamed).text == WORDS * 3
    assert taken_apart(streamed).done
    assert error_of(whole, 504)["message"] == "The request was not complete within 600 seconds."


# ------------------------------------------------------------------------------------------------------------- the client


@pytest.mark.full
async def test_a_client_that_reads_nothing_for_longer_than_its_header_says_is_sent_away() -> None:
    endless = SimulatorConfig(reply_tokens=1_000_000, context_length=2_000_000)
    async with over_http(endless) as house:
        host, port = house.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        content = httpx.Request("POST", house.url, json=body(stream=True)).content
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-smg-write-timeout: 0.05\r\n"
        writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        await eventually(lambda: house.observer.of(RequestFinished))
        await settled(house)
        writer.close()
        (finished,) = house.observer.of(RequestFinished)

    assert finished.outcome == "client_gone"


# ------------------------------------------------------------------------------------------------------ what may be asked


async def test_a_header_that_is_nonsense_or_over_its_bound_is_a_400_that_names_it() -> None:
    async with in_process(SAYS) as house:
        for header in HEADERS:
            for text in ("nan", "-1", "soon", "0", "9999999"):
                error = error_of(await house.http.post(CHAT, json=body(), headers={header: text}), 400)
                assert error["param"] == header
                assert header in error["message"]

        assert not house.engine.requests


async def test_a_models_own_time_out_holds_for_requests_to_it() -> None:
    timer = Timer()
    async with pair("h2", timer, models=("sim=request:7",)) as house:
        house.engine.inject(Fault("stall"))
        asking = ask(house, {})
        await stalled(house)
        timer.pass_by(7.0)
        answer = await asking

    assert "within 7 seconds" in error_of(answer, 504)["message"]


@pytest.mark.parametrize(("headers", "blamed"), [({"x-smg-first-token-timeout": "3"}, False), ({}, True)])
async def test_a_request_that_waits_less_than_is_usual_makes_no_worker_look_bad(
    headers: dict[str, str], blamed: bool
) -> None:
    timer, policy = Timer(), Watching()
    async with in_process(SAYS, engines=2, config=CALM, call_later=timer.call_later, policy=policy) as house:
        house.engine.inject(Fault("stall"))
        asking = ask(house, headers)
        await stalled(house)
        timer.pass_by(120.0)
        answer = await asking

    assert answer.status_code == 200
    assert [ended.failed for ended in policy.ended] == [blamed, False]
