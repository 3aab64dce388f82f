"""Finds the client of a request that came through trusted proxies, in the headers that they write.

Each proxy adds the address that it was called from at the end. So the list is read from its end: as long as an address is one of
a trusted proxy, what that proxy added before it is believed. The first that is not is the client; whatever stands before it was
said by the client itself and counts nothing. Pure. Above: app.app.
"""

import re
from collections.abc import Iterator, MutableMapping, Sequence
from itertools import islice
from typing import Any

import attrs

from smg_core.http.networks import Networks, address_of
from smg_core.http.proxies.settings import ProxiesConfig

__all__ = ["Forwarding", "Seen", "forwarding_of"]

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PAIR = re.compile(rf'[ \t]*({_WORD})=(?:({_WORD})|"([^"\\]*)")[ \t]*')
_NODE = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(?::([0-9]{1,5}))?")
ELEMENT = 256  # characters of one element of `Forwarded`, reckoned generously
SCHEMES = frozenset({"http", "https"})

_Header = tuple[bytes, bytes]


@attrs.frozen
class Seen:
    """A client's address, with its port (0: not known), and the scheme by which it called ("": not known)."""

    host: str
    port: int = 0
    scheme: str = ""


@attrs.frozen
class _Hop:
    """What one proxy says of whom it was called by. `node` is the text for an address, "" where it says none."""

    node: str
    scheme: str = ""


@attrs.frozen
class Forwarding:
    """How trusted proxies name the client: `header` is "x-forwarded-for" or "forwarded"; `hops` bounds the walk."""

    networks: Networks
    header: str
    hops: int

    def apply(self, scope: MutableMapping[str, Any]) -> None:
        """Put the client, and the scheme by which it called, into the ASGI `scope` of a request."""
        peer = scope.get("client")
        seen = self.seen(peer, scope["headers"]) if peer else None
        if seen is None:
            return
        scope["client"] = (seen.host, seen.port)
        if seen.scheme:
            socket = scope["type"] == "websocket"
            scope["scheme"] = {"http": "ws", "https": "wss"}[seen.scheme] if socket else seen.scheme

    def seen(self, peer: tuple[str, int], headers: Sequence[_Header]) -> Seen | None:
        """The client of a request that `peer` sent with these headers (names in lower case). None where the peer is the client:
        it is not trusted, or says nothing."""
        if peer[0] not in self.networks:
            return None
        found: Seen | None = None
        for hop in self._walk(headers):
            node = _address(hop.node)
            if node is None:
                break
            found = Seen(node[0], node[1], hop.scheme)
            if found.host not in self.networks:
                break
        return found

    def _walk(self, headers: Sequence[_Header]) -> Iterator[_Hop]:
        """What the proxies say, the nearest first, of at most `hops`."""
        text = _joined(headers, self.header.encode())
        if not text:
            return
        if self.header == "forwarded":
            yield from islice(map(_element, _from_end(text[-self.hops * ELEMENT :])), self.hops)
            return
        scheme = _scheme(_joined(headers, b"x-forwarded-proto").rpartition(",")[2])
        for entry in reversed(text.rsplit(",", self.hops)[-self.hops :]):
            yield _Hop(entry.strip(), scheme)


def forwarding_of(config: ProxiesConfig) -> Forwarding | None:
    """What the settings say; None where no header is believed."""
    if config.headers == "off":
        return None
    return Forwarding(Networks(config.networks()), config.headers, config.hops)


def _joined(headers: Sequence[_Header], name: bytes) -> str:
    """All values of one header, as one list."""
    return ",".join([value.decode("latin-1") for key, value in headers if key == name])


def _scheme(text: str) -> str:
    scheme = text.strip().lower()
    return scheme if scheme in SCHEMES else ""


def _from_end(text: str) -> Iterator[str]:
    """The elements of a `Forwarded` header, the last first. Quotation marks are paired from the end too, so that an open one
    that the client has put at the beginning hides nothing that a proxy has added."""
    end, quoted = len(text), False
    for at in range(len(text) - 1, -1, -1):
        if text[at] == '"':
            quoted = not quoted
        elif text[at] == "," and not quoted:
            yield text[at + 1 : end]
            end = at
    yield text[:end]


def _element(text: str) -> _Hop:
    """One element of a `Forwarded` header; it says nothing if it cannot be read as RFC 7239 says."""
    pairs: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None or text[match.end() : match.end() + 1] not in ("", ";"):
            return _Hop("")
        pairs.setdefault(match[1].lower(), match[2] if match[2] is not None else match[3])
        at = match.end() + 1
    return _Hop(pairs.get("for", ""), _scheme(pairs.get("proto", "")))


def _address(node: str) -> tuple[str, int] | None:
    """Address and port of a node, such as 192.0.2.1, 192.0.2.1:80, 2001:db8::1 or [2001:db8::1]:80; None for one that has a name
    or is hidden."""
    plain = address_of(node)
    if plain is not None:
        return str(plain), 0
    match = _NODE.fullmatch(node)
    address = address_of(match[1] or match[2]) if match else None
    if match is None or address is None:
        return None
    return str(address), min(int(match[3] or 0), 65535)
