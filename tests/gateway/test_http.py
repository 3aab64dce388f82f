"""HTTP as hostile or odd clients speak it, through the whole server."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.hooks import ExchangeEnded
from smg_core.http.settings import ServerConfig
from smg_core.server.http_protocol import BoundedHttpProtocol
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SAYS = SimulatorConfig(
    rules=(Rule(("apple",), Reply("An apple.")), Rule(("pear",), Reply("A pear.")), Rule((), Reply("Yes.")))
)
BROWSERS = Config(server=ServerConfig(cors_origins=("https://app.example",)))
CLOSE = "connection: close"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    """One server for all but the tests that need their own settings."""
    async with over_http(SAYS) as house:
        yield house


def request(text: str, *heads: str, version: str = "1.1", **fields: Any) -> bytes:
    sent = json.dumps(body(text, **fields)).encode()
    lines = [
        f"POST {CHAT} HTTP/{version}",
        "host: gateway",
        "content-type: application/json",
        f"content-length: {len(sent)}",
        *heads,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + sent


@asynccontextmanager
async def connected(house: House) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_connections_send_each_piece_when_it_is_written(house: House) -> None:
    """Also on asyncio's own loop, and where the listener was made without a protocol number."""
    async with connected(house):
        assert house.server is not None
        await eventually(lambda: bool(house.server.server_state.connections))
        for each in house.server.server_state.connections:
            sock = each.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def exchange(house: House, *pieces: bytes) -> bytes:
    """All that the server says until it closes."""
    async with asyncio.timeout(PATIENCE), connected(house) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()


async def still_serves(house: House) -> None:
    assert (await house.chat()).status_code == 200
    await settled(house)


async def test_pipelined_requests_are_answered_in_order_streamed_and_whole(house: House) -> None:
    said = await exchange(house, request("apple", stream=True) + request("pear") + request("plum", CLOSE))

    assert said.count(b"HTTP/1.1 200 OK") == 3
    assert said.index(b"[DONE]") < said.index(b"A pear.") < said.index(b"Yes.")
    await still_serves(house)


async def test_what_is_broken_behind_a_request_does_not_cost_that_request_its_answer(house: House) -> None:
    said = await exchange(
        house, request("apple") + b"POST / HTTP/1.1\r\ncontent-length: 1, 2\r\n\r\n" + request("pear")
    )

    assert [said[at : at + 12] for at in (0, said.index(b"HTTP/1.1 4"))] == [b"HTTP/1.1 200", b"HTTP/1.1 400"]
    assert said.count(b"HTTP/1.1") == 2
    assert b"An apple." in said
    assert b"A pear." not in said
    await still_serves(house)


@pytest.mark.parametrize(
    "smuggled",
    [
        b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"content-length: 0\r\ncontent-length: 44\r\n\r\n",
        b"content-length: 1_0\r\n\r\n",
    ],
)
async def test_what_two_servers_could_read_differently_never_reaches_the_app(house: House, smuggled: bytes) -> None:
    asked = house.engine.counters["requests"]
    said = await exchange(
        house, b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n" + smuggled + request("pear", CLOSE)
    )

    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1") == 1
    assert b"pear" not in said
    assert house.engine.counters["requests"] == asked


async def test_a_body_in_chunks_with_extensions_and_trailers_is_read(house: House) -> None:
    sent = json.dumps(body("apple")).encode()
    lines = [f"POST {CHAT} HTTP/1.1", "host: x", CLOSE, "content-type: application/json", "transfer-encoding: chunked"]
    head = "\r\n".join([*lines, "", ""]).encode()
    chunks = b"".join(b"1;name=value\r\n%c\r\n" % byte for byte in sent[:20]) + b"%X\r\n%b\r\n" % (
        len(sent) - 20,
        sent[20:],
    )
    said = await exchange(house, head, chunks, b"0\r\nx-trailer: 1\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"An apple." in said


async def test_a_broken_chunk_is_400_and_nothing_hangs(house: House) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    said = await exchange(house, head + b"5\r\nabcdeXX\r\n", b"0\r\n\r\n")
    await still_serves(house)
    told = next(each for each in reversed(house.observer.of(ExchangeEnded)) if each.status != 200)

    assert said.startswith(b"HTTP/1.1 400 ")
    assert (told.status, told.outcome) == (400, "InvalidRequest")
    assert f"x-request-id: {told.request_id}".encode() in said


async def test_a_client_that_expects_100_is_asked_for_its_body(house: House) -> None:
    sent = request("apple", CLOSE, "expect: 100-continue")
    head, _, rest = sent.partition(b"\r\n\r\n")
    async with connected(house) as (reader, writer):
        writer.write(head + b"\r\n\r\n")
        interim = await reader.readuntil(b"\r\n\r\n")
        writer.write(rest)
        said = await reader.read()

    assert interim.startswith(b"HTTP/1.1 100 ")
    assert said.startswith(b"HTTP/1.1 200 ")


async def test_a_client_that_expects_100_for_what_is_refused_is_not_asked_and_its_connection_closed(
    house: House,
) -> None:
    head = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
    large = await exchange(house, head % (CHAT.encode(), 1 << 40))
    lost = await exchange(house, head % (b"/nowhere", 5))

    assert large.startswith(b"HTTP/1.1 413 ")
    assert lost.startswith(b"HTTP/1.1 404 ")
    assert b"connection: close" in large
    assert b"connection: close" in lost


async def test_a_client_of_http_1_0_gets_plain_bytes_and_the_end_of_the_connection(house: House) -> None:
    streamed = await exchange(house, request("apple", version="1.0", stream=True))
    whole = await exchange(house, request("apple", version="1.0"))

    for said in (streamed, whole):
        assert b"transfer-encoding" not in said.partition(b"\r\n\r\n")[0]
    assert streamed.partition(b"\r\n\r\n")[2].startswith(b"data: {")
    assert streamed.endswith(b"data: [DONE]\n\n")
    assert json.loads(whole.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] == "An apple."


async def test_a_connection_is_used_again_after_every_kind_of_refusal(house: House) -> None:
    bad = json.dumps(body(temperature=9)).encode()
    refused = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    pieces = [
        refused % (CHAT.encode(), len(bad), bad),
        refused % (b"/nowhere", 100_000, b"x" * 100_000),
        refused % (b"/v1/models", 10, b"x" * 10),
        request("apple"),
        refused % (CHAT.encode(), 1, b"{"),
        request("pear", CLOSE),
    ]
    said = await exchange(house, *pieces)

    assert [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]] == [b"400", b"404", b"405", b"200", b"400", b"200"]


async def test_head_answers_like_get_without_a_body(house: House) -> None:
    got, headed = await house.http.get("/v1/models"), await house.http.head("/v1/models")

    assert headed.status_code == 200
    assert headed.content == b""
    assert headed.headers["content-length"] == got.headers["content-length"]
    assert (await house.http.head(CHAT)).status_code == 405
    assert (await house.http.head("/health")).status_code == 200


async def test_browsers_of_allowed_origins_may_ask_and_may_read_errors_too() -> None:
    ours, theirs = {"origin": "https://app.example"}, {"origin": "https://elsewhere.example"}
    wish = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, x-own"}
    async with in_process(SAYS, config=BROWSERS) as house:
        preflight = await house.http.options(CHAT, headers=ours | wish)
        answers = [
            await house.http.post(CHAT, json=sent, headers=ours) for sent in (body(), body(stream=True), body(n=0))
        ]
        lost = await house.http.get("/nowhere", headers=ours)
        foreign = [
            await house.http.post(CHAT, json=body(), headers=theirs),
            await house.http.options(CHAT, headers=theirs),
        ]

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-headers"] == "authorization, x-own"
    for answer in (preflight, *answers, lost):
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert answer.headers["vary"] == "origin"
    assert not [answer for answer in foreign if "access-control-allow-origin" in answer.headers]


async def test_without_allowed_origins_options_is_no_method(house: House) -> None:
    assert (await house.http.options(CHAT, headers={"origin": "https://a.example"})).status_code == 405


async def test_a_head_over_its_bound_is_431_wherever_it_is_long(house: House) -> None:
    for head in (
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
    ):
        assert (await exchange(house, head)).startswith(b"HTTP/1.1 431 ")
    await still_serves(house)


@pytest.mark.full
async def test_slow_clients_are_sent_away_and_cost_the_others_nothing() -> None:
    config = Config(server=ServerConfig(header_timeout_s=3600, body_timeout_s=3600))
    async with over_http(SAYS, config=config) as house:
        slow = [
            asyncio.create_task(exchange(house, start))
            for start in (b"", b"GET / HT", b"POST / HTTP/1.1\r\nhost: x\r\nx: ", request("apple")[:-3])
            for _ in range(25)
        ]
        await eventually(lambda: len(house.server.server_state.connections) >= 100)
        assert (await house.chat()).status_code == 200
        later = asyncio.get_running_loop().time() + 3601
        for connection in list(house.server.server_state.connections):
            connection.check(later)
        said = await asyncio.gather(*slow)

    assert {answer[:12] for answer in said} == {b"HTTP/1.1 408"}


@pytest.mark.full
async def test_a_refused_body_that_never_ends_is_not_read_for_ever() -> None:
    config = Config(server=ServerConfig(body_timeout_s=0.5))
    async with over_http(SAYS, config=config) as house:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {1 << 40}\r\n\r\n".encode()
        said = await exchange(house, head, b"x" * 1000)

    assert said.startswith(b"HTTP/1.1 413 ")


async def test_a_refused_body_is_thrown_away_within_a_bound(house: House) -> None:
    async with connected(house) as (reader, writer):
        writer.write(
            f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {1 << 40}\r\n\r\n".encode()
        )
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413 ")
        port = writer.get_extra_info("sockname")[1]
        (connection,) = (each for each in house.server.server_state.connections if each.client[1] == port)
        assert isinstance(connection, BoundedHttpProtocol)
        connection.discard_bytes = 1000
        writer.write(b"x" * 2000)
        await eventually(lambda: connection.transport.is_closing())


async def test_unknown_encodings_and_odd_targets_are_answered(house: House) -> None:
    answers = [
        await exchange(house, f"{line} HTTP/1.1\r\nhost: x\r\n{CLOSE}\r\n\r\n".encode())
        for line in (
            *("GET /health?x=%00", "GET //health", "GET /health/../v1/models", "GET /%2e%2e/etc/passwd"),
            *("GET http://other/health", "OPTIONS *", "GET /v1/models/%ff%fe", "TRACE /", "CONNECT a:1", "PRI *"),
        )
    ]

    assert {answer[:9] for answer in answers} == {b"HTTP/1.1 "}
    assert not [answer for answer in answers if answer[9:10] == b"5"]
    await still_serves(house)


@pytest.mark.full
async def test_many_connections_that_say_nothing_leave_room_for_one_that_does(house: House) -> None:
    port = int(house.url.rpartition(":")[2])
    idle = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(300)))
    async with httpx.AsyncClient(base_url=house.url, trust_env=False, timeout=PATIENCE) as http:
        assert (await http.post(CHAT, json=body())).status_code == 200
    for _, writer in idle:
        writer.transport.abort()


NOTHING_MORE = [
    (b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\r\n"),
    (b"POST /v1/nope HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\n", b"abc"),
    (b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", b""),
]
"""A request, and what comes after its answer: it begins no other request."""


@pytest.mark.full
@pytest.mark.parametrize(("first", "more"), NOTHING_MORE, ids=["a line end", "the rest of a refused body", "nothing"])
async def test_a_connection_on_which_nothing_is_under_way_is_closed_whatever_its_last_bytes_were(
    first: bytes, more: bytes
) -> None:
    config = Config(server=ServerConfig(keep_alive_s=1))
    async with over_http(SAYS, config=config) as house, connected(house) as (reader, writer):
        async with asyncio.timeout(PATIENCE):
            writer.write(first)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(more)
            await reader.read()  # to the end


async def test_a_kept_connection_serves_requests_after_a_line_end_and_a_refused_body(house: House) -> None:
    async with connected(house) as (reader, writer):
        for first, more in NOTHING_MORE * 2:
            writer.write(first + more)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
            assert head.split()[1] in (b"200", b"404")
