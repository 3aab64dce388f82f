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
from smg_core.history.base import LEASE_KEPT_S, AppendEvents, StoredEvent
from smg_core.history.redis_plan import Keys
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
