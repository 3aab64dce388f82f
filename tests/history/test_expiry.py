"""What has expired is not there: in every store, for every operation and every way of reading, whether it was swept or not.

Each store is held against one in memory that is swept after every step, so that nothing there has expired. Sequences of
operations, leases and steps of the clock are drawn; both have to answer the same at every step, and read the same after each step
of the clock.
"""

import itertools
from collections.abc import Callable
from typing import Any, get_args

import attrs
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.history.conformance import PAGE_BYTES, Backend, conversation, item, record, response

from smg_core.errors import SmgError
from smg_core.history.memory.store import MemoryStore
from smg_core.history.store import base
from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    DeleteConversation,
    DeleteEvents,
    DeleteItem,
    DeleteRecord,
    DeleteResponse,
    ExtendExpiry,
    Lease,
    PutConversation,
    PutRecord,
    PutResponse,
    StoredEvent,
    StoreOperation,
)
from smg_core.testing import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(keep=2)]

IDS = ("a", "b")
ITEMS = ("msg_1", "msg_2")
SECONDS = (None, 4.0, 9.0)
"""How long things are kept; the clock goes on by 1, 5 or 10 seconds."""
fresh = map("tenant{}".format, itertools.count())

ids, items = st.sampled_from(IDS), st.sampled_from(ITEMS)
kept = st.sampled_from(SECONDS)
versions = st.sampled_from([None, None, 0, 1, 2])


def until(clock: FakeClock, seconds: float | None) -> float | None:
    return None if seconds is None else clock.time() + seconds


Make = Callable[[FakeClock], StoreOperation]


def put_response(id: str, seconds: float | None, version: int | None, held: tuple[str, ...], pending: bool) -> Make:
    previous = IDS[1] if id == IDS[0] else None
    fields = {"if_version": version, "item_ids": held, "pending": pending, "previous_id": previous}
    return lambda clock: response(clock, id, expires_at=until(clock, seconds), **fields)


def put_record(id: str, seconds: float | None, version: int | None, pending: bool) -> Make:
    return lambda clock: record(clock, id, expires_at=until(clock, seconds), if_version=version, pending=pending)


def put_conversation(id: str, seconds: float | None, version: int | None) -> Make:
    return lambda clock: conversation(clock, id, expires_at=until(clock, seconds), if_version=version)


def append_items(id: str, names: tuple[str, ...], version: int | None) -> Make:
    return lambda clock: AppendItems(id, tuple(item(clock, name) for name in names), version)


def append_events(id: str, numbers: list[int], seconds: float | None) -> Make:
    # without a time the rules give one of their own: much later than any that is drawn
    return lambda clock: AppendEvents(
        id, tuple(StoredEvent(number, b"%d" % number) for number in numbers), until(clock, seconds or 3600.0)
    )


def extend(what: Any, id: str, seconds: float) -> Make:
    return lambda clock: ExtendExpiry(what, id, clock.time() + seconds, "batch" if what == "record" else "")


OPERATIONS: dict[type[StoreOperation], st.SearchStrategy[Make]] = {
    PutResponse: st.builds(
        put_response, ids, kept, versions, st.lists(items, max_size=2, unique=True).map(tuple), st.booleans()
    ),
    DeleteResponse: ids.map(lambda id: lambda clock: DeleteResponse(id)),
    PutConversation: st.builds(put_conversation, ids, kept, versions),
    DeleteConversation: ids.map(lambda id: lambda clock: DeleteConversation(id)),
    AppendItems: st.builds(append_items, ids, st.lists(items, max_size=2).map(tuple), versions),
    DeleteItem: st.tuples(ids, items).map(lambda given: lambda clock: DeleteItem(*given)),
    AppendEvents: st.builds(append_events, ids, st.lists(st.integers(0, 3), max_size=2, unique=True), kept),
    DeleteEvents: ids.map(lambda id: lambda clock: DeleteEvents(id)),
    PutRecord: st.builds(put_record, ids, kept, versions, st.booleans()),
    ExtendExpiry: st.builds(
        extend, st.sampled_from(["response", "events", "record"]), ids, st.sampled_from([4.0, 9.0])
    ),
    DeleteRecord: st.tuples(ids, versions).map(lambda given: lambda clock: DeleteRecord("batch", *given)),
}


async def all_events(store: Backend, tenant: str, id: str) -> object:
    return await store.events(tenant, id), await store.last_event(tenant, id)


async def every_list(store: Backend, tenant: str, id: str) -> object:
    return [
        [await store.items(tenant, id, after=after, newest_first=newest) for after in (None, *ITEMS)]
        for newest in (False, True)
    ]


async def every_page(store: Backend, tenant: str, id: str) -> object:
    return [
        [await store.records(tenant, "batch", after=after, limit=1, newest_first=newest) for after in (None, id)]
        for newest in (False, True)
    ]


async def what_waits(store: Backend, tenant: str, id: str) -> object:
    return [[each for each in await store.abandoned(kind) if each.tenant == tenant] for kind in ("response", "batch")]


async def everything(store: Backend, tenant: str, id: str) -> object:
    return sorted([attrs.astuple(each) async for each in store.export(tenant)], key=repr)


async def held_items(store: Backend, tenant: str, id: str) -> object:
    return [await store.item(tenant, id, each) for each in ITEMS]


READS: dict[str, Callable[[Backend, str, str], Any]] = {
    "response": lambda store, tenant, id: store.response(tenant, id),
    "chain": lambda store, tenant, id: store.chain(tenant, id),
    "holding": lambda store, tenant, id: store.holding(tenant, ITEMS),
    "conversation": lambda store, tenant, id: store.conversation(tenant, id),
    "items": every_list,
    "item": held_items,
    "events": all_events,
    "last_event": all_events,
    "record": lambda store, tenant, id: store.record(tenant, "batch", id),
    "records": every_page,
    "abandoned": what_waits,
    "export": everything,
}


@attrs.define
class Side:
    """One store, and the leases that its writers have."""

    store: Backend
    tenant: str
    leases: dict[str, Lease] = attrs.field(factory=dict)

    async def write(self, operations: list[StoreOperation], under: str | None) -> object:
        lease = self.leases.get(under) if under is not None else None
        return await told(self.store.write(self.tenant, operations, lease=lease))

    async def acquire(self, id: str) -> object:
        lease = await self.store.acquire(self.tenant, "response", id, "me", 4.0)
        if lease is not None:
            self.leases[id] = lease
        return lease is not None and lease.expires_at

    async def renew(self, id: str) -> object:
        if id not in self.leases:
            return None
        found = await told(self.store.renew(self.tenant, self.leases[id], 4.0))
        return found.expires_at if isinstance(found, Lease) else found

    async def release(self, id: str) -> object:
        return await self.store.release(self.tenant, self.leases[id]) if id in self.leases else None


async def told(call: Any) -> object:
    try:
        return await call
    except SmgError as error:
        return type(error).__name__, getattr(error, "id", None)


LEASING = ("acquire", "renew", "release")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.lists(st.one_of(*OPERATIONS.values()), min_size=1, max_size=3),
            st.sampled_from([None, None, None, *IDS]),
        ),
        st.tuples(st.sampled_from(LEASING), ids),
        st.tuples(st.just("pass"), st.sampled_from([1.0, 5.0, 10.0])),
    ),
    max_size=14,
)
PASS = ("pass", 5.0)
EXAMPLES = [
    [("write", [append_events("a", [0, 1], 4.0)], None), PASS, ("write", [append_events("a", [0], 9.0)], None)],
    [("write", [append_events("a", [0, 1], 4.0)], None), PASS, ("write", [append_events("a", [2], 9.0)], None)],
    [("write", [append_events("a", [0], 4.0)], None), PASS, ("write", [append_events("a", [], 9.0)], None)],
    [
        ("write", [put_conversation("a", 4.0, None), append_items("a", ITEMS, None)], None),
        PASS,
        ("write", [lambda clock: DeleteItem("a", ITEMS[0]), put_conversation("a", None, 0)], None),
    ],
]


async def check(store: Backend, clock: FakeClock, steps: list[Any]) -> None:
    reference = MemoryStore(
        clock, most_bytes=100_000_000, most_links=200, most_link_bytes=5_000_000, most_page_bytes=PAGE_BYTES
    )
    tenant = next(fresh)
    sides = Side(store, tenant), Side(reference, tenant)
    for step, *what in [*steps, ("pass", 0.0)]:
        if step == "write":
            operations = [make(clock) for make in what[0]]
            one, other = [await side.write(operations, what[1]) for side in sides]
            assert one == other, operations
        elif step != "pass":
            one, other = [await getattr(side, step)(what[0]) for side in sides]
            assert one == other, step
        else:
            clock.advance(what[0])
            while await reference.sweep():
                pass
            for name, read in READS.items():
                for id in IDS:
                    one, other = [await told(read(side.store, tenant, id)) for side in sides]
                    assert one == other, name
    assert await store.erase(tenant) == await reference.erase(tenant)


@pytest.mark.full
@given(STEPS)
@example(EXAMPLES[0])
@example(EXAMPLES[1])
@example(EXAMPLES[2])
@example(EXAMPLES[3])
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
async def test_what_has_expired_is_as_if_it_had_never_been(store: Backend, clock: FakeClock, steps: list[Any]) -> None:
    await check(store, clock, steps)


def test_the_walk_has_every_operation_and_every_method() -> None:
    assert set(OPERATIONS) == set(get_args(StoreOperation))
    methods = {name for role in (base.Store, base.Upkeep) for name in vars(role) if not name.startswith("_")}
    assert methods == {*READS, *LEASING, "write", "erase", "sweep", "keeps", "close"}
