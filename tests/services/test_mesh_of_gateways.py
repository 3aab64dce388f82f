"""Gateways of a mesh, each in a network namespace of its own: what a split means for limits, and who reaches a worker."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.test_mesh_processes import ADMIN, AS_ADMIN, Member, ask, has
from tests.gateway.test_serve import ENVIRONMENT, QUICK, Served, command, read, ready_at
from tests.shared import PATIENCE

from smg_simulator.server.grpc_server import SimulatedEngine

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "bench"))

from mesh_split import KEY, Space, Split, can_split, two_sides

pytestmark = [pytest.mark.services, pytest.mark.anyio, pytest.mark.timeout(300)]

GATEWAYS = ("m0", "m1", "m3")
"""Two are on one side, and one on the other."""


@asynccontextmanager
async def gateway(
    space: Space, name: str, seed: str, folder: Path, engine: SimulatedEngine, *flags: str
) -> AsyncIterator[Member]:
    """A gateway that is served in a namespace, with its admin door."""
    door = str(folder / f"{name}.sock")
    words = ["--host", space.door, "--port", "0", "--worker", engine.target, "--admin-socket", door]
    words += ["--mesh-kind", "gossip", "--mesh-name", name, "--mesh-keys", KEY, "--mesh-join-s", "0"]
    words += ["--mesh-bind", f"{space.address}:7946", "--mesh-seeds", f"{seed}:7946"]
    words += ["--auth-keys", f"{ADMIN} tenant=ops role=admin", *flags]
    process = await asyncio.create_subprocess_exec(
        *space.prefix, *command(*words), stderr=asyncio.subprocess.PIPE, env=ENVIRONMENT
    )
    log: list[str] = []
    reading = asyncio.create_task(read(process, log))
    try:
        port = int((await ready_at(process, log)).rpartition(":")[2])
        url = f"http://{space.door}:{port}"
        through = httpx.AsyncHTTPTransport(uds=door)
        async with (
            httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as http,
            httpx.AsyncClient(
                transport=through, base_url="http://localhost", timeout=PATIENCE, headers=AS_ADMIN
            ) as admin,
        ):
            yield Member(Served(process, engine, http, log, port), admin)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


@asynccontextmanager
async def three(folder: Path, *flags: str) -> AsyncIterator[tuple[list[Member], Split, SimulatedEngine]]:
    """Three gateways that know each other, before one engine that all reach, also when the sides are parted."""
    assert can_split(), "this needs root, and ip, which tools/services.sh installs"
    async with two_sides() as (spaces, split), AsyncExitStack() as stack:
        engine = await stack.enter_async_context(SimulatedEngine(QUICK, f"{split.here}:0"))
        seed = spaces[GATEWAYS[0]].address
        members = [
            await stack.enter_async_context(gateway(spaces[name], name, seed, folder, engine, *flags))
            for name in GATEWAYS
        ]
        async with asyncio.timeout(PATIENCE):
            for member in members:
                await member.until("/admin/mesh", lambda shown: shown["here"] == 3)
        yield members, split, engine


async def admitted(members: list[Member], count: int, more: int) -> int:
    """Ask one gateway after the other until so many requests were admitted, and then for so many more; how many were in all."""
    found = asked = 0
    while found < count:  # what is refused until all have heard is asked for again
        found += await ask(members[asked % len(members)]) == 200
        asked += 1
    return found + sum([await ask(members[number % len(members)]) == 200 for number in range(more)])


@pytest.mark.parametrize(("partition", "larger"), [("majority", 30), ("strict", 20)])
async def test_both_sides_of_a_split_admit_what_their_rule_says(tmp_path: Path, partition: str, larger: int) -> None:
    flags = ("--limits-rules", "30 requests/hour", "--mesh-partition", partition)
    async with three(tmp_path, *flags) as (members, split, _):
        near, far = members[:2], members[2:]
        await split.cut()
        for side in (near, far):
            for member in side:
                await member.until("/admin/mesh", lambda shown, side=side: shown["here"] == len(side))
        sides = await admitted(near, larger, 20), await admitted(far, 10, 20)
        await split.heal()
        for member in members:
            await member.until("/admin/mesh", lambda shown: shown["here"] == 3)
        after = await admitted(members, 0, 30)

    assert larger <= sides[0] <= larger + 2  # one request a gateway where the guard is less
    assert sides[1] == 10
    assert after <= 3


async def test_no_request_is_lost_at_gateways_that_live_while_others_are_parted_stopped_or_killed(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (members, split, _):
        one, two, far = members
        over, statuses = asyncio.Event(), {id(member): [0] for member in members}

        async def asks(member: Member) -> None:
            while not over.is_set():
                answer = await member.served.http.post(CHAT, json=body(max_tokens=2), headers=AS_ADMIN)
                statuses[id(member)].append(answer.status_code)

        async def known(count: int) -> None:
            for member in (one, two):
                await member.until("/admin/mesh", lambda shown: shown["here"] == count)

        asking = [asyncio.create_task(asks(member)) for member in (one, two)]
        own = asyncio.create_task(asks(far))
        await split.cut()
        await known(2)
        await far.until("/admin/mesh", lambda shown: shown["here"] == 1)
        await split.heal()
        await known(3)
        os.kill(far.served.process.pid, signal.SIGSTOP)
        await known(2)
        os.kill(far.served.process.pid, signal.SIGCONT)
        await known(3)
        before_it_died = list(statuses[id(far)])
        os.kill(far.served.process.pid, signal.SIGKILL)
        await known(2)
        over.set()
        await asyncio.gather(*asking)
        await asyncio.wait([own])

    assert set(before_it_died) == {0, 200}
    for member in (one, two):
        assert set(statuses[id(member)]) == {0, 200}
    assert isinstance(own.exception(), httpx.TransportError)


async def test_a_worker_that_most_others_do_not_reach_has_half_its_weight_and_is_used(tmp_path: Path) -> None:
    flags = ("--workers-health-interval-s", "0.5", "--workers-probe-timeout-s", "0.5")
    async with three(tmp_path, *flags) as ((one, *others), split, engine):
        [name] = [each["name"] for each in (await one.get("/admin/workers"))["workers"]]
        await split.lose_here(GATEWAYS[1:], lost=True)
        await one.until("/admin/workers", has(name, state="ready", weight=0.5))
        states = [(await other.get("/admin/workers"))["workers"][0]["state"] for other in others]
        probed = len(engine.probed_by)
        status = await ask(one)
        await split.lose_here(GATEWAYS[1:], lost=False)
        for member in (one, *others):
            await member.until("/admin/workers", has(name, state="ready", weight=1.0))

    assert "ready" not in states
    assert probed
    assert status == 200
