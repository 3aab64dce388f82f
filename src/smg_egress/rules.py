"""The addresses that this process may be made to ask: the decisions behind every HTTP client whose URLs others choose.

Above: `smg_multimodal.fetching.egress` and `smg_mcp.transport.wire`, which resolve names and connect. Below: the standard
library's parsers. Pure: names are resolved elsewhere and the answers judged here, so every rule is tested without a network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import ClassVar
from urllib.parse import SplitResult, urljoin, urlsplit

__all__ = ["EgressRefused", "FetchTarget", "UrlRules", "is_public"]

Address = IPv4Address | IPv6Address

_CLOSED_4 = tuple(
    ip_network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared between a provider and its customers; a cloud's metadata
        "127.0.0.0/8",  # this machine
        "168.63.129.16/32",  # Azure's host agent, at a public address
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_OPEN_6 = ip_network("2000::/3")
"""All that is assigned to the public internet; unique-local, link-local, site-local and multicast addresses lie outside."""
_CLOSED_6 = tuple(
    ip_network(each)
    for each in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID, anycast of protocols
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which leads to an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
_CARRY_4 = tuple(ip_network(each) for each in ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
"""Mapped, translated and NAT64 forms of an IPv4 address, which is in the last 32 bits and is what counts."""


class EgressRefused(ValueError):
    """The rules do not allow this address. `str(error)` is safe to show: it names no address inside."""


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """One request that is allowed: where to connect, and what to ask there."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The Host header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as text."""
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class UrlRules:
    """The addresses that may be asked for over HTTP. A package makes a subclass with its own error and its own words.

    `schemes` of the network; `hosts`, where given, are the only ones, each a name or `.suffix` for all below it;
    `ports` the only ports; `private` lets addresses of private, loopback, link-local and other special networks through
    for the hosts named. `ports` that are None leave every port open. `what` is how refusals call what
    is fetched, and `refusal` is the class of the errors that are raised.
    """

    refusal: ClassVar[type[ValueError]] = EgressRefused

    schemes: frozenset[str] = frozenset({"https"})
    hosts: frozenset[str] | None = None
    ports: frozenset[int] | None = frozenset({80, 443})
    private: frozenset[str] = frozenset()
    max_redirects: int = 3
    max_url: int = field(default=8192)
    what: str = "this"

    def target(self, url: str) -> FetchTarget:
        """The request for `url`. Raises `refusal` when the rules do not allow it."""
        parts = self._split(url)
        host = (parts.hostname or "").rstrip(".")
        if not host or parts.username is not None or parts.password is not None:
            raise self.refusal("the address needs a host and may carry no credentials")
        try:
            host = host.encode("idna").decode("ascii").lower()  # empty labels and labels over 63 characters are refused
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        except (UnicodeError, ValueError) as error:
            raise self.refusal("the address has no valid host or port") from error
        if self.hosts is not None and not _matches(host, self.hosts):
            raise self.refusal(f"{self.what} may not be fetched from {host}")
        if self.ports is not None and port not in self.ports:
            raise self.refusal(f"{self.what} may not be fetched from port {port}")
        path = parts.path or "/"
        return FetchTarget(parts.scheme, host, port, f"{path}?{parts.query}" if parts.query else path)

    def _split(self, url: str) -> SplitResult:
        if len(url) > self.max_url:
            raise self.refusal(f"the address is longer than {self.max_url} characters")
        if any(character <= " " or character == "\x7f" or character == "\\" for character in url):
            raise self.refusal("the address has characters that no address has")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise self.refusal("the address cannot be read") from error
        if parts.scheme not in self.schemes or parts.scheme not in {"http", "https"}:
            raise self.refusal(f"{self.what} may not be fetched by {parts.scheme or 'an address without a scheme'}")
        return parts

    def redirected(self, target: FetchTarget, location: str) -> FetchTarget:
        """The target of a redirect, judged as a new address is; from https only to https."""
        try:
            led = urljoin(target.url, location)
        except ValueError as error:
            raise self.refusal(f"{target.host} redirects to an address that cannot be read") from error
        found = self.target(led)
        if target.scheme == "https" and found.scheme != "https":
            raise self.refusal("a redirect may not leave https")
        return found

    def address(self, host: str, addresses: Sequence[str]) -> str:
        """The address to connect to: the first, if every one that `host` resolves to may be reached."""
        named = _matches(host, self.private)
        if not addresses or not (named or all(is_public(each) for each in addresses)):
            # One sentence for both: it must not tell which names exist inside.
            raise self.refusal(f"{host} has no address on the public internet")
        return addresses[0]


def _matches(host: str, names: frozenset[str]) -> bool:
    return host in names or any(name.startswith(".") and host.endswith(name) for name in names)


def is_public(text: str) -> bool:
    """Whether the address `text` belongs to the public internet. By a table of our own, from IANA's registries of special
    addresses, since Python's differs from release to release; what is reserved for later is closed."""
    try:
        address: Address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        if not any(address in network for network in _CARRY_4):
            return address in _OPEN_6 and not any(address in network for network in _CLOSED_6)
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    return not any(address in network for network in _CLOSED_4)
