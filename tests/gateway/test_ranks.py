"""A data-parallel rank of an engine is a worker of its own, `engine@rank`: chosen, excluded and reported like any other."""

import json
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually
from tests.gateway.fleet import Member, fleet, joined

from smg_core import Config
from smg_core.hooks import BreakerChanged, WorkerPicked
from smg_core.observability.settings import ObservabilityConfig
from smg_core.routing import Pick
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio
CONFIG = Config(workers=WorkersConfig(health_interval_s=3600.0), observability=ObservabilityConfig(explain=True))
DIALECTS = ("vllm", "tokenspeed")


async def asked(house: House) -> dict[str, Any]:
    answer = await house.http.post(CHAT, json=body(max_tokens=2), headers={"x-smg-explain": "1"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.headers["x-smg-explain"])
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_rank_is_a_worker_and_its_requests_go_to_that_rank(dialect: str) -> None:
    first = Member("gpu", dialect, SimulatorConfig(ranks=3), {"rank": 0})
    async with fleet(first, config=CONFIG) as house:
        for rank in (1, 2):
            worker = house.gateway.add_worker(attrs.evolve(first.spec(house.engine), rank=rank))
            await joined(house.gateway, worker.name)
        found = [await asked(house) for _ in range(6)]

        assert [each.name for each in house.gateway.registry] == ["gpu@0", "gpu@1", "gpu@2"]
        assert sorted(each["worker"] for each in found) == ["gpu@0", "gpu@0", "gpu@1", "gpu@1", "gpu@2", "gpu@2"]
        assert sorted(each.data_parallel_rank for each in house.engine.requests) == [0, 0, 1, 1, 2, 2]
        picked = [(m.worker, m.rank) for m in house.observer.moments if isinstance(m, WorkerPicked)]
        assert all(name == f"gpu@{rank}" for name, rank in picked)


async def test_a_rank_that_the_engine_does_not_have_does_not_join() -> None:
    async with fleet(Member("gpu", "vllm", SimulatorConfig(ranks=2), {"rank": 1}), config=CONFIG) as house:
        spec = next(iter(house.gateway.registry)).spec
        worker = house.gateway.add_worker(attrs.evolve(spec, rank=2))
        await eventually(lambda: "rank 2 of 2" in worker.reason)


async def test_a_rank_whose_calls_fail_is_left_alone_and_the_others_of_its_worker_go_on() -> None:
    class Second:
        name = "second"

        def pick(self, candidates: Any, context: Any) -> Pick:
            return Pick(candidates[0], rank=1)

    config = attrs.evolve(CONFIG, breaker=BreakerConfig(failures=3, open_s=3600.0), routing=RoutingConfig(retries=0))
    async with fleet(Member("gpu", "vllm", SimulatorConfig(ranks=3)), config=config, policy=Second) as house:
        house.engine.inject(*[Fault("error")] * 3)
        failed = [(await house.chat(max_tokens=2)).status_code for _ in range(3)]
        found = [(await asked(house))["worker"] for _ in range(4)]
        changed = [(each.worker, each.rank, each.state) for each in house.observer.of(BreakerChanged)]

        assert 200 not in failed
        assert changed == [("gpu", 1, "open")]
        assert sorted(found) == ["gpu@0", "gpu@0", "gpu@2", "gpu@2"]
        assert [each.data_parallel_rank for each in house.engine.requests][:3] == [1, 1, 1]


async def test_a_rank_that_a_policy_chose_is_told() -> None:
    class Second:
        name = "second"

        def pick(self, candidates: Any, context: Any) -> Pick:
            return Pick(candidates[0], rank=1)

    async with fleet(Member("gpu", "vllm", SimulatorConfig(ranks=2)), config=CONFIG, policy=Second) as house:
        assert (await asked(house))["worker"] == "gpu@1"
        assert house.engine.requests[0].data_parallel_rank == 1
