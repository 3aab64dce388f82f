"""Workers are shown, added, changed, drained and removed at the admin door and by its client."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import attrs
import httpx
import msgspec
import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.gateway.test_admin import ADMIN, KEYS, USER, Door, bearer, opened
from tests.shared import PATIENCE

from smg_core.admin.roster import changed_spec
from smg_core.admin.roster_types import AddWorkerBody, ChangeWorkerBody
from smg_core.cli import main
from smg_core.engines.connections.target import Tls
from smg_core.workers.worker import WorkerSpec
from smg_core.workers.worker_file import TLS_FIELDS
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

SLOW = SimulatorConfig(timing=Timing(decode_rate=50))


async def state_of(door: Door, name: str) -> str:
    answer = await door.http.get(f"/admin/workers/{name}")
    return str(answer.json()["state"]) if answer.status_code == 200 else "none"


async def added(door: Door, engine: SimulatedEngine, name: str, **more: Any) -> httpx.Response:
    answer = await door.http.post("/admin/workers", json={"url": engine.target, "name": name, **more})
    assert answer.status_code == 201, answer.text
    async with asyncio.timeout(PATIENCE):
        while await state_of(door, name) != "ready":
            await asyncio.sleep(0.01)
    return answer


@pytest.mark.full
async def test_a_worker_is_added_changed_drained_taken_back_and_removed() -> None:
    async with opened() as door, SimulatedEngine(SimulatorConfig()) as engine:
        first = await added(door, engine, "east", labels={"zone": "east", "rack": "7"}, weight=2)
        listed = (await door.http.get("/admin/workers")).json()["workers"]
        changed = await door.http.patch(
            "/admin/workers/east", json={"labels": {"rack": None, "tier": "a"}, "weight": 3}
        )
        drained = await door.http.post("/admin/workers/east/drain", json={"wait_s": 60})
        back = await door.http.post("/admin/workers/east/undrain", json={})
        async with asyncio.timeout(PATIENCE):
            while await state_of(door, "east") != "ready":
                await asyncio.sleep(0.01)
        removed = await door.http.delete("/admin/workers/east")
        afterwards = await door.http.get("/admin/workers/east")

    assert (first.json()["source"], first.json()["labels"]) == ("admin", {"rack": "7", "zone": "east"})
    assert [row["source"] for row in listed] == ["program", "admin"]
    assert (changed.json()["weight"], changed.json()["labels"]) == (3, {"tier": "a", "zone": "east"})
    assert (drained.json()["worker"]["state"], drained.json()["left"]) == ("draining", 0)
    assert back.status_code == 200
    assert (removed.status_code, removed.json()["worker"]["state"]) == (200, "gone")
    assert afterwards.status_code == 404


@pytest.mark.full
async def test_a_drained_worker_is_removed_when_its_requests_have_ended() -> None:
    async with opened() as door, SimulatedEngine(SLOW) as engine:
        await added(door, engine, "slow")
        (fast,) = [each for each in door.house.gateway.registry if each.name != "slow"]
        await door.house.gateway.services.running.roster.drain(fast.name)
        answer = asyncio.create_task(door.house.http.post(CHAT, json=body(max_tokens=20)))
        await eventually(lambda: engine.active)
        drained = await door.http.post("/admin/workers/slow/drain", json={"remove": True})
        done = await answer
        await eventually(lambda: door.house.gateway.registry.get("slow") is None)

    assert drained.json()["left"] == 1
    assert done.json()["usage"]["completion_tokens"] == 20


@pytest.mark.full
async def test_credentials_go_in_and_never_come_out_nor_to_another_address() -> None:
    async with opened() as door, SimulatedEngine(SimulatorConfig()) as engine:
        await added(door, engine, "east", api_key="sekrit-1234", headers={"x-team": "search"})
        shown = await door.http.get("/admin/workers/east")
        elsewhere = await door.http.patch("/admin/workers/east", json={"url": "grpc://127.0.0.1:1"})
        spec = door.house.gateway.registry.get("east").spec  # type: ignore[union-attr]
        anew = await door.http.patch("/admin/workers/east", json={"url": "grpc://127.0.0.1:1", "headers": {"x-a": "b"}})

    assert shown.json()["headers"] == ["authorization", "x-team"]
    assert "sekrit" not in shown.text
    assert elsewhere.status_code == 400
    assert dict(spec.headers)["authorization"] == "Bearer sekrit-1234"
    assert anew.json()["headers"] == ["x-a"]


CHANGES: dict[str, tuple[object, object]] = {
    "url": ("grpcs://127.0.0.1:1", "grpcs://127.0.0.1:1"),
    "role": ("decode", "decode"),
    "dialect": ("sglang", "sglang"),
    "model": ("another", "another"),
    "weight": (3, 3.0),
    "api_key": ("k", (("authorization", "Bearer k"),)),
    "headers": ({"X-A": "b"}, (("x-a", "b"),)),
    "tls_ca": ("/ca.pem", Path("/ca.pem")),
    "tls_cert": ("/cert.pem", Path("/cert.pem")),
    "tls_key": ("/key.pem", Path("/key.pem")),
    "tls_server_name": ("gpu", "gpu"),
    "bootstrap_host": ("gpu-0", "gpu-0"),
    "bootstrap_port": (8998, 8998),
    "adapters": ({"b": 2, "a": None}, (("b", "2"),)),
    "labels": ({"b": "2", "a": None}, (("b", "2"),)),
    "kv_events": ("tcp://gpu-0:5557", "tcp://gpu-0:5557"),
    "kv_events_replay": ("tcp://gpu-0:5558", "tcp://gpu-0:5558"),
    "kv_events_topic": ("kv", "kv"),
}
"""What may be said of a worker, to what its spec then has."""
THE_WORKER_ITSELF = {"name", "rank"}
"""What cannot change: it is how the worker is known."""


def test_all_that_may_be_said_of_a_new_worker_can_be_changed_but_how_it_is_known() -> None:
    addable = {field.name for field in msgspec.structs.fields(AddWorkerBody)}
    changeable = {field.name for field in msgspec.structs.fields(ChangeWorkerBody)}

    assert changeable == addable - THE_WORKER_ITSELF == CHANGES.keys()


@pytest.mark.parametrize("name", [name for name in CHANGES if not name.startswith("tls_")])
def test_a_change_changes_what_it_names_and_nothing_else(name: str) -> None:
    given, meant = CHANGES[name]
    before = WorkerSpec("grpcs://a:1", labels=(("a", "1"),), adapters=(("a", "1"),))

    after = changed_spec(before, msgspec.convert({name: given}, ChangeWorkerBody))

    field = "headers" if name == "api_key" else name
    assert getattr(after, field) == meant
    assert attrs.evolve(after, **{field: getattr(before, field)}) == before


@pytest.mark.parametrize("names", [("tls_ca",), ("tls_cert", "tls_key"), ("tls_server_name",)])
def test_certificates_are_changed_and_removed_by_name(names: tuple[str, ...]) -> None:
    before = WorkerSpec("grpcs://a:1", tls=Tls(ca=Path("/old.pem"), server_name="old"))

    after = changed_spec(before, msgspec.convert({name: CHANGES[name][0] for name in names}, ChangeWorkerBody))
    none = changed_spec(after, msgspec.convert(dict.fromkeys(TLS_FIELDS), ChangeWorkerBody))

    assert {name: getattr(after.tls, name.removeprefix("tls_")) for name in names} == {
        name: CHANGES[name][1] for name in names
    }
    others = {"ca", "server_name"} - {name.removeprefix("tls_") for name in names}
    assert all(getattr(after.tls, name) == getattr(before.tls, name) for name in others)
    assert none.tls is None


WRONG: tuple[tuple[str, str, dict[str, Any], int], ...] = (
    ("POST", "/admin/workers", {}, 400),
    ("POST", "/admin/workers", {"url": "ftp://somewhere"}, 400),
    ("POST", "/admin/workers", {"url": "grpc://a:1", "colour": "red"}, 400),
    ("POST", "/admin/workers", {"url": "grpc://a:1", "weight": 0}, 400),
    ("POST", "/admin/workers", {"url": "grpc://a:1", "weight": 1e-300}, 400),
    ("POST", "/admin/workers", {"url": "grpc://a:1", "labels": {"": "x"}}, 400),
    ("POST", "/admin/workers", {"url": "http://a:1", "role": "prefill"}, 400),
    ("POST", "/admin/workers", {"url": "grpc://a:1", "dialect": "klingon"}, 400),
    ("PATCH", "/admin/workers/nobody", {"weight": 2}, 404),
    ("POST", "/admin/workers/nobody/drain", {}, 404),
    ("POST", "/admin/workers/nobody/undrain", {}, 404),
    ("DELETE", "/admin/workers/nobody", {}, 404),
)


@pytest.mark.full
async def test_what_is_wrong_is_refused_and_changes_nothing() -> None:
    async with opened() as door:
        before = (await door.http.get("/admin/workers")).json()
        answers = [await door.http.request(method, path, json=asked) for method, path, asked, _ in WRONG]
        name = before["workers"][0]["name"]
        taken = await door.http.post("/admin/workers", json={"url": "grpc://a:1", "name": name})
        after = (await door.http.get("/admin/workers")).json()

    assert [answer.status_code for answer in answers] == [row[3] for row in WRONG]
    assert all(answer.json()["error"]["message"] for answer in answers)
    assert taken.status_code == 409
    assert [each["name"] for each in after["workers"]] == [each["name"] for each in before["workers"]]


@pytest.mark.full
async def test_only_who_may_changes_workers_and_every_change_is_in_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "smg.audit")
    async with opened(auth=KEYS) as door:
        asked = {"url": "grpc://127.0.0.1:1", "name": "east"}
        refused = await door.http.post("/admin/workers", json=asked, headers=bearer(USER))
        taken = await door.http.post("/admin/workers", json=asked, headers=bearer(ADMIN))

    assert (refused.status_code, taken.status_code) == (403, 201)
    assert any("POST /admin/workers by ops/root" in record.getMessage() for record in caplog.records)


@pytest.mark.full
async def test_the_command_line_lists_adds_updates_drains_and_removes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*arguments: str) -> tuple[int, Any]:
        status = await asyncio.to_thread(main, ["workers", *arguments])
        return status, json.loads(capsys.readouterr().out)

    async with opened() as door, SimulatedEngine(SimulatorConfig()) as engine:
        monkeypatch.setenv("SMG_ADMIN", str(door.http.base_url))
        add = await run("add", engine.target, "--name", "east", "--label", "zone=east", "--weight", "2")
        await eventually(lambda: door.house.gateway.registry.get("east").state == "ready")  # type: ignore[union-attr]
        listed = await run("list")
        update = await run("update", "east", "--weight", "4")
        drain = await run("drain", "east", "--wait", "10")
        undrain = await run("undrain", "east")
        remove = await run("remove", "east")

    assert [each[0] for each in (add, listed, update, drain, undrain, remove)] == [0] * 6
    assert add[1]["labels"] == {"zone": "east"}
    assert [row["name"] for row in listed[1]["workers"]][1:] == ["east"]
    assert update[1]["weight"] == 4
    assert drain[1]["left"] == 0
    assert remove[1]["worker"]["state"] == "gone"
