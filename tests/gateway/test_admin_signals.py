"""What autoscalers read: by model and role, at the admin door as JSON, and as metrics."""

import pytest
from tests.gateway.conftest import eventually
from tests.gateway.test_adapters import fleet

from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio


@pytest.mark.full
async def test_a_pool_for_each_model_and_role_with_their_totals_and_the_share_of_prefill() -> None:
    kv = {"kv_connector": "MooncakeConnector"}
    engines = {
        "p": SimulatorConfig(kv_role="kv_producer", **kv),
        "d": SimulatorConfig(kv_role="kv_consumer", **kv),
        "e": SimulatorConfig(kv_role="kv_consumer", **kv),
        "other": SimulatorConfig(model="other"),
    }
    roles = {"p": {"role": "prefill"}, "d": {"role": "decode"}, "e": {"role": "decode"}}
    async with fleet(specs=roles, **engines) as house:
        worker = house.gateway.registry.get("d")
        assert worker is not None
        worker.board.add(worker.row, 3, 40)
        everything = (await house.admin.get("/admin/signals")).json()
        narrowed = (await house.admin.get("/admin/signals?model=sim&role=decode")).json()
        worker.board.add(worker.row, -3, -40)

    pools = [(each["model"], each["role"], each["workers"], each["ready"]) for each in everything["pools"]]
    assert pools == [("other", "regular", 1, 1), ("sim", "decode", 2, 2), ("sim", "prefill", 1, 1)]
    assert (everything["totals"]["workers"], everything["totals"]["in_flight"]) == (4, 3)
    assert everything["prefill_share"] == {"sim": [pytest.approx(1 / 3), 0.0]}
    assert [each["waiting_tokens"] for each in narrowed["pools"]] == [40]
    assert narrowed["totals"]["in_flight"] == 3
    assert narrowed["totals"]["model"] == "sim"


async def test_a_worker_that_sleeps_is_not_ready() -> None:
    async with fleet(gpu=SimulatorConfig(), other=SimulatorConfig()) as house:
        registry = house.gateway.registry
        registry.sleep([each for each in registry if each.name == "other"], asleep=True)
        (pool,) = (await house.admin.get("/admin/signals")).json()["pools"]

    assert (pool["workers"], pool["ready"]) == (2, 1)


async def test_requests_count_while_they_run_and_their_ends_are_counted() -> None:
    async with fleet(gpu=SimulatorConfig()) as house:
        house.engine.inject(Fault("stall", after=1))
        request = house.http.build_request(
            "POST", "/v1/completions", json={"model": "sim", "prompt": "Hi", "stream": True}
        )
        answer = await house.http.send(request, stream=True)
        await eventually(lambda: house.engine.counters["stalled"])
        (pool,) = (await house.admin.get("/admin/signals")).json()["pools"]
        await answer.aclose()
        worker = house.gateway.registry.get("gpu")
        assert worker is not None
        await eventually(lambda: worker.ended == 1)

        assert pool["in_flight"] == 1
        assert (pool["ended_a_second"], pool["wait_s"]) == (None, 0.0)
