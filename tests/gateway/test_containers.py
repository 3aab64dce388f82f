"""Containers and their files by OpenAI's SDK: tenant by tenant, within bounds, and gone when they expire."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.interpreters import small_interpreter

from smg_core import Config
from smg_core.auth.base import Head
from smg_core.containers.settings import ContainersConfig
from smg_core.containers.work import ContainerWork
from smg_core.request import Caller

pytestmark = pytest.mark.anyio


async def by_name(head: Head) -> Caller | None:
    return Caller(head.credential.text) if head.credential is not None else None


@asynccontextmanager
async def houses(tmp_path: Path, **settings: Any) -> AsyncIterator[House]:
    folder = str(small_interpreter(tmp_path / "interpreter"))
    config = Config(containers=ContainersConfig(interpreter=folder, folder=str(tmp_path / "kept"), **settings))
    async with over_http(None, config=config, identity=by_name) as house:
        yield house


@asynccontextmanager
async def sdk(house: House, key: str = "acme") -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key=key, base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with houses(tmp_path_factory.mktemp("shared")) as house:
        yield house


@pytest.mark.full
async def test_a_container_and_its_files_are_made_listed_read_and_removed(tmp_path: Path) -> None:
    async with houses(tmp_path) as house, sdk(house) as client:
        made = await client.containers.create(name="mine", expires_after={"anchor": "last_active_at", "minutes": 5})
        assert (made.object, made.name, made.status) == ("container", "mine", "running")
        assert made.expires_after is not None
        assert made.expires_after.minutes == 5
        put = await client.containers.files.create(made.id, file=("a b.csv", b"1,2"))
        assert (put.path, put.bytes, put.source, put.container_id) == ("/mnt/data/a b.csv", 3, "user", made.id)
        kept = await client.files.create(file=("kept.txt", b"kept"), purpose="user_data")
        copied = await client.containers.files.create(made.id, file_id=kept.id)
        assert copied.path == "/mnt/data/kept.txt"
        listed = [each async for each in client.containers.files.list(made.id, limit=1)]
        assert {each.id for each in listed} == {put.id, copied.id}
        content = await client.containers.files.content.retrieve(put.id, container_id=made.id)
        assert content.read() == b"1,2"
        await client.containers.files.delete(put.id, container_id=made.id)
        with pytest.raises(openai.NotFoundError):
            await client.containers.files.retrieve(put.id, container_id=made.id)
        assert [each.id async for each in client.containers.list()] == [made.id]
        assert (await client.containers.retrieve(made.id)).id == made.id
        await client.containers.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await client.containers.retrieve(made.id)


async def test_files_that_a_container_begins_with_are_copied_or_nothing_is_made(tmp_path: Path) -> None:
    async with houses(tmp_path) as house, sdk(house) as client:
        kept = await client.files.create(file=("kept.txt", b"kept"), purpose="user_data")
        made = await client.containers.create(name="x", file_ids=[kept.id])
        assert [each.path async for each in client.containers.files.list(made.id)] == ["/mnt/data/kept.txt"]
        with pytest.raises(openai.BadRequestError) as found:
            await client.containers.create(name="x", file_ids=["file-none"])
        assert found.value.param == "file_ids[0]"
        assert len([each async for each in client.containers.list()]) == 1


async def test_a_container_of_another_tenant_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async with houses(tmp_path) as house, sdk(house) as client, sdk(house, "other") as other:
        made = await client.containers.create(name="mine")
        put = await client.containers.files.create(made.id, file=("a", b"1"))
        for call in (
            other.containers.retrieve(made.id),
            other.containers.delete(made.id),
            other.containers.files.retrieve(put.id, container_id=made.id),
            other.containers.files.content.retrieve(put.id, container_id=made.id),
            other.containers.files.create(made.id, file=("a", b"1")),
        ):
            with pytest.raises(openai.NotFoundError):
                await call
        assert [each async for each in other.containers.list()] == []


async def test_containers_of_a_tenant_and_bytes_of_one_are_bounded(tmp_path: Path) -> None:
    async with houses(tmp_path, tenant=1, file_bytes=1 << 20) as house, sdk(house) as client:
        made = await client.containers.create(name="mine")
        with pytest.raises(openai.RateLimitError):
            await client.containers.create(name="one more")
        async with sdk(house, "other") as other:
            await other.containers.create(name="of another")
        await client.containers.files.create(made.id, file=("a", b"x" * 700_000))
        with pytest.raises(openai.BadRequestError) as found:
            await client.containers.files.create(made.id, file=("b", b"x" * 700_000))
        assert found.value.code == "container_full"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "name"),
        ({"name": "x", "memory_limit": "64g"}, "memory_limit"),
        ({"name": "x", "memory_limit": "2g"}, "memory_limit"),
        ({"name": "x", "network_policy": {"type": "allowlist", "allowed_domains": ["a"]}}, "network_policy.type"),
        ({"name": "x", "expires_after": {"anchor": "created_at", "minutes": 5}}, "expires_after.anchor"),
        ({"name": "x", "skills": [{"type": "skill_reference"}]}, "skills"),
        ({"name": "x", "unknown": 1}, "unknown"),
    ],
)
async def test_what_a_container_cannot_have_is_refused_by_name(shared: House, fields: Any, param: str) -> None:
    found = await shared.http.post("/v1/containers", json=fields, headers={"authorization": "Bearer acme"})
    assert found.status_code == 400
    assert found.json()["error"]["param"] == param


@pytest.mark.parametrize("id", ["cntr_", "cntr_" + "0" * 32, "cntr_%2e%2e%2f", "cntr_" + "g" * 32, "a" * 5000])
async def test_an_id_that_is_none_is_not_found(shared: House, id: str) -> None:
    found = await shared.http.get(f"/v1/containers/{id}/files", headers={"authorization": "Bearer acme"})
    assert found.status_code in (404, 414)


async def test_a_container_that_nobody_uses_expires_and_a_sweep_removes_it(tmp_path: Path) -> None:
    async with houses(tmp_path, idle_s=60) as house, sdk(house) as client:
        made = await client.containers.create(name="mine")
        containers = (await ContainerWork.of(house.gateway.services).rooms()).containers
        about = next((tmp_path / "kept").rglob("about.json"))
        os.utime(about, (1, 1))
        with pytest.raises(openai.NotFoundError):
            await client.containers.retrieve(made.id)
        containers._swept()
        assert not about.parent.exists()


async def test_a_gateway_without_an_interpreter_has_no_containers(tmp_path: Path) -> None:
    async with over_http() as house:
        found = await house.http.post("/v1/containers", json={"name": "x"})
        assert found.status_code == 404
        assert "containers.interpreter" in found.json()["error"]["message"]


@pytest.mark.full
async def test_a_gateway_whose_interpreter_is_not_there_says_so_to_the_operator(tmp_path: Path) -> None:
    config = Config(containers=ContainersConfig(interpreter=str(tmp_path), folder=str(tmp_path / "kept")))
    async with over_http(None, config=config) as house:
        found = await house.http.post("/v1/containers", json={"name": "x"})
        assert found.status_code == 424
        assert str(tmp_path) not in found.text
