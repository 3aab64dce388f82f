"""Connections through a proxy: a tunnel in which TLS is spoken with the server itself, or an error that says why not."""

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core.engines.connections.target import Tls
from smg_core.engines.http.address import HttpAddress, proxy_for
from smg_core.engines.http.client import HttpClient
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import WorkerGone

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"], autouse=True)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(OK)


@attrs.define
class Proxy:
    """Connects those who ask for a tunnel; or says `answer`, whatever they ask. `asked` are the requests, `seen` what went by."""

    port: int
    answer: bytes | None = None
    asked: list[bytes] = attrs.field(factory=list)
    seen: bytearray = attrs.field(factory=bytearray)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        if self.answer is not None:
            writer.write(self.answer)
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nvia: 1.1 proxy\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, back))
                group.create_task(self._pass(there, writer))
        finally:
            back.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                self.seen += data
                writer.write(data)
        writer.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return tmp_path / "ca.pem"


def context(authority: trustme.CA) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("vendor.example").configure_cert(made)
    return made


def through(proxy: int, ca: Path, **limits: Any) -> HttpClient:
    """A client of a host that only the proxy knows."""
    settings = EnginesConfig(http_proxy=f"http://127.0.0.1:{proxy}", **limits)
    return HttpClient("https://vendor.example:8443/v1", tls=Tls(ca=ca), limits=settings, connect_timeout=PATIENCE)


async def test_a_tunnel_is_asked_for_and_what_goes_through_it_is_not_seen(authority: trustme.CA, ca: Path) -> None:
    async with listening(serve, context(authority)) as server:
        proxy = Proxy(server)
        async with listening(proxy.take) as port:
            client = through(port, ca)
            for _ in range(2):
                reply = await client.ask("GET", "/s3cret", timeout=PATIENCE, headers=[("x-api-key", "s3cret")])
                assert reply.body == b"ok"
            await client.close()
    (asked,) = proxy.asked
    assert asked == b"CONNECT vendor.example:8443 HTTP/1.1\r\nhost: vendor.example:8443\r\n\r\n"
    assert proxy.seen
    assert b"s3cret" not in proxy.seen


async def test_the_certificate_has_to_be_the_servers(authority: trustme.CA, ca: Path) -> None:
    other = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("other.example").configure_cert(other)
    async with listening(serve, other) as server, listening(Proxy(server).take) as port:
        client = through(port, ca)
        with pytest.raises(WorkerGone):
            await client.ask("GET", "/", timeout=PATIENCE)
        await client.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refuses the tunnel: HTTP status 407"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nno!", "refuses the tunnel: HTTP status 502"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not answer as one"),
        (b"HTTP/1.1 200 OK\r\n\r\nand more", "more than its answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 4000, "does not answer as one"),
        (b"", "closed the connection"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_named(ca: Path, answer: bytes, why: str) -> None:
    async with listening(Proxy(1, answer).take) as port:
        client = through(port, ca)
        with pytest.raises(WorkerGone) as caught:
            await client.ask("GET", "/", timeout=PATIENCE)
        assert why in (caught.value.detail or "")
        await client.close()


async def test_a_proxy_that_says_nothing_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(silent) as port:
        settings = EnginesConfig(http_proxy=f"http://127.0.0.1:{port}")
        client = HttpClient("https://vendor.example/v1", limits=settings, connect_timeout=0.05)
        with pytest.raises(WorkerGone, match="not available"):
            await client.ask("GET", "/", timeout=PATIENCE)
        await client.close()


@pytest.mark.parametrize(
    ("url", "direct", "proxied"),
    [
        ("https://vendor.example/v1", (), True),
        ("https://vendor.example/v1", ("vendor.example",), False),
        ("https://eu.vendor.example/v1", (".Vendor.example",), False),
        ("https://vendor.example/v1", (".vendor.example",), True),
        ("https://notvendor.example/v1", (".vendor.example", "vendor.example"), True),
        ("http://vendor.example/v1", (), False),
        ("http+unix:///run/engine.sock", (), False),
    ],
)
def test_which_servers_are_reached_through_the_proxy(url: str, direct: tuple[str, ...], proxied: bool) -> None:
    found = proxy_for(HttpAddress.parse(url), "http://proxy.example:3128", direct)
    assert (found is not None) == proxied


@pytest.mark.parametrize("proxy", ["https://proxy.example", "http://user:s3cret@proxy.example", "proxy.example:3128"])
def test_a_proxy_is_written_as_a_plain_url(proxy: str) -> None:
    with pytest.raises(ValueError) as caught:
        proxy_for(HttpAddress.parse("https://vendor.example"), proxy, ())
    assert "s3cret" not in str(caught.value)
