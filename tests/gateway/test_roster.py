"""The roster of workers changes while requests run: workers come, change, drain and go, by their source."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.gateway.fleet import ALERT

from smg_core import Config, Gateway
from smg_core.channel.local import LocalChannel
from smg_core.errors import Overloaded
from smg_core.workers.roster_entry import RosterEntry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerSpec
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

SLOW = SimulatorConfig(timing=Timing(decode_rate=50))


@asynccontextmanager
async def fleet(
    *engines: SimulatorConfig, config: Config = ALERT
) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient, list[SimulatedEngine]]]:
    """A gateway without workers beside these engines, which it could have."""
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(SimulatedEngine(each)) for each in engines]
        gateway = Gateway(config=config)
        await gateway.start()
        stack.push_async_callback(gateway.stop)
        http = await stack.enter_async_context(gateway.http_client(httpx, base_url="http://gateway"))
        yield gateway, http, running


def spec(engine: SimulatedEngine, name: str, **more: Any) -> WorkerSpec:
    return WorkerSpec(engine.target, name, dialect="vllm", **more)


def is_ready(gateway: Gateway, *names: str) -> Callable[[], bool]:
    return lambda: {each.name for each in gateway.registry if each.state == "ready"} >= {*names}


def served_by(engines: list[SimulatedEngine]) -> list[int]:
    return [engine.counters["finished"] for engine in engines]


async def test_the_workers_of_one_source_become_what_it_wants_and_those_of_others_stay() -> None:
    async with fleet(*[SimulatorConfig()] * 3) as (gateway, _, engines):
        a, b, c = (spec(engine, name) for engine, name in zip(engines, "abc", strict=True))
        first = await gateway.services.running.roster.reconcile("file", [a, b])
        other = await gateway.services.running.roster.reconcile("dns", [c])
        await eventually(is_ready(gateway, "a", "b", "c"))
        heavier = spec(engines[1], "b", weight=3, labels=(("zone", "east"),))
        second = await gateway.services.running.roster.reconcile("file", [heavier])
        same = await gateway.services.running.roster.reconcile("file", [heavier])
        await eventually(lambda: gateway.registry.get("a") is None)
        left = {each.name: (each.source, each.weight, each.state) for each in gateway.registry}

    assert (first.added, other.added) == (("a", "b"), ("c",))
    assert (second.added, second.changed, second.retired) == ((), ("b",), ("a",))
    assert (same.added, same.changed, same.retired) == ((), (), ())
    assert left == {"b": ("file", 3, "ready"), "c": ("dns", 1.0, "ready")}


async def test_one_invalid_worker_changes_nothing() -> None:
    async with fleet(SimulatorConfig()) as (gateway, _, engines):
        with pytest.raises(ValueError, match="ftp"):
            await gateway.services.running.roster.reconcile("file", [spec(engines[0], "a"), WorkerSpec("ftp://b", "b")])
        found = list(gateway.registry)

    assert found == []


@pytest.mark.full
async def test_a_worker_that_comes_back_while_it_leaves_is_kept() -> None:
    async with fleet(SLOW) as (gateway, http, engines):
        wanted = [spec(engines[0], "a")]
        await gateway.services.running.roster.reconcile("file", wanted)
        await eventually(is_ready(gateway, "a"))
        answer = asyncio.create_task(http.post(CHAT, json=body(max_tokens=30)))
        await eventually(lambda: engines[0].active)
        await gateway.services.running.roster.reconcile("file", [])
        worker = gateway.registry.get("a")
        assert worker is not None
        leaving = worker.state
        await gateway.services.running.roster.reconcile("file", wanted)
        await eventually(is_ready(gateway, "a"))
        done = await answer
        again = await http.post(CHAT, json=body(max_tokens=1))

    assert leaving == "draining"
    assert (done.status_code, again.status_code) == (200, 200)


@pytest.mark.full
async def test_a_worker_that_retires_finishes_its_requests_and_is_gone_then() -> None:
    async with fleet(SLOW) as (gateway, http, engines):
        worker = await gateway.services.running.roster.add(spec(engines[0], "a"), "admin")
        await eventually(is_ready(gateway, "a"))
        answer = asyncio.create_task(http.post(CHAT, json=body(max_tokens=20)))
        await eventually(lambda: engines[0].active)
        await gateway.services.running.roster.retire("a", 60)
        during = worker.state, worker.in_flight
        done = await answer
        await eventually(lambda: gateway.registry.get("a") is None)

    assert during == ("draining", 1)
    assert done.json()["usage"]["completion_tokens"] == 20


@pytest.mark.full
async def test_a_drain_that_is_waited_for_says_how_many_requests_are_left() -> None:
    async with fleet(SLOW) as (gateway, http, engines):
        await gateway.services.running.roster.add(spec(engines[0], "a"), "admin")
        await eventually(is_ready(gateway, "a"))
        answers = [asyncio.create_task(http.post(CHAT, json=body(max_tokens=20))) for _ in range(3)]
        await eventually(lambda: engines[0].active == 3)
        worker = await gateway.services.running.roster.drain("a")
        at_once = await gateway.services.running.roster.drained(worker, 0)
        refused = await http.post(CHAT, json=body())
        await asyncio.gather(*answers)
        in_the_end = await gateway.services.running.roster.drained(worker, 60)

    assert (at_once, in_the_end) == (3, 0)
    assert refused.status_code == 503


@pytest.mark.full
async def test_a_worker_moves_to_another_engine_while_its_stream_is_finished_by_the_first() -> None:
    async with fleet(SLOW, SimulatorConfig()) as (gateway, http, engines):
        worker = await gateway.services.running.roster.add(spec(engines[0], "a"), "admin")
        await eventually(is_ready(gateway, "a"))
        answer = asyncio.create_task(http.post(CHAT, json=body(max_tokens=30)))
        await eventually(lambda: engines[0].active)
        client = worker.reached
        await gateway.services.running.roster.change("a", spec(engines[1], "a"))
        await eventually(lambda: worker.reached is not client)
        later = await http.post(CHAT, json=body(max_tokens=1))
        done = await answer

    assert (done.status_code, later.status_code) == (200, 200)
    assert done.json()["usage"]["completion_tokens"] == 30
    assert served_by(engines) == [1, 1]


async def test_a_worker_can_be_given_neither_another_name_nor_one_that_is_taken() -> None:
    async with fleet(SimulatorConfig()) as (gateway, _, engines):
        await gateway.services.running.roster.add(spec(engines[0], "a"), "admin")
        with pytest.raises(ValueError, match="another"):
            await gateway.services.running.roster.change("a", spec(engines[0], "b"))
        with pytest.raises(ValueError, match="already"):
            await gateway.services.running.roster.add(spec(engines[0], "a"), "admin")
        with pytest.raises(LookupError):
            await gateway.services.running.roster.drain("nobody")


FULL: dict[str, tuple[str, dict[str, Any], int]] = {
    "chat": (CHAT, body(), 503),
    "completions": ("/v1/completions", {"model": "sim", "prompt": "Hello"}, 503),
    "responses": ("/v1/responses", {"model": "sim", "input": "Hello"}, 503),
    "messages": (
        "/v1/messages",
        {"model": "sim", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]},
        529,
    ),
    "gemini": ("/v1beta/models/sim:generateContent", {"contents": [{"parts": [{"text": "Hello"}]}]}, 503),
}


async def test_where_every_worker_is_full_each_api_refuses_in_its_own_words_and_says_when_to_come_again() -> None:
    config = Config(workers=WorkersConfig(most_in_flight=1, health_interval_s=0.1))
    async with fleet(SLOW, SLOW, config=config) as (gateway, http, engines):
        workers: list[Worker] = []
        for engine, name in zip(engines, "ab", strict=True):
            workers.append(await gateway.services.running.roster.add(spec(engine, name), "admin"))
        await eventually(is_ready(gateway, "a", "b"))
        answers = [asyncio.create_task(http.post(CHAT, json=body(max_tokens=200))) for _ in workers]
        await eventually(lambda: all(worker.in_flight == 1 for worker in workers))
        refused = {api: await http.post(path, json=asked) for api, (path, asked, _) in FULL.items()}
        for each in answers:
            each.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
        await eventually(lambda: not any(worker.in_flight for worker in workers))
        taken = await http.post(CHAT, json=body(max_tokens=1))

    assert {api: answer.status_code for api, answer in refused.items()} == {api: row[2] for api, row in FULL.items()}
    assert all(answer.headers["retry-after"] == "1" for answer in refused.values())
    assert all("error" in answer.json() for answer in refused.values())
    assert taken.status_code == 200


class Late(LocalChannel):
    """A channel whose messages arrive a few turns of the event loop after they were sent, as those between processes do."""

    async def publish(self, kind: str, body: bytes, *, key: str = "") -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        return await super().publish(kind, body, key=key)


async def test_changes_that_are_asked_for_at_once_are_all_made() -> None:
    async with fleet(SimulatorConfig()) as (gateway, _, engines):
        gateway.services.running.roster.channel = channel = Late(gateway.config.channel)
        channel.subscribe("workers", gateway.services.running.roster._receive)
        added = await asyncio.gather(
            gateway.services.running.roster.add(spec(engines[0], "a"), "admin"),
            gateway.services.running.roster.add(spec(engines[0], "a", weight=9), "admin"),
            return_exceptions=True,
        )
        await asyncio.gather(
            gateway.services.running.roster.edit("a", lambda it: attrs.evolve(it, weight=2.0)),
            gateway.services.running.roster.drain("a"),
            gateway.services.running.roster.edit("a", lambda it: attrs.evolve(it, labels=(("zone", "b"),))),
        )
        worker = gateway.services.running.roster.worker("a")
        changed = worker.weight, worker.spec.labels, worker.state
        await asyncio.gather(
            gateway.services.running.roster.undrain("a"), gateway.services.running.roster.retire("a", 60)
        )
        await asyncio.gather(
            gateway.services.running.roster.remove("a"),
            gateway.services.running.roster.remove("a"),
            return_exceptions=True,
        )
        left = gateway.registry.get("a")

    assert [isinstance(each, ValueError) for each in added] == [False, True]
    assert changed == (2.0, (("zone", "b"),), "draining")
    assert left is None


@pytest.mark.full
async def test_a_drain_of_an_operator_stays_when_the_source_takes_its_worker_back() -> None:
    async with fleet(SLOW) as (gateway, http, engines):
        wanted = [spec(engines[0], "a")]
        await gateway.services.running.roster.reconcile("file", wanted)
        await eventually(is_ready(gateway, "a"))
        answer = asyncio.create_task(http.post(CHAT, json=body(max_tokens=30)))
        await eventually(lambda: engines[0].active)
        await gateway.services.running.roster.drain("a")
        await gateway.services.running.roster.reconcile("file", [])
        leaves = gateway.services.running.roster.retires("a")
        await gateway.services.running.roster.reconcile("file", wanted)
        stays = not gateway.services.running.roster.retires("a")
        state = gateway.services.running.roster.worker("a").state
        done = await answer

    assert (leaves, stays, state, done.status_code) == (True, True, "draining", 200)


async def test_whoever_takes_the_lead_sees_off_the_workers_that_retire() -> None:
    async with fleet(SLOW) as (gateway, http, engines):
        gateway.services.leading.become(False)
        await gateway.services.running.roster.add(spec(engines[0], "a"), "admin")
        await eventually(is_ready(gateway, "a"))
        answer = asyncio.create_task(http.post(CHAT, json=body(max_tokens=5)))
        await eventually(lambda: engines[0].active)
        await gateway.services.running.roster.retire("a", 60)
        await answer
        still = gateway.registry.get("a") is not None
        gateway.services.leading.become(True)
        await eventually(lambda: gateway.registry.get("a") is None)

    assert still


async def test_a_worker_that_is_taken_back_while_its_removal_waits_for_another_change_stays() -> None:
    async with fleet(SLOW) as (gateway, http, engines):
        roster = gateway.services.running.roster
        worker = await roster.add(spec(engines[0], "a"), "admin")
        await eventually(is_ready(gateway, "a"))
        answer = asyncio.create_task(http.post(CHAT, json=body(max_tokens=5)))
        await eventually(lambda: engines[0].active)
        await roster.retire("a", 60)
        async with roster._altering:
            done = await answer
            await eventually(lambda: roster._altering._waiters)
            roster._apply(RosterEntry("a", worker.spec, "admin"))
        await roster.edit("a", lambda it: attrs.evolve(it, weight=2.0))  # whoever waited before has had its turn
        await eventually(is_ready(gateway, "a"))
        stays = roster.worker("a") is worker

    assert (done.status_code, stays, worker.weight) == (200, True, 2.0)


class Full(LocalChannel):
    """A channel that takes no change twice."""

    refused = 0

    async def publish(self, kind: str, body: bytes, *, key: str = "") -> int:
        if self.refused < 2:
            self.refused += 1
            raise Overloaded("The gateway does not take changes now.")
        return await super().publish(kind, body, key=key)


async def test_a_worker_whose_removal_cannot_be_told_is_removed_when_it_can(caplog: pytest.LogCaptureFixture) -> None:
    async with fleet(SimulatorConfig()) as (gateway, _, engines):
        await gateway.services.running.roster.add(spec(engines[0], "a"), "admin")
        await gateway.services.running.roster.retire("a", 60)
        gateway.services.running.roster.channel = channel = Full(gateway.config.channel)
        channel.subscribe("workers", gateway.services.running.roster._receive)
        gateway.services.running.roster.settle_s = 0.01
        await eventually(lambda: gateway.registry.get("a") is None)

    assert channel.refused == 2
    assert "worker a is to leave, and stays for now" in caplog.text
