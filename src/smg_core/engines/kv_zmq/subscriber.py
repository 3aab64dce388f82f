"""Subscribes to an engine that publishes its KV events on ZeroMQ (edge).

An engine that is spoken to over HTTP has no call for them: it publishes each batch with a number, and may keep the latest batches
for who asks for them again (its replay socket). The batches come in order and each once into the sink; one that is missing is
asked for again, and where that does not help the sink is told by the gap in the numbers. Payloads are read in a thread when they
are large, and pushed in parts, between which the event loop does other things. Above: fleet.kv_events. Below:
`published_kv_events`, pyzmq, which is loaded when a worker names an address (the extra "kv-events").
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import attrs

from smg_core.engines.base import EngineSink
from smg_core.engines.calls import Call
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.kv_zmq.messages import END_OF_REPLAY, published_batches
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineFailed, EngineGarbled, SmgError
from smg_core.extras import needs

__all__ = ["KvAddress", "KvSubscriber"]

_FRAMES = 3
_NUMBER_BYTES = 8
_HIGHEST_PORT = 65535
_AT_ONCE = 4 * 1024
"""A payload of so many bytes is read in at most half a millisecond, however small its events are, so on the event loop."""


@attrs.frozen
class KvAddress:
    """Where an engine publishes: `events`, and `replay` ("" for none), as ZeroMQ writes addresses ("tcp://gpu-0:5557"). `topic`
    is the one that it publishes under. Of an engine with data-parallel ranks each has the next port."""

    events: str
    replay: str = ""
    topic: str = ""

    def check(self) -> None:
        """Raise ValueError for an address that cannot be one, and where pyzmq is not installed."""
        for name, address in (("kv_events", self.events), ("kv_events_replay", self.replay)):
            if address:
                _check(name, address)
        if self.replay and not self.events:
            raise ValueError("kv_events_replay is of no use without kv_events")
        if self.events and find_spec("zmq") is None:
            raise ValueError(needs("kv_events", "zmq"))

    def of_rank(self, rank: int) -> "KvAddress":
        """Where the rank of this number publishes."""
        return attrs.evolve(self, events=_moved(self.events, rank), replay=_moved(self.replay, rank))


def _check(name: str, address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme == "ipc" and (parts.netloc or parts.path):
        return
    try:
        good = parts.scheme == "tcp" and parts.hostname and parts.port and not parts.path
    except ValueError:  # a port that is none
        good = False
    if not good or "*" in address:
        raise ValueError(f"{name} is no address to connect to: tcp://HOST:PORT or ipc://PATH")


def _moved(address: str, rank: int) -> str:
    """The address with the port of a rank; a path has no ranks."""
    start, _, port = address.rpartition(":")
    if not rank or not address.startswith("tcp:"):
        return address
    return f"{start}:{min(int(port) + rank, _HIGHEST_PORT)}"


class KvSubscriber:
    """Subscribes to the ranks of one engine, each of which numbers its batches by itself."""

    def __init__(self, address: KvAddress, ranks: range, limits: EnginesConfig) -> None:
        self._address = address
        self._ranks = ranks
        self._limits = limits

    async def subscribe_kv_events(
        self, sink: EngineSink[KvEventBatch], *, after: int | None = None, connect_timeout: float | None = None
    ) -> Call | None:
        """Push what is published into `sink`, from the batch behind number `after` on; without one from the first that the
        engine keeps. `sink` is closed with an error that says why, if that ends."""
        return _Subscription(
            [_Rank(self._address.of_rank(rank), rank, sink, self._limits, after) for rank in self._ranks], sink
        )


class _Subscription:
    """The `Call` that runs until it is cancelled."""

    def __init__(self, ranks: "list[_Rank]", sink: EngineSink[KvEventBatch]) -> None:
        self._sink = sink
        self._task = asyncio.create_task(self._run(ranks), name="subscribe to KV events")

    async def _run(self, ranks: "list[_Rank]") -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for each in ranks:
                    group.create_task(each.run())
        except* SmgError as errors:
            self._sink.closed(next(each for each in _leaves(errors)))
        except* OSError as errors:  # zmq.ZMQError is one
            kind = type(next(iter(_leaves(errors)))).__name__
            self._sink.closed(EngineFailed("The engine's KV events cannot be had.", detail=kind))

    def cancel(self) -> None:
        self._task.cancel()

    def pause(self) -> None:
        """Nothing: what is not read in time is dropped by ZeroMQ, and asked for again."""

    def resume(self) -> None:
        """Nothing."""


def _leaves(errors: "BaseExceptionGroup[Any]") -> Iterator[Any]:
    for each in errors.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


class _Rank:
    """What one rank of an engine publishes. `last` is the number of the last batch that was pushed."""

    def __init__(
        self, address: KvAddress, rank: int, sink: EngineSink[KvEventBatch], limits: EnginesConfig, after: int | None
    ) -> None:
        self._address, self._rank, self._sink, self._limits = address, rank, sink, limits
        self._last = after
        self._heard = -1 if after is None else after  # on the socket of events, where numbers only grow

    async def run(self) -> None:
        """Until it is cancelled. Raises EngineGarbled for what is no batch, and EngineFailed where the engine has begun anew."""
        zmq = import_module("zmq")
        context = import_module("zmq.asyncio").Context.instance()
        events = self._socket(zmq, context, zmq.SUB)
        monitor = events.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            events.setsockopt(zmq.SUBSCRIBE, self._address.topic.encode())
            events.connect(self._address.events)
            async with asyncio.TaskGroup() as group:
                group.create_task(_connected(monitor))
                group.create_task(self._listen(zmq, context, events))
        finally:
            events.disable_monitor()
            monitor.close(linger=0)
            events.close(linger=0)

    async def _listen(self, zmq: Any, context: Any, events: Any) -> None:
        if self._address.replay:
            await self._repair(zmq, context, events, 0 if self._last is None else self._last + 1)
        while True:
            number, payload = await _received(events)
            self._hear(number)  # one that was sent again before it came here is no sign of a new beginning
            if self._last is not None and number > self._last + 1 and self._address.replay:
                await self._repair(zmq, context, events, self._last + 1)
            await self._push_once(number, payload)

    def _hear(self, number: int) -> None:
        if number <= self._heard:
            raise _begun_anew()
        self._heard = number

    def _socket(self, zmq: Any, context: Any, kind: int) -> Any:
        """A socket whose messages and queue are bounded."""
        socket = context.socket(kind)
        socket.setsockopt(zmq.MAXMSGSIZE, self._limits.kv_events_bytes)
        socket.setsockopt(zmq.RCVHWM, self._limits.kv_events_waiting)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IPV6, 1)
        return socket

    async def _repair(self, zmq: Any, context: Any, events: Any, first: int) -> None:
        """Ask for the batches from number `first` on, and push those that are kept. What is not answered in time is left out."""
        socket = self._socket(zmq, context, zmq.DEALER)
        try:
            socket.connect(self._address.replay)
            async with asyncio.timeout(self._limits.kv_replay_s):
                await socket.send_multipart([b"", first.to_bytes(_NUMBER_BYTES, "big")])
                async for number, payload in _replayed(socket):
                    if number >= first:
                        await self._push_once(number, payload)
        except TimeoutError:
            return
        finally:
            socket.close(linger=0)
        while await events.poll(0):  # what was published meanwhile may be among what was sent again
            number, payload = await _received(events)
            self._hear(number)
            await self._push_once(number, payload)

    async def _push_once(self, number: int, payload: bytes) -> None:
        if self._last is None or number > self._last:
            await self._push(number, payload)

    async def _push(self, number: int, payload: bytes) -> None:
        """Push a batch in parts, with a turn of the event loop after each."""
        parts = published_batches(number, payload, self._rank, most_events=self._limits.kv_events_most)
        large = len(payload) > _AT_ONCE
        while True:
            part = await asyncio.to_thread(next, parts, None) if large else next(parts, None)
            if part is None:
                break
            self._sink.push([part])
            await asyncio.sleep(0)
        self._last = number


async def _received(socket: Any) -> tuple[int, bytes]:
    """The next message of a socket, behind a turn of the event loop, whatever it will be: receiving one that waits gives none."""
    await asyncio.sleep(0)
    return _message(await socket.recv_multipart(copy=True))


async def _replayed(socket: Any) -> AsyncIterator[tuple[int, bytes]]:
    """The batches that a replay socket sends, up to its end."""
    while True:
        number, payload = await _received(socket)
        if number == END_OF_REPLAY:
            return
        yield number, payload


async def _connected(monitor: Any) -> None:
    """Raise EngineFailed once the connection is lost: ZeroMQ itself says nothing of that, and after a message that is too large
    it does not connect again."""
    await monitor.recv_multipart()
    raise EngineFailed("The engine's KV events have ended.", detail="the connection is lost")


def _begun_anew() -> EngineFailed:
    return EngineFailed("The engine's KV events have begun anew.", detail="DATA_LOSS: a number that was there before")


def _message(frames: list[bytes]) -> tuple[int, bytes]:
    """Number and payload of a message, behind its topic, or behind nothing. Raises EngineGarbled."""
    if len(frames) != _FRAMES or len(frames[1]) != _NUMBER_BYTES:
        raise EngineGarbled("The engine's KV events cannot be read.", detail="a message of another form")
    return int.from_bytes(frames[1], "big"), frames[2]
