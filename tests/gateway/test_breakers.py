"""Workers that keep failing are left alone for a while, and retries never multiply the load."""

import asyncio

import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, settled
from tests.gateway.fleet import Member, Prefer, fleet

from smg_core import Config
from smg_core.hooks import AttemptEnded, BreakerChanged, RequestFinished, Retrying
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CALM = WorkersConfig(health_interval_s=3600.0)
FAILING = SimulatorConfig(fault_rates=((Fault("refuse"), 1.0),))
HALF = SimulatorConfig(fault_rates=((Fault("refuse"), 0.5),))


def calls_of(house: House, name: str) -> int:
    return sum(each.worker == name for each in house.observer.of(AttemptEnded))


@pytest.mark.full
async def test_a_worker_that_keeps_failing_gets_no_more_requests_and_none_is_lost() -> None:
    config = Config(workers=CALM, breaker=BreakerConfig(open_s=3600.0))
    members = Member("a", engine=FAILING), Member("b")
    async with fleet(*members, config=config, policy=Prefer("a")) as house:
        answers = [await house.chat(str(number)) for number in range(20)]
        await settled(house)

    assert {answer.status_code for answer in answers} == {200}
    assert calls_of(house, "a") == 5
    assert [(each.worker, each.state) for each in house.observer.of(BreakerChanged)] == [("a", "open")]


async def test_a_worker_that_is_well_again_gets_a_few_requests_and_then_all() -> None:
    config = Config(workers=CALM, breaker=BreakerConfig(failures=3, open_s=0.05, probes=2))
    members = Member("a"), Member("b")
    async with fleet(*members, config=config, policy=Prefer("a")) as house:
        house.engine.inject(*[Fault("refuse")] * 3)
        for _ in range(3):
            await house.chat()

        def states() -> list[str]:
            return [each.state for each in house.observer.of(BreakerChanged)]

        assert states() == ["open"]

        async def asked_until_closed() -> None:
            while states()[-1] != "closed":
                assert (await house.chat()).status_code == 200

        await asked_until_closed()
        before = calls_of(house, "a")
        await house.chat()
        await eventually(lambda: calls_of(house, "a") == before + 1)

    assert states() == ["open", "closed"]


@pytest.mark.full
async def test_the_only_worker_is_asked_though_it_keeps_failing() -> None:
    config = Config(workers=CALM, breaker=BreakerConfig(open_s=3600.0))
    async with fleet(Member("a", engine=FAILING), config=config) as house:
        answers = [await house.chat() for _ in range(8)]

    assert {answer.status_code for answer in answers} == {503}
    assert calls_of(house, "a") == 8


@pytest.mark.full
async def test_with_half_of_all_calls_failing_the_load_is_bounded_by_the_budget_of_retries() -> None:
    routing = RoutingConfig(retry_s=0.0, retry_share=0.2, retry_reserve=10)
    config = Config(workers=CALM, breaker=BreakerConfig(failures=0), routing=routing)
    members = [Member(name, engine=HALF) for name in ("a", "b", "c", "d")]
    async with fleet(*members, config=config, policy="round_robin") as house:
        for number in range(200):
            await house.chat(str(number), max_tokens=1)
        calls, retries = len(house.observer.of(AttemptEnded)), len(house.observer.of(Retrying))
        requests = len(house.observer.of(RequestFinished))

    assert requests == 200
    assert calls <= 1.2 * requests + 10
    assert calls == requests + retries
    assert retries >= 0.2 * requests  # what the budget allows is used


async def ask_and_leave(house: House) -> None:
    """Ask, and leave as soon as the first engine has the request; another one answers it."""
    before = house.engines[0].counters["stalled"]
    asked = asyncio.create_task(house.chat())
    await eventually(lambda: asked.done() or house.engines[0].counters["stalled"] > before)
    asked.cancel()


@pytest.mark.full
@pytest.mark.parametrize("how", ["left", "its own time-out"])
async def test_calls_that_were_given_up_before_anything_came_close_no_breaker(how: str) -> None:
    breaker = BreakerConfig(failures=2, open_s=0.05, probes=2)
    config = Config(workers=CALM, breaker=breaker)
    hung = SimulatorConfig(faults=(*[Fault("refuse")] * 2, *[Fault("stall")] * 20))
    async with fleet(Member("a", engine=hung), Member("b"), config=config, policy=Prefer("a")) as house:
        for _ in range(2):
            await house.chat()
        given_up = 0
        while given_up < 6:  # three times as many as would close it
            if how == "left":
                await ask_and_leave(house)
            else:
                headers = {"x-smg-token-timeout": "0.05", "x-smg-first-token-timeout": "0.05"}
                await house.http.post(CHAT, json=body("question"), headers=headers)
            await settled(house)
            given_up = calls_of(house, "a") - 2
        states = [each.state for each in house.observer.of(BreakerChanged)]

    assert states == ["open"]
