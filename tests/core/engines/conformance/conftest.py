"""Engines and transports for the conformance suite."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import grpc
import pytest
import trustme

from smg_core.engines.base import Transport
from smg_core.engines.connections.target import Target, Tls
from smg_core.engines.grpc.grpcio import GrpcioTransport
from smg_core.engines.grpc.h2.transport import H2Transport

from .peer import PeerEngine

KINDS: dict[str, tuple[Callable[..., Transport], dict[str, Any]]] = {
    "h2": (H2Transport, {}),
    "h2-uvloop": (H2Transport, {"use_uvloop": True}),
    "grpcio": (GrpcioTransport, {}),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    """Which transport a test runs on, and on which loop."""
    return request.param


@pytest.fixture
def anyio_backend(kind: str) -> tuple[str, dict[str, Any]]:
    return "asyncio", KINDS[kind][1]


@attrs.define
class Bench:
    """Makes engines and transports, and lets go of them when the test is over."""

    kind: str
    engines: list[PeerEngine] = attrs.field(factory=list)
    transports: list[Transport] = attrs.field(factory=list)

    async def engine(self, *options: tuple[str, Any], **where: Any) -> PeerEngine:
        engine = await PeerEngine(*options).listen(**where)
        self.engines.append(engine)
        return engine

    def transport(self, target: Any, **settings: Any) -> Transport:
        """To a URL, a Target, or whatever has a `port`."""
        url = target if isinstance(target, str | Target) else f"grpc://127.0.0.1:{target.port}"
        made = KINDS[self.kind][0](url, **settings)
        self.transports.append(made)
        return made

    async def close(self) -> None:
        for transport in self.transports:
            await transport.close()
        for engine in self.engines:
            engine.release.set()
            await engine.stop(None)
        # grpcio's server finishes in callbacks of the loop; let it, or it complains of a loop that closed.
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def bench(kind: str) -> AsyncIterator[Bench]:
    made = Bench(kind)
    yield made
    await made.close()


@attrs.frozen
class Certificates:
    """One authority, an engine's certificate for localhost and 127.0.0.1, and a client's."""

    ca: bytes
    server: tuple[bytes, bytes]
    client: tuple[bytes, bytes]
    stranger: bytes

    def server_credentials(self, *, ask_client: bool = False) -> Any:
        key, chain = self.server
        return grpc.ssl_server_credentials([(key, chain)], self.ca if ask_client else None, ask_client)

    def tls(self, *, client: bool = False, **settings: Any) -> Tls:
        key, cert = self.client if client else (None, None)
        return Tls(**{"ca": self.ca, "key": key, "cert": cert, **settings})


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    authority, stranger = trustme.CA(), trustme.CA()
    server, client = authority.issue_cert("localhost", "127.0.0.1"), authority.issue_cert("gateway.test")

    def pair(cert: trustme.LeafCert) -> tuple[bytes, bytes]:
        return cert.private_key_pem.bytes(), b"".join(pem.bytes() for pem in cert.cert_chain_pems)

    return Certificates(authority.cert_pem.bytes(), pair(server), pair(client), stranger.cert_pem.bytes())
