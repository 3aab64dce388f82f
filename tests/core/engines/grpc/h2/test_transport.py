"""The fast transport's socket: back-pressure, farewells and misbehaving peers, on both event loops."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import attrs
import pytest
from hpack import Encoder
from tests.core.engines.grpc.h2.wire import GOAWAY, HEADERS, OK_HEAD, PING, RST, UPDATE, frame, message
from tests.gateway.conftest import eventually
from tests.peers import stop

from smg_core.engines.grpc.h2.stream import H2Stream
from smg_core.engines.grpc.h2.transport import H2Transport, _expire, _Link
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled, EngineTimeout, SmgError, WorkerBusy, WorkerGone

pytestmark = pytest.mark.anyio

PATH = "/test.Engine/Generate"
GUARD = 20.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WIDE = struct.pack(">HIHI", 4, 2**31 - 1, 3, 100)  # a window without end
SETTINGS = len(WIDE).to_bytes(3, "big") + b"\x04\0\0\0\0\0" + WIDE
WIDER = b"\0\0\x04\x08\0\0\0\0\0" + (2**31 - 1 - 65_535).to_bytes(4, "big")


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class Ear:
    """A receiver that remembers the end."""

    def __init__(self) -> None:
        self.over: asyncio.Future[SmgError | None] = asyncio.get_running_loop().create_future()
        self.got: list[bytes] = []

    def messages(self, batch: list[bytes]) -> None:
        self.got += batch

    def closed(self, error: SmgError | None) -> None:
        self.over.set_result(error)

    async def end(self) -> SmgError | None:
        async with asyncio.timeout(GUARD):
            return await self.over


class RawServer:
    """Greets with wide windows, then leaves the socket to the test; reads only when told."""

    def __init__(self) -> None:
        self.peers: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    async def listen(self) -> "RawServer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**16)
        self.url = f"grpc://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS + WIDER)
        self._writers.append(writer)
        self.peers.put_nowait((reader, writer))

    async def close(self) -> None:
        await stop(self._server)
        for writer in self._writers:
            writer.transport.abort()


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    made = await RawServer().listen()
    yield made
    await made.close()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., H2Transport]]:
    made: list[H2Transport] = []

    def make(url: str, **settings: Any) -> H2Transport:
        made.append(H2Transport(url, **settings))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()


def frames(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """`(kind, stream, payload)` of the whole frames at the start of `data`."""
    at = 0
    while len(data) - at >= 9 and len(data) - at >= 9 + (length := int.from_bytes(data[at : at + 3], "big")):
        yield data[at + 3], int.from_bytes(data[at + 5 : at + 9], "big"), data[at + 9 : at + 9 + length]
        at += 9 + length


async def read_until(reader: asyncio.StreamReader, enough: Callable[[bytearray], bool]) -> bytes:
    data = bytearray()
    async with asyncio.timeout(GUARD):
        while not enough(data):
            piece = await reader.read(2**20)
            if not piece:
                break
            data += piece
    return bytes(data)


@pytest.mark.full
async def test_a_peer_that_does_not_read_holds_large_requests_back_and_gets_them_when_it_does(
    server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    transport = connect(server.url)
    body = bytes(range(256)) * 131_072  # 32 MiB
    await transport.start(PATH, body, Ear())
    link = next(iter(transport._links))
    assert not link.connection.sender.writable
    assert link._transport is not None
    assert link._transport.get_write_buffer_size() < 2**20, "the request waits in the call, not in the socket's buffer"
    reader, _ = await server.peers.get()
    data = await read_until(reader, lambda data: len(data) > len(body) + 5 + 9 * 2048 and data[-1] == 255)
    received = b"".join(payload for kind, _, payload in frames(data.removeprefix(PREFACE)) if kind == 0)
    assert received == b"\0" + len(body).to_bytes(4, "big") + body


async def test_closing_says_goodbye_to_the_engine(server: RawServer, connect: Callable[..., H2Transport]) -> None:
    transport = connect(server.url)
    ear = Ear()
    await transport.start(PATH, b"", ear)
    await transport.close()
    assert isinstance(await ear.end(), WorkerGone)
    reader, _ = await server.peers.get()
    data = await read_until(reader, lambda data: False)  # to its end
    assert [kind for kind, _, _ in frames(data.removeprefix(PREFACE))][-1] == 7


async def test_a_peer_that_breaks_the_protocol_is_told_why_and_left(
    server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    transport = connect(server.url)
    ear = Ear()
    await transport.start(PATH, b"", ear)
    reader, writer = await server.peers.get()
    writer.write(b"\0\0\x04\x05\x04\0\0\0\x01\0\0\0\x02")  # PUSH_PROMISE
    assert isinstance(await ear.end(), EngineGarbled)
    *_, (kind, _, payload) = frames((await read_until(reader, lambda data: False)).removeprefix(PREFACE))
    assert kind == 7
    assert b"PUSH_PROMISE" in payload


async def test_a_call_after_a_broken_connection_makes_a_new_one_at_once(
    server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    transport = connect(server.url)
    for _ in range(3):
        ear = Ear()
        await transport.start(PATH, b"", ear)
        _, writer = await server.peers.get()
        writer.transport.abort()
        assert isinstance(await ear.end(), WorkerGone)
    assert len(transport._links) <= 1
    assert transport.connections == 3


@pytest.mark.full
async def test_a_peer_that_asks_and_never_reads_the_answers_is_left(
    server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    transport = connect(server.url, limits=EnginesConfig(message_bytes=1024, idle_frames=10**9))
    ear = Ear()
    await transport.start(PATH, b"", ear)
    _, writer = await server.peers.get()
    pings = (b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)) * 10_000
    async with asyncio.timeout(GUARD):
        while not ear.over.done():
            writer.write(pings)
            try:
                await writer.drain()
            except ConnectionError:
                break
    error = await ear.end()
    assert isinstance(error, EngineGarbled)
    assert "reads nothing" in str(error)


async def test_a_cancelled_start_takes_its_call_back(server: RawServer, connect: Callable[..., H2Transport]) -> None:
    transport = connect(server.url, limits=EnginesConfig(streams=1))
    first = await transport.start(PATH, b"one", Ear())
    task = asyncio.get_running_loop().create_task(transport.start(PATH, b"two", Ear()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    first.cancel()
    await transport.start(PATH, b"three", Ear())
    reader, _ = await server.peers.get()
    data = await read_until(reader, lambda data: b"three" in data)
    assert b"two" not in data


async def test_a_question_without_an_answer_has_the_next_call_made_over_a_new_connection_and_ends_no_call(
    server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    transport, ear = connect(server.url), Ear()
    first = await transport.start(PATH, b"one", ear)
    _, writer = await server.peers.get()
    for _ in range(2):  # the path that answers nothing is left at once, however often that happens
        with pytest.raises(EngineTimeout):
            await transport.unary(PATH, b"how are you", timeout=0.05)
        second = await transport.start(PATH, b"two", Ear())
        await server.peers.get()
        second.cancel()
    assert transport.connections == 3
    assert not ear.over.done()
    encoder = Encoder()  # what was only late comes all the same
    writer.write(frame(HEADERS, 4, first.id, encoder.encode(OK_HEAD)) + message(first.id, b"a token"))
    await eventually(lambda: ear.got == [b"a token"])
    first.cancel()


@pytest.mark.full
async def test_a_question_that_is_late_while_others_are_answered_leaves_no_connection(
    server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    transport, ear = connect(server.url), Ear()
    first = await transport.start(PATH, b"one", ear)
    _, writer = await server.peers.get()
    asked = asyncio.ensure_future(transport.unary(PATH, b"how are you", timeout=0.3))
    await asyncio.sleep(0)
    writer.write(frame(HEADERS, 4, first.id, Encoder().encode(OK_HEAD)) + message(first.id, b"a token"))
    with pytest.raises(EngineTimeout):
        await asked
    (await transport.start(PATH, b"two", Ear())).cancel()
    first.cancel()
    assert transport.connections == 1


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("others", [False, True])
async def test_a_call_that_gets_no_stream_in_its_time_is_late_unless_others_are_answered_meanwhile(
    server: RawServer, connect: Callable[..., H2Transport], others: bool
) -> None:
    transport, ear = connect(server.url, limits=EnginesConfig(streams=1)), Ear()
    first = await transport.start(PATH, b"one", ear)
    _, writer = await server.peers.get()
    encoder = Encoder()
    writer.write(frame(HEADERS, 4, first.id, encoder.encode(OK_HEAD)))
    asked = asyncio.ensure_future(transport.unary(PATH, b"how are you", timeout=0.3))
    await asyncio.sleep(0)
    if others:
        writer.write(message(first.id, b"a token"))
    with pytest.raises(WorkerBusy if others else EngineTimeout):
        await asked
    first.cancel()


async def test_what_comes_at_once_is_read_in_pieces_between_which_others_have_their_turn(
    server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    loop, turns, over = asyncio.get_running_loop(), 0, False

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not over:
            loop.call_soon(turn)

    class Timed(Ear):
        def messages(self, batch: list[bytes]) -> None:
            super().messages(batch)
            read[turns] = read.get(turns, 0) + sum(map(len, batch))

    read: dict[int, int] = {}
    ear = Timed()
    await connect(server.url).start(PATH, b"", ear)
    _, writer = await server.peers.get()
    sent = [number.to_bytes(1000, "big") for number in range(200)]
    encoder = Encoder()
    head, end = frame(1, 4, 1, encoder.encode(OK_HEAD)), frame(1, 5, 1, encoder.encode([("grpc-status", "0")]))
    turn()
    writer.write(head + b"".join(message(1, each) for each in sent) + end)
    assert await ear.end() is None
    over = True

    assert ear.got == sent
    assert max(read.values()) <= 16 * 1024 + 1000, "a piece and the message that began in the one before"


# ------------------------------------------------------------------------------------------------- the end of a connection


@attrs.define
class Draining:
    """A connection that its peer has said goodbye to, on which calls are still open; `last` is the one that ends last."""

    link: _Link
    writer: asyncio.StreamWriter
    last: H2Stream
    encoder: Encoder = attrs.field(factory=Encoder)

    def say(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    def head(self, *fields: tuple[str, str], end: bool = False) -> bytes:
        return frame(1, 5 if end else 4, self.last.id, self.encoder.encode(fields))

    def end_well(self) -> None:
        self.say(self.head(*OK_HEAD), message(self.last.id, b"x"), self.head(("grpc-status", "0"), end=True))

    def end_with_an_error(self) -> None:
        self.say(self.head(*OK_HEAD, ("grpc-status", "13"), end=True))

    def end_without_a_status(self) -> None:
        self.say(self.head(*OK_HEAD), frame(0, 1, self.last.id))

    def end_as_a_web_page(self) -> None:
        self.say(self.head((":status", "200"), ("content-type", "text/html")))

    def end_in_a_message_too_long(self) -> None:
        self.say(self.head(*OK_HEAD), frame(0, 0, self.last.id, b"\0" + (2**31).to_bytes(4, "big")))

    def end_by_a_reset(self) -> None:
        self.say(frame(RST, 0, self.last.id, (8).to_bytes(4, "big")))

    def end_by_a_window_update_of_zero(self) -> None:
        self.say(frame(UPDATE, 0, self.last.id, bytes(4)))

    def end_by_a_second_goodbye(self) -> None:
        self.say(frame(GOAWAY, 0, 0, bytes(8)))

    def end_by_a_broken_frame(self) -> None:
        self.say(frame(PING, 0, 0, b"short"))

    def end_where_its_receiver_refuses(self) -> None:
        def refuse(batch: list[bytes]) -> None:
            raise EngineGarbled("It is not what was asked for.")

        self.last.push = refuse
        self.say(self.head(*OK_HEAD), message(self.last.id, b"x"))

    def end_where_its_receiver_cancels(self) -> None:
        self.last.push = lambda batch: self.last.cancel()
        self.say(self.head(*OK_HEAD), message(self.last.id, b"x"))

    def end_by_our_cancel(self) -> None:
        self.last.cancel()

    def end_by_our_error(self) -> None:
        self.last.end(WorkerGone("It is over."))

    def end_by_our_deadline(self) -> None:
        _expire(self.last)

    def end_over_its_window_while_it_was_paused(self) -> None:
        self.last.pause()
        self.last.window = -1  # as after more than it was granted
        self.last.resume()

    def end_with_the_socket(self) -> None:
        self.writer.transport.abort()

    def end_with_no_answer_to_a_ping(self) -> None:
        self.link.connection._alive.heard = False
        self.link._tick()
        self.link._tick()


ENDS = sorted(name for name in vars(Draining) if name.startswith("end_"))


async def drained(transport: H2Transport, server: RawServer, calls: int, how: str) -> Draining:
    """A connection with so many calls that takes no more: after `goaway`, or since its numbers are used up."""
    first = await transport.start(PATH, b"", Ear())
    (link,) = transport._links
    _, writer = await server.peers.get()
    if how == "numbers":
        link.connection._next_id = 2**31 - 1 - 2 * (calls - 2)
    streams = [first, *[await transport.start(PATH, b"", Ear()) for _ in range(calls - 1)]]
    if how == "goaway":
        writer.write(frame(GOAWAY, 0, 0, streams[-1].id.to_bytes(4, "big") + bytes(4)))
        async with asyncio.timeout(GUARD):
            while link.connection.usable:
                await asyncio.sleep(0)
    assert not link.connection.usable
    assert not link.closed.done()
    for stream in streams[:-1]:
        stream.cancel()
    assert len(transport._links) == 1, "one call is still open"
    return Draining(link, writer, streams[-1])


@pytest.mark.sampled(per=("end",))
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("how", "calls"), [("goaway", 1), ("goaway", 3), ("numbers", 2)])
async def test_a_connection_that_drains_is_closed_with_its_last_call_however_that_ends(
    end: str, how: str, calls: int, server: RawServer, connect: Callable[..., H2Transport]
) -> None:
    transport = connect(server.url)
    draining = await drained(transport, server, calls, how)

    getattr(draining, end)()
    async with asyncio.timeout(GUARD):
        await draining.link.closed

    assert draining.last.done
    assert transport._links == set()
    await transport.start(PATH, b"", Ear())
    assert transport.connections == 2
