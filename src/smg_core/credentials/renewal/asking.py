"""Requests for tokens, under the rules of egress (edge).

A name is resolved and judged before anything is sent, and the connection goes to the address that was judged. Addresses of a
cloud's own network may be asked here and nowhere else. Above: the chains of AWS, Google, Entra. Below: smg_egress, engines.http.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import urlsplit

import attrs

from smg_core.engines.connections.target import Tls
from smg_core.engines.http.address import HttpAddress, proxy_for
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.http.client import HttpClient
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineStalled, EngineTimeout, WorkerGone
from smg_egress.resolving import Resolver, resolve_host
from smg_egress.rules import UrlRules

__all__ = ["METADATA_HOSTS", "TOKEN_HOSTS", "TokenAsker"]

METADATA_HOSTS = frozenset(
    {
        *("127.0.0.1", "localhost", "::1"),  # agents beside the process
        "169.254.169.254",  # instances of AWS, Azure and Google
        *("169.254.170.2", "169.254.170.23", "fd00:ec2::23", "fd00:ec2::254"),  # containers of AWS, instances by IPv6
        "metadata.google.internal",
    }
)
"""The hosts of clouds' own networks that give credentials, over plain HTTP."""
TOKEN_HOSTS = frozenset(
    {
        *(".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".amazonaws.eu"),
        *(".googleapis.com", "accounts.google.com"),
        *("login.microsoftonline.com", "login.microsoftonline.us", "login.partner.microsoftonline.cn"),
    }
)
"""The hosts that exchange credentials for tokens, over TLS; they may have addresses of a private network."""
_MOST_BYTES = 256 * 1024
"""Most bytes of an answer with a token."""
_AGAIN = (WorkerGone, EngineTimeout, EngineStalled)


_TOKEN = UrlRules(hosts=TOKEN_HOSTS, private=TOKEN_HOSTS, ports=None, what="a token")
_METADATA = UrlRules(
    schemes=frozenset({"http"}), hosts=METADATA_HOSTS, private=METADATA_HOSTS, ports=None, what="a credential"
)


_LIMITS = EnginesConfig()


@attrs.frozen
class TokenAsker:
    """Asks hosts for tokens: those of `token` by https, those of `metadata` by http. A try takes `timeout_s` at most, `near_s` at
    a host of `metadata`; `tries` are made where a host cannot be reached or says that it is at fault. `tls` has the authorities
    that are trusted, `limits` the proxy."""

    token: UrlRules = _TOKEN
    metadata: UrlRules = _METADATA
    tls: Tls | None = None
    timeout_s: float = 5.0
    near_s: float = 2.0
    tries: int = 3
    resolve: Resolver = resolve_host
    limits: EnginesConfig = _LIMITS

    def reaching(self, url: str) -> "TokenAsker":
        """The same, which may also ask the agent at `url`, that the environment of this process names, where it is one of this
        machine or of its own network link."""
        host = urlsplit(url).hostname or ""
        try:
            near = ip_address(host).is_link_local or ip_address(host).is_loopback
        except ValueError:
            near = False
        if not near:
            return self
        hosts = (self.metadata.hosts or frozenset()) | {host}
        return attrs.evolve(self, metadata=replace(self.metadata, hosts=hosts, private=self.metadata.private | {host}))

    async def ask(
        self, method: str, url: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
    ) -> HttpReply:
        """The answer, whatever its status. Raises EgressRefused (a ValueError) for a host that may not be asked, and SmgError
        where there is no answer."""
        near = url.startswith("http://")
        rules, seconds = (self.metadata, self.near_s) if near else (self.token, self.timeout_s)
        target = rules.target(url)
        origin = f"{target.scheme}://{target.authority}"
        address, limits = HttpAddress(origin, "", "", target.host, target.port), self.limits
        if proxy_for(address, limits.http_proxy, limits.http_direct) is None:  # a proxy resolves names itself
            limits = attrs.evolve(limits, http_proxy=None)
            async with asyncio.timeout(seconds):
                where = rules.address(target.host, await self.resolve(target.host, target.port))
            address = attrs.evolve(address, host=where)
        tls = attrs.evolve(self.tls or Tls(), server_name=target.host) if target.scheme == "https" else None
        left = self.tries
        while True:
            left -= 1
            client = HttpClient(address, headers=headers, tls=tls, limits=limits, connect_timeout=seconds)
            try:
                answer = await client.ask(method, target.path, body, timeout=seconds, most=_MOST_BYTES)
            except _AGAIN:
                if left <= 0:
                    raise
                continue
            finally:
                await client.close()
            if answer.status < 500 or left <= 0:
                return answer
