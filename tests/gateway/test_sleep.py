"""Engines that sleep get no requests, and one wakes when a request needs it."""

import asyncio
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_engine_upkeep import Fleet, http_fleet, statuses
from tests.shared import PATIENCE

from smg_core.channel.local import LocalChannel
from smg_core.engines.upkeep import EngineReply, FallAsleep
from smg_core.errors import NoWorker
from smg_core.fleet.sleeping import Sleeping
from smg_core.workers.registry import Registry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerRole, WorkerSpec
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ABLE = ("vllm-http", "vllm-tokens-http", "sglang-http")


async def ask(ops: Fleet) -> httpx.Response:
    async with ops.gateway.http_client(httpx, base_url="http://gateway") as http:
        return await http.post(CHAT, json=body(max_tokens=2))


def asleep(ops: Fleet) -> set[str]:
    return {name for name, engine in ops.engines.items() if engine.clockwork.pausing.asleep}


def marked(ops: Fleet) -> set[str]:
    return {worker.name for worker in ops.gateway.registry if worker.asleep}


async def only(ops: Fleet, *names: str) -> None:
    """Let the workers of other names be gone."""
    for worker in [each.name for each in ops.gateway.registry]:
        if worker not in names:
            await ops.gateway.remove_worker(worker)


def slowed(ops: Fleet, name: str) -> tuple[list[str], asyncio.Event]:
    """Have the calls that wake an engine wait, and count them."""
    engine: Any = next(worker.reached for worker in ops.gateway.registry if worker.name == name)
    begun, go_on, asked = list[str](), asyncio.Event(), engine.upkeep

    async def upkeep(task: Any) -> Any:
        if type(task).__name__ == "WakeUp":
            begun.append(name)
            await go_on.wait()
        return await asked(task)

    engine.upkeep = upkeep
    return begun, go_on


@pytest.mark.full
async def test_engines_sleep_and_wake_as_they_can_and_the_others_are_named_and_go_on() -> None:
    async with http_fleet() as ops:
        told = await ops.post("sleep")
        sleeping = asleep(ops), marked(ops)
        answers = [await ask(ops) for _ in range(6)]
        woken = await ops.post("wake_up")

        assert statuses(told) == statuses(woken) == {name: 200 if name in ABLE else 501 for name in ops.engines}
        assert sleeping == (set(ABLE), set(ABLE))
        assert {answer.status_code for answer in answers} == {200}
        assert asleep(ops) == marked(ops) == set()


@pytest.mark.full
@pytest.mark.parametrize("name", ABLE)
async def test_a_request_wakes_the_only_engine_once_and_those_that_come_meanwhile_wait_too(name: str) -> None:
    async with http_fleet() as ops:
        await only(ops, name)
        await ops.post("sleep")
        begun, go_on = slowed(ops, name)
        leaves, stays = (asyncio.ensure_future(ask(ops)) for _ in range(2))
        await eventually(lambda: begun)
        leaves.cancel()
        await asyncio.gather(leaves, return_exceptions=True)
        go_on.set()
        answer = await stays
        decision = ops.gateway.decisions.of(answer.json()["id"])[0]

        assert answer.status_code == 200
        assert begun == [name]
        assert decision.placed == f"{name} was woken"
        assert asleep(ops) == marked(ops) == set()


@pytest.mark.full
async def test_an_engine_that_never_wakes_is_waited_for_only_so_long() -> None:
    async with http_fleet() as ops:
        await only(ops, ABLE[0])
        await ops.post("sleep")
        sleeping = ops.gateway.services.running.sleeping
        sleeping.settings = attrs.evolve(sleeping.settings, wake_s=0.05)
        _, go_on = slowed(ops, ABLE[0])
        late = await ask(ops)
        assert late.status_code == 503
        assert "still being woken" in late.json()["error"]["message"]
        go_on.set()
        await eventually(lambda: not marked(ops))
        assert (await ask(ops)).status_code == 200


async def test_an_engine_that_refuses_to_wake_is_an_error_and_the_next_request_tries_again() -> None:
    async with http_fleet() as ops:
        await only(ops, ABLE[0])
        await ops.post("sleep")
        engine: Any = next(iter(ops.gateway.registry)).reached
        asked = engine.upkeep

        async def refuses(task: Any) -> Any:
            return None

        engine.upkeep = refuses
        failed = await ask(ops)
        engine.upkeep = asked
        again = await ask(ops)

        assert (failed.status_code, again.status_code) == (500, 200)
        assert "does not wake" in failed.json()["error"]["message"]


@pytest.mark.full
async def test_a_gateway_whose_engines_all_sleep_is_ready_to_wake_them() -> None:
    async with http_fleet() as ops:
        await only(ops, *ABLE)
        await ops.post("sleep")

        assert ops.gateway.registry.any_ready
        assert (await ask(ops)).status_code == 200
        assert len(marked(ops)) == 2


async def test_an_engine_with_requests_sleeps_not_and_goes_on() -> None:
    async with http_fleet() as ops:
        ops.engines[ABLE[0]]._runs["x"] = None  # type: ignore[assignment]  # a request under way
        told = await ops.post("sleep", workers=[ABLE[0]])
        del ops.engines[ABLE[0]]._runs["x"]

        assert told[ABLE[0]]["status"] != 200
        assert marked(ops) == set()


async def test_vectors_wake_an_engine_too() -> None:
    vectors = SimulatorConfig(generation_model=False, embedding_size=4)
    async with fleet(Member("a", engine=vectors)) as house:
        registry, sleeping = house.gateway.registry, house.gateway.services.running.sleeping
        registry.sleep([*registry], asleep=True)
        worker: Any = registry.get("a")
        worker.reached.upkeep = Doing(EngineReply(True)).upkeep
        answer = await house.http.post("/v1/embeddings", json={"model": "sim", "input": "Hello"})

        assert sleeping is not None
        assert answer.status_code == 200, answer.text
        assert not worker.asleep


def sleeping_of(*workers: tuple[str, WorkerRole, bool]) -> tuple[Sleeping, dict[str, Worker]]:
    """Workers of one model by name, role, and whether they sleep."""
    registry = Registry()
    for name, role, asleep in workers:
        worker = registry.add(WorkerSpec(f"http://{name}", name=name, role=role))
        registry.serve(worker, ("m",))
        registry.signal(worker, "joined")
        registry.sleep([worker], asleep=asleep)
        worker.reached = Doing(EngineReply(True))  # type: ignore[assignment]  # all that is needed of an engine
    found = Sleeping(WorkersConfig(wake_s=PATIENCE), registry, LocalChannel(), _nothing, PATIENCE)
    return found, {each.name: each for each in registry}


def all_fit(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
    return workers


@pytest.mark.parametrize(
    ("workers", "woken"),
    [
        ((("a", "regular", False), ("b", "regular", True)), ""),
        ((("a", "regular", False), ("p", "prefill", True), ("d", "decode", True)), ""),
        ((("a", "regular", True), ("p", "prefill", False), ("d", "decode", False)), ""),
        ((("a", "regular", True), ("p", "prefill", True), ("d", "decode", False)), "p was woken"),
        ((("a", "regular", True), ("p", "prefill", True), ("d", "decode", True)), "a was woken"),
        ((("p", "prefill", True), ("d", "decode", True)), "p was woken; d was woken"),
        ((("d", "decode", True),), "d was woken"),
        ((("p", "prefill", True), ("a", "regular", True)), "a was woken"),
        ((), ""),
    ],
)
async def test_no_more_are_woken_than_the_answer_takes(
    workers: tuple[tuple[str, WorkerRole, bool], ...], woken: str
) -> None:
    sleeping, _ = sleeping_of(*workers)

    assert await sleeping.awake_for("m", frozenset(), all_fit) == woken
    assert await sleeping.awake_for("m", frozenset(), all_fit) == ""


async def test_where_an_engine_does_not_wake_the_next_one_is_woken_and_it_is_asked_last_from_then_on() -> None:
    sleeping, workers = sleeping_of(("a", "regular", True), ("b", "regular", True), ("c", "regular", True))
    workers["a"].reached = Doing(EngineReply(False, "no memory"))  # type: ignore[assignment]  # as above
    first = await sleeping.awake_for("m", frozenset(), all_fit)
    sleeping.registry.sleep([workers["b"]], asleep=True)
    workers["a"].reached = Doing(EngineReply(True))  # type: ignore[assignment]  # as above
    second = await sleeping.awake_for("m", frozenset(), all_fit)

    assert (first, second) == ("b was woken", "b was woken")


async def test_an_engine_whose_waking_never_ends_keeps_no_later_request_from_another_one() -> None:
    sleeping, workers = sleeping_of(("a", "regular", True), ("b", "regular", True))
    workers["a"].reached = Never()  # type: ignore[assignment]  # as above
    patient, sleeping.settings = sleeping.settings, WorkersConfig(wake_s=0.05)
    with pytest.raises(NoWorker, match="still being woken"):
        await sleeping.awake_for("m", frozenset(), all_fit)
    sleeping.settings = patient
    later = await sleeping.awake_for("m", frozenset(), all_fit)

    assert later == "b was woken"
    await sleeping.close()


async def test_every_process_knows_who_sleeps() -> None:
    channel = LocalChannel()
    registries = [Registry(), Registry()]
    processes = []
    for registry in registries:
        worker = registry.add(WorkerSpec("http://gpu", name="gpu"))
        registry.serve(worker, ("m",))
        registry.signal(worker, "joined")
        processes.append(Sleeping(WorkersConfig(), registry, channel, _nothing, PATIENCE))
        processes[-1].listen()
    first = next(iter(registries[0]))
    done = Doing(EngineReply(True))
    told = await processes[0].put_to_sleep(first, done, FallAsleep())  # type: ignore[arg-type]  # all that it needs of one
    asleep_now = [registry.ready_of("m", "regular") for registry in registries]
    await processes[1].woken(next(iter(registries[1])), done)  # type: ignore[arg-type]

    assert told == EngineReply(True)
    assert asleep_now == [(), ()]
    assert [len(registry.ready_of("m", "regular")) for registry in registries] == [1, 1]
    for each in processes:
        await each.close()


async def _nothing(worker: Worker) -> None:
    """No cache is forgotten."""


@attrs.define
class Doing:
    """An engine that does what it is asked."""

    reply: EngineReply

    async def upkeep(self, asked: object) -> EngineReply:
        return self.reply


class Never:
    """An engine that never answers."""

    async def upkeep(self, asked: object) -> EngineReply:
        await asyncio.Event().wait()
        raise AssertionError(asked)
