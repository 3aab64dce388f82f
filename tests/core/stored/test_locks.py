"""The locks of conversations: one writer, for as long as it writes, and another once it has died. On a clock of their own."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from smg_core.clock import Handle
from smg_core.errors import SmgError, StoreFailed
from smg_core.history.hooks import Rejected
from smg_core.history.memory.store import MemoryStore
from smg_core.history.store.base import Lease
from smg_core.stored.locks import ConversationLocks
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio

SECONDS = 30.0


class Store(MemoryStore):
    """A store that fails to renew for a while, with `error`: its own, or one of a hook."""

    fails = False
    error: SmgError = StoreFailed("failed", "no disk")

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        if self.fails:
            raise self.error
        return await super().renew(tenant, lease, seconds)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return Store(clock, most_bytes=1 << 20, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)


def locks(store: Store, clock: FakeClock) -> ConversationLocks:
    def call_later(seconds: float, callback: Callable[[], None]) -> Handle:
        return clock.call_at(clock.monotonic() + seconds, callback)

    return ConversationLocks(lambda: store, call_later)


async def passes(clock: FakeClock, seconds: float) -> None:
    """Let time pass second by second, and what it sets off be done."""
    for _ in range(int(seconds)):
        clock.advance(1.0)
        for _ in range(5):
            await asyncio.sleep(0)


async def taken_by_another(store: Store) -> Lease | None:
    return await store.acquire("acme", "conversation", "conv_1", "another", SECONDS)


async def test_a_lock_lasts_as_long_as_its_response_is_made(store: Store, clock: FakeClock) -> None:
    ours = locks(store, clock)
    assert await ours.take("resp_1", "acme", "conv_1", SECONDS)
    assert not await ours.take("resp_2", "acme", "conv_1", SECONDS)
    await passes(clock, 20 * SECONDS)
    assert await taken_by_another(store) is None
    await store.write("acme", [], lease=ours.lease("resp_1"))
    await ours.release("resp_1")
    assert await taken_by_another(store) is not None
    assert clock.next_alarm is None


async def test_the_lock_of_a_process_that_has_died_ends_by_itself(store: Store, clock: FakeClock) -> None:
    died: Any = ConversationLocks(lambda: store, lambda _seconds, _callback: clock.call_at(1e18, lambda: None))
    assert await died.take("resp_1", "acme", "conv_1", SECONDS)
    await passes(clock, SECONDS - 1)
    assert await taken_by_another(store) is None
    await passes(clock, 2)
    assert await taken_by_another(store) is not None


@pytest.mark.parametrize("error", [StoreFailed("failed", "no disk"), Rejected("Not now.")], ids=["store", "hook"])
async def test_a_store_that_fails_for_less_than_the_lock_lasts_does_not_lose_it(
    store: Store, clock: FakeClock, error: SmgError
) -> None:
    ours, store.error = locks(store, clock), error
    await ours.take("resp_1", "acme", "conv_1", SECONDS)
    store.fails = True
    await passes(clock, 0.5 * SECONDS)
    store.fails = False
    await passes(clock, 5 * SECONDS)
    assert await taken_by_another(store) is None
    assert not ours.has_lost("resp_1")


async def test_who_has_lost_the_lock_knows_it_and_writes_nothing_under_it(store: Store, clock: FakeClock) -> None:
    ours = locks(store, clock)
    await ours.take("resp_1", "acme", "conv_1", SECONDS)
    store.fails = True
    await passes(clock, SECONDS + 1)
    theirs = await taken_by_another(store)
    store.fails = False
    await passes(clock, SECONDS / 2)
    assert ours.has_lost("resp_1")
    assert ours.lease("resp_1") is not None
    await ours.release("resp_1")
    assert theirs is not None
    await store.renew("acme", theirs, SECONDS)  # theirs is not touched


class SlowStore(Store):
    """A store that gives a lock, and says so once it may."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, most_bytes=1 << 20, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
        self.given, self.says_so = asyncio.Event(), asyncio.Event()

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        lease = await super().acquire(tenant, kind, id, owner, seconds)
        self.given.set()
        await self.says_so.wait()
        return lease


@pytest.mark.parametrize("says_so_first", [False, True])
async def test_a_lock_that_a_request_took_while_it_was_given_up_is_free_again(
    clock: FakeClock, *, says_so_first: bool
) -> None:
    store = SlowStore(clock)
    ours = locks(store, clock)
    taking = asyncio.create_task(ours.take("resp_1", "acme", "conv_1", SECONDS))
    await store.given.wait()
    if says_so_first:
        store.says_so.set()
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    store.says_so.set()
    for _ in range(10):
        await asyncio.sleep(0)

    assert taking.cancelled()
    assert ours.lease("resp_1") is None
    assert await taken_by_another(store) is not None
    assert clock.next_alarm is None
