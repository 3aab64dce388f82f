"""Requests for tokens: which hosts may be asked, at which address, and how often."""

import asyncio
from collections.abc import Sequence

import attrs
import pytest
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core.credentials.renewal.asking import TokenAsker
from smg_core.errors import WorkerGone
from smg_egress.rules import EgressRefused

pytestmark = pytest.mark.anyio

TOKEN = b'HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n"token"'
FAULT = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"


@attrs.define
class Peer:
    """Says `answers` one after the other, one a connection; b"" hangs up."""

    answers: list[bytes]
    heads: list[bytes] = attrs.field(factory=list)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answers.pop(0))
        writer.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://sts.amazonaws.com/",  # a token's host, yet not by TLS
        "https://169.254.169.254/latest/api/token",
        "http://169.254.169.253/",
        "http://10.0.0.1/credentials",
        "https://evil.example/token",
        "https://amazonaws.com.evil.example/",
        "http://user:password@127.0.0.1/",
    ],
)
async def test_a_host_that_gives_no_credentials_is_not_asked(url: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    with pytest.raises(EgressRefused):
        await TokenAsker(resolve=resolve).ask("GET", url)


async def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    peer, asked = Peer([TOKEN]), []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with listening(peer.take) as port:
        asker = TokenAsker(resolve=resolve, timeout_s=PATIENCE, near_s=PATIENCE)
        answer = await asker.ask("GET", f"http://metadata.google.internal:{port}/token", headers=[("x-one", "1")])
    assert (answer.status, answer.body) == (200, b'"token"')
    assert asked == ["metadata.google.internal"]
    assert f"host: metadata.google.internal:{port}".encode() in peer.heads[0].lower()
    assert b"x-one: 1" in peer.heads[0].lower()


async def test_a_host_that_is_at_fault_is_asked_again_and_not_for_ever() -> None:
    peer = Peer([b"", FAULT, TOKEN])
    async with listening(peer.take) as port:
        asker = TokenAsker(timeout_s=PATIENCE, near_s=PATIENCE)
        assert (await asker.ask("GET", f"http://127.0.0.1:{port}/token")).status == 200
        peer.answers = [FAULT, FAULT, FAULT]
        assert (await asker.ask("GET", f"http://127.0.0.1:{port}/token")).status == 503
        peer.answers = [b"", b"", b""]
        with pytest.raises(WorkerGone):
            await asker.ask("GET", f"http://127.0.0.1:{port}/token")
    assert len(peer.heads) == 9
