"""Callers by their TLS certificates: an authenticator (edge).

Asked where the request's credential is none of the gateway's: SDKs send a key always, also one that means nothing. Nothing here
waits. Above: identity.identity. Below: auth.certificates decides.
"""

from collections.abc import Callable, Iterable

from smg_core.auth.base import Authenticator, Head
from smg_core.auth.certificates import CertificateCallers
from smg_core.auth.roles import Roles
from smg_core.request import Caller

__all__ = ["by_certificate"]


def by_certificate(entries: Iterable[str], roles: Roles, now: Callable[[], float]) -> Authenticator:
    """The authenticator of these entries of `tls.client_names`. Raises ConfigError."""
    return _CertificateAuthenticator(CertificateCallers(entries, roles), now)


class _CertificateAuthenticator:
    """An `Authenticator` for requests of connections whose client has shown a certificate; `now` is the time in seconds since the
    Unix epoch."""

    def __init__(self, callers: CertificateCallers, now: Callable[[], float]) -> None:
        self._callers = callers
        self._now = now

    async def __call__(self, head: Head) -> Caller | None:
        """The caller; None without a certificate. Raises AuthenticationFailed for one that is not known or has expired."""
        certificate = head.certificate
        return None if certificate is None else self._callers.caller(certificate, self._now())
