"""The trusted proxies, and the way in which they name their clients.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Literal

import attrs

from smg_core.settings import ConfigError, bound, option

__all__ = ["ProxiesConfig"]


@attrs.frozen
class ProxiesConfig:
    """Proxies before the gateway that say whose connection or request they pass on. What others say of this counts nothing."""

    trusted: tuple[str, ...] = option(
        (), "Addresses and networks (10.0.0.0/8) of the proxies that are believed; may be repeated."
    )
    headers: Literal["off", "x-forwarded-for", "forwarded"] = option(
        "off",
        "Header in which trusted proxies name the client: X-Forwarded-For with X-Forwarded-Proto, or Forwarded (RFC "
        "7239). Name only one that they all write: another is passed on as the client sent it.",
    )
    hops: int = bound(
        16,
        "Most proxies that a request may have passed; the client is looked for no further.",
        at_least=1,
        at_most=1024,
    )
    protocol: bool = option(
        False, "Connections of trusted proxies begin with a PROXY header, version 1 or 2; one without it is closed."
    )
    protocol_bytes: int = bound(2048, "Longest PROXY header, in bytes.", at_least=232, at_most=65551)

    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks that are trusted. Raises ConfigError for what is none."""
        found = []
        for entry in self.trusted:
            try:
                found.append(ip_network(entry))
            except ValueError as error:
                raise ConfigError(f"proxies.trusted: {error}") from None
        return tuple(found)

    @property
    def believes(self) -> str:
        """The setting by which proxies are believed, "" where none is."""
        if self.protocol:
            return "proxies.protocol"
        return "" if self.headers == "off" else "proxies.headers"
