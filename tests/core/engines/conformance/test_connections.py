"""Connections that are refused, drained, lost and made again."""

import asyncio
import socket
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest
import trustme
from tests.peers import stop

from smg_core.engines.base import Transport
from smg_core.engines.connections.target import Target, Tls
from smg_core.engines.grpc.grpcio import GrpcioTransport
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineTimeout, SmgError, WorkerGone

from .conftest import Bench, Certificates
from .peer import GUARD, SERVICE, Recorder, order

pytestmark = pytest.mark.anyio

SERVE, ECHO = f"/{SERVICE}/Serve", f"/{SERVICE}/Echo"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until_reached(transport: Transport) -> bytes:
    """Echo, again and again while the engine is away (grpcio backs off on its own account)."""
    async with asyncio.timeout(GUARD):
        while True:
            try:
                return await transport.unary(ECHO, b"back")
            except WorkerGone:
                await asyncio.sleep(0.01)


async def until_refused(transport: Transport) -> None:
    """Echo until the engine takes no more: its GOAWAY is here, and its port is closed. A grpcio server that stops may count a
    call among those it will answer, and leave it lying until its grace is over: such an echo is given up."""
    async with asyncio.timeout(GUARD):
        while True:
            try:
                await transport.unary(ECHO, b"", timeout=1.0)
            except WorkerGone:
                return
            except EngineTimeout:
                continue


async def test_a_refused_connection_is_a_worker_gone_that_names_the_address_to_the_operator_alone(bench: Bench) -> None:
    port = free_port()
    transport = bench.transport(f"grpc://127.0.0.1:{port}")
    with pytest.raises(WorkerGone) as caught:
        await transport.start(SERVE, order(), Recorder())
    assert "127.0.0.1" not in caught.value.message
    assert str(port) in (caught.value.detail or "")


async def test_a_missing_socket_file_is_a_worker_gone(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(WorkerGone):
        await bench.transport(f"unix://{tmp_path}/nothing.sock").unary(ECHO, b"")


async def test_a_name_that_does_not_resolve_is_a_worker_gone(bench: Bench) -> None:
    with pytest.raises(WorkerGone):
        await bench.transport("grpc://engine.invalid:50051").unary(ECHO, b"")


async def test_a_host_that_is_no_name_and_a_certificate_that_is_no_file_are_a_worker_gone(bench: Bench) -> None:
    with pytest.raises(WorkerGone):
        await bench.transport("grpc://a..b:50051").unary(ECHO, b"")
    missing = Target.parse("grpcs://127.0.0.1:1", tls=Tls(ca=Path("/nowhere/ca.pem")))
    with pytest.raises(WorkerGone):
        await bench.transport(missing).unary(ECHO, b"")


async def test_an_engine_of_another_authority_is_not_talked_to(bench: Bench, certificates: Certificates) -> None:
    engine = await bench.engine(credentials=certificates.server_credentials())
    tls = certificates.tls(ca=certificates.stranger)
    with pytest.raises(WorkerGone):
        await bench.transport(Target.parse(f"grpcs://127.0.0.1:{engine.port}", tls=tls)).unary(ECHO, b"")


async def test_an_engine_that_asks_for_a_certificate_refuses_a_client_without(
    bench: Bench, certificates: Certificates
) -> None:
    engine = await bench.engine(credentials=certificates.server_credentials(ask_client=True))
    with pytest.raises(WorkerGone):
        await bench.transport(Target.parse(f"grpcs://127.0.0.1:{engine.port}", tls=certificates.tls())).unary(ECHO, b"")


async def test_a_certificate_of_another_name_passes_only_when_that_name_is_expected(
    bench: Bench, certificates: Certificates
) -> None:
    engine = await bench.engine(credentials=certificates.server_credentials())
    expected = Target.parse(f"grpcs://127.0.0.1:{engine.port}", tls=certificates.tls(server_name="localhost"))
    assert await bench.transport(expected).unary(ECHO, b"ok") == b"ok"
    other = Target.parse(f"grpcs://127.0.0.1:{engine.port}", tls=certificates.tls(server_name="other.test"))
    with pytest.raises(WorkerGone):
        await bench.transport(other).unary(ECHO, b"")


async def test_certificates_may_be_files(bench: Bench, certificates: Certificates, tmp_path: Path) -> None:
    engine = await bench.engine(credentials=certificates.server_credentials(ask_client=True))
    tls = certificates.tls(client=True)
    paths = {}
    for name in ("ca", "cert", "key"):
        paths[name] = tmp_path / f"{name}.pem"
        paths[name].write_bytes(getattr(tls, name))
    target = Target.parse(f"grpcs://127.0.0.1:{engine.port}", tls=certificates.tls(**paths))
    assert await bench.transport(target).unary(ECHO, b"ok") == b"ok"


@pytest.mark.parametrize("kind", ["h2", "h2-uvloop"], indirect=True)
async def test_verification_is_skipped_only_when_that_is_said(bench: Bench, certificates: Certificates) -> None:
    engine = await bench.engine(credentials=certificates.server_credentials())
    tls = Tls(insecure_skip_verify=True)
    assert await bench.transport(Target.parse(f"grpcs://127.0.0.1:{engine.port}", tls=tls)).unary(ECHO, b"ok") == b"ok"
    with pytest.raises(WorkerGone, match="certificate verify failed"):
        await bench.transport(Target.parse(f"grpcs://127.0.0.1:{engine.port}")).unary(ECHO, b"")


def test_grpcio_cannot_skip_verification_and_says_so() -> None:
    with pytest.raises(ValueError, match="insecure_skip_verify"):
        GrpcioTransport(Target.parse("grpcs://x:1", tls=Tls(insecure_skip_verify=True)))


@pytest.mark.parametrize("kind", ["h2", "h2-uvloop"], indirect=True)
async def test_a_tls_server_that_does_not_agree_on_h2_is_not_talked_to(bench: Bench) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with Silent(tls=context) as silent:
        tls = Tls(ca=authority.cert_pem.bytes())
        with pytest.raises(WorkerGone, match="HTTP/2 over TLS"):
            await bench.transport(Target.parse(f"grpcs://127.0.0.1:{silent.port}", tls=tls)).unary(ECHO, b"")


async def test_a_server_that_stops_with_grace_loses_no_call_in_flight(bench: Bench) -> None:
    engine = await bench.engine()
    transport = bench.transport(engine)
    receivers = [Recorder() for _ in range(5)]
    for receiver in receivers:
        await transport.start(SERVE, order(count=2, hang=True, after=20), receiver)
        await receiver.reach(2)
    stopping = asyncio.get_running_loop().create_task(engine.stop(GUARD))
    await until_refused(transport)
    engine.release.set()
    for receiver in receivers:
        assert await receiver.wait() is None
        assert len(receiver.messages_seen) == 22
    await stopping


async def test_a_server_that_stops_without_grace_ends_its_calls_as_a_worker_gone(bench: Bench) -> None:
    engine = await bench.engine()
    transport = bench.transport(engine)
    receivers = [Recorder() for _ in range(5)]
    for receiver in receivers:
        await transport.start(SERVE, order(count=1, hang=True), receiver)
        await receiver.reach(1)
    await engine.stop(None)
    for receiver in receivers:
        assert isinstance(await receiver.wait(), WorkerGone)


async def test_a_new_server_on_the_same_port_is_found(bench: Bench) -> None:
    engine = await bench.engine()
    transport = bench.transport(engine)
    assert await transport.unary(ECHO, b"one") == b"one"
    await engine.stop(None)
    await bench.engine(port=engine.port)
    assert await until_reached(transport) == b"back"


async def other_process(port: int) -> Process:
    """An engine that can be killed."""
    script = Path(__file__).with_name("killable.py")
    process = await asyncio.create_subprocess_exec(sys.executable, str(script), str(port), stdout=PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(GUARD):
        assert await process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.full
async def test_a_killed_engine_ends_all_its_calls_and_the_next_one_is_found(bench: Bench) -> None:
    port = free_port()
    process = await other_process(port)
    transport = bench.transport(f"grpc://127.0.0.1:{port}")
    receivers = [Recorder() for _ in range(10)]
    for receiver in receivers:
        await transport.start(SERVE, b"", receiver)
        await receiver.reach(1)
    process.kill()
    for receiver in receivers:
        assert isinstance(await receiver.wait(), WorkerGone)
    await process.communicate()
    with pytest.raises(WorkerGone):
        await transport.start(SERVE, b"", Recorder())
    process = await other_process(port)
    assert await until_reached(transport) == b"back"
    process.kill()
    await process.communicate()


async def test_closing_ends_calls_in_flight_once_and_lets_no_new_one_start(bench: Bench) -> None:
    engine = await bench.engine()
    transport = bench.transport(engine)
    receiver = Recorder()
    await transport.start(SERVE, order(count=1, hang=True), receiver)
    await receiver.reach(1)
    await transport.close()
    await transport.close()
    assert isinstance(await receiver.wait(), WorkerGone)
    await engine.until(lambda: engine.running == 0)
    with pytest.raises(WorkerGone):
        await transport.start(SERVE, order(), Recorder())
    with pytest.raises(WorkerGone):
        await transport.unary(ECHO, b"")


async def test_a_transport_that_never_connected_closes(bench: Bench) -> None:
    await bench.transport("grpc://127.0.0.1:1").close()


class Silent:
    """A listener that accepts and says nothing, or something that is not HTTP/2."""

    def __init__(self, says: bytes = b"", tls: ssl.SSLContext | None = None) -> None:
        self.says = says
        self.tls = tls
        self.accepted = 0
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Silent":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        if self.says:
            writer.write(self.says)

    async def __aexit__(self, *_: object) -> None:
        await stop(self._server)
        for writer in self._writers:
            writer.transport.abort()


@pytest.mark.full
async def test_a_listener_that_says_nothing_is_given_up_after_the_connect_timeout(bench: Bench) -> None:
    async with Silent() as silent:
        transport = bench.transport(silent, connect_timeout=0.2)
        with pytest.raises((WorkerGone, EngineTimeout)):
            await transport.unary(ECHO, b"", timeout=10 if bench.kind != "grpcio" else 0.5)


async def test_a_deadline_covers_connecting(bench: Bench) -> None:
    async with Silent() as silent:
        transport = bench.transport(silent)
        with pytest.raises(EngineTimeout):
            await transport.unary(ECHO, b"", timeout=0.1)


async def test_a_web_server_in_an_engines_place_is_an_error_of_ours(bench: Bench) -> None:
    async with Silent(says=b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n") as silent:
        transport = bench.transport(silent, connect_timeout=1.0)
        with pytest.raises(SmgError):
            await transport.unary(ECHO, b"", timeout=5)


@pytest.mark.parametrize("kind", ["h2", "h2-uvloop"], indirect=True)
async def test_calls_that_start_together_share_one_connection(bench: Bench) -> None:
    async with Silent() as silent:
        transport = bench.transport(silent, connect_timeout=0.2)
        calls = [transport.unary(ECHO, b"") for _ in range(20)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(answer) for answer in answers} == {WorkerGone}
        assert silent.accepted == 1


@pytest.mark.parametrize("kind", ["h2", "h2-uvloop"], indirect=True)
async def test_one_callers_cancellation_leaves_the_shared_attempt_to_the_others(bench: Bench) -> None:
    engine = await bench.engine()
    transport = bench.transport(engine)
    loop = asyncio.get_running_loop()
    first, second = (loop.create_task(transport.unary(ECHO, b"x")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == b"x"


@pytest.mark.parametrize("kind", ["h2", "h2-uvloop"], indirect=True)
async def test_a_call_that_waits_for_a_stream_gives_up_at_its_deadline_and_leaves_no_trace(bench: Bench) -> None:
    engine = await bench.engine(("grpc.max_concurrent_streams", 1))
    transport = bench.transport(engine)
    holder = Recorder()
    call = await transport.start(SERVE, order(count=1, hang=True), holder)
    await holder.reach(1)
    waiting = Recorder()
    with pytest.raises(EngineTimeout):
        await transport.start(SERVE, order(count=1), waiting, timeout=0.1)
    call.cancel()
    assert await until_reached(transport) == b"back"
    assert (engine.entered, waiting.closed_times) == (1, 0)


@pytest.mark.parametrize("kind", ["h2", "h2-uvloop"], indirect=True)
async def test_an_engine_that_stops_answering_is_found_out_by_a_ping(bench: Bench) -> None:
    says = bytes.fromhex("000000040000000000")  # SETTINGS, and then nothing more
    async with Silent(says=says) as silent:
        limits = EnginesConfig(ping_interval_s=0.05, ping_timeout_s=0.05)
        transport = bench.transport(silent, limits=limits)
        receiver = Recorder()
        await transport.start(SERVE, b"", receiver)
        error = await receiver.wait()
        assert isinstance(error, WorkerGone)
        assert "ping" in (error.detail or "")
