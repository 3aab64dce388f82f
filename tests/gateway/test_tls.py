"""TLS of the public listener, PROXY headers before it, and what a client that means harm gets there."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from tests.gateway.authority import Authority
from tests.gateway.conftest import CHAT, House, body, eventually, over_http
from tests.shared import PATIENCE

from smg_core.config.config import Config
from smg_core.hooks import ExchangeEnded
from smg_core.http.proxies.settings import ProxiesConfig
from smg_core.server.tls.settings import TlsConfig
from smg_core.server.tls_accept import contexts_of
from smg_core.settings import ConfigError
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SIMULATED = SimulatorConfig(rules=(Rule((), Reply("Quite so.")),))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> TlsConfig:
    cert, key = authority.server().write(tmp_path, "server")
    return TlsConfig(cert=cert, key=key)


def trusting(authority: Authority, **bounds: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.trusted.decode())
    for name, value in bounds.items():
        setattr(context, name, value)
    return context


@asynccontextmanager
async def behind_tls(tls: TlsConfig, authority: Authority, **sections: Any) -> AsyncIterator[House]:
    """A gateway that speaks TLS, with a client that trusts it."""
    async with over_http(SIMULATED, config=Config(tls=tls, **sections)) as house:
        house.url = house.url.replace("http:", "https:")
        async with client(house, authority) as http:
            house.http = http
            yield house


def client(house: House, authority: Authority) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=house.url, timeout=PATIENCE, trust_env=False, verify=trusting(authority))


def port_of(house: House) -> int:
    return int(house.url.rpartition(":")[2])


def shown(answer: httpx.Response) -> bytes:
    """The certificate of the connection that an answer came by."""
    certificate = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert(True)
    assert isinstance(certificate, bytes)
    return certificate


def unfinished(house: House) -> int:
    (taking,) = house.server.servers
    count = taking.unfinished
    assert isinstance(count, int)
    return count


async def test_requests_and_streams_come_through_tls(tls: TlsConfig, authority: Authority) -> None:
    async with behind_tls(tls, authority) as house:
        whole = await house.http.post(CHAT, json=body())
        streamed = await house.http.post(CHAT, json=body(stream=True))

    assert whole.json()["choices"][0]["message"]["content"] == "Quite so."
    assert streamed.text.rstrip().endswith("data: [DONE]")


def stream_of_half(house: House, authority: Authority) -> bytes:
    """What comes of a stream whose client shuts its sending side once that has begun."""
    asked = json.dumps(body(stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(asked)}\r\n\r\n"
    said = b""
    with (
        socket.create_connection(("127.0.0.1", port_of(house)), PATIENCE) as plain,
        trusting(authority).wrap_socket(plain, server_hostname="localhost") as secured,
        socket.socket(fileno=os.dup(secured.fileno())) as below,
    ):
        secured.sendall(head.encode() + asked)
        said += secured.recv(1 << 16)
        below.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ssl.SSLEOFError, ConnectionResetError):
            while piece := secured.recv(1 << 16):
                said += piece
    return said


async def test_a_client_that_shuts_its_sending_side_has_left_and_its_request_ends(
    tls: TlsConfig, authority: Authority
) -> None:
    endless = SimulatorConfig(rules=(Rule((), Reply("word " * 3000)),), timing=Timing(decode_rate=100))
    async with over_http(endless, config=Config(tls=tls)) as house:
        said = await asyncio.to_thread(stream_of_half, house, authority)
        await eventually(lambda: not house.engine.active and not house.gateway.in_flight)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"[DONE]" not in said


async def test_a_changed_certificate_counts_for_new_connections_and_drops_no_open_one(
    tls: TlsConfig, authority: Authority, tmp_path: Path
) -> None:
    async with behind_tls(tls, authority) as house, client(house, authority) as other:
        before = await house.http.get("/liveness")
        new = authority.server()
        new.write(tmp_path, "server")
        assert await house.server._contexts.look()
        kept, fresh = await house.http.get("/liveness"), await other.get("/liveness")
        again = await house.server._contexts.look()

    assert shown(before) == shown(kept) != shown(fresh)
    assert shown(fresh) == new.certificate.public_bytes(serialization.Encoding.DER)
    assert not again


@pytest.mark.full
@pytest.mark.parametrize("broken", ["garbage", "another's key", "missing"])
async def test_a_broken_new_certificate_is_logged_once_and_the_old_one_stays(
    broken: str, tls: TlsConfig, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with behind_tls(tls, authority) as house:
        cert, key = tmp_path / "server.pem", tmp_path / "server.key"
        if broken == "garbage":
            cert.write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
        elif broken == "missing":
            key.unlink()
        else:
            authority.server().write(tmp_path, "other")
            key.write_bytes((tmp_path / "other.key").read_bytes())
        for _ in range(3):
            assert not await house.server._contexts.look()
        answer = await house.http.get("/liveness")
        authority.server().write(tmp_path, "server")
        assert await house.server._contexts.look()

    assert answer.status_code == 200
    assert len([each for each in caplog.records if "is not taken" in each.message]) == 1


@pytest.mark.full
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_old_versions_of_tls_are_not_spoken(
    version: ssl.TLSVersion, tls: TlsConfig, authority: Authority
) -> None:
    context = trusting(authority, minimum_version=version, maximum_version=version)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    async with behind_tls(tls, authority) as house:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port_of(house), ssl=context, server_hostname="localhost")
        await eventually(lambda: not unfinished(house))


async def test_the_oldest_version_can_be_set_and_weak_suites_are_not_spoken(
    authority: Authority, tls: TlsConfig
) -> None:
    newest = TlsConfig(cert=tls.cert, key=tls.key, minimum="1.3")
    old = trusting(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    async with behind_tls(newest, authority) as house:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port_of(house), ssl=old, server_hostname="localhost")
    suites = {each["name"] for each in contexts_of(Config(tls=tls)).current.get_ciphers()}
    assert suites
    assert all(name.startswith(("TLS_", "ECDHE-")) and ("GCM" in name or "POLY1305" in name) for name in suites)


async def test_plain_http_on_a_port_of_tls_is_told_in_words(tls: TlsConfig, authority: Authority) -> None:
    async with behind_tls(tls, authority) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        said = await reader.read()
        writer.close()

    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"https" in said


@pytest.mark.full
async def test_a_handshake_that_never_ends_is_ended(tls: TlsConfig, authority: Authority) -> None:
    impatient = TlsConfig(cert=tls.cert, key=tls.key, handshake_s=0.2)
    async with behind_tls(impatient, authority) as house:
        for begin in (b"", b"\x16\x03\x01"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
            writer.write(begin)
            async with asyncio.timeout(PATIENCE):
                assert await reader.read() == b""
            writer.close()
        await eventually(lambda: not unfinished(house))
        assert not house.server.server_state.connections


@pytest.mark.full
async def test_a_thousand_half_open_handshakes_keep_nobody_out(tls: TlsConfig, authority: Authority) -> None:
    few = TlsConfig(cert=tls.cert, key=tls.key, handshake_s=600, handshakes=32)
    async with behind_tls(few, authority) as house, AsyncExitStack() as opened:
        writers = []
        for _ in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
            opened.callback(writer.close)
            writer.write(b"\x16\x03\x01\x02")
            writers.append(writer)
        answer = await house.http.get("/liveness")
        most = unfinished(house)

    assert answer.status_code == 200
    assert most <= 32


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("other key", "the key is not that of the certificate"),
        ("encrypted", "the key is encrypted"),
        ("empty", "tls.cert: cannot be loaded"),
        ("missing", "tls.cert: cannot be read: No such file"),
    ],
)
def test_a_certificate_that_cannot_be_loaded_stops_the_start(
    change: str, why: str, tls: TlsConfig, authority: Authority, tmp_path: Path
) -> None:
    other = authority.server()
    if change == "other key":
        tls = TlsConfig(cert=tls.cert, key=other.write(tmp_path, "other")[1])
    elif change == "encrypted":
        other.write(tmp_path, "server", password=b"secret")
    elif change == "empty":
        (tmp_path / "server.pem").write_text("")
    else:
        (tmp_path / "server.pem").unlink()
    with pytest.raises(ConfigError, match=why):
        contexts_of(Config(tls=tls))


def test_a_certificate_without_its_key_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"tls\.cert and tls\.key"):
        Config(tls=TlsConfig(cert="server.pem"))


# --------------------------------------------------------------------------------------------------------------- proxies


PROXIED = ProxiesConfig(trusted=("127.0.0.0/8",), protocol=True)
HEADER = b"PROXY TCP4 198.51.100.7 203.0.113.1 4711 443\r\n"
GET = b"GET /liveness HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def peers(house: House) -> list[str]:
    return [each.peer for each in house.observer.of(ExchangeEnded)]


async def told(reader: asyncio.StreamReader) -> bytes:
    """All that the gateway says before it closes the connection, which it may do by a reset."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := await reader.read(4096):
            said += piece
    return said


async def test_the_client_that_a_proxy_names_before_tls_is_the_peer(tls: TlsConfig, authority: Authority) -> None:
    async with behind_tls(tls, authority, proxies=PROXIED) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
        writer.write(HEADER)
        await writer.start_tls(trusting(authority), server_hostname="localhost")
        writer.write(GET)
        said = await reader.read()
        writer.close()
        await eventually(lambda: peers(house))

    assert said.startswith(b"HTTP/1.1 200 ")
    assert peers(house) == ["198.51.100.7:4711"]


async def test_a_header_and_its_request_may_come_together_or_by_the_byte() -> None:
    async with over_http(SIMULATED, config=Config(proxies=PROXIED)) as house:
        for pieces in ([HEADER + GET], [bytes([each]) for each in HEADER + GET]):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()
        await eventually(lambda: len(peers(house)) == 2)

    assert peers(house) == ["198.51.100.7:4711"] * 2


async def test_a_trusted_proxy_that_sends_no_header_is_closed_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "smg.server")
    async with over_http(SIMULATED, config=Config(proxies=PROXIED)) as house:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
            writer.write(GET)
            assert await told(reader) == b""
            writer.close()

    assert peers(house) == []
    assert len([each for each in caplog.records if "does not begin with a PROXY header" in each.message]) == 1


async def test_a_header_of_a_peer_that_is_not_trusted_is_no_http() -> None:
    other = ProxiesConfig(trusted=("192.0.2.0/24",), protocol=True)
    async with over_http(SIMULATED, config=Config(proxies=other)) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
        writer.write(HEADER + GET)
        refused = await reader.read()
        writer.close()
        direct = await house.http.get("/liveness")

    assert refused.startswith(b"HTTP/1.1 400 ")
    assert direct.status_code == 200
    assert all(peer.startswith("127.0.0.1:") for peer in peers(house))


@pytest.mark.full
@pytest.mark.parametrize(("trusted", "peer"), [("127.0.0.1", "198.51.100.7"), ("192.0.2.1", "127.0.0.1")])
async def test_forwarding_headers_count_only_from_a_trusted_proxy(trusted: str, peer: str) -> None:
    proxies = ProxiesConfig(trusted=(trusted,), headers="x-forwarded-for")
    async with over_http(SIMULATED, config=Config(proxies=proxies)) as house:
        page = await house.http.get(
            "/", headers={"x-forwarded-for": "203.0.113.9, 198.51.100.7", "x-forwarded-proto": "https"}
        )
        await eventually(lambda: peers(house))

    assert peers(house)[0].partition(":")[0] == peer
    assert ("https://" in page.text) is (peer == "198.51.100.7")
