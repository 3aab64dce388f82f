"""Whose request a proxy passes on: what trusted proxies added counts, and nothing that the client wrote before it."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis import PERMISSIONS
from smg_core.config.check import check
from smg_core.config.config import Config
from smg_core.http.forwarded import Forwarding, Seen, forwarding_of
from smg_core.http.networks import Networks
from smg_core.http.proxies.settings import ProxiesConfig
from smg_core.settings import ConfigError

TRUSTED = Networks([ip_network("10.0.0.0/8"), ip_network("fd00::/8")])
PROXY = ("10.0.0.1", 4711)
X = Forwarding(TRUSTED, "x-forwarded-for", 16)
RFC = Forwarding(TRUSTED, "forwarded", 16)
clients = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).filter(lambda address: str(address) not in TRUSTED)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


def x(*values: str, proto: str = "") -> list[tuple[bytes, bytes]]:
    headers = [(b"x-forwarded-for", value.encode()) for value in values]
    return [*headers, (b"x-forwarded-proto", proto.encode())] if proto else headers


def rfc(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"forwarded", value.encode("latin-1")) for value in values]


def node(address: object) -> str:
    return f'"[{address}]:80"' if ":" in str(address) else str(address)


def unmapped(address: object) -> str:
    return str(getattr(address, "ipv4_mapped", None) or address)


@given(texts, clients, st.lists(st.sampled_from(["10.1.1.1", "10.2.2.2"]), max_size=3))
def test_what_the_client_wrote_itself_never_counts(forged: str, client: object, proxies: list[str]) -> None:
    told = X.seen(PROXY, x(forged, ", ".join([str(client), *proxies])))

    assert told is not None
    assert told.host == unmapped(client)


@given(texts, clients, st.lists(st.sampled_from(["10.1.1.1", "10.2.2.2"]), max_size=3))
def test_nor_does_it_in_the_other_header_whatever_quotation_marks_it_opens(
    forged: str, client: object, proxies: list[str]
) -> None:
    elements = ", ".join([f"for={node(client)};proto=https", *(f"for={proxy}" for proxy in proxies)])
    for headers in (rfc(forged, elements), rfc(f"{forged}, {elements}")):
        told = RFC.seen(PROXY, headers)

        assert told is not None
        assert (told.host, told.scheme) == (unmapped(client), "https")


@given(st.sampled_from([X, RFC]), st.binary(max_size=400), st.integers(1, 5))
def test_no_header_is_too_strange_to_be_read(how: Forwarding, value: bytes, times: int) -> None:
    told = how.seen(PROXY, [(how.header.encode(), value)] * times)

    assert told is None or told.host


@pytest.mark.parametrize("how", [X, RFC])
def test_a_peer_that_is_not_trusted_is_the_client_whatever_it_says(how: Forwarding) -> None:
    assert how.seen(("192.0.2.1", 1), [*x("198.51.100.1"), *rfc("for=198.51.100.1")]) is None
    assert how.seen(PROXY, []) is None


@pytest.mark.parametrize(
    ("how", "headers", "told"),
    [
        (X, x("198.51.100.1", proto="https"), Seen("198.51.100.1", 0, "https")),
        (X, x("198.51.100.1:99"), Seen("198.51.100.1", 99)),
        (X, x("[2001:db8::1]:99"), Seen("2001:db8::1", 99)),
        (X, x("2001:db8::1"), Seen("2001:db8::1")),
        (X, x("::ffff:198.51.100.1"), Seen("198.51.100.1")),
        (X, x("10.9.9.9", proto="ftp"), Seen("10.9.9.9")),
        (X, x("198.51.100.1, unknown"), None),
        (X, x("198.51.100.1, _hidden, 10.3.3.3"), Seen("10.3.3.3")),
        (X, rfc("for=198.51.100.1"), None),
        (RFC, x("198.51.100.1"), None),
        (RFC, rfc('for="[2001:db8::1]:99";proto=http;by=10.1.1.1'), Seen("2001:db8::1", 99, "http")),
        (RFC, rfc("proto=https"), None),
        (RFC, rfc("For=198.51.100.1; Proto=HTTPS"), Seen("198.51.100.1", 0, "https")),
    ],
)
def test_addresses_are_read_as_proxies_write_them(how: Forwarding, headers, told: Seen | None) -> None:
    assert how.seen(PROXY, headers) == told


def test_the_walk_is_bounded() -> None:
    few = Forwarding(TRUSTED, "x-forwarded-for", 2)

    assert few.seen(PROXY, x("198.51.100.1, 10.1.1.1, 10.2.2.2")) == Seen("10.1.1.1")
    assert Forwarding(TRUSTED, "forwarded", 2).seen(PROXY, rfc("for=198.51.100.1, for=10.1.1.1, for=10.2.2.2")) == Seen(
        "10.1.1.1"
    )


def test_the_scope_of_a_web_socket_gets_its_own_scheme() -> None:
    scope = {"type": "websocket", "client": PROXY, "scheme": "ws", "headers": x("198.51.100.1", proto="https")}
    X.apply(scope)

    assert (scope["client"], scope["scheme"]) == (("198.51.100.1", 0), "wss")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"headers": "forwarded"}, "proxies.headers: proxies.trusted names none"),
        ({"protocol": True}, "proxies.protocol: proxies.trusted names none"),
        ({"trusted": ("10.0.0.1/8",)}, "has host bits set"),
        ({"trusted": ("proxy.example",)}, "proxies.trusted: 'proxy.example'"),
    ],
)
def test_settings_that_trust_nobody_or_what_is_no_network_are_refused(config, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(Config(proxies=ProxiesConfig(**config)), PERMISSIONS)


def test_nobody_is_believed_by_default() -> None:
    assert forwarding_of(ProxiesConfig()) is None
    assert forwarding_of(ProxiesConfig(trusted=("10.0.0.0/8",))) is None
