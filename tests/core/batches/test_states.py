"""The table of a batch's life, the marks of what has ended, and whose turn it is."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.batches.pacing import Turns
from smg_core.batches.states import NEXT, BatchJob, following_status, with_done

ENDED = {"completed", "failed", "expired", "cancelled"}


def test_every_status_leads_to_an_end_and_no_end_leads_on() -> None:
    for status, ways in NEXT.items():
        assert set(ways.values()) <= NEXT.keys() | ENDED
        assert "failed" in ways.values()
        assert status not in ENDED
    assert all(following_status(end, what) is None for end in ENDED for ways in NEXT.values() for what in ways)


@given(st.lists(st.lists(st.integers(0, 300), max_size=5), max_size=8))
def test_marks_are_those_that_were_set(groups: list[list[int]]) -> None:
    done = b""
    for group in groups:
        done = with_done(done, group)
    job = BatchJob(False, "", {}, "log", 1, done)

    marked = {place for group in groups for place in group}
    assert {place for place in range(400) if job.has_done(place)} == marked


@pytest.mark.anyio
@given(
    most=st.integers(1, 4),
    most_tenant=st.integers(1, 3),
    tenants=st.lists(st.sampled_from("abc"), max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_turns_keep_their_bounds_and_everybody_gets_one(most: int, most_tenant: int, tenants: list[str], order) -> None:  # type: ignore[no-untyped-def]
    async def play() -> None:
        turns = Turns(most, most_tenant, 1, lambda own: 0)
        holding: list[str] = []

        async def one(tenant: str) -> None:
            assert await turns.enter(tenant, None)
            holding.append(tenant)

        tasks = [asyncio.create_task(one(tenant)) for tenant in tenants]
        for _ in range(len(tenants)):
            for _ in range(3):
                await asyncio.sleep(0)
            assert turns.running == len(holding) <= most
            assert all(count <= most_tenant for count in Counter(holding).values())
            turns.leave(holding.pop(order.randrange(len(holding))))
        await asyncio.gather(*tasks)
        for tenant in holding:
            turns.leave(tenant)
        assert turns.running == 0

    asyncio.run(play())


@pytest.mark.anyio
async def test_nothing_begins_while_clients_have_the_machine_or_it_drains_and_those_dismissed_get_none() -> None:
    live: int | None = 2
    turns = Turns(4, 4, 2, lambda own: live)
    first = asyncio.create_task(turns.enter("a", "run"))
    second = asyncio.create_task(turns.enter("a", "other"))
    await asyncio.sleep(0)
    turns.grant()
    assert turns.running == 0
    live = None
    turns.grant()
    assert turns.running == 0
    turns.dismiss("run")
    assert await first is False
    live = 0
    turns.grant()
    assert await second is True
    assert turns.running == 1


@pytest.mark.anyio
async def test_a_turn_that_was_given_to_one_who_is_cancelled_is_given_back() -> None:
    turns = Turns(1, 1, 1, lambda own: 0)
    assert await turns.enter("a", None)
    waiting = asyncio.create_task(turns.enter("a", None))
    await asyncio.sleep(0)
    turns.leave("a")
    assert turns.running == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert turns.running == 0
