"""A response in the background is there as long as somebody works on it, in every store, and ends once however long it waited."""

import asyncio
import itertools
from typing import Any

import attrs
import msgspec
import pytest
from tests.gateway.pending_responses import ID, LEASE, TENANT, Waiting, Worker
from tests.history.conformance import Backend

from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.background.states import REQUEST, RUNNING
from smg_core.history.memory.store import MemoryStore
from smg_core.history.store.base import AppendEvents, ExtendExpiry, PutResponse, StaleVersion
from smg_core.http.settings import ResponsesConfig
from smg_core.testing import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(keep=2)]

PENDING = 100.0
SETTINGS = ResponsesConfig(lease_s=LEASE, poll_s=0.01, pending_s=PENDING)


@pytest.fixture
async def waiting(store: Backend, clock: FakeClock) -> Waiting:
    waiting = Waiting(store, clock, SETTINGS)
    await waiting.create()
    return waiting


async def taken(waiting: Waiting) -> Worker:
    pending = await waiting.pending("one")
    assert pending is not None
    worker = await waiting.taken(pending)
    assert worker is not None
    return worker


async def stream_of(store: Backend) -> list[Any]:
    return [msgspec.json.decode(event.data) for event in await store.events(TENANT, ID)]


@pytest.mark.full
async def test_a_run_is_not_lost_however_long_it_takes(waiting: Waiting, store: Backend, clock: FakeClock) -> None:
    worker = await taken(waiting)
    await worker.begins()
    for _ in range(int(5 * PENDING / (LEASE / 2))):
        clock.advance(LEASE / 2)
        await worker.pending.look()
        await store.sweep()
        assert not worker.pending.lost
        assert await waiting.pending("two") is None
    await worker.says("late")
    await worker.ends()

    check_stream(await stream_of(store))
    found = await store.response(TENANT, ID)
    assert found is not None
    assert (found.status, found.pending) == ("completed", False)
    for kind in (RUNNING, REQUEST):
        assert await store.record(TENANT, kind, ID) is None


async def test_what_has_waited_longer_than_it_may_is_taken_and_its_stream_goes_on(
    waiting: Waiting, store: Backend, clock: FakeClock
) -> None:
    before = await stream_of(store)
    clock.advance(1.9 * PENDING)
    await store.sweep()
    worker = await taken(waiting)
    clock.advance(LEASE / 2)
    await worker.begins()
    await worker.ends()

    events = await stream_of(store)
    assert events[: len(before)] == before
    check_stream(events)
    assert await store.abandoned("response") == ()


async def test_a_response_whose_request_is_gone_fails_once_and_nobody_takes_it_again(
    waiting: Waiting, store: Backend, clock: FakeClock
) -> None:
    """As where the response is kept for longer than it may wait, and no process was there for as long."""
    found = await store.response(TENANT, ID)
    assert found is not None
    await store.write(TENANT, [PutResponse(attrs.evolve(found, expires_at=None))])
    clock.advance(2.5 * PENDING)
    pending = await waiting.pending("one")
    assert pending is not None
    await pending.look()
    assert not pending.lost
    assert await pending.read() is None
    await pending.clear()

    found = await store.response(TENANT, ID)
    assert found is not None
    assert (found.status, found.pending) == ("failed", False)
    assert await waiting.pending("two") is None


async def test_a_run_that_keeps_meeting_conflicts_is_begun_again_at_intervals(clock: FakeClock) -> None:
    class Conflicting(MemoryStore):
        """A store in which another process is always faster."""

        async def write(self, tenant: str, operations: Any, **more: Any) -> None:
            if not isinstance(operations[0], PutResponse | AppendEvents) or operations[0].if_version == 0:
                await super().write(tenant, operations, **more)
            else:
                raise StaleVersion(ID)

    store = Conflicting(clock, most_bytes=1 << 24, most_links=9, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    taken: list[float] = []
    acquire = store.acquire

    async def counted(*given: Any) -> Any:
        taken.append(clock.monotonic())
        return await acquire(*given)

    store.acquire = counted  # type: ignore[method-assign]
    waiting = Waiting(store, clock, SETTINGS)
    await waiting.create()
    background = waiting.background
    begun = clock.monotonic()
    for _ in range(5):
        await background._take()
        await asyncio.gather(*background._runs.values())
    clock.advance(LEASE + 1)
    await background._take()
    await asyncio.gather(*background._runs.values())

    assert taken == [begun, begun + LEASE + 1]


async def test_what_is_kept_longer_is_written_seldom(waiting: Waiting, store: Backend, clock: FakeClock) -> None:
    writes: list[float] = []
    write = store.write

    async def counted(tenant: str, operations: Any, **more: Any) -> None:
        if isinstance(operations[0], ExtendExpiry):
            writes.append(clock.monotonic())
        await write(tenant, operations, **more)

    store.write = counted  # type: ignore[method-assign]
    worker = await taken(waiting)
    began = clock.monotonic()
    for _ in range(200):
        clock.advance(LEASE / 15)
        await worker.pending.look()

    gaps = [later - at for at, later in itertools.pairwise([began, *writes])]
    assert len(gaps) == 7
    assert min(gaps) >= PENDING / 2


async def test_a_response_is_begun_so_often_and_then_fails(store: Backend, clock: FakeClock) -> None:
    waiting = Waiting(store, clock, attrs.evolve(SETTINGS, runs=3))
    await waiting.create()
    for _ in range(3):
        worker = await taken(waiting)
        await worker.begins()
        await worker.says("so far ")
        clock.advance(LEASE + 1)  # its process was killed
    pending = await waiting.pending("last")
    assert pending is not None
    assert await waiting.taken(pending) is None

    found = await store.response(TENANT, ID)
    assert found is not None
    assert (found.status, found.pending) == ("failed", False)
    assert "begun 3 times" in msgspec.json.decode(found.body)["error"]["message"]
    check_stream(await stream_of(store))


async def test_a_run_that_was_put_off_is_not_counted(store: Backend, clock: FakeClock) -> None:
    waiting = Waiting(store, clock, attrs.evolve(SETTINGS, runs=1))
    await waiting.create()
    for _ in range(5):
        worker = await taken(waiting)
        await worker.pending.put_off()
        await worker.pending.clear()
    worker = await taken(waiting)
    await worker.begins()
    await worker.ends()
    found = await store.response(TENANT, ID)
    assert found is not None
    assert found.status == "completed"


async def test_a_cancelled_response_is_not_marked_as_pending_by_the_run_that_begins(
    waiting: Waiting, store: Backend
) -> None:
    pending = await waiting.pending("one")
    assert pending is not None
    assert await pending.read() is not None
    found = await store.response(TENANT, ID)
    assert found is not None
    await waiting.background.cancel(waiting.api, (TENANT, ID), found)
    with pytest.raises(StaleVersion):
        await pending.take()
    assert await store.record(TENANT, RUNNING, ID) is None
