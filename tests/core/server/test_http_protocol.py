"""The HTTP protocol against a real socket: bounds, malformed and smuggling-shaped requests, and clients that leave."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import attrs
import httptools
import pytest
import uvicorn
from tests.shared import PATIENCE

from smg_core.apis import ALL
from smg_core.hooks import ExchangeEnded, Observer
from smg_core.http.bodies import Pace
from smg_core.http.exchange import Exchange
from smg_core.http.framing import path_of_target
from smg_core.http.scope import DISCONNECT
from smg_core.server import http_protocol
from smg_core.server.http_protocol import PIECE, PIECES_AT_ONCE, BoundedHttpProtocol, Refusals, protocol_class
from smg_core.serving.spec import table_of

ENVELOPES = table_of(ALL).envelopes

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@attrs.define
class Echo:
    """An app that answers with the path and body it saw; "/wait" waits until its client has left, "/held" until it is told to
    `answer`; "/early" waits for no body, and "/begun" begins its answer before it does."""

    left: asyncio.Event = attrs.field(factory=asyncio.Event)
    waiting: asyncio.Event = attrs.field(factory=asyncio.Event)
    seen: list[tuple[str, bytes]] = attrs.field(factory=list)
    began: asyncio.Event = attrs.field(factory=asyncio.Event)
    heads: list[list[tuple[bytes, bytes]]] = attrs.field(
        factory=list
    )  # as they are when a request begins, and at its end
    holding: asyncio.Event = attrs.field(factory=asyncio.Event)
    answer: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        self.heads.append(list(scope["headers"]))
        if scope["path"] == "/begun":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        self.began.set()
        while more and scope["path"] != "/early":
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.seen.append((scope["path"], body))
        self.heads.append(list(scope["headers"]))
        if scope["path"] == "/wait":
            scope[DISCONNECT].tell(self.left.set)
            self.waiting.set()
            await self.left.wait()
            return
        if scope["path"] == "/held":
            self.holding.set()
            await self.answer.wait()
            self.holding.clear()
            self.answer.clear()
        answer = json.dumps([scope["path"], body.decode()]).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]}
        )
        await send({"type": "http.response.body", "body": answer})


@attrs.define
class Running:
    """A server and a way to speak to it in bytes."""

    app: Echo
    server: uvicorn.Server
    port: int
    told: list[ExchangeEnded]  # of requests that the app never sees

    @property
    def connection(self) -> BoundedHttpProtocol:
        (only,) = self.server.server_state.connections
        assert isinstance(only, BoundedHttpProtocol)
        return only

    async def send(self, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        await writer.drain()
        return reader, writer

    async def exchange(self, data: bytes) -> bytes:
        """Everything the server says until it closes."""
        reader, writer = await self.send(data)
        said = await reader.read()
        writer.close()
        return said


@attrs.define
class Told:
    """An observer that keeps what it is told."""

    moments: list[ExchangeEnded] = attrs.field(factory=list)

    def report(self, moment: ExchangeEnded) -> None:
        self.moments.append(moment)


@asynccontextmanager
async def serving(
    *, body_rate: float = 0.0, ws: Any = "none", keep_alive: int = 3600, **bounds: Any
) -> AsyncIterator[Running]:
    app, told = Echo(), Told()
    made = protocol_class(
        2048,
        10.0,
        Pace(10.0, 60.0, body_rate),
        **bounds,
        refusals=Refusals(cast("Observer", told), envelopes=ENVELOPES),
    )
    config = uvicorn.Config(
        app, port=0, http=made, ws=ws, lifespan="off", log_config=None, timeout_keep_alive=keep_alive
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(app, server, port, told.moments)
    finally:
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        server.servers[0].close()


CLOSE = b"connection: close\r\n"


async def test_an_ordinary_request_is_answered() -> None:
    async with serving() as running:
        said = await running.exchange(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n" + CLOSE + b"\r\nhi")

    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(b'["/a", "hi"]')


@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize("asks", [b"", CLOSE])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_leaves_in_one_write_has_the_bytes_of_one_that_leaves_in_pieces(
    stream: bool, asks: bytes, method: str
) -> None:
    written: dict[bool, list[bytes]] = {}
    for at_once in (True, False):
        async with serving() as running:
            app = Begins(at_once, stream)
            _, writer = await asyncio.open_connection("127.0.0.1", running.port)
            while not running.server.server_state.connections:
                await asyncio.sleep(0)
            connection = running.connection
            connection.app, connection.access_log = cast("Any", app), False  # as our server has it
            pieces = written[at_once] = []
            write = connection.transport.write

            def note(data: bytes, pieces: list[bytes] = pieces, write: Any = write) -> None:
                pieces.append(bytes(data))
                write(data)

            cast("Any", connection.transport).write = note
            writer.write(f"{method} /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n".encode() + asks + b"\r\nhi")
            async with asyncio.timeout(PATIENCE):
                await app.done.wait()
            writer.close()

    together, apart = written[True], written[False]
    assert together[0].endswith(b"first" if not stream else b"first\r\n") or method == "HEAD"
    assert b"".join(together) == b"".join(apart)
    assert len(together) == len(apart) - (method == "POST")


@attrs.define
class Begins:
    """An app that answers with "first", and more of a stream: the head and that at once where it can, or one after the other."""

    at_once: bool
    stream: bool
    done: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        exchange = Exchange(scope, receive, send)
        if not self.at_once:
            exchange.rebind(scope, receive, send.send)  # a plain ASGI `send`
        assert await exchange.body(100) == b"hi"
        if self.stream:
            await exchange.begin(200, [(b"x-a", b"b")], b"first", False)
            await exchange.write(b"second", True)
        else:
            await exchange.respond(200, b"first", [(b"x-a", b"b")])
        self.done.set()


@pytest.mark.parametrize(("lines", "status"), [(9, 200), (10, 431)])
@pytest.mark.parametrize("more", [b"", b"upgrade: h2c\r\nconnection: upgrade\r\n"], ids=["plain", "upgrade"])
async def test_a_head_has_no_more_lines_than_its_bound(lines: int, status: int, more: bytes) -> None:
    async with serving(header_lines=10) as running:
        sent = b"a:\r\n" * (lines - more.count(b":")) + more
        reader, writer = await running.send(b"GET /a HTTP/1.1\r\nhost: x\r\n" + sent + b"\r\n")
        said = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert said.startswith(b"HTTP/1.1 %d " % status)


async def test_the_lines_of_a_trailer_count_as_those_of_its_head() -> None:
    sent = b"POST /wait HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    async with serving(header_lines=10) as running:
        said = await running.exchange(sent + b"a:\r\n" * 9 + b"\r\n")
    assert said.startswith(b"HTTP/1.1 431 ")


TRAILERS = {
    b"authorization": b"Bearer other",
    b"content-type": b"text/plain",
    b"content-encoding": b"gzip",
    b"x-smg-tenant": b"other",
    b"host": b"other",
    b"x-forwarded-for": b"10.0.0.1",
    b"expect": b"100-continue",
    b"upgrade": b"websocket",
}


@pytest.mark.parametrize("name", TRAILERS)
async def test_a_field_of_a_trailer_is_none_of_the_head_wherever_the_bytes_are_cut(name: bytes) -> None:
    head = [(b"host", b"x"), (b"transfer-encoding", b"chunked")]
    sent = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    whole = sent + b"2\r\nhi\r\n0\r\n%b: %b\r\n\r\n" % (name, TRAILERS[name])
    async with serving() as running:
        reader, writer = await running.send(whole)
        await reader.readuntil(b'"hi"]')
        for cut in range(1, len(whole)):
            running.app.began.clear()
            running.connection.data_received(whole[:cut])
            if cut >= len(sent):
                await running.app.began.wait()  # the app has the head when the trailer comes
            running.connection.data_received(whole[cut:])
            await reader.readuntil(b'"hi"]')
        writer.close()
    assert running.app.heads == [head] * (2 * len(whole))


async def test_pipelined_requests_are_answered_one_after_the_other() -> None:
    async with serving() as running:
        one = b"POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na"
        two = b"POST /2 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n" + CLOSE + b"\r\nb"
        said = await running.exchange(one + two)

    assert said.index(b'["/1", "a"]') < said.index(b'["/2", "b"]')


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 3\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 3\r\n",
        b"content-length: 3\r\ncontent-length: 5\r\n",
        b"content-length: 3, 5\r\n",
        b"content-length: +3\r\n",
        b"content-length: -3\r\n",
        b"content-length: 0x3\r\n",
        b"transfer-encoding: xchunked\r\n",
        b"transfer-encoding : chunked\r\n",
        b"content-length : 3\r\n",
        b"x: a\r\n folded\r\n",
        b"x: a\nsmuggled: b\r\n",
        b"x: a\rsmuggled: b\r\n",
        b": empty\r\n",
        b"x\x00y: 1\r\n",
    ],
)
async def test_what_two_servers_could_read_differently_is_refused_and_the_connection_closed(head: bytes) -> None:
    async with serving() as running:
        said = await running.exchange(
            b"POST /a HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"
        )

    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1") == 1
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    assert "/evil" not in [path for path, _ in running.app.seen]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://x/a", b"200"),
        (b"HTTP://X/a", b"200"),
        (b"http://evil/a", b"400"),
        (b"http://x:81/a", b"400"),
        (b"http://evil@x/a", b"400"),
        (b"http:///a", b"400"),
    ],
)
async def test_a_target_that_names_another_host_than_the_host_header_is_refused(target: bytes, status: bytes) -> None:
    async with serving() as running:
        said = await running.exchange(b"GET " + target + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 " + status)
    assert (status == b"200") == bool(running.app.seen)


@pytest.mark.parametrize(
    "target",
    [
        b"http://user:secret@h/v1/models",
        b"/v1/models?key=secret",
        b"http://h/v1/models?key=secret#x",
        b"/v1/models#secret",
    ],
)
def test_a_path_is_told_without_what_may_be_a_key(target: bytes) -> None:
    assert path_of_target(target) == b"/v1/models"


def test_a_target_that_is_nothing_but_a_host_has_the_root_for_its_path() -> None:
    assert path_of_target(b"http://user:secret@h") == b"/"
    assert path_of_target(b"*") == b"*"


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 50])
async def test_what_is_not_http_is_answered_in_json_and_closed(garbage: bytes) -> None:
    async with serving() as running:
        said = await running.exchange(garbage)

    assert said.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "head",
    [b"x: " + b"a" * 4096, b"".join(b"x%d: a\r\n" % n for n in range(400)), b"x" * 4096],
    ids=["one long value", "many headers", "one long name"],
)
async def test_a_head_over_its_bound_is_431_even_before_it_is_complete(head: bytes) -> None:
    async with serving() as running:
        said = await running.exchange(b"GET / HTTP/1.1\r\nhost: x\r\n" + head)

    assert said.startswith(b"HTTP/1.1 431 ")


async def test_a_long_body_is_not_mistaken_for_a_long_head() -> None:
    async with serving() as running:
        said = await running.exchange(
            b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 9000\r\n" + CLOSE + b"\r\n" + b"b" * 9000
        )

    assert said.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("sent", "late", "answer"),
    [
        (b"", 11.0, b"HTTP/1.1 408 "),
        (b"GET / HTTP/1.1\r\nhost: ", 11.0, b"HTTP/1.1 408 "),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc", 61.0, b"HTTP/1.1 408 "),
    ],
    ids=["says nothing", "drips its head", "drips its body"],
)
async def test_a_client_that_keeps_the_server_waiting_is_sent_away(sent: bytes, late: float, answer: bytes) -> None:
    async with serving() as running:
        reader, writer = await running.send(sent)
        loop = asyncio.get_running_loop()
        while not running.server.server_state.connections or (sent and running.connection._head_bytes == 0):
            await asyncio.sleep(0)
        running.connection.check(loop.time() + late - 2.0)
        assert not running.connection.transport.is_closing()
        running.connection.check(loop.time() + late)
        said = await reader.read()
        writer.close()

    assert said.startswith(answer)


MESSAGES = b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: x\r\n"
GEMINI = b"POST /v1beta/models/a%2Fb:generateContent HTTP/1.1\r\nhost: x\r\n"


def shape(said: bytes) -> set[str]:
    """The fields of the error that the answer has: each API has its own."""
    found = json.loads(said.partition(b"\r\n\r\n")[2])
    return set(found["error"]) if "type" not in found else {*found, *found["error"]}


@pytest.mark.parametrize(
    ("begins", "fields"),
    [
        (MESSAGES, {"type", "error", "message", "request_id"}),
        (GEMINI, {"code", "message", "status"}),
        (
            b"GET /v1/models HTTP/1.1\r\nanthropic-version: 2023-06-01\r\nhost: x\r\n",
            {"type", "error", "message", "request_id"},
        ),
        (b"GET /v1/models?key=k HTTP/1.1\r\n", {"code", "message", "status"}),
        (b"GET /v1/models HTTP/1.1\r\n", {"message", "type", "param", "code"}),
        (
            b"POST /v1/chat/completions HTTP/1.1\r\nanthropic-version: x\r\nhost: x\r\n",
            {"message", "type", "param", "code"},
        ),
    ],
)
@pytest.mark.parametrize(
    ("broken", "status"), [(b"x: " + b"a" * 4096, 431), (b"x y: z\r\n\r\n", 400)], ids=["too long", "no HTTP"]
)
async def test_what_no_app_sees_is_refused_in_the_words_of_the_api_whose_path_it_is(
    begins: bytes, fields: set[str], broken: bytes, status: int
) -> None:
    async with serving() as running:
        said = await running.exchange(begins + broken)

    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert shape(said) == fields


async def test_a_path_that_is_too_long_is_refused_in_its_own_words_too() -> None:
    async with serving() as running:
        said = await running.exchange(b"GET /v1/messages/" + b"a" * 4096)

    assert said.startswith(b"HTTP/1.1 431 ")
    assert shape(said) == {"type", "error", "message", "request_id"}


@pytest.mark.parametrize(("sent", "late"), [(MESSAGES, 11.0), (MESSAGES + b"content-length: 9\r\n\r\nabc", 61.0)])
async def test_a_slow_client_is_sent_away_in_the_words_of_its_api(sent: bytes, late: float) -> None:
    async with serving() as running:
        reader, writer = await running.send(sent)
        while not running.server.server_state.connections or running.connection._head_bytes == 0:
            await asyncio.sleep(0)
        running.connection.check(asyncio.get_running_loop().time() + late)
        said = await reader.read()
        writer.close()

    assert said.startswith(b"HTTP/1.1 408 ")
    assert shape(said) == {"type", "error", "message", "request_id"}


async def test_an_idle_connection_between_requests_is_no_slow_client() -> None:
    async with serving() as running:
        reader, writer = await running.send(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b'["/a", ""]')
        running.connection.check(asyncio.get_running_loop().time() + 1000.0)
        assert not running.connection.transport.is_closing()
        writer.close()


async def test_the_app_is_told_when_its_client_leaves() -> None:
    async with serving() as running:
        _, writer = await running.send(b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        await running.app.waiting.wait()
        writer.transport.abort()
        async with asyncio.timeout(PATIENCE):
            await running.app.left.wait()


async def test_a_client_nearby_that_closes_its_connection_is_noticed_before_any_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a close looks like that of its sending side alone, until its system has answered a write."""
    monkeypatch.setattr(http_protocol, "PROBE_PAUSE", 3600.0)
    async with serving() as running:
        _, writer = await running.send(b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        await running.app.waiting.wait()
        writer.close()
        async with asyncio.timeout(PATIENCE):
            await running.app.left.wait()


async def test_a_client_that_leaves_is_noticed_though_it_had_sent_another_request_already() -> None:
    async with serving() as running:
        wait = b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
        _, writer = await running.send(wait + b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
        await running.app.waiting.wait()
        writer.transport.abort()
        async with asyncio.timeout(PATIENCE):
            await running.app.left.wait()


@pytest.mark.parametrize(("sent", "late"), [(20_000, 21.0), (5_000, 11.0), (0, 11.0)])
async def test_a_body_that_drips_is_refused_once_it_is_slower_than_it_may_be(sent: int, late: float) -> None:
    async with serving(body_rate=1000.0) as running:
        reader, writer = await running.send(
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n" + b"x" * sent
        )
        now = asyncio.get_running_loop().time()
        while not running.server.server_state.connections or running.connection._body_bytes < sent:
            await asyncio.sleep(0)
        while running.connection._head_open:
            await asyncio.sleep(0)
        running.connection.check(now + late - 2.0)
        assert not running.connection.transport.is_closing()
        running.connection.check(now + late)
        said = await reader.read()
        writer.close()

    assert said.startswith(b"HTTP/1.1 408 ")


async def test_a_client_that_leaves_its_answer_unread_is_sent_away_and_one_that_reads_slowly_is_not() -> None:
    async with serving(write_seconds=30.0) as running:
        _, writer = await running.send(b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        await running.app.waiting.wait()
        connection, waits = running.connection, [1000, 1000, 900, 900, 900, 0, 500, 500]
        connection.transport.get_write_buffer_size = lambda: waits.pop(0)  # type: ignore[attr-defined]
        for now in (0.0, 29.0, 58.0, 59.0, 87.0, 88.0, 200.0, 229.0):
            connection.check(now)
            assert not connection.transport.is_closing()
        waits.append(500)
        connection.check(231.0)
        await running.app.left.wait()
        writer.close()


async def test_a_connection_over_the_bound_is_answered_503_and_those_within_it_go_on() -> None:
    async with serving(most_connections=2) as running:
        first = [await running.send(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n") for _ in range(2)]
        for reader, _ in first:
            await reader.readuntil(b'["/a", ""]')
        more = await running.exchange(b"GET /b HTTP/1.1\r\nhost: x\r\n\r\n")
        for reader, writer in first:
            writer.write(b"GET /c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b'["/c", ""]')
            writer.close()

    assert more.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in more
    assert b"connection: close\r\n" in more


@pytest.mark.full
async def test_thousands_of_pipelined_requests_are_all_answered_and_few_of_them_wait_at_once() -> None:
    many = 5000
    async with serving() as running:
        waiting: list[int] = []
        began: dict[int, int] = {}
        loop, turns = asyncio.get_running_loop(), 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            if len(running.app.seen) < many:
                loop.call_soon(turn)

        reader, writer = await running.send(b"GET /0 HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b'["/0", ""]')
        connection = running.connection
        own = connection.on_message_begin

        def begin() -> None:
            began[turns] = began.get(turns, 0) + 1
            waiting.append(len(connection.pipeline))
            own()

        connection.parser = httptools.HttpRequestParser(_with(connection, begin))
        connection.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        turn()
        requests = [b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(1, many)]
        connection.data_received(b"".join(requests))
        held = connection.flow.read_paused
        said, last = b"", b'["/%d", ""]' % (many - 1)
        async with asyncio.timeout(PATIENCE):
            while not said.endswith(last):
                said = said[-100:] + await reader.read(1 << 20)
        writer.close()

    assert held
    assert [path for path, _ in running.app.seen] == [f"/{number}" for number in range(many)]
    assert max(waiting) <= connection.pipelined + PIECE // len(requests[0]) + 1
    assert max(began.values()) <= PIECES_AT_ONCE * (PIECE // len(requests[0]) + 1)


def _with(connection: BoundedHttpProtocol, begin: Any) -> Any:
    """The callbacks of a connection for its parser, with another `on_message_begin`."""
    names = ("on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete")
    return SimpleNamespace(on_message_begin=begin, **{name: getattr(connection, name) for name in names})


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_long_body_and_what_follows_it_in_the_same_read_are_whole(chunked: bool) -> None:
    body = b"0123456789" * 20_000
    sized = b"transfer-encoding: chunked\r\n" if chunked else b"content-length: %d\r\n" % len(body)
    sent = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n" if chunked else body
    async with serving() as running:
        last = b"GET /last HTTP/1.1\r\nhost: x\r\n" + CLOSE + b"\r\n"
        said = await running.exchange(b"POST /long HTTP/1.1\r\nhost: x\r\n" + sized + b"\r\n" + sent + last)
    assert running.app.seen == [("/long", body), ("/last", b"")]
    assert said.endswith(b'["/last", ""]')


async def test_a_head_that_the_gateway_itself_does_not_read_is_not_late() -> None:
    async with serving() as running:
        half = b"GET /half HTTP/1.1\r\nhos"
        _, writer = await running.send(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n" + half)
        await running.app.waiting.wait()
        connection = running.connection
        connection.flow.pause_reading()
        connection.check(connection.loop.time() + 1000.0)
        assert connection._deferred is None
        writer.close()


BROKEN_LAST = {
    "half a head": b"POST /3 HT",
    "half a body": b"POST /3 HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nab",
    "half a body in chunks": b"POST /3 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
    "no HTTP": b"garbage garbage\r\n\r\n",
    "no host": b"GET /3 HTTP/1.1\r\n\r\n",
    "no tunnel": b"CONNECT /3 HTTP/1.1\r\nhost: x\r\n\r\n",
    "a broken trailer": b"POST /3 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n: x\r\n\r\n",
}


@pytest.mark.parametrize("last", BROKEN_LAST)
@pytest.mark.parametrize("whole", [1, 2, 5])
async def test_whole_requests_are_answered_when_a_client_ends_its_last_one_half_way(whole: int, last: str) -> None:
    async with serving() as running:
        reader, writer = await running.send(b"GET /0 HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b'["/0", ""]')
        connection = running.connection
        connection.data_received(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n" * whole + BROKEN_LAST[last])
        assert connection.eof_received()
        said = await reader.read()
        writer.close()
    assert said.count(b"HTTP/1.1 200 ") == said.count(b'["/a", ""]') == whole
    assert said.count(b"HTTP/1.1 4") == 1
    assert said.rindex(b"HTTP/1.1 4") > said.rindex(b"HTTP/1.1 200 ")
    assert [told.status for told in running.told] == [405 if last == "no tunnel" else 400]


async def test_as_many_whole_requests_as_wait_are_answered_before_half_a_head_and_an_end() -> None:
    async with serving() as running:
        reader, writer = await running.send(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n" * 30 + b"POST /3 HT")
        writer.write_eof()
        said = await reader.read()
        writer.close()
    assert said.count(b'["/a", ""]') == 30


async def test_a_head_below_its_bound_is_taken_however_it_is_cut() -> None:
    """Of a head that comes in pieces, each byte counts once."""
    async with serving() as running:
        head = b"GET /a HTTP/1.1\r\nhost: x\r\n" + b"x-y: 123456789\r\n" * 110 + CLOSE + b"\r\n"
        assert len(head) < 2048
        reader, writer = await running.send(head[:10])
        await eventually_connected(running)
        for at in range(10, len(head), 100):
            running.connection.data_received(head[at : at + 100])
        said = await reader.read()
        writer.close()
    assert said.endswith(b'["/a", ""]')


async def eventually_connected(running: Running) -> None:
    async with asyncio.timeout(PATIENCE):
        while not running.server.server_state.connections or not running.connection._head_bytes:
            await asyncio.sleep(0)


CHUNKED = b"transfer-encoding: chunked\r\n"
NEXT = {
    "no body": b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n",
    "a body": b"POST /held HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc",
    "chunks and a trailer": b"POST /held HTTP/1.1\r\nhost: x\r\n" + CHUNKED + b"\r\n3;e=f\r\nabc\r\n0\r\na: b\r\n\r\n",
    "an upgrade that is ignored": b"GET /held HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    "a line end before it": b"\r\nGET /held HTTP/1.1\r\nhost: x\r\n\r\n",
}


@asynccontextmanager
async def answering(running: Running) -> AsyncIterator[tuple[asyncio.StreamReader, BoundedHttpProtocol]]:
    """A connection whose first request is answered, and the other side of it."""
    reader, writer = await running.send(b"GET /0 HTTP/1.1\r\nhost: x\r\n\r\n")
    try:
        await reader.readuntil(b'["/0", ""]')
        yield reader, running.connection
    finally:
        writer.close()


async def answered(running: Running, reader: asyncio.StreamReader) -> None:
    """Have the request that is held answered."""
    await running.app.holding.wait()
    running.app.answer.set()
    await reader.readuntil(b'"]')


@pytest.mark.parametrize("kind", NEXT)
async def test_the_time_to_keep_a_connection_runs_only_while_nothing_is_under_way(kind: str) -> None:
    """The answer to a first request ends while a second one has come up to each of its bytes."""
    sent = NEXT[kind]
    begun = len(sent) - len(sent.lstrip())
    async with serving() as running, answering(running) as (reader, connection):
        for cut in range(len(sent)):
            assert connection.idle_since is not None
            connection.data_received(NEXT["no body"] + sent[:cut])
            await running.app.holding.wait()
            assert connection.idle_since is None
            await answered(running, reader)
            assert (connection.idle_since is None) == (cut > begun)
            connection.data_received(sent[cut:])
            await running.app.holding.wait()
            assert connection.idle_since is None
            await answered(running, reader)


async def test_the_time_to_keep_a_connection_runs_only_once_a_request_that_was_answered_early_is_whole() -> None:
    head = b"POST /early HTTP/1.1\r\nhost: x\r\n" + CHUNKED + b"\r\n"
    rest = NEXT["chunks and a trailer"].partition(b"\r\n\r\n")[2]
    async with serving() as running, answering(running) as (reader, connection):
        for cut in range(len(rest)):
            connection.data_received(head + rest[:cut])
            await reader.readuntil(b'"]')
            assert connection.idle_since is None
            connection.data_received(rest[cut:])
            assert connection.idle_since is not None


class Switched(asyncio.Protocol):
    """Takes over connections, and keeps those that it has."""

    taken: list[asyncio.BaseTransport]

    def __init__(self, **given: Any) -> None:
        pass

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.taken.append(transport)

    def begin(self, *handshake: Any) -> None:
        pass


CHUNKED_HEAD = b"POST %b HTTP/1.1\r\nhost: x\r\n" + CHUNKED + b"\r\n"
ENDLESS = {  # what begins, and what is then sent again and again
    "a target": (b"GET /", b"a" * 10),
    "spaces before a target": (b"GET ", b" " * 10),
    "a field's name": (b"GET /a HTTP/1.1\r\n", b"a" * 10),
    "a field's value": (b"GET /a HTTP/1.1\r\nx: ", b"a" * 10),
    "spaces before a value": (b"GET /a HTTP/1.1\r\nx:", b" " * 10),
    "spaces before every value": (b"GET /a HTTP/1.1\r\n", b"x:" + b" " * 500 + b"\r\n"),
    "a trailer's name": (CHUNKED_HEAD + b"0\r\n", b"a" * 10),
    "a trailer's value": (CHUNKED_HEAD + b"0\r\nx: ", b"a" * 10),
    "spaces before a trailer's value": (CHUNKED_HEAD + b"0\r\nx:", b" " * 10),
    "spaces before every value of a trailer": (CHUNKED_HEAD + b"0\r\n", b"x:" + b" " * 500 + b"\r\n"),
    "a trailer behind a body": (CHUNKED_HEAD + b"1\r\na\r\n0\r\nx: ", b"a" * 10),
    "zeros of a chunk's size": (CHUNKED_HEAD, b"0" * 10),
    "the name of a chunk's extension": (CHUNKED_HEAD + b"1;", b"a" * 10),
    "the value of a chunk's extension": (CHUNKED_HEAD + b"1;a=", b"a" * 10),
    "a chunk's extension in quotes": (CHUNKED_HEAD + b'1;a="', b"a" * 10),
    "a later chunk's extension": (CHUNKED_HEAD + b"1\r\na\r\n1;", b"a" * 10),
}


def fed(connection: BoundedHttpProtocol, endless: bytes, size: int) -> int:
    """Have the connection get `endless` again and again, `size` bytes at a time, until it has enough; the bytes it took."""
    many = endless * (size // len(endless) + 2)
    taken = 0
    while connection._deferred is None and not connection.transport.is_closing() and taken < 1 << 20:
        at = taken % len(endless)
        connection.data_received(many[at : at + size])
        taken += size
    return taken


@pytest.mark.sampled(keep=29)
@pytest.mark.parametrize("size", [10, 600, 65536])
@pytest.mark.parametrize("kind", ENDLESS)
async def test_what_is_no_body_and_never_ends_is_refused_wherever_it_stands(kind: str, size: int) -> None:
    begin, endless = (part.replace(b"%b", b"/a") for part in ENDLESS[kind])
    async with serving() as running, answering(running) as (reader, connection):
        connection.data_received(begin)
        assert fed(connection, endless, size) <= connection.header_bytes + PIECE + size
        said = await reader.read()
    assert said.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("kind", ENDLESS)
async def test_what_is_no_body_and_never_ends_is_refused_behind_an_answer_that_is_under_way(kind: str) -> None:
    begin, endless = (part.replace(b"%b", b"/a") for part in ENDLESS[kind])
    async with serving() as running, answering(running) as (reader, connection):
        connection.data_received(NEXT["no body"] + begin)
        assert fed(connection, endless, 600) <= connection.header_bytes + PIECE + 600
        await answered(running, reader)
        said = await reader.read()
    assert said.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("kind", [kind for kind, (begin, _) in ENDLESS.items() if CHUNKED in begin])
async def test_what_is_no_body_and_never_ends_is_not_read_behind_an_early_answer(kind: str) -> None:
    begin, endless = (part.replace(b"%b", b"/early") for part in ENDLESS[kind])
    async with serving() as running, answering(running) as (reader, connection):
        connection.data_received(begin)
        await reader.readuntil(b'"]')
        assert fed(connection, endless, 600) <= connection.header_bytes + PIECE + 600


@pytest.mark.parametrize("size", [1, 100, 4000])
@pytest.mark.parametrize("extension", [0, 10, 1500])
async def test_all_bytes_count_that_are_thrown_away_behind_an_early_answer(size: int, extension: int) -> None:
    chunk = b"%x%b\r\n%b\r\n" % (size, b";" * bool(extension) + b"e" * extension, b"a" * size)
    async with serving(discard_bytes=10_000) as running, answering(running) as (reader, connection):
        connection.data_received(CHUNKED_HEAD % b"/early")
        await reader.readuntil(b'"]')
        assert 10_000 < fed(connection, chunk, 600) <= 10_000 + 600
        assert await reader.read() == b""


@pytest.mark.parametrize("size", [0, 10, 3000, 20_000])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_head_behind_a_body_is_measured_by_its_own_bytes(size: int, chunked: bool) -> None:
    body = b"a" * size
    sized = CHUNKED if chunked else b"content-length: %d\r\n" % size
    sent = (b"%x\r\n%b\r\n" % (size, body) if size else b"") + b"0\r\n\r\n" if chunked else body
    head = b"GET /b HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 1900 + b"\r\n\r\n"
    async with serving() as running, answering(running) as (reader, connection):
        for cut in range(0, len(head), 50):
            connection.data_received(b"POST /a HTTP/1.1\r\nhost: x\r\n" + sized + b"\r\n" + sent + head[:cut])
            await reader.readuntil(b'"]')
            connection.data_received(head[cut:])
            await reader.readuntil(b'["/b", ""]')


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
async def test_a_trailer_and_extensions_below_the_bound_are_passed_over_however_they_are_cut(size: int) -> None:
    """Their sum is above the bound of each."""
    chunk = b"1;" + b"e" * 1500 + b"\r\na\r\n"
    whole = CHUNKED_HEAD % b"/a" + chunk * 3 + b"0;" + b"e" * 100 + b"\r\nx: " + b"x" * 1500 + b"\r\n\r\n"
    async with serving() as running, answering(running) as (reader, connection):
        for at in range(0, len(whole), size):
            connection.data_received(whole[at : at + size])
        await reader.readuntil(b'["/a", "aaa"]')


HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
BEFORE = {
    "nothing": b"",
    "a request": b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n",
    "one answered early": CHUNKED_HEAD % b"/early",
}
AFTER = {"nothing": b"", "a request": b"", "one answered early": b"0\r\n\r\n"}  # what comes once that is answered


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("cut", [0, 1, len(HANDSHAKE) // 2, len(HANDSHAKE) - 1])
async def test_nothing_of_http_ends_a_connection_that_has_become_a_websocket(before: str, cut: int) -> None:
    kind = type("Switched", (Switched,), {"taken": []})
    async with serving(ws=kind, socket_paths=frozenset({"/socket"})) as running:
        reader, writer = await running.send(b"")
        async with asyncio.timeout(PATIENCE):
            while not running.server.server_state.connections:
                await asyncio.sleep(0)
        connection = running.connection
        if before != "nothing":
            connection.data_received(BEFORE[before])
            await reader.readuntil(b'"]')
        connection.data_received(AFTER[before] + HANDSHAKE[:cut])
        connection.data_received(HANDSHAKE[cut:])
        assert kind.taken == [connection.transport]
        assert connection.idle_since is None
        assert not connection.transport.is_closing()
        writer.close()
        connection.transport.abort()


BODY_FAULTS = {
    "no size of a chunk": b"zz\r\n",
    "a broken trailer": b"0\r\n: x\r\n\r\n",
    "a trailer of many lines": b"0\r\n" + b"a:\r\n" * 1001,
    "a long extension": b"1;" + b"e" * 8000,
    "nothing more": b"",
}


def break_body(connection: BoundedHttpProtocol, fault: str) -> None:
    """Send the fault, or let time pass in which nothing is sent."""
    if fault == "nothing more":
        connection.check(connection.loop.time() + 61.0)
    else:
        connection.data_received(BODY_FAULTS[fault])


@pytest.mark.parametrize("fault", BODY_FAULTS)
@pytest.mark.parametrize(("path", "status"), [(b"/early", 200), (b"/begun", 200), (b"/a", 400)])
async def test_a_request_has_one_answer_whatever_its_body_becomes(path: bytes, status: int, fault: str) -> None:
    async with serving() as running, answering(running) as (reader, connection):
        running.app.began.clear()
        connection.data_received(CHUNKED_HEAD % path + b"1\r\na\r\n")
        await running.app.began.wait()
        said = await reader.readuntil(b'"]') if path == b"/early" else b""
        break_body(connection, fault)
        if path == b"/begun" and fault == "nothing more":
            connection.transport.abort()  # the answer is the app's to end
        assert connection.transport.is_closing()
        said += await reader.read()
    assert said.count(b"HTTP/1.1 ") == 1
    assert int(said[9:12]) // 100 == status // 100
    assert not running.told  # the app has the request, and reports it


@pytest.mark.parametrize("fault", BODY_FAULTS)
async def test_a_request_that_breaks_before_its_turn_is_answered_and_reported_once(fault: str) -> None:
    async with serving() as running, answering(running) as (reader, connection):
        connection.data_received(NEXT["no body"] + CHUNKED_HEAD % b"/next" + b"1\r\na\r\n")
        await running.app.holding.wait()
        break_body(connection, fault)
        await answered(running, reader)
        said = await reader.read()
    assert said.count(b"HTTP/1.1 ") == 1
    assert [(told.path, told.status) for told in running.told] == [("/next", int(said[9:12]))]
    assert "/next" not in [path for path, _ in running.app.seen]


HEAD_FAULTS = {
    "no host": b"GET /next HTTP/1.1\r\n\r\n",
    "a field without a name": b"GET /next HTTP/1.1\r\n: x\r\n\r\n",
    "a long head": b"GET /next HTTP/1.1\r\nx: " + b"x" * 8000,
    "many lines": b"GET /next HTTP/1.1\r\n" + b"a:\r\n" * 1001,
    "a tunnel": b"CONNECT /next HTTP/1.1\r\nhost: x\r\n\r\n",
    "a handshake of another version": HANDSHAKE.replace(b"13", b"12"),
    "a handshake that does not wait": HANDSHAKE + b"\x81\x80",
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("fault", HEAD_FAULTS)
async def test_a_head_that_breaks_is_answered_and_reported_once_whatever_came_before(fault: str, before: str) -> None:
    async with serving(ws=Switched, socket_paths=frozenset({"/socket"})) as running, answering(running) as (reader, _):
        if before != "nothing":
            running.connection.data_received(BEFORE[before])
            await reader.readuntil(b'"]')
        running.connection.data_received(AFTER[before] + HEAD_FAULTS[fault])
        said = await reader.read()
    assert said.count(b"HTTP/1.1 ") == 1
    assert [told.status for told in running.told] == [int(said[9:12])]
    assert 400 <= int(said[9:12]) < 500


def whole_chunks(size: int) -> bytes:
    return CHUNKED_HEAD % b"/next" + (b"400\r\n" + b"x" * 1024 + b"\r\n") * (size // 1024)


LEADS = {  # what comes between the request that is under way and what breaks
    "nothing": b"",
    "more pieces than have their turn at once": whole_chunks(PIECE * PIECES_AT_ONCE * 2) + b"0\r\n\r\n",
    "more of a body than may wait": whole_chunks(200_000) + b"0\r\n\r\n",
    "as many requests as may wait": b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n" * (BoundedHttpProtocol.pipelined - 1),
}
FAULTS_BEHIND = {
    "a head without a host": HEAD_FAULTS["no host"],
    "a long head": HEAD_FAULTS["a long head"],
    "a body that breaks": CHUNKED_HEAD % b"/n" + BODY_FAULTS["no size of a chunk"],
    "a long extension": CHUNKED_HEAD % b"/n" + BODY_FAULTS["a long extension"],
    "a long body that breaks": whole_chunks(200_000) + b"zz\r\n",
    "a body that breaks at the end of a turn": whole_chunks(PIECE * (PIECES_AT_ONCE - 1)) + b"zz\r\n",
}


@pytest.mark.sampled(keep=18)
@pytest.mark.parametrize("more", [b"", b"more" * 20_000], ids=["", "and more"])
@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("fault", FAULTS_BEHIND)
async def test_a_client_that_leaves_is_noticed_though_what_it_has_sent_behind_is_refused(
    fault: str, lead: str, more: bytes
) -> None:
    async with serving() as running:
        _, writer = await running.send(b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na")
        await running.app.waiting.wait()
        running.connection.data_received(LEADS[lead] + FAULTS_BEHIND[fault] + more)  # as one read
        async with asyncio.timeout(PATIENCE):
            while running.connection._deferred is None:
                await asyncio.sleep(0)
        assert running.connection.transport.is_reading()
        writer.transport.abort()
        async with asyncio.timeout(PATIENCE):
            await running.app.left.wait()


async def test_a_client_that_leaves_is_noticed_though_its_next_body_was_too_slow() -> None:
    async with serving() as running:
        _, writer = await running.send(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n" + CHUNKED_HEAD % b"/n")
        await running.app.waiting.wait()
        running.connection.check(asyncio.get_running_loop().time() + 61.0)
        assert running.connection._deferred is not None
        writer.transport.abort()
        async with asyncio.timeout(PATIENCE):
            await running.app.left.wait()
