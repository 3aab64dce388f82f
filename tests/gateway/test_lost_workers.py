"""While another worker is ready, the calls of a worker that is lost end as if nothing had happened, however many they are."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, settled
from tests.gateway.fleet import Member, Prefer, fleet

from smg_core import Config
from smg_core.engines.settings import EnginesConfig
from smg_core.hooks import AttemptEnded
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

MANY, RESERVE = 24, 3
"""Calls under way, and retries in the budget: many more calls are lost than may be retried."""
STALLED = SimulatorConfig(faults=(Fault("stall"),) * 100)


def settings(**workers: Any) -> Config:
    calm = WorkersConfig(health_interval_s=3600.0, loads_interval_s=3600.0, join_interval_s=3600.0, **workers)
    return Config(workers=calm, routing=RoutingConfig(retry_reserve=RESERVE, retry_share=0.0, retry_s=0.001))


def ask_many(house: House, count: int = MANY) -> "list[asyncio.Task[httpx.Response]]":
    return [
        asyncio.create_task(house.http.post(CHAT, json=body(f"question {number}", max_tokens=4)))
        for number in range(count)
    ]


def fails(house: House, name: str = "a") -> None:
    """A health check of the worker is late."""
    worker = house.gateway.registry.get(name)
    assert worker is not None
    house.gateway.services.running.monitor.signal(worker, "failing", "a late health check")


def held(engine: SimulatedEngine) -> None:
    """From now on the engine makes no token, until it is resumed."""
    engine.clockwork.pausing.mode = "keep"


def waiting(house: House, count: int) -> Callable[[], bool]:
    return lambda: house.engines[0].counters["stalled"] == count


def outcomes(house: House, name: str = "a") -> Counter[str]:
    return Counter(each.outcome for each in house.observer.of(AttemptEnded) if each.worker == name)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("how", ["killed", "late", "drained and late", "drained to be moved"])
async def test_all_calls_of_a_lost_worker_are_moved_though_they_are_more_than_the_budget_of_retries(how: str) -> None:
    policy = Prefer("a")
    async with fleet(Member("a", engine=STALLED), Member("b"), config=settings(), policy=policy) as house:
        asked = ask_many(house)
        await eventually(waiting(house, MANY))
        policy.wanted = "b"
        if how == "killed":
            await house.engines[0].stop()
        if how.startswith("drained"):
            house.gateway.drain_worker("a", move=how.endswith("moved"))
        if how.endswith("late"):
            fails(house)
        answers = await asyncio.gather(*asked)
        await settled(house)

    assert Counter(answer.status_code for answer in answers) == {200: MANY}
    assert outcomes(house, "b") == {"ok": MANY}


async def test_a_call_that_nobody_else_can_take_is_left_running_and_ends_well_when_its_engine_was_only_late() -> None:
    async with fleet(Member("a"), config=settings()) as house:
        held(house.engines[0])
        asked = ask_many(house)
        await eventually(lambda: house.engines[0].active == MANY)
        fails(house)
        house.engines[0].clockwork.pausing.resume()
        answers = await asyncio.gather(*asked)

    assert Counter(answer.status_code for answer in answers) == {200: MANY}
    assert outcomes(house) == {"ok": MANY}


async def test_a_call_without_a_retry_left_is_not_ended_for_a_late_health_check() -> None:
    config = Config(workers=settings().workers, routing=RoutingConfig(retries=0))
    async with fleet(Member("a"), Member("b"), config=config, policy=Prefer("a")) as house:
        held(house.engines[0])
        asked = ask_many(house)
        await eventually(lambda: house.engines[0].active == MANY)
        fails(house)
        house.engines[0].clockwork.pausing.resume()
        answers = await asyncio.gather(*asked)

    assert Counter(answer.status_code for answer in answers) == {200: MANY}
    assert outcomes(house) == {"ok": MANY}


async def test_no_more_calls_are_moved_than_others_have_room_for_and_the_rest_with_the_next_health_checks() -> None:
    policy = Prefer("a")
    config = settings(most_in_flight=10)
    async with fleet(Member("a", engine=STALLED), Member("b"), config=config, policy=policy) as house:
        asked = ask_many(house, 10)
        await eventually(waiting(house, 10))
        policy.wanted = "b"
        held(house.engines[1])
        others = ask_many(house, 7)
        await eventually(lambda: house.engines[1].active == 7)
        fails(house)
        await eventually(lambda: house.engines[1].active == 10)
        fails(house)  # b is full
        await eventually(lambda: outcomes(house)["EngineStalled"] == 3)
        house.engines[1].clockwork.pausing.resume()
        await asyncio.gather(*others)
        fails(house)
        answers = await asyncio.gather(*asked)
        await settled(house)

    assert Counter(answer.status_code for answer in (*answers, *(each.result() for each in others))) == {200: 17}
    assert outcomes(house) == {"EngineStalled": 10}


async def test_a_worker_that_loses_one_call_after_another_takes_them_from_the_budget() -> None:
    failing = SimulatorConfig(fault_rates=((Fault("refuse"), 1.0),))
    config = settings()
    async with fleet(Member("a", engine=failing), Member("b"), config=config, policy=Prefer("a")) as house:
        answers = [await house.chat(str(number)) for number in range(RESERVE + 2)]

    assert [answer.status_code for answer in answers] == [200] * (RESERVE + 1) + [503]  # the first is a loss


@pytest.mark.full
@pytest.mark.parametrize("others", [0, 1])
async def test_pooled_calls_of_a_lost_worker_are_moved_and_left_where_nobody_can_take_them(others: int) -> None:
    model = SimulatorConfig(generation_model=False, embedding_size=8)
    lost = attrs.evolve(model, faults=(Fault("stall"),) * MANY)
    members = [Member("a", engine=lost), *[Member("b", engine=model)] * others]
    texts = [f"text {number}" for number in range(MANY)]
    async with fleet(*members, config=settings(), policy=Prefer("a")) as house:
        asked = asyncio.create_task(house.http.post("/v1/embeddings", json={"model": "sim", "input": texts}))
        await eventually(waiting(house, MANY))
        fails(house)
        if others:
            answer = await asked
            assert (answer.status_code, len(answer.json()["data"])) == (200, MANY)
        else:
            await house.http.get("/health")  # a call that was ended would be told by now
            assert not outcomes(house)
            assert not house.engines[0].counters["cancelled"]
            asked.cancel()
        await settled(house)


async def test_an_engine_all_of_whose_streams_are_in_use_passes_its_health_checks() -> None:
    calm = settings().workers
    config = Config(workers=attrs.evolve(calm, probe_timeout_s=30.0), engines=EnginesConfig(streams=8))
    async with fleet(Member("a"), Member("b"), config=config, policy=Prefer("a")) as house:
        held(house.engines[0])
        asked = ask_many(house)
        await eventually(lambda: house.engines[0].active == 7)  # one stream is kept
        worker = house.gateway.registry.get("a")
        assert worker is not None
        before = len(house.engines[0].probed_by)
        house.gateway.services.running.monitor.wake(worker)
        await eventually(lambda: len(house.engines[0].probed_by) > before)
        assert worker.state == "ready"
        house.engines[0].clockwork.pausing.resume()
        answers = await asyncio.gather(*asked)

    assert Counter(answer.status_code for answer in answers) == {200: MANY}
    assert outcomes(house) == {"ok": MANY}
