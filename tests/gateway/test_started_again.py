"""A gateway in process that was stopped and is started again: what was changed while it ran is so still, and changes are made."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, JSON, body, eventually
from tests.gateway.test_plugins import recorder
from tests.shared import PATIENCE

from smg_core import Gateway
from smg_core.config.config import Config
from smg_core.fleet.roster import ADMIN
from smg_core.http.settings import ServerConfig
from smg_core.identity.identity import Identity
from smg_core.middleware.entries import Entry, parse_entries
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

LIVES = 3
POLICIES = ("random", "least_load", "round_robin")
KEYS = tuple(f"sk-{letter * 24}" for letter in "abc")


@attrs.define
class Site:
    """A gateway before two embedded engines, a client of it, and an engine that is not its own."""

    gateway: Gateway
    http: httpx.AsyncClient
    other: SimulatedEngine

    async def status(self, model: str = "sim", key: str = "") -> int:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return (await self.http.post(CHAT, json=body(max_tokens=1, model=model), headers=headers)).status_code

    def adopt(self, section: str, **values: object) -> None:
        """Change settings while the gateway runs."""
        config = self.gateway.config
        self.gateway.adopt(attrs.evolve(config, **{section: attrs.evolve(getattr(config, section), **values)}))


@asynccontextmanager
async def site(config: Config) -> AsyncIterator[Site]:
    gateway = Gateway.simulated(engines=2, config=config)
    async with (
        SimulatedEngine() as other,
        gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http,
    ):
        yield Site(gateway, http, other)


class Change:
    """Something that is changed in each life of a gateway: `make` does it, `holds` says whether requests meet it."""

    config = Config()

    async def make(self, here: Site, life: int) -> None:
        raise NotImplementedError

    async def holds(self, here: Site, life: int) -> bool:
        raise NotImplementedError


class PluginIsPut(Change):
    async def make(self, here: Site, life: int) -> None:
        await here.gateway.services.plugins.put(self._entry(life))

    async def holds(self, here: Site, life: int) -> bool:
        return [each.entry.name for each in here.gateway.services.plugins.plan.links] == [
            f"p{each}" for each in range(life + 1)
        ]

    def _entry(self, life: int) -> Entry:
        return parse_entries([recorder() | {"name": f"p{life}"}], "here")[0]


class PluginIsRemoved(PluginIsPut):
    async def make(self, here: Site, life: int) -> None:
        await here.gateway.services.plugins.put(self._entry(life))
        assert await here.gateway.services.plugins.remove(f"p{life}")

    async def holds(self, here: Site, life: int) -> bool:
        return not here.gateway.services.plugins.plan.links


class WorkerIsAdded(Change):
    async def make(self, here: Site, life: int) -> None:
        await here.gateway.services.running.roster.add(WorkerSpec(here.other.target, name=f"w{life}"), ADMIN)

    async def holds(self, here: Site, life: int) -> bool:
        await here.gateway.services.running.monitor.settled()
        ready = {each.name for each in here.gateway.registry if each.state == "ready"}
        return ready == {"simulator-0", "simulator-1", *(f"w{each}" for each in range(life + 1))}


class WorkerIsDrainedAndTakenBack(Change):
    async def make(self, here: Site, life: int) -> None:
        roster = here.gateway.services.running.roster
        await (roster.undrain("simulator-0") if life % 2 else roster.drain("simulator-0"))

    async def holds(self, here: Site, life: int) -> bool:
        worker = here.gateway.services.running.roster.worker("simulator-0")
        if life % 2:
            await eventually(lambda: worker.state == "ready")
        return worker.state == ("ready" if life % 2 else "draining")


class WorkerIsAnother(Change):
    async def make(self, here: Site, life: int) -> None:
        await here.gateway.services.running.roster.edit(
            "simulator-0", lambda spec: attrs.evolve(spec, weight=2.0 + life)
        )

    async def holds(self, here: Site, life: int) -> bool:
        await here.gateway.services.running.monitor.settled()
        worker = here.gateway.services.running.roster.worker("simulator-0")
        return (worker.state, worker.spec.weight) == ("ready", 2.0 + life)


class PolicyIsAnother(Change):
    async def make(self, here: Site, life: int) -> None:
        here.adopt("routing", policy=POLICIES[life])

    async def holds(self, here: Site, life: int) -> bool:
        assert await here.status() == 200
        names = {type(policy).__name__ for _, _, policy in here.gateway.services.policies.in_use()}
        return names == {POLICIES[life].title().replace("_", "")}


class KeyIsAnother(Change):
    config = attrs.evolve(Config(), auth=attrs.evolve(Config().auth, keys=(f"sk-{'z' * 24} tenant=t",)))

    async def make(self, here: Site, life: int) -> None:
        here.adopt("auth", keys=(f"{KEYS[life]} tenant=t",))
        assert isinstance(here.gateway.services.running.identify, Identity)
        here.gateway.services.running.identify.adopt_keys(here.gateway.config.auth)

    async def holds(self, here: Site, life: int) -> bool:
        return [await here.status(key=each) for each in KEYS] == [200 if at == life else 401 for at in range(LIVES)]


class NameIsAnother(Change):
    async def make(self, here: Site, life: int) -> None:
        here.adopt("model", aliases=(f"name-{life}=sim",))

    async def holds(self, here: Site, life: int) -> bool:
        return [await here.status(f"name-{each}") for each in range(LIVES)] == [
            200 if each == life else 404 for each in range(LIVES)
        ]


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("change", Change.__subclasses__() + PluginIsPut.__subclasses__())
async def test_what_is_changed_while_a_gateway_runs_is_so_at_once_and_after_it_was_started_again(
    change: type[Change],
) -> None:
    it = change()
    async with site(it.config) as here:
        for life in range(LIVES):
            async with here.gateway:
                assert not life or await it.holds(here, life - 1)
                await it.make(here, life)
                assert await it.holds(here, life)


async def test_a_plugin_that_is_put_while_the_gateway_is_stopped_is_there_when_it_is_started() -> None:
    it = PluginIsPut()
    async with site(it.config) as here:
        async with here.gateway:
            await it.make(here, 0)
        await it.make(here, 1)
        assert not here.gateway.services.plugins.plan.links
        async with here.gateway:
            assert await it.holds(here, 1)


async def test_a_gateway_that_left_takes_requests_and_leads_when_it_is_started_again() -> None:
    async with site(Config()) as here:
        async with here.gateway:
            here.gateway.drain()
            here.gateway.retire()
            assert await here.status() == 503
        async with here.gateway:
            assert await here.status() == 200
            assert here.gateway.services.leading.now
            assert not here.gateway.services.life.retiring


def test_answers_are_made_in_the_background_in_each_event_loop_that_starts_the_gateway() -> None:
    gateway = Gateway.simulated()

    async def made() -> str:
        async with gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http:
            asked = {"model": "sim", "input": "Hello", "background": True, "max_output_tokens": 1}
            answer = await http.post("/v1/responses", json=asked)
            while answer.json()["status"] in ("queued", "in_progress"):
                await asyncio.sleep(0.01)
                answer = await http.get(f"/v1/responses/{answer.json()['id']}")
            status: str = answer.json()["status"]
            return status

    for _ in range(LIVES):
        assert asyncio.run(asyncio.wait_for(made(), PATIENCE)) == "incomplete"


async def test_a_request_that_waits_for_the_first_worker_is_answered_when_the_gateway_is_stopped() -> None:
    config = Config(server=ServerConfig(first_wait_s=3600.0), workers=WorkersConfig(health_interval_s=3600.0))
    gateway = Gateway(["grpc://127.0.0.1:9"], config=config)
    async with gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http:
        waiting = asyncio.create_task(http.post(CHAT, json=body()))
        await eventually(lambda: gateway.started and any(each.reason for each in gateway.registry))
        await gateway.stop()
        async with asyncio.timeout(PATIENCE):
            answer = await waiting

    assert (answer.status_code, "stopped" in answer.text) == (503, True)


@pytest.mark.parametrize("stops_first", [True, False])
async def test_a_stop_by_hand_counts_beside_the_end_of_an_event_loop(stops_first: bool) -> None:
    async with site(Config()) as here:
        gateway = here.gateway
        await gateway.start()
        ends = [gateway.stop, gateway.rest] if stops_first else [gateway.rest, gateway.stop]
        await asyncio.gather(*[end() for end in ends])

        assert (gateway.started, gateway.services.life.stopped) == (False, True)
        assert await here.status() == 503
