"""What a client on a WebSocket can do to the server: break the protocol, hold messages unfinished, send much at once."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import attrs
import pytest
from tests.core.server.test_socket_frames import FAULTS, MOST, frame
from tests.gateway.conftest import House, eventually, over_http
from tests.gateway.test_responses_socket import SIMULATOR, SLOW, ask, config_of, connected, lines_of, talk
from tests.shared import PATIENCE
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.uri import parse_uri

from smg_core import Config
from smg_core.hooks import ExchangeEnded
from smg_core.http.bodies import Bodies
from smg_core.http.settings import ServerConfig
from smg_core.server.socket_protocol import STEPS_AT_ONCE, BoundedWebSocketProtocol
from smg_core.wire.settings import LimitsConfig

pytestmark = pytest.mark.anyio

CREATE = json.dumps(
    {"type": "response.create", "model": "sim", "input": "x", "store": False, "max_output_tokens": 1}
).encode()


@attrs.define
class Raw:
    """A client that writes whatever bytes it likes, and `server`, the other side of its connection."""

    protocol: ClientProtocol
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: BoundedWebSocketProtocol
    unread: list[Frame] = attrs.field(factory=list)

    def write(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def read(self, kind: Opcode) -> Frame:
        """The next frame of this kind."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while self.unread:
                    if (found := self.unread.pop(0)).opcode is kind:
                        return found
                data = await self.reader.read(4096)
                assert data, "the server has closed the connection"
                self.protocol.receive_data(data)
                self.unread += [each for each in self.protocol.events_received() if isinstance(each, Frame)]

    async def closed(self) -> Close | None:
        """What the connection is closed for; None where nothing was said before its end."""
        async with asyncio.timeout(PATIENCE):
            while data := await self.reader.read(4096):
                self.protocol.receive_data(data)
        self.writer.close()
        return self.protocol.close_rcvd

    async def flood(self) -> None:
        """Write until the server has closed the connection. Raises ConnectionError."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self.write(bytes(50_000))
                await self.writer.drain()


@asynccontextmanager
async def raw(house: House, *, query: bytes = b"", lines: bytes = b"") -> AsyncIterator[Raw]:
    """A client whose handshake has a `query` and more header lines."""
    protocol = ClientProtocol(parse_uri(house.url.replace("http", "ws", 1) + "/v1/responses"), max_size=None)
    before = connected(house)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
    try:
        protocol.send_request(protocol.connect())
        head = b"".join(protocol.data_to_send()).replace(b" HTTP/1.1", query + b" HTTP/1.1", 1)
        writer.write(head.removesuffix(b"\r\n") + lines + b"\r\n")
        protocol.receive_data(await reader.readuntil(b"\r\n\r\n"))
        (server,) = [each for each in connected(house) if each not in before]
        yield Raw(protocol, reader, writer, server)
    finally:
        writer.close()


LONG_HANDSHAKES = {
    "a line of more than 8 KiB": (b"", b"cookie: " + b"c" * 60_000 + b"\r\n"),
    "a query of more than 8 KiB": (b"?a=" + b"b" * 60_000, b""),
    "more than 128 lines": (b"", b"a: b\r\n" * 900),
    "bytes that are not ASCII": (b"", b"a: \xe9\xff\r\n"),
    "a line without a value": (b"", b"a:\r\n"),
    "odd characters": (b"", b"x!#$%&'*+-.^_`|~: \x80 \t\r\n"),
}


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", LONG_HANDSHAKES)
async def test_a_handshake_within_the_bounds_of_a_head_is_accepted_and_seen_as_it_was_sent(name: str) -> None:
    query, lines = LONG_HANDSHAKES[name]
    async with over_http(SIMULATOR) as house, raw(house, query=query, lines=lines) as client:
        client.write(frame(Opcode.TEXT, CREATE))
        while b"response.incomplete" not in (await client.read(Opcode.TEXT)).data:
            pass
        scope = client.server.scope
    assert scope["query_string"] == query[1:]
    assert (scope["path"], scope["raw_path"]) == ("/v1/responses", b"/v1/responses")
    sent = [line.partition(b":") for line in lines.split(b"\r\n")[:-1]]
    expected = [(key, value.strip(b" \t")) for key, _, value in sent]
    assert [each for each in scope["headers"] if each in expected] == expected
    assert dict(scope["headers"])[b"sec-websocket-version"] == b"13"


@pytest.mark.full
@pytest.mark.parametrize("name", ["sec-websocket-protocol", "sec-websocket-extensions", "connection"])
async def test_a_handshake_with_longer_lists_than_any_client_sends_is_431(name: str) -> None:
    async with over_http(SIMULATOR) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        head = b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        key = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        writer.write(head + key + f"{name}: {'upgrade,' * 2000}upgrade\r\n\r\n".encode())
        said = await reader.read()
        writer.close()
        assert connected(house) == []
    assert said.startswith(b"HTTP/1.1 431 ")


async def test_a_gateway_that_leaves_while_a_long_handshake_is_here_ends_as_ever() -> None:
    async with over_http(SIMULATOR) as house, raw(house, lines=b"a: b\r\n" * 900) as client:
        client.server.shutdown()
        closed = await client.closed()
        await eventually(lambda: connected(house) == [])
    assert closed is not None
    assert closed.code == 1012


def bodies(house: House) -> Bodies:
    return house.gateway.services.admission.bodies


# --------------------------------------------------------------------------------------------- what breaks the protocol

CLOSES = {
    "a close of one byte": (frame(Opcode.CLOSE, b"x"), 1002),
    **{
        f"a close with the code {code}": (frame(Opcode.CLOSE, code.to_bytes(2, "big") + b"bye"), 1002)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)
    },
    "a close whose reason is no UTF-8": (frame(Opcode.CLOSE, (1000).to_bytes(2, "big") + b"\xff"), 1007),
}
PROPER = {
    "no code": (b"", 1005),
    **{f"the code {code}": (code.to_bytes(2, "big"), code) for code in (1000, 1001, 1011, 1013, 3000, 4999)},
    "a code and a reason": ((1000).to_bytes(2, "big") + "tschüß".encode(), 1000),
}


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """A gateway whose WebSockets take short messages."""
    async with over_http(SIMULATOR, config=config_of(socket_frame_bytes=MOST)) as made:
        yield made


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing of the test is in the log, which has the lines of the access log alone."""
    caplog.set_level(logging.INFO)
    yield
    server = [
        each for each in caplog.get_records("call") if each.name.startswith(("uvicorn", "websockets", "smg.server"))
    ]
    assert [each.getMessage() for each in server if each.levelno > logging.INFO] == []
    assert [each for each in caplog.get_records("call") if each.exc_info] == []


@pytest.mark.full
@pytest.mark.sampled(keep=15)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", [*FAULTS, *CLOSES])
async def test_what_breaks_the_protocol_ends_its_connection_with_the_code_for_it_and_one_line_of_the_log(
    house: House, name: str
) -> None:
    sent, code = {**FAULTS, **CLOSES}[name]
    async with raw(house) as client:
        client.write(sent)
        told = await client.closed()
        await eventually(lambda: connected(house) == [])
    *_, line = lines_of(house)  # before it those of whole messages

    assert told is not None
    assert told.code == code
    assert told.reason
    assert line == ("WEBSOCKET", 101, "PayloadTooLarge" if code == 1009 else "InvalidRequest")
    assert bodies(house).size == 0


@pytest.mark.sampled(keep=2)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", PROPER)
async def test_a_client_that_closes_is_answered_in_kind(house: House, name: str) -> None:
    sent, code = PROPER[name]
    async with raw(house) as client:
        client.write(frame(Opcode.TEXT, b"begun", fin=False), frame(Opcode.CLOSE, sent))
        told = await client.closed()
        await eventually(lambda: connected(house) == [])

    assert told is not None
    assert told.code == code
    assert lines_of(house) == [("WEBSOCKET", 101, "ok")]
    assert bodies(house).size == 0


@pytest.mark.usefixtures("quiet")
async def test_responses_under_way_end_with_the_connection_whose_client_broke_the_protocol() -> None:
    async with over_http(SLOW) as house, raw(house) as client:
        client.write(frame(Opcode.TEXT, CREATE.replace(b'"max_output_tokens": 1', b'"max_output_tokens": 2000')))
        await client.read(Opcode.TEXT)
        await eventually(lambda: house.engine.active)
        client.write(frame(Opcode.TEXT, b"\xff"))
        told = await client.closed()
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 2)
        await eventually(lambda: not house.engine.active)

    assert told is not None
    assert told.code == 1007
    assert lines_of(house) == [("WEBSOCKET", 200, "client_gone"), ("WEBSOCKET", 101, "InvalidRequest")]


@pytest.mark.usefixtures("quiet")
async def test_a_client_learns_why_it_was_sent_away_though_it_goes_on_to_send(house: House) -> None:
    async with raw(house) as client:
        client.write(frame(Opcode.BINARY, bytes(4 << 20)))
        told = await client.closed()
    assert told is not None
    assert told.code == 1009


async def test_what_is_thrown_away_of_a_client_that_was_sent_away_is_bounded() -> None:
    config = attrs.evolve(config_of(socket_frame_bytes=MOST), server=ServerConfig(discard_bytes=100_000))
    async with over_http(SIMULATOR, config=config) as house, raw(house) as client:
        client.write(b"\xff")
        with pytest.raises(ConnectionError):
            await client.flood()
        await eventually(lambda: connected(house) == [])


# ------------------------------------------------------------------------------------------------- unfinished messages

BEGUN: dict[str, bytes] = {
    "a fragment": frame(Opcode.TEXT, b"{", fin=False),
    "an empty fragment": frame(Opcode.TEXT, fin=False),
    "bytes": frame(Opcode.BINARY, b"{", fin=False),
    "a head that announces much": b"\x82\xff" + (512).to_bytes(8, "big") + bytes(4),
    "half a payload": frame(Opcode.TEXT, b"abcdef")[:-2],
    "one byte": b"\x81",
    "half a mask": frame(Opcode.TEXT, b"abc")[:4],
    "half a ping": frame(Opcode.PING, b"abc")[:-1],
    "a ping within half a message": frame(Opcode.TEXT, b"{", fin=False) + frame(Opcode.PING, b"abc")[:-1],
}
PINGS = [frame(Opcode.PING, b"still here"), frame(Opcode.PONG), frame(Opcode.CONT, fin=False)]


def waited(client: Raw, seconds: float) -> None:
    """Let the server look at its connections when its client has waited so long."""
    assert client.server._begun is not None
    client.server.check(client.server._begun[0] + seconds)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", BEGUN)
async def test_a_message_that_has_begun_comes_in_time(house: House, name: str) -> None:
    async with raw(house) as client:
        client.write(BEGUN[name])
        await eventually(lambda: client.server._begun)
        waited(client, client.server.bounds.pace.grace - 0.1)
        open_before = not client.server._ended
        waited(client, client.server.bounds.pace.grace + 0.1)
        told = await client.closed()
        await eventually(lambda: connected(house) == [])

    assert open_before
    assert told is not None
    assert (told.code, told.reason) == (1008, "the message did not arrive in time")
    assert lines_of(house) == [("WEBSOCKET", 101, "RequestTimeout")]
    assert bodies(house).size == 0


@pytest.mark.full
@pytest.mark.parametrize("more", PINGS, ids=["ping", "pong", "empty fragment"])
async def test_what_comes_in_between_gives_a_message_no_more_time(house: House, more: bytes) -> None:
    async with raw(house) as client:
        client.write(frame(Opcode.TEXT, b"{", fin=False))
        await eventually(lambda: client.server._begun)
        begun = client.server._begun
        client.write(more * 3, frame(Opcode.PING, b"last"))
        while (await client.read(Opcode.PONG)).data != b"last":
            pass
        assert client.server._begun == begun


@pytest.mark.full
@pytest.mark.parametrize(("size", "late"), [(150_000, 1500.0), (400_000, 3000.0), (50_000, 1000.0)])
async def test_a_message_that_comes_fast_enough_has_its_time_and_no_more(size: int, late: float) -> None:
    server = ServerConfig(header_timeout_s=1000.0, body_timeout_s=3000.0, body_bytes_per_s=100.0)
    async with over_http(SIMULATOR, config=Config(server=server)) as house, raw(house) as client:
        client.write(frame(Opcode.TEXT, b"x" * size, fin=False))
        await eventually(lambda: client.server._reader.size == size)
        waited(client, late - 0.1)
        kept = not client.server._ended
        waited(client, late + 0.1)
    assert (kept, client.server._ended) == (True, True)


async def test_a_connection_on_which_no_message_has_begun_may_be_idle(house: House) -> None:
    async with raw(house) as client:
        client.write(*PINGS[:2], frame(Opcode.TEXT, b"{"), frame(Opcode.PING, b"last"))
        while (await client.read(Opcode.PONG)).data != b"last":
            pass
        await eventually(lambda: client.server._begun is None and not client.server._waits)
        client.server.check(client.server.loop.time() + 100_000)
        assert not client.server._ended


async def test_a_message_has_its_own_time_not_that_of_the_one_before(house: House) -> None:
    async with raw(house) as client:
        client.write(frame(Opcode.TEXT, b"{", fin=False))
        await eventually(lambda: client.server._begun)
        client.server._begun = -100_000.0, 1  # long ago
        client.write(frame(Opcode.CONT, b"}"), frame(Opcode.TEXT, b"{", fin=False))
        await eventually(lambda: client.server._begun not in (None, (-100_000.0, 1)))
        waited(client, client.server.bounds.pace.grace - 0.1)
        assert not client.server._ended


async def test_time_in_which_the_gateway_itself_does_not_read_is_not_counted(house: House) -> None:
    async with raw(house) as client:
        client.write(frame(Opcode.TEXT, b"{", fin=False))
        await eventually(lambda: client.server._begun)
        client.server._hold_back(True)
        waited(client, 100_000.0)
        client.server._hold_back(False)
        waited(client, client.server.bounds.pace.grace - 0.1)
        assert not client.server._ended


async def test_unfinished_messages_count_among_the_bodies_that_are_being_read(house: House) -> None:
    async with raw(house) as client:
        client.write(frame(Opcode.TEXT, b"x" * 500, fin=False), frame(Opcode.CONT, bytes(9))[:1])
        await eventually(lambda: bodies(house).size == 500)
        client.writer.close()
        await eventually(lambda: bodies(house).size == 0)


async def test_a_message_counts_until_the_next_is_asked_for_and_not_longer(house: House) -> None:
    async with raw(house) as client:
        for _ in range(3):
            client.write(frame(Opcode.TEXT, CREATE[:50], fin=False))
            await eventually(lambda: bodies(house).size == 50)
            client.write(frame(Opcode.CONT, CREATE[50:]))
            while b"response.incomplete" not in (await client.read(Opcode.TEXT)).data:
                pass
            await eventually(lambda: bodies(house).size == 0)


async def test_a_long_message_counts_while_it_waits_to_be_decoded_too() -> None:
    async with over_http(SIMULATOR) as house, raw(house) as client:
        counted: list[int] = []
        own = bodies(house).add
        bodies(house).add = lambda held, size: (counted.append(size), own(held, size))[1]  # type: ignore[method-assign]
        text = CREATE.replace(b'"x"', b'"' + b"word " * 20_000 + b'"')
        client.write(frame(Opcode.TEXT, text))
        while b"response.incomplete" not in (await client.read(Opcode.TEXT)).data:
            pass
        await eventually(lambda: bodies(house).size == 0)
    as_message, as_body = sum(counted[:-1]), counted[-1]
    assert as_message == len(text)
    assert as_body > 100_000


@pytest.mark.usefixtures("quiet")
async def test_of_unfinished_messages_over_the_budget_the_oldest_gives_way() -> None:
    limits = LimitsConfig(pending_body_bytes=10_000, body_bytes=8_000)
    async with (
        over_http(SIMULATOR, config=Config(limits=limits)) as house,
        raw(house) as one,
        raw(house) as two,
        raw(house) as three,
    ):
        for client, size in ((one, 4000), (two, 5000), (three, 6000)):
            client.write(frame(Opcode.TEXT, b"x" * size, fin=False))
            await eventually(
                lambda client=client, size=size: client.server._reader.size == size or client.server._ended
            )
        told = [await one.closed(), await two.closed()]
        assert bodies(house).size == 6000
        three.write(frame(Opcode.CONT, b"x"))
        assert b'"error"' in (await three.read(Opcode.TEXT)).data
        await eventually(lambda: bodies(house).size == 0)

    assert [each and each.code for each in told] == [1013, 1013]


async def test_a_body_by_http_and_a_message_share_one_budget() -> None:
    limits = LimitsConfig(pending_body_bytes=10_000, body_bytes=8_000)
    async with over_http(SIMULATOR, config=Config(limits=limits)) as house, raw(house) as client:
        client.write(frame(Opcode.TEXT, b"x" * 7000, fin=False))
        await eventually(lambda: bodies(house).size == 7000)
        _, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        head = (
            b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 7000\r\n\r\n"
        )
        writer.write(head + b" " * 6000)
        close = await client.closed()
        writer.close()
    assert close is not None
    assert close.code == 1013


# ------------------------------------------------------------------------------------------------------ much at once


async def test_many_frames_that_come_at_once_are_read_in_turns_with_others(house: House) -> None:
    async with raw(house) as client:
        loop, turns, over = asyncio.get_running_loop(), 0, False
        steps: dict[int, int] = {}

        def turn() -> None:
            nonlocal turns
            turns += 1
            if not over:
                loop.call_soon(turn)

        own = client.server._step

        def step() -> None:
            steps[turns] = steps.get(turns, 0) + 1
            own()

        client.server._step = step  # type: ignore[method-assign]
        turn()
        client.server.data_received(frame(Opcode.TEXT, b"", fin=False) + frame(Opcode.CONT, b"", fin=False) * 5000)
        paused = client.server.read_paused
        await eventually(lambda: sum(steps.values()) == 5001)
        await eventually(lambda: not client.server.read_paused)
        over = True

    assert paused
    assert max(steps.values()) <= STEPS_AT_ONCE


async def test_a_message_waits_until_the_app_has_taken_the_one_before_and_none_is_lost(house: House) -> None:
    async with raw(house) as client:
        client.server.data_received(frame(Opcode.TEXT, b"{") * 300)
        assert client.server.queue.qsize() <= 1
        for _ in range(300):
            assert b'"error"' in (await client.read(Opcode.TEXT)).data
        await eventually(lambda: len(lines_of(house)) == 300)


async def test_the_socket_is_held_back_by_what_comes_behind_a_message_and_not_by_the_message(house: House) -> None:
    """Each time that costs two calls of the system, and a message of sound comes ten times a second."""
    async with raw(house) as client:
        client.server.data_received(frame(Opcode.TEXT, b"{"))
        behind_one = client.server.read_paused
        client.server.data_received(frame(Opcode.TEXT, b"{"))
        behind_two = client.server.read_paused
        for _ in range(2):
            assert b'"error"' in (await client.read(Opcode.TEXT)).data
        await eventually(lambda: not client.server.read_paused)
    assert (behind_one, behind_two) == (False, True)


async def test_a_response_can_be_asked_for_in_fragments_of_a_byte() -> None:
    async with over_http(SIMULATOR) as house, raw(house) as client:
        first, *rest = [CREATE[at : at + 1] for at in range(len(CREATE))]
        client.write(frame(Opcode.TEXT, first, fin=False), *(frame(Opcode.CONT, each, fin=False) for each in rest))
        client.write(frame(Opcode.CONT))
        while b"response.incomplete" not in (await client.read(Opcode.TEXT)).data:
            pass


@pytest.mark.full
async def test_a_long_message_is_neither_decoded_nor_encoded_on_the_event_loop() -> None:
    """It reaches the handler as the bytes that came."""
    seen: list[type] = []
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        (connection,) = connected(house)
        own = connection._next_received

        async def watched() -> object:
            received = await own()
            seen.append(type(getattr(received, "data", None)))
            return received

        connection.receive.received = watched  # type: ignore[attr-defined]
        for _ in range(2):
            told = await ask(socket, input="word " * 20_000, store=False, max_output_tokens=1)
    assert told["type"] == "response.incomplete"
    assert bytearray in seen


async def test_an_answer_to_a_ping_that_lies_unread_is_waited_for(house: House) -> None:
    async with raw(house) as client:
        client.server._hold_back(True)
        client.server.pending_ping_payload = b"1234"
        client.server.keepalive_timeout()
        assert not client.server.transport.is_closing()
        client.server._hold_back(False)
        client.server.keepalive_timeout()
        assert client.server.transport.is_closing()


async def test_pings_of_a_client_that_has_left_leave_nothing_in_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw(house) as client:
        client.server._pong = b"\x8a\x00"  # which waits for a client that took nothing
        client.server.transport.abort()
        client.server.data_received(frame(Opcode.PING, b"x") * 60)
        client.server.resume_writing()
        for _ in range(10):
            client.server.data_received(frame(Opcode.PING, b"x"))
        await eventually(lambda: connected(house) == [])
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.INFO] == []


@pytest.mark.usefixtures("quiet")
async def test_a_gateway_that_leaves_closes_connections_in_every_state() -> None:
    async with over_http(SIMULATOR) as house, raw(house) as idle, raw(house) as begun, raw(house) as closing:
        begun.write(frame(Opcode.TEXT, b"{", fin=False))
        closing.write(b"\xff")
        await eventually(lambda: begun.server._begun and closing.server._ended)
        for client in (idle, begun, closing):
            client.server.shutdown()
        codes = [(await client.closed()) for client in (idle, begun, closing)]
        for client in (idle, begun, closing):
            client.server.shutdown()  # again, before it is gone
        await eventually(lambda: connected(house) == [])
    assert [each and each.code for each in codes] == [1012, 1012, 1002]
    assert bodies(house).size == 0
