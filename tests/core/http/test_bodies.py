"""What all bodies may hold together: the one that has been coming longest gives way, whatever order they come in."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.http.test_exchange import exchange

from smg_core.errors import Overloaded
from smg_core.http.bodies import Bodies, Held


def test_a_body_that_has_come_longest_gives_way() -> None:
    bodies = Bodies(10)
    gone: list[str] = []
    first, second, third = bodies.open(), bodies.open(), bodies.open()
    first.give_way, second.give_way = lambda: gone.append("first"), lambda: gone.append("second")
    first.grow(4)
    second.grow(5)

    third.grow(4)

    assert gone == ["first"]
    assert first.gave_way
    assert not second.gave_way
    assert bodies.size == 9


def test_a_body_that_is_all_there_gives_way_to_none() -> None:
    bodies = Bodies(10)
    first, second = bodies.open(), bodies.open()
    first.grow(8)
    first.arrived()

    with pytest.raises(Overloaded):
        second.grow(3)

    assert not first.gave_way


def test_a_body_alone_may_be_larger_than_all_together() -> None:
    bodies = Bodies(10)
    with bodies.open() as held:
        held.grow(30)
        assert bodies.size == 30

    assert bodies.size == 0


STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["grow", "arrive", "close"]), st.integers(0, 12)))


@given(STEPS)
def test_no_more_is_held_than_the_bound_or_one_body(steps: list[tuple[int, str, int]]) -> None:
    bodies = Bodies(20)
    under_way: dict[int, Held] = {}
    for number, what, size in steps:
        held = under_way.setdefault(number, bodies.open())
        if held.gave_way or what == "close":
            bodies.remove(under_way.pop(number))
            continue
        if what == "arrive":
            held.arrived()
            continue
        try:
            held.grow(size)
        except Overloaded:
            bodies.remove(under_way.pop(number))
        assert bodies.size <= max(20, *(each.size for each in under_way.values()), 0)
    assert bodies.size == sum(held.size for held in under_way.values())


@pytest.mark.anyio
async def test_the_reader_of_a_body_that_gives_way_is_told() -> None:
    bodies = Bodies(10)
    slow, _ = exchange([{"type": "http.request", "body": b"12345678", "more_body": True}])
    held = bodies.open()
    reading = asyncio.ensure_future(slow.body(100, held))
    while not held.size:
        await asyncio.sleep(0)

    fast, _ = exchange(
        [
            {"type": "http.request", "body": b"12345", "more_body": True},
            {"type": "http.request", "body": b"6", "more_body": False},
        ]
    )
    assert await fast.body(100, bodies.open()) == b"123456"
    with pytest.raises(Overloaded):
        await reading
    assert reading.done()


@pytest.mark.anyio
async def test_a_body_that_comes_in_one_piece_needs_no_room() -> None:
    bodies = Bodies(1)
    whole, _ = exchange([{"type": "http.request", "body": b"123", "more_body": False}])

    assert await whole.body(100, bodies.open()) == b"123"
    assert bodies.size == 0


def test_what_was_large_is_given_back_once_nothing_is_held() -> None:
    told: list[int] = []
    bodies = Bodies(1 << 30, after_large=lambda: told.append(bodies.size))
    with bodies.open() as small:
        small.grow(1000)
    assert told == []

    with bodies.open() as one:
        one.grow(8 << 20)
        with bodies.open() as other:
            other.grow(1)
        assert told == []
    assert told == [0]
