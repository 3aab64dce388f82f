"""The PROXY header: every header of a real proxy is read, in any pieces, and nothing else passes for one."""

import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.server.proxy_header import SIGNATURE, ProxyHeaderFault, header_size, source_of

MOST = 2048
PORTS = st.integers(0, 65535)
V4, V6 = st.ip_addresses(v=4), st.ip_addresses(v=6)


def line(source: object, other: object, port: int, to: int) -> bytes:
    family = "TCP4" if isinstance(source, IPv4Address) else "TCP6"
    return f"PROXY {family} {source} {other} {port} {to}\r\n".encode()


def binary(
    source: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address, port: int, to: int, more: bytes
) -> bytes:
    kind = 0x11 if isinstance(source, IPv4Address) else 0x21
    body = source.packed + other.packed + struct.pack(">HH", port, to) + more
    return SIGNATURE + struct.pack(">BBH", 0x21, kind, len(body)) + body


pairs = st.one_of(st.tuples(V4, V4), st.tuples(V6, V6))
headers = st.one_of(
    st.builds(lambda pair, port, to: (line(*pair, port, to), (str(pair[0]), port)), pairs, PORTS, PORTS),
    st.builds(
        lambda pair, port, to, more: (binary(*pair, port, to, more), (str(pair[0]), port)),
        pairs,
        PORTS,
        PORTS,
        st.binary(max_size=256),
    ),
)


@given(headers, st.binary(max_size=64))
def test_a_header_is_found_in_whatever_pieces_it_comes_and_nothing_behind_it_is_taken(header, behind: bytes) -> None:
    sent, source = header
    sizes = [header_size((sent + behind)[:length], MOST) for length in range(len(sent + behind) + 1)]

    assert sizes[: len(sent)] == [None] * len(sent)
    assert set(sizes[len(sent) :]) == {len(sent)}
    assert source_of(sent) == source


@given(st.binary(max_size=300))
def test_other_bytes_are_refused_or_waited_for_and_never_raise_anything_else(data: bytes) -> None:
    try:
        size = header_size(data, MOST)
        source = source_of(data[:size]) if size is not None else None
    except ProxyHeaderFault:
        return

    assert size is None or size <= len(data)
    assert source is None or 0 <= source[1] <= 65535


@given(headers, st.data())
def test_a_header_with_one_wrong_byte_is_another_header_or_none(header, data: st.DataObject) -> None:
    sent, _ = header
    at = data.draw(st.integers(0, len(sent) - 1))
    changed = sent[:at] + bytes([data.draw(st.integers(0, 255))]) + sent[at + 1 :]
    try:
        size = header_size(changed, MOST)
        if size is not None:
            source_of(changed[:size])
    except ProxyHeaderFault:
        return


FAULTS = {
    b"GET / HTTP/1.1\r\n": "does not begin",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n": "does not end",
    b"PROXY " + b"x" * 120: "does not end",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n": "six words",
    b"PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n": "six words",
    b"PROXY TCP4 ::1 5.6.7.8 1 2\r\n": "an address",
    b"PROXY TCP6 1.2.3.4 ::1 1 2\r\n": "an address",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n": "a port",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n": "a port",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n": "a port",
    b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n": "not TCP",
    SIGNATURE + b"\x11\x11\x00\x0c" + b"x" * 12: "version or command",
    SIGNATURE + b"\x22\x11\x00\x0c" + b"x" * 12: "version or command",
    SIGNATURE + b"\x21\x12\x00\x0c" + b"x" * 12: "not TCP",
    SIGNATURE + b"\x21\x11\x00\x0b" + b"x" * 11: "too short",
    SIGNATURE + b"\x21\x11\xff\xff": "over proxies.protocol_bytes",
}


@pytest.mark.parametrize(("data", "why"), FAULTS.items(), ids=FAULTS.values())
def test_what_is_wrong_is_said(data: bytes, why: str) -> None:
    with pytest.raises(ProxyHeaderFault, match=why):
        source_of(data[: header_size(data, MOST)])


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN ffff:f:f ffff:f 1 2\r\n",
        SIGNATURE + b"\x20\x00\x00\x00",
        SIGNATURE + b"\x21\x00\x00\x00",
    ],
)
def test_a_proxy_that_speaks_for_itself_names_nobody(header: bytes) -> None:
    assert header_size(header, MOST) == len(header)
    assert source_of(header) is None
