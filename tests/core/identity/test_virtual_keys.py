"""Virtual keys in two processes that share a store."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs
import pytest

from smg_core.apis import PERMISSIONS
from smg_core.auth.credentials import Credential
from smg_core.auth.roles import Roles
from smg_core.auth.settings import AuthConfig
from smg_core.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound, StoreFailed
from smg_core.history.memory.store import MemoryStore
from smg_core.identity.virtual_keys import VirtualKeys
from smg_core.request import Caller
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio

SETTINGS = AuthConfig(virtual_keys=True, key_fresh_s=0.5, keys_remembered=100)


@attrs.frozen
class Sent:
    """The head of a request with this credential."""

    credential: Credential | None
    method: str = "GET"
    path: str = "/"
    address: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    query: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.define
class Failing:
    """A store that fails while `down`, and counts what is read."""

    store: MemoryStore
    down: bool = False
    reads: int = 0
    held: asyncio.Event | None = None
    held_write: asyncio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def write(self, *arguments: Any, **named: Any) -> None:
        if self.held_write is not None:
            await self.held_write.wait()
        await self.store.write(*arguments, **named)

    async def record(self, *arguments: Any) -> Any:
        self.reads += 1
        if self.held is not None:
            await self.held.wait()
        if self.down:
            raise StoreFailed("unreachable", "no route to the database")
        return await self.store.record(*arguments)


@attrs.define
class World:
    clock: FakeClock
    store: Failing
    here: VirtualKeys
    there: VirtualKeys

    async def caller(self, text: str, process: VirtualKeys | None = None) -> Caller | None:
        """As the gateway asks: what is known first, then the store."""
        keys = process or self.there
        credential = Credential(text)
        return keys.known(credential) or await keys(Sent(credential))

    async def is_good(self, text: str, process: VirtualKeys | None = None) -> bool:
        try:
            return await self.caller(text, process) is not None
        except AuthenticationFailed:
            return False


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = FakeClock()
    store = Failing(
        MemoryStore(clock, most_bytes=1 << 26, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    )
    numbers = itertools.count(1)

    def random(size: int) -> bytes:
        return next(numbers).to_bytes(size, "big")

    made = [VirtualKeys(SETTINGS, store, clock, Roles(["tester=chat"], PERMISSIONS), random) for _ in range(2)]
    yield World(clock, store, *made)
    for each in made:
        await each.close()


async def test_a_key_is_good_in_every_process_as_soon_as_it_is_made(world: World) -> None:
    made = await world.here.create(tenant="acme", name="ci", roles=["tester"], models=["qwen*"])

    for process in (world.here, world.there):
        caller = await world.caller(made.text, process)
        assert caller is not None
        assert (caller.tenant, caller.principal) == ("acme", "ci")
        assert caller.grants.may("chat")
        assert not caller.grants.may("messages")
        assert not caller.grants.may_use("llama")
    assert made.text not in repr(made)


async def test_a_rotated_key_is_good_in_every_process_at_once_and_the_earlier_for_its_overlap(world: World) -> None:
    first = await world.here.create(tenant="acme")
    assert await world.is_good(first.text)
    second = await world.here.rotate(first.key.id, 60.0)

    assert await world.is_good(second.text)
    assert await world.is_good(first.text)
    world.clock.advance(60.0)
    assert not await world.is_good(first.text)
    assert await world.is_good(second.text)


async def test_a_revoked_key_is_refused_here_at_once_and_everywhere_within_the_time(world: World) -> None:
    made = await world.here.create(tenant="acme")
    assert await world.is_good(made.text)
    await world.here.revoke(made.key.id)

    assert not await world.is_good(made.text, world.here)
    world.clock.advance(SETTINGS.key_fresh_s + 0.001)
    assert not await world.is_good(made.text, world.there)


async def test_a_read_while_a_revocation_is_written_does_not_bring_the_key_back(world: World) -> None:
    made = await world.here.create(tenant="acme")
    world.store.held_write = asyncio.Event()
    revoking = asyncio.create_task(world.here.revoke(made.key.id))
    await asyncio.sleep(0)
    world.clock.advance(SETTINGS.key_fresh_s + 0.001)
    assert await world.is_good(made.text, world.here)  # it is read anew, and not revoked yet
    world.store.held_write.set()
    await revoking

    assert not await world.is_good(made.text, world.here)


async def test_a_key_in_use_is_read_anew_beside_its_requests(world: World) -> None:
    made = await world.here.create(tenant="acme")
    assert await world.is_good(made.text)
    before = world.store.reads
    for _ in range(20):
        world.clock.advance(0.2)
        assert world.there.known(Credential(made.text)) is not None  # nobody waits for the store
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert 5 <= world.store.reads - before <= 20


async def test_a_thousand_requests_with_a_cold_key_are_one_read(world: World) -> None:
    made = await world.here.create(tenant="acme")
    world.store.reads = 0

    callers = await asyncio.gather(*(world.caller(made.text) for _ in range(1000)))

    assert None not in callers
    assert world.store.reads == 1


async def test_a_client_that_leaves_while_the_key_is_read_takes_nobody_with_it(world: World) -> None:
    made = await world.here.create(tenant="acme")
    release = asyncio.Event()
    world.store.held = release
    asking = [asyncio.create_task(world.caller(made.text)) for _ in range(10)]
    await asyncio.sleep(0)
    asking[0].cancel()
    release.set()

    callers = await asyncio.gather(*asking, return_exceptions=True)

    assert isinstance(callers[0], asyncio.CancelledError)
    assert all(isinstance(caller, Caller) for caller in callers[1:])


async def test_a_store_that_is_down_lets_nobody_in(world: World) -> None:
    made = await world.here.create(tenant="acme")
    assert await world.is_good(made.text)
    world.store.down = True

    assert await world.is_good(made.text)  # read a moment ago
    world.clock.advance(SETTINGS.key_fresh_s + 0.001)
    with pytest.raises(StoreFailed):
        await world.caller(made.text)
    with pytest.raises(StoreFailed):
        await world.caller(made.text.replace("smg_0", "smg_f"))
    world.store.down = False
    assert await world.is_good(made.text)


async def test_texts_that_are_no_virtual_key_are_not_looked_up(world: World) -> None:
    for text in ("sk-0123456789abcdef", "smg_", "smg_0123456789abcdef_short", "a.b.c"):
        assert await world.caller(text) is None

    assert world.store.reads == 0


async def test_a_wrong_secret_of_a_key_in_use_is_refused_and_does_not_end_the_key(world: World) -> None:
    made = await world.here.create(tenant="acme")
    assert await world.is_good(made.text)
    guess = made.text[:-1] + ("A" if made.text[-1] != "A" else "B")

    for _ in range(10):
        assert not await world.is_good(guess)
        assert await world.is_good(made.text)


@pytest.mark.full
async def test_ten_thousand_revocations_are_known_and_take_no_memory(world: World) -> None:
    made = [await world.here.create(tenant="acme") for _ in range(10_000)]
    for each in made:
        await world.here.revoke(each.key.id)

    assert not any([await world.is_good(each.text) for each in made[::100]])
    assert len(world.there._remembered) <= SETTINGS.keys_remembered
    assert len(world.here._remembered) <= SETTINGS.keys_remembered


async def test_two_that_rotate_one_key_at_once_both_succeed(world: World) -> None:
    made = await world.here.create(tenant="acme")

    new = await asyncio.gather(*(keys.rotate(made.key.id, 60.0) for keys in (world.here, world.there)))

    assert all([await world.is_good(each.text) for each in (made, *new)])


async def test_a_revocation_beside_a_rotation_stands(world: World) -> None:
    made = await world.here.create(tenant="acme")

    done = await asyncio.gather(
        world.here.rotate(made.key.id, 60.0), world.there.revoke(made.key.id), return_exceptions=True
    )

    assert (await world.here.get(made.key.id)).status(world.clock.time()) == "revoked"
    assert all(not isinstance(each, BaseException) or isinstance(each, Conflict) for each in done)


async def test_keys_are_listed_newest_first_and_in_pages(world: World) -> None:
    ids = []
    for _ in range(5):
        world.clock.advance(1.0)
        ids.append((await world.here.create(tenant="acme")).key.id)

    first = await world.there.list_page(limit=3)
    rest = await world.there.list_page(after=first.data[-1].id, limit=3)

    assert [key.id for key in (*first.data, *rest.data)] == ids[::-1]
    assert first.has_more
    assert not rest.has_more


async def test_what_cannot_be_is_refused_by_name(world: World) -> None:
    for wrong in ({"tenant": ""}, {"tenant": "a", "roles": ["usr"]}, {"tenant": "a", "expires_at": 1.0}):
        with pytest.raises(InvalidRequest):
            await world.here.create(**wrong)  # type: ignore[arg-type]
    for id in ("0123456789abcdef", "", "../etc", "x" * 5000, "\0"):
        with pytest.raises(NotFound):
            await world.here.revoke(id)


async def test_a_key_whose_role_is_gone_is_refused(world: World) -> None:
    made = await world.here.create(tenant="acme", roles=["tester"])
    later = VirtualKeys(SETTINGS, world.store, world.clock, Roles((), PERMISSIONS))

    with pytest.raises(AuthenticationFailed, match="role"):
        await world.caller(made.text, later)
    await later.close()
