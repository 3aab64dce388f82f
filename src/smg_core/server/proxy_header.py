"""Reads the PROXY header (version 1 and 2) with which a proxy begins a connection that it passes on.

`header_size` is asked, with all bytes that have come, until the header is complete; `source_of` then reads it. Pure: it knows no
socket and trusts nobody. The format is HAProxy's "The PROXY protocol". Above: server.tls_accept.
"""

from ipaddress import IPv4Address, IPv6Address

__all__ = ["ProxiedClient", "ProxyHeaderFault", "header_size", "source_of"]

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
FIXED = 16  # bytes of a header of version 2 before its addresses
LONGEST_LINE = 107  # bytes of a header of version 1, with its line end
START = b"PROXY "
STREAMS = {0x11: 4, 0x21: 16}  # family and transport of version 2: bytes of one address of TCP over IPv4 and IPv6
UNNAMED = frozenset({0x00, 0x31})  # of no known kind, and of a Unix socket
LOCAL, PROXIED = 0x20, 0x21  # version 2, with its two commands

ProxiedClient = tuple[str, int]
"""The address and port of the client."""


class ProxyHeaderFault(ValueError):
    """These bytes are no PROXY header; the message says why and repeats none of them."""


def header_size(seen: bytes, most: int) -> int | None:
    """The size in bytes of the header that `seen` begins with; None while all of `seen` is the beginning of one. Raises
    ProxyHeaderFault as soon as it can be none, or one of over `most` bytes."""
    if SIGNATURE.startswith(seen[: len(SIGNATURE)]):
        return _binary_size(seen, most)
    if not START.startswith(seen[: len(START)]):
        raise ProxyHeaderFault("the connection does not begin with a PROXY header")
    end = seen.find(b"\n", 0, LONGEST_LINE)
    if end < 0 and len(seen) < LONGEST_LINE:
        return None
    if end < 0 or seen[end - 1 : end] != b"\r":
        raise ProxyHeaderFault("the line of the PROXY header does not end")
    return end + 1


def _binary_size(seen: bytes, most: int) -> int | None:
    if len(seen) < FIXED:
        return None
    size = FIXED + int.from_bytes(seen[14:16], "big")
    if size > most:
        raise ProxyHeaderFault("the PROXY header is over proxies.protocol_bytes")
    return size if len(seen) >= size else None


def source_of(header: bytes) -> ProxiedClient | None:
    """The client that the whole `header` names; None where the proxy speaks for itself or knows none. Raises
    ProxyHeaderFault."""
    return _binary_source(header) if header.startswith(SIGNATURE) else _line_source(header)


def _binary_source(header: bytes) -> ProxiedClient | None:
    command, kind = header[12], header[13]
    if command == LOCAL:
        return None
    if command != PROXIED:
        raise ProxyHeaderFault("the PROXY header is of no known version or command")
    if kind in UNNAMED:
        return None
    width = STREAMS.get(kind)
    if width is None:
        raise ProxyHeaderFault("the PROXY header is of a connection that is not TCP")
    if len(header) < FIXED + 2 * width + 4:
        raise ProxyHeaderFault("the PROXY header is too short for its addresses")
    packed, ports = header[FIXED : FIXED + width], FIXED + 2 * width
    host = IPv4Address(packed) if width == STREAMS[0x11] else IPv6Address(packed)
    return str(host), int.from_bytes(header[ports : ports + 2], "big")


def _line_source(header: bytes) -> ProxiedClient | None:
    words = header[: -len(b"\r\n")].split(b" ")
    if words[1] == b"UNKNOWN":
        return None
    if len(words) != len(("PROXY", "TCP4", "source", "destination", "port", "port")):
        raise ProxyHeaderFault("the PROXY header does not have six words")
    family = {b"TCP4": IPv4Address, b"TCP6": IPv6Address}.get(words[1])
    if family is None:
        raise ProxyHeaderFault("the PROXY header is of a connection that is not TCP")
    try:
        source, _ = (family(word.decode("ascii")) for word in words[2:4])
    except ValueError:
        raise ProxyHeaderFault("the PROXY header has an address that is none") from None
    port, _ = _port(words[4]), _port(words[5])
    return str(source), port


def _port(word: bytes) -> int:
    if not word.isdigit() or (word[:1] == b"0" and word != b"0") or len(word) > len("65535") or int(word) > 65535:
        raise ProxyHeaderFault("the PROXY header has a port that is none")
    return int(word)
