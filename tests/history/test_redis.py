"""What is Redis's own: another process may write between the steps of a write, and of a sweep."""

import asyncio
import contextlib
from typing import Any

import attrs
import pytest
from tests.history.conformance import conversation, record, response
from tests.history.conftest import opens_redis
from tests.shared import PATIENCE

from smg_core.errors import StoreFailed
from smg_core.history.redis.plan import Keys
from smg_core.history.store.base import LEASE_KEPT_S, AppendEvents, DeleteRecord, StoredEvent
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio


def events(clock: FakeClock, expires_at: float) -> AppendEvents:
    return AppendEvents("resp_1", (StoredEvent(1, b"{}"),), expires_at)


THINGS: dict[str, Any] = {
    "a response": lambda clock, until: response(clock, expires_at=until),
    "a conversation": lambda clock, until: conversation(clock, expires_at=until),
    "a record": lambda clock, until: record(clock, "r", expires_at=until),
    "events": events,
}


@attrs.define
class Overtaken:
    """A script that is run after another process has written."""

    script: Any
    before: Any

    async def __call__(self, **arguments: Any) -> Any:
        before, self.before = self.before, None
        if before is not None:
            await before()
        return await self.script(**arguments)


@pytest.mark.parametrize("made", THINGS.values(), ids=THINGS)
async def test_what_is_kept_anew_while_it_is_swept_stays(valkey: str, schema: str, clock: FakeClock, made: Any) -> None:
    async with opens_redis(valkey, f"{schema}:", clock)() as store, opens_redis(valkey, f"{schema}:", clock)() as other:
        await store.write("t", [made(clock, clock.time() + 10)])
        clock.advance(20)
        kept = [made(clock, clock.time() + 10)]
        store._deleting = Overtaken(store._deleting, lambda: other.write("t", kept))  # type: ignore[attr-defined]
        assert await store.sweep() == 0
        found = [
            await store.response("t", "resp_1"),
            await store.conversation("t", "conv_1"),
            await store.record("t", "batch", "r"),
            *await store.events("t", "resp_1"),
        ]
        assert [each is not None for each in found].count(True) == 1
        assert await store.sweep() == 0
        clock.advance(20)
        assert await store.sweep() == 1


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_list_that_changes_while_a_page_is_read_loses_and_doubles_nothing(
    valkey: str, schema: str, clock: FakeClock, newest_first: bool
) -> None:
    """What has expired and was not swept makes a page of several reads."""
    async with opens_redis(valkey, f"{schema}:", clock)() as store:
        names = [f"r_{number}" for number in range(9)]
        for name in names:
            until = None if name in ("r_4", "r_8" if not newest_first else "r_0") else clock.time() + 5
            await store.write("t", [record(clock, name, expires_at=until)])
        clock.advance(10)
        first = names[::-1] if newest_first else names
        gone = iter(first)

        async def changed() -> None:  # the first ones leave the list while it is walked
            await store.write("t", [DeleteRecord("batch", next(gone))])

        loading = store._hashes  # type: ignore[attr-defined]

        async def overtaken(**arguments: Any) -> Any:
            await changed()
            return await loading(**arguments)

        store._hashes = overtaken  # type: ignore[attr-defined]
        page = await store.records("t", "batch", limit=2, newest_first=newest_first)
        assert [each.id for each in page.data] == ["r_4", first[-1]]


@pytest.mark.full
async def test_what_waits_is_found_while_others_end(valkey: str, schema: str, clock: FakeClock) -> None:
    async with opens_redis(valkey, f"{schema}:", clock)() as store, opens_redis(valkey, f"{schema}:", clock)() as other:
        many = [f"r_{number:04}" for number in range(1100)]  # of more than one read
        await store.write("t", [record(clock, name, pending=True) for name in many[:1000]])
        await store.write("t", [record(clock, name, pending=True) for name in many[1000:]])
        members, reads = store._members, []  # type: ignore[attr-defined]

        async def overtaken(**arguments: Any) -> Any:
            if reads:  # all that were read have ended, and another process has taken them from the list
                await other.write("t", [DeleteRecord("batch", name) for name in many[:500]])
                await other.abandoned("batch")
            reads.append(1)
            return await members(**arguments)

        store._members = overtaken  # type: ignore[attr-defined]
        found = [each.id for each in await store.abandoned("batch", 2000)]
        assert found[-600:] == many[500:]
        assert len(found) == len(set(found))


async def test_a_lease_is_forgotten_a_day_after_its_end(valkey: str, schema: str, clock: FakeClock) -> None:
    async with opens_redis(valkey, f"{schema}:", clock)() as store:
        lease = await store.acquire("t", "batch", "b", "me", 30.0)
        key = Keys(f"{schema}:", "t").lease("batch", "b")
        for change in (store.renew("t", lease, 30.0), store.release("t", lease)):  # type: ignore[arg-type]
            await store._redis.persist(key)  # type: ignore[attr-defined]
            await change
            assert 0 < await store._redis.ttl(key) <= LEASE_KEPT_S + 30  # type: ignore[attr-defined]


async def test_a_task_that_is_cancelled_at_any_step_of_a_call_ends(valkey: str, schema: str, clock: FakeClock) -> None:
    """Also where the client's library swallows the cancellation, as it does in some of its steps."""
    async with opens_redis(valkey, f"{schema}:", clock)() as store:

        async def asking() -> None:
            while True:
                with contextlib.suppress(StoreFailed):
                    await store.abandoned("batch")
                    await store.acquire("t", "batch", "b", "me", 1.0)

        for steps in range(120):
            task = asyncio.ensure_future(asking())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            ended, _ = await asyncio.wait([task], timeout=PATIENCE)
            assert ended, steps
            assert task.cancelled()
