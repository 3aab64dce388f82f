"""Every list that a store reads is bounded in bytes: its pages, of whatever size, have everything once and in order, whatever is
written between them."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.history.conformance import PAGE_BYTES, conversation, item, record, response

from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    DeleteConversation,
    DeleteEvents,
    DeleteItem,
    DeleteRecord,
    DeleteResponse,
    Page,
    StoredEvent,
)

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(keep=2)]

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


async def walked(
    list_behind: Callable[[Any], Awaitable[Page[Any]]],
    changes: Sequence[Sequence[Any]],
    change: Callable[..., Awaitable[None]],
) -> list[Any]:
    """What a walk from position to position has seen, with these changes between its pages. Fails where it has no end."""
    seen: list[Any] = []
    for between in [*changes, *[[]] * 20]:
        page = await list_behind(seen[-1].position if seen else None)
        seen += page.data
        if not page.has_more:
            return seen
        for each in between:
            await change(*each)
    raise AssertionError("the walk has no end")


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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.sampled(keep=1)
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


# ------------------------------------------------------------------------------------------- lists that change meanwhile

NAMES = [f"r_{number}" for number in range(6)]
CHANGES = st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from(NAMES), st.integers(0, 2))


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 2)), max_size=6, unique_by=lambda each: each[0]),
    st.lists(st.lists(CHANGES, max_size=3), max_size=6),
    st.integers(1, 3),
    st.booleans(),
)
@example([("r_0", 0), ("r_1", 0), ("r_2", 0)], [[("delete", "r_1", 0)]], 2, False)
@example([("r_0", 0), ("r_1", 0), ("r_2", 0)], [[("delete", "r_1", 0)]], 2, True)
@example([("r_1", 1), ("r_2", 1)], [[("put", "r_0", 1)]], 1, False)
@lists_of_any_sizes
async def test_a_record_that_is_there_all_the_time_is_listed_once(
    store, clock, made, changes, limit, newest_first
) -> None:
    kind, base = next(fresh), clock.time()
    there = dict(made)
    for id, at in made:
        await store.write("acme", [record(clock, id, kind=kind, created_at=base + at)])
    stayed = set(there)

    async def change(what: str, id: str, at: int) -> None:
        if what == "delete":
            await store.write("acme", [DeleteRecord(kind, id)])
            there.pop(id, None)
            stayed.discard(id)
        elif id not in there:
            await store.write("acme", [record(clock, id, kind=kind, created_at=base + at)])
            there[id] = at

    seen = await walked(
        lambda after: store.records("acme", kind, after=after, limit=limit, newest_first=newest_first),
        changes,
        change,
    )

    places = [(each.created_at, each.id) for each in seen]
    assert places == sorted(places, reverse=newest_first)
    assert stayed <= {each.id for each in seen}
    for id in stayed:
        assert [each.id for each in seen].count(id) == 1


async def test_records_behind_one_that_is_gone_are_found_by_its_position_and_not_by_its_id(store, clock) -> None:
    await store.write("acme", [record(clock, f"r_{number}") for number in range(3)])
    (last,) = (await store.records("acme", "batch", limit=1)).data
    await store.write("acme", [DeleteRecord("batch", last.id)])

    assert (await store.records("acme", "batch", after=last.id)).data == ()
    assert [each.id for each in (await store.records("acme", "batch", after=last.position)).data] == ["r_1", "r_0"]


@pytest.mark.full
@given(
    st.integers(0, 6),
    st.lists(st.lists(st.tuples(st.sampled_from(["put", "delete"]), st.integers(0, 9)), max_size=3), max_size=6),
    st.integers(1, 3),
    st.booleans(),
)
@example(3, [[("delete", 1)]], 2, False)
@example(3, [[("delete", 1)]], 2, True)
@example(5, [[("delete", 1), ("delete", 2), ("delete", 3)]], 2, False)
@example(2, [[("delete", 0), ("put", 7)]], 1, False)
@lists_of_any_sizes
async def test_an_item_that_is_there_all_the_time_is_listed_once(
    store, clock, made, changes, limit, newest_first
) -> None:
    id = next(fresh)
    order = list(range(made))
    await store.write("acme", [conversation(clock, id)])
    await store.write("acme", [AppendItems(id, tuple(item(clock, f"msg_{number}") for number in order))])
    there, stayed = set(order), set(order)

    async def change(what: str, number: int) -> None:
        if what == "delete":
            await store.write("acme", [DeleteItem(id, f"msg_{number}")])
            there.discard(number)
            stayed.discard(number)
        elif number not in order:
            await store.write("acme", [AppendItems(id, (item(clock, f"msg_{number}"),))])
            there.add(number)
            order.append(number)

    seen = await walked(
        lambda after: store.items("acme", id, after=after, limit=limit, newest_first=newest_first),
        changes,
        change,
    )

    ids = [each.id for each in seen]
    expected = [f"msg_{number}" for number in order]
    assert ids == [each for each in expected[:: -1 if newest_first else 1] if each in ids]
    assert {f"msg_{number}" for number in stayed} <= set(ids)


async def test_items_behind_one_that_is_gone_are_found_by_its_position_and_not_by_its_id(store, clock) -> None:
    items = tuple(item(clock, f"msg_{number}") for number in range(3))
    await store.write("acme", [conversation(clock), AppendItems("conv_1", items)])
    for newest_first, others in ((False, ["msg_1", "msg_2"]), (True, ["msg_1"])):
        (last,) = (await store.items("acme", "conv_1", limit=1, newest_first=newest_first)).data
        await store.write("acme", [DeleteItem("conv_1", last.id)])

        by_id = await store.items("acme", "conv_1", after=last.id, newest_first=newest_first)
        by_position = await store.items("acme", "conv_1", after=last.position, newest_first=newest_first)
        assert by_id.data == ()
        assert [each.id for each in by_position.data] == others


FORGETTING = {
    "response": DeleteResponse("x0"),
    "event": DeleteEvents("x0"),
    "conversation": DeleteConversation("x0"),
    "item": DeleteConversation("x0"),
    "record": DeleteRecord("batch", "x0"),
}


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("table", FORGETTING)
async def test_what_is_deleted_while_it_is_exported_costs_nothing_else_its_place(store, clock, table) -> None:
    for id in ("x0", "x1", "x2"):
        made = [
            response(clock, id),
            AppendEvents(id, tuple(StoredEvent(number, b"{}") for number in range(3))),
            conversation(clock, id),
            AppendItems(id, tuple(item(clock, f"msg_{number}") for number in range(3))),
            record(clock, id),
        ]
        await store.write("acme", made)

    found = []
    async for each in store.export("acme"):
        found.append((each.table, each.owner, each.id))
        if each.table == table and "x0" in (each.owner, each.id):
            await store.write("acme", [FORGETTING[table]])
    kept = [each for each in found if "x0" not in each]
    assert len(kept) == len(set(kept)) == 2 * (1 + 3 + 1 + 3 + 1)


async def test_items_that_are_deleted_while_a_tenant_is_exported_hide_no_others(store, clock) -> None:
    await store.write("acme", [conversation(clock)])
    body = text(PAGE_BYTES // 2)
    for number in range(6):
        await store.write("acme", [AppendItems("conv_1", (item(clock, f"msg_{number}", body),))])

    seen = []
    async for each in store.export("acme"):
        if each.table == "item":
            seen.append(each.id)
            await store.write("acme", [DeleteItem("conv_1", each.id)])
    assert seen == [f"msg_{number}" for number in range(6)]
