"""Several gateways in a mesh act as one: limits, workers, loads, revoked keys and settings are known at all of them."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import House, body, eventually, in_process
from tests.gateway.test_admin import table

from smg_core import Config
from smg_core.admin.app import AdminApp
from smg_core.app.inprocess import async_client
from smg_core.auth.settings import AuthConfig
from smg_core.errors import WorkerGone
from smg_core.fleet.roster import ADMIN
from smg_core.history.settings import HistoryConfig
from smg_core.limits.decision import LimitClaim
from smg_core.limits.rules import Asker
from smg_core.mesh.settings import MeshConfig
from smg_core.meshed.counters import MeshCounters
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SIMULATOR = SimulatorConfig(seed=1, reply_tokens=12)
PROGRAM = """
import asyncio, sys
from smg_core.gateway.gateway import Gateway
async def main():
    async with Gateway.simulated() as gateway:
        await gateway.chat({"model": next(iter(gateway.models)), "messages": [{"role": "user", "content": "hi"}]})
        print(*(name for name in sys.modules if name.startswith(("smg_core.mesh", "smg_core.meshed", "kinship"))))
asyncio.run(main())
"""


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def settings(folder: Path, name: str, **sections: object) -> Config:
    mesh = MeshConfig(
        kind="local", folder=str(folder / "m"), name=name, join_s=0.0, period_s=0.02, beat_s=0.1, sync_s=0.5
    )
    return Config(mesh=mesh, **sections)  # type: ignore[arg-type]


async def fleet(stack: AsyncExitStack, folder: Path, count: int = 3, **sections: object) -> list[House]:
    """Gateways that all know each other."""
    houses = [
        await stack.enter_async_context(in_process(SIMULATOR, config=settings(folder, f"g{number}", **sections)))
        for number in range(count)
    ]
    for house in houses:
        await eventually(lambda house=house: len(member(house).seen) == count - 1)  # type: ignore[misc]
    return houses


def member(house: House):
    mesh = house.gateway.services.running.mesh
    assert mesh is not None
    return mesh.member


@pytest.mark.full  # windows of a limit pass
async def test_a_limit_is_of_all_gateways_together(stack: AsyncExitStack, tmp_path: Path) -> None:
    houses = await fleet(stack, tmp_path, limits=LimitsConfig(rules=("9 requests/hour",)))
    statuses = []
    for number in range(30):
        answer = await houses[number % 3].chat()
        statuses.append(answer.status_code)
        await asyncio.gather(*(told(house) for house in houses))
    assert set(statuses) == {200, 429}
    assert statuses.count(200) == 9


async def told(house: House) -> None:
    """All that this gateway has said is known at the others."""
    node = member(house).node
    version = node.replica.version
    await eventually(lambda: node.all_know >= version)


@pytest.mark.full
async def test_requests_at_once_of_all_gateways_are_one_limit(stack: AsyncExitStack, tmp_path: Path) -> None:
    houses = await fleet(stack, tmp_path, 2, limits=LimitsConfig(rules=("1 at-once",)))
    one, two = (house.gateway.services.live.limiting for house in houses)
    assert one is not None
    assert two is not None
    [rule] = one.rules
    claims = [LimitClaim(rule, str(rule.scope(Asker())), 1)]
    assert one.counters.claim(claims, one.now) is None
    assert isinstance(two.counters, MeshCounters)
    await eventually(lambda: two.counters._foreign)  # type: ignore[attr-defined]
    assert (await houses[1].chat()).status_code == 429
    one.counters.settle(claims, [0], one.now, one.now)
    await eventually(lambda: not two.counters.look(claims)[0].first)
    assert (await houses[1].chat()).status_code == 200


async def test_a_worker_that_is_added_drained_and_removed_at_one_is_so_at_all(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    houses = await fleet(stack, tmp_path)
    one, two, three = (house.gateway.services.running.roster for house in houses)
    url = next(iter(houses[0].gateway.registry)).spec.url
    await one.add(WorkerSpec(url, "extra", weight=2.0), ADMIN)
    for roster in (two, three):
        await eventually(lambda roster=roster: roster.registry.get("extra") is not None)  # type: ignore[misc]
        assert roster.worker("extra").spec.weight == 2.0
    await two.drain("extra")
    for roster in (one, three):
        await eventually(lambda roster=roster: roster.worker("extra").state == "draining")  # type: ignore[misc]
    await three.undrain("extra")
    for roster in (one, two):
        await eventually(lambda roster=roster: roster.worker("extra").state != "draining")  # type: ignore[misc]
    await three.remove("extra")
    for roster in (one, two):
        await eventually(lambda roster=roster: roster.registry.get("extra") is None)  # type: ignore[misc]


@pytest.mark.full
async def test_a_gateway_that_comes_later_knows_workers_of_one_that_has_gone(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    [stays] = await fleet(stack, tmp_path, 1)
    async with in_process(SIMULATOR, config=settings(tmp_path, "goes")) as goes:
        url = next(iter(stays.gateway.registry)).spec.url
        await goes.gateway.services.running.roster.add(WorkerSpec(url, "extra"), ADMIN)
        await eventually(lambda: stays.gateway.registry.get("extra") is not None)
        await told(stays)
    assert stays.gateway.registry.get("extra") is not None
    later = await stack.enter_async_context(in_process(SIMULATOR, config=settings(tmp_path, "later")))
    await eventually(lambda: later.gateway.registry.get("extra") is not None)


@pytest.mark.full
async def test_a_worker_that_retires_stays_where_it_has_requests(stack: AsyncExitStack, tmp_path: Path) -> None:
    houses = await fleet(stack, tmp_path, 2)
    one, two = (house.gateway.services.running.roster for house in houses)
    url = next(iter(houses[0].gateway.registry)).spec.url
    await one.add(WorkerSpec(url, "extra"), ADMIN)
    await eventually(lambda: two.registry.get("extra") is not None)
    busy = two.worker("extra")
    busy.board.add(busy.row, 1)
    await one.retire("extra", 300.0)
    await eventually(lambda: one.registry.get("extra") is None)
    await eventually(lambda: two.worker("extra").state == "draining")
    busy.board.add(busy.row, -1)
    await eventually(lambda: two.registry.get("extra") is None)


@pytest.mark.full
async def test_a_worker_that_one_has_discovered_is_the_meshs_elsewhere_and_stays_whose_it_was(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    houses = await fleet(stack, tmp_path)
    one, two, three = (house.gateway.services.running.roster for house in houses)
    spec = WorkerSpec(next(iter(houses[0].gateway.registry)).spec.url, "pod")
    two.added(spec, "kubernetes")
    await one.reconcile("dns", [spec])
    await eventually(lambda: three.registry.get("pod") is not None)
    await eventually(lambda: two.retires("pod") or "pod" in two._entries)
    assert [roster.worker("pod").source for roster in (one, two, three)] == ["dns", "kubernetes", "mesh"]
    await one.remove("pod")
    await eventually(lambda: two.registry.get("pod") is None and three.registry.get("pod") is None)


@pytest.mark.full
async def test_what_one_has_in_flight_counts_in_the_routing_of_all_and_goes_with_it(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    [stays] = await fleet(stack, tmp_path, 1)
    engine = next(iter(stays.gateway.registry))
    async with in_process(SIMULATOR, config=settings(tmp_path, "goes")) as goes:
        there = goes.gateway.add_worker(WorkerSpec(engine.spec.url, "there"))
        there.board.add(there.row, 7)
        await eventually(lambda: engine.record.others == 7)
        there.board.add(there.row, -4)
        await eventually(lambda: engine.record.others == 3)
        assert engine.in_flight == 0
    await eventually(lambda: engine.record.others == 0)


@pytest.mark.full
async def test_a_worker_that_others_do_not_reach_is_probed_and_has_half_its_weight(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    houses = await fleet(stack, tmp_path)
    mine = next(iter(houses[0].gateway.registry))
    theirs = [house.gateway.add_worker(WorkerSpec(mine.spec.url, "same")) for house in houses[1:]]

    def told(*, failing: bool) -> float:
        for worker in theirs:
            worker.failing = failing  # again and again: each of their own probes finds it well
        return mine.weight

    await eventually(lambda: told(failing=True) == 0.5)
    assert mine.state == "ready"
    await eventually(lambda: told(failing=False) == 1.0)


@pytest.mark.full
async def test_where_anothers_breaker_opens_the_next_call_is_a_probe(stack: AsyncExitStack, tmp_path: Path) -> None:
    one, two = await fleet(stack, tmp_path, 2)
    mine = next(iter(one.gateway.registry))
    two.gateway.add_worker(WorkerSpec(mine.spec.url, "same"))
    breakers, theirs = one.gateway.registry.breakers, two.gateway.registry.breakers
    now = two.gateway.services.clock.monotonic()
    while theirs.state("same") != "open":
        theirs.ended("same", WorkerGone("gone"), now)
    await eventually(lambda: breakers.state(mine.name) == "half_open")
    assert breakers.admitted((mine,), now, at_least_one=False) == (mine,)
    assert (await one.chat()).status_code == 200
    assert breakers.state(mine.name) == "closed"
    assert theirs.state("same") == "open"


@pytest.mark.full
async def test_a_key_that_is_revoked_at_one_is_refused_at_all(stack: AsyncExitStack, tmp_path: Path) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    auth = AuthConfig(virtual_keys=True, key_fresh_s=1.0)
    one, two = await fleet(stack, tmp_path, 2, auth=auth, history=history)
    keys = one.gateway.virtual_keys
    assert keys is not None
    made = await keys.create(name="k", tenant="acme")
    headers = {"authorization": f"Bearer {made.text}"}
    assert (await two.http.post("/v1/chat/completions", json=body(), headers=headers)).status_code == 200
    other = two.gateway.virtual_keys
    assert other is not None
    assert made.key.id in other._remembered
    await keys.revoke(made.key.id)
    await eventually(lambda: made.key.id not in other._remembered)
    assert (await two.http.post("/v1/chat/completions", json=body(), headers=headers)).status_code == 401


@pytest.mark.full
async def test_settings_that_differ_are_named(
    stack: AsyncExitStack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [one] = await fleet(stack, tmp_path, 1)
    other = settings(tmp_path, "other", limits=LimitsConfig(retry_after_s=7))
    await stack.enter_async_context(in_process(SIMULATOR, config=other))
    mesh = one.gateway.services.running.mesh
    assert mesh is not None
    await eventually(lambda: mesh.differing == {"other": ("limits",)})
    assert "gateway other has other settings in the sections limits" in caplog.text


async def test_the_admin_door_shows_the_members_and_what_is_known_of_each(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    houses = await fleet(stack, tmp_path)
    await asyncio.gather(*(told(house) for house in houses))
    app = AdminApp(houses[0].gateway, table())
    async with async_client(app, httpx, base_url="http://localhost") as door:
        shown = (await door.get("/admin/mesh")).json()
        assert (shown["kind"], shown["name"], shown["here"], shown["whole"]) == ("local", "g0", 3, 3)
        assert [each["name"] for each in shown["members"]] == ["g1", "g2"]
        assert all(each["known"] > 0 and each["acknowledged"] > 0 for each in shown["members"])
        assert shown["entries"] > 0
        assert shown["refused"] == {}


@pytest.mark.full
async def test_the_admin_door_says_that_there_is_no_mesh() -> None:
    async with (
        in_process(SIMULATOR) as house,
        async_client(AdminApp(house.gateway, table()), httpx, base_url="http://localhost") as door,
    ):
        shown = (await door.get("/admin/mesh")).json()
    assert (shown["kind"], shown["members"]) == ("off", [])


@pytest.mark.full
def test_nothing_of_the_mesh_is_loaded_where_it_is_off() -> None:
    loaded = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["smg_core.mesh", "smg_core.mesh.settings"]
