"""HTTP/1.1 as RFC 9110 and 9112 have it, case by case, as bytes on a socket.

Every case is followed by one more request on the same connection, which is answered where the case leaves the connection open
and not where it does not: so each case shows too that no byte of it is read as a part of another request. All cases run against
`serve`, and against the ASGI app under uvicorn as it comes; where uvicorn decides otherwise, `UNDER_UVICORN` says what it gives.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import attrs
import pytest
import uvicorn
from tests.gateway.conftest import CHAT, body, over_http
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.http.settings import ServerConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SAYS = SimulatorConfig(rules=(Rule(("apple",), Reply("An apple.")), Rule((), Reply("Yes."))))
APPLE = json.dumps(body("apple")).encode()
STREAM = json.dumps(body("apple", stream=True)).encode()
ANY_HOST = Config(server=ServerConfig(allowed_hosts=("*",)))
JSON = "content-type: application/json"
LAST = b"GET /liveness HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


@attrs.frozen
class Case:
    """What is sent, and the statuses that come back. `open`: whether the connection may be used again. `says`: bytes that the
    answers hold, `never` bytes that they do not. `bare`: a HEAD, whose answer has no body."""

    name: str
    sent: bytes
    statuses: tuple[int, ...] = (200,)
    open: bool = True
    says: bytes = b""
    never: bytes = b"smuggled"
    bare: bool = False


def message(line: str, *headers: str, sent: bytes = b"", host: str | None = "x") -> bytes:
    """One request; `host` None leaves it out."""
    named = [] if host is None else [f"host: {host}"]
    return "\r\n".join([line, *named, *headers, "", ""]).encode("latin-1") + sent


def get(*headers: str, target: str = "/liveness", version: str = "1.1", host: str | None = "x") -> bytes:
    return message(f"GET {target} HTTP/{version}", *headers, host=host)


def post(sent: bytes, *headers: str, version: str = "1.1", length: bool = True) -> bytes:
    sized = [f"content-length: {len(sent)}"] if length else []
    return message(f"POST {CHAT} HTTP/{version}", JSON, *sized, *headers, sent=sent)


def chunked(*frames: bytes, headers: tuple[str, ...] = ("transfer-encoding: chunked",)) -> bytes:
    """A POST whose body is `frames`, as they are on the wire."""
    return message(f"POST {CHAT} HTTP/1.1", JSON, *headers, sent=b"".join(frames))


def frame(data: bytes, size: bytes = b"%x") -> bytes:
    return size % len(data) + b"\r\n" + data + b"\r\n"


END = b"0\r\n\r\n"
H2C = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAARAAAAAAAIAAAAA")


def refused(name: str, sent: bytes, *statuses: int) -> Case:
    """A case that costs the connection."""
    return Case(name, sent, statuses or (400,), open=False)


def hosts() -> Iterator[Case]:
    yield Case("a host", get())
    yield Case("a host with a port", get(host="x:8000"))
    yield Case("an IPv4 address", get(host="127.0.0.1:8000"))
    yield Case("an IPv6 address", get(host="[::1]:8000"))
    yield Case("an empty host", get(host=""))
    yield Case("a host in capitals", get("HOST: x", host=None))
    yield Case("a host between tabs", get("host:\tx\t", host=None))
    yield Case("no host by HTTP/1.0", get(version="1.0", host=None), open=False)
    yield refused("no host", get(host=None))
    yield refused(
        "no host, and a body", message(f"POST {CHAT} HTTP/1.1", JSON, "content-length: 2", sent=b"{}", host=None)
    )
    yield refused("two hosts", get("host: y"))
    yield refused("the same host twice", get("host: x"))
    yield refused("two hosts by HTTP/1.0", get("host: y", version="1.0"))
    yield refused("two hosts, one empty", get("host:"))
    for host in (
        "x y",
        "x/y",
        "user@x",
        "x:80:80",
        "x:port",
        "[::1",
        "x?y",
        "x#y",
        "x\\y",
        '"x"',
        "<x>",
        "x,y z",
        "\x80",
    ):
        yield refused(f"the host {host!r}", get(host=host))


def lengths() -> Iterator[Case]:
    yield Case("a length", post(APPLE), says=b"An apple.")
    yield Case("a length with zeros before it", post(APPLE, f"content-length: 000{len(APPLE)}", length=False))
    yield Case("a length of zero", post(b""), (400,))
    yield Case("no length", post(b"", length=False), (400,))
    yield Case("a length between spaces", post(APPLE, f"content-length:   {len(APPLE)}  ", length=False))
    yield Case("a GET with a body", get(f"content-length: {len(SMUGGLED)}") + SMUGGLED)
    yield Case("a body of a request that no route takes", post(SMUGGLED).replace(CHAT.encode(), b"/nowhere"), (404,))
    yield Case("a body of a method that is not taken", post(SMUGGLED).replace(b"POST", b"PUT"), (405,))
    yield Case("a body that is a request", post(SMUGGLED), (400,))
    for length in (
        "+4",
        "-4",
        "0x4",
        "4 4",
        "4,4",
        "4, 4",
        "4;4",
        "4.0",
        "1e1",
        "four",
        "",
        "99999999999999999999",
        "4_0",
        "\x0b4",
    ):
        sent = message(f"POST {CHAT} HTTP/1.1", JSON, f"content-length: {length}", sent=SMUGGLED)
        yield refused(f"the length {length!r}", sent)
    yield refused("two lengths", post(SMUGGLED, "content-length: 4"))
    yield refused("the same length twice", post(SMUGGLED, f"content-length: {len(SMUGGLED)}"))
    yield refused("a space before the colon of a length", post(SMUGGLED, "content-length : 4", length=False))
    yield refused("a length and chunks", post(SMUGGLED, "transfer-encoding: chunked"))
    yield refused("chunks and a length", chunked(END, headers=("transfer-encoding: chunked", "content-length: 4")))


def chunks() -> Iterator[Case]:
    yield Case("one chunk", chunked(frame(APPLE), END), says=b"An apple.")
    yield Case("a chunk a byte", chunked(*(frame(bytes([byte])) for byte in APPLE), END), says=b"An apple.")
    yield Case("a size in capitals", chunked(frame(APPLE, b"%X"), END), says=b"An apple.")
    yield Case("a size with zeros before it", chunked(frame(APPLE, b"000%x"), END), says=b"An apple.")
    yield Case("a chunk extension", chunked(frame(APPLE, b"%x;name"), END), says=b"An apple.")
    yield Case("an extension with a value", chunked(frame(APPLE, b"%x;name=value"), END), says=b"An apple.")
    yield Case("a quoted extension", chunked(frame(APPLE, b'%x;name="a b"'), END), says=b"An apple.")
    yield Case("a trailer", chunked(frame(APPLE), b"0\r\nx-checksum: 1\r\n\r\n"), says=b"An apple.")
    yield refused("a trailer that names a length", chunked(frame(APPLE), b"0\r\ncontent-length: 5\r\n\r\n"))
    yield Case("no chunk but the last", chunked(END), (400,))
    yield Case("a last chunk of zeros", chunked(frame(APPLE), b"0000\r\n\r\n"), says=b"An apple.")
    yield Case("a chunk that is a request", chunked(frame(SMUGGLED), END), (400,))
    yield Case("CHUNKED", chunked(frame(APPLE), END, headers=("Transfer-Encoding: CHUNKED",)), says=b"An apple.")
    for name, frames in {
        "a size that is no number": b"x\r\n",
        "a negative size": b"-1\r\n",
        "a size with a sign": b"+5\r\nhello\r\n" + END,
        "a size as 0x5": b"0x5\r\nhello\r\n" + END,
        "a size over 64 bits": b"fffffffffffffffff\r\n",
        "an empty size": b"\r\nhello\r\n",
        "a space before the size": b" 5\r\nhello\r\n" + END,
        "a space behind the size": b"5 \r\nhello\r\n" + END,
        "a chunk longer than it says": b"5\r\nhelloX\r\n" + END,
        "a chunk that is not ended": b"5\r\nhello5\r\nhello\r\n" + END,
        "LF alone behind a size": b"5\nhello\r\n" + END,
        "LF alone behind a chunk": b"5\r\nhello\n" + END,
        "CR alone behind a size": b"5\rhello\r\n" + END,
        "NUL in an extension": b"5;a\x00b\r\nhello\r\n" + END,
        "a trailer with a space in its name": b"0\r\nx y: 1\r\n\r\n",
        "a folded trailer": b"0\r\nx: 1\r\n y\r\n\r\n",
    }.items():
        yield refused(name, chunked(frames, SMUGGLED))


def codings() -> Iterator[Case]:
    for coding, status in {
        "gzip, chunked": 501,
        "x, chunked": 501,
        "identity, chunked": 501,
        ", chunked": 501,
        "chunked, chunked": 400,
        "chunked;q=1": 400,
        "chunked, gzip": 400,
        "chunked, identity": 400,
        "identity": 400,
        "gzip": 400,
        "xchunked": 400,
        "chunkedx": 400,
        '"chunked"': 400,
        "": 400,
        "\x0bchunked": 400,
        "chunked\x00": 400,
    }.items():
        yield refused(
            f"the transfer coding {coding!r}", chunked(END, headers=(f"transfer-encoding: {coding}",)), status
        )
    twice = ("transfer-encoding: chunked", "transfer-encoding: chunked")
    yield refused("chunked twice", chunked(END, headers=twice))
    yield refused("chunked and gzip in two lines", chunked(END, headers=("transfer-encoding: gzip", twice[0])))
    yield refused("a space before the colon", chunked(END, headers=("transfer-encoding : chunked",)))
    yield refused("chunks by HTTP/1.0", post(END, "transfer-encoding: chunked", version="1.0", length=False))
    yield refused("a coding by HTTP/1.0", post(b"", "transfer-encoding: identity", version="1.0", length=False))
    packed = gzip.compress(APPLE)
    yield Case("gzip", post(packed, "content-encoding: gzip"), says=b"An apple.")
    yield Case("x-gzip", post(packed, "content-encoding: x-gzip"), says=b"An apple.")
    yield Case("GZIP", post(packed, "Content-Encoding: GZIP"), says=b"An apple.")
    yield Case("identity", post(APPLE, "content-encoding: identity"), says=b"An apple.")
    yield Case(
        "gzip in chunks",
        chunked(
            frame(packed[:20]),
            frame(packed[20:]),
            END,
            headers=("transfer-encoding: chunked", "content-encoding: gzip"),
        ),
        says=b"An apple.",
    )
    yield Case("what is not gzip", post(APPLE, "content-encoding: gzip"), (400,))
    yield Case("half a gzip", post(packed[:-4], "content-encoding: gzip"), (400,))
    yield Case("more behind the gzip", post(packed + SMUGGLED, "content-encoding: gzip"), (400,))
    bomb = gzip.compress(bytes(1 << 27))
    yield Case("a gzip that inflates over the limit", post(bomb, "content-encoding: gzip"), (413,))
    for coding in ("br", "zstd", "deflate", "compress", "gzip, gzip", "unknown"):
        yield Case(f"the content coding {coding}", post(APPLE, f"content-encoding: {coding}"), (415,), says=b"gzip")


def upgrades() -> Iterator[Case]:
    yield Case("h2c", post(APPLE, *H2C), says=b"An apple.")
    yield Case("h2c with a stream", post(STREAM, *H2C), says=b"[DONE]")
    yield Case(
        "h2c in chunks", chunked(frame(APPLE), END, headers=("transfer-encoding: chunked", *H2C)), says=b"An apple."
    )
    yield Case("h2c twice", post(APPLE, *H2C) + post(APPLE, *H2C), (200, 200), says=b"An apple.")
    yield Case("h2c of a GET", get(*H2C))
    yield Case("h2c with a body that is a request", post(SMUGGLED, *H2C), (400,))
    yield Case(
        "h2c in chunks that are a request",
        chunked(frame(SMUGGLED), END, headers=("transfer-encoding: chunked", *H2C)),
        (400,),
    )
    yield Case("h2c behind another request", get() + post(APPLE, *H2C), (200, 200), says=b"An apple.")
    yield Case("websocket where there is none", get("connection: upgrade", "upgrade: websocket"))
    yield Case("websocket with a body", post(SMUGGLED, "connection: upgrade", "upgrade: websocket"), (400,))
    yield Case(
        "websocket with a key", get("connection: keep-alive, Upgrade", "upgrade: WebSocket", "sec-websocket-key: x")
    )
    yield Case("TLS", post(APPLE, "connection: upgrade", "upgrade: TLS/1.2, HTTP/1.1"), says=b"An apple.")
    yield Case("several lines", post(APPLE, "connection: upgrade", "upgrade: a", "upgrade: b"), says=b"An apple.")
    yield Case("an upgrade that the connection does not name", post(APPLE, "upgrade: h2c"), says=b"An apple.")
    yield Case("a connection that names no upgrade", post(APPLE, "connection: upgrade"), says=b"An apple.")
    yield Case(
        "an upgrade that closes",
        post(APPLE, "connection: upgrade, close", "upgrade: h2c"),
        open=False,
        says=b"An apple.",
    )
    yield Case("an upgrade by HTTP/1.0", post(APPLE, "connection: upgrade", "upgrade: h2c", version="1.0"), open=False)
    yield Case("an upgrade that no route takes", get(*H2C, target="/nowhere"), (404,))
    yield refused("an upgrade without a host", message("GET /liveness HTTP/1.1", *H2C, host=None))
    yield refused("an upgrade with a length and chunks", post(SMUGGLED, "transfer-encoding: chunked", *H2C))
    yield refused("an upgrade with a coding", chunked(END, headers=("transfer-encoding: gzip, chunked", *H2C)), 501)
    yield refused("CONNECT", message("CONNECT x:443 HTTP/1.1"), 405)


def lines() -> Iterator[Case]:
    yield Case("an absolute target", get(target="http://x/liveness"))
    yield Case("an absolute target in capitals", get(target="HTTP://X/liveness"))
    yield Case("an absolute target of https, from a proxy that ends TLS", get(target="https://x/liveness"))
    yield Case("an absolute target with a query", get(target="http://x/liveness?a=/b"))
    yield Case("an absolute target with a port", get(target="http://x:80/liveness", host="x:80"))
    yield Case("an absolute target without a path", get(target="http://x"), says=b"<h1>SMG")
    yield Case(
        "an absolute target without a path, with a port", get(target="http://x:80", host="x:80"), says=b"<h1>SMG"
    )
    yield Case("an absolute target without a path, with a query", get(target="http://x?a=b"), says=b"<h1>SMG")
    yield Case("an absolute target of nothing but a slash", get(target="http://x/"), says=b"<h1>SMG")
    yield Case("a body to an absolute target", post(APPLE).replace(CHAT.encode(), b"http://x" + CHAT.encode()))
    yield Case("an upgrade at an absolute target without a path", get(*H2C, target="http://x"), says=b"<h1>SMG")
    yield refused("an absolute target of another host", get(target="http://y"))
    yield refused("an absolute target of another port", get(target="http://x:81?a"))
    yield refused("an absolute target without a host", get(target="http:///liveness"))
    yield refused("an absolute target with a user", get(target="http://user@x/liveness"))
    yield refused("an absolute target of another scheme", get(target="ftp://x/liveness"))
    yield refused("a fragment", get(target="/liveness#a"))
    yield refused("a fragment of an absolute target", get(target="http://x#a"))
    yield refused("a query alone", get(target="?a=b"))
    yield refused("an asterisk that is not OPTIONS", message("GET * HTTP/1.1"))
    yield refused("an asterisk with more", message("OPTIONS *x HTTP/1.1"))
    yield refused("a host alone", get(target="x:80"))
    yield Case("a query", get(target="/liveness?a=b&c"))
    yield Case("a question mark", get(target="/liveness?"))
    yield Case("an encoded letter", get(target="/%6civeness"))
    yield Case("OPTIONS for all", message("OPTIONS * HTTP/1.1"), (204,), says=b"allow: DELETE, GET, ")
    yield Case("OPTIONS of a host", message("OPTIONS http://x HTTP/1.1"), (204,), says=b"allow: DELETE, GET, ")
    yield Case("OPTIONS of an absolute root", message("OPTIONS http://x/ HTTP/1.1"), (405,), says=b"allow: GET")
    yield Case("two spaces, which RFC 9112 lets be one", get(target=" /liveness"))
    yield Case("two slashes", get(target="//liveness"), (404,))
    yield Case("dots", get(target="/a/../liveness"), (404,))
    yield Case("an empty line before", b"\r\n" + get())
    yield Case("HEAD", message("HEAD /liveness HTTP/1.1"), bare=True)
    yield Case("HEAD of nothing", message("HEAD /nowhere HTTP/1.1"), (404,), bare=True)
    yield Case("OPTIONS", message("OPTIONS /liveness HTTP/1.1"), (405,), says=b"allow: GET")
    yield Case("DELETE", message("DELETE /liveness HTTP/1.1"), (405,))
    yield Case("TRACE", message("TRACE /liveness HTTP/1.1", "cookie: smuggled"), (405,))
    yield Case("a WebDAV method", message("PROPFIND /liveness HTTP/1.1"), (405,))
    for line in (
        *("GET /live ness HTTP/1.1", "GET /liveness", "GET", "", "/liveness HTTP/1.1"),
        *("get /liveness HTTP/1.1", "BREW /liveness HTTP/1.1", "GET /liveness HTTP/1.1 x", "GET liveness HTTP/1.1"),
        *("GET /liveness HTTP/1.2", "GET /liveness HTTP/2.0", "GET /liveness HTTP/0.9", "GET /liveness http/1.1"),
        *("GET /liveness HTTP/11", "GET /liveness FTP/1.1", "GET /live\x00ness HTTP/1.1", "GET /live\x7fness HTTP/1.1"),
        *("GET\t/liveness HTTP/1.1", "PRI * HTTP/2.0", "\x16\x03\x01\x02\x00\x01"),
    ):
        if line:
            yield refused(f"the line {line!r}", message(line))
    yield refused("LF alone behind the line", b"GET /liveness HTTP/1.1\nhost: x\r\n\r\n")
    yield refused("CR alone behind the line", b"GET /liveness HTTP/1.1\rhost: x\r\n\r\n")


def fields() -> Iterator[Case]:
    yield Case("an empty value", get("x-empty:"))
    yield Case("a value in UTF-8", get("x-name: \xc3\xa9"))
    yield Case("many lines", get(*(f"x-{number}: {number}" for number in range(200))))
    yield Case("odd names", get("!#$%&'*+-.^_`|~0: x"))
    for name, line in {
        "a space before the colon": "x-name : 1",
        "a tab before the colon": "x-name\t: 1",
        "a space in the name": "x name: 1",
        "an empty name": ": 1",
        "no colon": "x-name",
        "a folded value": "x-name: a\r\n b",
        "a fold first": " x-name: a",
        "NUL in the name": "x\x00name: 1",
        "NUL in the value": "x-name: a\x00b",
        "LF alone in a value": "x-name: a\ncontent-length: 4",
        "CR alone in a value": "x-name: a\rcontent-length: 4",
        "a control character in a value": "x-name: a\x01b",
        "DEL in a value": "x-name: a\x7fb",
        "a name that is not ASCII": "x-n\xe9: 1",
        "a bracket in the name": "x(name): 1",
        "a quote in the name": 'x"name": 1',
    }.items():
        yield refused(name, get(line))
    yield refused("a head over its limit", get("x-long: " + "a" * 70_000), 431)
    yield refused("a name over its limit", get("a" * 70_000 + ": 1"), 431)
    yield refused("a target over its limit", get(target="/" + "a" * 70_000), 431)
    yield refused("more short lines than are taken", get(*("a:" for _ in range(1001))), 431)
    yield refused("too many lines", get(*("a: b" for _ in range(20_000))), 431)


def connections() -> Iterator[Case]:
    yield Case("keep-alive by default", get() + get(), (200, 200))
    yield Case("close", get("connection: close"), open=False)
    yield Case("Close among others", get("connection: x, Close"), open=False)
    yield Case("HTTP/1.0", get(version="1.0"), open=False)
    yield Case("a whole answer by HTTP/1.0", post(APPLE, version="1.0"), open=False, says=b"An apple.")
    yield Case("ten in one packet", get() * 9 + get(target="/nowhere"), (*[200] * 9, 404))
    yield Case("a stream and a whole answer", post(STREAM) + post(APPLE), (200, 200), says=b"[DONE]")
    yield Case("a refusal between two", get() + get(target="/nowhere") + get(), (200, 404, 200))
    yield Case(
        "a broken request behind a good one", post(APPLE) + b"x y z\r\n\r\n", (200, 400), open=False, says=b"An apple."
    )
    yield Case("what follows a close is not read", get("connection: close") + SMUGGLED, open=False)
    yield Case("expect", post(APPLE, "expect: 100-continue"), says=b"An apple.")
    yield Case("Expect in capitals", post(APPLE, "Expect: 100-Continue"), says=b"An apple.")
    yield Case("an empty line between two", get() + b"\r\n" + get(), (200, 200))


CASES = [
    case
    for part in (hosts, lengths, chunks, codings, upgrades, lines, fields, connections)
    for case in (attrs.evolve(each, name=f"{part.__name__}: {each.name}") for each in part())
]


# What uvicorn's own protocol gives instead: all answers on the connection. It reads nothing behind a wish for another protocol,
# the body included: the app sees a request without one, and closes. So no byte of the body is read as a request, either.
NO_BODY = (400,)
UNDER_UVICORN = {
    "upgrades: h2c": NO_BODY,
    "upgrades: h2c with a stream": NO_BODY,
    "upgrades: h2c in chunks": NO_BODY,
    "upgrades: h2c twice": NO_BODY,
    "upgrades: h2c with a body that is a request": NO_BODY,
    "upgrades: h2c in chunks that are a request": NO_BODY,
    "upgrades: h2c behind another request": (200, *NO_BODY),
    "upgrades: websocket with a body": NO_BODY,
    "upgrades: TLS": NO_BODY,
    "upgrades: several lines": NO_BODY,
    "upgrades: an upgrade that closes": NO_BODY,
    "upgrades: an upgrade by HTTP/1.0": NO_BODY,
    "upgrades: h2c of a GET": (200,),
    "upgrades: websocket where there is none": (200,),
    "upgrades: websocket with a key": (200,),
    "upgrades: an upgrade that no route takes": (404,),
    "upgrades: CONNECT": (400,),  # to uvicorn its target is not a valid one
    **dict.fromkeys(
        (f"lines: an absolute target without a path{more}" for more in ("", ", with a port", ", with a query")), (400,)
    ),
    "lines: an upgrade at an absolute target without a path": (400,),
    "lines: OPTIONS of a host": (400,),
    # uvicorn gives the app the path alone, so there is nothing to refuse.
    "lines: an absolute target with a user": (200, 200),
    "lines: an absolute target of another scheme": (200, 200),
    "lines: a fragment": (200, 200),
    "lines: an asterisk that is not OPTIONS": (404, 200),
    "lines: an asterisk with more": (404, 200),
    "fields: a target over its limit": (400,),  # httptools reads no URL over 65,535 bytes
    "connections: a broken request behind a good one": (400,),  # at once, in place of the answer before it
}


# ------------------------------------------------------------------------------------------------------ the two servers


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[int]:
    """The port of `serve`."""
    async with over_http(SAYS) as house:
        yield int(house.url.rpartition(":")[2])


@asynccontextmanager
async def under_uvicorn() -> AsyncIterator[int]:
    """The port of the app under uvicorn with its own HTTP protocol."""
    async with Gateway.simulated(SAYS, config=ANY_HOST) as gateway:
        config = uvicorn.Config(gateway.asgi(), port=0, http="httptools", ws="none", lifespan="off", log_config=None)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        await server.on_tick(0)  # writes the date
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.servers[0].close()
            for connection in list(server.server_state.connections):
                connection.transport.abort()


@pytest.fixture(scope="module")
async def plain() -> AsyncIterator[int]:
    async with under_uvicorn() as port:
        yield port


async def exchange(port: int, *pieces: bytes) -> bytes:
    """All that the server says until it closes. What it no longer reads is not sent."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        said = asyncio.create_task(all_of(reader))
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            answer = await said
            writer.close()
        return answer


async def all_of(reader: asyncio.StreamReader) -> bytes:
    said = b""
    try:
        while piece := await reader.read(65536):
            said += piece
    except ConnectionResetError:
        pass
    return said


def statuses(said: bytes, *, bare: bool) -> list[int]:
    """The statuses of the final answers in `contents`, each with a whole body; of a HEAD the first has none."""
    found = []
    while said:
        head, _, said = said.partition(b"\r\n\r\n")
        line, *rest = head.split(b"\r\n")
        fields = dict(each.lower().split(b": ", 1) for each in rest)
        status = int(line.split()[1])
        if status < 200:
            continue
        assert b"date" in fields
        found.append(status)
        if (bare and len(found) == 1) or status == 204:
            assert status != 204 or b"content-length" not in fields
            continue
        if b"content-length" in fields:
            length = int(fields[b"content-length"])
            assert len(said) >= length
            said = said[length:]
        elif b"transfer-encoding" in fields:
            _, end, said = said.partition(b"\r\n0\r\n\r\n")
            assert end
        else:
            said = b""
    return found


def held(case: Case, said: bytes) -> None:
    expected = [*case.statuses, *([200] if case.open else [])]
    assert statuses(said, bare=case.bare) == expected, said[:2000]
    assert case.says in said
    assert case.never not in said.replace(b"/smuggled here", b"smuggled")


def named(case: Case) -> str:
    return case.name


@pytest.mark.full
@pytest.mark.sampled(keep=80)
@pytest.mark.parametrize("case", CASES, ids=named)
async def test_serve_answers_each_case_however_it_arrives(served: int, case: Case) -> None:
    whole = case.sent + LAST
    middle = case.sent.find(b"\r\n\r\n") + 4
    held(case, await exchange(served, whole))
    held(case, await exchange(served, case.sent[:middle], case.sent[middle:], LAST))
    if len(whole) < 1000:
        held(case, await exchange(served, *(whole[at : at + 1] for at in range(len(whole)))))


@pytest.mark.sampled(keep=40)
@pytest.mark.parametrize("case", CASES, ids=named)
async def test_the_app_answers_each_case_under_plain_uvicorn_too(plain: int, case: Case) -> None:
    otherwise = UNDER_UVICORN.get(case.name)
    if otherwise is not None:
        case = attrs.evolve(case, statuses=otherwise, open=False, says=b"")
    held(case, await exchange(plain, case.sent + LAST))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (get(), [200]),
        (post(APPLE), [200]),
        (post(STREAM), [200]),
        (post(APPLE) + get(target="/nowhere") + post(STREAM), [200, 404, 200]),
        (post(APPLE)[:-5], []),
        (b"GET /live", []),
        (b"", []),
    ],
    ids=["small", "whole", "stream", "three", "half a body", "half a head", "nothing"],
)
async def test_a_client_that_shuts_its_sending_side_gets_the_answers_to_what_it_asked(
    served: int, sent: bytes, expected: list[int]
) -> None:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", served)
        writer.write(sent)
        writer.write_eof()
        said = await all_of(reader)
        writer.close()

    assert statuses(said, bare=False) == expected


def test_the_table_is_as_long_as_it_claims() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.name for case in CASES} > set(UNDER_UVICORN)
