"""Who makes the headers that a provider knows its customer by: `Signer`, and the plain API key as one.

A signer sees the whole request, since some providers want it signed. Pure: one that has to wait (for a token, for a command) is
made elsewhere and returns an awaitable. Above: the engines of providers. Below: nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs

__all__ = ["HeaderFields", "KeySigner", "Signer", "bearer"]

HeaderFields = Sequence[tuple[str, str]]
"""Header fields: names in lower case, each with its value."""


class Signer(Protocol):
    """Gives each request the headers that prove who sends it."""

    def authorise(
        self, method: str, url: str, headers: HeaderFields, body: bytes
    ) -> HeaderFields | Awaitable[HeaderFields]:
        """The headers to send beside `headers`, at once or when awaited. `url` is whole, with its scheme, host and query, as it
        is sent; `body` is all of it. Called anew for each attempt, and for nothing but a request that is sent next. Raises
        SmgError where there is no credential to send. The values are secrets: whoever sends them keeps them out of logs."""
        ...


@attrs.frozen
class KeySigner:
    """An API key in one header: "x-api-key" (Anthropic), "x-goog-api-key" (Gemini), "api-key" (Azure) or "authorization", whose
    value begins with the `scheme` "Bearer". `key` is asked for each request, so that a key can be replaced while others are in
    flight."""

    header: str
    key: Callable[[], str] = attrs.field(repr=False)
    scheme: str = ""

    def authorise(self, method: str, url: str, headers: HeaderFields, body: bytes) -> HeaderFields:
        """The one header, whatever the request is."""
        value = self.key()
        return ((self.header, f"{self.scheme} {value}" if self.scheme else value),)


def bearer(key: Callable[[], str]) -> KeySigner:
    """An API key that is sent as `Authorization: Bearer`."""
    return KeySigner("authorization", key, "Bearer")
