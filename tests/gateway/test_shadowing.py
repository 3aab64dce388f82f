"""Copies of requests for another model: measured, thrown away, and never felt by the client."""

import asyncio
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.fleet import CALM, fleet, joined
from tests.gateway.test_aliases import ASKED
from tests.gateway.test_model_choice import GENERATING, member

from smg_core import Config
from smg_core.hooks import AttemptEnded, RequestFinished, Shadowed
from smg_core.http.settings import ModelConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

STUCK: dict[str, Any] = {"fault_rates": ((Fault("stall"), 1.0),)}
"""An engine that never answers."""


def shadowing(**settings: Any) -> Config:
    return attrs.evolve(CALM, routing=RoutingConfig(retries=0, shadows=("one=two:1",), **settings))


def copies(house: House) -> list[Shadowed]:
    return house.observer.of(Shadowed)


async def ask(house: House, **fields: Any) -> Any:
    return await house.chat(model="one", **{"max_tokens": 5, **fields})


async def test_a_request_of_every_api_is_copied_and_its_answer_is_that_of_its_model() -> None:
    async with fleet(member("one"), member("two"), config=shadowing()) as house:
        for at, (path, fields) in enumerate(GENERATING):
            body = fields if "{model}" in path else {"model": "one", **fields}
            answer = await house.http.post(path.format(model="one"), json=body)
            await eventually(lambda at=at: len(copies(house)) == at + 1)
            copy, (finished, *_) = copies(house)[-1], house.observer.of(RequestFinished)[::-1]

            assert answer.status_code == 200, (path, answer.text)
            assert (copy.model, copy.shadow, copy.worker, copy.outcome) == ("one", "two", "two", "ok"), path
            assert copy.request_id == finished.request_id
            assert copy.completion_tokens > 0
            assert copy.first_seconds is not None
            assert copy.agrees is True, (path, copy, finished)
            assert (finished.worker, finished.attempts) == ("one", 1)
        await settled(house)
        assert {each.worker for each in house.observer.of(AttemptEnded)} == {"one"}
        assert len(house.engines[1].requests) == len(GENERATING)
        assert len(GENERATING) > len(ASKED) // 2


async def test_an_answer_of_another_length_does_not_agree() -> None:
    short = member("two", replies=(Reply(text="Yes."),))
    async with fleet(member("one"), short, config=shadowing()) as house:
        assert (await ask(house, max_tokens=30)).status_code == 200
        await eventually(lambda: bool(copies(house)))

        assert [(each.outcome, each.agrees) for each in copies(house)] == [("ok", False)]


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("kind", ["refuse", "cut", "error", "garbage", "silence"])
async def test_a_copy_that_fails_changes_nothing(kind: Any) -> None:
    async with fleet(member("one"), member("two", faults=(Fault(kind),)), config=shadowing()) as house:
        answer = await ask(house)
        await eventually(lambda: bool(copies(house)))

        assert answer.status_code == 200
        assert copies(house)[0].outcome not in ("ok", "dropped")
        assert [each.outcome for each in house.observer.of(RequestFinished)] == ["ok"]


async def test_a_shadow_that_no_worker_serves_changes_nothing() -> None:
    async with fleet(member("one"), config=shadowing()) as house:
        assert (await ask(house)).status_code == 200
        await eventually(lambda: bool(copies(house)))

        assert copies(house)[0].outcome in ("ModelNotFound", "NoWorker")


async def test_an_answer_does_not_wait_for_its_copy_and_copies_beyond_the_bound_are_dropped() -> None:
    async with fleet(member("one"), member("two", **STUCK), config=shadowing(shadow_at_once=2)) as house:
        for number in range(5):
            assert (await ask(house, text=str(number))).status_code == 200

        assert [each.outcome for each in copies(house)] == ["dropped"] * 3
        await eventually(lambda: len(house.engines[1].requests) == 2)
        assert house.gateway.in_flight == 0


async def test_a_copy_that_takes_too_long_is_given_up_and_its_engine_told() -> None:
    async with fleet(member("one"), member("two", **STUCK), config=shadowing(shadow_s=0.05)) as house:
        assert (await ask(house)).status_code == 200
        await eventually(lambda: bool(house.engines[1].aborted))
        await settled(house)

        assert [each.outcome for each in copies(house)] == ["DeadlineExceeded"]


async def test_a_gateway_that_shuts_down_ends_its_copies_and_begins_no_more() -> None:
    engine = SimulatedEngine(SimulatorConfig(model="two", **STUCK))
    async with engine, over_http(SimulatorConfig(model="one"), config=shadowing()) as house:
        spec = WorkerSpec(engine.target, name="two", model="two")
        await joined(house.gateway, house.gateway.add_worker(spec).name)
        stream = asyncio.ensure_future(ask(house))
        assert (await stream).status_code == 200
        await eventually(lambda: bool(engine.requests))
        house.gateway.drain()
        await eventually(lambda: bool(engine.aborted))

        assert [each.outcome for each in copies(house)] == ["abandoned"]


async def test_a_process_that_is_being_replaced_begins_no_copy() -> None:
    async with fleet(member("one"), member("two"), config=shadowing()) as house:
        house.gateway.retire()
        assert (await ask(house)).status_code == 200

        assert not house.engines[1].requests
        assert copies(house) == []


async def test_only_the_share_is_copied_and_a_conversation_has_all_or_none() -> None:
    config = attrs.evolve(CALM, routing=RoutingConfig(shadows=("one=two:0.5",)))
    async with fleet(member("one"), member("two"), config=config) as house:
        for number in range(20):
            for _ in range(2):
                answer = await ask(house, prompt_cache_key=f"c{number}", max_tokens=1)
                assert answer.status_code == 200
        await settled(house)
        copied = len(house.engines[1].requests)

        assert copied % 2 == 0
        assert 0 < copied < 40


@pytest.mark.full
async def test_the_name_that_stands_for_a_model_may_have_the_shadow() -> None:
    routing = RoutingConfig(splits=("house=one:1",), shadows=("house=spare:1",))
    config = attrs.evolve(CALM, routing=routing, model=ModelConfig(aliases=("spare=two",)))
    async with fleet(member("one"), member("two"), config=config) as house:
        assert (await house.chat(model="house", max_tokens=2)).status_code == 200
        await eventually(lambda: bool(copies(house)))

        assert [(each.model, each.shadow) for each in copies(house)] == [("one", "two")]


async def test_a_copy_is_kept_nowhere() -> None:
    async with fleet(member("one"), member("two"), config=shadowing()) as house:
        answer = await house.http.post("/v1/responses", json={"model": "one", "input": "Hi", "store": True})
        await eventually(lambda: bool(copies(house)))
        copied = house.engines[1].requests[0].id

        assert (await house.http.get(f"/v1/responses/{answer.json()['id']}")).status_code == 200
        assert (await house.http.get(f"/v1/responses/{copied}")).status_code == 404
