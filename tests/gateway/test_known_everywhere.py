"""Who makes a change at the admin door is answered when every process has made it, or told that this is not known."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.test_admin import table
from tests.shared import PATIENCE

from smg_core import Gateway
from smg_core.admin.app import AdminApp, admin_table
from smg_core.channel.local import LocalChannel
from smg_core.operation.config_source import ConfigSource
from smg_core.operation.control import Control
from smg_core.plugins.registry import KIND
from smg_core.request import Caller
from smg_core.workers.worker import WorkerSpec
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

GUEST = Path(__file__).parents[2] / "examples/plugins/redaction/redact_numbers.wasm"
KEEPING = "ledger: {enabled: true, url: 'memory:'}\nresponse_cache: {kept_s: 60}\n"
UNKNOWN = "It is not known whether every process has this change."


class Others(LocalChannel):
    """A channel to other processes. `waited_for` is the number of the message that somebody last waited for all processes to
    have; `late`: one of them does not take what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = 0
        self.late = False

    @property
    def told(self) -> int:
        """The number of the last message."""
        return self._number

    async def settled(self, number: int, seconds: float) -> bool:
        self.waited_for = number
        return not self.late


@attrs.define
class Door:
    gateway: Gateway
    channel: Others
    http: httpx.AsyncClient
    engine: SimulatedEngine
    folder: Path


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Door]:
    file = folder / "smg.yaml"
    file.write_text(f"limits: {{n: 2}}\n{KEEPING}")
    source = ConfigSource({}, {}, str(file))
    channel = Others()
    async with (
        SimulatedEngine(SimulatorConfig()) as engine,
        Gateway([WorkerSpec(engine.target, name="a")], config=source.read().config, channel=channel) as gateway,
    ):
        app = AdminApp(gateway, table(), None, Control(gateway, table(), source))
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE) as http:
            yield Door(gateway, channel, http, engine, folder)


async def add(door: Door, name: str) -> httpx.Response:
    return await door.http.post("/admin/workers", json={"url": door.engine.target, "name": name})


async def reload(door: Door) -> httpx.Response:
    """Of a setting and of a worker: each is told of for itself."""
    (door.folder / "smg.yaml").write_text(f"limits: {{n: 3}}\nworkers: {{urls: ['{door.engine.target}']}}\n{KEEPING}")
    return await door.http.post("/admin/reload", json={})


def asks(method: str, path: str, body: Any = None) -> Callable[[Door], Awaitable[httpx.Response]]:
    async def ask(door: Door) -> httpx.Response:
        return await door.http.request(method, path, json=body)

    return ask


async def put_plugin(door: Door) -> httpx.Response:
    return await door.http.put("/admin/plugins/p", json={"entry": {"source": str(GUEST)}})


CHANGES: dict[tuple[str, str], Callable[[Door], Awaitable[httpx.Response]]] = {
    ("POST", "/admin/workers"): lambda door: add(door, "b"),
    ("PATCH", "/admin/workers/{name}"): asks("PATCH", "/admin/workers/a", {"weight": 2}),
    ("DELETE", "/admin/workers/{name}"): asks("DELETE", "/admin/workers/a"),
    ("POST", "/admin/workers/{name}/drain"): asks("POST", "/admin/workers/a/drain", {}),
    ("POST", "/admin/workers/{name}/undrain"): asks("POST", "/admin/workers/a/undrain", {}),
    ("POST", "/admin/reload"): reload,
    ("POST", "/admin/drain"): asks("POST", "/admin/drain", {}),
    ("POST", "/admin/undrain"): asks("POST", "/admin/undrain", {}),
    ("PUT", "/admin/log-level"): asks("PUT", "/admin/log-level", {"level": "info"}),
    ("PUT", "/admin/plugins/{name}"): put_plugin,
    ("DELETE", "/admin/usage"): asks("DELETE", "/admin/usage?tenant=acme"),
    ("DELETE", "/admin/history"): asks("DELETE", "/admin/history?tenant=acme"),
}
"""How each change of what processes know is asked for."""

OTHERS = (r"/admin/keys(/.*)?", r"/admin/workers/.*(?<!drain)")
"""Routes whose changes processes are not told of so: keys, which are in the history that all share, and what engines are asked to
do; `DELETE /admin/plugins/{name}` needs a plugin, which is put in its own test."""


async def test_every_route_that_changes_what_processes_know_is_walked_here(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        routes = {(each.method, each.pattern) for each in admin_table(door.gateway, table()).routes}

    changing = {(method, path) for method, path in routes if method != "GET"} - CHANGES.keys()
    left = {(method, path) for method, path in changing if not any(re.fullmatch(each, path) for each in OTHERS)}
    assert left == {("DELETE", "/admin/plugins/{name}")}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
async def test_a_change_is_answered_when_every_process_has_made_it(change: tuple[str, str], tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        answer = await CHANGES[change](door)
        waited_for, told = door.channel.waited_for, door.channel.told

    assert answer.status_code in (200, 201), answer.text
    assert waited_for == told > 0


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
async def test_who_makes_a_change_that_a_process_is_late_with_is_told_so(
    change: tuple[str, str], tmp_path: Path
) -> None:
    async with opened(tmp_path) as door:
        door.channel.late = True
        answer = await CHANGES[change](door)

    assert (answer.status_code, answer.json()["error"]["message"]) == (503, UNKNOWN)


async def test_a_plugin_is_gone_when_every_process_has_let_go_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        put = await put_plugin(door)
        gone = await door.http.delete("/admin/plugins/p")
        waited_for, told = door.channel.waited_for, door.channel.told

    assert (put.status_code, gone.status_code) == (200, 200)
    assert waited_for == told


async def test_a_process_that_takes_no_more_requests_has_said_how_many_it_has(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        processes = table()
        processes.write(attrs.evolve(processes.mine, pid=7, in_flight=3))
        control = Control(door.gateway, processes)
        lease = door.gateway.services.admission.readmit(Caller(), "generation")
        await control.hold()
        said, counted = processes.mine.in_flight, control.in_flight
        lease.release()

    assert said == counted == 1


async def test_a_gateway_that_closes_gives_up_the_plugin_that_it_has_just_been_told_of(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        plugins = door.gateway.services.plugins
        told = {"name": "p", "entry": json.dumps({"source": str(GUEST), "name": "p"})}
        await door.channel.publish(KIND, json.dumps(told).encode(), key="p")
        assert plugins.pending

    assert (bool(plugins.pending), plugins.states) == (False, {})
