"""Starting, stopping, and what a policy may be given as."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.fleet import Prefer

from smg_core import Config, Gateway
from smg_core.errors import EngineFailed
from smg_core.routing import Pick
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.workers.breaker_table import BreakerTable
from smg_core.workers.worker import LocalBoard, WorkerSpec
from smg_simulator.engine.model_folder import MODEL_FOLDER
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio


async def test_requests_that_come_while_a_mounted_gateway_starts_wait_for_that() -> None:
    async with SimulatedEngine() as engine:
        gateway = Gateway([engine.target], tokenizer=MODEL_FOLDER)
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            answers = await asyncio.gather(*(http.post(CHAT, json=body()) for _ in range(4)))
        await gateway.stop()

    assert {answer.status_code for answer in answers} <= {200, 503}
    assert all(answer.headers.get("retry-after") for answer in answers if answer.status_code == 503)


async def test_a_mounted_gateway_that_cannot_start_says_so_every_time_and_starts_once_it_can(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    async with SimulatedEngine() as engine:
        gateway = Gateway([engine.target], config=Config(tokenizer=TokenizerConfig(path=str(folder))))
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            refused = [await http.post(CHAT, json=body()) for _ in range(2)]
            started = gateway.started
            folder.symlink_to(MODEL_FOLDER)
            await http.get("/health")
            await gateway.ready()
            answer = await http.post(CHAT, json=body())
        await gateway.stop()

    assert [each.status_code for each in refused] == [500, 500]
    assert all(set(each.json()) == {"error"} for each in refused)
    assert not started
    assert answer.status_code == 200


class Called(Prefer):
    """A policy that can be called too."""

    def __call__(self) -> Any:
        raise AssertionError("it is no factory")


@pytest.mark.full
@pytest.mark.parametrize("given", [Prefer, Prefer(), lambda: Prefer(), Called(), "round_robin"])
async def test_a_policy_is_a_name_a_class_a_factory_or_an_object(given: Any) -> None:
    async with (
        Gateway.simulated(policy=given) as gateway,
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        answer = await http.post(CHAT, json=body())

    assert answer.status_code == 200


class Wrong(Prefer):
    """A policy that answers what is none of the candidates."""

    def pick(self, candidates: Any, context: Any) -> Any:
        return [Pick(object()), candidates[0], None][self.turn]  # type: ignore[arg-type]

    def __init__(self, turn: int) -> None:
        super().__init__()
        self.turn = turn


@pytest.mark.parametrize("turn", range(3))
async def test_a_policy_that_answers_no_pick_of_a_candidate_has_failed_and_the_request_is_answered(turn: int) -> None:
    async with (
        Gateway.simulated(policy=Wrong(turn)) as gateway,
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        answer = await http.post(CHAT, json=body())

    assert answer.status_code == 200


async def test_a_process_that_leaves_closes_no_breaker_of_the_others_and_a_worker_that_leaves_does() -> None:
    table = BreakerTable(memoryview(bytearray(BreakerTable.size(8))), nullcontext())
    boards = [LocalBoard() for _ in range(3)]
    for each in boards:
        each.breakers = table
    async with SimulatedEngine() as engine:
        workers = [WorkerSpec(engine.target, name=name) for name in "ab"]
        one, other, third = (Gateway(workers, tokenizer=MODEL_FOLDER, board=board) for board in boards)
        async with other, third:
            async with one:
                for _ in range(one.config.breaker.failures):
                    one.registry.breakers.ended("a", EngineFailed("failed"), one.services.clock.monotonic())
                told = [admitted(each) for each in (one, other)]
            after = admitted(other), one.registry.breakers.state("a")
            await third.remove_worker("a")
            removed = table.read()

    assert told == [["b"], ["b"]]
    assert after == (["b"], "closed")
    assert removed == {}


def admitted(gateway: Gateway) -> list[str]:
    """The workers that may be chosen."""
    found = gateway.registry.breakers.admitted(tuple(gateway.registry), gateway.services.clock.monotonic())
    return [each.name for each in found]
