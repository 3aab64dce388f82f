"""A request that says how soon its tokens must come goes to a worker that is predicted to do it."""

import subprocess
import sys
from collections import Counter
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, in_process
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_prefill_decode import idle, pools

from smg_core import Config
from smg_core.hooks import WorkerPicked
from smg_core.limit_moments import ObjectiveKept, TimePredicted
from smg_core.pipeline.settings import DisaggregationConfig
from smg_core.queueing.settings import QueueConfig
from smg_core.routing.settings import RoutingConfig
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

QUICK = SimulatorConfig(seed=1, reply_tokens=4)
STEADY = SimulatorConfig(seed=1, reply_tokens=4, timing=Timing(decode_rate=1000, overhead=0.02))
SLOW = SimulatorConfig(seed=1, reply_tokens=4, timing=Timing(decode_rate=1000, overhead=0.4))


def config(wish: Any, **sections: Any) -> Config:
    return Config(routing=RoutingConfig(objectives=wish), **sections)


async def ask(house: House, **asked: str) -> httpx.Response:
    headers = {f"x-slo-{name}-ms": value for name, value in asked.items()}
    return await house.http.post(CHAT, json=body(max_tokens=3, stream=True), headers=headers)


async def learned(house: House, requests: int = 10) -> None:
    for _ in range(requests):
        assert (await ask(house)).status_code == 200


@pytest.mark.full
async def test_what_cannot_be_met_is_shed_in_the_api_s_own_words_and_what_can_is_served() -> None:
    async with in_process(STEADY, config=config("shed")) as house:
        assert (await ask(house, ttft="0.01")).status_code == 200  # nothing is known yet, so nothing is refused
        await learned(house)
        met, refused = await ask(house, ttft="60000"), await ask(house, ttft="0.01")
        other = await house.http.post(
            "/v1/messages",
            json={"model": "sim", "max_tokens": 3, "messages": [{"role": "user", "content": "Hello"}]},
            headers={"x-slo-ttft-ms": "0.01"},
        )
    assert met.status_code == 200
    assert "x-smg-objective" not in met.headers
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "server_error")
    assert int(refused.headers["retry-after"]) >= 1
    assert (other.status_code, other.json()["error"]["type"]) == (529, "overloaded_error")
    assert house.observer.of(TimePredicted)
    assert ("first", "met") in {(each.kind, each.outcome) for each in house.observer.of(ObjectiveKept)}


@pytest.mark.full
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_is_told_whether_it_is_late_where_that_is_wished(stream: bool) -> None:
    async with in_process(STEADY, config=config("say")) as house:
        await learned(house)
        found = []
        for milliseconds in ("60000", "0.01"):
            headers = {"x-slo-ttft-ms": milliseconds}
            answer = await house.http.post(CHAT, json=body(max_tokens=3, stream=stream), headers=headers)
            found.append((answer.status_code, answer.headers["x-smg-objective"]))
        plain = await ask(house)
    assert found == [(200, "met"), (200, "late")]
    assert "x-smg-objective" not in plain.headers


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("value", ["0", "-5", "soon", "1e3", ""])
async def test_what_is_no_time_is_refused_by_name(value: str) -> None:
    async with in_process(QUICK, config=config("late")) as house:
        answer = await ask(house, tpot=value)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "x-slo-tpot-ms"


@pytest.mark.full  # engines that take their time
async def test_a_request_in_a_hurry_goes_to_the_engine_that_is_quick_enough() -> None:
    members = (Member("quick", engine=STEADY), Member("slow", engine=SLOW))
    async with fleet(*members, config=Config(routing=RoutingConfig(objectives="late", policy="round_robin"))) as house:
        await learned(house, 24)
        before = len(house.observer.of(WorkerPicked))
        for _ in range(6):
            assert (await ask(house, ttft="250")).status_code == 200
        hurried = Counter(each.worker for each in house.observer.of(WorkerPicked)[before:])
        for _ in range(4):
            await ask(house)
        others = Counter(each.worker for each in house.observer.of(WorkerPicked)[before + 6 :])
    assert hurried == {"quick": 6}
    assert others == {"quick": 2, "slow": 2}


@pytest.mark.full
@pytest.mark.parametrize("alone", [0, 1])
async def test_workers_that_share_a_request_are_predicted_each_by_its_part(alone: int) -> None:
    asks = config("say", disaggregation=DisaggregationConfig(local_tokens=alone))
    async with pools(prefill=("p",), decode=("d", "e"), config=asks, reply_tokens=4) as house:
        await learned(house, 12)
        found = [await ask(house, ttft=each, tpot="60000") for each in ("60000", "0.01")]
        house.gateway.adopt(config("shed", disaggregation=DisaggregationConfig(local_tokens=alone)))
        refused = await ask(house, ttft="0.01")
        await idle(house)
    assert [each.headers["x-smg-objective"] for each in found] == ["met", "late"]
    assert {each.kind for each in house.observer.of(TimePredicted)} == {"first", "each"}
    assert refused.status_code == 503


async def test_of_one_tenant_the_request_that_has_to_go_soonest_is_first() -> None:
    async with in_process(QUICK, config=config("late", queue=QueueConfig(enabled=True))) as house:
        await learned(house)
        queueing = house.gateway.services.live.queueing
        assert queueing is not None
        assert queueing.due is not None
        soon, late = (queueing.due({"x-slo-ttft-ms": each}, "sim", 10) for each in ("500", "5000"))
        assert soon < late < queueing.due({}, "sim", 10)
        assert (await ask(house, ttft="500")).status_code == 200


async def test_it_is_switched_on_and_off_while_the_gateway_runs() -> None:
    async with in_process(QUICK, config=Config()) as house:
        assert (await ask(house, ttft="nonsense")).status_code == 200  # headers of others are no concern of ours
        house.gateway.adopt(config("late"))
        assert (await ask(house, ttft="nonsense")).status_code == 400
        house.gateway.adopt(Config())
        assert (await ask(house, ttft="nonsense")).status_code == 200


@pytest.mark.full
def test_a_gateway_without_it_loads_nothing_of_it() -> None:
    program = "import sys, smg_core; smg_core.Gateway(); print(*(n for n in sys.modules if 'objectives' in n))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "smg_core.objectives.objectives" not in found
