"""The role of an authenticator: something that says whose a request is.

Roles without code. `identity.identity` asks the authenticators that the settings name, or the one that `Gateway(identity=...)`
was given. Above: `server`. Below: `request`, `credentials`.
"""

from collections.abc import Mapping
from typing import Protocol

from smg_core.auth.certificates import Certificate
from smg_core.auth.credentials import Credential
from smg_core.request import Caller

__all__ = ["Authenticator", "Head", "KnowsCallers"]


class Head(Protocol):
    """What is known of a request before its body is read. Header names are lower-cased; a name in the query has its values
    in order. `address` is the client's, without a port, "" where it is not known."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def query(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def address(self) -> str: ...

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the client has shown in the TLS handshake."""
        ...

    @property
    def credential(self) -> Credential | None:
        """The one credential that the request carries; None without any. Raises AuthenticationFailed for one that cannot be
        read, and for several that differ."""
        ...


class Authenticator(Protocol):
    """Says whose a request is. Called once for every request, before its body is read."""

    async def __call__(self, head: Head) -> Caller | None:
        """The caller; None where the request has no credential of the kind that this authenticator knows. Raises
        AuthenticationFailed for a wrong one, and StoreFailed where it cannot be checked now."""
        ...


class KnowsCallers(Protocol):
    """An authenticator that knows some callers already."""

    def known(self, credential: Credential) -> Caller | None:
        """The caller with this credential, if that can be said now, without waiting and without costly work. Raises
        AuthenticationFailed for a credential that is known to be no good any more."""
        ...

    def was_good(self, credential: Credential) -> bool:
        """Whether this credential was good when it was looked at last, though it has to be looked at again: who sends it does not
        guess, and is not held back for others who do."""
        ...
