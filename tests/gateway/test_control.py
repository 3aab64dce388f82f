"""What operators change of a gateway that runs: whether it takes requests, its log's level, its settings."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.bounded import defaults
from tests.gateway.conftest import CHAT, body, eventually, over_http
from tests.gateway.test_admin import KEYS, opened, table
from tests.shared import PATIENCE

from smg_core.admin.settings import AdminConfig
from smg_core.auth.settings import AuthConfig
from smg_core.config.config import describe
from smg_core.gateway.gateway import Gateway
from smg_core.identity import identity
from smg_core.identity.identity import static_keys
from smg_core.models.sealing_keys import with_cache_secret
from smg_core.operation.config_source import ConfigSource
from smg_core.operation.control import Control
from smg_core.operation.live_settings import LIVE, NEEDS_RESTART
from smg_core.server.admin_listener import admin_listener, close_listener
from smg_core.server.admin_server import administered
from smg_core.stored.default_store import DefaultStore, gateway_name
from smg_core.testing import FakeClock
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio


@attrs.define
class Settings:
    """A gateway whose settings are in a file, its admin door, and clients of both."""

    gateway: Gateway
    http: httpx.AsyncClient
    door: httpx.AsyncClient
    file: Path

    async def reload(self, text: str) -> httpx.Response:
        self.file.write_text(text)
        return await self.door.post("/admin/reload", json={})


@asynccontextmanager
async def from_file(
    tmp_path: Path, text: str, filled_in: Mapping[str, str] | None = None, **overrides: object
) -> AsyncIterator[Settings]:
    """`filled_in` is the environment of a gateway that is started as the command starts it, with its own places and secrets."""
    file = tmp_path / "smg.yaml"
    file.write_text(text)
    source = ConfigSource(overrides, filled_in or {}, str(file))
    config = source.read().config
    if filled_in is not None:
        config = DefaultStore(gateway_name(config), filled_in).filled_in(config)
        config = attrs.evolve(config, sealing=with_cache_secret(config.sealing))
    config = attrs.evolve(config, admin=AdminConfig(port=0))
    listener = admin_listener(config)
    assert listener is not None
    try:
        async with over_http(config=config) as house:
            control = Control(house.gateway, table(), source)
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with (
                administered(house.gateway, config, listener, table(), None, control),
                httpx.AsyncClient(base_url=base, timeout=PATIENCE, trust_env=False) as door,
            ):
                yield Settings(house.gateway, house.http, door, file)
    finally:
        close_listener(config, listener)


@pytest.fixture
def unwatched() -> Iterator[None]:
    """The file of workers is read when the settings are, and no other time."""
    with defaults({"discovery.file_interval_s": 0.0}):
        yield


BASE = "server: {allowed_hosts: ['*']}\nadmin: {port: 0}\n"


def test_every_setting_says_whether_it_can_change_live() -> None:
    paths = {each.path for each in describe()}

    assert LIVE.keys() <= paths
    assert {each.section for each in describe() if each.path not in LIVE} <= {*NEEDS_RESTART}
    assert {*NEEDS_RESTART} <= {each.section for each in describe()}


@pytest.mark.full
async def test_what_can_change_live_does_and_what_cannot_is_named(tmp_path: Path) -> None:
    async with from_file(tmp_path, BASE) as here:
        told = await here.reload(
            BASE + "limits: {n: 2}\nrouting: {policy: least_load}\nengines: {http_direct: [a.example]}\n"
        )
        refused = await here.http.post(CHAT, json=body(n=3))
        taken = await here.http.post(CHAT, json=body(max_tokens=1))
        shown = {row["path"]: row for row in (await here.door.get("/admin/config")).json()["settings"]}
        policies = (await here.door.get("/admin/policies")).json()["policies"]

    assert told.status_code == 200, told.text
    assert told.json()["changed"] == ["routing.policy", "limits.n"]
    assert told.json()["needs_restart"] == ["engines.http_direct"]
    assert (refused.status_code, taken.status_code) == (400, 200)
    assert (shown["limits.n"]["value"], shown["limits.n"]["live"]) == (2, "for new requests")
    assert "limits.n" in shown["limits.n"]["source"]
    assert shown["engines.http_direct"]["value"] == []
    assert [each["policy"] for each in policies] == ["least_load"]


@pytest.mark.full
async def test_settings_that_have_not_changed_need_no_restart_and_have_their_sources_from_the_start(
    tmp_path: Path,
) -> None:
    async with from_file(tmp_path, BASE, filled_in={"XDG_STATE_HOME": str(tmp_path)}) as here:
        shown = {row["path"]: row for row in (await here.door.get("/admin/config")).json()["settings"]}
        told = (await here.reload(BASE)).json()
        other = (await here.reload(BASE + "history: {url: 'sqlite:////other.db'}\n")).json()

    assert here.gateway.config.history.url is not None
    assert here.gateway.config.sealing.cache_secret is not None
    assert (told["changed"], told["needs_restart"]) == ([], [])
    assert other["needs_restart"] == ["history.url"]
    assert shown["server.allowed_hosts"]["source"].endswith("server.allowed_hosts")
    assert shown["limits.n"]["source"] == "default"
    assert shown["history.url"]["source"] == ""


@pytest.mark.full
@pytest.mark.usefixtures("unwatched")
async def test_more_workers_than_there_is_room_for_change_nothing(tmp_path: Path) -> None:
    with defaults({"workers.most": 3}):
        async with from_file(tmp_path, BASE) as here:
            before = [worker.name for worker in here.gateway.registry]
            listed = tmp_path / "workers.json"
            listed.write_text(json.dumps([{"url": f"grpc://127.0.0.1:{port}"} for port in (1, 2, 3)]))
            told = await here.reload(BASE + f"workers: {{file: {listed}}}\nlimits: {{n: 2}}\n")
            after = [worker.name for worker in here.gateway.registry]

    assert told.status_code == 400, told.text
    assert "workers.most" in told.json()["error"]["message"]
    assert after == before
    assert here.gateway.config.limits.n != 2


BAD = (
    "limits: {n: many}\n",
    "limits: {m: 3}\n",
    "routing: {policy: nobodys}\n",
    "workers: {urls: ['ftp://x']}\n",
    "workers: {file: /nowhere/at/all}\n",
    "{ [",
)


@pytest.mark.full
async def test_a_bad_file_changes_nothing_and_the_answer_says_what_is_wrong(tmp_path: Path) -> None:
    async with from_file(tmp_path, BASE) as here:
        before = here.gateway.config
        told = [await here.reload(BASE + "timeouts: {token_s: 7}\n" + bad) for bad in BAD]
        here.file.unlink()
        missing = await here.door.post("/admin/reload", json={})
        after, workers = here.gateway.config, len(here.gateway.registry)

    assert [answer.status_code for answer in (*told, missing)] == [400] * (len(BAD) + 1)
    assert "limits.n" in told[0].json()["error"]["message"]
    assert after is before
    assert workers == 1


@pytest.mark.full
@pytest.mark.usefixtures("unwatched")
async def test_workers_of_the_file_are_added_changed_and_retired_and_those_of_others_stay(tmp_path: Path) -> None:
    workers = tmp_path / "workers.yaml"
    listed = BASE + f"workers: {{file: {workers}}}\n"
    async with (
        SimulatedEngine(SimulatorConfig()) as a,
        SimulatedEngine(SimulatorConfig()) as b,
    ):
        workers.write_text("[]")
        async with from_file(tmp_path, listed) as here:
            workers.write_text(f"[{{url: '{a.target}', name: a}}, {{url: '{b.target}', name: b}}]")
            first = await here.reload(listed)
            await eventually(lambda: sum(each.state == "ready" for each in here.gateway.registry) == 3)
            workers.write_text(f"[{{url: '{b.target}', name: b, weight: 3}}]")
            second = await here.reload(listed)
            await eventually(lambda: here.gateway.registry.get("a") is None)
            left = {each.name: each.weight for each in here.gateway.registry if each.source == "file"}
            count = len(here.gateway.registry)

    assert first.json()["workers_added"] == ["a", "b"]
    assert (second.json()["workers_changed"], second.json()["workers_retired"]) == (["b"], ["a"])
    assert left == {"b": 3}
    assert count == 2


async def test_keys_are_replaced_without_a_restart(tmp_path: Path) -> None:
    old, new = "old-key-0123456789", "new-key-0123456789"
    admin = "'admin-key-0123456789 tenant=ops role=admin'"

    def text(key: str) -> str:
        return BASE + f"auth: {{keys: [{admin}, '{key} tenant=acme']}}\n"

    async with from_file(tmp_path, text(old)) as here:
        here.door.headers["authorization"] = "Bearer admin-key-0123456789"

        async def statuses() -> list[int]:
            return [
                (
                    await here.http.post(CHAT, json=body(max_tokens=1), headers={"authorization": f"Bearer {key}"})
                ).status_code
                for key in (old, new)
            ]

        before = await statuses()
        told = await here.reload(text(new))
        after = await statuses()
        opened_up = await here.reload(BASE)
        still = await statuses()
        shown = await here.door.get("/admin/config")

    assert (before, after, still) == ([200, 401], [401, 200], [401, 200])
    assert told.json()["changed"] == ["auth.keys"]
    assert opened_up.json()["needs_restart"] == ["auth.keys"]
    assert new not in shown.text


@attrs.define
class Reading:
    """How the keys of settings are read, in a thread: each read waits until it is `let` go on."""

    begun: list[AuthConfig] = attrs.field(factory=list)
    let: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))

    def __call__(self, auth: AuthConfig, clock: Any, permissions: Any) -> Any:
        self.begun.append(auth)
        assert self.let.acquire(timeout=PATIENCE)
        return static_keys(auth, clock, permissions)


@pytest.mark.full
async def test_a_key_that_was_taken_away_is_good_for_no_request_that_comes_while_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process that is told of it while another one is asked."""
    old, new = "old-key-0123456789", "new-key-0123456789"
    async with from_file(tmp_path, BASE + f"auth: {{keys: ['{old} tenant=acme']}}\n") as here:
        reading = Reading()
        monkeypatch.setattr(identity, "static_keys", reading)

        async def asked(key: str) -> int:
            given = {"authorization": f"Bearer {key}"}
            return (await here.http.post(CHAT, json=body(max_tokens=1), headers=given)).status_code

        before = await asked(old)
        assert isinstance(here.gateway.services.running.identify, identity.Identity)
        here.gateway.services.running.identify.adopt_keys(AuthConfig(keys=(f"{new} tenant=acme",)))
        waiting = [asyncio.create_task(asked(key)) for key in (old, new)]
        await eventually(lambda: reading.begun)
        for _ in range(5):  # what came before these has been read
            assert (await here.http.get("/liveness")).status_code == 200
        answered = [each.done() for each in waiting]
        reading.let.release()
        after = await asyncio.gather(*waiting)

    assert (before, answered, after) == (200, [False, False], [401, 200])


@pytest.mark.full
async def test_of_keys_that_are_adopted_one_after_the_other_the_last_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"key-{number}-0123456789" for number in range(4)]
    kinds = [AuthConfig(keys=(f"{key} tenant=acme",)) for key in keys]
    async with from_file(tmp_path, BASE + f"auth: {{keys: ['{keys[0]} tenant=acme']}}\n") as here:
        reading = Reading()
        monkeypatch.setattr(identity, "static_keys", reading)
        known = here.gateway.services.running.identify
        assert isinstance(known, identity.Identity)
        for each in kinds[1:]:
            known.adopt_keys(each)
            await eventually(lambda: reading.begun)
        at_once = list(reading.begun)
        for _ in kinds:
            reading.let.release()
        await known.adopted()
        given = [{"authorization": f"Bearer {key}"} for key in keys]
        statuses = [(await here.http.get("/v1/models", headers=each)).status_code for each in given]

    assert (at_once, reading.begun) == ([kinds[1]], [kinds[1], kinds[3]])
    assert statuses == [401, 401, 401, 200]


@pytest.mark.full
async def test_a_gateway_that_a_program_has_configured_says_that_there_is_nothing_to_read() -> None:
    async with opened() as door:
        told = await door.http.post("/admin/reload", json={})

    assert told.status_code == 400
    assert "program" in told.json()["error"]["message"]


@pytest.mark.full
async def test_a_drained_gateway_finishes_what_it_has_and_takes_nothing_until_it_is_asked_to() -> None:
    slow = SimulatorConfig(timing=Timing(decode_rate=50))
    async with opened() as door, SimulatedEngine(slow) as engine:
        gateway = door.house.gateway
        await gateway.services.running.roster.drain(next(iter(gateway.registry)).name)
        await gateway.services.running.roster.add(
            attrs.evolve(next(iter(gateway.registry)).spec, url=engine.target, name="slow"), "admin"
        )
        await eventually(lambda: gateway.registry.get("slow").state == "ready")  # type: ignore[union-attr]
        answer = asyncio.create_task(door.house.http.post(CHAT, json=body(max_tokens=20)))
        await eventually(lambda: engine.active)
        at_once = await door.http.post("/admin/drain", json={})
        refused = await door.house.http.post(CHAT, json=body())
        readiness = await door.http.get("/admin/readiness")
        in_the_end = await door.http.post("/admin/drain", json={"wait_s": 60})
        done = await answer
        again = await door.http.post("/admin/undrain", json={})
        taken = await door.house.http.post(CHAT, json=body(max_tokens=1))

    assert at_once.json() == {"taking": False, "left": 1}
    assert (refused.status_code, readiness.status_code) == (503, 503)
    assert refused.headers["retry-after"] == "1"
    assert in_the_end.json() == {"taking": False, "left": 0}
    assert again.json() == {"taking": True, "left": 0}
    assert (done.status_code, taken.status_code) == (200, 200)


async def test_the_log_s_level_is_another_one_for_a_while() -> None:
    clock = FakeClock()
    root = logging.getLogger()
    before = root.level
    try:
        gateway = Gateway(clock=clock, call_later=lambda s, call: clock.call_at(clock.monotonic() + s, call))  # type: ignore[arg-type,return-value]
        await gateway.start()
        control = Control(gateway, table())
        await control.set_log_level("debug", 30)
        during, until = root.level, control.log_level.until
        clock.advance(29)
        still = root.level
        clock.advance(2)
        after = root.level, control.log_level.until
        await gateway.stop()
    finally:
        root.setLevel(before)

    assert (during, still) == (logging.DEBUG, logging.DEBUG)
    assert until == pytest.approx(clock.time() - 1, abs=1.5)
    assert after == (logging.INFO, None)


@pytest.mark.full
async def test_models_policies_settings_and_the_log_s_level_are_shown_to_who_may_see_them() -> None:
    async with opened(auth=KEYS) as door:
        await door.house.http.post(
            CHAT, json=body(max_tokens=1), headers={"authorization": "Bearer user-key-0123456789"}
        )
        paths = ("/admin/models", "/admin/policies", "/admin/config", "/admin/log-level")
        admin = {"authorization": "Bearer admin-key-0123456789"}
        shown: dict[str, Any] = {path: (await door.http.get(path, headers=admin)).json() for path in paths}
        refused = [
            (await door.http.get(path, headers={"authorization": "Bearer user-key-0123456789"})).status_code
            for path in paths
        ]

    assert refused == [403] * len(paths)
    (model,) = shown["/admin/models"]["models"]
    assert (model["name"], model["ready"], model["door"]) == ("sim", 1, "ids")
    assert shown["/admin/policies"]["policies"] == [
        {"model": "sim", "role": "regular", "policy": "round_robin", "ready": 1}
    ]
    assert shown["/admin/log-level"]["level"] == "info"
    keys = next(row for row in shown["/admin/config"]["settings"] if row["path"] == "auth.keys")
    assert keys["value"] == "***"
    assert "admin-key" not in str(shown)
