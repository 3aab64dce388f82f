"""The events of a client are passed on in their order, however long one waits, and only so many are held."""

import asyncio
from collections.abc import Coroutine

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.apis.realtime.in_order import EventsInOrder
from smg_core.apis.realtime.wire.relayed import SentEvent
from smg_core.errors import InvalidRequest, SmgError

pytestmark = pytest.mark.anyio


class Server:
    """Takes events; those of the kind "waits" have to be let go on, and those of the kind "wrong" are refused."""

    def __init__(self, most: int = 1000) -> None:
        self.seen: list[str] = []
        self.waiting: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.events = EventsInOrder(self._pass, self._refuse, self._begin, most)

    async def _pass(self, event: SentEvent) -> asyncio.Event | None:
        if event.kind == "wrong":
            raise InvalidRequest("Wrong.")
        self.seen.append(event.data.decode())
        if event.kind != "waits":
            return None
        self.waiting.append(asyncio.Event())
        return self.waiting[-1]

    async def _refuse(self, error: SmgError, event: SentEvent) -> None:
        self.seen.append(event.data.decode())

    def _begin(self, work: Coroutine[object, object, None], event: SentEvent) -> object:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def take(self, event: SentEvent) -> None:
        try:
            await self.events.take(event)
        except SmgError as error:
            await self._refuse(error, event)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.sampled_from(["plain", "waits", "wrong", "goes"]), max_size=30))
async def test_whatever_waits_and_is_refused_all_comes_in_order(kinds: list[str]) -> None:
    server = Server()
    sent: list[str] = []
    for place, kind in enumerate(kinds):
        if kind == "goes":
            for each in server.waiting:
                each.set()
            await turns()
            continue
        sent.append(str(place))
        await server.take(SentEvent(kind, str(place).encode()))
    while len(server.seen) < len(sent):
        for each in server.waiting:
            each.set()
        await turns()
    assert server.seen == sent


@pytest.mark.parametrize("size", [0, 100])
async def test_a_client_is_not_read_while_as_much_is_held_as_may_be(size: int) -> None:
    server = Server()
    await server.take(SentEvent("waits", b"first"))

    async def sends() -> None:
        for _ in range(1000):
            await server.take(SentEvent("plain", b"x" * size))

    sending = asyncio.create_task(sends())
    await asyncio.sleep(0)
    assert not sending.done()
    assert len(server.events._later) == (257 if size == 0 else 11)
    server.waiting[0].set()
    await sending
    await asyncio.gather(*server.tasks)
    assert len(server.seen) == 1001


async def test_of_a_client_that_has_left_nothing_more_is_passed_on() -> None:
    server = Server()
    await server.take(SentEvent("waits", b"first"))
    await server.take(SentEvent("plain", b"second"))
    server.events.left()
    server.waiting[0].set()
    await asyncio.gather(*server.tasks)
    assert server.seen == ["first"]
