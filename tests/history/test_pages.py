"""Every list that a store reads is bounded in bytes: its pages, of whatever size, have everything once and in order."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.history.conformance import PAGE_BYTES, conversation, item, record, response

from smg_core.history.base import AppendEvents, AppendItems, StoredEvent

pytestmark = pytest.mark.anyio

SIZES = st.lists(
    st.sampled_from([2, 100, PAGE_BYTES // 3, PAGE_BYTES - 100, PAGE_BYTES, PAGE_BYTES + 1, 3 * PAGE_BYTES]),
    max_size=9,
)
LIMITS = st.integers(1, 5)
lists_of_any_sizes = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
fresh = map("x{}".format, itertools.count())
"""Names that no other example has."""


def text(size: int) -> bytes:
    return b"x" * size


def fits(page: Sequence[bytes], limit: int) -> bool:
    return 0 < len(page) <= limit and (len(page) == 1 or sum(map(len, page)) <= PAGE_BYTES)


@given(SIZES, LIMITS, st.booleans())
@lists_of_any_sizes
async def test_pages_of_items_have_each_item_once(store, clock, sizes, limit, newest_first) -> None:
    id = next(fresh)
    made = [(f"msg_{order}", text(size)) for order, size in enumerate(sizes)]
    await store.write("acme", [conversation(clock, id), AppendItems(id, tuple(item(clock, *each) for each in made))])

    seen, more = [], True
    while more:
        after = seen[-1][0] if seen else None
        page = await store.items("acme", id, after=after, limit=limit, newest_first=newest_first)
        assert fits([each.body for each in page.data], limit) or not sizes
        seen += [(each.id, each.body) for each in page.data]
        more = page.has_more
    assert seen == made[:: -1 if newest_first else 1]


@given(SIZES, LIMITS, st.booleans())
@lists_of_any_sizes
async def test_pages_of_records_have_each_record_once(store, clock, sizes, limit, newest_first) -> None:
    kind, base = next(fresh), clock.time()
    made = [(f"b_{order}", text(size)) for order, size in enumerate(sizes)]
    for order, (id, body) in enumerate(made):
        await store.write("acme", [record(clock, id, kind=kind, body=body, created_at=base + order // 2)])

    seen, more = [], True
    while more:
        after = seen[-1][0] if seen else None
        page = await store.records("acme", kind, after=after, limit=limit, newest_first=newest_first)
        assert fits([each.body for each in page.data], limit) or not sizes
        seen += [(each.id, each.body) for each in page.data]
        more = page.has_more
    assert seen == made[:: -1 if newest_first else 1]


@given(SIZES, LIMITS)
@lists_of_any_sizes
async def test_pages_of_events_have_each_event_once(store, clock, sizes, limit) -> None:
    id = next(fresh)
    made = tuple(StoredEvent(order, text(size)) for order, size in enumerate(sizes))
    await store.write("acme", [AppendEvents(id, made)] if made else [])

    seen: list[StoredEvent] = []
    while page := await store.events("acme", id, after=seen[-1].number if seen else -1, limit=limit):
        assert fits([each.data for each in page], limit)
        seen += page
    assert tuple(seen) == made


@given(SIZES)
@lists_of_any_sizes
async def test_the_responses_that_hold_items_are_the_newest_and_no_more_than_a_page(store, clock, sizes) -> None:
    held = next(fresh)
    for order, size in enumerate(sizes):
        clock.advance(1)
        parts = {"body": text(size // 3), "input": text(size // 3), "output": text(size - 2 * (size // 3))}
        await store.write("acme", [response(clock, f"{held}_{order}", item_ids=(held, f"{held}_{order}"), **parts)])

    found = await store.holding("acme", [held])
    newest = [f"{held}_{order}" for order in reversed(range(len(sizes)))]
    assert [each.id for each in found] == newest[: len(found)]
    assert fits([each.body + each.input + each.output for each in found], 1000) or not sizes
    for order, size in enumerate(sizes):
        (only,) = await store.holding("acme", [f"{held}_{order}"])
        assert len(only.body + only.input + only.output) == size


async def test_everything_of_a_tenant_is_exported_whatever_its_size(store, clock) -> None:
    for order, size in enumerate((10, PAGE_BYTES, 3 * PAGE_BYTES, 10, 10, PAGE_BYTES)):
        id = f"x{order}"
        await store.write(
            "acme",
            [
                response(clock, id, input=text(size), output=text(size)),
                AppendEvents(id, tuple(StoredEvent(number, text(size)) for number in range(3))),
                conversation(clock, id),
                AppendItems(id, tuple(item(clock, f"msg_{number}", text(size)) for number in range(3))),
                record(clock, id, body=text(size)),
            ],
        )

    found = [(each.table, each.owner, each.id) async for each in store.export("acme")]
    assert len(found) == len(set(found)) == 6 * (1 + 3 + 1 + 3 + 1)


async def test_a_page_ends_before_items_that_have_no_room_and_says_that_there_are_more(store, clock) -> None:
    bodies = [text(PAGE_BYTES - 2000), text(1000), text(PAGE_BYTES)]
    items = tuple(item(clock, f"msg_{order}", body) for order, body in enumerate(bodies))
    await store.write("acme", [conversation(clock), AppendItems("conv_1", items)])

    page = await store.items("acme", "conv_1")
    assert ([each.id for each in page.data], page.has_more) == (["msg_0", "msg_1"], True)
    page = await store.items("acme", "conv_1", after="msg_1")
    assert ([each.id for each in page.data], page.has_more) == (["msg_2"], False)
