"""Asks DNS servers, with the dnspython package (edge).

The standard library's resolver tells neither how long an answer holds nor SRV records. The package is loaded in a thread when the
first question is asked. Servers and search domains are the system's, unless the settings name servers; /etc/hosts is not read.
Above: operation.discovery. Below: dnspython.
"""

import asyncio
from typing import TYPE_CHECKING

from smg_core.discovery.dns import NoRecords, RecordKind
from smg_core.discovery.names import Host, Records, Service, server_address
from smg_core.discovery.settings import DiscoveryConfig

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

__all__ = ["DnsResolver"]


class DnsResolver:
    """Asks the servers that the settings name, else the system's."""

    def __init__(self, settings: DiscoveryConfig) -> None:
        self._settings = settings
        self._made: Resolver | None = None

    async def ask(self, name: str, kind: RecordKind) -> Records:
        """The records of `name`, of that kind. Raises NoRecords where no server answered, and where there is no such name."""
        from dns.exception import DNSException
        from dns.resolver import NoAnswer

        try:
            if self._made is None:
                self._made = await asyncio.to_thread(_resolver, self._settings)
            answer = await self._made.resolve(
                name,
                kind,
                raise_on_no_answer=False,
                lifetime=self._settings.dns_timeout_s,
                search=not self._settings.dns_servers,
            )
        except NoAnswer:
            return Records((), 0.0)
        except (DNSException, OSError) as error:
            raise NoRecords(" ".join(str(error).split()) or type(error).__name__) from None
        records = [_record(each, kind) for each in answer.rrset or ()]
        return Records(tuple(records), float(answer.chaining_result.minimum_ttl))


def _resolver(settings: DiscoveryConfig) -> "Resolver":
    from dns.asyncresolver import Resolver
    from dns.nameserver import Do53Nameserver

    made = Resolver(configure=not settings.dns_servers)
    if settings.dns_servers:
        made.nameservers = [Do53Nameserver(*server_address(each)) for each in settings.dns_servers]
    return made


def _record(data: object, kind: RecordKind) -> Host | Service:
    if kind == "SRV":
        from dns.rdtypes.IN.SRV import SRV

        if isinstance(data, SRV):
            return Service(data.target.to_text(omit_final_dot=True), data.port, data.priority, data.weight)
    return Host(str(data))
