"""Names in DNS: how they are written, and which workers their records mean."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis import PERMISSIONS
from smg_core.config.check import check
from smg_core.config.config import Config
from smg_core.discovery.names import DnsName, Host, Service, dns_name, interval, server_address, workers_of_records
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.engines.connections.target import Tls
from smg_core.settings import ConfigError

GOOD: dict[str, DnsName] = {
    "grpc://engines.example:50051": DnsName("", "grpc", "engines.example", 50051),
    "grpc+srv://_engine._tcp.example": DnsName("", "grpc", "_engine._tcp.example", srv=True),
    "http://engines:8000/v1": DnsName("", "http", "engines", 8000, "/v1"),
    "grpcs://e:1?role=prefill&model=m&dialect=vllm": DnsName(
        "", "grpcs", "e", 1, role="prefill", model="m", dialect="vllm"
    ),
    "grpc://e:1?label.zone=eu&label.a%20b=": DnsName("", "grpc", "e", 1, labels=(("a b", ""), ("zone", "eu"))),
}


@pytest.mark.parametrize("text", GOOD)
def test_a_name_is_read(text: str) -> None:
    found = dns_name(text)

    assert found.text == text
    assert {name: value for name, value in _fields(found).items() if name != "text"} == {
        name: value for name, value in _fields(GOOD[text]).items() if name != "text"
    }


def _fields(name: DnsName) -> dict[str, Any]:
    return {each: getattr(name, each) for each in DnsName.__slots__ if each != "__weakref__"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engines.example:50051", "begins with none of"),
        ("unix:///engine", "begins with none of"),
        ("grpc://10.0.0.1:50051", "no name to look up"),
        ("grpc://[::1]:50051", "no name to look up"),
        ("grpc://user@engines:1", "no name to look up"),
        ("grpc://engines", "the port is missing"),
        ("grpc+srv://engines:1", "SRV records say the port"),
        ("grpc://engines:1/v1", "nothing but"),
        ("https://engines:1", "a certificate for https is for a name"),
        ("grpc://engines:1?role=king", "role is one of"),
        ("grpc://engines:1?colour=red", "expected role="),
        ("grpc://engines:1?role=prefill&role=decode", "expected role="),
        ("grpc://engines:1?label.=eu", "expected role="),
        ("grpc://engines:1?label.zone=eu&label.zone=us", "expected role="),
        ("grpc://engines:99999", "out of range"),
    ],
)
def test_a_name_that_is_wrong_stops_the_start_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"^discovery\.dns: ") as caught:
        check(Config(discovery=DiscoveryConfig(dns=(text,))), PERMISSIONS)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.53", ("10.0.0.53", 53)),
        ("10.0.0.53:5353", ("10.0.0.53", 5353)),
        ("::1", ("::1", 53)),
        ("[::1]:5353", ("::1", 5353)),
    ],
)
def test_a_server_is_an_address_with_or_without_a_port(text: str, address: tuple[str, int]) -> None:
    assert server_address(text) == address


@pytest.mark.parametrize("text", ["ns.example", "10.0.0.53:", "10.0.0.53:0", "10.0.0.53:dns", "10.0.0.53:70000"])
def test_a_server_that_is_no_address_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^discovery\.dns_servers: "):
        check(Config(discovery=DiscoveryConfig(dns_servers=(text,))), PERMISSIONS)


def test_each_address_is_a_worker() -> None:
    name = dns_name("grpc://engines:1?role=decode")
    found = workers_of_records(name, [Host("10.0.0.2"), Host("fd00::1"), Host("10.0.0.1"), Host("10.0.0.2")])

    assert [each.spec.url for each in found] == ["grpc://10.0.0.1:1", "grpc://10.0.0.2:1", "grpc://[fd00::1]:1"]
    assert {each.spec.role for each in found} == {"decode"}


def test_an_engine_behind_an_address_is_checked_against_the_name_that_was_asked_for() -> None:
    (found,) = workers_of_records(dns_name("grpcs://engines:1"), [Host("10.0.0.1")], Tls(ca="/ca.pem"))

    assert found.spec.tls == Tls(ca="/ca.pem", server_name="engines")


def test_of_services_the_lowest_priority_counts_with_its_weights() -> None:
    records = [Service("a.example", 1, 10, 3), Service("b.example", 2, 10, 1), Service("c.example", 3, 20, 1)]
    found = workers_of_records(dns_name("grpc+srv://_e._tcp.example"), records)

    assert [(each.spec.url, each.spec.weight) for each in found] == [
        ("grpc://a.example:1", 3.0),
        ("grpc://b.example:2", 1.0),
    ]


def test_a_service_without_weight_makes_all_equal() -> None:
    records = [Service("a.example", 1, 0, 3), Service("b.example", 2, 0, 0)]
    found = workers_of_records(dns_name("grpc+srv://_e._tcp.example"), records)

    assert {each.spec.weight for each in found} == {1.0}


@given(st.permutations([Host("10.0.0.1"), Host("10.0.0.2"), Host("10.0.0.3")]))
def test_the_order_of_records_makes_no_difference(records: list[Host]) -> None:
    name = dns_name("grpc://engines:1")

    assert workers_of_records(name, records) == workers_of_records(name, sorted(records, key=str))


@pytest.mark.parametrize(("ttl", "seconds"), [(0, 1), (20, 20), (86400, 300)])
def test_records_are_asked_for_when_they_run_out_within_bounds(ttl: float, seconds: float) -> None:
    assert interval(ttl, 1.0, 300.0) == seconds
