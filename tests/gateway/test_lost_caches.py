"""What an engine's cache held is forgotten when the engine's process is gone, or was told to empty it; and at no other time."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually
from tests.gateway.fleet import CALM, Member, fleet
from tests.gateway.test_admin import table
from tests.gateway.test_serve import ENVIRONMENT

from smg_core import Config, Gateway
from smg_core.admin.app import AdminApp
from smg_core.admin.settings import AdminConfig
from smg_core.channel.local import LocalChannel
from smg_core.routing import RoutingDecision
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import WorkersConfig

pytestmark = pytest.mark.anyio

LONG = "The lighthouse keeper wrote down every ship that passed. " * 30
PROBING = WorkersConfig(health_interval_s=0.1, join_interval_s=0.1, probe_failures=1)


@contextmanager
def engine(url: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of the embedded engine."""
    flags = ["--listen", url]
    process = subprocess.Popen(
        [sys.executable, "-m", "smg_core", "simulate", *flags],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def before(
    url: str, *, kv_events: bool, sent_file: Path | None = None, workers: WorkersConfig = PROBING
) -> AsyncIterator[tuple[Gateway, House]]:
    """A gateway with one worker, which is ready."""
    routing = RoutingConfig(
        policy="cache_aware", kv_events=kv_events, sent_file=None if sent_file is None else str(sent_file)
    )
    gateway = Gateway(workers=[url], config=Config(workers=workers, routing=routing))
    async with gateway, gateway.http_client(httpx, base_url="http://gateway", timeout=None) as http:
        await gateway.ready()
        yield gateway, House(gateway, http, gateway.services.observer)  # type: ignore[arg-type]


async def asked(house: House) -> RoutingDecision:
    answer = await house.http.post(CHAT, json=body(LONG, max_tokens=2))
    assert answer.status_code == 200, answer.text
    return house.gateway.decisions.of(answer.json()["id"])[-1]


def state(gateway: Gateway) -> str:
    return next(iter(gateway.registry)).state


@pytest.mark.full
@pytest.mark.parametrize("kv_events", [True, False])
async def test_nothing_is_expected_in_the_cache_of_an_engine_that_was_killed_and_came_back_empty(
    tmp_path: Path, kv_events: bool
) -> None:
    url, sent = f"unix://{tmp_path}/engine.sock", tmp_path / "sent"
    with engine(url) as process:
        async with before(url, kv_events=kv_events, sent_file=sent) as (gateway, house):
            first, second = await asked(house), await asked(house)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            (tmp_path / "engine.sock").unlink()
            with engine(url):
                await eventually(lambda: state(gateway) == "unreachable")
                await eventually(lambda: state(gateway) == "ready")
                third, fourth = await asked(house), await asked(house)

    assert (first.cached, third.cached) == (0, 0)
    assert second.cached == fourth.cached > 0
    assert sent.stat().st_size > 0


@pytest.mark.full
async def test_an_engine_that_was_slow_for_so_long_that_it_got_no_requests_has_lost_nothing(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/engine.sock"
    impatient = attrs.evolve(PROBING, probe_timeout_s=0.5)
    with engine(url) as process:
        async with before(url, kv_events=False, workers=impatient) as (gateway, house):
            await asked(house)
            os.kill(process.pid, signal.SIGSTOP)
            await eventually(lambda: state(gateway) == "unreachable")
            os.kill(process.pid, signal.SIGCONT)
            await eventually(lambda: state(gateway) == "ready")
            decision = await asked(house)

    assert decision.cached > 0


@pytest.mark.parametrize("kv_events", [True, False])
async def test_a_cache_that_an_operator_has_emptied_is_known_to_be_empty_in_all_processes_of_the_gateway(
    kv_events: bool,
) -> None:
    routing = RoutingConfig(policy="cache_aware", kv_events=kv_events)
    config = attrs.evolve(CALM, routing=routing, admin=AdminConfig(port=0))
    channel = LocalChannel()
    async with fleet(Member("own"), config=config, channel=channel) as house, AsyncExitStack() as stack:
        worker = Member("own").spec(house.engine)
        other = await stack.enter_async_context(Gateway([worker], config=config, channel=channel))
        await other.ready()
        http = await stack.enter_async_context(other.http_client(httpx, base_url="http://gateway"))
        both = house, House(other, http, house.observer)
        held = [(await asked(each), await asked(each))[1].cached for each in both]
        admin = httpx.ASGITransport(AdminApp(house.gateway, table()))
        door = await stack.enter_async_context(httpx.AsyncClient(transport=admin, base_url="http://localhost"))
        answer = await door.post("/admin/workers/flush_cache", json={})
        assert answer.json()["workers"][0]["status"] == 200, answer.text
        left = [(await asked(house)).cached, (await asked(both[1])).cached if kv_events is False else 0]

    assert all(held)
    assert left == [0, 0]
