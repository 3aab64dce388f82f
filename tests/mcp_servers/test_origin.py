"""The connections to an origin, over real sockets."""

import asyncio
import ssl

import httpx2
import pytest
import trustme

from smg_egress import FetchTarget
from smg_mcp.records.settings import EgressSettings
from smg_mcp.transport.origin import Direct

pytestmark = pytest.mark.anyio
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def asked(
    answers: list[bytes],
    body: bytes,
    times: int = 1,
    name: str = "named.example",
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    reads_on: bool = False,
) -> tuple[list[bytes], list[bytes]]:
    """What a server reads at once of each request, and the bodies of its answers. It closes after the last; with
    `reads_on` when the client has closed."""
    read: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            read.append(await reader.read(1 << 20))
            writer.write(answer)
            await writer.drain()
        while reads_on and await reader.read(1 << 20):
            pass
        writer.close()
        done.set()

    theirs, ours = tls or (None, ssl.create_default_context())
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=theirs)
    port = server.sockets[0].getsockname()[1]
    origin = Direct("127.0.0.1", ours, EgressSettings())
    target = FetchTarget("https" if tls else "http", name, port, "/mcp")
    found = []
    async with server:
        try:
            for _ in range(times):
                request = httpx2.Request("POST", target.url, content=body)
                response = await origin.send(request, target)
                found.append(await response.aread())
                await response.aclose()
        finally:
            await origin.aclose()
        if reads_on:
            await done.wait()
    return read, found


async def test_a_request_goes_out_in_one_write_under_the_origin_s_own_name() -> None:
    read, found = await asked([ANSWER, ANSWER], b'{"a": 1}', times=2)
    assert found == [b"ok", b"ok"]
    for request in read:
        assert request.startswith(b"POST /mcp HTTP/1.1\r\n")
        assert request.endswith(b'{"a": 1}')
        assert b"host: named.example:" in request.lower()


async def test_tls_is_verified_for_the_name_although_the_connection_goes_to_the_address() -> None:
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("named.example").configure_cert(theirs)
    authority.configure_trust(ours)
    read, found = await asked([ANSWER], b"{}", tls=(theirs, ours))
    assert (len(read), found) == (1, [b"ok"])
    with pytest.raises(httpx2.ConnectError):
        await asked([ANSWER], b"{}", name="other.example", tls=(theirs, ours))


async def test_an_answer_that_comes_before_the_whole_request_was_read_is_given() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig"
    _, found = await asked([refusal], b"x" * 100_000, reads_on=True)
    assert found == [b"big"]


async def test_a_server_that_closes_without_an_answer_is_a_lost_connection() -> None:
    with pytest.raises(httpx2.TransportError):
        await asked([b""], b"{}")


async def test_a_body_that_ends_too_early_is_a_lost_connection() -> None:
    with pytest.raises(httpx2.TransportError):
        await asked([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok"], b"{}")
