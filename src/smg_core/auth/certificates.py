"""Callers by the certificates that they show in the TLS handshake.

The TLS library has checked a certificate's chain, time and revocation before anything here sees it. Decides whose requests come
by it: the first entry of `tls.client_names` that one of its names (of the extension subjectAltName: URI, DNS name, email
address) fits says tenant and roles. A certificate whose time has ended since the handshake is refused. Pure: the time is an
argument. Above: identity.certificates. Below: `roles`.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from smg_core.auth.names import is_caller_name
from smg_core.auth.roles import USER, Roles
from smg_core.errors import AuthenticationFailed
from smg_core.request import Caller
from smg_core.settings import ConfigError, nearest

__all__ = ["Certificate", "CertificateCallers", "certificate_of"]

KINDS: Mapping[str, str] = {"URI": "uri", "DNS": "dns", "email": "email"}
"""Kinds of names, as Python's module ssl calls them and as the settings do."""
_WORDS = ("tenant", "principal", "role", "model", "tool")
_SEVERAL = frozenset({"role", "model", "tool"})
_ALL = "*"


@attrs.frozen
class Certificate:
    """A client's certificate: its names, by kind ("uri", "dns", "email"), and when it expires, in seconds since the epoch."""

    names: tuple[tuple[str, str], ...]
    expires_at: float


def certificate_of(found: Mapping[str, Any]) -> Certificate | None:
    """The certificate that `ssl.SSLSocket.getpeercert` describes; None for an empty description: the client has shown none."""
    if not found:
        return None
    names = tuple((KINDS[kind], value) for kind, value in found.get("subjectAltName", ()) if kind in KINDS)
    ends = datetime.strptime(found["notAfter"], "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
    return Certificate(names, ends.timestamp())


@attrs.frozen
class _Entry:
    """One entry: certificates with a name of this kind and value (with `several`: that begins so), and their caller. Without a
    principal of its own, that is the name."""

    kind: str
    value: str
    several: bool
    caller: Caller

    def caller_of(self, certificate: Certificate) -> Caller | None:
        for kind, value in certificate.names:
            presented = value.lower() if kind == "dns" else value
            if kind == self.kind and (presented.startswith(self.value) if self.several else presented == self.value):
                caller = self.caller
                return Caller(caller.tenant, caller.principal or value, caller.grants)
        return None


class CertificateCallers:
    """Whose requests come by which certificate, by entries such as "uri:spiffe://cluster/team-a/* tenant=team-a role=user"."""

    def __init__(self, entries: Iterable[str], roles: Roles) -> None:
        """Raises ConfigError."""
        self._entries = tuple(_entry(text, roles) for text in entries)

    def caller(self, certificate: Certificate, now: float) -> Caller:
        """The caller with this certificate at the time `now`, in seconds since the Unix epoch. Raises AuthenticationFailed."""
        if now >= certificate.expires_at:
            raise AuthenticationFailed("The client's certificate has expired.")
        for entry in self._entries:
            caller = entry.caller_of(certificate)
            if caller is not None and is_caller_name(caller.principal):
                return caller
        raise AuthenticationFailed("No name of the client's certificate is known here.")


def _entry(text: str, roles: Roles) -> _Entry:
    name, *words = text.split()
    kind, colon, value = name.partition(":")
    kinds = tuple(KINDS.values())
    if not colon or not value or kind not in kinds:
        raise ConfigError(f"tls.client_names: {text}: expected KIND:NAME, where KIND is {', '.join(kinds)}")
    fields: dict[str, list[str]] = {}
    for word in words:
        field, equals, given = word.partition("=")
        if field not in _WORDS or not equals or not given:
            raise ConfigError(f"tls.client_names: {name}: there is no {field}{nearest(field, _WORDS)}")
        fields.setdefault(field, []).append(given)
    for field, values in fields.items():
        if len(values) > 1 and field not in _SEVERAL:
            raise ConfigError(f"tls.client_names: {name}: {field} is given twice")
    if "tenant" not in fields:
        raise ConfigError(f"tls.client_names: {name} names no tenant (tenant=NAME)")
    try:
        grants = roles.grants(fields.get("role", [USER]), fields.get("model", ()), fields.get("tool", ()))
    except ConfigError as error:
        raise ConfigError(f"tls.client_names: {name}: {error}") from None
    caller = Caller(fields["tenant"][0], fields.get("principal", [""])[0], grants)
    begins = value.removesuffix(_ALL)
    return _Entry(kind, begins.lower() if kind == "dns" else begins, value.endswith(_ALL), caller)
