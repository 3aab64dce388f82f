"""LoRA adapters that are loaded when a request asks for them: where, how often, what is let go, and what fails."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually
from tests.gateway.fleet import CALM, Member, fleet
from tests.gateway.test_adapters import ASKED

from smg_core import Config
from smg_core.config.config import Config as Settings
from smg_core.engines.upkeep import EngineReply
from smg_core.pipeline.settings import DisaggregationConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.settings import ConfigError
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

NAMED = ("poet=sim:/adapters/poet", "clerk=sim:/adapters/clerk", "judge=sim:/adapters/judge")


def house(
    *names: str, workers: dict[str, Any] | None = None, more: dict[str, Any] | None = None, **sections: Any
) -> Any:
    """A gateway before engines of SGLang of these names, which would load the adapters of `NAMED`."""
    settings = attrs.evolve(CALM.workers, adapters=NAMED, **(workers or {}))
    config = attrs.evolve(CALM, workers=settings, **sections)
    return fleet(*(Member(name, "sglang", SimulatorConfig(), more or {}) for name in names), config=config)


async def ask(house: House, model: str, **fields: Any) -> httpx.Response:
    return await house.http.post(CHAT, json=body(model=model, max_tokens=2, **fields))


def loaded(house: House) -> list[list[str]]:
    """The adapters that each engine holds, by name."""
    return [sorted(each.name for each in engine.engine.adapters) for engine in house.own]


@attrs.define
class Slow:
    """The loads of an engine: each waits until it is let go on, or fails as `refuses` says."""

    engine: Any
    begun: list[str] = attrs.field(factory=list)
    go_on: asyncio.Event = attrs.field(factory=asyncio.Event)
    refuses: str = ""


def slowed(house: House, name: str) -> Slow:
    """Have the gateway's calls that load adapters on a worker wait."""
    worker = house.gateway.registry.get(name)
    assert worker is not None
    slow = Slow(worker.reached)
    asked: Callable[[Any], Any] = worker.reached.upkeep  # type: ignore[union-attr]

    async def upkeep(task: Any) -> Any:
        if type(task).__name__ == "LoadAdapter":
            slow.begun.append(task.name)
            await slow.go_on.wait()
            if slow.refuses:
                task = attrs.evolve(task, path="")
        return await asked(task)

    worker.reached.upkeep = upkeep  # type: ignore[union-attr,method-assign]
    return slow


async def test_an_adapter_that_nobody_holds_is_a_model_and_is_loaded_for_the_first_request_of_each_api() -> None:
    async with house("a", "b") as here:
        listed = [each["id"] for each in (await here.http.get("/v1/models")).json()["data"]]
        assert loaded(here) == [[], []]
        for path, fields in ASKED:
            given = fields if "{model}" in path else {"model": "poet", **fields}
            answer = await here.http.post(path.format(model="poet"), json=given)
            assert answer.status_code == 200, answer.text
        first, *later = here.observer.moments, loaded(here)
        longer = await ask(here, "sim:clerk")

        assert first
        assert listed == ["clerk", "judge", "poet", "sim"]
        assert sorted(later[0]) == [[], ["poet"]]
        assert longer.status_code == 200
        assert sorted(name for held in loaded(here) for name in held) == ["clerk", "poet"]


async def test_the_decision_tells_of_a_cold_load_and_of_none_later() -> None:
    async with house("a") as here:
        ids = [(await ask(here, "poet")).json()["id"] for _ in range(2)]
        placed = [here.gateway.decisions.of(each)[0].placed for each in ids]

        assert placed[0].startswith("the adapter poet was loaded on a, which took ")
        assert placed[1] == ""


async def test_two_requests_for_one_cold_adapter_are_one_load_and_one_that_leaves_ends_none() -> None:
    async with house("a") as here:
        slow = slowed(here, "a")
        first, second = (asyncio.ensure_future(ask(here, "poet")) for _ in range(2))
        await eventually(lambda: slow.begun)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        slow.go_on.set()
        answer = await second

        assert answer.status_code == 200
        assert slow.begun == ["poet"]
        assert loaded(here) == [["poet"]]


async def test_an_engine_that_refuses_is_left_alone_and_another_one_asked() -> None:
    async with house("a", "b") as here:
        slows = [slowed(here, name) for name in "ab"]
        for each in slows:
            each.go_on.set()
        slows[0].refuses = slows[1].refuses = "yes"
        failed = await ask(here, "poet")
        again = await ask(here, "poet")

        assert [failed.status_code, again.status_code] == [500, 503]
        assert "could not load the adapter" in failed.json()["error"]["message"]
        assert "could load the adapter 'poet'" in again.json()["error"]["message"]
        assert [each.begun for each in slows] == [["poet"], ["poet"]]
        slows[1].refuses = ""
        loading: Any = here.gateway.services.running.performers.selecting.adapters
        loading._failed.clear()
        assert (await ask(here, "poet")).status_code == 200
        assert loaded(here) == [[], ["poet"]]


async def test_a_request_waits_only_so_long_for_a_load_which_goes_on() -> None:
    async with house("a", workers={"adapter_load_s": 0.05}) as here:
        slow = slowed(here, "a")
        late = await ask(here, "poet")
        slow.go_on.set()
        await eventually(lambda: loaded(here) == [["poet"]])
        worker = here.gateway.registry.get("a")
        await eventually(lambda: worker.adapters)

        assert late.status_code == 503
        assert "still being loaded" in late.json()["error"]["message"]
        assert (await ask(here, "poet")).status_code == 200


async def test_the_one_that_was_asked_for_the_longest_ago_makes_room() -> None:
    async with house("a", workers={"loaded_adapters": 2}) as here:
        for name in ("poet", "clerk", "poet", "judge", "poet"):
            assert (await ask(here, name)).status_code == 200
        listed = [each["id"] for each in (await here.http.get("/v1/models")).json()["data"]]

        assert loaded(here) == [["judge", "poet"]]
        assert listed == ["clerk", "judge", "poet", "sim"]


@pytest.mark.parametrize("most", [1, 2])
async def test_what_was_loaded_a_moment_ago_is_not_let_go_before_those_that_wait_for_it_have_asked(most: int) -> None:
    async with house("a", workers={"loaded_adapters": most}) as here:
        assert most == 1 or (await ask(here, "poet")).status_code == 200
        slow = slowed(here, "a")
        asked = [asyncio.ensure_future(ask(here, name)) for name in ("clerk", "judge")]
        await eventually(lambda: slow.begun)
        slow.go_on.set()
        answers = await asyncio.gather(*asked)

        assert [answer.status_code for answer in answers] == [200, 200]
        assert loaded(here) == [["clerk", "judge"][-most:]]


async def test_an_engine_wakes_for_an_adapter_that_nobody_holds_and_loads_it() -> None:
    async with house("a") as here:
        registry = here.gateway.registry
        worker: Any = registry.get("a")
        asked = worker.reached.upkeep

        async def upkeep(task: Any) -> Any:
            return EngineReply(True) if type(task).__name__ == "WakeUp" else await asked(task)

        worker.reached.upkeep = upkeep
        registry.sleep([worker], asleep=True)
        answer = await ask(here, "poet")
        (decision,) = here.gateway.decisions.of(answer.json()["id"])

        assert answer.status_code == 200, answer.text
        assert decision.placed.startswith("a was woken; the adapter poet was loaded on a")


async def test_a_holder_with_many_requests_gets_help_and_nobody_waits_for_that() -> None:
    async with house("a", "b") as here:
        await ask(here, "poet")
        at = loaded(here).index(["poet"])
        holder = here.gateway.registry.get("ab"[at])
        assert holder is not None
        holder.board.add(holder.row, 20)
        assert (await ask(here, "poet")).status_code == 200
        await eventually(lambda: loaded(here) == [["poet"], ["poet"]])
        holder.board.add(holder.row, -20)


async def test_only_workers_where_a_request_may_be_placed_load_for_it() -> None:
    routing = RoutingConfig(placement=("require zone=eu",))
    labelled = Member("b", "sglang", SimulatorConfig(), {"labels": (("zone", "eu"),)})
    config = attrs.evolve(CALM, workers=attrs.evolve(CALM.workers, adapters=NAMED), routing=routing)
    async with fleet(Member("a", "sglang"), labelled, config=config) as here:
        assert (await ask(here, "poet")).status_code == 200
        assert loaded(here) == [[], ["poet"]]


async def test_both_engines_of_a_pair_load_it() -> None:
    parts = [
        Member(name, "sglang", SimulatorConfig(kv_connector="MooncakeConnector", kv_role=kind), {"role": role})
        for name, kind, role in (("p", "kv_producer", "prefill"), ("d", "kv_consumer", "decode"))
    ]
    config = attrs.evolve(
        CALM, workers=attrs.evolve(CALM.workers, adapters=NAMED), disaggregation=DisaggregationConfig()
    )
    async with fleet(*parts, config=config) as here:
        await ask(here, "poet")
        assert loaded(here) == [["poet"], ["poet"]]


@pytest.mark.parametrize("dialect", ["vllm", "trtllm"])
async def test_engines_that_cannot_load_are_named(dialect: str) -> None:
    config = attrs.evolve(CALM, workers=attrs.evolve(CALM.workers, adapters=("poet=house:/adapters/poet",)))
    named = Member("a", dialect, SimulatorConfig(), {"model": "house"})
    async with fleet(named, config=config) as here:
        answer = await ask(here, "poet")

        assert answer.status_code == 501
        assert dialect in answer.json()["error"]["message"]


async def test_adapters_go_with_their_model_and_come_back_with_it() -> None:
    async with house("a") as here:
        assert (await ask(here, "poet")).status_code == 200
        spec = here.gateway.registry.get("a").spec
        await here.gateway.remove_worker("a")
        assert (await ask(here, "poet")).status_code == 503
        assert (await here.http.get("/v1/models")).json()["data"] == []
        here.gateway.add_worker(spec)
        await eventually(lambda: here.gateway.registry.ready_count("sim", "regular"))
        assert (await ask(here, "clerk")).status_code == 200


@pytest.mark.parametrize("row", ["poet", "poet=sim", "poet=:/a", "=sim:/a", "sim=sim:/a", "poet=sim:"])
def test_a_row_that_names_no_adapter_is_refused(row: str) -> None:
    with pytest.raises(ConfigError, match=r"workers\.adapters: "):
        Settings(workers=WorkersConfig(adapters=(row,))).workers.of_adapters()
    assert Config().workers.of_adapters() == {}
