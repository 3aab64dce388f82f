"""Three gateways in processes of their own, in a gossip mesh: limits, workers, keys and the loss of one of them."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.test_serve import HELD, QUICK, Served, serving
from tests.shared import PATIENCE

from smg_simulator.answers.faults import Fault
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.full]

ADMIN = "an-admins-key-of-this-test"
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


AS_ADMIN = {"authorization": f"Bearer {ADMIN}"}


@attrs.frozen
class Member:
    """A gateway that is served, and its admin door."""

    served: Served
    door: httpx.AsyncClient

    async def get(self, path: str) -> Any:
        while True:
            with contextlib.suppress(httpx.TransportError):  # of a connection to a process that was killed
                return (await self.door.get(path)).json()

    async def post(self, path: str) -> int:
        """The status of what may be asked for twice."""
        while True:
            with contextlib.suppress(httpx.TransportError):  # of a connection that was not used for long
                return (await self.door.post(path, json={})).status_code

    async def until(self, path: str, true: Any) -> None:
        """Ask the door until something is so."""
        while not true(await self.get(path)):
            await asyncio.sleep(0.02)


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    socks = [socket.socket() for _ in range(count)]
    for sock in socks:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


@asynccontextmanager
async def mesh(folder: Path, *flags: str, last: tuple[str, ...] = ()) -> AsyncIterator[list[Member]]:
    """Three gateways that know each other; the last one has further flags."""
    ports = free_ports(3)
    async with AsyncExitStack() as stack:
        members = []
        for number, port in enumerate(ports):
            place = str(folder / f"admin{number}.sock")
            own = ("--admin-socket", place, "--mesh-kind", "gossip", "--mesh-name", f"g{number}", "--mesh-keys", KEY)
            reach = ("--mesh-bind", f"127.0.0.1:{port}", "--mesh-seeds", f"127.0.0.1:{ports[0]}", "--mesh-join-s", "0")
            keys = ("--auth-keys", f"{ADMIN} tenant=ops role=admin")
            more = (*flags, *(last if number == len(ports) - 1 else ()))
            served = await stack.enter_async_context(serving(QUICK, *own, *reach, *keys, *more))
            transport = httpx.AsyncHTTPTransport(uds=place)
            door = httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=PATIENCE, headers=AS_ADMIN
            )
            members.append(Member(served, await stack.enter_async_context(door)))
        async with asyncio.timeout(PATIENCE):
            for member in members:
                await member.until("/admin/mesh", lambda shown: len(shown["members"]) == 2)
            yield members


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_limits_workers_and_keys_are_of_all_gateways(tmp_path: Path, processes: str) -> None:
    flags: tuple[str, ...] = ("--processes", processes)
    flags += ("--auth-virtual-keys", "--history", f"sqlite:///{tmp_path}/h.db", "--limits-rules", "9 requests/hour")
    async with mesh(tmp_path, *flags) as members, SimulatedEngine(QUICK) as other:
        one, two, three = members
        added = await one.door.post("/admin/workers", json={"url": other.target, "name": "other"})
        for member in (two, three):
            await member.until("/admin/workers", lambda shown: "other" in [each["name"] for each in shown["workers"]])
        await two.door.delete("/admin/workers/other")
        for member in (one, three):
            await member.until("/admin/workers", lambda shown: len(shown["workers"]) == 1)

        made = (await one.door.post("/admin/keys", json={"tenant": "acme"})).json()
        headers = {"authorization": f"Bearer {made['key']}"}

        async def ask(member: Member) -> int:
            return (await member.served.http.post(CHAT, json=body(max_tokens=2), headers=headers)).status_code

        statuses: list[int] = []
        while statuses.count(200) < 9:  # what is refused until all have heard is asked for again
            statuses.append(await ask(members[len(statuses) % 3]))
        statuses += [await ask(members[number % 3]) for number in range(15)]
        await one.door.post(f"/admin/keys/{made['id']}/revoke", json={})
        async with asyncio.timeout(1.0):
            while await ask(three) != 401:
                pass
        shown = await one.get("/admin/mesh")

    assert added.status_code == 201
    assert 9 <= statuses.count(200) <= 11
    assert set(statuses) == {200, 429}
    assert (shown["here"], shown["whole"], shown["refused"]) == (3, 3, {})


async def test_another_process_speaks_in_the_mesh_when_the_one_that_did_is_killed(tmp_path: Path) -> None:
    flags = ("--processes", "2", "--limits-rules", "40 requests/hour")
    async with mesh(tmp_path, *flags) as members:
        one = members[0]
        statuses = await asked(members, 12)
        before = await one.get("/admin/mesh")
        leads = min(each["pid"] for each in (await one.get("/admin/health"))["processes"])  # it was started first
        os.kill(leads, signal.SIGKILL)
        for member in members:
            await member.until("/admin/mesh", lambda shown: len(shown["members"]) == 2 and shown["whole"] == 3)
        after = await one.get("/admin/mesh")
        statuses += await asked(members, 28)
        statuses += [await ask(members[number % 3]) for number in range(12)]

    assert after["version"] != before["version"]
    assert 40 <= statuses.count(200) <= 43
    assert set(statuses) == {200, 429}


async def asked(members: list[Member], admitted: int) -> list[int]:
    """The statuses of requests at one gateway after the other, until so many were admitted."""
    statuses: list[int] = []
    while statuses.count(200) < admitted:
        statuses.append(await ask(members[len(statuses) % 3]))
    return statuses


async def ask(member: Member) -> int:
    """The status of one request."""
    while True:
        with contextlib.suppress(httpx.TransportError):  # of a connection to a process that was killed
            answer = await member.served.http.post(CHAT, json=body(max_tokens=2), headers=AS_ADMIN)
            return answer.status_code


async def test_a_gateway_that_is_killed_is_known_to_be_gone_and_the_others_go_on(tmp_path: Path) -> None:
    async with mesh(tmp_path) as members:
        one, two, three = members
        os.kill(three.served.process.pid, signal.SIGKILL)
        for member in (one, two):
            await member.until("/admin/mesh", lambda shown: len(shown["members"]) == 1)
        statuses = [
            (await member.served.http.post(CHAT, json=body(max_tokens=2), headers=AS_ADMIN)).status_code
            for member in (one, two)
        ]
        shown = await one.get("/admin/mesh")

    assert statuses == [200, 200]
    assert (shown["here"], shown["whole"], shown["majority"]) == (2, 3, True)


async def test_a_gateway_that_is_left_alone_admits_its_share_of_a_limit(tmp_path: Path) -> None:
    async with mesh(tmp_path, "--limits-rules", "30 requests/hour") as members:
        one, *others = members
        for member in others:
            os.kill(member.served.process.pid, signal.SIGKILL)
        await one.until("/admin/mesh", lambda shown: shown["here"] == 1)
        shown = await one.get("/admin/mesh")
        statuses = [await ask(one) for _ in range(30)]

    assert (shown["whole"], shown["majority"]) == (3, False)
    assert 10 <= statuses.count(200) <= 15  # what is asked for before it knows counts as part of the whole
    assert statuses[15:] == [429] * 15


async def test_what_one_finds_and_drains_is_known_at_all_and_so_is_where_settings_differ(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    found.write_text("[]")
    last = ("--workers-file", str(found), "--discovery-file-interval-s", "0.1")
    async with mesh(tmp_path, last=last) as members, SimulatedEngine(QUICK) as other:
        one, two, three = members
        found.write_text(json.dumps([{"url": other.target, "name": "found"}]))
        for member in members:
            await member.until("/admin/workers", has("found", state="ready"))
        drained = await one.post("/admin/workers/found/drain")
        for member in (two, three):
            await member.until("/admin/workers", has("found", state="draining"))
        for member in (one, two):
            await member.until("/admin/mesh", lambda shown: "discovery" in _differing(shown).get("g2", ()))

    assert drained == 200


async def test_where_anothers_breaker_has_opened_the_next_call_is_a_probe(tmp_path: Path) -> None:
    failing = attrs.evolve(QUICK, fault_rates=((Fault("cut"), 1.0),))
    flags = ("--breaker-open-s", "600", "--policy", "round_robin")
    async with mesh(tmp_path, *flags) as members, SimulatedEngine(failing) as other:
        one, two, three = members
        await one.door.post("/admin/workers", json={"url": other.target, "name": "other"})
        for member in members:
            await member.until("/admin/workers", has("other", state="ready", breaker="closed"))
        statuses = []
        while not has("other", breaker="open")(await one.get("/admin/workers")):
            statuses.append(await ask(one))
        for member in (two, three):
            await member.until("/admin/workers", has("other", breaker="half_open", state="ready"))
        tried = other.counters["requests"]
        while not has("other", breaker="open")(await two.get("/admin/workers")):
            statuses.append(await ask(two))
        probes = other.counters["requests"] - tried
        await three.until("/admin/workers", has("other", breaker="half_open"))

    assert set(statuses) == {200}
    assert probes == 1  # one that fails is enough where another gateway has found the same


async def test_what_one_has_in_flight_turns_the_requests_of_others_away(tmp_path: Path) -> None:
    held = attrs.evolve(HELD, faults=(Fault("stall", after=3),) * 6)
    flags = ("--policy", "least_load", "--workers-loads-interval-s", "3600")  # no engine says what it has
    async with AsyncExitStack() as stack:
        one, two, _ = await stack.enter_async_context(mesh(tmp_path, *flags))
        other = await stack.enter_async_context(SimulatedEngine(held))
        await one.door.post("/admin/workers", json={"url": other.target, "name": "other"})
        for member in (one, two):
            await member.until("/admin/workers", has("other", state="ready"))
        [own] = [each["name"] for each in (await one.get("/admin/workers"))["workers"] if each["name"] != "other"]
        await one.post(f"/admin/workers/{own}/drain")
        async with AsyncExitStack() as streams:
            for _ in range(6):
                asked = one.served.http.stream("POST", CHAT, json=body(stream=True), headers=AS_ADMIN)
                await streams.enter_async_context(asked)
            while await went_there(two, other, 20):
                pass
        while not await went_there(two, other, 20):
            pass


async def went_there(member: Member, engine: SimulatedEngine, count: int) -> int:
    """How many of so many requests, one after the other, a gateway sends to this engine."""
    before = engine.counters["requests"]
    assert {await ask(member) for _ in range(count)} == {200}
    return engine.counters["requests"] - before


def has(name: str, **fields: object) -> Any:
    """Whether the admin door shows a worker of that name with these fields."""
    return lambda shown: any(
        each["name"] == name and all(each[key] == value for key, value in fields.items()) for each in shown["workers"]
    )


def _differing(shown: Any) -> dict[str, list[str]]:
    return {each["name"]: each["differing"] for each in shown["members"] if each["differing"]}
