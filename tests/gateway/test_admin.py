"""The admin door: what it tells, who is let in, and that nothing of it is on the public listener."""

import asyncio
import json
import logging
import os
import signal
import socket
import stat
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.authority import Authority
from tests.gateway.conftest import JSON, House, over_http
from tests.gateway.test_serve import QUICK, read, start
from tests.shared import PATIENCE

from smg_core.admin.app import AdminApp, admin_table
from smg_core.admin.settings import AdminConfig
from smg_core.auth.settings import AuthConfig
from smg_core.cli import main
from smg_core.config.config import Config
from smg_core.observability.settings import ObservabilityConfig
from smg_core.operation.process_table import ProcessTable
from smg_core.routing.settings import RoutingConfig
from smg_core.server.admin_listener import admin_listener, close_listener
from smg_core.server.admin_server import administered
from smg_core.server.tls.settings import TlsConfig
from smg_core.settings import ConfigError
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

ADMIN, USER, ISSUER = "admin-key-0123456789", "user-key-0123456789", "issuer-key-0123456789"
KEYS = AuthConfig(keys=(f"{ADMIN} tenant=ops principal=root role=admin", f"{USER} tenant=acme"))


def table() -> ProcessTable:
    return ProcessTable(array("q", bytes(8 * ProcessTable.size(1))))


@attrs.define
class Door:
    """A gateway with its admin door, and a client of that."""

    house: House
    http: httpx.AsyncClient


@asynccontextmanager
async def opened(admin: AdminConfig | None = None, **sections: Any) -> AsyncIterator[Door]:
    config = Config(admin=admin or AdminConfig(port=0), **sections)
    listener = admin_listener(config)
    assert listener is not None
    name = listener.getsockname()
    base, transport = "http://localhost", httpx.AsyncHTTPTransport(uds=name) if isinstance(name, str) else None
    if transport is None:
        base = f"http://127.0.0.1:{name[1]}"
    try:
        async with (
            over_http(config=config) as house,
            administered(house.gateway, config, listener, table()),
            httpx.AsyncClient(base_url=base, transport=transport, timeout=PATIENCE, trust_env=False) as http,
        ):
            yield Door(house, http)
    finally:
        close_listener(config, listener)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


# ------------------------------------------------------------------------------------------------------------------ routes


@pytest.mark.full
async def test_the_door_tells_how_the_gateway_is() -> None:
    async with opened() as door:
        health = (await door.http.get("/admin/health")).json()
        ready = await door.http.get("/admin/readiness")
        described = (await door.http.get("/admin/openapi.json")).json()

    assert health["models"] == ["sim"]
    assert health["workers"] == {"ready": 1}
    assert ready.status_code == 200
    assert set(described["paths"]) >= {"/admin/health", "/admin/openapi.json"}


@pytest.mark.full
async def test_the_door_tells_why_an_engine_got_a_request_and_nothing_of_what_was_asked() -> None:
    body = {"model": "sim", "messages": [{"role": "user", "content": "a word that nobody else says"}], "max_tokens": 2}
    sections = {"routing": RoutingConfig(policy="cache_aware"), "observability": ObservabilityConfig(explain=True)}
    async with opened(**sections) as door:
        answer = await door.house.http.post("/v1/chat/completions", json=body, headers={"x-smg-explain": "1"})
        told = await door.http.get(f"/admin/decisions/{answer.json()['id']}")
        unknown = await door.http.get("/admin/decisions/chatcmpl-nobody")

    (decision,) = told.json()["decisions"]
    assert (decision["policy"], decision["why"], decision["attempt"]) == ("cache_aware", "least to do", 1)
    assert decision["worker"] == decision["candidates"][0]["name"]
    assert len(decision["scores"]) == len(decision["candidates"]) == 1
    assert "nobody else" not in told.text
    assert json.loads(answer.headers["x-smg-explain"])["why"] == "least to do"
    assert unknown.status_code == 404


@pytest.mark.full
async def test_no_path_of_the_door_is_on_the_public_listener_and_none_of_the_public_ones_is_at_the_door() -> None:
    async with opened() as door:
        app = AdminApp(door.house.gateway, table())
        admin = {route.pattern.replace("{id}", "x") for route in app.routes}
        public = {route.pattern for route in door.house.gateway.asgi().routes if "{" not in route.pattern}
        outside = [await door.house.http.get(path) for path in admin]
        inside = [await door.http.get(path) for path in public]

    assert len(admin) > 3
    assert all(path.startswith("/admin/") for path in admin)
    assert {answer.status_code for answer in outside} == {404}
    assert {answer.status_code for answer in inside} == {404}


TRICKS = (
    "//admin/health",
    "/admin//health",
    "/Admin/Health",
    "/admin/health;x=1",
    "/admin;/health",
    "/%61dmin/health/..",
    "/admin%2fhealth",
    "/admin/%2e%2e/admin/health",
    "/v1/../admin/health",
    "/v1/models/../../admin/health",
    "/./admin/health",
    "/admin/health%00",
    "/admin/health%2f",
    "/admin/health//",
    "\\admin\\health",
    "http://localhost/admin/health",
)


async def raw(port: int, target: str, headers: str = "host: localhost\r\n") -> bytes:
    """What a listener says to a request whose target nobody has touched."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\n{headers}connection: close\r\n\r\n".encode())
    said = await reader.read()
    writer.close()
    return said


@pytest.mark.full
async def test_no_way_of_writing_a_path_leads_from_the_public_listener_to_the_door_or_around_its_permissions() -> None:
    async with opened(auth=KEYS) as door:
        outside = int(door.house.url.rpartition(":")[2])
        inside = door.http.base_url.port or 0
        for target in ("/admin/health", *TRICKS):
            said = await raw(outside, target, f"host: localhost\r\nauthorization: Bearer {ADMIN}\r\n")
            assert int(said.split(b" ")[1]) in (400, 404), target
            assert b'"processes"' not in said
            said = await raw(inside, target)
            assert int(said.split(b" ")[1]) in (400, 401, 404), target


async def test_every_route_of_the_door_is_for_probes_or_needs_a_permission_of_admins() -> None:
    async with opened() as door:
        routes = admin_table(door.house.gateway, table()).routes

    public = {route.pattern for route in routes if route.target.public}
    assert public == {"/admin/liveness", "/admin/readiness"}
    assert all(route.target.needs.startswith("admin.") for route in routes if not route.target.public)
    assert all(route.target.reads_json for route in routes if route.method not in ("GET", "DELETE"))


# ------------------------------------------------------------------------------------------------------------- who is let in


@pytest.mark.full
async def test_only_who_has_the_permission_is_let_in(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(auth=KEYS) as door:
        answers = [
            await door.http.get("/admin/health", headers=headers)
            for headers in ({}, bearer("wrong-key-0123456789"), bearer(USER), bearer(ADMIN))
        ]
        probes = [await door.http.get(f"/admin/{name}") for name in ("liveness", "readiness")]

    assert [answer.status_code for answer in answers] == [401, 401, 403, 200]
    assert [answer.status_code for answer in probes] == [200, 200]
    told = [each.message for each in caplog.records if each.name == "smg.audit"]
    assert any("PermissionDenied" in line and "acme" in line for line in told)
    assert not any(key in line for line in caplog.messages for key in (ADMIN, USER, "wrong-key"))


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "admin"])
async def test_a_page_whose_name_points_here_is_refused(host: str) -> None:
    async with opened() as door:
        answers = [await door.http.get("/admin/health", headers={"host": each}) for each in (host, f"{host}:80")]
        good = await door.http.get("/admin/health", headers={"host": "localhost:4711"})

    assert [answer.status_code for answer in answers] == [403, 403]
    assert good.status_code == 200


@pytest.mark.full
async def test_no_page_may_read_what_the_door_says() -> None:
    server = attrs.evolve(Config().server, cors_origins=("*",), allowed_hosts=("*",))
    async with opened(server=server) as door:
        answer = await door.http.get("/admin/health", headers={"origin": "https://evil.example"})
        preflight = await door.http.options("/admin/health", headers={"origin": "https://evil.example"})

    assert "access-control-allow-origin" not in answer.headers
    assert preflight.status_code == 405


@pytest.mark.full
async def test_the_socket_is_for_the_gateways_user_alone_and_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    async with opened(AdminConfig(socket=str(path))) as door:
        mode = stat.S_IMODE(path.stat().st_mode)
        health = await door.http.get("/admin/health")

    assert mode == 0o600
    assert health.status_code == 200
    assert not path.exists()


def test_a_socket_that_a_dead_gateway_left_is_taken_away_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    config = Config(admin=AdminConfig(socket=str(path)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    first = admin_listener(config)
    with pytest.raises(ConfigError, match="somebody listens"):
        admin_listener(config)
    close_listener(config, first)
    path.write_text("notes")
    with pytest.raises(ConfigError, match="no socket"):
        admin_listener(config)
    assert path.read_text() == "notes"


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({"admin": AdminConfig(port=0, host="0.0.0.0")}, "nobody there is asked"),
        ({"admin": AdminConfig(port=0, host="0.0.0.0"), "auth": KEYS}, "set admin.tls"),
        ({"admin": AdminConfig(port=0, tls=True)}, "tls.cert names no certificate"),
        ({"admin": AdminConfig(port=0, socket="/tmp/x")}, "at one of them"),
    ],
)
def test_a_door_that_would_be_open_to_others_stops_the_start(sections: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        admin_listener(Config(**sections))


def test_there_is_no_door_by_default() -> None:
    assert admin_listener(Config()) is None


@pytest.mark.full
async def test_the_door_speaks_tls_where_it_is_told_to(tmp_path: Path) -> None:
    authority = Authority()
    cert, key = authority.server().write(tmp_path, "server")
    async with opened(AdminConfig(port=0, tls=True), tls=TlsConfig(cert=cert, key=key)) as door:
        plain = await door.http.get("/admin/liveness")

    assert plain.status_code == 400
    assert "https" in plain.text


# ------------------------------------------------------------------------------------------------------------------- keys


VIRTUAL = attrs.evolve(KEYS, virtual_keys=True)


@pytest.mark.full
async def test_a_key_is_made_rotated_with_overlap_expired_and_revoked_at_the_door(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "smg.audit")
    async with opened(auth=VIRTUAL) as door:
        admin, models = {**bearer(ADMIN), **JSON}, "/v1/models"

        async def status(key: str) -> int:
            return (await door.house.http.get(models, headers=bearer(key))).status_code

        made = await door.http.post("/admin/keys", json={"tenant": "acme", "name": "ci"}, headers=admin)
        first, path = made.json()["key"], f"/admin/keys/{made.json()['id']}"
        good = await status(first)
        second = (await door.http.post(f"{path}/rotate", json={"overlap_s": 600}, headers=admin)).json()["key"]
        both = [await status(first), await status(second)]
        third = (await door.http.post(f"{path}/rotate", json={}, headers=admin)).json()["key"]
        one = [await status(first), await status(second), await status(third)]
        expired = await door.http.post(f"{path}/expire", json={"expires_at": 1}, headers=admin)
        over = await status(third)
        await door.http.post(f"{path}/expire", json={"expires_at": None}, headers=admin)
        again = await status(third)
        revoked = await door.http.post(f"{path}/revoke", json={}, headers=admin)
        after = await status(third)
        listed = await door.http.get("/admin/keys", headers=admin)
        shown = await door.http.get(f"/admin/keys/{made.json()['prefix']}", headers=admin)
        texts = [made.text, expired.text, revoked.text, listed.text, shown.text]

    assert (made.status_code, good, both, one) == (201, 200, [200, 200], [401, 401, 200])
    assert made.headers["cache-control"] == "no-store"
    assert (expired.json()["status"], over, again) == ("expired", 401, 200)
    assert (revoked.json()["status"], after) == ("revoked", 401)
    assert [key["status"] for key in listed.json()["data"]] == ["revoked"]
    assert shown.json()["name"] == "ci"
    assert not any(key in text for key in (first, second, third) for text in [*texts[1:], *caplog.messages])
    assert sum("by ops/root" in each.message for each in caplog.records if each.name == "smg.audit") == 6


@pytest.mark.full
async def test_who_may_make_keys_makes_no_admin_of_itself() -> None:
    keys = attrs.evolve(
        VIRTUAL,
        keys=(*VIRTUAL.keys, f"{ISSUER} tenant=ops principal=issuer role=issuer"),
        roles=("issuer=admin.keys", "watcher=admin.health models"),
    )
    async with opened(auth=keys) as door:

        async def post(path: str, key: str, **body: Any) -> httpx.Response:
            return await door.http.post(path, json=body, headers=bearer(key))

        root = (await post("/admin/keys", ADMIN, tenant="ops", roles=["admin"])).json()["id"]
        refused = [
            await post("/admin/keys", ISSUER, tenant="ops", roles=["admin"]),
            await post("/admin/keys", ISSUER, tenant="ops", roles=["user", "watcher"]),
            await post(f"/admin/keys/{root}/rotate", ISSUER),
            await post(f"/admin/keys/{root}/expire", ISSUER, expires_at=None),
        ]
        usual = await post("/admin/keys", ISSUER, tenant="acme")
        same = await post("/admin/keys", ISSUER, tenant="acme", roles=["issuer", "user"])
        rotated = await post(f"/admin/keys/{usual.json()['id']}/rotate", ISSUER)
        revoked = await post(f"/admin/keys/{root}/revoke", ISSUER)

    assert [each.status_code for each in refused] == [403] * 4
    assert all("admin." in each.text and "smg_" not in each.text for each in refused)
    assert [each.status_code for each in (usual, same, rotated, revoked)] == [201, 201, 200, 200]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/admin/keys", {"tenant": "a\nb"}, "tenant"),
        ("/admin/keys", {"tenant": "a", "principal": " b"}, "principal"),
        ("/admin/keys", {"tenant": "a", "name": "x" * 256}, "name"),
        ("/admin/keys", {}, "tenant"),
        ("/admin/keys", {"tenant": 5}, "tenant"),
        ("/admin/keys", {"tenant": "a", "colour": "red"}, "colour"),
        ("/admin/keys", {"tenant": "a", "roles": ["rooot"]}, "roles"),
        ("/admin/keys", {"tenant": "a", "expires_at": 1}, "expires_at"),
        ("/admin/keys", {"tenant": "x" * 300}, "tenant"),
        ("/admin/keys/x/rotate", {"overlap_s": -1}, "overlap_s"),
        ("/admin/keys/x/revoke", {"why": "because"}, "why"),
    ],
)
async def test_what_is_wrong_with_a_body_is_said_by_name(path: str, body: dict[str, Any], param: str) -> None:
    async with opened(auth=VIRTUAL) as door:
        answer = await door.http.post(path, json=body, headers=bearer(ADMIN))

    assert answer.status_code == 400
    assert param in answer.text


@pytest.mark.full
async def test_keys_are_for_admins_and_only_where_they_are_on() -> None:
    async with opened(auth=VIRTUAL) as door:
        made = await door.http.post("/admin/keys", json={"tenant": "t"}, headers=bearer(USER))
        listed = await door.http.get("/admin/keys", headers=bearer(USER))
        form = await door.http.post(
            "/admin/keys", content=b"{}", headers={**bearer(ADMIN), "content-type": "text/plain"}
        )
        large = await door.http.post("/admin/keys", json={"tenant": "x" * 100_000}, headers=bearer(ADMIN))
        unknown = await door.http.post("/admin/keys/0123456789abcdef/revoke", json={}, headers=bearer(ADMIN))
        limits = [
            await door.http.get(f"/admin/keys?limit={each}", headers=bearer(ADMIN)) for each in ("0", "x", "99999")
        ]
    async with opened(auth=KEYS) as door:
        off = await door.http.get("/admin/keys", headers=bearer(ADMIN))

    assert [made.status_code, listed.status_code, form.status_code, large.status_code] == [403, 403, 415, 413]
    assert unknown.status_code == 404
    assert {answer.status_code for answer in limits} == {400}
    assert off.status_code == 400
    assert "auth.virtual_keys" in off.text


# ------------------------------------------------------------------------------------------------------------ command line


@pytest.mark.full
async def test_the_command_line_makes_rotates_lists_and_revokes_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, key_file = tmp_path / "admin.sock", tmp_path / "key"
    key_file.write_text(ADMIN + "\n")
    monkeypatch.setenv("SMG_ADMIN", f"unix:{path}")

    async def run(*words: str) -> Any:
        assert await asyncio.to_thread(main, [*words, "--key-file", str(key_file)]) == 0
        return json.loads(capsys.readouterr().out)

    async with opened(AdminConfig(socket=str(path)), auth=VIRTUAL) as door:
        made = await run("keys", "create", "--tenant", "acme", "--role", "user", "--model", "sim")
        rotated = await run("keys", "rotate", made["prefix"], "--overlap", "60")
        good = [await door.house.http.get("/v1/models", headers=bearer(each["key"])) for each in (made, rotated)]
        expired = await run("keys", "expire", made["id"], "--at", "1")
        listed = await run("keys", "list")
        revoked = await run("keys", "revoke", made["id"])
        shown = await run("keys", "show", made["id"])
        health = await run("health")
        refused = await asyncio.to_thread(main, ["keys", "list"])
        said = capsys.readouterr().err

    assert [answer.status_code for answer in good] == [200, 200]
    assert (expired["status"], revoked["status"], shown["status"]) == ("expired", "revoked", "revoked")
    assert [key["id"] for key in listed["data"]] == [made["id"]]
    assert health["models"] == ["sim"]
    assert refused == 1
    assert "401" in said


def test_a_door_that_is_not_named_or_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health"]) == 2
    assert main(["health", "--admin", "http://127.0.0.1:1"]) == 1
    said = capsys.readouterr().err

    assert "SMG_ADMIN" in said
    assert "cannot be asked" in said


# -------------------------------------------------------------------------------------------------------------- processes


@pytest.mark.full
async def test_with_several_processes_one_has_the_door_and_tells_of_all(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    async with SimulatedEngine(QUICK) as engine:
        arguments = ("--port", "0", "--processes", "2", "--admin-socket", str(path))
        process = await start("--worker", engine.target, *arguments)
        log: list[str] = []
        reading = asyncio.create_task(read(process, log))
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(base_url="http://localhost", transport=transport, timeout=PATIENCE) as http:
            first = await health_of(http, 2)
            os.kill(first[0], signal.SIGKILL)  # the one with the door: it is replaced, and the door comes back
            second = await health_of(http, 2, without=first[0])
        process.terminate()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
        await reading

    assert len(set(first)) == 2
    assert first[1] == second[1]
    assert any("the admin door is at unix:" in line for line in log)
    assert not path.exists()


async def health_of(http: httpx.AsyncClient, ready: int, without: int = 0) -> list[int]:
    """The ids of the processes, once so many are ready."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                told = (await http.get("/admin/health")).json()["processes"]
            except httpx.TransportError:
                told = []
            pids = [each["pid"] for each in told if each["status"] == "ready"]
            if len(pids) == ready and without not in pids:
                return pids
            await asyncio.sleep(0.05)
