"""Which addresses a client may make this process fetch, and how a data URL is read: the decisions behind `fetch`.

Above: `fetch`. Below: the standard library's parsers. Pure: names are resolved elsewhere and the answers judged here, so
every rule is tested without a network.
"""

import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import SplitResult, unquote, unquote_to_bytes, urljoin, urlsplit

from smg_multimodal.errors import BadMedia, MediaForbidden, MediaTooLarge

try:
    import pybase64 as base64
except ImportError:  # the accelerator is optional
    import base64  # type: ignore[no-redef]

__all__ = ["EgressRules", "FetchTarget", "base64_bytes", "data_url", "is_bare_base64", "is_public", "site_of"]

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
class EgressRules:
    """What may be fetched.

    `schemes` of the network; `hosts`, where given, are the only ones, each a name or `.suffix` for all below it;
    `ports` the only ports; `private` lets addresses of private, loopback, link-local and other special networks through
    for the hosts named. `files` is the only folder file URLs may read below; None refuses them all. `what` is how refusals
    call what is fetched.
    """

    schemes: frozenset[str] = frozenset({"https"})
    hosts: frozenset[str] | None = None
    ports: frozenset[int] = frozenset({80, 443})
    private: frozenset[str] = frozenset()
    files: Path | None = None
    max_redirects: int = 3
    max_url: int = field(default=8192)
    what: str = "media"

    def target(self, url: str) -> FetchTarget:
        """The request for `url`. Raises `MediaForbidden` when the rules do not allow it."""
        parts = self._split(url)
        host = (parts.hostname or "").rstrip(".")
        if not host or parts.username is not None or parts.password is not None:
            raise MediaForbidden("the address needs a host and may carry no credentials")
        try:
            host = host.encode("idna").decode("ascii").lower()  # empty labels and labels over 63 characters are refused
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        except (UnicodeError, ValueError) as error:
            raise MediaForbidden("the address has no valid host or port") from error
        if self.hosts is not None and not _matches(host, self.hosts):
            raise MediaForbidden(f"{self.what} may not be fetched from {host}")
        if port not in self.ports:
            raise MediaForbidden(f"{self.what} may not be fetched from port {port}")
        path = parts.path or "/"
        return FetchTarget(parts.scheme, host, port, f"{path}?{parts.query}" if parts.query else path)

    def _split(self, url: str) -> SplitResult:
        if len(url) > self.max_url:
            raise MediaForbidden(f"the address is longer than {self.max_url} characters")
        if any(character <= " " or character == "\x7f" or character == "\\" for character in url):
            raise MediaForbidden("the address has characters that no address has")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise MediaForbidden("the address cannot be read") from error
        if parts.scheme not in self.schemes or parts.scheme not in {"http", "https"}:
            raise MediaForbidden(f"{self.what} may not be fetched by {parts.scheme or 'an address without a scheme'}")
        return parts

    def redirected(self, target: FetchTarget, location: str) -> FetchTarget:
        """Where a redirect leads, judged as a new address is; from https only to https."""
        try:
            led = urljoin(target.url, location)
        except ValueError as error:
            raise MediaForbidden(f"{target.host} redirects to an address that cannot be read") from error
        found = self.target(led)
        if target.scheme == "https" and found.scheme != "https":
            raise MediaForbidden("a redirect may not leave https")
        return found

    def address(self, host: str, addresses: Sequence[str]) -> str:
        """The address to connect to: the first, if every one that `host` resolves to may be reached."""
        named = _matches(host, self.private)
        if not addresses or not (named or all(is_public(each) for each in addresses)):
            # One sentence for both: it must not tell which names exist inside.
            raise MediaForbidden(f"{host} has no address on the public internet")
        return addresses[0]

    def file(self, url: str) -> Path:
        """The path a file URL names, as written; the reader follows links and judges where they lead by `holds`."""
        parts = urlsplit(url)
        path = unquote(parts.path)
        if self.files is None or parts.netloc not in {"", "localhost"} or "\0" in path:
            raise MediaForbidden("files may not be read")
        return Path(path)

    def holds(self, path: Path, folder: Path) -> Path:
        """`path`, both it and `folder` with links followed, if it lies below the folder."""
        if not path.is_relative_to(folder):
            raise MediaForbidden("this file may not be read")
        return path


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


def site_of(host: str) -> str:
    """The part of a host's name under which its owner may make more names, so that those share one share: its last two labels,
    or three where the last two look like "co.uk". An address is its own. For fairness alone: nothing is allowed by it."""
    labels = host.split(".")
    if len(labels) <= 2 or labels[-1].isdigit() or ":" in host:
        return host
    return ".".join(labels[-3:] if len(labels[-2]) <= 3 and len(labels[-1]) == 2 else labels[-2:])


def data_url(url: str, max_bytes: int) -> bytes:
    """The bytes of a `data:` URL, base64 (as `base64_bytes` takes it) or percent-encoded; where its data are a `data:` URL once
    more, those of that one. Refused before decoding when it is too long."""
    head, comma, body = url.partition(",")
    if not comma:
        raise BadMedia("the data URL has no comma")
    if not head.rstrip().lower().endswith(";base64"):
        if len(body) // 3 > max_bytes:
            raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
        plain = unquote_to_bytes(body)
        if len(plain) > max_bytes:
            raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
        return plain
    start = body[:64].lstrip()
    if start[:5].lower() == "data:":
        head, _, body = body.lstrip().partition(",")
    return base64_bytes(unquote(body) if "%" in body else body, max_bytes)


_LEAST_BARE = 40
"""Characters of bare base64: less is taken for a mistyped address, since no picture or recording is that short."""
_LOOKED_AT = 4096
_TO_STANDARD = str.maketrans("-_", "+/")


def is_bare_base64(url: str) -> bool:
    """Whether what stands where a URL should is no URL, and may be base64 without the `data:` before it."""
    start = url[:_LOOKED_AT]
    return len(url) >= _LEAST_BARE and not any(mark in start for mark in ":.?")


def base64_bytes(text: str, max_bytes: int) -> bytes:
    """The bytes of base64 text: either alphabet, with or without padding, in one line or several.

    Raises BadMedia, which says what is wrong with it, and MediaTooLarge, before decoding, for what is too long."""
    if "\n" in text or "\r" in text or text[:1].isspace() or text[-1:].isspace():
        text = "".join(line.strip() for line in text.splitlines())
    text = text.rstrip("=")
    if len(text) * 3 // 4 > max_bytes:
        raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
    if "-" in text or "_" in text:
        text = text.translate(_TO_STANDARD)
    try:
        return bytes(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError) as error:
        raise BadMedia(_not_base64(text)) from error


_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _not_base64(text: str) -> str:
    found = _NO_BASE64.search(text)
    if found is None:
        return "the data is not valid base64: it is cut short, or has a character too many"
    if found[0] == " ":
        return "the data is not valid base64: it has a space within a line, perhaps where a '+' was"
    return f"the data is not valid base64: it has {found[0]!r} at character {found.start()}"
