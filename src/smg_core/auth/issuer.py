"""Fetches the documents of an OpenID Connect issuer: its description and its public keys (edge).

Two addresses are fetched: that of the settings, and the `jwks_uri` that the issuer's description names, which is judged by the
same rules as an address of a stranger. Redirects are not followed, bytes and seconds are bounded. Above: oidc. Below: the guarded
GET of smg_multimodal, which judges addresses.
"""

import asyncio
import ssl
from urllib.parse import urlsplit

from smg_core.auth.json_objects import unambiguous_object
from smg_core.auth.settings import OidcConfig
from smg_core.settings import ConfigError
from smg_egress.resolving import Resolver, resolve_host
from smg_multimodal.fetching.egress import EgressRules
from smg_multimodal.fetching.guarded import GuardedConnection, answer_body, guarded_answer
from smg_multimodal.records.errors import MediaError

__all__ = ["IssuerDocuments", "IssuerUnreachable"]

_DESCRIPTION = "/.well-known/openid-configuration"
_HEADERS = {"accept": "application/json"}
_OK = 200
_HTTPS = 443


class IssuerUnreachable(Exception):
    """The documents could not be had, or are not what they must be. The text is for the operator."""


class IssuerDocuments:
    """The documents of one issuer, fetched anew on each call. Raises ConfigError for settings that cannot be used."""

    def __init__(self, settings: OidcConfig, *, resolver: Resolver = resolve_host) -> None:
        self._settings = settings
        self._issuer = settings.issuer or ""
        self._resolver = resolver
        urls = [self._issuer, settings.jwks_uri or self._issuer]
        ports = {_HTTPS} | {_port_of(url) for url in urls}
        private = frozenset(settings.private_hosts)
        self._rules = EgressRules(ports=frozenset(ports), private=private, max_redirects=0, what="an issuer's document")
        self._plain = EgressRules(
            schemes=frozenset({"http"}),
            hosts=private,
            ports=frozenset(ports),
            private=private,
            max_redirects=0,
            what="an issuer's document",
        )
        for url in urls:
            self._check(url)
        self._connection = GuardedConnection(_tls(settings.ca_file), settings.connect_s, settings.fetch_s)

    def _check(self, url: str) -> None:
        try:
            self._rules_of(url).target(url)
        except MediaError as error:
            raise ConfigError(f"oidc.issuer, oidc.jwks_uri: {url}: {error}; see oidc.private_hosts") from None

    def _rules_of(self, url: str) -> EgressRules:
        """Without encryption only hosts that the operator has named: whoever is on the way there could let anybody in."""
        return self._plain if url.lower().startswith("http:") else self._rules

    async def keys(self) -> bytes:
        """The document of the issuer's keys. Raises IssuerUnreachable."""
        try:
            async with asyncio.timeout(self._settings.fetch_s):
                url = self._settings.jwks_uri or await self._described()
                return await self._get(url)
        except TimeoutError:
            raise IssuerUnreachable(f"it took more than {self._settings.fetch_s:g} s") from None

    async def _described(self) -> str:
        """The address of the keys, from the issuer's description, which must be that of this issuer."""
        text = await self._get(self._issuer.rstrip("/") + _DESCRIPTION)
        try:
            described = unambiguous_object(text)
        except ValueError as error:
            raise IssuerUnreachable(f"its description is no JSON object: {error}") from None
        if described.get("issuer") != self._issuer:
            raise IssuerUnreachable("its description is that of another issuer")
        url = described.get("jwks_uri")
        if not isinstance(url, str):
            raise IssuerUnreachable("its description has no jwks_uri")
        return url

    async def _get(self, url: str) -> bytes:
        rules = self._rules_of(url)
        try:
            target = rules.target(url)
            addresses = await self._addresses(target.host, target.port)
            async with guarded_answer(rules, target, addresses, self._connection, _HEADERS) as answer:
                if answer.status_code != _OK:
                    raise IssuerUnreachable(f"{target.host} answered {answer.status_code}")
                return await answer_body(answer, self._settings.document_bytes, "the document")
        except MediaError as error:
            raise IssuerUnreachable(str(error)) from None

    async def _addresses(self, host: str, port: int) -> list[str]:
        # The resolver gives an address back as it is, without asking anybody.
        return list(await self._resolver(host, port))


def _port_of(url: str) -> int:
    """The port of an address of the settings. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        return parts.port or {"http": 80}.get(parts.scheme, _HTTPS)
    except ValueError:
        raise ConfigError(f"oidc.issuer, oidc.jwks_uri: {url} is no address") from None


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"oidc.ca_file: {ca_file} cannot be read: {error}") from None
