"""What waits for a client of a session: in order, none lost between two writers, and a bound that is felt."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

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
