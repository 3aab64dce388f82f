"""One suite for every store: what is written is there, whole, in order, its tenant's alone, and until it expires."""

import asyncio
import inspect

import attrs
import pytest
from tests.history.conformance import conversation, item, record, response

from smg_core.history.store import base
from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    ChainBroken,
    DeleteConversation,
    DeleteEvents,
    DeleteItem,
    DeleteRecord,
    DeleteResponse,
    Exported,
    ExtendExpiry,
    ItemExists,
    LeaseLost,
    NoConversation,
    Owned,
    StaleVersion,
    StoredEvent,
)

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(keep=2)]

ODD = ["", "acme", "o'brien; DROP TABLE smg_responses", "日本語", "a:b", "a/b", "~", "%", "*"]


def events(*numbers: int) -> tuple[StoredEvent, ...]:
    return tuple(StoredEvent(number, b'{"n":%d}' % number) for number in numbers)


# --------------------------------------------------------------------------------------------------------- responses


async def test_a_response_is_read_as_it_was_written(store, clock) -> None:
    put = response(
        clock,
        body='{"text":"ünïcode \\u0000 \U0001f600"}'.encode(),
        input=b'[{"type":"message"}]',
        output=b'[{"id":"msg_1"}]',
        previous_id="resp_0",
        conversation_id="conv_1",
        pending=True,
        expires_at=clock.time() + 60,
    )
    await store.write("acme", [put])

    assert await store.response("acme", "resp_1") == attrs.evolve(put.response, version=1)
    assert await store.response("acme", "resp_2") is None


@pytest.mark.full
async def test_a_later_state_takes_the_place_of_an_earlier_one(store, clock) -> None:
    await store.write("acme", [response(clock, status="in_progress")])
    await store.write("acme", [response(clock, status="completed", output=b"[1]")])

    found = await store.response("acme", "resp_1")
    assert (found.status, found.output, found.version) == ("completed", b"[1]", 2)


async def test_a_deleted_response_is_gone_with_its_events_and_deleting_it_again_is_no_error(store, clock) -> None:
    await store.write("acme", [response(clock, item_ids=("msg_1",)), AppendEvents("resp_1", events(0))])
    await store.write("acme", [DeleteResponse("resp_1")])
    await store.write("acme", [DeleteResponse("resp_1")])

    assert await store.response("acme", "resp_1") is None
    assert await store.events("acme", "resp_1") == ()
    assert await store.holding("acme", ["msg_1"]) == ()


async def test_responses_are_found_by_the_items_they_hold(store, clock) -> None:
    await store.write("acme", [response(clock, "resp_1", item_ids=("msg_1", "rs_1"))])
    clock.advance(1)
    await store.write("acme", [response(clock, "resp_2", item_ids=("msg_2", "msg_1"))])

    assert [each.id for each in await store.holding("acme", ["msg_1"])] == ["resp_2", "resp_1"]
    assert [each.id for each in await store.holding("acme", ["rs_1", "nothing"])] == ["resp_1"]
    assert await store.holding("acme", []) == ()
    assert await store.holding("other", ["msg_1"]) == ()


async def test_an_item_is_no_longer_held_by_a_response_that_was_written_without_it(store, clock) -> None:
    await store.write("acme", [response(clock, item_ids=("msg_1",))])
    await store.write("acme", [response(clock, item_ids=("msg_2",))])

    assert await store.holding("acme", ["msg_1"]) == ()
    assert len(await store.holding("acme", ["msg_2"])) == 1


# ------------------------------------------------------------------------------------------------------------ chains


async def a_chain(store, clock, turns: int, tenant: str = "acme") -> None:
    for turn in range(turns):
        previous = f"resp_{turn - 1}" if turn else None
        text = b'["%d"]' % turn
        await store.write(tenant, [response(clock, f"resp_{turn}", input=text, output=text, previous_id=previous)])


async def test_a_chain_is_loaded_oldest_first(store, clock) -> None:
    await a_chain(store, clock, 5)

    chain = await store.chain("acme", "resp_4")
    assert [link.id for link in chain.links] == [f"resp_{turn}" for turn in range(5)]
    assert [link.input for link in chain.links] == [b'["%d"]' % turn for turn in range(5)]
    assert chain.missing is None
    assert [link.id for link in (await store.chain("acme", "resp_2")).links] == ["resp_0", "resp_1", "resp_2"]
    assert await store.chain("acme", "resp_9") is None


async def test_a_chain_ends_at_a_deleted_parent_and_names_it(store, clock) -> None:
    await a_chain(store, clock, 4)
    await store.write("acme", [DeleteResponse("resp_1")])

    chain = await store.chain("acme", "resp_3")
    assert ([link.id for link in chain.links], chain.missing) == (["resp_2", "resp_3"], "resp_1")


async def test_a_chain_does_not_lead_into_another_tenant(store, clock) -> None:
    await store.write("other", [response(clock, "resp_0")])
    await store.write("acme", [response(clock, "resp_1", previous_id="resp_0")])

    chain = await store.chain("acme", "resp_1")
    assert ([link.id for link in chain.links], chain.missing) == (["resp_1"], "resp_0")
    assert await store.chain("other", "resp_1") is None


async def test_a_chain_that_leads_back_to_itself_is_refused(store, clock) -> None:
    await a_chain(store, clock, 3)
    await store.write("acme", [response(clock, "resp_0", previous_id="resp_2")])

    with pytest.raises(ChainBroken) as refused:
        await store.chain("acme", "resp_2")
    assert refused.value.reason == "cycle"


async def test_a_chain_is_bounded_in_links(store, clock) -> None:
    await a_chain(store, clock, 201)

    assert len((await store.chain("acme", "resp_199")).links) == 200
    with pytest.raises(ChainBroken) as refused:
        await store.chain("acme", "resp_200")
    assert (refused.value.reason, refused.value.status) == ("too_long", 400)


async def test_a_chain_is_bounded_in_bytes(store, clock) -> None:
    half = b'"' + b"x" * 3_000_000 + b'"'
    await store.write("acme", [response(clock, "resp_0", output=half)])
    await store.write("acme", [response(clock, "resp_1", output=half, previous_id="resp_0")])

    assert len((await store.chain("acme", "resp_0")).links) == 1
    with pytest.raises(ChainBroken) as refused:
        await store.chain("acme", "resp_1")
    assert refused.value.reason == "too_large"


# ----------------------------------------------------------------------------------------------------- conversations


async def test_items_keep_their_order_and_are_paged_by_id(store, clock) -> None:
    await store.write("acme", [conversation(clock)])
    for start in (0, 3, 6):
        await store.write("acme", [AppendItems("conv_1", tuple(item(clock, f"msg_{start + n}") for n in range(3)))])

    seen, after, pages = [], None, 0
    while True:
        page = await store.items("acme", "conv_1", after=after, limit=2)
        seen += [each.id for each in page.data]
        pages += 1
        if not page.has_more:
            break
        after = page.data[-1].id
    assert (seen, pages) == ([f"msg_{n}" for n in range(9)], 5)

    page = await store.items("acme", "conv_1", after="msg_5", limit=3, newest_first=True)
    assert ([each.id for each in page.data], page.has_more) == (["msg_4", "msg_3", "msg_2"], True)
    page = await store.items("acme", "conv_1", after="msg_2", limit=3, newest_first=True)
    assert ([each.id for each in page.data], page.has_more) == (["msg_1", "msg_0"], False)
    assert (await store.items("acme", "conv_1", after="msg_8")).data == ()
    assert (await store.items("acme", "conv_1", after="nothing")).data == ()
    assert (await store.items("acme", "nothing")).data == ()


async def test_an_item_is_read_as_it_was_written_and_can_be_taken_out(store, clock) -> None:
    first = item(clock, "msg_1", b'{"a":"\\u0000"}', response_id="resp_1")
    await store.write("acme", [conversation(clock), AppendItems("conv_1", (first, item(clock, "msg_2")))])

    assert await store.item("acme", "conv_1", "msg_1") == first
    assert await store.item("acme", "conv_1", "msg_3") is None
    assert await store.item("acme", "conv_2", "msg_1") is None
    await store.write("acme", [DeleteItem("conv_1", "msg_1")])
    await store.write("acme", [DeleteItem("conv_1", "msg_1")])
    assert await store.item("acme", "conv_1", "msg_1") is None
    assert [each.id for each in (await store.items("acme", "conv_1")).data] == ["msg_2"]


@pytest.mark.full
async def test_items_after_one_that_was_taken_out_come_at_the_end(store, clock) -> None:
    await store.write("acme", [conversation(clock), AppendItems("conv_1", (item(clock, "a"), item(clock, "b")))])
    await store.write("acme", [DeleteItem("conv_1", "b")])
    await store.write("acme", [AppendItems("conv_1", (item(clock, "c"), item(clock, "b")))])

    assert [each.id for each in (await store.items("acme", "conv_1")).data] == ["a", "c", "b"]


async def test_items_need_a_conversation_and_an_id_of_their_own(store, clock) -> None:
    with pytest.raises(NoConversation):
        await store.write("acme", [AppendItems("conv_1", (item(clock, "msg_1"),))])
    await store.write("acme", [conversation(clock), AppendItems("conv_1", (item(clock, "msg_1"),))])
    with pytest.raises(ItemExists):
        await store.write("acme", [AppendItems("conv_1", (item(clock, "msg_2"), item(clock, "msg_1")))])
    with pytest.raises(NoConversation):
        await store.write("other", [AppendItems("conv_1", (item(clock, "msg_3"),))])

    assert [each.id for each in (await store.items("acme", "conv_1")).data] == ["msg_1"]


async def test_every_change_of_a_conversation_makes_a_new_version(store, clock) -> None:
    await store.write("acme", [conversation(clock, metadata=b'{"a":"1"}')])
    await store.write("acme", [AppendItems("conv_1", (item(clock, "msg_1"),))])
    await store.write("acme", [conversation(clock, metadata=b'{"b":"2"}')])

    found = await store.conversation("acme", "conv_1")
    assert (found.version, found.metadata) == (3, b'{"b":"2"}')
    await store.write("acme", [DeleteItem("conv_1", "msg_1")])
    assert (await store.conversation("acme", "conv_1")).version == 4


async def test_a_deleted_conversation_takes_its_items_along_and_begins_anew(store, clock) -> None:
    await store.write("acme", [conversation(clock), AppendItems("conv_1", (item(clock, "msg_1"),)), response(clock)])
    await store.write("acme", [DeleteConversation("conv_1")])
    await store.write("acme", [DeleteConversation("conv_1")])

    assert await store.conversation("acme", "conv_1") is None
    assert await store.item("acme", "conv_1", "msg_1") is None
    assert await store.response("acme", "resp_1") is not None
    await store.write("acme", [conversation(clock), AppendItems("conv_1", (item(clock, "msg_1"),))])
    assert [each.id for each in (await store.items("acme", "conv_1")).data] == ["msg_1"]


async def test_of_two_writers_on_one_conversation_the_second_is_told(store, clock) -> None:
    await store.write("acme", [conversation(clock)])
    read = (await store.conversation("acme", "conv_1")).version

    outcomes = await asyncio.gather(
        *(store.write("acme", [AppendItems("conv_1", (item(clock, f"msg_{n}"),), if_version=read)]) for n in range(4)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in outcomes) == ["NoneType", *["StaleVersion"] * 3]
    assert len((await store.items("acme", "conv_1")).data) == 1


async def test_writers_that_ask_for_no_version_come_one_after_another(store, clock) -> None:
    await store.write("acme", [conversation(clock)])
    await asyncio.gather(*(store.write("acme", [AppendItems("conv_1", (item(clock, f"msg_{n}"),))]) for n in range(20)))

    assert sorted(each.id for each in (await store.items("acme", "conv_1")).data) == sorted(
        f"msg_{n}" for n in range(20)
    )
    assert (await store.conversation("acme", "conv_1")).version == 21


# ---------------------------------------------------------------------------------------------------- all or nothing


async def test_a_write_is_done_whole_or_not_at_all(store, clock) -> None:
    await store.write("acme", [conversation(clock), record(clock, "batch_1"), response(clock, "resp_0")])
    operations = [
        response(clock, "resp_1", item_ids=("msg_1",)),
        response(clock, "resp_0", status="failed"),
        DeleteRecord("batch", "batch_1"),
        AppendItems("conv_1", (item(clock, "msg_1"),)),
        AppendEvents("resp_1", events(0, 1)),
        conversation(clock, "conv_2"),
    ]
    with pytest.raises(StaleVersion):
        await store.write("acme", [*operations, record(clock, "batch_2", if_version=7)])

    assert await store.response("acme", "resp_1") is None
    assert (await store.response("acme", "resp_0")).status == "completed"
    assert await store.record("acme", "batch", "batch_1") is not None
    assert (await store.items("acme", "conv_1")).data == ()
    assert (await store.conversation("acme", "conv_1")).version == 1
    assert await store.events("acme", "resp_1") == ()
    assert await store.conversation("acme", "conv_2") is None
    assert await store.holding("acme", ["msg_1"]) == ()

    await store.write("acme", [*operations, record(clock, "batch_2", if_version=0)])
    assert await store.response("acme", "resp_1") is not None
    assert await store.record("acme", "batch", "batch_1") is None
    assert len(await store.events("acme", "resp_1")) == 2


async def test_operations_of_one_write_see_each_other(store, clock) -> None:
    await store.write(
        "acme",
        [conversation(clock), AppendItems("conv_1", (item(clock, "a"),)), AppendItems("conv_1", (item(clock, "b"),))],
    )
    await store.write("acme", [DeleteConversation("conv_1"), conversation(clock)])

    assert (await store.items("acme", "conv_1")).data == ()
    with pytest.raises(NoConversation):
        await store.write("acme", [DeleteConversation("conv_1"), AppendItems("conv_1", (item(clock, "c"),))])
    assert await store.conversation("acme", "conv_1") is not None


async def test_many_writes_at_once_are_all_kept_and_a_bad_one_among_them_fails_alone(store, clock) -> None:
    await store.write("acme", [response(clock, "resp_x"), AppendEvents("resp_x", events(0))])

    outcomes = await asyncio.gather(
        *(store.write("acme", [response(clock, f"resp_{n}", item_ids=(f"msg_{n}",))]) for n in range(50)),
        store.write("acme", [response(clock, "resp_bad"), AppendEvents("resp_x", events(0))]),
        store.write("acme", [response(clock, "resp_bad"), record(clock, "b", if_version=3)]),
        *(store.write("acme", [response(clock, f"late_{n}")]) for n in range(50)),
        return_exceptions=True,
    )
    assert [type(each).__name__ for each in outcomes if each] == ["StaleVersion", "StaleVersion"]
    for name in ("resp", "late"):
        assert [await store.response("acme", f"{name}_{n}") is not None for n in range(50)] == [True] * 50
    assert await store.response("acme", "resp_bad") is None


@pytest.mark.parametrize("put", [response, conversation, record], ids=lambda put: put.__name__)
async def test_a_version_that_was_read_is_the_one_that_is_replaced(store, clock, put) -> None:
    await store.write("acme", [put(clock, "x_1", if_version=0)])
    for wrong in (0, 2):
        with pytest.raises(StaleVersion):
            await store.write("acme", [put(clock, "x_1", if_version=wrong)])
    await store.write("acme", [put(clock, "x_1", if_version=1)])
    await store.write("acme", [put(clock, "x_1", if_version=2)])
    with pytest.raises(StaleVersion):
        await store.write("acme", [put(clock, "x_2", if_version=1)])


# ------------------------------------------------------------------------------------------------------------ events


async def test_events_are_read_after_a_number_in_order(store, clock) -> None:
    await store.write("acme", [AppendEvents("resp_1", events(0, 1, 2))])
    await store.write("acme", [AppendEvents("resp_1", events(3, 4)), AppendEvents("resp_2", events(0))])

    assert await store.events("acme", "resp_1") == events(0, 1, 2, 3, 4)
    assert await store.events("acme", "resp_1", after=2) == events(3, 4)
    assert await store.events("acme", "resp_1", after=0, limit=2) == events(1, 2)
    assert await store.events("acme", "resp_1", after=4) == ()
    assert await store.last_event("acme", "resp_1") == 4
    assert await store.last_event("acme", "resp_9") == -1
    assert await store.events("other", "resp_1") == ()
    assert await store.last_event("other", "resp_1") == -1


async def test_an_event_that_was_stored_is_never_replaced(store, clock) -> None:
    await store.write("acme", [AppendEvents("resp_1", events(0, 1))])
    with pytest.raises(StaleVersion):
        await store.write("acme", [AppendEvents("resp_1", (StoredEvent(2, b"{}"), StoredEvent(1, b"other")))])

    assert await store.events("acme", "resp_1") == events(0, 1)


async def test_events_are_deleted_alone_and_expire_alone(store, clock) -> None:
    await store.write("acme", [response(clock), AppendEvents("resp_1", events(0))])
    await store.write("acme", [DeleteEvents("resp_1")])
    assert (await store.events("acme", "resp_1"), await store.last_event("acme", "resp_1")) == ((), -1)

    await store.write("acme", [AppendEvents("resp_1", events(0), expires_at=clock.time() + 10)])
    clock.advance(11)
    assert (await store.events("acme", "resp_1"), await store.last_event("acme", "resp_1")) == ((), -1)
    assert await store.response("acme", "resp_1") is not None


async def test_an_append_of_no_events_says_until_when_those_that_are_there_are_kept(store, clock) -> None:
    data = bytes(range(256)) * 1024
    await store.write("acme", [AppendEvents("file.in", (StoredEvent(0, data),), clock.time() + 10)])
    await store.write("acme", [AppendEvents("file.in", (), clock.time() + 100)])
    clock.advance(50)
    assert await store.events("acme", "file.in") == (StoredEvent(0, data),)
    await store.write("acme", [AppendEvents("file.in", (), clock.time() + 10)])
    clock.advance(20)
    assert await store.events("acme", "file.in") == ()


# ----------------------------------------------------------------------------------------------------------- records


async def test_records_are_listed_by_kind_and_time(store, clock) -> None:
    for n in range(5):
        await store.write("acme", [record(clock, f"batch_{n}", pending=True), record(clock, f"file_{n}", kind="file")])
        clock.advance(1)
    await store.write("other", [record(clock, "batch_9")])

    page = await store.records("acme", "batch", limit=3)
    assert ([each.id for each in page.data], page.has_more) == (["batch_4", "batch_3", "batch_2"], True)
    page = await store.records("acme", "batch", after="batch_2", limit=3)
    assert ([each.id for each in page.data], page.has_more) == (["batch_1", "batch_0"], False)
    page = await store.records("acme", "file", limit=2, newest_first=False)
    assert ([each.id for each in page.data], page.has_more) == (["file_0", "file_1"], True)
    page = await store.records("acme", "file", after="file_1", newest_first=False)
    assert ([each.id for each in page.data], page.has_more) == (["file_2", "file_3", "file_4"], False)
    assert (await store.records("acme", "batch", after="nothing")).data == ()
    assert (await store.records("nobody", "batch")).data == ()


async def test_records_of_one_moment_are_listed_once_each(store, clock) -> None:
    await store.write("acme", [record(clock, f"b_{n}") for n in range(7)])
    seen, after = [], None
    while True:
        page = await store.records("acme", "batch", after=after, limit=3)
        seen += [each.id for each in page.data]
        if not page.has_more:
            break
        after = page.data[-1].id

    assert sorted(seen) == [f"b_{n}" for n in range(7)]


async def test_a_record_is_deleted_in_the_version_that_was_read(store, clock) -> None:
    await store.write("acme", [record(clock, "b", body=b'{"x":1}')])
    found = await store.record("acme", "batch", "b")
    assert (found.body, found.version) == (b'{"x":1}', 1)
    with pytest.raises(StaleVersion):
        await store.write("acme", [DeleteRecord("batch", "b", if_version=2)])
    await store.write("acme", [DeleteRecord("batch", "b", if_version=1)])
    assert await store.record("acme", "batch", "b") is None
    with pytest.raises(StaleVersion):
        await store.write("acme", [DeleteRecord("batch", "b", if_version=1)])


# ------------------------------------------------------------------------------------------------------------ leases


async def test_a_lease_has_one_owner_until_it_ends(store, clock) -> None:
    lease = await store.acquire("acme", "response", "resp_1", "one", 30)
    assert (lease.owner, lease.expires_at) == ("one", clock.time() + 30)
    assert await store.acquire("acme", "response", "resp_1", "two", 30) is None
    assert await store.acquire("acme", "response", "resp_1", "one", 30) is None
    assert await store.acquire("acme", "batch", "resp_1", "two", 30) is not None
    assert await store.acquire("other", "response", "resp_1", "two", 30) is not None

    clock.advance(20)
    lease = await store.renew("acme", lease, 30)
    clock.advance(20)
    assert await store.acquire("acme", "response", "resp_1", "two", 30) is None
    clock.advance(11)
    with pytest.raises(LeaseLost):
        await store.renew("acme", lease, 30)
    taken = await store.acquire("acme", "response", "resp_1", "two", 30)
    assert (taken.owner, taken.token > lease.token) == ("two", True)
    with pytest.raises(LeaseLost):
        await store.renew("acme", lease, 30)
    await store.release("acme", lease)
    assert await store.acquire("acme", "response", "resp_1", "three", 30) is None
    await store.release("acme", taken)
    assert await store.acquire("acme", "response", "resp_1", "three", 30) is not None


@pytest.mark.full
async def test_of_many_that_want_a_lease_one_gets_it(store, clock) -> None:
    for _ in range(2):  # where there was none, and where one has ended
        got = await asyncio.gather(*(store.acquire("acme", "response", "r", f"p{n}", 30) for n in range(8)))
        assert len([each for each in got if each]) == 1
        clock.advance(31)


async def test_a_write_under_a_lease_that_is_lost_changes_nothing(store, clock) -> None:
    lease = await store.acquire("acme", "response", "resp_1", "one", 30)
    await store.write("acme", [AppendEvents("resp_1", events(0))], lease=lease)
    clock.advance(31)
    with pytest.raises(LeaseLost):
        await store.write("acme", [AppendEvents("resp_1", events(1))], lease=lease)
    taken = await store.acquire("acme", "response", "resp_1", "two", 30)
    with pytest.raises(LeaseLost):
        await store.write("acme", [AppendEvents("resp_1", events(1))], lease=lease)
    with pytest.raises(LeaseLost):
        await store.write("other", [AppendEvents("resp_1", events(1))], lease=taken)
    await store.write("acme", [AppendEvents("resp_1", events(2))], lease=taken)

    assert await store.events("acme", "resp_1") == events(0, 2)


async def test_pending_work_that_nobody_holds_is_found(store, clock) -> None:
    for n in range(3):
        await store.write(f"t{n}", [response(clock, f"resp_{n}", pending=True), record(clock, f"b_{n}", pending=True)])
        await store.write(f"t{n}", [response(clock, f"done_{n}")])
        clock.advance(1)
    lease = await store.acquire("t1", "response", "resp_1", "one", 30)

    assert await store.abandoned("response") == (Owned("t0", "resp_0"), Owned("t2", "resp_2"))
    assert await store.abandoned("batch", limit=2) == (Owned("t0", "b_0"), Owned("t1", "b_1"))
    assert await store.abandoned("file") == ()
    await store.release("t1", lease)
    await store.write("t0", [response(clock, "resp_0", pending=False)])
    assert await store.abandoned("response") == (Owned("t1", "resp_1"), Owned("t2", "resp_2"))


# ----------------------------------------------------------------------------------------------------------- tenants


async def fill(store, clock, tenant: str, mark: str) -> None:
    text = b'"%s"' % mark.encode()
    await store.write(
        tenant,
        [
            response(clock, "resp_1", body=text, item_ids=("msg_1",)),
            AppendEvents("resp_1", (StoredEvent(0, text),)),
            conversation(clock, "conv_1", metadata=text),
            AppendItems("conv_1", (item(clock, "msg_1", text),)),
            record(clock, "b_1", body=text),
        ],
    )


async def contents(store, tenant: str) -> list[Exported]:
    return [each async for each in store.export(tenant)]


async def read(store, tenant: str) -> list[bytes]:
    """The text of everything that `fill` writes, by every way of reading."""
    return [
        (await store.response(tenant, "resp_1")).body,
        (await store.holding(tenant, ["msg_1"]))[0].body,
        (await store.events(tenant, "resp_1"))[0].data,
        (await store.conversation(tenant, "conv_1")).metadata,
        (await store.items(tenant, "conv_1")).data[0].body,
        (await store.item(tenant, "conv_1", "msg_1")).body,
        (await store.record(tenant, "batch", "b_1")).body,
        (await store.records(tenant, "batch")).data[0].body,
        *(text for each in await contents(store, tenant) if each.table != "response" for text in each.parts.values()),
    ]


async def test_what_is_written_while_others_look_for_abandoned_work_is_found_afterwards(store, clock) -> None:
    written = asyncio.Event()

    async def look() -> None:
        while not written.is_set():
            await store.abandoned("batch")
            await store.sweep()

    looking = [asyncio.create_task(look()) for _ in range(2)]
    for number in range(60):
        until = clock.time() + 60
        await store.write("acme", [record(clock, id=f"b_{number:02}", kind="batch", pending=True, expires_at=until)])
    written.set()
    await asyncio.gather(*looking)

    assert len(await store.abandoned("batch")) == 60
    clock.advance(61)
    assert await store.sweep() == 60


@pytest.mark.full
async def test_tenants_of_any_name_see_their_own_things_under_the_same_ids(store, clock) -> None:
    for number, tenant in enumerate(ODD):
        await fill(store, clock, tenant, f"of {number}")

    for number, tenant in enumerate(ODD):
        assert set(await read(store, tenant)) == {b'"of %d"' % number}
        assert len((await store.items(tenant, "conv_1")).data) == len((await store.records(tenant, "batch")).data) == 1


async def test_deleting_crosses_no_tenant(store, clock) -> None:
    await fill(store, clock, "acme", "mine")
    deletions = [
        DeleteResponse("resp_1"),
        DeleteEvents("resp_1"),
        DeleteItem("conv_1", "msg_1"),
        DeleteConversation("conv_1"),
        DeleteRecord("batch", "b_1"),
    ]
    await store.write("other", deletions)
    await store.erase("other")

    assert set(await read(store, "acme")) == {b'"mine"'}


async def test_a_tenant_is_exported_whole(store, clock) -> None:
    await fill(store, clock, "acme", "mine")
    await fill(store, clock, "other", "theirs")

    found = {(each.table, each.owner, each.id): each.parts for each in await contents(store, "acme")}
    assert found == {
        ("response", "", "resp_1"): {"body": b'"mine"', "input": b"[]", "output": b"[]"},
        ("event", "resp_1", "0"): {"data": b'"mine"'},
        ("conversation", "", "conv_1"): {"metadata": b'"mine"'},
        ("item", "conv_1", "msg_1"): {"body": b'"mine"'},
        ("record", "batch", "b_1"): {"body": b'"mine"'},
    }


async def test_a_tenant_with_many_things_is_exported_and_erased_whole(store, clock) -> None:
    for n in range(0, 250, 50):
        await store.write("acme", [response(clock, f"resp_{n + k:03}") for k in range(50)])
    found = await contents(store, "acme")

    assert sorted(each.id for each in found) == [f"resp_{n:03}" for n in range(250)]
    assert await store.erase("acme") == 250


async def test_an_erased_tenant_leaves_nothing(store, clock) -> None:
    await fill(store, clock, "acme", "mine")
    await fill(store, clock, "other", "theirs")
    lease = await store.acquire("acme", "response", "resp_1", "one", 30)

    assert await store.erase("acme") == 5
    assert await contents(store, "acme") == []
    assert await store.holding("acme", ["msg_1"]) == ()
    with pytest.raises(LeaseLost):
        await store.renew("acme", lease, 30)
    assert await store.erase("acme") == 0
    assert len(await contents(store, "other")) == 5
    await fill(store, clock, "acme", "again")
    assert set(await read(store, "acme")) == {b'"again"'}


@pytest.mark.parametrize("name", [name for name in vars(base.Store) if not name.startswith("_")])
def test_every_method_of_a_store_takes_the_tenant_first(name: str) -> None:
    assert list(inspect.signature(getattr(base.Store, name)).parameters)[:2] == ["self", "tenant"]


# --------------------------------------------------------------------------------------------------------- retention


@pytest.mark.full
async def test_what_has_expired_is_not_read_and_is_swept(store, clock) -> None:
    soon = clock.time() + 10
    await store.write(
        "acme",
        [
            response(clock, expires_at=soon, item_ids=("msg_1",), pending=True),
            response(clock, "resp_2", previous_id="resp_1"),
            AppendEvents("resp_1", events(0), soon),
            conversation(clock, expires_at=soon),
            AppendItems("conv_1", (item(clock, "msg_1"),)),
            record(clock, "b_1", expires_at=soon, pending=True),
            record(clock, "b_2"),
        ],
    )
    clock.advance(9)
    assert await store.response("acme", "resp_1") is not None
    clock.advance(1)

    assert await store.response("acme", "resp_1") is None
    assert (await store.chain("acme", "resp_2")).missing == "resp_1"
    assert await store.holding("acme", ["msg_1"]) == ()
    assert await store.events("acme", "resp_1") == ()
    assert await store.conversation("acme", "conv_1") is None
    assert (await store.items("acme", "conv_1")).data == ()
    assert await store.item("acme", "conv_1", "msg_1") is None
    assert await store.record("acme", "batch", "b_1") is None
    assert [each.id for each in (await store.records("acme", "batch")).data] == ["b_2"]
    assert await store.abandoned("response") == await store.abandoned("batch") == ()
    assert sorted(each.id for each in await contents(store, "acme")) == ["b_2", "resp_2"]
    with pytest.raises(NoConversation):
        await store.write("acme", [AppendItems("conv_1", (item(clock, "msg_2"),))])

    while await store.sweep():
        pass
    assert await store.sweep() == 0
    assert await store.erase("acme") == 2
    await store.write("acme", [response(clock, if_version=0), conversation(clock, if_version=0)])
    assert (await store.items("acme", "conv_1")).data == ()


async def test_what_is_there_is_kept_longer_and_its_version_stays(store, clock) -> None:
    soon, later = clock.time() + 10, clock.time() + 100
    kept = [response(clock, expires_at=soon, pending=True), AppendEvents("resp_1", events(0), soon)]
    await store.write("acme", [*kept, record(clock, "b_1", expires_at=soon)])
    longer = [
        ExtendExpiry("response", "resp_1", later),
        ExtendExpiry("events", "resp_1", later),
        ExtendExpiry("record", "b_1", later, "batch"),
    ]
    await store.write("acme", longer)
    await store.write("acme", [attrs.evolve(each, expires_at=soon) for each in longer])  # none is kept shorter
    clock.advance(50)
    await store.sweep()

    found = await store.response("acme", "resp_1")
    assert (found.version, found.expires_at) == (1, later)
    assert await store.events("acme", "resp_1") == events(0)
    assert (await store.record("acme", "batch", "b_1")).version == 1
    assert await store.abandoned("response") == (Owned("acme", "resp_1"),)
    await store.write("acme", [response(clock, if_version=1, expires_at=later)])
    clock.advance(51)
    assert await store.sweep() == 3
    await store.write("acme", [attrs.evolve(each, expires_at=clock.time() + 100) for each in longer])
    assert await contents(store, "acme") == []
    assert await store.sweep() == 0


async def test_what_is_kept_for_ever_is_not_kept_shorter_by_being_kept_longer(store, clock) -> None:
    await store.write("acme", [response(clock), record(clock, "b_1")])
    until = clock.time() + 10
    await store.write(
        "acme", [ExtendExpiry("response", "resp_1", until), ExtendExpiry("record", "b_1", until, "batch")]
    )
    clock.advance(20)
    await store.sweep()

    assert (await store.response("acme", "resp_1")).expires_at is None
    assert (await store.record("acme", "batch", "b_1")).expires_at is None


async def test_what_is_kept_longer_in_a_write_that_fails_is_not(store, clock) -> None:
    soon = clock.time() + 10
    await store.write("acme", [response(clock, expires_at=soon), record(clock, "b_1", expires_at=soon)])
    longer = [ExtendExpiry("response", "resp_1", soon + 50), ExtendExpiry("record", "b_1", soon + 50, "batch")]
    with pytest.raises(StaleVersion):
        await store.write("acme", [*longer, record(clock, "b_2", if_version=3)])
    clock.advance(10)

    assert await store.response("acme", "resp_1") is None
    assert await store.sweep() == 2


@pytest.mark.full
async def test_what_has_expired_is_made_anew_before_it_was_swept(store, clock) -> None:
    soon = clock.time() + 10
    await store.write("acme", [response(clock, expires_at=soon), record(clock, "b_1", expires_at=soon)])
    await store.write("acme", [conversation(clock, expires_at=soon), AppendItems("conv_1", (item(clock, "msg_1"),))])
    clock.advance(10)

    await store.write("acme", [response(clock, if_version=0), record(clock, "b_1", if_version=0)])
    await store.write("acme", [conversation(clock, if_version=0), AppendItems("conv_1", (item(clock, "msg_2"),))])
    await store.sweep()
    assert (await store.response("acme", "resp_1")).version == 1
    assert (await store.record("acme", "batch", "b_1")).version == 1
    assert [each.id for each in (await store.items("acme", "conv_1")).data] == ["msg_2"]
