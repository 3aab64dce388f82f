"""The addresses that are trusted as proxies. Pure. Above: server.tls_accept and http.forwarded."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

__all__ = ["Networks", "address_of"]


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """The address that `text` is; None for other text. An IPv4 address within IPv6 (::ffff:10.0.0.1) is the IPv4 address."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


class Networks:
    """A set of addresses, given as networks."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self._networks = tuple(networks)

    def __contains__(self, text: object) -> bool:
        """Whether the address `text` is in one of the networks; False for what is no address."""
        address = address_of(text) if isinstance(text, str) else None
        return address is not None and any(address in network for network in self._networks)
