"""`Signer`: who makes the headers that a provider knows its customer by.

A signer sees the whole request, since some providers want it signed. Pure. Above: the signers, the engines of providers. Below:
nothing.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

__all__ = ["SentFields", "Signer"]

SentFields = Sequence[tuple[str, str]]
"""Header fields: names in lower case, each with its value."""


class Signer(Protocol):
    """Gives each request the headers that prove who sends it, and learns from refusals."""

    def authorise(self, method: str, url: str, headers: SentFields, body: bytes) -> SentFields | Awaitable[SentFields]:
        """The headers to send beside `headers`, at once or when awaited. `url` is whole, with its scheme, host and query, as it
        is sent; `body` is all of it. Called anew for each attempt, and for nothing but a request that is sent next. Raises
        CredentialFailed where there is no credential to send. The values are secrets: whoever sends them keeps them out of
        logs."""
        ...

    def refused(self, sent: SentFields, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """A provider has answered with an error to a request with the headers `sent`, which `authorise` gave. Returns whether it
        was the credential, and another one, or a signature by another clock, is sent when `authorise` is asked again: then the
        request may be sent once more."""
        ...

    async def close(self) -> None:
        """Ask for no more credentials."""
        ...
