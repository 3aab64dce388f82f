"""Publishes the embedded engine's KV events on ZeroMQ, as engines over HTTP do (edge).

One socket for what happens, on which nobody is waited for, and one on which the latest batches are sent again from a number on.
Above: tests. Below: kv_feed, published_events, pyzmq.
"""

import asyncio
from collections import deque
from typing import Any, Self

from smg_core.extras import loaded
from smg_simulator.engine.kv_feed import Batch, KvFeed
from smg_simulator.server.published_events import EventLayout, payload_of

__all__ = ["KvPublisher"]

_END = (-1).to_bytes(8, "big", signed=True)


class KvPublisher:
    """Publishes the batches of `feed` from now on, numbered from 0, as an async context. `events` and `replay` are where; `keep`
    batches are sent again to who asks. `lost` are numbers that are not sent as they happen, `late` those that are sent
    when `tell_late` is called."""

    def __init__(
        self, feed: KvFeed, layout: EventLayout = "map", *, keep: int = 10_000, topic: str = "", rank: int = 0
    ) -> None:
        self.events = self.replay = ""
        self.lost: set[int] = set()
        self.late: set[int] = set()
        self.replays = 0
        self._feed, self._layout, self._topic, self._rank = feed, layout, topic.encode(), rank
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=keep)
        self._waiting: deque[tuple[int, bytes]] = deque(maxlen=keep)
        self.number = 0  # of the next batch
        self._publish: Any = None
        self._router: Any = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        zmq = loaded("publishing KV events", "zmq")
        context = loaded("publishing KV events", "zmq.asyncio").Context.instance()
        self._publish, self._router = zmq.Context.instance().socket(zmq.PUB), context.socket(zmq.ROUTER)
        ports = [each.bind_to_random_port("tcp://127.0.0.1") for each in (self._publish, self._router)]
        self.events, self.replay = (f"tcp://127.0.0.1:{port}" for port in ports)
        self._task = asyncio.create_task(self._answer(), name="replay KV events")
        self._feed.on_batch = self._happened
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._feed.on_batch = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for each in (self._publish, self._router):
            each.close(linger=0)

    def _happened(self, batch: Batch) -> None:
        self.send(payload_of(batch, self._layout, self._rank))

    def send(self, payload: bytes) -> None:
        """Publish a payload under the next number, whatever it is."""
        number, self.number = self.number, self.number + 1
        self._kept.append((number, payload))
        if number in self.late:
            self._waiting.append((number, payload))
        elif number not in self.lost:
            self._tell(number, payload)

    def tell_late(self) -> None:
        """Publish what is `late`, which its replay socket had at once."""
        while self._waiting:
            self._tell(*self._waiting.popleft())

    def _tell(self, number: int, payload: bytes) -> None:
        self._publish.send_multipart([self._topic, number.to_bytes(8, "big"), payload])

    def begin_anew(self) -> None:
        """Number from 0 again and keep nothing, as an engine that was started again."""
        self.number = 0
        self._kept.clear()

    async def _answer(self) -> None:
        while True:
            client, _, first = await self._router.recv_multipart()
            self.replays += 1
            for number, payload in list(self._kept):
                if number >= int.from_bytes(first, "big"):
                    await self._router.send_multipart([client, b"", number.to_bytes(8, "big"), payload])
            await self._router.send_multipart([client, b"", _END, b""])
