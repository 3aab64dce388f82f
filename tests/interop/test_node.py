"""Both transports against grpc-js: another HTTP/2 stack (nghttp2), another header encoder, other habits of framing."""

import asyncio
import fcntl
import json
import subprocess
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from smg_core.engines.base import Transport
from smg_core.engines.connections.target import Target, Tls
from smg_core.engines.grpc.grpcio import GrpcioTransport
from smg_core.engines.grpc.h2.transport import H2Transport
from smg_core.errors import EngineFailed, EngineRejected, EngineTimeout, SmgError, WorkerBusy, WorkerGone

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
GUARD = 30.0
SERVE, ECHO = "/interop.Engine/Serve", "/interop.Engine/Echo"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def modules() -> None:
    """Install what package.json names, once, however many test processes there are."""
    with (Path(tempfile.gettempdir()) / "smg-interop-npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (HERE / "node_modules" / "@grpc" / "grpc-js" / "package.json").exists():
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(command, cwd=HERE, check=True, timeout=120)


class Ear:
    """A receiver that remembers everything."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.over: asyncio.Future[SmgError | None] = asyncio.get_running_loop().create_future()
        self.some = asyncio.Event()

    def messages(self, batch: list[bytes]) -> None:
        self.got += batch
        self.some.set()

    def closed(self, error: SmgError | None) -> None:
        self.over.set_result(error)

    async def end(self) -> SmgError | None:
        async with asyncio.timeout(GUARD):
            return await self.over


def order(**what: object) -> bytes:
    return json.dumps(what).encode()


@asynccontextmanager
async def node(*arguments: str) -> AsyncIterator[tuple[int, Process]]:
    process = await asyncio.create_subprocess_exec(
        "node", str(HERE / "server.mjs"), *arguments, stdin=PIPE, stdout=PIPE, cwd=HERE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(GUARD):
            port = int(await process.stdout.readline())
        yield port, process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture(params=[H2Transport, GrpcioTransport], ids=["h2", "grpcio"])
async def connect(request: pytest.FixtureRequest, modules: None) -> AsyncIterator[Callable[[str | Target], Transport]]:
    made: list[Transport] = []

    def make(target: str | Target) -> Transport:
        made.append(request.param(target))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()


@pytest.fixture
async def transport(connect: Callable[[str | Target], Transport]) -> AsyncIterator[Transport]:
    async with node() as (port, _):
        yield connect(f"grpc://127.0.0.1:{port}")


@pytest.mark.full
async def test_what_a_node_server_answers_is_understood(transport: Transport) -> None:
    """One server for many questions: starting it is the dear part."""
    ear = Ear()
    await transport.start(SERVE, order(count=3000, size=36), ear)
    assert await ear.end() is None
    assert ear.got == [f"{number}:".encode().ljust(36, b".") for number in range(3000)]

    for size in (0, 1, 16_379, 16_380, 2**20, 2**23):
        assert await transport.unary(ECHO, bytes(size)) == bytes(size)

    ears = [Ear() for _ in range(50)]
    for size, ear in enumerate(ears):
        await transport.start(SERVE, order(count=20, size=size + 5), ear)
    for size, ear in enumerate(ears):
        assert await ear.end() is None
        assert ear.got == [f"{number}:".encode().ljust(size + 5, b".") for number in range(20)]

    fields = json.loads(await transport.unary("/interop.Engine/Metadata", b"", metadata=[("x-id", "7")], timeout=20))
    assert fields["x-id"] == "7"

    for code, kind in (
        ("INVALID_ARGUMENT", EngineRejected),
        ("RESOURCE_EXHAUSTED", WorkerBusy),
        ("INTERNAL", EngineFailed),
    ):
        for count in (0, 2):
            ear = Ear()
            await transport.start(SERVE, order(count=count, code=code, details="100% tööt"), ear)
            error = await ear.end()
            assert type(error) is kind
            assert "100% tööt" in error.detail
            assert len(ear.got) == count
    with pytest.raises(EngineFailed, match="UNIMPLEMENTED"):
        await transport.unary("/interop.Engine/Nothing", b"")


@pytest.mark.full
async def test_cancellation_and_deadlines_reach_a_node_server(transport: Transport) -> None:
    ear = Ear()
    call = await transport.start(SERVE, order(count=1, hang=True), ear)
    async with asyncio.timeout(GUARD):
        await ear.some.wait()
        call.cancel()
        await transport.unary("/interop.Engine/Cancelled", b"1")
    late = Ear()
    await transport.start(SERVE, order(count=1, hang=True), late, timeout=0.2)
    assert isinstance(await late.end(), EngineTimeout)
    async with asyncio.timeout(GUARD):
        await transport.unary("/interop.Engine/Cancelled", b"2")


@pytest.mark.full
async def test_a_paused_call_holds_a_node_server_and_loses_nothing(transport: Transport) -> None:
    ear = Ear()
    call = await transport.start(SERVE, order(count=64, size=2**18), ear)
    async with asyncio.timeout(GUARD):
        await ear.some.wait()
    call.pause()
    for _ in range(20):
        assert await transport.unary(ECHO, b"") == b""
    assert len(ear.got) < 64
    call.resume()
    assert await ear.end() is None
    assert len(ear.got) == 64


@pytest.mark.full
async def test_a_node_servers_stream_limit_is_kept(connect: Callable[[str | Target], Transport]) -> None:
    async with node("--streams", "2") as (port, _):
        transport = connect(f"grpc://127.0.0.1:{port}")
        answers = [transport.unary(ECHO, str(number).encode()) for number in range(40)]
        assert await asyncio.gather(*answers) == [str(number).encode() for number in range(40)]


async def test_a_node_server_that_shuts_down_loses_no_call_in_flight(
    connect: Callable[[str | Target], Transport],
) -> None:
    async with node() as (port, process):
        transport = connect(f"grpc://127.0.0.1:{port}")
        ear = Ear()
        await transport.start(SERVE, order(count=1, hang=True, after=50), ear)
        async with asyncio.timeout(GUARD):
            await ear.some.wait()
        assert process.stdin is not None
        process.stdin.write(b"stop\n")
        assert await ear.end() is None
        assert len(ear.got) == 51


async def test_a_killed_node_server_ends_its_calls(connect: Callable[[str | Target], Transport]) -> None:
    async with node() as (port, process):
        transport = connect(f"grpc://127.0.0.1:{port}")
        ear = Ear()
        await transport.start(SERVE, order(count=1, hang=True), ear)
        async with asyncio.timeout(GUARD):
            await ear.some.wait()
        process.kill()
        assert isinstance(await ear.end(), WorkerGone)


async def test_a_node_server_and_its_client_show_each_other_certificates(
    connect: Callable[[str | Target], Transport], tmp_path: Path
) -> None:
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("gateway.test")
    server.private_key_pem.write_to_path(tmp_path / "key.pem")
    server.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = Tls(ca=tmp_path / "ca.pem", cert=client.cert_chain_pems[0].bytes(), key=client.private_key_pem.bytes())
    async with node("--tls", *(str(tmp_path / name) for name in ("cert.pem", "key.pem", "ca.pem"))) as (port, _):
        transport = connect(Target.parse(f"grpcs://127.0.0.1:{port}", tls=tls))
        assert await transport.unary(ECHO, bytes(100_000)) == bytes(100_000)
        with pytest.raises(WorkerGone):
            await connect(Target.parse(f"grpcs://127.0.0.1:{port}", tls=Tls(ca=tmp_path / "ca.pem"))).unary(ECHO, b"")
