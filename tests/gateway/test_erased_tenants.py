"""A tenant is erased at the admin door: what the history and the cache of answers have of it is gone, and nothing of others."""

import asyncio
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.test_admin import ADMIN, bearer, opened
from tests.gateway.test_roster_processes import processes
from tests.gateway.test_serve import QUICK, serving
from tests.shared import PATIENCE

from smg_core.auth.settings import AuthConfig
from smg_core.response_cache.settings import ResponseCacheConfig

pytestmark = pytest.mark.anyio

TENANTS = {name: bearer(f"key-of-{name}-0123456789") for name in ("acme", "other")}
KEYS = AuthConfig(
    keys=(
        *(f"key-of-{name}-0123456789 tenant={name}" for name in TENANTS),
        f"{ADMIN} tenant=ops role=admin",
        "key-of-the-clerk-01 tenant=ops role=clerk",
    ),
    roles=("clerk=admin.usage",),
)
ASKED = body("Hello", temperature=0)


async def kept_of(http: httpx.AsyncClient, name: str) -> dict[str, str]:
    """Something of each kind that is kept for a tenant, by its path."""
    headers = TENANTS[name]
    response = await http.post("/v1/responses", json={"model": "sim", "input": "Hello"}, headers=headers)
    conversation = await http.post("/v1/conversations", json={}, headers=headers)
    http.headers.pop("content-type", None)
    file = await http.post(
        "/v1/files", data={"purpose": "user_data"}, files={"file": ("a.txt", b"A text.")}, headers=headers
    )
    made = {"responses": response, "conversations": conversation, "files": file}
    assert [each.status_code for each in made.values()] == [200, 200, 200]
    return {kind: f"/v1/{kind}/{answer.json()['id']}" for kind, answer in made.items()}


@pytest.mark.full
async def test_all_that_is_kept_of_a_tenant_goes_and_nothing_of_others() -> None:
    cache = ResponseCacheConfig(kept_s=60)
    async with opened(auth=KEYS, response_cache=cache) as door:
        http, admin = door.house.http, bearer(ADMIN)

        async def cached(name: str) -> str:
            return (await http.post(CHAT, json=ASKED, headers=TENANTS[name])).headers["x-smg-cache"]

        async def there(name: str) -> set[int]:
            return {(await http.get(path, headers=TENANTS[name])).status_code for path in made[name].values()}

        made = {name: await kept_of(http, name) for name in TENANTS}
        before = [await cached(name) for name in (*TENANTS, *TENANTS)], [await there(name) for name in TENANTS]
        erased = await door.http.delete("/admin/history", params={"tenant": "acme"}, headers=admin)
        after = [await there(name) for name in TENANTS], [await cached(name) for name in TENANTS]
        again = await door.http.delete("/admin/history", params={"tenant": "nobody"}, headers=admin)

    assert before == (["miss", "miss", "hit", "hit"], [{200}, {200}])
    assert after == ([{404}, {200}], ["miss", "hit"])
    assert erased.json()["tenant"] == "acme"
    assert erased.json()["deleted"] >= 3
    assert again.json() == {"tenant": "nobody", "deleted": 0}


WRONG: tuple[dict[str, Any] | list[tuple[str, str]], ...] = (
    {},
    {"tenants": "acme"},
    {"tenant": "acme", "user": "alice"},
    [("tenant", "acme"), ("tenant", "other")],
    {"tenant": "~keys"},
    {"tenant": "a\x00b"},
    {"tenant": "a" * 5000},
)


async def test_a_request_that_names_no_one_tenant_erases_nobody() -> None:
    async with opened(auth=AuthConfig(keys=KEYS.keys, roles=KEYS.roles, virtual_keys=True)) as door:
        made = await kept_of(door.house.http, "acme")
        key = await door.http.post("/admin/keys", json={"tenant": "acme", "name": "ada"}, headers=bearer(ADMIN))
        wrong = [await door.http.delete("/admin/history", params=each, headers=bearer(ADMIN)) for each in WRONG]
        clerk = await door.http.delete(
            "/admin/history", params={"tenant": "acme"}, headers=bearer("key-of-the-clerk-01")
        )
        nobody = await door.http.delete("/admin/history", params={"tenant": "acme"})
        keys = (await door.http.get("/admin/keys", headers=bearer(ADMIN))).json()["data"]
        left = [(await door.house.http.get(path, headers=TENANTS["acme"])).status_code for path in made.values()]

    assert [each.status_code for each in wrong] == [400] * len(WRONG)
    assert (clerk.status_code, nobody.status_code) == (403, 401)
    assert key.status_code in (200, 201)
    assert len(keys) == 1
    assert left == [200] * len(made)


async def test_a_history_in_the_memory_of_each_process_is_erased_by_no_one_of_them() -> None:
    async with opened() as door:
        services = door.house.gateway.services
        config = services.live.config
        several = attrs.evolve(
            config,
            server=attrs.evolve(config.server, processes=2),
            history=attrs.evolve(config.history, url="memory:"),
        )
        services.live.config = several
        answer = await door.http.delete("/admin/history", params={"tenant": ""})
    assert answer.status_code == 409
    assert "memory:" in answer.json()["error"]["message"]


@pytest.mark.full
async def test_the_door_erases_in_every_process(tmp_path: Path) -> None:
    place, history = str(tmp_path / "admin.sock"), f"sqlite:///{tmp_path}/history.db"
    more = ("--processes", "2", "--admin-socket", place, "--history", history, "--response-cache-kept-s", "60")
    transport = httpx.AsyncHTTPTransport(uds=place)
    async with (
        serving(QUICK, *more) as served,
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE) as door,
        asyncio.timeout(PATIENCE),
    ):

        async def asked() -> str:
            async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
                return (await http.post(CHAT, json=ASKED)).headers["x-smg-cache"]

        async def known_to_all() -> None:
            """Until many connections in a row find the answer: each process has it."""
            while {await asked() for _ in range(16)} != {"hit"}:
                pass

        while [status for _, status in await processes(door)] != ["ready", "ready"]:
            await asyncio.sleep(0.05)
        path = "/v1/responses"
        kept = (await served.http.post(path, json={"model": "sim", "input": "Hello"})).json()["id"]
        await known_to_all()
        erased = await door.delete("/admin/history", params={"tenant": ""})
        gone = (await served.http.get(f"{path}/{kept}")).status_code
        engine = served.engine.counters["requests"]
        await known_to_all()
        anew = served.engine.counters["requests"] - engine

    assert (erased.status_code, gone) == (200, 404)
    assert erased.json()["deleted"] >= 1
    assert anew == 2  # one in each process
