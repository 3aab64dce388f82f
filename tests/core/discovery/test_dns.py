"""Names asked for at a real DNS server: addresses, services, how long they hold, and what is made of no answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import attrs
import dns.rcode
import pytest
from tests.core.discovery.dns_server import DnsServer, dns_server
from tests.shared import PATIENCE

from smg_core.discovery.base import Missed, SourceAnswer, WorkersSeen
from smg_core.discovery.dns import DnsSource
from smg_core.discovery.names import dns_name
from smg_core.discovery.resolver import DnsResolver
from smg_core.discovery.settings import DiscoveryConfig

pytestmark = pytest.mark.anyio

NAME = "engines.example"
ADDRESSES = {(NAME, "A"): ["20 IN A 10.0.0.1"], (NAME, "AAAA"): ["60 IN AAAA fd00::1"]}


@attrs.define
class Asked:
    """A source before a server; `waits` has the pauses that it took."""

    server: DnsServer
    answers: AsyncIterator[SourceAnswer]
    waits: list[float]

    async def next(self) -> SourceAnswer:
        return await asyncio.wait_for(anext(self.answers), PATIENCE)

    async def urls(self) -> list[str]:
        answer = await self.next()
        assert isinstance(answer, WorkersSeen), answer
        return [each.spec.url for each in answer.workers]

    async def missed(self) -> str:
        answer = await self.next()
        assert isinstance(answer, Missed), answer
        return answer.reason


@asynccontextmanager
async def source(text: str, **settings: Any) -> AsyncIterator[Asked]:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async with dns_server() as server:
        config = DiscoveryConfig(dns_servers=(f"127.0.0.1:{server.port}",), dns_retry_s=5.0, **settings)
        found = DnsSource(dns_name(text), DnsResolver(config).ask, pause, config)
        async with aclosing(found.answers()) as answers:
            yield Asked(server, answers, waits)


async def test_addresses_of_both_families_are_workers_for_as_long_as_the_shortest_record_holds() -> None:
    async with source(f"grpc://{NAME}:50051") as asked:
        asked.server.zone = dict(ADDRESSES)
        assert await asked.urls() == ["grpc://10.0.0.1:50051", "grpc://[fd00::1]:50051"]
        asked.server.zone[NAME, "A"] = ["20 IN A 10.0.0.1", "20 IN A 10.0.0.2"]
        assert len(await asked.urls()) == 3
        assert asked.waits == [20.0]


async def test_the_same_records_again_are_no_change() -> None:
    async with source(f"grpc://{NAME}:50051") as asked:
        asked.server.zone = dict(ADDRESSES)
        first = await asked.next()
        asked.server.zone[NAME, "A"] = ["7 IN A 10.0.0.1"]
        assert await asked.next() is first
        await asked.next()
        assert asked.waits == [20.0, 7.0]


async def test_services_are_workers_with_the_ports_of_their_records() -> None:
    async with source("grpc+srv://_engine._tcp.example") as asked:
        asked.server.zone = {
            ("_engine._tcp.example", "SRV"): [
                "30 IN SRV 0 2 50051 gpu-0.example.",
                "30 IN SRV 0 1 50052 gpu-1.example.",
            ]
        }
        answer = await asked.next()
        assert isinstance(answer, WorkersSeen)
        assert [(each.spec.url, each.spec.weight) for each in answer.workers] == [
            ("grpc://gpu-0.example:50051", 2.0),
            ("grpc://gpu-1.example:50052", 1.0),
        ]


@pytest.mark.parametrize("code", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.NXDOMAIN])
async def test_a_server_that_fails_is_asked_again_soon_and_nothing_is_forgotten(code: int) -> None:
    async with source(f"grpc://{NAME}:50051") as asked:
        asked.server.zone = dict(ADDRESSES)
        first = await asked.next()
        asked.server.fails = code
        assert await asked.missed()
        asked.server.fails = dns.rcode.NOERROR
        assert await asked.next() is first
        assert asked.waits == [20.0, 5.0]


async def test_a_name_without_addresses_is_no_answer() -> None:
    async with source(f"grpc://{NAME}:50051") as asked:
        asked.server.zone = {(NAME, "TXT"): []}
        assert await asked.missed() == "it has no A or AAAA record"


@pytest.mark.full
async def test_a_family_that_is_not_answered_makes_the_answer_unusable() -> None:
    async with source(f"grpc://{NAME}:50051", dns_timeout_s=0.3) as asked:
        asked.server.silent = True
        assert "lifetime" in await asked.missed()


async def test_one_family_alone_is_asked_for_where_the_settings_say_so() -> None:
    async with source(f"grpc://{NAME}:50051", dns_families="ipv4") as asked:
        asked.server.zone = dict(ADDRESSES)
        assert await asked.urls() == ["grpc://10.0.0.1:50051"]
        assert asked.server.asked == [(NAME, "A")]


async def test_an_alias_is_followed_and_holds_no_longer_than_itself() -> None:
    async with source("grpc://alias.example:1", dns_families="ipv4") as asked:
        asked.server.zone = {
            ("alias.example", "A"): [f"9 IN CNAME {NAME}.", f"{NAME}. 20 IN A 10.0.0.1"],
        }
        assert await asked.urls() == ["grpc://10.0.0.1:1"]
        await asked.next()
        assert asked.waits == [9.0]


async def test_an_answer_that_is_too_long_for_a_datagram_is_asked_for_again_over_tcp() -> None:
    async with source(f"grpc://{NAME}:50051", dns_families="ipv4") as asked:
        asked.server.zone = {(NAME, "A"): [f"20 IN A 10.0.{n}.1" for n in range(100)]}
        assert len(await asked.urls()) == 100
        assert asked.server.asked == [(NAME, "A")] * 2


async def test_more_records_than_the_bound_are_no_answer() -> None:
    async with source(f"grpc://{NAME}:50051", dns_families="ipv4", most=2) as asked:
        asked.server.zone = {(NAME, "A"): [f"20 IN A 10.0.{n}.1" for n in range(3)]}
        assert "discovery.most" in await asked.missed()


async def test_a_target_of_a_dot_says_that_there_is_no_service() -> None:
    async with source("grpc+srv://_e._tcp.example") as asked:
        asked.server.zone["_e._tcp.example", "SRV"] = ["20 IN SRV 0 5 7000 gpu-0.example."]
        assert await asked.urls() == ["grpc://gpu-0.example:7000"]
        asked.server.zone["_e._tcp.example", "SRV"] = ["20 IN SRV 0 0 0 ."]
        assert await asked.urls() == []
        asked.server.zone["_e._tcp.example", "SRV"] = ["20 IN SRV 0 0 0 .", "20 IN SRV 9 5 7000 gpu-1.example."]
        assert await asked.urls() == ["grpc://gpu-1.example:7000"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("0 5 0 gpu-0.example.", "port 0"),
        (r"0 5 7000 a\@b.example.", "no name of a host"),
        (r"0 5 7 a\032b.", "no name"),
    ],
)
async def test_a_record_by_which_no_engine_can_be_reached_is_left_out_and_told_once(
    record: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with source("grpc+srv://_e._tcp.example") as asked:
        asked.server.zone["_e._tcp.example", "SRV"] = [f"20 IN SRV {record}"]
        assert said in await asked.missed()
        assert said in await asked.missed()
        asked.server.zone["_e._tcp.example", "SRV"] = [f"20 IN SRV {record}", "20 IN SRV 0 5 7000 gpu-1.example."]
        assert await asked.urls() == ["grpc://gpu-1.example:7000"]
        assert await asked.urls() == ["grpc://gpu-1.example:7000"]

    assert len([each for each in caplog.messages if "left out" in each and said in each]) == 1
