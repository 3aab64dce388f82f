"""Each worker is spoken to with its own credentials and certificates, and no other's; none of them reaches a log."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trustme
from tests.gateway.conftest import CHAT, body, eventually, over_http
from tests.gateway.fleet import CALM

from smg_core import Config, Gateway
from smg_core.engines.connections.target import Tls
from smg_core.observability.logs import configure
from smg_core.observability.settings import ObservabilityConfig
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio
KEYS = ("key-of-the-first", "key-of-the-second")
TRANSPORTS = ("h2", "grpcio")


@attrs.frozen
class Authority:
    """A certificate authority, with a server's and a client's certificate as files."""

    ca: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]


def authority(folder: Path) -> Authority:
    folder.mkdir()
    made = trustme.CA()
    made.cert_pem.write_to_path(str(folder / "ca.pem"))
    files = []
    for name in ("127.0.0.1", "client.test"):
        issued = made.issue_cert(name)
        cert, key = folder / f"{name}.pem", folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(str(cert))
        issued.private_key_pem.write_to_path(str(key))
        files.append((cert, key))
    return Authority(folder / "ca.pem", *files)


def with_transport(transport: str, **more: Any) -> Config:
    workers = WorkersConfig(health_interval_s=3600.0, transport=transport, **more)
    return Config(workers=workers, observability=ObservabilityConfig(explain=True))


async def served_by(gateway: Gateway, count: int) -> set[str]:
    """The names of the workers that answered `count` requests, each of which succeeded."""
    async with gateway.http_client(httpx, base_url="http://gateway") as http:
        found = set()
        for _ in range(count):
            answer = await http.post(CHAT, json=body(), headers={"x-smg-explain": "1"})
            assert answer.status_code == 200, answer.text
            found.add(answer.headers["x-smg-explain"].partition('"worker":"')[2].partition('"')[0])
        return found


async def all_ready(gateway: Gateway) -> None:
    await eventually(lambda: all(each.state == "ready" for each in gateway.registry))


@pytest.fixture
def plain_logs() -> Iterator[None]:
    """Logs as they were, once the test is over."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_each_engine_is_shown_its_own_key(transport: str) -> None:
    first, second = (SimulatorConfig(api_key=key) for key in KEYS)
    async with SimulatedEngine(first) as one, SimulatedEngine(second) as two:
        specs = [
            WorkerSpec(engine.target, name=f"w{at}", headers=(("authorization", f"Bearer {key}"),))
            for at, (engine, key) in enumerate(zip((one, two), KEYS, strict=True))
        ]
        async with Gateway(specs, config=with_transport(transport), policy="round_robin") as gateway:
            await all_ready(gateway)
            assert await served_by(gateway, 4) == {"w0", "w1"}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_engine_that_repeats_a_refused_key_puts_it_into_no_log_and_no_reason(
    transport: str, plain_logs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("debug", "text")
    async with SimulatedEngine(SimulatorConfig(api_key=KEYS[0])) as engine:
        spec = WorkerSpec(engine.target, name="w", dialect="vllm", headers=(("authorization", f"Bearer {KEYS[1]}"),))
        gateway = Gateway([spec], config=with_transport(transport))
        await gateway.start()
        try:
            worker = gateway.registry.get("w")
            assert worker is not None
            await eventually(lambda: worker.reason)
            reason = worker.reason
            with pytest.raises(TimeoutError) as late:
                await gateway.ready(0.01)
        finally:
            await gateway.stop()
    told = capsys.readouterr().err
    assert "UNAUTHENTICATED: the … is not valid" in reason
    assert "UNAUTHENTICATED: the … is not valid" in told
    assert all(key not in text for key in KEYS for text in (reason, told, str(late.value), repr(gateway)))


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_each_engine_is_checked_against_its_own_authority_and_shown_its_own_certificate(
    transport: str, tmp_path: Path
) -> None:
    authorities = [authority(tmp_path / name) for name in ("one", "two")]
    configs = [
        SimulatorConfig(tls_certificate=str(a.server[0]), tls_key=str(a.server[1]), tls_client_ca=str(a.ca))
        for a in authorities
    ]
    async with SimulatedEngine(configs[0]) as one, SimulatedEngine(configs[1]) as two:
        lines = [
            f"- {{url: '{engine.target}', name: w{at}, tls_ca: '{a.ca}', tls_cert: '{a.client[0]}', tls_key: '{a.client[1]}'}}"
            for at, (engine, a) in enumerate(zip((one, two), authorities, strict=True))
        ]
        (tmp_path / "workers.yaml").write_text("\n".join(lines))
        config = with_transport(transport, file=str(tmp_path / "workers.yaml"))
        async with Gateway(config=config, policy="round_robin") as gateway:
            await all_ready(gateway)
            assert await served_by(gateway, 4) == {"w0", "w1"}


async def test_an_engine_of_another_workers_authority_does_not_join(tmp_path: Path) -> None:
    mine, other = authority(tmp_path / "mine"), authority(tmp_path / "other")
    config = SimulatorConfig(tls_certificate=str(mine.server[0]), tls_key=str(mine.server[1]))
    async with SimulatedEngine(config) as engine:
        gateway = Gateway([WorkerSpec(engine.target, name="w", tls=Tls(ca=other.ca))], config=CALM)
        await gateway.start()
        try:
            worker = gateway.registry.get("w")
            assert worker is not None
            await eventually(lambda: "certificate verify failed" in worker.reason)
        finally:
            await gateway.stop()


async def test_an_http_engine_is_shown_its_own_headers_and_checked_against_its_own_authority(tmp_path: Path) -> None:
    seen: list[dict[bytes, bytes]] = []

    def spy(app: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(scope: dict[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                seen.append(dict(scope["headers"]))
            await app(scope, receive, send)

        return wrapped

    async with over_http(wrap=spy) as house:
        spec = WorkerSpec(house.url, name="w", headers=(("authorization", f"Bearer {KEYS[0]}"), ("x-team", "search")))
        async with Gateway([spec], config=with_transport("h2")) as gateway:
            assert await served_by(gateway, 1) == {"w"}
    assert seen
    assert {(each[b"authorization"], each[b"x-team"]) for each in seen} == {(b"Bearer key-of-the-first", b"search")}


async def test_an_https_engine_of_another_authority_does_not_join(tmp_path: Path) -> None:
    mine, other = authority(tmp_path / "mine"), authority(tmp_path / "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*mine.server)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    gateway = Gateway([WorkerSpec(f"https://127.0.0.1:{port}", name="w", tls=Tls(ca=other.ca))], config=CALM)
    await gateway.start()
    try:
        worker = gateway.registry.get("w")
        assert worker is not None
        await eventually(lambda: "CERTIFICATE_VERIFY_FAILED" in worker.reason)
    finally:
        await gateway.stop()
        server.close()


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:1", "unix:///run/none.sock", "http://127.0.0.1:1"])
async def test_certificates_for_an_address_without_tls_stop_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="TLS"):
        await Gateway([WorkerSpec(url, tls=Tls(ca=Path("/etc/ca.pem")))]).start()


async def test_a_header_that_no_call_can_carry_stops_the_start_and_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="x-key") as caught:
        await Gateway([WorkerSpec("grpc://127.0.0.1:1", headers=(("x-key", f"{KEYS[0]}\n"),))]).start()
    assert KEYS[0] not in str(caught.value)
