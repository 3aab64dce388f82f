"""What waits for a client of a session: in order, none lost between two writers, and a bound that is felt."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.apis.realtime.outbox import Outbox

pytestmark = pytest.mark.anyio


class Client:
    """Takes lines; `before` is called in each `send`, `goes` lets one through."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.got: list[str] = []
        self.before = before
        self.goes = asyncio.Event()
        self.goes.set()

    async def send(self, text: str) -> int:
        self.before()
        await self.goes.wait()
        self.got.append(text)
        return len(text)


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_line_that_comes_as_the_last_writer_ends_is_sent() -> None:
    loop = asyncio.get_running_loop()
    later: list[bytes] = [b"second"]

    def put_later() -> None:
        if later:
            loop.call_soon(outbox.put, [later.pop()])

    client: Any = Client(put_later)
    outbox = Outbox(client, 1000)
    outbox.put([b"first"])
    await turns()
    assert client.got == ["first", "second"]


async def test_over_the_bound_whoever_puts_in_more_waits_until_it_is_read() -> None:
    client: Any = Client()
    client.goes.clear()
    outbox = Outbox(client, 5)
    assert outbox.put([b"abc", b"def"]) == 6
    waiting = asyncio.create_task(outbox.room())
    await turns()
    assert not waiting.done()
    client.goes.set()
    await turns()
    assert waiting.done()
    assert client.got == ["abc", "def"]


async def test_nothing_begins_no_writer() -> None:
    outbox = Outbox(Client(), 5)  # type: ignore[arg-type]
    assert outbox.put([]) == 0
    assert outbox._writer is None


async def test_a_line_that_is_passed_on_leaves_at_once_and_without_a_task() -> None:
    client: Any = Client()
    outbox = Outbox(client, 1000)
    assert await outbox.pass_on(b"abc") == 3
    assert (client.got, outbox._writer) == (["abc"], None)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(["pass", "put", "turn", "stop", "go"]), max_size=30))
async def test_lines_leave_in_the_order_in_which_they_came_whoever_sends_them(steps: list[str]) -> None:
    client: Any = Client()
    outbox = Outbox(client, 20)
    came: list[str] = []
    passing: list[asyncio.Task[int]] = []
    for step in steps:
        if step == "turn":
            await turns(2)
        elif step in ("stop", "go"):
            (client.goes.clear if step == "stop" else client.goes.set)()
        else:
            line = f"line {len(came)}"
            came.append(line)
            if step == "put":
                outbox.put([line.encode()])
            else:  # it begins at once, as where it is awaited
                passing.append(asyncio.create_task(outbox.pass_on(line.encode())))
                await asyncio.sleep(0)
    client.goes.set()
    await outbox.sent()
    await asyncio.gather(*passing)
    assert client.got == came
    assert not outbox.full


async def test_whoever_waits_for_all_to_leave_waits_for_a_line_that_is_passed_on() -> None:
    client: Any = Client()
    client.goes.clear()
    outbox = Outbox(client, 5)
    passing = asyncio.create_task(outbox.pass_on(b"abcdef"))
    await turns()
    waiting = asyncio.create_task(outbox.sent())
    await turns()
    assert (outbox.full, waiting.done()) == (True, False)
    client.goes.set()
    await asyncio.gather(waiting, passing)
    assert client.got == ["abcdef"]
