"""Workers found at dnsmasq: addresses and services, and what is kept when the server stops and comes back."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

import pytest
from tests.shared import PATIENCE

from smg_core.discovery.base import Missed, WorkersSeen
from smg_core.discovery.dns import DnsSource
from smg_core.discovery.names import dns_name
from smg_core.discovery.resolver import DnsResolver
from smg_core.discovery.settings import DiscoveryConfig

pytestmark = [pytest.mark.services, pytest.mark.anyio]

RECORDS = (
    "--host-record=engines.example,10.0.0.1,fd00::1",
    "--host-record=gpu-0.example,10.0.0.3",
    "--srv-host=_engine._tcp.example,gpu-0.example,50051,0,2",
)


@contextmanager
def dnsmasq(port: int) -> Iterator[None]:
    program = shutil.which("dnsmasq", path="/usr/sbin:/usr/bin:/sbin")
    assert program is not None, "dnsmasq is not here; tools/services.sh installs it"
    flags = ["--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces", "--local-ttl=20"]
    flags += ["--listen-address=127.0.0.1", f"--port={port}", "--pid-file=", *RECORDS]
    with subprocess.Popen([program, *flags], stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert "started" in server.stderr.readline()
            yield
        finally:
            server.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def test_workers_are_found_at_dnsmasq_and_kept_while_it_is_away() -> None:
    port, waits = free_port(), []
    config = DiscoveryConfig(dns_servers=(f"127.0.0.1:{port}",), dns_timeout_s=2.0)

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async with aclosing(
        DnsSource(dns_name("grpc://engines.example:1"), DnsResolver(config).ask, pause, config).answers()
    ) as answers:
        with dnsmasq(port):
            first = await asyncio.wait_for(anext(answers), PATIENCE)
            assert isinstance(first, WorkersSeen)
            assert [each.spec.url for each in first.workers] == ["grpc://10.0.0.1:1", "grpc://[fd00::1]:1"]
        assert isinstance(await asyncio.wait_for(anext(answers), PATIENCE), Missed)
        with dnsmasq(port):
            assert await asyncio.wait_for(anext(answers), PATIENCE) is first
    assert waits == [20.0, config.dns_retry_s]


async def test_services_are_found_at_dnsmasq() -> None:
    port = free_port()
    config = DiscoveryConfig(dns_servers=(f"127.0.0.1:{port}",))

    async def pause(seconds: float) -> None: ...

    name = dns_name("grpc+srv://_engine._tcp.example")
    async with aclosing(DnsSource(name, DnsResolver(config).ask, pause, config).answers()) as answers:
        with dnsmasq(port):
            found = await asyncio.wait_for(anext(answers), PATIENCE)
    assert isinstance(found, WorkersSeen)
    assert [(each.spec.url, each.spec.weight) for each in found.workers] == [("grpc://gpu-0.example:50051", 2.0)]
